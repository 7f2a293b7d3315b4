"""rebind and clone on the host target: what moves, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import layer, ramp, zeros

import graph_executor_v2 as ge


def test_rebind_moves_operands_given_in_any_way():
    executable, a, b, y = layer()
    fresh_a, fresh_y = ramp(4, 3, seed=7), zeros(4, 5)
    executable.rebind(((a, fresh_a),))
    executable.rebind({y.ctypes.data: fresh_y.ctypes.data})
    executable.launch()
    np.testing.assert_array_equal(fresh_y, fresh_a @ b)
    np.testing.assert_array_equal(y, 0)
    back = ge.as_tensor(a)
    executable.rebind({ge.as_tensor(fresh_a): back, ge.as_tensor(fresh_y): ge.as_tensor(y)})
    executable.launch()
    np.testing.assert_array_equal(y, a @ b)


def test_rebind_lets_buffers_change_places():
    executable, a, b, y = layer(3, 3, 3)
    executable.rebind([(a, b), (b, a)])
    executable.launch()
    np.testing.assert_array_equal(y, b @ a)


def test_rebind_moves_every_operand_at_the_address_and_views_keep_their_orientation():
    w, x, y, z = ramp(3, 3), ramp(4, 3), zeros(4, 3), zeros(4, 3)
    program = ge.Program()
    program.forward(x, w, None, y)
    program.forward(x, w.T, None, z)
    executable = ge.capture(program)
    fresh = ramp(3, 3, seed=9)
    executable.rebind([(w, fresh)])
    executable.launch()
    np.testing.assert_array_equal(y, x @ fresh)
    np.testing.assert_array_equal(z, x @ fresh.T)
    executable.rebind([(fresh.T, w.T)])
    executable.launch()
    np.testing.assert_array_equal(y, x @ w)
    np.testing.assert_array_equal(z, x @ w.T)


def test_rebind_to_a_view_with_the_same_strides():
    wide, other = ramp(4, 8), ramp(4, 8, seed=5)
    y = zeros(4, 2)
    w = ramp(3, 2)
    program = ge.Program()
    program.forward(wide[:, :3], w, None, y)
    executable = ge.capture(program)
    executable.rebind([(wide[:, :3], other[:, 4:7])])
    executable.launch()
    np.testing.assert_array_equal(y, other[:, 4:7] @ w)


def test_rebind_takes_a_bias_as_it_was_given():
    x, w, bias, y = ramp(4, 3), ramp(3, 5), ramp(1, 5), zeros(4, 5)
    program = ge.Program()
    program.forward(x, w, bias, y)
    executable = ge.capture(program)
    fresh = ramp(1, 5, seed=8)
    executable.rebind([(bias, fresh)])
    executable.launch()
    np.testing.assert_array_equal(y, x @ w + fresh)


read_only = zeros(4, 5)
read_only.setflags(write=False)


@pytest.mark.parametrize(
    ("error", "text", "old", "new"),
    [
        (ge.ShapeMismatch, r"new A of forward Y\[4,5\] is \[4,4\], expected \[4,3\]", "a", zeros(4, 4)),
        (ge.ShapeMismatch, r"new A", "a", zeros(3, 4)),
        (ge.ShapeMismatch, r"new A", "address", zeros(2, 4, 3)),
        (ge.StrideMismatch, r"new A .*strides \[6,1\], expected \[3,1\]", "a", zeros(4, 6)[:, :3]),
        (ge.StrideMismatch, r"new A", "address", zeros(4, 6)[:, :3]),
        (ge.StrideMismatch, r"new A .*strides \[1,4\]", "a", zeros(3, 4).T),
        (ge.DtypeMismatch, r"new A .*I32, expected F32", "a", np.zeros((4, 3), np.int32)),
        (ge.DtypeMismatch, r"new A .*float64", "a", np.zeros((4, 3))),
        (ge.DeviceMismatch, r"new A .*CUDA:0, expected CPU", "a", ge.make_tensor_2d(4096, (4, 3))),
        (ge.Invalid, r"new Y .*read-only", "y", read_only),
        (ge.Invalid, "no operand begins", "other", zeros(4, 3)),
        (ge.Invalid, "null", "a", 0),
        (ge.Overlap, "Y", "y", "a"),
        (TypeError, "str", "a", "no array"),
        (TypeError, "None", "a", None),
        (TypeError, "bool", True, zeros(4, 3)),
        (ge.Invalid, "old", -1, zeros(4, 3)),
        (ge.Invalid, "new", "a", 1 << 64),
    ],
)
def test_what_rebind_refuses_changes_nothing(error, text, old, new):
    executable, a, b, y = layer(4, 3, 5)
    places = {"a": a, "y": y, "other": zeros(4, 3), "address": a.ctypes.data}
    if error is ge.Overlap:
        new = np.lib.stride_tricks.as_strided(a, (4, 5), (20, 4))  # over A, never reached
    before = [o.tensor.data for o in executable.operands()]
    fresh_b = ramp(3, 5, seed=4)
    for change in (executable.rebind, executable.clone):
        with pytest.raises(error, match=text):
            change([(b, fresh_b), (places.get(old, old) if isinstance(old, str) else old, new)])
    assert [o.tensor.data for o in executable.operands()] == before
    executable.launch()
    np.testing.assert_array_equal(y, a @ b)


def test_square_matrices_are_not_transposed_in_passing():
    w, x, y = ramp(3, 3), ramp(4, 3), zeros(4, 3)
    program = ge.Program()
    program.forward(x, w.T, None, y)
    executable = ge.capture(program)
    with pytest.raises(ge.StrideMismatch):
        executable.rebind([(w.T, ramp(3, 3))])
    with pytest.raises(ge.StrideMismatch):
        executable.rebind([(w, ramp(3, 3).T)])
    with pytest.raises(ge.StrideMismatch):
        executable.rebind([(w.ctypes.data, ramp(3, 3).T)])


def test_temporaries_do_not_move():
    program = ge.Program()
    t = program.temporary((2, 2), device=ge.CPU)
    program.forward(ramp(2, 2), ramp(2, 2), None, t)
    program.forward(t, ramp(2, 2), None, zeros(2, 2))
    executable = ge.capture(program)
    with pytest.raises(ge.Invalid, match="temporary"):
        executable.rebind({t: ge.as_tensor(zeros(2, 2))})


@pytest.mark.parametrize("moves", [None, 3, "ab", [1], [(1, 2, 3)], [[1]], {1}])
def test_moves_of_another_form_are_type_errors(moves):
    executable, *_ = layer()
    with pytest.raises(TypeError):
        executable.rebind(moves)


def test_a_clone_is_independent():
    executable, a, b, y = layer()
    fresh_a, fresh_y = ramp(4, 3, seed=2), zeros(4, 5)
    clone = executable.clone([(a, fresh_a), (y, fresh_y)])
    clone.launch()
    np.testing.assert_array_equal(fresh_y, fresh_a @ b)
    np.testing.assert_array_equal(y, 0)
    executable.launch()
    np.testing.assert_array_equal(y, a @ b)
    same = executable.clone()
    y[:] = 0
    same.launch()
    np.testing.assert_array_equal(y, a @ b)


def test_a_clone_runs_the_steps_over_its_own_operands():
    seen = []
    x, other = ramp(2, 2), ramp(2, 2, seed=3)
    program = ge.Program()
    program.step("look", [x], [], lambda stream, reads, writes: seen.append(reads[0].numpy().copy()))
    executable = ge.capture(program)
    executable.clone([(x, other)]).launch()
    np.testing.assert_array_equal(seen[0], other)
