"""Enums, TensorDesc, Tensor, and the functions that make Tensors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2 import Device, DType, Layout


def test_the_enums_have_the_library_s_names() -> None:
    names = {enum: [member.name for member in enum] for enum in (ge.ActKind, Device, DType, Layout)}
    assert names == {
        ge.ActKind: ["None_", "ReLU", "LeakyReLU", "ELU", "GELU", "GELUTanh", "SiLU", "Sigmoid", "Tanh"],
        Device: ["CPU", "CUDA"],
        DType: ["F32", "F16", "BF16", "I32", "I8"],
        Layout: ["RowMajor", "ColMajor"],
    }
    assert (ge.CPU, ge.CUDA, ge.F32, ge.I8) == (Device.CPU, Device.CUDA, DType.F32, DType.I8)


# TensorDesc


def test_a_desc_without_strides_is_compact() -> None:
    desc = ge.TensorDesc(DType.I32, Layout.RowMajor, (2, 3, 4))
    assert (desc.dtype, desc.layout, desc.shape, desc.stride) == (
        DType.I32,
        Layout.RowMajor,
        (2, 3, 4),
        (12, 4, 1),
    )
    assert ge.TensorDesc(layout=Layout.ColMajor, shape=[2, 3, 4]).stride == (1, 2, 6)
    assert ge.TensorDesc().shape == ge.TensorDesc().stride == ()


def test_a_desc_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(ge.ShapeMismatch, match="shape has 5 entries, expected at most 4"):
        ge.TensorDesc(shape=(1, 2, 3, 4, 5))
    with pytest.raises(ge.StrideMismatch, match="stride has 1 entries, expected 2"):
        ge.TensorDesc(shape=(2, 3), stride=(1,))
    with pytest.raises(ge.Invalid, match="shape has 9223372036854775808"):
        ge.TensorDesc(shape=(2**63,))
    with pytest.raises(TypeError):
        ge.TensorDesc(shape=(2.5,))
    with pytest.raises(TypeError, match="shape is no sequence"):
        ge.TensorDesc(shape=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ge.TensorDesc("F32")  # type: ignore[arg-type]


def test_descs_and_tensors_do_not_change() -> None:
    for item, name in (
        (ge.TensorDesc(), "dtype"),
        (ge.TensorDesc(), "shape"),
        (ge.make_tensor_1d(16, 1), "data"),
    ):
        with pytest.raises(AttributeError):
            setattr(item, name, getattr(item, name))


# Tensors of an address


def test_make_tensor_2d_describes_a_row_major_matrix_on_cuda() -> None:
    tensor = ge.make_tensor_2d(0x7F0000001000, (3, 5))
    assert tensor.data == 0x7F0000001000
    assert (tensor.shape, tensor.stride, tensor.ld) == ((3, 5), (5, 1), 5)
    assert (tensor.dtype, tensor.device, tensor.device_index) == (ge.F32, ge.CUDA, 0)
    assert (tensor.owner, tensor.read_only) == (None, False)
    assert tensor.desc.layout is Layout.RowMajor


def test_make_tensor_2d_takes_everything_by_name_and_by_place() -> None:
    tensor = ge.make_tensor_2d(64, [3, 5], DType.BF16, Device.CUDA, 2, 8)
    named = ge.make_tensor_2d(
        ptr=64, shape=(3, 5), dtype=DType.BF16, device=Device.CUDA, device_index=2, ld=8
    )
    for each in (tensor, named):
        assert (each.shape, each.stride, each.dtype, each.device_index) == ((3, 5), (8, 1), DType.BF16, 2)


def test_make_tensor_1d_describes_a_vector() -> None:
    tensor = ge.make_tensor_1d(64, 7, ge.F32, ge.CPU, 0, 3)
    assert (tensor.shape, tensor.stride, tensor.device) == ((7,), (3,), ge.CPU)
    assert ge.make_tensor_1d(64, 7).stride == (1,)
    assert not hasattr(tensor, "ld")


@pytest.mark.parametrize("address", [0, 1, 2**31, 2**32 + 16, 2**47, 2**63, 2**64 - 4])
def test_f1_64_bit_pointers_survive(address: int) -> None:
    assert ge.make_tensor_2d(address, (1, 1)).data == address
    assert ge.make_tensor_1d(np.uint64(address), 1).data == address


class Number(int):
    pass


def test_f1_pointers_may_be_any_integer_type() -> None:
    assert ge.make_tensor_2d(Number(48), (1, 1)).data == 48
    assert ge.make_tensor_2d(np.int64(48), (1, 1)).data == 48


@pytest.mark.parametrize("make", [lambda p: ge.make_tensor_2d(p, (1, 1)), lambda p: ge.make_tensor_1d(p, 1)])
@pytest.mark.parametrize("pointer", [True, False, 1.0, "16", None, b"16", np.float32(16), np.ones((2, 2))])
def test_f1_pointers_of_other_types_are_type_errors(make: Any, pointer: Any) -> None:
    with pytest.raises(TypeError, match="ptr|incompatible|converted|integer"):
        make(pointer)


@pytest.mark.parametrize("pointer", [-1, -(2**63), 2**64, 2**100])
def test_f1_pointers_beyond_64_bits_are_invalid(pointer: int) -> None:
    with pytest.raises(ge.Invalid, match=f"ptr is {pointer}, expected an address of at most 64 bits"):
        ge.make_tensor_2d(pointer, (1, 1))


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3)])
def test_a_matrix_needs_two_extents(shape: tuple[int, ...]) -> None:
    with pytest.raises(ge.ShapeMismatch, match=f"shape has {len(shape)} entries, expected 2"):
        ge.make_tensor_2d(16, shape)


def test_an_enum_argument_of_another_type_is_a_type_error() -> None:
    for arguments in ((16, (1, 1), 0), (16, (1, 1), ge.F32, 1), (16, (1, 1), ge.F32, ge.F32)):
        with pytest.raises(TypeError):
            ge.make_tensor_2d(*arguments)


def test_a_tensor_of_a_desc_may_have_an_owner() -> None:
    owner = bytearray(64)
    desc = ge.TensorDesc(shape=(2, 3), layout=Layout.ColMajor)
    tensor = ge.Tensor(64, desc, Device.CPU, owner=owner)
    assert (tensor.desc.layout, tensor.stride, tensor.ld, tensor.owner) == (Layout.ColMajor, (1, 2), 2, owner)
    assert tensor.owner is owner


def test_a_tensor_shows_what_it_is() -> None:
    text = repr(ge.make_tensor_2d(0x40, (2, 3)))
    assert text == "Tensor(0x40, dtype=F32, layout=RowMajor, shape=(2, 3), stride=(3, 1), device=CUDA:0)"
    assert (
        repr(ge.TensorDesc(shape=(2,))) == "TensorDesc(dtype=F32, layout=RowMajor, shape=(2,), stride=(1,))"
    )


# Lifetime


class Owner:
    def __init__(self) -> None:
        self.tensor: Any = None


def test_a_tensor_keeps_its_owner_and_lets_it_go() -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    tensor = ge.Tensor(64, ge.TensorDesc(), owner=owner)
    del owner
    assert alive() is not None
    del tensor
    assert alive() is None


def test_a_tensor_and_its_owner_may_hold_each_other() -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    owner.tensor = ge.Tensor(64, ge.TensorDesc(), owner=owner)
    del owner
    gc.collect()
    assert alive() is None


class Special(ge.Tensor):
    pass


class Unready(ge.Tensor):
    def __init__(self) -> None:
        pass


def test_a_subclass_of_tensor_is_a_tensor() -> None:
    special = Special(64, ge.TensorDesc(shape=(2, 2)))
    assert ge.as_tensor(special) is special


def test_a_tensor_without_its_init_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        ge.as_tensor(Unready())
    with pytest.raises(TypeError):
        ge.as_tensor(ge.Tensor.__new__(ge.Tensor))


# Shown to others
