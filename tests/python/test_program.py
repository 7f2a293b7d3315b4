"""Program on the host: what it takes, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from arrays import ramp, zeros

import graph_executor_v2 as ge


def run(program: ge.Program) -> None:
    ge.capture(program).launch()


def test_an_empty_program_has_no_items_and_cannot_be_captured():
    program = ge.Program()
    assert len(program) == 0
    assert repr(program) == "<Program of 0 items, 0 temporaries>"
    with pytest.raises(ge.Invalid, match="empty"):
        ge.capture(program)


def test_forward_computes_with_keywords_as_with_attrs():
    a, b, bias, c = ramp(4, 3), ramp(3, 5), ramp(5), ramp(4, 5)
    one, other, z = zeros(4, 5), zeros(4, 5), zeros(4, 5)
    program = ge.Program()
    program.forward(a, b, bias, one, C=c, Z=z, act="leaky_relu", leaky_slope=0.5, alpha=2, beta=-1)
    program.forward(
        a, b, bias, other, ge.GemmAttrs(act="leaky_relu", leaky_slope=0.5, alpha=2.0, beta=-1.0), C=c
    )
    run(program)
    expected_z, expected_y = oracle.forward(a, b, bias, c, act_kind="leaky_relu", slope=0.5, alpha=2, beta=-1)
    oracle.check("Z", z, expected_z)
    oracle.check("Y", one, expected_y)
    np.testing.assert_array_equal(one, other)
    assert len(program) == 2
    assert "2 items on CPU" in repr(program)


def test_transposed_views_and_flags_mean_the_same():
    a, b = ramp(4, 3), ramp(3, 5)
    ys = [zeros(4, 5) for _ in range(4)]
    stored_a, stored_b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    program = ge.Program()
    program.forward(stored_a.T, stored_b.T, None, ys[0])
    program.forward(stored_a, stored_b, None, ys[1], trans_a=True, trans_b=True)
    program.forward(a.T, b.T, None, ys[2], trans_a=True, trans_b=True)
    program.forward(a, b, None, ys[3])
    run(program)
    for y in ys:
        np.testing.assert_array_equal(y, a @ b)


def test_backward_computes_and_adds_where_accumulate_says_so():
    a, b, gy, z = ramp(4, 3), ramp(3, 5), ramp(4, 5), ramp(4, 5)
    ga, gb, gbias = ramp(4, 3), ramp(3, 5), ramp(5)
    old = {"gA": ga.copy(), "gBias": gbias.copy()}
    program = ge.Program()
    program.backward(a, b, None, gy, z, ga, gb, None, gbias, act="silu", accumulate=("gA", "gBias"))
    run(program)
    expected = oracle.backward(a, b, gy, z, act_kind="silu", bias_shape=(5,), old=old)
    for name, got in (("gA", ga), ("gB", gb), ("gBias", gbias)):
        oracle.check(name, got, expected[name])


def test_a_c_gradient_needs_c_but_does_not_read_it():
    a, b, gy, gc_ = ramp(2, 3), ramp(3, 4), ramp(2, 4), zeros(2, 4)
    c = np.full((2, 4), np.nan, np.float32)
    program = ge.Program()
    program.backward(a, b, c, gy, None, gC=gc_, beta=0.5)
    run(program)
    np.testing.assert_array_equal(gc_, 0.5 * gy)


def forward(program: ge.Program, **changes: object) -> None:
    operands = dict(A=zeros(4, 3), B=zeros(3, 5), bias=None, Y=zeros(4, 5)) | changes
    program.forward(**operands)


read_only = zeros(4, 5)
read_only.setflags(write=False)


@pytest.mark.parametrize(
    ("error", "text", "changes"),
    [
        (ge.MissingInput, "A", {"A": None}),
        (ge.MissingInput, "B", {"B": None}),
        (ge.MissingOutput, "Y", {"Y": None}),
        (ge.ShapeMismatch, "B is", {"B": zeros(4, 5)}),
        (ge.ShapeMismatch, "bias", {"bias": zeros(3)}),
        (ge.ShapeMismatch, "Z", {"Z": zeros(4, 6)}),
        (ge.ShapeMismatch, "A", {"A": zeros(2, 2, 3)}),
        (ge.DtypeMismatch, "A is float64", {"A": np.zeros((4, 3))}),
        (ge.DtypeMismatch, "B", {"B": np.zeros((3, 5), np.int32)}),
        (ge.StrideMismatch, "Y", {"Y": zeros(4, 10)[:, ::2]}),
        (ge.Invalid, "Y is read-only", {"Y": read_only}),
        (ge.Invalid, "leaky_slope", {"act": "leaky_relu", "leaky_slope": float("nan")}),
        (ge.Invalid, "alpha", {"alpha": float("inf")}),
        (ge.Invalid, "relu7", {"act": "relu7"}),
        (TypeError, r"A \(str\)", {"A": "A"}),
        (TypeError, "not both", {"attrs": ge.GemmAttrs(), "act": "relu"}),
        (TypeError, "not both", {"attrs": ge.GemmAttrs(), "trans_a": False}),
        (TypeError, "incompatible", {"attrs": "relu"}),
        (TypeError, "incompatible", {"alpha": "2"}),
    ],
)
def test_what_forward_refuses_changes_nothing(error, text, changes):
    program = ge.Program()
    forward(program)
    with pytest.raises(error, match=text):
        forward(program, **changes)
    assert len(program) == 1
    run(program)


def test_an_output_that_overlaps_an_input_is_named():
    memory = zeros(8, 8)
    with pytest.raises(ge.Overlap, match="Y"):
        ge.Program().forward(memory[:4, :4], zeros(4, 4), None, memory[2:6, :4])


@pytest.mark.parametrize(
    ("error", "text", "changes"),
    [
        (ge.MissingOutput, "gradient|gA", {"gA": None}),
        (ge.MissingInput, "Z", {"act": "relu"}),
        (ge.MissingOutput, "gB", {"accumulate": ["gB"]}),
        (ge.Invalid, "gZ", {"accumulate": "gZ"}),
        (TypeError, "accumulate", {"accumulate": [1]}),
        (ge.ShapeMismatch, "gA", {"gA": zeros(3, 4)}),
        (TypeError, "not both", {"attrs": ge.GemmAttrs(), "beta": 0.0}),
    ],
)
def test_what_backward_refuses_changes_nothing(error, text, changes):
    program = ge.Program()
    operands = dict(A=zeros(4, 3), B=zeros(3, 5), C=None, gY=zeros(4, 5), Z=None, gA=zeros(4, 3)) | changes
    with pytest.raises(error, match=text):
        program.backward(**operands)
    assert len(program) == 0
