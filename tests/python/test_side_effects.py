"""Objects that change their neighbours, or themselves, while a call reads them; and what they lend."""

from __future__ import annotations

import array
import gc
import weakref
from typing import Any

import fakes
import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm


class Index:
    """An int that does something when it is asked for its value."""

    def __init__(self, value: int, effect: Any) -> None:
        self.value, self.effect = value, effect

    def __index__(self) -> int:
        self.effect()
        return self.value


class Lender:
    """Lends an array by DLPack, after doing something."""

    def __init__(self, lend: Any) -> None:
        self.lend = lend

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.lend().__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (fakes.CPU, 0)


def test_a_shape_that_empties_its_list_while_it_is_read_is_read_as_it_was() -> None:
    for count in (1, 2, 4):
        shape: list[Any] = []
        shape.extend([Index(2, shape.clear)] + [3] * (count - 1))
        assert ge.TensorDesc(shape=shape).shape == (2, 3, 3, 3)[:count]
    pair: list[Any] = []
    pair.extend([Index(2, pair.clear), 3])
    assert ge.make_tensor_2d(64, pair).shape == (2, 3)


@pytest.mark.parametrize("where", ["data", "shape", "strides"])
def test_an_interface_that_loses_an_entry_while_it_is_read_is_read_as_it_was(where: str) -> None:
    said: dict[str, Any] = {}

    class Interface:
        __cuda_array_interface__ = said

    said.update(data=(64, False), shape=(2, 3), strides=(12, 4), typestr="<f4", version=3)
    taken: list[tuple[str, ...]] = []  # the place that the entry has left

    def lose() -> None:
        del said[where]
        taken.extend(tuple(["other", "values"]) for _ in range(10))

    said[where] = (Index(said[where][0], lose), said[where][1])
    tensor = ge.as_tensor(Interface())
    assert (tensor.data, tensor.read_only, tensor.shape, tensor.stride) == (64, False, (2, 3), (3, 1))


def test_memory_lent_for_one_call_is_kept_until_the_call_is_over() -> None:
    made: list[weakref.ref[Any]] = []

    def fresh() -> np.ndarray:
        values = np.full((256, 256), 3, np.float32)  # nobody else holds it
        made.append(weakref.ref(values))
        return values

    eye, y = np.eye(256, dtype=np.float32), np.zeros((256, 256), np.float32)
    gemm.forward_ex(Lender(fresh), eye, None, y)
    assert (y == 3).all()
    gc.collect()
    assert [ref() for ref in made] == [None]


def test_an_array_cannot_be_resized_while_a_call_reads_it() -> None:
    bias = array.array("f", [1, 1])
    refusals = []
    y = np.zeros((2, 2), np.float32)

    def grow() -> np.ndarray:
        try:
            bias.extend([0] * 100_000)
        except BufferError as error:
            refusals.append(error)
        return y

    eye = np.eye(2, dtype=np.float32)
    gemm.forward_ex(eye, eye, bias, Lender(grow))
    assert len(refusals) == 1
    assert y.tolist() == [[2, 1], [1, 2]]
    bias.extend([0])  # afterwards it can
    with pytest.raises(ge.ShapeMismatch):
        gemm.forward_ex(eye, eye, bias, y)
    bias.extend([0])  # also after an error


def test_moves_that_change_while_they_are_read_change_nothing_else() -> None:
    a, b, y = (np.ones((2, 2), np.float32) for _ in range(3))
    program = ge.Program()
    program.forward(a, a, None, y)
    executable = ge.capture(program)
    moves: list[Any] = []
    moves.append((a, Lender(lambda: b if moves.pop() else a)))
    executable.rebind(moves)
    assert {operand.tensor.data for operand in executable.operands()} == {b.ctypes.data, y.ctypes.data}
