"""What arrays say of their memory by DLPack: __dlpack__ and the table of C functions that torch has."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import fakes
import numpy as np
import pytest
from fakes import CPU, CUDA, DLPack, OldDLPack, exchange_class

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

RNG = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


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


def test_jax_is_asked_for_no_stream_and_is_read_only() -> None:
    item = type("ArrayImpl", (DLPack,), {"__module__": "jaxlib._jax", "versioned": False})(0x1000, (2, 3))
    assert ge.as_tensor(item).read_only
    assert item.asked == {"max_version": (1, 0)}


@pytest.mark.parametrize(
    ("device", "expected"),
    [(CPU, ge.CPU), (CUDA, ge.CUDA), (fakes.CUDA_HOST, ge.CPU), (fakes.CUDA_MANAGED, ge.CUDA)],
)
def test_dlpack_devices(device: int, expected: ge.Device) -> None:
    tensor = ge.as_tensor(DLPack(0x1000, (2,), device=(device, 1)))
    assert (tensor.device, tensor.device_index) == (expected, 1 if expected is ge.CUDA else 0)


def test_dlpack_of_other_devices_is_a_device_mismatch() -> None:
    with pytest.raises(
        ge.DeviceMismatch, match="object is on DLPack device type 10, expected memory of the host or of"
    ):
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
        raise self.error("no luck\nC++ stack trace")


@pytest.mark.parametrize("error", [BufferError, RuntimeError, TypeError, ValueError, ZeroDivisionError])
def test_what_an_array_raises_is_the_cause_of_a_type_error(error: type[Exception]) -> None:
    with pytest.raises(
        TypeError, match=r"object \(.*Raising\) gives no access to its memory: no luck$"
    ) as caught:
        ge.as_tensor(Raising(error))
    assert type(caught.value.__cause__) is error


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_news_about_an_array_passes(error: type[BaseException]) -> None:
    with pytest.raises(error):
        ge.as_tensor(Raising(error))


# The table of C functions


def test_the_exchange_table_is_used_before_anything_else() -> None:
    item = exchange_class(base=DLPack)(0x1000, (4, 6), (1, 4), device=(CUDA, 1), byte_offset=8)
    tensor = ge.as_tensor(item)
    assert (tensor.data, tensor.shape, tensor.stride, tensor.device_index) == (0x1008, (4, 6), (1, 4), 1)
    assert (item.managed_calls, item.tensor_calls) == (1, 0)  # kept: the memory has an owner of its own
    assert not hasattr(item, "asked")


def test_a_call_takes_the_quick_function_of_the_exchange_table() -> None:
    memory = floats(3, 2, 2)
    a, b, y = (exchange_class()(each.ctypes.data, (2, 2), device=(CPU, 0)) for each in memory)
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(memory[2], memory[0] @ memory[1], rtol=1e-5, atol=1e-6)
    assert [(each.managed_calls, each.tensor_calls) for each in (a, b, y)] == [(0, 1)] * 3


def test_a_call_does_without_the_quick_function() -> None:
    memory = floats(3, 2, 2)
    a, b, y = (exchange_class(quick=False)(each.ctypes.data, (2, 2), device=(CPU, 0)) for each in memory)
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    np.testing.assert_allclose(memory[2], memory[0] @ memory[1], rtol=1e-5, atol=1e-6)
    assert fakes.live_exports() == 0


def test_memory_of_the_exchange_table_is_freed_with_the_tensor() -> None:
    before = fakes.live_exports()
    tensor = ge.as_tensor(exchange_class()(0x1000, (2,)))
    assert fakes.live_exports() == before + 1
    del tensor
    assert fakes.live_exports() == before


def test_memory_is_kept_by_an_alias_where_the_object_s_own_may_be_swapped() -> None:
    kind = exchange_class()
    item = kind(0x1000, (2, 3))
    item.detach = lambda: kind(item.data, item.shape)
    assert ge.as_tensor(item).data == 0x1000
    assert item.managed_calls == 0
    item.detach = lambda: 3  # something else of that name
    assert ge.as_tensor(item).data == 0x1000
    assert item.managed_calls == 1


def test_a_view_that_is_yet_to_be_negated_is_refused() -> None:
    """As torch's `z.conj().imag` is: its export has the memory and not the sign."""
    kind = exchange_class()
    item = kind(0x1000, (3,), (2,))
    item.is_neg = lambda: True
    with pytest.raises(ge.Invalid, match="yet to negate"):
        ge.as_tensor(item)
    with pytest.raises(ge.Invalid, match="bias is a view"):
        gemm.forward(ge.make_tensor_2d(64, (2, 4)), ge.make_tensor_2d(256, (4, 3)), item, ge.make_tensor_2d(512, (2, 3)),
                     gemm.GemmAttrs(), None)  # fmt: skip
    item.is_neg = lambda: False
    assert ge.as_tensor(item).stride == (2,)


def test_a_later_major_version_of_the_exchange_table_may_have_an_earlier_one() -> None:
    later = exchange_class(major=2, previous=exchange_class())
    assert ge.as_tensor(later(0x1000, (2, 5))).shape == (2, 5)
    with pytest.raises(TypeError, match="is no Tensor"):
        ge.as_tensor(exchange_class(major=2)(0x1000, (2,)))


def test_a_subclass_has_its_base_s_exchange_table() -> None:
    kind = exchange_class()
    assert ge.as_tensor(type("Parameter", (kind,), {})(0x1000, (2,))).shape == (2,)


def test_the_exchange_table_is_held_as_long_as_it_is_known() -> None:
    kind = exchange_class()
    table = kind.__dlpack_c_exchange_api__
    before = sys.getrefcount(table)
    ge.as_tensor(kind(0x1000, (2,)))
    del kind.__dlpack_c_exchange_api__
    assert sys.getrefcount(table) == before


def test_an_attribute_that_is_no_exchange_table_is_passed_over() -> None:
    for odd in (3, fakes.capsule(8, b"other")):
        kind = type("Odd", (DLPack,), {"__dlpack_c_exchange_api__": odd})
        assert ge.as_tensor(kind(0x1000, (2,))).shape == (2,)


def test_an_error_of_the_exchange_table_is_the_cause_of_a_type_error() -> None:
    item = exchange_class(raises=True)(0x1000, (2, 2))
    with pytest.raises(
        TypeError, match=r"object \(.*Exchanged\) gives no access to its memory: a bytes-like"
    ) as caught:
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


def test_dlpack_conversions_do_not_leak() -> None:
    items = [DLPack(0x1000, (2, 2)), exchange_class()(0x1000, (2, 2)), OldDLPack(0x1000, (2, 2))]
    for item in items:
        ge.as_tensor(item)
    counts = [sys.getrefcount(item) for item in items]
    for _ in range(3000):
        for item in items:
            ge.as_tensor(item)
    assert [sys.getrefcount(item) for item in items] == counts
