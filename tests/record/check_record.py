#!/usr/bin/env python3
"""Tests scripts/gpu_tests.py on a machine without a GPU: over a build folder of stubs that print what the
programs and compute-sanitizer would. Closes with `N passed, N failed`, as the summary of ./check reads it.
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from gpu_record import sets  # noqa: E402

DOCTEST = """echo "x.cpp:1: MESSAGE: {name} took 3 ns"
echo "[doctest] test cases:  5 |  5 passed | 0 failed | {left_out} skipped"
echo "[doctest] assertions: 40 | 40 passed | 0 failed |"
"""
OWN_COUNT = """echo "7 results checked, 0 wrong"
echo "[16384,1024] ReLU PerN activation_grad+bias_grad  56.47 us  3565.2 GB/s  0.896 of copy"
"""
SUITE = """[[ $* == "--compare policy wide" ]] || exit 2
echo "GPU, driver for CUDA 13.0, runtime 13.0, cuBLASLt 13.1.0, driver 580"
"""
PYTHON = """case $* in
  *pytest*) echo "MESSAGE: a direct call took 3 ns"; echo "3 passed, 0 failed, 1 skipped" ;;
  *torch_mlp*) echo "accuracy 0.976" ;;
  *) echo "a table" ;;
esac
"""
# Runs the program it is given; finds a planted bug, and nothing else.
SANITIZER = """tool=$2
for argument in "$@"; do program=$last; last=$argument; done
summary="ERROR SUMMARY: 0 errors"
[[ $tool == racecheck ]] && summary="RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
echo "========= COMPUTE-SANITIZER"
if [[ $program == */planted_bug ]]; then
  case $tool in
    memcheck) echo "========= Invalid __global__ write of size 4 bytes" ;;
    racecheck) echo "========= Error: Race reported between Write access at race(float*)+0x80" ;;
    synccheck) echo "========= Barrier error detected. Divergent thread(s) in warp." ;;
    initcheck) echo "========= Uninitialized __global__ memory read of size 4 bytes" ;;
  esac
  summary=${summary/SUMMARY: 0/SUMMARY: 1}
  echo "========= ${summary/(0 error/(1 error}"
  exit 9
fi
while [[ $1 == --* ]]; do shift 2; done
"$@"
code=$?
echo "========= $summary"
exit $code
"""

OTHER_THAN_A_RACE = """if [[ ${*: -1} == cluster_race ]]; then
  echo "========= Error: Potential invalid __shared__ read, block might not have entered yet"
  echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
  exit 9
fi
"""


class Stubs:
    """A build folder of stubs, all of which pass until one is replaced."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for program in sets.EVERY_TEST:
            self.put(program.path, DOCTEST.format(name=program.name, left_out=0))
        self.put("tests/gpu/test_gpu_gradients", OWN_COUNT)
        self.put("tests/gpu/planted_bug", "echo ran")
        self.put("samples/minimal", "echo 1 2 3")
        self.put("samples/digits/digits", 'echo "accuracy 0.976"')
        self.put("bench/bench_suite", SUITE)
        self.put("bench/bench_user_object", "echo plain 1.77")
        self.put("bin/compute-sanitizer", SANITIZER)
        self.put("bin/python3", PYTHON)

    def put(self, path, script):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/usr/bin/env bash\n" + script, encoding="utf-8")
        file.chmod(0o755)

    def script(self, *arguments):
        """Exit code and output of gpu_tests.py, and the record."""
        record = self.folder / "record.md"
        record.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-B", str(ROOT / "scripts/gpu_tests.py"), *arguments, "--out", str(record)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"})
        return done.returncode, done.stdout, record.read_text("utf-8") if record.exists() else ""

    def run(self, *arguments):
        return self.script(str(self.folder), "--commit", "abc", *arguments)


PASSED = FAILED = 0


def test(name, change, arguments, code, in_output=(), in_record=(), not_in_record=()):
    """Runs the script over stubs that `change` has changed; compares the exit code and some texts."""
    global PASSED, FAILED
    with tempfile.TemporaryDirectory() as folder:
        stubs = Stubs(folder)
        change(stubs)
        got, output, record = stubs.run(*arguments)
    wrong = [f"exit code {got}, expected {code}"] if got != code else []
    wrong += [f"not printed: {text}" for text in in_output if text not in output]
    wrong += [f"not in the record: {text}" for text in in_record if text not in record]
    wrong += [f"in the record: {text}" for text in not_in_record if text in record]
    PASSED += not wrong
    FAILED += bool(wrong)
    if wrong:
        print(f"FAILED {name}", *wrong, output, sep="\n  ")


def put(path, script):
    return lambda stubs: stubs.put(path, script)


def nothing(_):
    pass


MATRIX = "tests/gpu/test_gpu_matrix"
PLAIN = DOCTEST.format(name="x", left_out=0)

test("all passes", nothing, [], 0, ["everything passed"],
     ["* Result: everything passed", "* Commit: abc",
      "* Software: GPU, driver for CUDA 13.0, runtime 13.0, cuBLASLt 13.1.0", "test_gpu_lifecycle took 3 ns",
      "| planted bug | `planted_bug racecheck` | - | 1 |", "Run under initcheck: ", "accuracy 0.976"],
     ["Partial", "FAILED"])
test("a run of some sections says so", nothing, ["--only", "memcheck,digits"], 0, (),
     ["* Partial; sections: digits, memcheck; not run: tests, alone, chains, large, bench, python, python_alone, "
      "racecheck"])
test("a quick run says so", nothing, ["--quick"], 0, (), ["* Quick, with fewer cases: tests"])
test("an unknown section is refused", nothing, ["--only", "memchek"], 2, ["no such section: memchek"])
test("a failed case", put(MATRIX, PLAIN.replace("5 passed | 0 failed", "4 passed | 1 failed") + "exit 1"),
     ["--only", "tests"], 1, ["test_gpu_matrix"], ["**FAILED: exit code 1**", "* Result: 1 failed"])
test("a skipped program", put(MATRIX, 'echo "skipped: no GPU"; exit 77'), ["--only", "tests"], 1, (),
     ["**FAILED: skipped**"])
test("a program for two GPUs where there is one",
     put("tests/gpu/test_gpu_two_devices", 'echo "skipped: fewer than two GPUs"; exit 77'), ["--only", "alone"], 0,
     (), ["| `test_gpu_two_devices` | - | - | 0.0 | not run: needs 2 GPUs |"])
test("a program for two GPUs that fails", put("tests/gpu/test_gpu_two_devices", "exit 1"), ["--only", "alone"], 1,
     (), ["**FAILED: exit code 1**"])
test("a case left out of a whole run", put(MATRIX, DOCTEST.format(name="x", left_out=1)),
     ["--only", "tests"], 1, (), ["**FAILED: 5 cases passed, 0 failed, 1 left out**"])
test("a program that says nothing", put(MATRIX, "echo hello"), ["--only", "tests"], 1, (),
     ["did not say what it checked"])
test("a program that is not built", lambda stubs: (stubs.folder / MATRIX).unlink(), ["--only", "tests"],
     1, (), ["**FAILED: not built**"])
test("a program that hangs", put(MATRIX, "sleep 100"), ["--only", "tests", "--budget", "1"], 1, (),
     ["**FAILED: out of time**"])
test("too slow a gradient", put("tests/gpu/test_gpu_gradients", OWN_COUNT.replace("0.896", "0.796")),
     ["--only", "alone"], 1, (), ["at least 0.80 of the copy: 0.796 **FAILED"])
test("too inaccurate a sample", put("samples/digits/digits", 'echo "accuracy 0.969"'),
     ["--only", "digits"], 1, (), ["**FAILED: too inaccurate**"])
test("a comparison that is too slow", put("bench/bench_suite", SUITE + "exit 1"), ["--only", "bench"], 1, (),
     ["Ratios at most 1.05: **FAILED: exit code 1**"])
test("the Python module", nothing, ["--only", "python"], 0, (),
     ["| `test_tuning_gpu.py` | 3 passed, 0 failed, 1 skipped |", "a direct call took 3 ns", "accuracy 0.976"],
     ["test_lifetime_gpu", "latency.py"])
test("what of the Python module wants a GPU of its own", nothing, ["--only", "python_alone"], 0, (),
     ["| `test_lifetime_gpu.py` | 3 passed, 0 failed, 1 skipped |", "a direct call took 3 ns", "a table"],
     ["test_tuning_gpu", "torch_mlp.py"])
test("every file that wants a GPU of its own is there", nothing, ["--only", "python_alone"], 0,
     [f"{stem}.py" for stem in sets.PYTHON_ALONE])
test("a failed Python test", put("bin/python3", PYTHON.replace("3 passed, 0 failed", "2 passed, 1 failed")),
     ["--only", "python"], 1, (), ["**FAILED: 2 cases passed, 1 failed, 1 left out**"])
test("too inaccurate a Python sample", put("bin/python3", PYTHON.replace("0.976", "0.965")),
     ["--only", "python"], 1, (), ["**FAILED: too inaccurate**"])
for tool in (s.tool for s in sets.SANITIZERS):
    only = ["--only", tool]
    test(f"{tool} catches its planted bug", nothing, only, 0, [f"{tool} planted bug"],
         [f"| planted bug | `planted_bug {tool}` | - | 1 | 0 | caught |", f"Run under {tool}: "])
    test(f"{tool} misses its planted bug",
         put("bin/compute-sanitizer", SANITIZER.replace("*/planted_bug", "never")), only, 1, (),
         ["**FAILED: the planted bug was not caught**", f"Run under {tool}: nothing."])
    test(f"{tool} finds another bug than the planted one",
         put("bin/compute-sanitizer", SANITIZER.replace(f"{tool}) echo", "other) echo")), only, 1, (),
         ["**FAILED: another error than the planted bug's was found**"])
    test(f"{tool} finds an error",
         put("bin/compute-sanitizer", SANITIZER.replace('summary="ERROR SUMMARY: 0', 'summary="ERROR SUMMARY: 2')
             .replace("0 hazards displayed (0 errors, 0 w", "2 hazards displayed (2 errors, 0 w")),
         only, 1, (), ["**FAILED: 2 errors**"])
    test(f"{tool} is absent", lambda stubs: (stubs.folder / "bin/compute-sanitizer").unlink(), only, 1, (),
         ["**FAILED: not built**"])
    test(f"{tool} runs no case at all", put("tests/gpu/test_gpu_matrix", PLAIN.replace("5 passed", "0 passed")),
         only, 1, (), ["**FAILED: 0 cases passed"])
    test(f"{tool} runs programs that skip", put("samples/minimal", "exit 77"), only, 1, (),
         ["**FAILED: skipped**"])
CLUSTER = "two blocks of a cluster that share memory without a barrier | `planted_bug cluster_race` | - |"
test("racecheck sees a race in a cluster", nothing, ["--only", "racecheck"], 0, ["racecheck cluster_race"],
     [f"{CLUSTER} 1 | 0 | caught |"])
test("racecheck does not see a race in a cluster, which is no failure",
     put("bin/compute-sanitizer",
         SANITIZER.replace("*/planted_bug ]]", "*/planted_bug && $last != cluster_race ]]")),
     ["--only", "racecheck"], 0, (),
     [f"{CLUSTER} 0 | 0 | the tool does not see it; `tests/gpu/chain_replays.cpp` stands in |"])
test("racecheck finds another error than a race in a cluster",
     put("bin/compute-sanitizer", OTHER_THAN_A_RACE + SANITIZER), ["--only", "racecheck"], 1, (),
     [f"{CLUSTER} 1 | 0 | **FAILED: another error than the planted bug's was found** |",
      "| planted bug | `planted_bug racecheck` | - | 1 | 0 | caught |"])
test("a GPU without clusters",
     put("bin/compute-sanitizer", "[[ ${*: -1} == cluster_race ]] && exit 77\n" + SANITIZER),
     ["--only", "racecheck"], 0, (), [f"{CLUSTER} - | 0 | not run: no clusters here |"])
test("a race in a cluster that cannot be run",
     put("bin/compute-sanitizer", "[[ ${*: -1} == cluster_race ]] && exit 3\n" + SANITIZER),
     ["--only", "racecheck"], 1, (), [f"{CLUSTER} - | 0 | **FAILED: exit code 3** |"])
test("a tool that lost track", put("samples/minimal", "echo \"didn't track the launch\""),
     ["--only", "initcheck"], 1, (), ["the tool did not see everything"])

with tempfile.TemporaryDirectory() as scratch:
    built = Stubs(scratch)
    logs = [str(pathlib.Path(scratch) / name) for name in ("one", "two", "three")]
    first = "tests,alone,chains,large,bench,digits,python,python_alone"
    second = "memcheck,racecheck,synccheck,initcheck"
    codes = [built.run("--only", first, "--logs", logs[0])[0], built.run("--only", second, "--logs", logs[1])[0]]
    code, output, text = built.script("--assemble", *logs[:2])
    good = [*codes, code] == [0, 0, 0] and "Partial" not in text and "`planted_bug synccheck`" in text
    built.run("--only", "digits", "--logs", logs[2], "--commit", "def")
    code, output, text = built.script("--assemble", *logs[1:])
    good_mixed = code == 2 and "different commits: abc, def" in output and not text
for name, well in (("two runs make one record", good), ("two commits make none", good_mixed)):
    PASSED, FAILED = PASSED + well, FAILED + (not well)
    if not well:
        print(f"FAILED {name}", output, sep="\n  ")

print(f"{PASSED} passed, {FAILED} failed")
sys.exit(FAILED > 0)
