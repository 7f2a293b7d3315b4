"""Forward and backward in f64, written from the formulas alone, with the tolerance of each element.

A f32 sum of L terms strays from the exact one by about sqrt(L) roundings, so that it may be off by
(2 sqrt(L) + 8) * 2^-24 * sum |terms|. Activations add what a good f32 evaluation of them may be off.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

EPS = 2.0**-24  # half a unit in the last place of 1.0f
UNDERFLOW = 2.0**-140
ACTIVATIONS = ("none", "relu", "leaky_relu", "elu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")

_erfc = np.vectorize(math.erfc, otypes=[float])


class Expected(NamedTuple):
    value: np.ndarray
    tolerance: np.ndarray


def _logistic(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def _logistic_slope(z: np.ndarray) -> np.ndarray:
    return 1 / (2 + 2 * np.cosh(z))


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _distribution(z: np.ndarray) -> np.ndarray:
    return _erfc(-z / math.sqrt(2)) / 2


def _gelu_v(z: np.ndarray) -> np.ndarray:
    return 2 * math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)


def _gelu_dv(z: np.ndarray) -> np.ndarray:
    return 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * z * z)


def act(kind: str, z: np.ndarray, slope: float = 0.01) -> np.ndarray:
    """act(z) of finite z."""
    return {
        "none": lambda: z,
        "relu": lambda: np.maximum(z, 0),
        "leaky_relu": lambda: np.where(z > 0, z, slope * z),
        "elu": lambda: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
        "gelu": lambda: z * _distribution(z),
        "gelu_tanh": lambda: z * _logistic(_gelu_v(z)),
        "silu": lambda: z * _logistic(z),
        "sigmoid": lambda: _logistic(z),
        "tanh": lambda: np.tanh(z),
    }[kind]()


def act_slope(kind: str, z: np.ndarray, slope: float = 0.01) -> np.ndarray:
    """act'(z) of finite z."""
    return {
        "none": lambda: np.ones_like(z),
        "relu": lambda: np.where(z > 0, 1.0, 0.0),
        "leaky_relu": lambda: np.where(z > 0, 1.0, slope),
        "elu": lambda: np.where(z > 0, 1.0, np.exp(np.minimum(z, 0))),
        "gelu": lambda: _distribution(z) + z * _density(z),
        "gelu_tanh": lambda: _logistic(_gelu_v(z)) + z * _logistic_slope(_gelu_v(z)) * _gelu_dv(z),
        "silu": lambda: _logistic(z) + z * _logistic_slope(z),
        "sigmoid": lambda: _logistic_slope(z),
        "tanh": lambda: 4 * _logistic_slope(2 * z),
    }[kind]()


def _steepest(kind: str, z: np.ndarray, radius: np.ndarray, slope: float) -> np.ndarray:
    """A bound of |act'| on [z - radius, z + radius]."""
    if kind == "relu":
        return np.where(z + radius <= 0, 0.0, 1.0)
    if kind == "leaky_relu":
        both = max(1.0, abs(slope))
        return np.where(z - radius > 0, 1.0, np.where(z + radius <= 0, abs(slope), both))
    anywhere, second = {
        "none": (1, 0),
        "elu": (1, 1),
        "gelu": (1.1290, 0.7979),
        "gelu_tanh": (1.1291, 0.8000),
        "silu": (1.0999, 0.5001),
        "sigmoid": (0.25, 0.0963),
        "tanh": (1, 0.7699),
    }[kind]
    return np.minimum(anywhere, np.abs(act_slope(kind, z, slope)) + radius * second)


def _act_error(kind: str, z: np.ndarray, slope: float) -> np.ndarray:
    """What an f32 act(z) may be off: a library's function is within a few ulp, its argument is rounded."""
    y = np.abs(act(kind, z, slope))
    if kind in ("none", "relu"):
        return np.zeros_like(z)
    if kind == "leaky_relu":
        return EPS * y + UNDERFLOW
    if kind == "gelu":
        return EPS * (12 * y + 2 * z * z * _density(z)) + UNDERFLOW
    if kind == "gelu_tanh":
        v = _gelu_v(z)
        return EPS * (12 * y + 6 * np.abs(z * v) * _logistic_slope(v)) + UNDERFLOW
    return EPS * 12 * y + UNDERFLOW


def _act_slope_error(kind: str, z: np.ndarray, slope: float) -> np.ndarray:
    """The same for act'(z): of each term by itself, since they may cancel."""
    size = np.abs(z)
    if kind in ("none", "relu", "leaky_relu"):
        return np.zeros_like(z)
    if kind == "gelu":
        density = _density(z)
        terms = 24 * (_distribution(z) + size * density) + 2 * size * density * (1 + size * size)
        return EPS * terms + UNDERFLOW
    if kind == "gelu_tanh":
        v = _gelu_v(z)
        bell = _logistic_slope(v)
        term = size * _gelu_dv(z) * bell
        return EPS * (24 * (_logistic(v) + term) + 6 * np.abs(v) * (bell + term)) + UNDERFLOW
    if kind == "silu":
        return EPS * 24 * (_logistic(z) + size * _logistic_slope(z)) + UNDERFLOW
    return EPS * 24 * np.abs(act_slope(kind, z, slope)) + UNDERFLOW


def _rounding(length: int) -> float:
    return (2 * math.sqrt(length) + 8) * EPS


def forward(
    a, b, bias=None, c=None, *, act_kind="none", slope=0.01, alpha=1.0, beta=0.0
) -> tuple[Expected, Expected]:
    """(Z, Y) of op(A) `a` [M,K] and op(B) `b` [K,N]; `bias` broadcasts over [M,N]."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    z = alpha * (a @ b)
    terms = abs(alpha) * (np.abs(a) @ np.abs(b))
    for scale, term in ((beta, c), (1.0, bias)):
        if term is not None and scale != 0:
            z = z + scale * np.asarray(term, np.float64)
            terms = terms + np.abs(scale * np.asarray(term, np.float64))
    off = _rounding(a.shape[1]) * terms
    y_off = _steepest(act_kind, z, off, slope) * off + _act_error(act_kind, z, slope)
    return Expected(z, off), Expected(act(act_kind, z, slope), y_off)


def backward(
    a, b, gy, z=None, *, act_kind="none", slope=0.01, alpha=1.0, beta=0.0, bias_shape=None, old=None
) -> dict[str, Expected]:
    """gA and gB as op(A) and op(B) lie, gC and, for `bias_shape`, gBias. `old`: what gradients add to."""
    a, b, gy = (np.asarray(x, np.float64) for x in (a, b, gy))
    z = np.zeros_like(gy) if z is None else np.asarray(z, np.float64)
    gz = gy * act_slope(act_kind, z, slope)
    gz_off = np.abs(gy) * _act_slope_error(act_kind, z, slope)
    out = {}

    def put(name, value, terms, extra, length, scale) -> None:
        value, terms, extra = scale * value, abs(scale) * terms, abs(scale) * extra
        if old is not None and name in old:
            value = value + np.asarray(old[name], np.float64)
            terms = terms + np.abs(np.asarray(old[name], np.float64))
        out[name] = Expected(value, _rounding(length) * terms + extra)

    m, n = gy.shape
    put("gA", gz @ b.T, np.abs(gz) @ np.abs(b.T), gz_off @ np.abs(b.T), n, alpha)
    put("gB", a.T @ gz, np.abs(a.T) @ np.abs(gz), np.abs(a.T) @ gz_off, m, alpha)
    put("gC", gz, np.abs(gz), gz_off, 1, beta)
    if bias_shape is not None:
        rows, cols = ((1, *bias_shape) if len(bias_shape) == 1 else bias_shape)[-2:]
        axes = tuple(axis for axis, extent in enumerate((rows, cols)) if extent == 1)
        length = math.prod((m, n)[axis] for axis in axes)
        sums = [x.sum(axis=axes, keepdims=True).reshape(bias_shape) for x in (gz, np.abs(gz), gz_off)]
        put("gBias", *sums, length, 1.0)
    return out


def check(name: str, got: np.ndarray, expected: Expected) -> None:
    """Fails naming the element that is farthest off."""
    value = np.broadcast_to(expected.value, got.shape)
    tolerance = np.broadcast_to(expected.tolerance, got.shape)
    off = np.abs(np.asarray(got, np.float64) - value)
    wrong = ~(off <= tolerance)
    if not wrong.any():
        return
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off - tolerance))), got.shape)
    raise AssertionError(
        f"{name}{[int(i) for i in at]} is {got[at]!r}, expected {value[at]!r} within {tolerance[at]:.3g}; "
        f"{int(wrong.sum())} of {got.size} elements are off"
    )
