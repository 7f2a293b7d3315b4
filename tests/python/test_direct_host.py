"""The direct path on the host target: the table of calls against the oracle, views, and what is kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import calls
import numpy as np
import pytest
from calls import HOST, Case

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

M, N, K = 4, 6, 8


@pytest.mark.parametrize("case", list(calls.forward_cases()), ids=str)
@pytest.mark.parametrize("run", [calls.run_forward, calls.run_forward_ex], ids=["forward", "forward_ex"])
@pytest.mark.parametrize("wrap", [lambda given: given, ge.as_tensor], ids=["arrays", "tensors"])
def test_forward_on_the_host(case: Case, run: Any, wrap: Any) -> None:
    made = calls.make_forward(HOST, case)
    run(made, wrap)
    made.check()


@pytest.mark.parametrize("case", [c for c in calls.backward_cases() if not c.accumulate], ids=str)
def test_backward_on_the_host(case: Case) -> None:
    made = calls.make_backward(HOST, case)
    calls.run_backward(made)
    made.check()


@pytest.mark.parametrize("case", list(calls.backward_cases()), ids=str)
def test_backward_ex_on_the_host(case: Case) -> None:
    made = calls.make_backward(HOST, case)
    calls.run_backward_ex(made, ge.as_tensor)
    made.check()


def test_an_activation_is_an_enum_a_name_or_none() -> None:
    made = [calls.make_forward(HOST, Case(act="tanh")) for _ in range(3)]
    for one, act in zip(made, ("tanh", ge.ActKind.Tanh, "Tanh"), strict=True):
        one.attrs["act"] = act
        calls.run_forward_ex(one)
        one.check()
    plain = calls.make_forward(HOST, Case(act="none"))
    plain.attrs["act"] = None
    calls.run_forward_ex(plain)
    plain.check()


def test_a_bias_that_is_given_is_applied_without_with_bias() -> None:
    made = calls.make_forward(HOST, Case(bias="N"))
    made.attrs["with_bias"] = False
    calls.run_forward(made)
    made.check()


def test_accumulate_takes_one_name_and_any_iterable() -> None:
    for names in ("gA", ["gA"], {"gA": 1}, iter(("gA",)), (name for name in ("gA",)), {"gA"}):
        made = calls.make_backward(HOST, Case(gradients=("gA", "gB"), accumulate=("gA",)))
        given = dict(made.arguments)
        first = [given.pop(name) for name in ("A", "B", "gY", "Z")]
        gemm.backward_ex(*first, **given, accumulate=names, **made.attrs)
        made.check()


@pytest.mark.parametrize("nothing", [None, (), [], iter(())], ids=["None", "tuple", "list", "iterator"])
def test_accumulate_of_nothing_overwrites(nothing: object) -> None:
    made = calls.make_backward(HOST, Case(gradients=("gA", "gB")))
    given = dict(made.arguments)
    first = [given.pop(name) for name in ("A", "B", "gY", "Z")]
    gemm.backward_ex(*first, **given, accumulate=nothing, **made.attrs)
    made.check()


def odd(array: np.ndarray, strides: tuple[int, int]) -> np.ndarray:
    """A copy of `array` with these strides, in elements; one of its extents is 1."""
    last = sum((extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True))
    memory = np.full(last + 1, np.float32(np.nan))
    view = np.lib.stride_tricks.as_strided(memory, array.shape, tuple(4 * s for s in strides))
    view[...] = array
    return view


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (1, 1)], ids=str)
@pytest.mark.parametrize("of_a", [(1, 1), (1, 9), (3, 1), (3, 3), (7, 2), (1, 7)], ids=str)
@pytest.mark.parametrize("of_g", [(1, 1), (1, 9), (3, 1), (3, 3), (7, 2), (1, 7)], ids=str)
def test_f5_a_matrix_of_one_row_or_column_may_have_any_strides(
    shape: tuple[int, int], of_a: tuple[int, int], of_g: tuple[int, int]
) -> None:
    a = np.arange(1, 1 + max(shape), dtype=np.float32).reshape(shape)
    gy = np.arange(1, 1 + 3 * shape[0], dtype=np.float32).reshape(shape[0], 3)
    b = np.arange(1, 1 + 3 * shape[1], dtype=np.float32).reshape(shape[1], 3)
    ga = odd(np.full(shape, np.float32(np.nan)), of_g)
    y = np.zeros_like(gy)
    gemm.forward(odd(a, of_a), b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_array_equal(y, a @ b)
    gemm.backward(odd(a, of_a), b, None, gy, None, ga, None, None, None, gemm.GemmAttrs(), None)
    np.testing.assert_array_equal(ga, gy @ b.T)


@pytest.mark.parametrize(
    "name, view, code",
    [("A", lambda x: np.repeat(x, 2, axis=1)[:, ::2], "StrideMismatch"),
     ("B", lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2], "StrideMismatch"),
     ("A", lambda x: x[::-1], "StrideMismatch"), ("Y", lambda x: x.T, "StrideMismatch"),
     ("Y", lambda x: np.broadcast_to(x[:1], x.shape), "Invalid"),
     ("A", lambda x: x.astype(np.float64), "DtypeMismatch"),
     ("A", lambda x: np.broadcast_to(x[:1], x.shape), "StrideMismatch")],
)  # fmt: skip
def test_f5_a_view_that_no_leading_dimension_describes_is_a_named_error(
    name: str, view: Callable[[np.ndarray], np.ndarray], code: str
) -> None:
    arrays = {key: np.zeros((8, 8), np.float32) for key in ("A", "B", "Y")}
    arrays[name] = view(arrays[name])
    with pytest.raises(ge.GemmError, match=rf"^{code}: {name}\b"):
        gemm.forward(arrays["A"], arrays["B"], None, arrays["Y"], gemm.GemmAttrs(), None)


def test_f5_row_slices_and_column_slices_are_right() -> None:
    x = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    for view in (
        x[::2],
        x[:, 1:9],
        x[2:, 5:13],
        x.T,
        x.T[3:11],
        x.T[1:13, 2:7],
        x[::3, 2:7],
        x[4:5, ::2],
        x[:, 3:4],
    ):
        unit = np.eye(view.shape[1], dtype=np.float32)
        y = np.full(view.shape, np.float32(np.nan))
        gemm.forward(view, unit, None, y, gemm.GemmAttrs(), None)
        np.testing.assert_array_equal(y, view)


def test_a_read_only_array_serves_as_input_alone() -> None:
    a, b, y = np.ones((M, K), np.float32), np.ones((K, N), np.float32), np.zeros((M, N), np.float32)
    for array in (a, b):
        array.flags.writeable = False
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    assert (y == K).all()
    y.flags.writeable = False
    with pytest.raises(ge.Invalid, match="^Invalid: Y is read-only"):
        gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)


def test_a_tensor_over_a_pointer_serves_on_the_host() -> None:
    memory = (ctypes.c_float * 16)(*range(16))
    a = ge.make_tensor_2d(ctypes.addressof(memory), (2, 2), device=ge.CPU, ld=4)
    y = np.zeros((2, 2), np.float32)
    gemm.forward(a, np.eye(2, dtype=np.float32), None, y, gemm.GemmAttrs(), None)
    assert y.tolist() == [[0, 1], [4, 5]]


def test_the_plan_cache_has_a_limit_and_can_be_cleared() -> None:
    before = gemm.plan_cache()
    for name in ("plans", "limit", "planned", "scratch_blocks", "scratch_bytes", "graphs", "graph_limit"):
        assert isinstance(getattr(before, name), int)
    gemm.clear_plan_cache()
    assert gemm.plan_cache().plans == 0
    gemm.set_plan_cache_limit(before.limit)
    assert gemm.plan_cache().limit == before.limit
    gemm.set_graph_limit(before.graph_limit)
    assert gemm.plan_cache().graph_limit == before.graph_limit
    for wrong in (-1, 1.5, "many", None):
        with pytest.raises(TypeError):
            gemm.set_plan_cache_limit(wrong)
        with pytest.raises(TypeError):
            gemm.set_graph_limit(wrong)
