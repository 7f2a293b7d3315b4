"""What operands become of arrays by their strides, and what is refused (case F5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes import CudaArray

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

RNG = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "columns from 1": lambda x: x[:, 1:],
    "every second row": lambda x: x[::2],
    "transposed slice": lambda x: x[1:, 1:].T,
    "one row": lambda x: x[:1],
    "one strided row": lambda x: x[:1, ::2],
    "one column": lambda x: x[:, :1],
    "one strided column": lambda x: x[::2, :1],
    "one element": lambda x: x[3:4, 2:3],
    "odd strides along extents of one": lambda x: np.lib.stride_tricks.as_strided(x, (1, 5), (12, 4)),
    "odd strides along columns of one": lambda x: np.lib.stride_tricks.as_strided(x, (5, 1), (24, 20)),
    "nothing": lambda x: x[:0],
    "nothing wide": lambda x: x[:, :0],
}


@pytest.mark.parametrize("kept", [False, True], ids=["array", "tensor"])
@pytest.mark.parametrize("name", VIEWS)
def test_f5_transposed_and_strided_factors_give_right_numbers(name: str, kept: bool) -> None:
    a = VIEWS[name](floats(8, 6))
    b = floats(a.shape[1], 3)
    y, other = np.full((a.shape[0], 3), np.nan, np.float32), np.full((3, a.shape[0]), np.nan, np.float32)
    as_given = ge.as_tensor if kept else lambda each: each
    gemm.forward(as_given(a), b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(y, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)
    gemm.forward(np.ascontiguousarray(b.T), as_given(a.T), None, other, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(other, b.T.astype(np.float64) @ a.T, rtol=1e-4, atol=1e-5)


def test_f5_a_transposed_view_turns_the_flag_over() -> None:
    a, b = floats(4, 3), floats(3, 5)
    y = np.empty((4, 5), np.float32)
    stored = np.ascontiguousarray(a.T)
    for given, trans in ((a, False), (stored.T, False), (stored, True), (np.asfortranarray(stored), True)):
        gemm.forward(given, b, None, y, gemm.GemmAttrs(trans_a=trans), None)
        np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("view", "error", "why"),
    [
        (
            lambda x: x[:, ::2],
            ge.StrideMismatch,
            r"A has strides \[6,2\], expected a stride of 1 along its rows",
        ),
        (lambda x: x[::2, ::2], ge.StrideMismatch, r"A has strides \[12,2\]"),
        (lambda x: x[:, ::-1], ge.StrideMismatch, r"A has strides \[6,-1\]"),
        (lambda x: x[::-1], ge.StrideMismatch, "A has leading dimension -6, expected at least 6"),
        (lambda x: np.broadcast_to(x[0], x.shape), ge.StrideMismatch, "A is expanded"),
        (lambda x: np.broadcast_to(x[:, :1], x.shape), ge.StrideMismatch, "A is expanded"),
        (lambda x: np.broadcast_to(x[0, 0], x.shape), ge.StrideMismatch, "A is expanded"),
        (lambda x: x.astype(np.float64), ge.DtypeMismatch, "A is float64, expected float32"),
        (lambda x: x.astype(np.float16), ge.DtypeMismatch, "A is F16, expected F32"),
        (lambda x: x.astype(">f4"), ge.DtypeMismatch, "A is big-endian float32"),
        (lambda x: x[0], ge.ShapeMismatch, r"A is \[6\] of rank 1, expected rank 2"),
        (lambda x: np.asarray(x[0, 0]), ge.ShapeMismatch, "A .*of rank 0, expected rank 2"),
        (lambda x: x[None, None], ge.ShapeMismatch, "A is .* of rank 4, expected rank 2"),
        (lambda x: x[None, None, None], ge.ShapeMismatch, "A is of rank 5, expected a matrix"),
        (lambda x: x.tolist(), TypeError, r"A \(list\) is no Tensor"),
    ],
)
def test_f5_other_factors_are_named_errors(
    view: Callable[[Any], Any], error: type[Exception], why: str
) -> None:
    a = view(floats(4, 6))
    m, k = np.shape(a)[-2:] if np.ndim(a) >= 2 else (4, 6)
    with pytest.raises(error, match=why):
        gemm.forward(a, floats(k, 3), None, floats(m, 3), gemm.GemmAttrs(), None)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (lambda y: np.asfortranarray(y), r"Y has strides \[1,4\]"),
        (lambda y: np.lib.stride_tricks.as_strided(y, (4, 3), (0, 4)), "Y is expanded"),
        (lambda y: np.zeros((4, 6), np.float32)[:, ::2], r"Y has strides \[6,2\]"),
    ],
)
def test_f5_an_output_is_never_transposed_or_expanded(
    view: Callable[[np.ndarray], np.ndarray], why: str
) -> None:
    with pytest.raises(ge.StrideMismatch, match=why):
        gemm.forward(floats(4, 6), floats(6, 3), None, view(floats(4, 3)), gemm.GemmAttrs(), None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: floats(3),
        lambda: floats(1, 3),
        lambda: floats(4, 1),
        lambda: floats(1),
        lambda: floats(1, 1),
        lambda: np.asarray(np.float32(0.5)),
        lambda: floats(6)[::2],
        lambda: floats(4, 7)[:, 2:3],
        lambda: floats(7, 4)[2:3].T,
        lambda: floats(1, 6)[:, ::2],
    ],
)
def test_f5_a_bias_may_have_any_strides(make: Callable[[], np.ndarray]) -> None:
    bias = make()
    a, b, y = floats(4, 6), floats(6, 3), np.empty((4, 3), np.float32)
    for given in (bias, ge.as_tensor(bias)):
        gemm.forward(a, b, given, y, gemm.GemmAttrs(), None)
        np.testing.assert_allclose(y, a.astype(np.float64) @ b + bias, rtol=1e-4, atol=1e-5)


def test_f5_an_expanded_bias_is_a_stride_mismatch() -> None:
    with pytest.raises(ge.StrideMismatch, match="bias is expanded"):
        gemm.forward(
            floats(4, 6), floats(6, 3), np.broadcast_to(floats(1), (3,)), floats(4, 3), gemm.GemmAttrs(), None
        )


def test_operands_on_two_devices_are_a_device_mismatch() -> None:
    with pytest.raises(ge.DeviceMismatch, match="B is on CUDA:0, expected CPU:0"):
        gemm.forward(floats(2, 2), CudaArray(shape=(2, 2)), None, floats(2, 2), gemm.GemmAttrs(), None)
