"""Steps in Python on the host target: their order, their errors, and what they may call."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import layer, ramp, stepped, zeros

import graph_executor_v2 as ge


def test_steps_run_between_gemms_in_program_order():
    x, y, seen = ramp(2, 3), zeros(2, 3), []
    program = ge.Program()
    program.step("before", [], [x], lambda stream, reads, writes: seen.append("before"))
    program.forward(x, np.eye(3, dtype=np.float32), None, y)
    program.step("after", [y], [], lambda stream, reads, writes: seen.append(reads[0].numpy().copy()))
    executable = ge.capture(program)
    executable.launch()
    assert seen[0] == "before"
    np.testing.assert_array_equal(seen[1], x)


def test_an_exception_in_a_step_is_the_cause_of_the_error():
    problem = ValueError("no loss")

    def fn(stream, reads, writes):
        raise problem

    executable = stepped(fn)
    for call in (executable.launch, executable.enqueue):
        with pytest.raises(ge.Invalid, match="^Invalid: step 'loss': raised ValueError: no loss$") as caught:
            call()
        assert caught.value.__cause__ is problem
        assert caught.value.status == ge.StatusCode.Invalid
        assert caught.value.__cause__.__traceback__ is not None


def test_a_failed_step_ends_the_launch_and_the_next_launch_is_whole():
    y, fail = zeros(2, 2), [True]

    def fn(stream, reads, writes):
        if fail[0]:
            raise RuntimeError("once")

    program = ge.Program()
    program.step("gate", [], [x := ramp(2, 2)], fn)
    program.forward(x, np.eye(2, dtype=np.float32), None, y)
    executable = ge.capture(program)
    with pytest.raises(ge.Invalid, match="gate"):
        executable.launch()
    np.testing.assert_array_equal(y, 0)
    fail[0] = False
    executable.launch()
    np.testing.assert_array_equal(y, x)


def test_a_librarys_error_in_a_step_is_not_named_twice():
    def fn(stream, reads, writes):
        ge.Program().forward(zeros(2, 3), zeros(2, 3), None, zeros(2, 3))

    with pytest.raises(ge.Invalid, match="step 'loss': raised ShapeMismatch: B ") as caught:
        stepped(fn).launch()
    assert isinstance(caught.value.__cause__, ge.ShapeMismatch)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_is_an_error_too():
    def fn(stream, reads, writes):
        raise Unprintable

    with pytest.raises(ge.Invalid, match="Unprintable") as caught:
        stepped(fn).launch()
    assert isinstance(caught.value.__cause__, Unprintable)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_passes_through_as_it_is(kind):
    def fn(stream, reads, writes):
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        stepped(fn).launch()


def test_a_wrong_signature_is_an_error_of_the_step():
    with pytest.raises(ge.Invalid, match="raised TypeError") as caught:
        stepped(lambda stream: None).launch()
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_step_may_launch_another_executable():
    inner, a, b, y = layer()
    outer = stepped(lambda stream, reads, writes: inner.launch())
    outer.launch()
    np.testing.assert_array_equal(y, a @ b)


def test_errors_of_nested_launches_are_chained():
    def fail(stream, reads, writes):
        raise ValueError("deep")

    inner = stepped(fail)
    outer = stepped(lambda stream, reads, writes: inner.launch())
    with pytest.raises(ge.Invalid) as caught:
        outer.launch()
    assert isinstance(caught.value.__cause__, ge.Invalid)
    assert isinstance(caught.value.__cause__.__cause__, ValueError)


@pytest.mark.parametrize(
    "use",
    [
        lambda executable: executable.launch(),
        lambda executable: executable.enqueue(),
        lambda executable: executable.wait(),
        lambda executable: executable.rebind([]),
        lambda executable: executable.clone(),
        lambda executable: executable.explain(),
        lambda executable: executable.nodes(),
        lambda executable: executable.operands(),
        lambda executable: executable.workspace_bytes,
    ],
)
def test_a_step_that_uses_its_own_executable_is_invalid(use):
    executables = []
    executables.append(stepped(lambda stream, reads, writes: use(executables[0])))
    with pytest.raises(ge.Invalid, match="in use by a step of its own"):
        executables[0].launch()
    assert executables[0].wait() is None


def test_a_step_may_print_its_own_executable():
    executables, texts = [], []
    executables.append(stepped(lambda stream, reads, writes: texts.append(repr(executables[0]))))
    executables[0].launch()
    assert "in use" in texts[0]
