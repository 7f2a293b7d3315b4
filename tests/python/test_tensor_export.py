"""How a Tensor shows its memory to others: NumPy, the array interfaces, DLPack."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref

import fakes
import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2 import Device, DType


def host(dtype: DType, shape: tuple[int, ...], stride: tuple[int, ...] | None = None) -> ge.Tensor:
    memory = (ctypes.c_char * 1024)()
    return ge.Tensor(
        ctypes.addressof(memory), ge.TensorDesc(dtype, shape=shape, stride=stride), ge.CPU, owner=memory
    )


NUMPY_TYPES = {DType.F32: np.float32, DType.F16: np.float16, DType.I32: np.int32, DType.I8: np.int8}


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=lambda dtype: dtype.name)
def test_host_memory_is_a_numpy_array_without_a_copy(dtype: DType) -> None:
    tensor = host(dtype, (3, 4), (8, 2))
    for view in (tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor)):  # type: ignore[arg-type]
        assert view.dtype == NUMPY_TYPES[dtype]
        assert (view.shape, view.ctypes.data) == ((3, 4), tensor.data)
        assert view.strides == (8 * view.itemsize, 2 * view.itemsize)
        view[2, 3] = 5
        assert tensor.numpy()[2, 3] == 5


def test_views_keep_the_tensor() -> None:
    for look in (lambda t: t.numpy(), np.asarray, np.from_dlpack):
        tensor = host(DType.F32, (4,))
        alive = weakref.ref(tensor)
        view = look(tensor)
        del tensor
        gc.collect()
        assert alive() is not None
        del view
        gc.collect()
        assert alive() is None


def test_cuda_memory_has_the_cuda_array_interface_only() -> None:
    tensor = ge.make_tensor_2d(0x1000, (3, 5), DType.F16, ld=8)
    assert tensor.__cuda_array_interface__ == {
        "shape": (3, 5),
        "strides": (16, 2),
        "typestr": "<f2",
        "data": (0x1000, False),
        "version": 3,
    }
    assert tensor.__dlpack_device__() == (fakes.CUDA, 0)
    assert not hasattr(tensor, "__array_interface__")
    with pytest.raises(ge.DeviceMismatch, match="on CUDA, expected host memory"):
        tensor.numpy()


def test_host_memory_has_the_array_interface_only() -> None:
    tensor = host(DType.F32, (2,))
    assert tensor.__array_interface__["data"] == (tensor.data, False)
    assert tensor.__dlpack_device__() == (fakes.CPU, 0)
    assert not hasattr(tensor, "__cuda_array_interface__")


def test_bf16_is_shown_by_dlpack_alone() -> None:
    tensor = host(DType.BF16, (2,))
    assert not hasattr(tensor, "__array_interface__")
    assert tensor.__dlpack__() is not None
    with pytest.raises(ge.DtypeMismatch, match="BF16"):
        tensor.numpy()


def test_dlpack_gives_the_version_that_the_caller_knows() -> None:
    tensor = host(DType.F32, (2,))
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(stream=-1, max_version=(2, 1), copy=False))
    assert tensor.__dlpack__(dl_device=(fakes.CPU, 0)) is not None


@pytest.mark.parametrize("device", [Device.CPU, Device.CUDA])
@pytest.mark.parametrize("stride", [2**61, -(2**63)])
def test_strides_beyond_64_bits_of_bytes_are_not_shown(device: Device, stride: int) -> None:
    tensor = ge.Tensor(4096, ge.TensorDesc(shape=(2,), stride=(stride,)), device)
    with pytest.raises(ge.Invalid, match=f"the tensor has a stride of {stride} elements"):
        tensor.__array_interface__ if device == Device.CPU else tensor.__cuda_array_interface__  # noqa: B018


def test_dlpack_refuses_what_would_be_silent() -> None:
    tensor = host(DType.F32, (2,))
    with pytest.raises(BufferError, match="copy"):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="dl_device"):
        tensor.__dlpack__(dl_device=(fakes.CUDA, 0))
    with pytest.raises(BufferError, match="dl_device"):
        tensor.__dlpack__(dl_device=(fakes.CPU, 2**70))
    for wrong in (1, (), ("1", 0), (1.0, 0)):
        for name in ("max_version", "dl_device"):
            with pytest.raises(TypeError, match=f"{name} is .*, expected a pair of ints"):
                tensor.__dlpack__(**{name: wrong})
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    fixed = ge.as_tensor(array)
    with pytest.raises(BufferError, match="read-only"):
        fixed.__dlpack__()
    assert not np.from_dlpack(fixed).flags.writeable  # type: ignore[arg-type]
    assert not fixed.numpy().flags.writeable


def test_a_dlpack_capsule_that_nobody_uses_frees_the_tensor() -> None:
    for version in (None, (1, 0)):
        tensor = host(DType.F32, (2,))
        before = sys.getrefcount(tensor)
        capsules = [tensor.__dlpack__(max_version=version) for _ in range(100)]
        assert sys.getrefcount(tensor) == before + 100
        del capsules
        assert sys.getrefcount(tensor) == before


def test_a_null_or_temporary_tensor_is_shown_to_nobody() -> None:
    null = ge.make_tensor_2d(0, (2, 3), device=ge.CPU)
    temporary = ge.Program().temporary((2, 3), device=ge.CPU)
    for tensor, why in ((null, "null"), (temporary, "temporary")):
        for look in (lambda t: t.numpy(), lambda t: t.__array_interface__, lambda t: t.__dlpack__()):
            with pytest.raises(ge.Invalid, match=why):
                look(tensor)
    assert ge.make_tensor_2d(0, (0, 3), device=ge.CPU).numpy().shape == (0, 3)
