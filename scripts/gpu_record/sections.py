"""The sections of the record. Each runs its programs and returns lines of Markdown."""

import os
import pathlib
import re
import shlex

from .runner import SKIPPED
from .sets import ALONE, CHAIN_TESTS, LARGE, PYTHON_ALONE, SANITIZERS, TESTS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ERROR_EXIT_CODE = 9
NOT_CAUGHT = "the planted bug was not caught"
OTHER_ERROR = "another error than the planted bug's was found"
ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error")
HAZARDS = re.compile(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
# What a tool says when it has not seen everything.
BLIND = re.compile(r"Internal Sanitizer Error|might go undetected|didn't track the launch|"
                   r"Results might be incorrect|communication error", re.IGNORECASE)


def fenced(lines):
    return ["```", *lines, "```", ""]


def programs_of(table, runner):
    return [p for p in table if not runner.quick or p.quick is not None]


def table_of_tests(runner, programs):
    lines = ["| what | program | cases | assertions | seconds | |", "|---|---|---|---|---|---|"]
    outcomes = {}
    for program in programs:
        arguments = program.arguments_of(runner.quick)
        outcome = runner.run(program.name, runner.program(program.path, arguments), program.limit)
        outcomes[program.name] = outcome
        is_left_out = program.gpus > 1 and outcome.code == SKIPPED
        trouble = "" if is_left_out else outcome.why_not(whole=not runner.quick)
        if not trouble and not is_left_out and not outcome.counts and not outcome.checked:
            trouble = "it did not say what it checked"
        if trouble:
            print(*outcome.output.splitlines()[-25:], sep="\n", flush=True)
        cases = "-"
        if outcome.counts:
            cases = "{} passed, {} failed, {} skipped".format(*outcome.counts)
        elif outcome.checked:
            cases = "{} results checked, {} wrong".format(*outcome.checked)
        good = f"not run: needs {program.gpus} GPUs" if is_left_out else "ok"
        word = runner.note(program.name, trouble, outcome.seconds, good)
        lines.append(f"| {program.what} | `{program.name}` | {cases} | {outcome.assertions} | "
                     f"{outcome.seconds:.1f} | {word} |")
    return [*lines, ""], outcomes


def measured(outcomes, but=()):
    """What the programs measured on the way, as they printed it."""
    lines = []
    for name, outcome in outcomes.items():
        if outcome.messages and name not in but:
            lines += [f"`{name}`", "", *fenced(outcome.messages)]
    return lines


def bandwidth(runner, outcome):
    wanted = [line for line in outcome.output.splitlines()
              if "copy" in line.lower() and ("[16384,1024]" in line or "MB" in line or "GiB" in line)]
    share = re.search(r"\[16384,1024\] ReLU PerN.*?([\d.]+) of copy", outcome.output)
    trouble = "" if share and float(share[1]) >= 0.8 else "less than 0.80, or not measured"
    word = runner.note("gBias bandwidth", trouble, 0)
    return ["## Activation and bias gradient against copy bandwidth", "",
            "gY and Z read, gZ written once; the copies are of the same run.", "",
            "gBias PerN with ReLU over [16384,1024], at least 0.80 of the copy: "
            f"{share[1] if share else '-'} {word}", "", *fenced(wanted)]


def tests(runner):
    lines, outcomes = table_of_tests(runner, programs_of(TESTS, runner))
    return ["## Results of every kernel", "", *lines, *measured(outcomes)]


def alone(runner):
    lines, outcomes = table_of_tests(runner, programs_of(ALONE, runner))
    lines = ["## Memory, failures, threads and cost on a GPU of their own", "", *lines]
    launch = "test_gpu_launch_cost"
    if launch in outcomes:
        lines += ["## Host cost of Executable::launch", "", *fenced(outcomes[launch].messages)]
    lines += ["## What these tests measured", "", *measured(outcomes, but=[launch])]
    if "test_gpu_gradients" in outcomes:
        lines += bandwidth(runner, outcomes["test_gpu_gradients"])
    return lines


def chains(runner):
    lines, outcomes = table_of_tests(runner, programs_of(CHAIN_TESTS, runner))
    return ["## Networks in one kernel", "", *lines, *measured(outcomes)]


def large(runner):
    lines, outcomes = table_of_tests(runner, programs_of(LARGE, runner))
    return ["## Over 2^31 elements", "", *lines, *measured(outcomes)]


def bench(runner):
    comparison = runner.program("bench/bench_suite", ["--compare", "policy", "wide"])
    compared = runner.run("bench_suite", comparison, 300)
    word = runner.note("bench_suite", compared.why_not(whole=True), compared.seconds)
    lines = ["## Forward chains against hand-written cuBLASLt, one graph each", "",
             "Device microseconds per replay, back to back, median of 31 interleaved rounds; `fast` and "
             "`same` are the peers of docs/performance.md. Every result is checked. "
             f"Ratios at most 1.05: {word}", "",
             *fenced(compared.output.splitlines())]
    objects = runner.run("bench_user_object", runner.program("bench/bench_user_object"), 60)
    word = runner.note("bench_user_object", objects.why_not(whole=True), objects.seconds)
    return [*lines, "## What a user object would cost", "",
            f"Why executables do not let their graph retain their memory: {word}", "",
            *fenced(objects.output.splitlines())]


def digits(runner):
    data = str(ROOT / "samples/data/digits.csv")
    outcome = runner.run("digits", runner.program("samples/digits/digits",
                                                  ["--target", "cuda", "--data", data]), 200)
    accuracy = re.search(r"^accuracy ([\d.]+)", outcome.output, re.MULTILINE)
    trouble = outcome.why_not(whole=True)
    if not trouble and (accuracy is None or float(accuracy[1]) < 0.97):
        trouble = "too inaccurate"
    word = runner.note("digits", trouble, outcome.seconds)
    return ["## samples/digits on the GPU", "",
            f"Mean test accuracy of five seeds at least 0.97: {word}", "",
            *fenced(outcome.output.splitlines())]


def python_environment(runner):
    return {**os.environ, "PYTHONPATH": str(runner.python), "PYTHONDONTWRITEBYTECODE": "1"}


def python_tests(runner, title, is_wanted):
    """The tests of the Python module in files that are wanted, with the python3 on PATH."""
    lines = [title, "", "| test file | cases | seconds | |", "|---|---|---|---|"]
    messages = []
    for path in sorted((ROOT / "tests/python/gpu").glob("test_*.py")):
        if not is_wanted(path.stem):
            continue
        command = ["python3", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(path)]
        outcome = runner.run(f"python_{path.stem}", command, 150, python_environment(runner))
        trouble = outcome.why_not(whole=False)
        if not trouble and not outcome.counts:
            trouble = "it did not say what it checked"
        if trouble:
            print(*outcome.output.splitlines()[-40:], sep="\n", flush=True)
        cases = "{} passed, {} failed, {} skipped".format(*outcome.counts) if outcome.counts else "-"
        word = runner.note(path.name, trouble, outcome.seconds)
        lines.append(f"| `{path.name}` | {cases} | {outcome.seconds:.1f} | {word} |")
        messages += outcome.messages
    return [*lines, "", *(fenced(messages) if messages else [])]


def python_sample(runner, name, arguments=(), least_accuracy=None):
    command = ["python3", str(ROOT / "samples/python" / name), *arguments]
    outcome = runner.run(f"python_{name}", command, 240, python_environment(runner))
    trouble = outcome.why_not(whole=True)
    accuracy = re.search(r"^accuracy ([\d.]+)", outcome.output, re.MULTILINE)
    if not trouble and least_accuracy and (not accuracy or float(accuracy[1]) < least_accuracy):
        trouble = "too inaccurate"
    if trouble:
        print(*outcome.output.splitlines()[-25:], sep="\n", flush=True)
    word = runner.note(name, trouble, outcome.seconds)
    return [f"`samples/python/{name}`: {word}", "", *fenced(outcome.output.splitlines())]


def python(runner):
    return [*python_tests(runner, "## The Python module", lambda stem: stem not in PYTHON_ALONE),
            *python_sample(runner, "torch_mlp.py", ["--device", "cuda"], least_accuracy=0.966)]


def python_alone(runner):
    return [*python_tests(runner, "## Memory and cost of the Python module on a GPU of its own",
                          lambda stem: stem in PYTHON_ALONE),
            *python_sample(runner, "latency.py")]


def errors_in(output):
    """How many errors and warnings a sanitizer counted; None where it printed no summary."""
    hazards = HAZARDS.search(output)
    if hazards:
        return max(int(hazards[1]), int(hazards[2]) + int(hazards[3]))
    errors = ERRORS.search(output)
    return int(errors[1]) if errors else None


def reports_in(output, most=16):
    """The distinct lines of a sanitizer's reports that say what and where, without addresses."""
    lines = []
    for line in output.splitlines():
        text = re.sub(r"^=+ *", "", line).strip()
        if not line.startswith("=====") or not text or text.startswith("COMPUTE-SANITIZER"):
            continue
        if re.match(r"(Address|by thread|Saved host|Host Frame|Device Frame|in /|and is)", text):
            continue
        if text not in lines:
            lines.append(text)
    return lines[:most]


def planted_trouble(outcome, text):
    """Why a planted bug does not count as caught, empty where it does; `text`: what is said of it."""
    found = errors_in(outcome.output)
    if outcome.code == ERROR_EXIT_CODE and found and text in outcome.output:
        return ""
    if outcome.code == ERROR_EXIT_CODE or found:
        return OTHER_ERROR
    return outcome.why_not(whole=True) or NOT_CAUGHT


def probe(runner, spec, command):
    """The row of a planted bug that the tool may or may not see: a note on it, and no failure."""
    name = f"{spec.tool}_{spec.probe}"
    outcome = runner.run(name, command + runner.program("tests/gpu/planted_bug", [spec.probe]), 60)
    found = errors_in(outcome.output)
    trouble, result = planted_trouble(outcome, spec.probe_planted), "caught"
    if outcome.code == SKIPPED:
        trouble, result = "", "not run: no clusters here"
    elif trouble == NOT_CAUGHT:
        trouble = "no summary of errors" if found is None else ""
        result = f"the tool does not see it; `{spec.probe_stand_in}` stands in"
    word = runner.note(f"{spec.tool} {spec.probe}", trouble, outcome.seconds, result)
    return (f"| {spec.probe_finds} | `planted_bug {spec.probe}` | - | "
            f"{'-' if found is None else found} | {outcome.seconds:.0f} | {word} |")


def sanitizer(runner, tool):
    """First the planted bug, which must be found; then the named set, without an error."""
    spec = next(s for s in SANITIZERS if s.tool == tool)
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(ERROR_EXIT_CODE),
               *spec.options]
    lines = [f"## compute-sanitizer {tool}", "",
             f"A program with {spec.finds} runs first: a clean report counts only if that one is "
             "caught." + (f" {spec.remark}" if spec.remark else ""), "",
             "| what | program | checked | errors | seconds | |", "|---|---|---|---|---|---|"]
    planted = runner.run(f"{tool}_planted", command + runner.program("tests/gpu/planted_bug", [tool]),
                         60)
    found = errors_in(planted.output)
    trouble = planted_trouble(planted, spec.planted)
    caught = not trouble
    word = runner.note(f"{tool} planted bug", trouble, planted.seconds, "caught")
    lines.append(f"| planted bug | `planted_bug {tool}` | - | {'-' if found is None else found} | "
                 f"{planted.seconds:.0f} | {word} |")
    if caught and spec.probe:
        lines.append(probe(runner, spec, command))
    amounts, details = {}, []
    for number, program in enumerate(programs_of(spec.programs, runner) if caught else [], 1):
        arguments = program.arguments_of(runner.quick)
        name = f"{tool}_{number}_{program.name}"
        outcome = runner.run(name, command + list(program.options) +
                             runner.program(program.path, arguments), program.limit)
        errors = errors_in(outcome.output)
        trouble = outcome.why_not(whole=False)
        if errors:
            trouble = f"{errors} errors"
        elif not trouble and errors is None:
            trouble = "no summary of errors"
        elif not trouble and BLIND.search(outcome.output):
            trouble = "the tool did not see everything: " + BLIND.search(outcome.output)[0]
        if trouble:
            print(*reports_in(outcome.output), sep="\n", flush=True)
            details += [f"`{name}`:", "", *fenced(reports_in(outcome.output))]
        amount, kind = outcome.amount.split(" ", 1)
        amounts[kind] = amounts.get(kind, 0) + int(amount)
        word = runner.note(f"{tool} {number} {program.name}", trouble, outcome.seconds)
        lines.append(f"| {program.what} | `{shlex.join([program.name, *arguments])}` | "
                     f"{outcome.amount} | {'-' if errors is None else errors} | "
                     f"{outcome.seconds:.0f} | {word} |")
    total = ", ".join(f"{amount} {kind}" for kind, amount in amounts.items())
    return [*lines, "", f"Run under {tool}: {total or 'nothing'}.", "", *details]


SECTIONS = {
    "tests": tests,
    "alone": alone,
    "chains": chains,
    "large": large,
    "bench": bench,
    "digits": digits,
    "python": python,
    "python_alone": python_alone,
    **{s.tool: (lambda runner, tool=s.tool: sanitizer(runner, tool)) for s in SANITIZERS},
}
