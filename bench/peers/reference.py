"""What a row's results are in f64, and how far a peer's are from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from data import LEARNING_RATE, Array, Network

Exact = npt.NDArray[np.float64]
Choice = slice | npt.NDArray[np.int64]
ALL = slice(None)
TOLERANCE = 2e-5  # relative Frobenius norm: f32 stays below 5e-6, TF32 gives about 3e-4
SAMPLED = 64  # rows or columns of a matrix that is too large to be checked whole
WHOLE = 1 << 28  # multiplications of a forward pass up to which everything is checked
NEAR_KINK = 1e-5  # of a layer's root mean square Z: where f32 and f64 may differ on the sign


def _act(kind: str, z: Exact) -> Exact:
    if kind == "ReLU":
        return np.maximum(z, 0)
    if kind == "Tanh":
        return np.tanh(z)
    if kind == "ELU":
        return np.where(z > 0, z, np.expm1(np.minimum(z, 0)))
    if kind == "GELUTanh":
        return 0.5 * z * (1 + np.tanh(_gelu_inner(z)))
    if kind == "None":
        return z
    raise ValueError(f"the reference knows no activation {kind!r}")


def _act_gradient(kind: str, z: Exact) -> Exact:
    if kind == "Tanh":
        return 1 - np.tanh(z) ** 2
    if kind == "ELU":
        return np.where(z > 0, 1.0, np.exp(np.minimum(z, 0)))
    if kind == "GELUTanh":
        t = np.tanh(_gelu_inner(z))
        return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z * z)
    if kind == "None":
        return np.ones_like(z)
    raise ValueError(f"the reference knows no activation {kind!r}")


def _gelu_inner(z: Exact) -> Exact:
    return np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)


class Reference:
    """The results of a row, each computed when it is first asked for; of large ones, only rows or columns
    that are spread over the matrix. `mode` is the row's; `hidden` holds the Y [M,N] of each layer as the peer
    computed it. Where Z is as good as zero the gradient of ReLU jumps by its sign, which is taken from
    there.
    """

    def __init__(self, network: Network, mode: str, hidden: Sequence[Array]) -> None:
        self._network = network
        self._mode = mode
        self._hidden = hidden
        self._last = len(network.weights) - 1
        self._whole_z: dict[int, Exact] = {}
        self._whole_y: dict[int, Exact] = {}
        self._whole_gz: dict[int, Exact] = {}

    def y(self) -> tuple[Choice, Exact]:
        """Rows of the last layer's Y, and which ones."""
        rows = self._some(self._network.x.shape[0])
        if rows is ALL:
            return rows, self._y(self._last)
        y = self._network.x[rows].astype(np.float64)
        for layer, (w, b) in enumerate(zip(self._network.weights, self._network.biases)):
            y = _act(self._network.activation_of(layer), y @ w.astype(np.float64) + b)
        return rows, y

    def gw(self, layer: int) -> tuple[Choice, Choice, Exact]:
        """Rows and columns of a layer's weight gradient, and which ones."""
        k, n = self._network.weights[layer].shape
        rows, cols = self._some(k), self._some(n)
        return rows, cols, self._input(layer, rows).T @ self._gz(layer, cols)

    def gb(self, layer: int) -> tuple[Choice, Exact]:
        """Elements of a layer's bias gradient, and which ones."""
        cols = self._some(self._network.biases[layer].size)
        return cols, self._gz(layer, cols).sum(axis=0)

    def _some(self, extent: int) -> Choice:
        """All of an extent, or numbers spread over it where the row is large."""
        work = self._network.x.shape[0] * sum(w.size for w in self._network.weights)
        if extent <= SAMPLED or work <= WHOLE:
            return ALL
        return np.unique(np.linspace(0, extent - 1, SAMPLED).astype(np.int64))

    def _input(self, layer: int, cols: Choice = ALL) -> Exact:
        return self._network.x[:, cols].astype(np.float64) if layer == 0 else self._y(layer - 1, cols)

    def _z(self, layer: int, cols: Choice = ALL) -> Exact:
        if layer in self._whole_z:
            return self._whole_z[layer][:, cols]
        w, b = self._network.weights[layer], self._network.biases[layer]
        z = self._input(layer) @ w[:, cols].astype(np.float64) + b[cols]
        if cols is ALL:
            self._whole_z[layer] = z
        return z

    def _y(self, layer: int, cols: Choice = ALL) -> Exact:
        if layer in self._whole_y:
            return self._whole_y[layer][:, cols]
        y = _act(self._network.activation_of(layer), self._z(layer, cols))
        if cols is ALL:
            self._whole_y[layer] = y
        return y

    def _gz(self, layer: int, cols: Choice = ALL) -> Exact:
        if layer in self._whole_gz:
            return self._whole_gz[layer][:, cols]
        if layer == self._last:
            gz = self._gy(cols)
        else:
            following = self._network.weights[layer + 1][cols, :].astype(np.float64)
            gz = self._gz(layer + 1) @ following.T * self._act_gradient(layer, cols)
        if cols is ALL:
            self._whole_gz[layer] = gz
        return gz

    def _act_gradient(self, layer: int, cols: Choice) -> Exact:
        kind, z = self._network.activation_of(layer), self._z(layer, cols)
        if kind != "ReLU":
            return _act_gradient(kind, z)
        near = np.abs(z) <= NEAR_KINK * np.sqrt(np.mean(z * z))
        return np.where(near, self._hidden[layer][:, cols] > 0, z > 0).astype(np.float64)

    def _gy(self, cols: Choice) -> Exact:
        if self._mode == "forward_backward":
            return self._network.gy[:, cols].astype(np.float64)
        target = self._network.target
        return 2 / target.size * (self._y(self._last, cols) - target[:, cols])


def distance(given: npt.NDArray[np.floating], wanted: Exact, allowance: Exact | float = 0.0) -> float:
    """Frobenius norm of the difference over that of `wanted`, each element's less its `allowance`; NaN counts
    as infinite.
    """
    excess = np.maximum(np.abs(np.asarray(given, dtype=np.float64) - wanted) - allowance, 0.0)
    difference = float(np.linalg.norm(excess))
    if not np.isfinite(difference):
        return float("inf")
    return difference / max(float(np.linalg.norm(wanted)), 1e-300)


def forward_error(reference: Reference, y: Array) -> dict[str, float]:
    """How far the last Y [M,N] is off, by name."""
    rows, wanted = reference.y()
    return {"Y": distance(y[rows], wanted)}


def gradient_errors(reference: Reference, gw: Sequence[Array], gb: Sequence[Array]) -> dict[str, float]:
    """How far the gradients of all weights and biases are off, by name."""
    errors = {}
    for layer, (weights, biases) in enumerate(zip(gw, gb)):
        rows, cols, wanted = reference.gw(layer)
        errors[f"gW of layer {layer}"] = distance(weights[rows][:, cols], wanted)
        cols, wanted = reference.gb(layer)
        errors[f"gBias of layer {layer}"] = distance(biases.reshape(-1)[cols], wanted)
    return errors


def update_errors(
    reference: Reference,
    network: Network,
    w: Sequence[Array],
    b: Sequence[Array],
    rate: float = LEARNING_RATE,
) -> dict[str, float]:
    """How far the updates W0 - W and b0 - b after one step are from rate * gradient, by name. What rounding
    the new weight to f32 can take away (half an ulp an element) is allowed for.
    """
    errors = {}
    for layer in range(len(w)):
        rows, cols, gradient = reference.gw(layer)
        old = network.weights[layer][rows][:, cols].astype(np.float64)
        errors[f"W of layer {layer}"] = _update_error(old, w[layer][rows][:, cols], rate * gradient)
        cols, gradient = reference.gb(layer)
        old = network.biases[layer][cols].astype(np.float64)
        errors[f"bias of layer {layer}"] = _update_error(old, b[layer].reshape(-1)[cols], rate * gradient)
    return errors


def _update_error(old: Exact, new: npt.NDArray[np.floating], step: Exact) -> float:
    # By element: over a whole matrix it adds up to more than a step of the usual rate.
    rounding = 2.0**-24 * (np.maximum(np.abs(old), np.abs(new)) + np.abs(step))
    return distance(old - np.asarray(new, dtype=np.float64), step, rounding)


def worst(errors: Mapping[str, float]) -> tuple[str, float]:
    """The name and size of the largest error."""
    name = max(errors, key=lambda key: errors[key])
    return name, errors[name]
