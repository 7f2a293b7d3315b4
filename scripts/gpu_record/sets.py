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
    gpus: int = 1  # with fewer it is not run, and that is no failure

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
    probe: str = ""  # a second planted bug: whether the tool sees it is recorded, and no failure
    probe_planted: str = ""  # what it says of that
    probe_finds: str = ""
    probe_stand_in: str = ""  # what tests for such bugs where the tool does not see it


MATRIX = "tests/gpu/test_gpu_matrix"
CASES = "tests/gpu/test_gpu_cases"
NETWORK = "tests/gpu/test_gpu_network"
LIFECYCLE = "tests/gpu/test_gpu_lifecycle"
DIRECT = "tests/gpu/test_gpu_direct_lifecycle"
REBIND = "tests/gpu/test_gpu_rebind"
COPIES = "tests/gpu/test_gpu_copies"
CHAINS = "tests/gpu/test_gpu_chains"
GRADIENT_STEPS = "tests/gpu/test_gpu_gradients"

TESTS = [
    Program("every case on the host, by the direct path and as a replay; every candidate", MATRIX,
            quick=["-tc=*at every edge*,*C12*,*C17*"], limit=400),
    Program("cases of shapes, layouts, values and reductions", CASES, limit=240),
    Program("whole networks, forward and backward", NETWORK, quick=["-tc=*temporaries*"], limit=300),
    Program("candidates made again from what the tuning file keeps", "tests/gpu/test_gpu_recipes"),
]

# They watch free memory, or measure times: nothing else may use the GPU meanwhile.
ALONE = [
    Program("captures of others, failures, threads, lifetime", LIFECYCLE, limit=180),
    Program("the same of the direct path", DIRECT, limit=180),
    Program("two GPUs in one process", "tests/gpu/test_gpu_two_devices", gpus=2),
    Program("first use in a process", "tests/gpu/test_gpu_first_use", limit=180),
    Program("a device without free memory", "tests/gpu/test_gpu_memory_pressure"),
    Program("rebinding and cloning", REBIND),
    Program("host memory at the ends", COPIES),
    Program("host cost of a launch", "tests/gpu/test_gpu_launch_cost"),
    Program("host cost of a direct call", "tests/gpu/test_gpu_direct_cost"),
    Program("gradient steps over odd shapes, bandwidth", GRADIENT_STEPS, quick=["--quick"]),
]

# Files of tests/python/gpu that watch free memory or measure times, likewise.
PYTHON_ALONE = ("test_cost_gpu", "test_direct_gpu", "test_lifetime_gpu")

# Minutes, most of them of compiling and measuring for hundreds of networks.
CHAIN_TESTS = [
    Program("networks forward in one kernel", CHAINS, ["--duration"],
            quick=["-tc=*where all Ys are kept,small*,*NaN and Inf*,*second start*"], limit=590),
]

# Gigabytes and many seconds: run by its label for a record, never by ./check.
LARGE = [
    Program("operands and outputs over 2^31 elements", "tests/gpu/test_gpu_large", quick=None,
            limit=400),
]

EVERY_TEST = [*TESTS, *ALONE, *CHAIN_TESTS, *LARGE]

# Kernels of the library and the CUB kernels made for it; library kernels of others are not looked
# into, so that what is found is ours. The planted kernels are found through the same filter.
OWN_KERNELS = ["--kernel-name", "kns=2ai7kernels"]
OWN_REMARK = ("Looks into the library's own kernels and the CUB kernels instantiated for it "
              "(`--kernel-name kns=2ai7kernels`), and not into cuBLASLt's.")

# Every kernel made for a network has this name, and no namespace.
SMALL_CHAINS = ["-tc=small*"]
CHAIN_KERNELS = ["--kernel-name", "kns=chain_kernel"]

SMALL = [
    Program("gradient steps over odd shapes", GRADIENT_STEPS, ["--sanitize"], ["--sanitize"]),
    Program("bitwise exactness, direct and replayed", MATRIX, ["-tc=*C17*"], ["-tc=*C17*"]),
    Program("empty extents, padding, sums of nothing", CASES, ["-tc=C1:*,C2:*,C16: padding*,D2:*"],
            ["-tc=C1:*,D2:*"]),
    Program("one layer", "samples/minimal"),
]

SANITIZERS = [
    Sanitizer(
        "memcheck", "Invalid __global__ write", "a write past the end of a buffer",
        [Program("every candidate, tuned replays", MATRIX, ["-tc=*every candidate*,*tuned*"],
                 ["-tc=*C12*"], limit=300),
         Program("networks over temporaries", NETWORK, ["-tc=*same bits as over buffers*"], None),
         Program("lifetime, threads, NaN, replays", LIFECYCLE, ["-tc=B7*,C4*,D6*"], ["-tc=C4*"]),
         Program("direct calls, captured and not", DIRECT,
                 ["-tc=B1:*,B5*,B6*,*branch of it*"], ["-tc=B6*"]),
         # An update that the driver refuses is a part of B6, and no error.
         Program("rebinding and cloning", REBIND, ["-tc=B4*,B6*,*two buffers*,*clones on two*"],
                 None, options=["--report-api-errors", "no"]),
         Program("copies of any layout", COPIES, ["-tc=*any strides*,*orders copies*"], None),
         Program("networks in one kernel", CHAINS, SMALL_CHAINS, SMALL_CHAINS, 300),
         *SMALL]),
    Sanitizer(
        "racecheck", "Race reported between", "two warps that share memory without a barrier",
        [Program("networks in one kernel", CHAINS, SMALL_CHAINS, SMALL_CHAINS, 300, CHAIN_KERNELS),
         *SMALL],
        OWN_KERNELS, OWN_REMARK, "cluster_race", "Race reported between",
        "two blocks of a cluster that share memory without a barrier",
        "tests/gpu/chain_replays.cpp"),
    Sanitizer(
        "synccheck", "Barrier error detected. Divergent thread(s)",
        "a barrier that a part of a warp does not reach",
        [Program("networks in one kernel", CHAINS, SMALL_CHAINS, SMALL_CHAINS, 300,
                 [*CHAIN_KERNELS, "--num-cuda-barriers", "4096"]),
         *SMALL],
        OWN_KERNELS, OWN_REMARK),
    Sanitizer(
        "initcheck", "Uninitialized __global__ memory read", "a read of memory nobody has written",
        SMALL, (),
        "All kernels, cuBLASLt's too: what they write would else count as unwritten. Scratch and "
        "workspaces are left as they were allocated; operands are written whole, padding "
        "included."),
]
