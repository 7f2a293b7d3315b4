"""Runs programs one after the other and reads what they say."""

import os
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass

COUNTS = re.compile(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
ASSERTIONS = re.compile(r"assertions:\s*(\d+) \|\s*(\d+) passed")
PYTEST = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
CHECKED = re.compile(r"(\d+) results checked, (\d+) wrong")
SKIPPED, OUT_OF_TIME, MISSING = 77, 124, 127


@dataclass
class Outcome:
    """What one run of a program came to."""
    code: int
    output: str
    seconds: float

    @property
    def counts(self):
        """passed, failed and left out cases of a doctest program or of pytest; None of any other."""
        found = COUNTS.search(self.output)
        if found:
            return tuple(int(found[i]) for i in (2, 3, 4))
        found = PYTEST.search(self.output)
        return tuple(int(found[i]) for i in (1, 2, 3)) if found else None

    @property
    def checked(self):
        """results checked and wrong ones, of a program that counts those; None of any other."""
        found = CHECKED.search(self.output)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def assertions(self):
        found = ASSERTIONS.search(self.output)
        return found[2] if found else "-"

    @property
    def messages(self):
        """The MESSAGE lines of a doctest program or of pytest."""
        return [line.split("MESSAGE: ", 1)[1] for line in self.output.splitlines()
                if "MESSAGE: " in line]

    def why_not(self, whole):
        """Empty where the program passed, else the reason. `whole`: no case may be left out."""
        if self.code == SKIPPED:
            return "skipped"
        if self.code == OUT_OF_TIME:
            return "out of time"
        if self.code == MISSING:
            return "not built"
        if self.code != 0:
            return f"exit code {self.code}"
        if self.counts:
            passed, failed, left_out = self.counts
            if failed or passed == 0 or (whole and left_out):
                return f"{passed} cases passed, {failed} failed, {left_out} left out"
        if self.checked and (self.checked[1] or not self.checked[0]):
            return f"{self.checked[0]} results checked, {self.checked[1]} wrong"
        return ""

    @property
    def amount(self):
        """How much it checked, in words."""
        if self.counts:
            return f"{self.counts[0]} cases"
        return f"{self.checked[0]} results" if self.checked else "1 program"


class Runner:
    """Runs programs of a build folder; keeps their output, and a row for each thing it ran."""

    def __init__(self, build, logs, quick, deadline, python=None):
        self.build = build
        self.python = python or build / "python"  # where the package graph_executor_v2 lies
        self.logs = logs
        self.quick = quick
        self.deadline = deadline  # of time.monotonic(), or None
        self.rows = []  # name, result, seconds, whether it is good

    def run(self, name, command, limit, environment=None):
        """The outcome of a command, stopped with all it started after `limit` seconds."""
        if self.deadline is not None:
            limit = max(1, min(limit, self.deadline - time.monotonic()))
        print(f"  {name}: {shlex.join(map(str, command))}", flush=True)
        start = time.monotonic()
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", start_new_session=True,
                                  env=environment) as process:
                try:
                    output, _ = process.communicate(timeout=limit)
                    code = process.returncode
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    output, _ = process.communicate()
                    code, output = OUT_OF_TIME, output + f"\nstopped after {limit:.0f} s\n"
        except OSError as missing:
            code, output = MISSING, f"{missing}\n"
        outcome = Outcome(code, output, time.monotonic() - start)
        (self.logs / f"{name}.txt").write_text(output, encoding="utf-8")
        return outcome

    def program(self, path, arguments=()):
        return [str(self.build / path), *arguments]

    def note(self, name, trouble, seconds, good_word="ok"):
        """Keeps a row; `trouble` is empty where all is well. Returns the word for the record."""
        result = f"FAILED: {trouble}" if trouble else good_word
        self.rows.append((name, result, round(seconds, 1), not trouble))
        print(f"    {result}, {seconds:.1f} s", flush=True)
        return f"**{result}**" if trouble else good_word
