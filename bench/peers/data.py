"""The operands of a row: the same numbers in every language, from a hash of tensor and place."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
INPUT, GIVEN_GRADIENT, TARGET, WEIGHTS, BIASES = 1, 2, 3, 100, 200  # of layer l: WEIGHTS + l, BIASES + l
LEARNING_RATE = 1e-4


def unit_values(tensor: int, count: int) -> Array:
    """The first `count` values of a tensor before scaling, in [-1, 1); every step is exact in f32."""
    x = np.arange(count, dtype=np.uint32)
    x *= np.uint32(2654435761)
    x += np.uint32((tensor * 40503 + 12345) & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    x >>= np.uint32(8)
    values = x.astype(np.float32)
    values *= np.float32(1 / 8388608)
    values -= np.float32(1)
    return values


def tensor(name: int, rows: int, cols: int, scale: float = 1.0) -> Array:
    """A matrix [rows, cols], row-major; scaled in f32."""
    values = unit_values(name, rows * cols).reshape(rows, cols)
    if scale != 1:
        values *= np.float32(scale)
    return values


@functools.lru_cache(maxsize=16)
def weight(layer: int, k: int, n: int) -> Array:
    """W [K,N] of a layer, scaled by sqrt(3/K). Kept, since the rows of one workload share it: do not write
    into it.
    """
    values = tensor(WEIGHTS + layer, k, n, float(np.float32(np.sqrt(3.0 / k))))
    values.flags.writeable = False
    return values


@dataclass(frozen=True)
class Network:
    """The operands of a row. Layer l computes act(Y[l-1] W[l] + b[l]); the last one has no activation."""

    activation: str
    x: Array  # [M, widths[0]]
    weights: list[Array]  # [K, N] each
    biases: list[Array]  # [N] each
    gy: Array  # [M, widths[-1]], the gradient that forward_backward is given
    target: Array  # [M, widths[-1]], what train_step is to reach

    def activation_of(self, layer: int) -> str:
        return self.activation if layer + 1 < len(self.weights) else "None"


def network_of(row: Mapping[str, Any]) -> Network:
    """The operands of a row as requests describe it."""
    widths, batch = row["layers"], row["batch"]
    pairs = list(zip(widths, widths[1:]))
    return Network(
        row["activation"],
        tensor(INPUT, batch, widths[0]),
        [weight(layer, k, n) for layer, (k, n) in enumerate(pairs)],
        [tensor(BIASES + layer, 1, n, 0.1)[0] for layer, (_, n) in enumerate(pairs)],
        tensor(GIVEN_GRADIENT, batch, widths[-1]),
        tensor(TARGET, batch, widths[-1]),
    )
