#!/usr/bin/env python3
"""Runs everything that needs a GPU and writes the record docs/results/gpu-tests.md.

    scripts/gpu_tests.py BUILD_DIR [--commit HASH] [--out FILE] [--logs DIR]

BUILD_DIR is a build with GE_WITH_CUDA=ON, tests, samples and GE_BUILD_BENCH=ON. The record says what
was run, on what, and what came out; the logs keep the whole output. Exit code 1 if anything failed.
"""

import argparse
import datetime
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

TESTS = [
    ("oracle matrix, exact test, every candidate", "tests/gpu/test_gpu_matrix", []),
    ("whole networks, forward and backward", "tests/gpu/test_gpu_network", []),
    ("captures of others, failures, threads, lifetime", "tests/gpu/test_gpu_lifecycle", []),
    ("host cost of a launch", "tests/gpu/test_gpu_launch_cost", []),
    ("gradient steps over odd shapes, bandwidth", "tests/gpu/test_gpu_gradients", []),
]
# A named set that memcheck runs: all that touch memory in an own or a library kernel.
MEMCHECK = [
    ("tests/gpu/test_gpu_matrix", ["-tce=*for every activation*"]),
    ("tests/gpu/test_gpu_network", ["-tc=*temporaries*"]),
    ("tests/gpu/test_gpu_lifecycle", ["-tc=*B7*,*C4*,*D6*"]),
    ("samples/minimal", []),
]
COUNTS = re.compile(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
ASSERTIONS = re.compile(r"assertions:\s*(\d+) \|\s*(\d+) passed")


class Runner:
    def __init__(self, build, logs):
        self.build = build
        self.logs = logs
        self.failures = 0

    def run(self, name, command, limit):
        """Returns exit code, output and seconds; keeps the output in the logs."""
        print(f"  {shlex.join(command)}", flush=True)
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=limit, check=False)
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            output = late.stdout or b""
            output = output if isinstance(output, str) else output.decode(errors="replace")
            code, output = 124, output + "\nstopped: out of time\n"
        except FileNotFoundError as missing:
            code, output = 127, f"{missing}\n"
        (self.logs / f"{name}.txt").write_text(output, encoding="utf-8")
        return code, output, time.monotonic() - start

    def program(self, relative, arguments=()):
        return [str(self.build / relative), *arguments]

    def expect(self, good):
        self.failures += 0 if good else 1
        return "ok" if good else "**FAILED**"


def query(field):
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"],
            stdout=subprocess.PIPE, text=True, check=False)
        return done.stdout.strip().splitlines()[0]
    except (FileNotFoundError, IndexError):
        return "unknown"


def commit_of(root):
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


def fenced(text):
    return ["```", *text.strip("\n").splitlines(), "```", ""]


def messages(output):
    """The MESSAGE lines of a doctest run."""
    return "\n".join(line.split("MESSAGE: ", 1)[1] for line in output.splitlines()
                     if "MESSAGE: " in line)


def tests(runner):
    lines = ["## Tests", "", "| what | program | cases | assertions | seconds | |",
             "|---|---|---|---|---|---|"]
    outputs = {}
    for what, relative, arguments in TESTS:
        name = pathlib.Path(relative).name
        code, output, seconds = runner.run(name, runner.program(relative, arguments), 300)
        outputs[name] = output
        counts, assertions = COUNTS.search(output), ASSERTIONS.search(output)
        if counts:
            cases = f"{counts[2]} passed, {counts[3]} failed, {counts[4]} skipped"
            good = code == 0 and counts[3] == "0" and counts[4] == "0"
        else:
            own = re.search(r"(\d+) results checked, (\d+) wrong", output)
            cases = f"{own[1]} results checked, {own[2]} wrong" if own else "-"
            good = code == 0 and own is not None and own[2] == "0"
        lines.append(f"| {what} | `{name}` | {cases} | {assertions[2] if assertions else '-'} | "
                     f"{seconds:.1f} | {runner.expect(good)} |")
    return lines + [""], outputs


def memcheck(runner):
    tool = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"]
    lines = ["## compute-sanitizer memcheck", "",
             "A program with a planted write past the end of a buffer runs first: a clean report "
             "counts only if that one is caught.", "", "| program | errors | |", "|---|---|---|"]
    code, output, _ = runner.run("memcheck_planted",
                                 tool + runner.program("tests/gpu/planted_bug"), 60)
    errors = re.search(r"ERROR SUMMARY: (\d+) error", output)
    caught = code == 9 and "Invalid __global__ write" in output
    lines.append(f"| `planted_bug` | {errors[1] if errors else '-'} | "
                 f"{'caught' if caught else runner.expect(False)} |")
    for relative, arguments in MEMCHECK:
        name = pathlib.Path(relative).name
        code, output, seconds = runner.run(f"memcheck_{name}",
                                           tool + runner.program(relative, arguments), 300)
        errors, counts = re.search(r"ERROR SUMMARY: (\d+) error", output), COUNTS.search(output)
        good = code == 0 and errors is not None and errors[1] == "0"
        cases = f", {counts[2]} cases" if counts else ""
        lines.append(f"| `{shlex.join([name, *arguments])}`{cases}, {seconds:.0f} s | "
                     f"{errors[1] if errors else '-'} | {runner.expect(good)} |")
    return lines + [""]


def bandwidth(runner, output):
    lines = ["## Activation and bias gradient against copy bandwidth", "",
             "gY and Z read, gZ written once; the copies are of the same run."]
    wanted = [line for line in output.splitlines()
              if "copy" in line.lower() and ("[16384,1024]" in line or "MB" in line or "GiB" in line)]
    share = re.search(r"\[16384,1024\] ReLU PerN.*?([\d.]+) of copy", output)
    good = share is not None and float(share[1]) >= 0.8
    return [*lines, "", f"gBias PerN with ReLU over [16384,1024], at least 0.80 of the copy: "
            f"{share[1] if share else '-'} {runner.expect(good)}", "",
            *fenced("\n".join(wanted))]


def benches(runner):
    code, chain, _ = runner.run("bench_chain", runner.program("bench/bench_chain"), 200)
    lines = ["## Forward chains against hand-written cuBLASLt, one graph each", "",
             "Device microseconds per replay, back to back, median of 31 interleaved rounds of 200. "
             f"At most 1.05: {runner.expect(code == 0)}", "", *fenced(chain)]
    code, objects, _ = runner.run("bench_user_object", runner.program("bench/bench_user_object"), 60)
    lines += ["## What a user object would cost", "",
              "Why executables do not let their graph retain their memory: "
              f"{runner.expect(code == 0)}", "", *fenced(objects)]
    return chain, lines


def digits(runner):
    data = str(ROOT / "samples/data/digits.csv")
    code, output, _ = runner.run(
        "digits", runner.program("samples/digits/digits", ["--target", "cuda", "--data", data]), 200)
    accuracy = re.search(r"^accuracy ([\d.]+)", output, re.MULTILINE)
    good = code == 0 and accuracy is not None and float(accuracy[1]) >= 0.97
    return ["## samples/digits on the GPU", "",
            f"Mean test accuracy of five seeds at least 0.97: {runner.expect(good)}", "",
            *fenced(output)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--commit", default=commit_of(ROOT))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/gpu-tests.md")
    parser.add_argument("--logs", type=pathlib.Path)
    arguments = parser.parse_args()
    logs = arguments.logs or arguments.build / "gpu-test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    runner = Runner(arguments.build.resolve(), logs)

    test_lines, outputs = tests(runner)
    chain, bench_lines = benches(runner)
    body = [*test_lines,
            "## Host cost of Executable::launch", "",
            *fenced(messages(outputs["test_gpu_launch_cost"])),
            *bandwidth(runner, outputs["test_gpu_gradients"]), *bench_lines, *digits(runner),
            *memcheck(runner)]
    verdict = "everything passed" if runner.failures == 0 else f"{runner.failures} failed"
    head = ["# GPU tests", "",
            "Written by `scripts/gpu_tests.py BUILD_DIR`; run it again rather than editing this.", "",
            f"* Result: {verdict}", f"* Commit: {arguments.commit}",
            f"* Date: {datetime.date.today().isoformat()}",
            f"* GPU: {query('name')}, driver {query('driver_version')}",
            f"* Software: {chain.splitlines()[0] if chain else 'unknown'}", ""]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join([*head, *body]).rstrip() + "\n", encoding="utf-8")
    print(f"{verdict}: {arguments.out}")
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
