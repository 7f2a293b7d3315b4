"""What may be given as a stream (case F1). On the host it orders nothing, but it is read all the same."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import fakes
import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

A, B, Y = (np.ones((2, 2), np.float32) for _ in range(3))


def use(stream: Any) -> None:
    gemm.forward(A, B, None, Y, gemm.GemmAttrs(), stream)


class Number(int):
    pass


class TorchLike:
    def __init__(self, handle: Any) -> None:
        self.cuda_stream = handle


class CupyLike:
    def __init__(self, handle: Any) -> None:
        self.ptr = handle

    def wait_event(self, event: Any) -> None: ...


class CupyEventLike:
    ptr = 64


class Protocol:
    def __init__(self, *said: Any) -> None:
        self.said = said

    def __cuda_stream__(self) -> Any:
        return self.said


class OldProtocol:
    def __init__(self, *said: Any) -> None:
        self.__cuda_stream__ = said


KINDS = {
    "int": lambda handle: handle,
    "subclass of int": Number,
    "torch": TorchLike,
    "CuPy": CupyLike,
    "protocol": lambda handle: Protocol(0, handle),
    "protocol as a property": lambda handle: OldProtocol(0, handle),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handle", [0, 1, 2, 0x7F0000001230, 2**64 - 1])
def test_f1_every_kind_of_stream_is_taken(kind: str, handle: int) -> None:
    use(KINDS[kind](handle))


@pytest.mark.parametrize(
    "stream",
    [
        None,
        np.int64(2),
        np.uint64(2**63),
        ctypes.c_void_p(),
        ctypes.c_void_p(0x1230),
        ctypes.c_void_p(-1),
        fakes.capsule(0x1230),
        fakes.capsule(0x1230, b""),
    ],
    ids=repr,
)
def test_f1_other_streams_are_taken(stream: Any) -> None:
    use(stream)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handle", [-1, -(2**70), 2**64, 2**100])
def test_f1_handles_beyond_64_bits_are_invalid(kind: str, handle: int) -> None:
    with pytest.raises(ge.Invalid, match=f"stream is {handle}, expected an address of at most 64 bits"):
        use(KINDS[kind](handle))


@pytest.mark.parametrize("kind", list(KINDS)[2:])
@pytest.mark.parametrize("handle", [True, 1.0, "1", None, b"1"])
def test_f1_handles_of_other_types_are_type_errors(kind: str, handle: Any) -> None:
    with pytest.raises(TypeError, match="stream is of type"):
        use(KINDS[kind](handle))


@pytest.mark.parametrize(
    "stream",
    [
        True,
        False,
        0.0,
        1.5,
        "0",
        b"0",
        (0, 1),
        [0],
        object(),
        np.float32(1),
        np.bool_(True),
        CupyEventLike(),
        A,
        TorchLike,
    ],
    ids=repr,
)
def test_f1_other_types_are_type_errors(stream: Any) -> None:
    with pytest.raises(TypeError):
        use(stream)


@pytest.mark.parametrize("said", [(), (0,), (1, 64), ("0", 64)])
def test_a_protocol_that_says_something_else_is_a_type_error(said: tuple[Any, ...]) -> None:
    for stream in (Protocol(*said), OldProtocol(*said)):
        with pytest.raises(TypeError, match="stream"):
            use(stream)


class Broken:
    @property
    def cuda_stream(self) -> int:
        raise OSError("gone")


def test_an_attribute_that_raises_is_not_hidden() -> None:
    with pytest.raises(OSError, match="gone"):
        use(Broken())


def test_streams_do_not_leak() -> None:
    streams = [make(2**40) for make in KINDS.values()] + [ctypes.c_void_p(64), fakes.capsule(64)]
    counts = [sys.getrefcount(stream) for stream in streams]
    for _ in range(5000):
        for stream in streams:
            use(stream)
    del stream
    assert [sys.getrefcount(stream) for stream in streams] == counts


def test_a_launch_takes_the_same_streams() -> None:
    program = ge.Program()
    program.forward(A, B, None, Y)
    executable = ge.capture(program)
    for stream in (None, 0, 1, 2, TorchLike(64), ctypes.c_void_p(64)):
        executable.launch(stream)
    executable.wait()
    with pytest.raises(TypeError):
        executable.launch(True)
    with pytest.raises(ge.Invalid, match="stream is -1"):
        executable.launch(-1)
