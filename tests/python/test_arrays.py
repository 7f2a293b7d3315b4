"""What arrays of all kinds say of their memory, seen through as_tensor, and what operands become of it (case F5)."""

from __future__ import annotations

import array as array_module
import ctypes
import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import fakes
import numpy as np
import pytest
from fakes import CPU, CUDA, CudaArray, DLPack, OldDLPack, exchange_class

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

RNG = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# NumPy and the buffer protocol ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "shape", "stride"),
    [
        (lambda x: x, (4, 6), (6, 1)),
        (lambda x: x.T, (6, 4), (1, 6)),
        (lambda x: x[:, ::2], (4, 3), (6, 2)),
        (lambda x: x[::2], (2, 6), (12, 1)),
        (lambda x: x[:, 1:], (4, 5), (6, 1)),
        (lambda x: x[::-1], (4, 6), (-6, 1)),
        (lambda x: np.broadcast_to(x[0], (3, 6)), (3, 6), (0, 1)),
        (lambda x: x[0, 0], (), ()),
        (lambda x: x[1, 2:3], (1,), (1,)),
        (lambda x: x[:0], (0, 6), (6, 1)),
        (lambda x: x.reshape(2, 2, 3, 2), (2, 2, 3, 2), (12, 6, 2, 1)),
    ],
)
def test_f5_numpy_views_are_described_by_their_strides(
    view: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    seen = np.asarray(view(floats(4, 6)))
    tensor = ge.as_tensor(seen)
    assert (tensor.shape, tensor.stride, tensor.data) == (shape, stride, seen.ctypes.data)
    assert (tensor.dtype, tensor.device, tensor.device_index) == (ge.F32, ge.CPU, 0)
    assert tensor.owner is seen


@pytest.mark.parametrize(
    ("dtype", "expected"), [("f4", "F32"), ("f2", "F16"), ("i4", "I32"), ("i1", "I8"), ("<f4", "F32"), ("=i4", "I32")]
)
def test_numpy_dtypes_of_the_library(dtype: str, expected: str) -> None:
    assert ge.as_tensor(np.zeros(3, dtype)).dtype.name == expected


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("f8", "float64"),
        ("i8", "int64"),
        ("u1", "uint8"),
        ("u4", "uint32"),
        ("i2", "int16"),
        ("c8", "complex64"),
        ("?", "bool"),
        (">f4", "big-endian float32"),
        (">i4", "big-endian int32"),
        ([("a", "f4"), ("b", "f4")], "of format"),
    ],
)
def test_f5_other_numpy_dtypes_are_named(dtype: Any, name: str) -> None:
    with pytest.raises(ge.DtypeMismatch, match=f"^DtypeMismatch: object is {name}.*, expected float32"):
        ge.as_tensor(np.zeros(3, dtype))


def test_numpy_dtypes_without_a_buffer_are_type_errors_with_a_cause() -> None:
    with pytest.raises(TypeError, match=r"object \(numpy.ndarray\) gives no access to its memory") as caught:
        ge.as_tensor(np.zeros(3, "M8[s]"))
    assert isinstance(caught.value.__cause__, BufferError)


def test_f5_strides_between_elements_are_a_stride_mismatch() -> None:
    table = np.zeros(4, [("x", "f4"), ("flag", "i1")])
    with pytest.raises(ge.StrideMismatch, match="object has a stride of 5 bytes, expected a multiple of its element's 4"):
        ge.as_tensor(table["x"])
    assert ge.as_tensor(table["x"][:1]).shape == (1,)  # no second element, no stride
    assert ge.as_tensor(table["x"][:0]).shape == (0,)


def test_more_than_four_dimensions_are_a_shape_mismatch() -> None:
    with pytest.raises(ge.ShapeMismatch, match="object is of rank 5, expected at most 4"):
        ge.as_tensor(np.zeros((1,) * 5, np.float32))


def test_other_exporters_of_buffers_are_arrays() -> None:
    assert ge.as_tensor(array_module.array("f", [1, 2])).shape == (2,)
    assert ge.as_tensor((ctypes.c_float * 6)()).dtype is ge.F32
    assert ge.as_tensor(memoryview(bytearray(16)).cast("f")).shape == (4,)
    assert ge.as_tensor(memoryview(bytearray(16)).cast("f", (2, 2))).stride == (2, 1)
    with pytest.raises(ge.DtypeMismatch, match="object is uint8"):
        ge.as_tensor(b"bytes")


def test_a_read_only_array_is_no_output() -> None:
    fixed = floats(2, 2)
    fixed.flags.writeable = False
    tensor = ge.as_tensor(fixed)
    assert tensor.read_only
    a = floats(2, 2)
    for y in (fixed, tensor):
        with pytest.raises(ge.Invalid, match="Y is read-only, expected memory that may be written"):
            gemm.forward(a, a, None, y, gemm.GemmAttrs(), None)
    y = np.empty((2, 2), np.float32)
    for read in (fixed, tensor):
        gemm.forward(read, a, None, y, gemm.GemmAttrs(), None)
        np.testing.assert_allclose(y, fixed @ a, rtol=1e-5, atol=1e-6)


def test_as_tensor_holds_the_array_until_it_goes() -> None:
    given = floats(3, 3)
    alive = weakref.ref(given)
    tensor = ge.as_tensor(given)
    expected = given.copy()
    with pytest.raises(ValueError, match="resize"):
        given.resize((100, 100))
    del given
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(tensor.numpy(), expected)
    del tensor
    assert alive() is None


def test_as_tensor_of_a_bytearray_keeps_it_in_place() -> None:
    memory = bytearray(64)
    tensor = ge.as_tensor(memoryview(memory).cast("f"))
    with pytest.raises(BufferError):
        memory.extend(b"x" * 10_000)
    del tensor
    memory.extend(b"x" * 10_000)


def test_as_tensor_of_a_tensor_is_itself() -> None:
    tensor = ge.make_tensor_2d(64, (2, 3))
    assert ge.as_tensor(tensor) is tensor


# __cuda_array_interface__ --------------------------------------------------------------------------------------------


def test_a_cuda_array_is_described_without_a_gpu() -> None:
    item = CudaArray(data=(0x7F1234567890, False), shape=(4, 5))
    tensor = ge.as_tensor(item)
    assert (tensor.data, tensor.shape, tensor.stride) == (0x7F1234567890, (4, 5), (5, 1))
    assert (tensor.dtype, tensor.device, tensor.device_index) == (ge.F32, ge.CUDA, 0)
    assert tensor.owner is item and not tensor.read_only


def test_a_cuda_array_has_strides_in_bytes() -> None:
    assert ge.as_tensor(CudaArray(strides=(4, 8))).stride == (1, 2)
    assert ge.as_tensor(CudaArray(strides=...)).stride == (3, 1)
    assert ge.as_tensor(CudaArray(typestr="<f2", strides=(64, 2))).stride == (32, 1)
    with pytest.raises(ge.StrideMismatch, match="object has a stride of 6 bytes"):
        ge.as_tensor(CudaArray(strides=(6, 4)))


@pytest.mark.parametrize(
    ("typestr", "name"), [("<f8", "float64"), (">f4", "big-endian float32"), ("|u1", "uint8"), ("|V2", "of typestr")]
)
def test_other_cuda_array_dtypes_are_named(typestr: str, name: str) -> None:
    with pytest.raises(ge.DtypeMismatch, match=f"object is {name}"):
        ge.as_tensor(CudaArray(typestr=typestr))
    assert ge.as_tensor(CudaArray(typestr="|i1")).dtype is ge.I8


def test_a_read_only_cuda_array_is_no_output() -> None:
    assert ge.as_tensor(CudaArray(data=(0x1000, True))).read_only
    with pytest.raises(ge.Invalid, match="Y is read-only"):
        gemm.forward(CudaArray(), CudaArray(), None, CudaArray(data=(0x1000, True)), gemm.GemmAttrs(), None)


def test_an_empty_cuda_array_may_be_null() -> None:
    for address in (0, None):
        assert ge.as_tensor(CudaArray(shape=(0, 3), data=(address, False))).data == 0


def test_a_masked_cuda_array_is_invalid() -> None:
    with pytest.raises(ge.Invalid, match="object is masked"):
        ge.as_tensor(CudaArray(mask=CudaArray()))
    assert ge.as_tensor(CudaArray(mask=None)).shape == (2, 3)


@pytest.mark.parametrize(
    "entries",
    [
        {"shape": ...},
        {"shape": [2, 3]},
        {"shape": (2.0, 3)},
        {"shape": (2**63, 3)},
        {"typestr": ...},
        {"typestr": 4},
        {"typestr": "f"},
        {"typestr": "<f"},
        {"typestr": "<f0"},
        {"typestr": "<f-4"},
        {"typestr": "<f99999999999999999999"},
        {"typestr": "\ud800f4"},
        {"data": ...},
        {"data": 0x1000},
        {"data": (0x1000,)},
        {"data": ("x", False)},
        {"data": (1.5, False)},
        {"strides": (4,)},
        {"strides": 4},
        {"strides": (4.0, 4)},
    ],
)
def test_a_broken_cuda_array_is_a_type_error(entries: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        ge.as_tensor(CudaArray(**entries))


def test_a_cuda_array_beyond_64_bits_is_invalid() -> None:
    for address in (-8, 2**64):
        with pytest.raises(ge.Invalid, match="expected an address of at most 64 bits"):
            ge.as_tensor(CudaArray(data=(address, False)))


# __dlpack__ ----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    before = fakes.live_exports()
    yield
    if fakes.live_exports() != before:
        gc.collect()
    assert fakes.live_exports() == before


def test_dlpack_describes_cuda_memory_and_asks_for_no_synchronisation() -> None:
    item = DLPack(0x1000, (4, 6), (1, 4), device=(CUDA, 3), byte_offset=64)
    tensor = ge.as_tensor(item)
    assert (tensor.data, tensor.shape, tensor.stride) == (0x1040, (4, 6), (1, 4))
    assert (tensor.device, tensor.device_index, tensor.dtype) == (ge.CUDA, 3, ge.F32)
    assert item.asked == {"stream": -1, "max_version": (1, 0)}
    assert tensor.owner is item


def test_dlpack_of_host_memory_is_asked_for_no_stream() -> None:
    item = DLPack(0x1000, (4,), device=(CPU, 0))
    assert ge.as_tensor(item).device is ge.CPU
    assert item.asked == {"max_version": (1, 0)}


def test_dlpack_without_strides_is_compact() -> None:
    assert ge.as_tensor(DLPack(0x1000, (2, 3, 4))).stride == (12, 4, 1)


def test_dlpack_from_before_version_1_is_read() -> None:
    item = OldDLPack(0x1000, (2, 3))
    tensor = ge.as_tensor(item)
    assert (tensor.shape, tensor.read_only, item.asked) == ((2, 3), False, {"stream": -1})


@pytest.mark.parametrize(
    ("device", "expected"),
    [(CPU, ge.CPU), (CUDA, ge.CUDA), (fakes.CUDA_HOST, ge.CPU), (fakes.CUDA_MANAGED, ge.CUDA)],
)
def test_dlpack_devices(device: int, expected: ge.Device) -> None:
    tensor = ge.as_tensor(DLPack(0x1000, (2,), device=(device, 1)))
    assert (tensor.device, tensor.device_index) == (expected, 1 if expected is ge.CUDA else 0)


def test_dlpack_of_other_devices_is_a_device_mismatch() -> None:
    with pytest.raises(ge.DeviceMismatch, match="object is on DLPack device type 10, expected memory of the host or of"):
        ge.as_tensor(DLPack(0x1000, (2,), device=(fakes.ROCM, 0)))


@pytest.mark.parametrize(
    ("dtype", "lanes", "name"),
    [
        ((fakes.FLOAT, 64), 1, "float64"),
        ((fakes.UINT, 8), 1, "uint8"),
        ((fakes.COMPLEX, 64), 1, "complex64"),
        ((fakes.BOOL, 8), 1, "bool"),
        ((fakes.FLOAT, 32), 4, "a vector type"),
        ((7, 8), 1, "DLPack type 7 of 8 bits"),
    ],
)
def test_other_dlpack_dtypes_are_named(dtype: tuple[int, int], lanes: int, name: str) -> None:
    with pytest.raises(ge.DtypeMismatch, match=f"object is {name}, expected"):
        ge.as_tensor(DLPack(0x1000, (2,), dtype=dtype, lanes=lanes))
    assert ge.as_tensor(DLPack(0x1000, (2,), dtype=(fakes.BFLOAT, 16))).dtype is ge.BF16


def test_read_only_dlpack_memory_is_no_output() -> None:
    assert ge.as_tensor(DLPack(0x1000, (2,), flags=fakes.READ_ONLY)).read_only
    a = DLPack(0x1000, (2, 2))
    with pytest.raises(ge.Invalid, match="Y is read-only"):
        gemm.forward(a, a, None, DLPack(0x2000, (2, 2), flags=fakes.READ_ONLY), gemm.GemmAttrs(), None)


def test_a_dlpack_copy_is_only_for_reading_and_only_where_it_is_kept() -> None:
    tensor = ge.as_tensor(DLPack(0x1000, (2, 2), flags=fakes.COPIED))
    assert tensor.read_only
    a, copy = DLPack(0x1000, (2, 2)), DLPack(0x2000, (2, 2), flags=fakes.COPIED)
    with pytest.raises(ge.Invalid, match="B is exported as a copy, expected its own memory"):
        gemm.forward(a, copy, None, a, gemm.GemmAttrs(), None)


def test_a_kept_dlpack_capsule_is_freed_with_the_tensor() -> None:
    before = fakes.live_exports()
    tensor = ge.as_tensor(DLPack(0x1000, (2,)))
    assert fakes.live_exports() == before + 1
    del tensor
    assert fakes.live_exports() == before


class NextMajor(DLPack):
    major = 2


class NoCapsule:
    def __dlpack__(self, **_: Any) -> Any:
        return 3


class OddDevice(DLPack):
    def __dlpack_device__(self) -> Any:
        return "cuda"


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (NextMajor(0x1000, (2,)), "another major version of DLPack"),
        (NoCapsule(), "gives no DLPack capsule"),
        (OddDevice(0x1000, (2,)), "gives no pair"),
    ],
)
def test_broken_dlpack_is_a_type_error(item: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        ge.as_tensor(item)


class Raising:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __dlpack__(self, **_: Any) -> Any:
        raise self.error("no luck")


@pytest.mark.parametrize("error", [BufferError, RuntimeError, TypeError, ValueError, ZeroDivisionError])
def test_what_an_array_raises_is_the_cause_of_a_type_error(error: type[Exception]) -> None:
    with pytest.raises(TypeError, match=r"object \(.*Raising\) gives no access to its memory: no luck") as caught:
        ge.as_tensor(Raising(error))
    assert type(caught.value.__cause__) is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_news_about_an_array_passes(error: type[BaseException]) -> None:
    with pytest.raises(error):
        ge.as_tensor(Raising(error))


class OddAttribute:
    @property
    def __cuda_array_interface__(self) -> Any:
        raise OSError("gone")


def test_an_attribute_that_raises_is_the_cause_of_a_type_error() -> None:
    with pytest.raises(TypeError, match="gone") as caught:
        ge.as_tensor(OddAttribute())
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("item", [None, 3, 2.5, "text", object(), [1.0], DLPack, np.ndarray, np.float32])
def test_what_is_no_array_is_a_type_error(item: Any) -> None:
    with pytest.raises(TypeError, match=r"object \(.*\) is no Tensor and has no buffer, __dlpack__ or"):
        ge.as_tensor(item)


# DLPack's table of C functions ---------------------------------------------------------------------------------------


def test_the_exchange_table_is_used_before_anything_else() -> None:
    item = exchange_class(base=DLPack)(0x1000, (4, 6), (1, 4), device=(CUDA, 1), byte_offset=8)
    tensor = ge.as_tensor(item)
    assert (tensor.data, tensor.shape, tensor.stride, tensor.device_index) == (0x1008, (4, 6), (1, 4), 1)
    assert (item.managed_calls, item.tensor_calls) == (1, 0)  # kept: the memory has an owner of its own
    assert not hasattr(item, "asked")


def test_a_call_takes_the_quick_function_of_the_exchange_table() -> None:
    memory = floats(3, 2, 2)
    a, b, y = (
        exchange_class()(each.ctypes.data, (2, 2), device=(CPU, 0)) for each in memory
    )
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(memory[2], memory[0] @ memory[1], rtol=1e-5, atol=1e-6)
    assert [(each.managed_calls, each.tensor_calls) for each in (a, b, y)] == [(0, 1)] * 3


def test_a_call_does_without_the_quick_function() -> None:
    memory = floats(3, 2, 2)
    a, b, y = (
        exchange_class(quick=False)(each.ctypes.data, (2, 2), device=(CPU, 0)) for each in memory
    )
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(memory[2], memory[0] @ memory[1], rtol=1e-5, atol=1e-6)
    assert fakes.live_exports() == 0


def test_memory_of_the_exchange_table_is_freed_with_the_tensor() -> None:
    before = fakes.live_exports()
    tensor = ge.as_tensor(exchange_class()(0x1000, (2,)))
    assert fakes.live_exports() == before + 1
    del tensor
    assert fakes.live_exports() == before


def test_a_later_major_version_of_the_exchange_table_may_have_an_earlier_one() -> None:
    later = exchange_class(major=2, previous=exchange_class())
    assert ge.as_tensor(later(0x1000, (2, 5))).shape == (2, 5)
    with pytest.raises(TypeError, match="is no Tensor"):
        ge.as_tensor(exchange_class(major=2)(0x1000, (2,)))


def test_a_subclass_has_its_base_s_exchange_table() -> None:
    kind = exchange_class()
    assert ge.as_tensor(type("Parameter", (kind,), {})(0x1000, (2,))).shape == (2,)


def test_an_attribute_that_is_no_exchange_table_is_passed_over() -> None:
    for odd in (3, fakes.capsule(8, b"other")):
        kind = type("Odd", (DLPack,), {"__dlpack_c_exchange_api__": odd})
        assert ge.as_tensor(kind(0x1000, (2,))).shape == (2,)


def test_an_error_of_the_exchange_table_is_the_cause_of_a_type_error() -> None:
    item = exchange_class(raises=True)(0x1000, (2, 2))
    with pytest.raises(TypeError, match=r"object \(.*Exchanged\) gives no access to its memory: a bytes-like") as caught:
        ge.as_tensor(item)
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(TypeError, match=r"A \(.*Exchanged\) gives no access to its memory: a bytes-like"):
        gemm.forward(item, item, None, item, gemm.GemmAttrs(), None)


def test_an_exchange_table_that_fails_without_an_error_is_a_type_error() -> None:
    item = exchange_class()(0x1000, (2, 2))
    item.fails = True
    with pytest.raises(TypeError, match=r"object \(.*Exchanged\) gives no access to its memory"):
        ge.as_tensor(item)


def test_many_types_are_forgotten_again() -> None:
    kinds = [exchange_class() for _ in range(100)]
    for kind in kinds * 2:
        assert ge.as_tensor(kind(0x1000, (2,))).shape == (2,)
    gone = [weakref.ref(kind) for kind in kinds]
    del kinds, kind
    gc.collect()
    assert sum(each() is not None for each in gone) <= 16


# Operands ------------------------------------------------------------------------------------------------------------

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
        (lambda x: x[:, ::2], ge.StrideMismatch, r"A has strides \[6,2\], expected a stride of 1 along its rows"),
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
def test_f5_other_factors_are_named_errors(view: Callable[[Any], Any], error: type[Exception], why: str) -> None:
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
def test_f5_an_output_is_never_transposed_or_expanded(view: Callable[[np.ndarray], np.ndarray], why: str) -> None:
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
        gemm.forward(floats(4, 6), floats(6, 3), np.broadcast_to(floats(1), (3,)), floats(4, 3), gemm.GemmAttrs(), None)


def test_operands_on_two_devices_are_a_device_mismatch() -> None:
    with pytest.raises(ge.DeviceMismatch, match="B is on CUDA:0, expected CPU:0"):
        gemm.forward(floats(2, 2), CudaArray(shape=(2, 2)), None, floats(2, 2), gemm.GemmAttrs(), None)


# Leaks ---------------------------------------------------------------------------------------------------------------


def test_conversions_do_not_leak() -> None:
    given = floats(4, 4)
    items: list[Any] = [given, CudaArray(), memoryview(given)]
    y = np.empty((4, 4), np.float32)
    plain = gemm.GemmAttrs()

    def convert(count: int) -> None:
        for _ in range(count):
            for item in items:
                ge.as_tensor(item)
            gemm.forward(given, given.T, None, y, plain, None)

    convert(100)
    gc.collect()
    counts = [sys.getrefcount(item) for item in [*items, y, type(items[1])]]
    tracemalloc.start()
    convert(20_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [sys.getrefcount(item) for item in [*items, y, type(items[1])]] == counts
    assert grown < 20_000


def test_dlpack_conversions_do_not_leak() -> None:
    items = [DLPack(0x1000, (2, 2)), exchange_class()(0x1000, (2, 2)), OldDLPack(0x1000, (2, 2))]
    for item in items:
        ge.as_tensor(item)
    counts = [sys.getrefcount(item) for item in items]
    for _ in range(3000):
        for item in items:
            ge.as_tensor(item)
    assert [sys.getrefcount(item) for item in items] == counts
