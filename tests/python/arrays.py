"""Arrays and small executables of the host target, for the tests of what holds and runs them."""

from __future__ import annotations

import numpy as np

import graph_executor_v2 as ge


class Array(np.ndarray):
    """An ndarray by another name, so that it is known when it goes."""


def watched(values: np.ndarray) -> Array:
    return values.astype(np.float32).view(Array)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ramp(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def layer(m: int = 4, k: int = 3, n: int = 5) -> tuple[ge.Executable, np.ndarray, np.ndarray, np.ndarray]:
    a, b, y = ramp(m, k), ramp(k, n, seed=1), zeros(m, n)
    program = ge.Program()
    program.forward(a, b, None, y)
    return ge.capture(program), a, b, y


def stepped(fn) -> ge.Executable:
    program = ge.Program()
    program.step("loss", [zeros(1)], [], fn)
    return ge.capture(program)
