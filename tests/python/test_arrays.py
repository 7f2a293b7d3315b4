"""What arrays say of their memory by buffers and by __cuda_array_interface__, seen through as_tensor."""

from __future__ import annotations

import array as array_module
import ctypes
import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes import CudaArray, DLPack

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

RNG = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# NumPy and the buffer protocol


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
    ("dtype", "expected"),
    [("f4", "F32"), ("f2", "F16"), ("i4", "I32"), ("i1", "I8"), ("<f4", "F32"), ("=i4", "I32")],
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
    with pytest.raises(
        ge.StrideMismatch, match="object has a stride of 5 bytes, expected a multiple of its element's 4"
    ):
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


# __cuda_array_interface__


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
    ("typestr", "name"),
    [("<f8", "float64"), (">f4", "big-endian float32"), ("|u1", "uint8"), ("|V2", "of typestr")],
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


class OddAttribute:
    @property
    def __cuda_array_interface__(self) -> Any:
        raise OSError("gone")


def test_an_attribute_that_raises_is_the_cause_of_a_type_error() -> None:
    with pytest.raises(TypeError, match="gone") as caught:
        ge.as_tensor(OddAttribute())
    assert isinstance(caught.value.__cause__, OSError)


# Neither


def test_e7_a_tensor_of_another_build_is_a_type_error_whatever_it_offers() -> None:
    for base, given in ((CudaArray, ()), (DLPack, (0x1000, (2, 3)))):
        kind = type("Tensor", (base,), {"__graph_executor_build__": "other"})
        with pytest.raises(TypeError, match="belongs to another build of this module"):
            ge.as_tensor(kind(*given))


@pytest.mark.parametrize("item", [None, 3, 2.5, "text", object(), [1.0], DLPack, np.ndarray, np.float32])
def test_what_is_no_array_is_a_type_error(item: Any) -> None:
    with pytest.raises(TypeError, match=r"object \(.*\) is no Tensor and has no buffer, __dlpack__ or"):
        ge.as_tensor(item)


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
