"""Temporaries, steps and copies of a Program on the host, and what it holds."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from arrays import ramp, watched, zeros

import graph_executor_v2 as ge


def run(program: ge.Program) -> None:
    ge.capture(program).launch()


read_only = zeros(4, 5)
read_only.setflags(write=False)


def test_a_chain_over_temporaries_equals_numpy():
    x, w1, w2, y = ramp(4, 3), ramp(3, 6), ramp(6, 2), zeros(4, 2)
    program = ge.Program()
    h = program.temporary((4, 6), device=ge.CPU)
    program.forward(x, w1, None, h, act="relu")
    program.forward(h, w2, None, y)
    run(program)
    np.testing.assert_array_equal(y, np.maximum(x @ w1, 0) @ w2)


def test_temporaries_are_described():
    program = ge.Program()
    matrix = program.temporary((2, 3), ge.F32, ge.CPU)
    vector = program.temporary(5, device=ge.CPU)
    elsewhere = program.temporary([7], dtype=ge.I32)
    assert (matrix.shape, matrix.stride, matrix.device) == ((2, 3), (3, 1), ge.CPU)
    assert (vector.shape, vector.stride) == ((5,), (1,))
    assert (elsewhere.dtype, elsewhere.device, elsewhere.device_index) == (ge.I32, ge.CUDA, 0)
    assert "3 temporaries" in repr(program)


def test_a_temporary_has_no_memory_to_look_at():
    temporary = ge.Program().temporary((2, 3), device=ge.CPU)
    for look in (lambda: temporary.numpy(), lambda: np.from_dlpack(temporary), lambda: np.asarray(temporary)):
        with pytest.raises((ge.Invalid, BufferError, AttributeError, TypeError)):
            look()


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        (ge.ShapeMismatch, ()),
        (ge.ShapeMismatch, (1, 2, 3)),
        (ge.ShapeMismatch, (1, 2, 3, 4, 5)),
        (ge.Invalid, (2, -1)),
        (TypeError, "23"),
        (TypeError, 2.5),
        (TypeError, (2.5, 1)),
        (ge.Invalid, (1 << 63, 1)),
    ],
)
def test_bad_shapes_of_temporaries_are_refused(error, shape):
    with pytest.raises(error):
        ge.Program().temporary(shape, device=ge.CPU)


@pytest.mark.parametrize("wrong", [{"dtype": 0}, {"device": 0}])
def test_a_temporary_takes_no_numbers_for_enums(wrong):
    with pytest.raises(TypeError):
        ge.Program().temporary((2, 3), **wrong)


def test_a_temporary_must_be_written_before_it_is_read_and_stay_in_its_program():
    program = ge.Program()
    h = program.temporary((4, 3), device=ge.CPU)
    with pytest.raises(ge.Invalid, match="written"):
        program.forward(h, zeros(3, 5), None, zeros(4, 5))
    with pytest.raises(ge.Invalid, match="temporary of this program"):
        ge.Program().forward(zeros(4, 3), zeros(3, 3), None, h)
    assert len(program) == 0


def test_a_programs_device_is_that_of_its_first_item():
    program = ge.Program()
    program.forward(ramp(4, 3), ramp(3, 5), None, zeros(4, 5))
    on_gpu = program.temporary((4, 3))
    with pytest.raises(ge.DeviceMismatch, match="CUDA"):
        program.step("step", [], [on_gpu], lambda stream, reads, writes: None)


def test_steps_run_in_order_with_views_of_their_operands():
    x, y, log = ramp(2, 3), zeros(2, 3), []
    counts = np.zeros(4, np.int64).astype(np.int32)

    def double(stream, reads, writes):
        log.append(("double", stream, len(reads), len(writes)))
        writes[0].numpy()[:] = 2 * reads[0].numpy()

    def add_one(stream, reads, writes):
        log.append(("add_one", stream, len(reads), len(writes)))
        assert writes[0].shape == (2, 3)
        writes[0].numpy()[:] += 1
        writes[1].numpy()[:] += 5

    program = ge.Program()
    h = program.temporary((2, 3), device=ge.CPU)
    program.step("double", [x], [h], double)
    program.step("add one", [h], (h, counts), add_one)
    program.forward(h, np.eye(3, dtype=np.float32), None, y)
    executable = ge.capture(program)
    assert log == []
    executable.launch()
    executable.launch(12345)
    np.testing.assert_array_equal(y, 2 * x + 1)
    np.testing.assert_array_equal(counts, 10)
    assert log == [("double", 0, 1, 1), ("add_one", 0, 1, 2)] * 2


@pytest.mark.parametrize("result", [None, 7, "text"])
def test_what_a_step_returns_is_ignored(result):
    program = ge.Program()
    program.step("step", [], [zeros(1)], lambda stream, reads, writes: result)
    run(program)


def step(program: ge.Program, **changes: object) -> None:
    arguments = dict(name="step", reads=[zeros(1)], writes=[], fn=lambda stream, reads, writes: None)
    program.step(**(arguments | changes))


@pytest.mark.parametrize(
    ("error", "text", "changes"),
    [
        (ge.Invalid, "name", {"name": ""}),
        (ge.Invalid, "reads and writes nothing", {"reads": []}),
        (TypeError, "fn is of type int", {"fn": 3}),
        (TypeError, "reads is of type", {"reads": zeros(2, 2)}),
        (TypeError, "writes is of type", {"writes": zeros(2, 2)}),
        (TypeError, r"reads\[1\]", {"reads": [zeros(1), "x"]}),
        (ge.DtypeMismatch, r"writes\[0\] is float64", {"writes": [np.zeros(2)]}),
        (ge.Invalid, r"writes\[0\] is read-only", {"writes": [read_only]}),
    ],
)
def test_what_step_refuses_changes_nothing(error, text, changes):
    program = ge.Program()
    step(program)
    with pytest.raises(error, match=text):
        step(program, **changes)
    assert len(program) == 1


def test_copies_move_values_at_each_launch():
    host_in, x, y, host_out = (zeros(2, 3) for _ in range(4))
    program = ge.Program()
    program.copy_in(host_in, x)
    program.forward(x, np.eye(3, dtype=np.float32), None, y)
    program.copy_out(device=y, host=host_out)
    executable = ge.capture(program)
    for value in (1, 2):
        host_in[:] = value
        executable.launch()
        executable.wait()
        np.testing.assert_array_equal(host_out, value)


@pytest.mark.parametrize(
    ("error", "host", "device"),
    [
        (ge.ShapeMismatch, zeros(2, 3), zeros(3, 2)),
        (ge.DtypeMismatch, zeros(2, 3), np.zeros((2, 3), np.int32)),
        (ge.Invalid, zeros(4, 5), read_only),
        (TypeError, "host", zeros(2, 3)),
        (TypeError, zeros(2, 3), None),
    ],
)
def test_what_copies_refuse_changes_nothing(error, host, device):
    program = ge.Program()
    with pytest.raises(error):
        program.copy_in(host, device)
    assert len(program) == 0


def test_overlapping_copies_are_refused():
    memory = zeros(4, 4)
    with pytest.raises(ge.Overlap):
        ge.Program().copy_out(memory[:2], memory[1:3])


def test_operands_are_held_by_the_program_and_those_refused_are_not():
    program = ge.Program()
    a, b, y = watched(zeros(4, 3)), watched(zeros(3, 5)), watched(zeros(4, 5))
    alive = [weakref.ref(array) for array in (a, b, y)]
    program.forward(a, b, None, y)
    refused = watched(zeros(7, 7))
    gone = weakref.ref(refused)
    with pytest.raises(ge.ShapeMismatch):
        program.forward(refused, b, None, y)
    del a, b, y, refused
    gc.collect()
    assert gone() is None
    assert all(array() is not None for array in alive)
    del program
    gc.collect()
    assert all(array() is None for array in alive)


def test_step_functions_are_held_and_let_go():
    def fn(stream, reads, writes):
        pass

    held = weakref.ref(fn)
    program = ge.Program()
    program.step("step", [zeros(1)], [], fn)
    del fn
    assert held() is not None
    del program
    assert held() is None


def test_a_program_may_be_added_to_after_a_capture():
    x, y, z = ramp(2, 2), zeros(2, 2), zeros(2, 2)
    program = ge.Program()
    program.forward(x, x, None, y)
    first = ge.capture(program)
    program.forward(y, x, None, z)
    second = ge.capture(program)
    first.launch()
    np.testing.assert_array_equal(z, 0)
    second.launch()
    np.testing.assert_array_equal(z, x @ x @ x)
