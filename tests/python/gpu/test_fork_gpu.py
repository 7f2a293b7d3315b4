"""Fork, and the end of a process (case B10): each in one of its own, which must end quietly and soon."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

COMMON = """
import os, signal, sys, time
import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm
import torch

def direct():
    x = torch.eye(8, device="cuda")
    y = torch.zeros(8, 8, device="cuda")
    again = ge.as_tensor(x), ge.as_tensor(x), None, ge.as_tensor(y)
    for _ in range(20):  # often enough that the call is one that is known
        gemm.forward(*again, gemm.GemmAttrs(), None)
    torch.cuda.synchronize()
    assert torch.equal(x, y)
    return lambda: gemm.forward(*again, gemm.GemmAttrs(), None)

def plan():
    x = torch.eye(8, device="cuda")
    y = torch.zeros(8, 8, device="cuda")
    program = ge.Program()
    program.forward(x, x, None, y)
    executable = ge.capture(program, tuning="off")
    executable.launch()
    executable.wait()
    assert torch.equal(x, y)
    return executable

def in_child(work):
    # exit code of a forked child that does this and ends; it has 60 s
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 3
        try:
            work()
            code = 0
        except BaseException as error:
            print("child:", type(error).__name__, error, file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def run(body: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},  # torch's imports may warn
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_b10_fork_after_import_and_before_first_use_leaves_both_working() -> None:
    run(
        """
        assert in_child(lambda: (direct(), plan())) == 0
        direct()
        plan()
        """
    )


@pytest.mark.parametrize("use", ["direct", "plan"])
def test_b10_fork_after_use_gives_the_child_an_error_at_once_and_leaves_the_parent_alone(use: str) -> None:
    run(
        f"""
        kept = {use}()
        again = kept if callable(kept) else kept.launch
        x = ge.make_tensor_2d(0x10000000, (8, 8))
        b = ge.make_tensor_2d(0x20000000, (8, 8))
        y = ge.make_tensor_2d(0x30000000, (8, 8))

        def fails(call):
            begin = time.monotonic()
            try:
                call()
            except ge.GemmError as error:
                assert str(error), "an error says something"
            else:
                raise AssertionError("no error in a forked child")
            took = time.monotonic() - begin
            assert took < 1, f"the error took {{took}} s"

        def program():
            made = ge.Program()
            made.forward(x, b, None, y)
            return made

        def child():
            fails(again)
            fails(lambda: gemm.forward(x, b, None, y, gemm.GemmAttrs(), None))
            fails(lambda: ge.capture(program(), tuning="off"))

        assert in_child(child) == 0
        again()
        torch.cuda.synchronize()
        direct()
        plan()
        """
    )


def test_b10_a_forked_child_that_ends_as_python_does_ends_quietly() -> None:
    run(
        """
        executable = plan()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        executable.launch()
        executable.wait()
        """
    )


@pytest.mark.parametrize("waits", [True, False], ids=["after wait", "in flight"])
def test_b10_a_plan_in_a_module_global_lets_the_process_end_quietly(waits: bool) -> None:
    run(
        f"""
        import types
        module = types.ModuleType("holder")
        sys.modules["holder"] = module
        module.executable = plan()
        module.program = ge.Program()
        module.tensor = ge.as_tensor(torch.eye(8, device="cuda"))
        module.executable.launch()
        if {waits}:
            module.executable.wait()
        """
    )


def test_b10_a_plan_in_a_reference_cycle_lets_the_process_end_quietly() -> None:
    run(
        """
        class Owner:
            pass

        owner = Owner()
        owner.self = owner
        owner.executable = plan()
        owner.step = lambda: owner
        owner.executable.launch()
        del owner
        """
    )


def test_b10_calls_from_an_exit_handler_work_or_say_why() -> None:
    run(
        """
        import atexit

        @atexit.register
        def last():
            try:
                direct()
            except ge.GemmError:
                pass
        direct()
        """
    )
