"""The tables of what is run: programs of the tests, and the named set of each sanitizer."""

from dataclasses import dataclass
from typing import Optional, Sequence


@dataclass(frozen=True)
class Program:
    """One program of the build folder. `quick`: its arguments in a quick run, None to leave it out."""
    what: str
    path: str
    arguments: Sequence[str] = ()
    quick: Optional[Sequence[str]] = ()
    limit: int = 120  # seconds
    options: Sequence[str] = ()  # for the sanitizer alone

    @property
    def name(self):
        return self.path.rsplit("/", 1)[-1]

    def arguments_of(self, quick):
        return self.quick if quick else self.arguments


@dataclass(frozen=True)
class Sanitizer:
    """A tool of compute-sanitizer: the report of its planted bug, and what it runs."""
    tool: str
    planted: str  # what it says of the planted bug
    finds: str
    programs: Sequence[Program]
    options: Sequence[str] = ()
    remark: str = ""


TESTS = [
    Program("oracle matrix, exact test, every candidate", "tests/gpu/test_gpu_matrix",
            quick=["-tce=*for every activation*"], limit=200),
    Program("whole networks, forward and backward", "tests/gpu/test_gpu_network",
            quick=["-tc=*temporaries*"], limit=120),
    Program("captures of others, failures, threads, lifetime", "tests/gpu/test_gpu_lifecycle"),
    Program("host cost of a launch", "tests/gpu/test_gpu_launch_cost"),
    Program("gradient steps over odd shapes, bandwidth", "tests/gpu/test_gpu_gradients",
            quick=["--quick"]),
]

# Each needs gigabytes and many seconds: run once for a record, never by ctest alone.
LARGE = [
    Program("over 2^31 elements and spans", "tests/gpu/test_gpu_large", quick=None, limit=400),
]

# Kernels of the library and the CUB kernels made for it; library kernels of others are not looked
# into, so that what is found is ours. The planted kernels are found through the same filter.
OWN_KERNELS = ["--kernel-name", "kns=2ai7kernels"]
OWN_REMARK = ("Looks into the library's own kernels and the CUB kernels instantiated for it "
              "(`--kernel-name kns=2ai7kernels`), and not into cuBLASLt's.")

GRADIENTS = Program("gradient steps over odd shapes", "tests/gpu/test_gpu_gradients",
                    ["--sanitize"], ["--sanitize"])
EDGES = Program("forward and backward at every edge, bitwise exactness", "tests/gpu/test_gpu_matrix",
                ["-tc=*at every edge*,*C17*"], ["-tc=*C17*"])
MINIMAL = Program("one layer", "samples/minimal")

SANITIZERS = [
    Sanitizer(
        "memcheck", "Invalid __global__ write", "a write past the end of a buffer",
        [Program("every candidate, tuned replays, edges", "tests/gpu/test_gpu_matrix",
                 ["-tce=*for every activation*"], ["-tc=*C12*"]),
         Program("networks over temporaries", "tests/gpu/test_gpu_network", ["-tc=*temporaries*"],
                 None),
         Program("lifetime, captures", "tests/gpu/test_gpu_lifecycle", ["-tc=*B7*,*C4*,*D6*"],
                 ["-tc=*C4*"]),
         GRADIENTS, MINIMAL]),
    Sanitizer(
        "racecheck", "Race reported between", "two warps that share memory without a barrier",
        [GRADIENTS, EDGES, MINIMAL], OWN_KERNELS, OWN_REMARK),
    Sanitizer(
        "synccheck", "Barrier error detected. Divergent thread(s)",
        "a barrier that a part of a warp does not reach",
        [GRADIENTS, EDGES, MINIMAL], OWN_KERNELS, OWN_REMARK),
    Sanitizer(
        "initcheck", "Uninitialized __global__ memory read", "a read of memory nobody has written",
        [GRADIENTS, EDGES, MINIMAL], (),
        "All kernels, cuBLASLt's too: what they write would else count as unwritten. Scratch and "
        "workspaces are left as they were allocated; operands are written whole, padding "
        "included."),
]
