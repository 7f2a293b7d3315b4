"""Case E7, run by its tests in processes of their own: two builds of the module in one process.

other_build.py FIRST SECOND [ARRAYS before|between|after]: imports the packages in that order, and ARRAYS (numpy, torch)
where the last argument says; passes each kind of object of one build to the other and wants a TypeError.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable
from typing import Any


def refused(what: str, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except TypeError:
        return
    except Exception as error:
        sys.exit(f"{what}: {type(error).__name__} in place of TypeError: {error}")
    sys.exit(f"{what} was taken, and gave {result!r}")


def floats(count: int) -> Any:
    return (ctypes.c_float * count)()


def tensor(build: Any, memory: Any, shape: tuple[int, int]) -> Any:
    return build.make_tensor_2d(ctypes.addressof(memory), shape, device=build.Device.CPU)


def works(build: Any) -> None:
    """A product on the host, so that each build is seen to work beside the other."""
    memory = [floats(4) for _ in range(3)]
    memory[0][:] = memory[1][:] = [1, 2, 3, 4]
    A, B, Y = (tensor(build, each, (2, 2)) for each in memory)
    build.ops._ops_gemm.forward(A, B, None, Y, build.GemmAttrs(), None)
    assert list(memory[2]) == [7, 10, 15, 22], list(memory[2])
    program = build.Program()
    program.forward(A, B, None, Y, act=build.ActKind.ReLU)
    executable = build.capture(program, target="host")
    executable.launch()
    executable.wait()


def crossed(mine: Any, other: Any) -> None:
    memory = [floats(4) for _ in range(3)]
    A, B, Y = (tensor(mine, each, (2, 2)) for each in memory)
    foreign = tensor(other, memory[0], (2, 2))
    attrs = mine.GemmAttrs()
    refused("a foreign Device", lambda: mine.make_tensor_2d(1, (2, 2), device=other.Device.CPU))
    refused("a foreign DType", lambda: mine.make_tensor_2d(1, (2, 2), dtype=other.DType.F32, device=mine.Device.CPU))
    refused("a foreign ActKind", lambda: mine.GemmAttrs(act=other.ActKind.ReLU))
    refused("a foreign ActKind in attrs.act", lambda: setattr(attrs, "act", other.ActKind.ReLU))
    refused("a foreign GemmAttrs", lambda: mine.ops._ops_gemm.forward(A, B, None, Y, other.GemmAttrs(), None))
    refused("foreign attrs for a Program", lambda: mine.Program().forward(A, B, None, Y, other.GemmAttrs()))
    refused("a foreign Program", lambda: mine.capture(other.Program(), target="host"))
    refused("a foreign Target", lambda: mine.capture(mine.Program(), target=other.Target.Host))
    # Not taken as an array either, though it describes its memory as arrays do.
    refused("a foreign Tensor", lambda: mine.ops._ops_gemm.forward(foreign, B, None, Y, attrs, None))
    refused("a foreign Tensor in as_tensor", lambda: mine.as_tensor(foreign))
    refused("a foreign Tensor in a Program", lambda: mine.Program().forward(A, B, None, other.as_tensor(foreign)))
    assert mine.Tensor is not other.Tensor and mine.ActKind.ReLU != other.ActKind.ReLU
    assert not isinstance(foreign, mine.Tensor)
    assert not issubclass(other.GemmError, mine.GemmError)


def main(first: str, second: str, arrays: str | None = None, when: str = "never") -> None:
    builds = []
    for place, package in (("before", first), ("between", second)):
        if arrays is not None and when == place:
            importlib.import_module(arrays)
        gemm = importlib.import_module(f"{package}.ops._ops_gemm")
        assert gemm.Device is importlib.import_module(package).Device
        builds.append(importlib.import_module(package))
    if arrays is not None and when == "after":
        importlib.import_module(arrays)
    for mine, other in (builds, reversed(builds)):
        works(mine)
        crossed(mine, other)
    print("each build refuses the other's objects")


if __name__ == "__main__":
    main(*sys.argv[1:])
