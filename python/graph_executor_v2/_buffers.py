"""Buffers that are made as other arrays are: by their library, on their device, stored as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import _core
from ._core import Device, GemmError


class Maker:
    """Makes buffers as `like` is: by its library, on its device."""

    def __init__(self, like: Any) -> None:
        self.device, self.device_index = _place_of(like)
        self._kind = type(like).__name__
        self._empty: Callable[[tuple[int, ...]], Any] | None = None
        library = _library_of(like)
        if library is None:
            return
        if library.__name__ == "torch":
            self._empty = lambda shape: library.empty(shape, dtype=library.float32, device=like.device)
        elif library.__name__ == "cupy":

            def empty(shape: tuple[int, ...]) -> Any:
                with library.cuda.Device(self.device_index):
                    return library.empty(shape, dtype=library.float32)

            self._empty = empty
        else:
            self._empty = lambda shape: library.empty(shape, dtype=library.float32)

    def empty(self, name: str, shape: tuple[int, ...], missing: type[GemmError]) -> Any:
        if self._empty is None:
            fail(
                missing,
                f"{name} is not given, expected one of {text(shape)} because nothing can be made "
                f"like weights of type {self._kind}",
            )
        return self._empty(shape)

    def buffer(self, name: str, given: Any, shape: tuple[int, ...], missing: type[GemmError]) -> Any:
        if given is None:
            return self.empty(name, shape, missing)
        found = shape_of(name, given)
        if found != shape:
            fail(_core.ShapeMismatch, f"{name} is {text(found)}, expected {text(shape)}")
        return given

    def like(self, name: str, given: Sequence[Any] | None, parameters: Sequence[Any]) -> list[Any]:
        """One buffer stored as each of `parameters` is; None for None."""
        if given is not None:
            buffers = one_each(name, given, len(parameters))
            for i, buffer in enumerate(buffers):
                first = next(j for j, other in enumerate(buffers) if other is buffer)
                if buffer is not None and first != i:
                    fail(
                        _core.Overlap,
                        f"{name}[{i}] is {name}[{first}], expected a buffer for each of weights",
                    )
            return buffers
        made: list[Any] = []
        for i, parameter in enumerate(parameters):
            if parameter is None:
                made.append(None)
                continue
            shape = shape_of(f"{name}[{i}]'s parameter", parameter)
            turned = _is_transposed(parameter)
            buffer = self.empty(f"{name}[{i}]", shape[::-1] if turned else shape, _core.MissingOutput)
            made.append(buffer.T if turned else buffer)
        return made


def one_each(name: str, given: Sequence[Any] | None, count: int) -> list[Any]:
    values = [None] * count if given is None else list(given)
    if len(values) != count:
        fail(_core.Invalid, f"{name} has {len(values)} entries, expected {count}, one for each of weights")
    return values


def _library_of(array: Any) -> Any:
    """torch, cupy or numpy, whichever `array` is of, or None."""
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("torch", "cupy", "numpy"):
            return sys.modules[root]
    return None


def _place_of(array: Any) -> tuple[Device, int]:
    if not hasattr(array, "__dlpack_device__"):
        tensor = _core.as_tensor(array)
        return tensor.device, tensor.device_index
    kind, index = array.__dlpack_device__()
    on_gpu = int(kind) in (2, 13)  # CUDA and CUDA managed memory; pinned memory is the host's
    return (Device.CUDA, int(index)) if on_gpu else (Device.CPU, 0)


def shape_of(name: str, array: Any) -> tuple[int, ...]:
    try:
        shape = array.shape if hasattr(array, "shape") else _core.as_tensor(array).shape
    except TypeError as error:
        raise TypeError(f"{name} {str(error).removeprefix('object ')}") from error
    return tuple(int(extent) for extent in shape)


def _is_transposed(array: Any) -> bool:
    if _library_of(array) is None or array.ndim != 2 or min(array.shape) < 2:
        return False
    if hasattr(array, "strides"):
        outer, inner = (stride // array.itemsize for stride in array.strides)
    else:
        outer, inner = array.stride()
    return bool(outer == 1 and inner != 1)


def text(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def fail(kind: type[GemmError], message: str) -> NoReturn:
    raise kind(f"{kind.__name__}: {message}")
