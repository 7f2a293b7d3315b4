"""What torch, CuPy and JAX say of their memory, and what operands become of it (case F5)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

torch = pytest.importorskip("torch")


def described(tensor: ge.Tensor) -> tuple[Any, ...]:
    return tensor.data, tensor.shape, tensor.stride, tensor.dtype, tensor.device, tensor.device_index


def check_forward(a: Any, b: Any, y: Any, given_a: Any = None, given_b: Any = None) -> None:
    """Y = A B, by arrays or by what stands for them, against f64."""
    y.fill_(float("nan"))
    gemm.forward(
        a if given_a is None else given_a, b if given_b is None else given_b, None, y, gemm.GemmAttrs(), None
    )
    exact = a.detach().double() @ b.detach().double()
    bound = (2 * a.shape[1] ** 0.5 + 8) * 2.0**-24 * (a.detach().double().abs() @ b.detach().double().abs())
    assert ((y.double() - exact).abs() <= bound).all()


# torch

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "X.t()": lambda x: x.t(),
    "X[::2]": lambda x: x[::2],
    "X[:, 1:]": lambda x: x[:, 1:],
    "X[1:, 1:].t()": lambda x: x[1:, 1:].t(),
    "one row": lambda x: x[:1],
    "one strided row": lambda x: x[:1, ::2],
    "one strided column": lambda x: x[::2, :1],
    "[1,N] with an odd stride": lambda x: torch.as_strided(x, (1, 5), (3, 1)),
    "[N,1] with an odd stride": lambda x: torch.as_strided(x, (5, 1), (6, 5)),
    "Parameter": lambda x: torch.nn.Parameter(x),
    "requires_grad": lambda x: x.clone().requires_grad_(),
    "transposed Parameter": lambda x: torch.nn.Parameter(x).t(),
    "no rows": lambda x: x[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_f5_torch_views_give_right_numbers(name: str) -> None:
    a = VIEWS[name](torch.randn(8, 6, device="cuda"))
    b = torch.randn(a.shape[1], 3, device="cuda")
    y, other = torch.empty(a.shape[0], 3, device="cuda"), torch.empty(3, a.shape[0], device="cuda")
    tensor = ge.as_tensor(a)
    assert (tensor.shape, tensor.dtype, tensor.device, tensor.device_index) == (
        tuple(a.shape),
        ge.F32,
        ge.CUDA,
        0,
    )
    assert all(s == t for n, s, t in zip(a.shape, a.stride(), tensor.stride, strict=True) if n > 1)
    assert a.numel() == 0 or tensor.data == a.data_ptr()
    for given in (a, tensor):
        check_forward(a, b, y, given_a=given)
    check_forward(b.t().contiguous(), a.t(), other)
    check_forward(b.t(), a.t(), other)


@pytest.mark.parametrize(
    ("view", "error", "why"),
    [
        (
            lambda x: x[:, ::2],
            ge.StrideMismatch,
            r"A has strides \[6,2\], expected a stride of 1 along its rows",
        ),
        (lambda x: x[:1].expand(8, 6), ge.StrideMismatch, "A is expanded"),
        (lambda x: x[:, :1].expand(8, 6), ge.StrideMismatch, "A is expanded"),
        (lambda x: x.double(), ge.DtypeMismatch, "A is float64, expected float32"),
        (lambda x: x.half(), ge.DtypeMismatch, "A is F16, expected F32"),
        (lambda x: x.bfloat16(), ge.DtypeMismatch, "A is BF16, expected F32"),
        (lambda x: x.to(torch.complex64), ge.DtypeMismatch, "A is complex64"),
        (lambda x: x > 0, ge.DtypeMismatch, "A is bool"),
        (lambda x: x[0], ge.ShapeMismatch, r"A is \[6\] of rank 1"),
        (lambda x: x[None], ge.ShapeMismatch, r"A is \[1,8,6\] of rank 3"),
        (lambda x: x.cpu(), ge.DeviceMismatch, "B is on CUDA:0, expected CPU:0"),
        (lambda x: x.to_sparse(), TypeError, r"A \(torch.Tensor\) gives no access to its memory"),
        (lambda x: x.to("meta"), (TypeError, ge.DeviceMismatch), "^A|DeviceMismatch: A"),
    ],
)
def test_f5_other_torch_tensors_are_named_errors(view: Callable[[Any], Any], error: Any, why: str) -> None:
    a = view(torch.randn(8, 6, device="cuda"))
    m, k = a.shape[-2:] if a.ndim >= 2 else (8, 6)
    b, y = torch.randn(k, 3, device="cuda"), torch.empty(m, 3, device="cuda")
    with pytest.raises(error, match=why):
        gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)


def test_quantised_torch_tensors_are_no_arrays() -> None:
    x = torch.quantize_per_tensor(torch.randn(4, 4), 0.1, 0, torch.qint8)
    with pytest.raises((TypeError, ge.DtypeMismatch), match="object"):
        ge.as_tensor(x)


@pytest.mark.parametrize("view", [lambda y: y.t(), lambda y: y[:1].expand(3, 3), lambda y: y[:, ::2]])
def test_f5_torch_outputs_are_never_transposed_or_expanded(view: Callable[[Any], Any]) -> None:
    y = view(torch.zeros(3, 3, device="cuda"))
    a, b = torch.ones(y.shape[0], 4, device="cuda"), torch.ones(4, y.shape[1], device="cuda")
    with pytest.raises(ge.StrideMismatch, match="Y "):
        gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", ge.F32), ("float16", ge.F16), ("bfloat16", ge.BF16), ("int32", ge.I32), ("int8", ge.I8)],
)
def test_torch_dtypes_go_there_and_back(dtype: str, expected: ge.DType) -> None:
    x = torch.ones(3, 4, device="cuda").to(getattr(torch, dtype))
    tensor = ge.as_tensor(x)
    assert tensor.dtype is expected
    back = torch.from_dlpack(tensor)
    assert back.data_ptr() == x.data_ptr() and torch.equal(back, x)


def test_pinned_torch_memory_is_host_memory() -> None:
    x = torch.arange(6.0).reshape(2, 3).pin_memory()
    tensor = ge.as_tensor(x)
    assert described(tensor) == (x.data_ptr(), (2, 3), (3, 1), ge.F32, ge.CPU, 0)
    np.testing.assert_array_equal(tensor.numpy(), x.numpy())


def test_as_tensor_keeps_torch_memory_after_the_tensor_is_dropped() -> None:
    x = torch.full((64, 64), 3.0, device="cuda")
    tensor = ge.as_tensor(x)
    assert tensor.owner is x
    x.data = torch.zeros(1, device="cuda")  # the memory is held, not only the object
    del x
    gc.collect()
    others = [torch.full((64, 64), 7.0, device="cuda") for _ in range(64)]
    torch.cuda.synchronize()
    assert (torch.from_dlpack(tensor) == 3).all()
    assert all((each == 7).all() for each in others)


def test_memory_goes_back_to_torch_with_the_last_tensor() -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    tensor = ge.as_tensor(torch.zeros(1024, 1024, device="cuda"))
    views = [torch.from_dlpack(tensor), torch.as_tensor(tensor, device="cuda")]
    assert torch.cuda.memory_allocated() > before
    del tensor
    gc.collect()
    assert torch.cuda.memory_allocated() > before
    del views
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_conversions_of_torch_tensors_do_not_leak() -> None:
    x = torch.randn(16, 16, device="cuda")
    y = torch.empty(16, 16, device="cuda")
    attrs = gemm.GemmAttrs()
    ge.as_tensor(x)
    gemm.forward(x, x, None, y, attrs, None)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(10_000):
        ge.as_tensor(x.t())
    for _ in range(1000):
        gemm.forward(x.t(), x, None, y, attrs, None)
    torch.cuda.synchronize()
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_torch_sees_a_tensor_of_an_address_without_a_copy() -> None:
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    tensor = ge.make_tensor_2d(x.data_ptr(), (3, 2), ld=4)
    for view in (torch.from_dlpack(tensor), torch.as_tensor(tensor, device="cuda")):
        assert view.data_ptr() == x.data_ptr() and torch.equal(view, x[:, :2])


class Interface:
    """As Numba's arrays, which have no DLPack."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.__cuda_array_interface__ = {
            "shape": tuple(x.shape),
            "strides": tuple(4 * stride for stride in x.stride()),
            "typestr": "<f4",
            "data": (x.data_ptr(), False),
            "version": 3,
        }


def test_f5_the_cuda_array_interface_alone_is_enough() -> None:
    a, b, y = (torch.randn(5, 5, device="cuda") for _ in range(3))
    check_forward(a, b.t(), y, given_a=Interface(a), given_b=Interface(b.t()))
    assert described(ge.as_tensor(Interface(a))) == (a.data_ptr(), (5, 5), (5, 1), ge.F32, ge.CUDA, 0)


def test_the_cuda_array_interface_on_the_second_gpu() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.zeros(2, 3, device="cuda:1")
    assert ge.as_tensor(Interface(x)).device_index == 1
    assert ge.as_tensor(x).device_index == 1


# CuPy


@pytest.mark.parametrize(
    "name", ["whole", "X.t()", "X[::2]", "X[:, 1:]", "one strided row", "one strided column"]
)
def test_f5_cupy_views_give_right_numbers(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    view = {"X.t()": lambda x: x.T}.get(name, VIEWS[name])
    a = view(cupy.random.standard_normal((8, 6), dtype=cupy.float32))
    b = cupy.random.standard_normal((a.shape[1], 3), dtype=cupy.float32)
    y = cupy.full((a.shape[0], 3), cupy.nan, dtype=cupy.float32)
    tensor = ge.as_tensor(a)
    assert (tensor.data, tensor.shape, tensor.dtype, tensor.device) == (a.data.ptr, a.shape, ge.F32, ge.CUDA)
    assert all(s == 4 * t for n, s, t in zip(a.shape, a.strides, tensor.stride, strict=True) if n > 1)
    for given in (a, tensor):
        gemm.forward(given, b, None, y, gemm.GemmAttrs(), None)
        x, w = cupy.asnumpy(a).astype(np.float64), cupy.asnumpy(b).astype(np.float64)
        bound = (2 * a.shape[1] ** 0.5 + 8) * 2.0**-24 * (abs(x) @ abs(w))
        assert (abs(cupy.asnumpy(y) - x @ w) <= bound).all()


def test_f5_other_cupy_arrays_are_named_errors() -> None:
    cupy = pytest.importorskip("cupy")
    x, y = cupy.ones((4, 6), dtype=cupy.float32), cupy.empty((4, 3), dtype=cupy.float32)
    for view, error, why in (
        (lambda x: x[:, ::2], ge.StrideMismatch, "A has strides"),
        (lambda x: cupy.broadcast_to(x[:1], (4, 6)), ge.StrideMismatch, "A is expanded"),
        (lambda x: x.astype(cupy.float64), ge.DtypeMismatch, "A is float64"),
        (lambda x: x.astype(cupy.uint8), ge.DtypeMismatch, "A is uint8"),
    ):
        a = view(x)
        b = cupy.ones((a.shape[1], 3), dtype=cupy.float32)
        with pytest.raises(error, match=why):
            gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)


def test_cupy_memory_is_kept_and_shown_back() -> None:
    cupy = pytest.importorskip("cupy")
    tensor = ge.as_tensor(cupy.full((32, 32), 3, dtype=cupy.float32))
    gc.collect()
    others = [cupy.full((32, 32), 7, dtype=cupy.float32) for _ in range(64)]
    for view in (cupy.asarray(tensor), cupy.from_dlpack(tensor)):
        assert view.data.ptr == tensor.data and bool((view == 3).all())
    assert all(bool((each == 7).all()) for each in others)


def test_managed_cupy_memory_is_cuda_memory() -> None:
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.malloc_managed(64)
    x = cupy.ndarray((4, 4), dtype=cupy.float32, memptr=memory)
    assert ge.as_tensor(x).device is ge.CUDA


# JAX


def test_jax_arrays_are_read_only() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0, dtype=jax.numpy.float32).reshape(2, 3)
    tensor = ge.as_tensor(x)
    assert (tensor.shape, tensor.stride, tensor.read_only) == ((2, 3), (3, 1), True)
    with pytest.raises(ge.Invalid, match="Y is read-only"):
        gemm.forward(x, x.T, None, x, gemm.GemmAttrs(), None)
