"""The end of an interpreter that holds executables, on the host target (case B10)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


EXIT = """
    import numpy as np
    import graph_executor_v2 as ge

    class Net:
        def __init__(self):
            self.x = np.ones((2, 2), np.float32)
            self.y = np.zeros((2, 2), np.float32)
            self.program = ge.Program()
            self.program.forward(self.x, self.x, None, self.y)
            self.program.step("step", [self.y], [], self.step)
            self.executable = ge.capture(self.program)

        def step(self, stream, reads, writes):
            pass

    net = Net()
    net.executable.launch()
    executable, clone = net.executable, net.executable.clone()
"""


# Threads that are in the middle of calls, or of steps, when the interpreter ends.
THREADS = """
import graph_executor_v2.ops._ops_gemm, threading, time
def start(call):
    def run():
        while True:
            call()
    for _ in range(4):
        threading.Thread(target=run, daemon=True).start()
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "last",
    [
        "",
        "import builtins; builtins.kept = executable; del net, executable",
        "import sys; sys.exit(0)",
        "import threading; threading.Thread(target=executable.launch).start()",
        "import atexit; atexit.register(executable.launch)",
        THREADS + "start(executable.launch)",
        THREADS + "start(lambda: ge.ops._ops_gemm.forward_ex(net.x, net.x, None, net.x.copy()))",
        THREADS + "start(lambda: ge.capture(net.program).launch())",
        THREADS + "net.step = lambda *_: time.sleep(0.001)\nstart(executable.launch)\nstart(clone.launch)",
    ],
)
def test_the_interpreter_ends_quietly_with_executables_alive(last):
    done = run_python(textwrap.dedent(EXIT) + last)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_exception_that_holds_an_executable_ends_the_interpreter_as_usual():
    done = run_python(textwrap.dedent(EXIT) + "raise RuntimeError(executable)")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("nodes, 0 bytes of workspace>")
