"""One table of direct calls, run over NumPy arrays on the host and over torch and CuPy tensors on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import oracle
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

GRADIENTS = ("gA", "gB", "gC", "gBias")


def why_no_gpu() -> str:
    """The error of a call that needs a GPU; skips the test where there is one."""
    try:
        ge.target_available("cuda")
    except ge.Unsupported as error:
        return str(error)
    pytest.skip("there is a GPU")


@dataclass(frozen=True)
class Place:
    """Where arrays live: `put` copies a NumPy array there, `get` brings it back, after all work on it."""

    name: str
    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]


HOST = Place("numpy", lambda array: array.copy(), lambda array: array)


@dataclass(frozen=True)
class Case:
    m: int = 5
    n: int = 7
    k: int = 9
    act: str = "none"
    bias: str = "N"  # "", "N", "1N", "M1", "1", "11"
    a: str = (
        "rows"  # "flag": stored [K,M] with trans_a; "view": a transposed view; "both"; "wide": a column slice
    )
    b: str = "rows"
    slope: float = 0.01
    alpha: float = 1.0
    beta: float = 0.0
    gradients: tuple[str, ...] = ()
    accumulate: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{self.m}x{self.n}x{self.k}",
            self.act,
            f"bias={self.bias or None}",
            f"A-{self.a}",
            f"B-{self.b}",
        ]
        if self.beta != 0 or self.alpha != 1:
            parts.append(f"alpha={self.alpha:g},beta={self.beta:g}")
        parts += [",".join(self.gradients)] * bool(self.gradients) + ["+".join(self.accumulate)] * bool(
            self.accumulate
        )
        return " ".join(parts)

    @property
    def bias_shape(self) -> tuple[int, ...] | None:
        shapes = {"N": (self.n,), "1N": (1, self.n), "M1": (self.m, 1), "1": (1,), "11": (1, 1)}
        return shapes.get(self.bias)


def forward_cases() -> Iterator[Case]:
    for act in oracle.ACTIVATIONS:
        yield Case(act=act, slope=0.2)
    yield Case(act="leaky_relu", slope=-1.5)
    for bias in ("", "N", "1N", "M1", "1", "11"):
        yield Case(bias=bias, act="relu")
    for a, b in itertools.product(("rows", "flag", "view", "both", "wide"), repeat=2):
        yield Case(a=a, b=b, act="tanh")
    yield Case(alpha=-0.5, beta=2.0, act="silu")
    yield Case(alpha=0.0, beta=1.0)
    yield Case(16, 64, 64, act="relu")
    yield Case(33, 65, 130, act="gelu", a="view", b="wide", beta=0.5)
    yield Case(1, 1, 1, act="relu")
    yield Case(1, 7, 9, a="view", b="view")
    yield Case(5, 1, 9, a="view", b="view")
    for extents in ((0, 7, 9), (5, 0, 9), (5, 7, 0), (0, 0, 0)):
        yield Case(*extents, act="relu", bias="N")
        yield Case(*extents, beta=1.0, bias="1", a="view", b="flag")


def backward_cases() -> Iterator[Case]:
    for count in range(1, 5):
        for subset in itertools.combinations(GRADIENTS, count):
            yield Case(act="gelu", beta=0.5, gradients=subset)
    for act in oracle.ACTIVATIONS:
        yield Case(act=act, slope=-0.3, gradients=("gA", "gB", "gBias"))
    for bias in ("1N", "M1", "1", "11"):
        yield Case(bias=bias, gradients=("gBias",))
    for a, b in itertools.product(("rows", "flag", "view", "both", "wide"), repeat=2):
        yield Case(a=a, b=b, act="tanh", gradients=("gA", "gB"))
    for subset in (("gA",), ("gB", "gBias"), GRADIENTS):
        yield Case(act="gelu", beta=0.5, gradients=GRADIENTS, accumulate=subset)
    yield Case(16, 64, 64, act="relu", gradients=("gA", "gB", "gBias"))
    yield Case(33, 65, 130, act="silu", a="view", b="flag", alpha=-2.0, gradients=("gA", "gB", "gBias"))
    for extents in ((0, 7, 9), (5, 0, 9), (5, 7, 0)):
        yield Case(*extents, gradients=("gA", "gB", "gBias"))
        yield Case(*extents, a="view", b="view", gradients=("gA", "gB", "gBias"), accumulate=("gB",))


@dataclass
class Stored:
    """A matrix as a case stores it: `given` is the argument, `view` shows op() of it."""

    given: Any
    view: Callable[[np.ndarray], np.ndarray]


def stored(place: Place, how: str, logical: np.ndarray) -> Stored:
    """`logical` = op(X) where "flag" and "both" are used with the flag set."""
    if how == "wide":
        wide = np.full((logical.shape[0], logical.shape[1] + 3), np.float32(np.nan))
        wide[:, 1:-2] = logical
        return Stored(place.put(wide)[:, 1:-2], lambda given: given)
    packed = np.ascontiguousarray(logical.T if how in ("flag", "view") else logical)
    given = place.put(packed)
    if how == "view":  # the argument is [M,K], its memory [K,M]
        return Stored(given.T, lambda array: array)
    if how == "both":  # a view [K,M] of memory [M,K], and the flag
        return Stored(given.T, lambda array: array.T)
    return Stored(given, (lambda array: array.T) if how == "flag" else (lambda array: array))


@dataclass
class Made:
    case: Case
    place: Place
    arguments: dict[str, Any]  # A, B, bias, C, Y, Z or A, B, C, gY, Z and gradients
    attrs: dict[str, Any]
    expected: dict[str, oracle.Expected]
    views: dict[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)

    def check(self) -> None:
        for name, expected in self.expected.items():
            got = self.place.get(self.arguments[name])
            oracle.check(name, self.views.get(name, lambda array: array)(got), expected)


def _random(case: Case) -> Callable[..., np.ndarray]:
    generator = np.random.default_rng(sum(map(ord, str(case))))
    return lambda *shape: generator.standard_normal(shape).astype(np.float32)


def _attrs(case: Case) -> dict[str, Any]:
    return dict(
        act=case.act,
        leaky_slope=case.slope,
        alpha=case.alpha,
        beta=case.beta,
        trans_a=case.a in ("flag", "both"),
        trans_b=case.b in ("flag", "both"),
    )


def make_forward(place: Place, case: Case) -> Made:
    random = _random(case)
    a, b, c = random(case.m, case.k), random(case.k, case.n), random(case.m, case.n)
    bias = None if case.bias_shape is None else random(*case.bias_shape)
    nothing = np.full((case.m, case.n), np.float32(np.nan))
    arguments = {
        "A": stored(place, case.a, a).given,
        "B": stored(place, case.b, b).given,
        "bias": None if bias is None else place.put(bias),
        "C": None if case.beta == 0 else place.put(c),
        "Y": place.put(nothing),
        "Z": place.put(nothing),
    }
    z, y = oracle.forward(
        a, b, bias, c, act_kind=case.act, slope=case.slope, alpha=case.alpha, beta=case.beta
    )
    return Made(case, place, arguments, _attrs(case), {"Z": z, "Y": y})


def make_backward(place: Place, case: Case) -> Made:
    random = _random(case)
    a, b, gy, z = (
        random(case.m, case.k),
        random(case.k, case.n),
        random(case.m, case.n),
        random(case.m, case.n),
    )
    shapes = {
        "gA": (case.m, case.k),
        "gB": (case.k, case.n),
        "gC": (case.m, case.n),
        "gBias": case.bias_shape,
    }
    old = {name: random(*shapes[name]) for name in case.accumulate}
    arguments = {
        "A": stored(place, case.a, a).given,
        "B": stored(place, case.b, b).given,
        "C": place.put(random(case.m, case.n)) if "gC" in case.gradients else None,
        "gY": place.put(gy),
        "Z": None if case.act == "none" else place.put(z),
        **dict.fromkeys(GRADIENTS),
    }
    views = {}
    for name in case.gradients:
        start = old.get(name, np.full(shapes[name], np.float32(np.nan)))
        how = {"gA": case.a, "gB": case.b}.get(name, "rows")
        made = stored(place, how, start)
        arguments[name], views[name] = made.given, made.view
    expected = oracle.backward(
        a, b, gy, z, act_kind=case.act, slope=case.slope, alpha=case.alpha, beta=case.beta,
        bias_shape=case.bias_shape, old=old,
    )  # fmt: skip
    expected = {name: expected[name] for name in case.gradients}
    return Made(case, place, arguments, _attrs(case), expected, views)


def run_forward_ex(made: Made, wrap: Callable[[Any], Any] = lambda given: given, stream: Any = None) -> None:
    given = {name: value if value is None else wrap(value) for name, value in made.arguments.items()}
    gemm.forward_ex(
        given["A"],
        given["B"],
        given["bias"],
        given["Y"],
        Z=given["Z"],
        C=given["C"],
        stream=stream,
        **made.attrs,
    )


def run_forward(made: Made, wrap: Callable[[Any], Any] = lambda given: given, stream: Any = None) -> None:
    """The short form: C is what Y holds."""
    if made.arguments["C"] is not None:
        made.arguments["Y"] = made.arguments["C"]
    given = {name: value if value is None else wrap(value) for name, value in made.arguments.items()}
    attrs = gemm.GemmAttrs(**made.attrs)
    gemm.forward(given["A"], given["B"], given["bias"], given["Y"], attrs, stream, given["Z"])


def run_backward_ex(made: Made, wrap: Callable[[Any], Any] = lambda given: given, stream: Any = None) -> None:
    given = {name: value if value is None else wrap(value) for name, value in made.arguments.items()}
    first = [given.pop(name) for name in ("A", "B", "gY", "Z")]
    gemm.backward_ex(*first, **given, accumulate=made.case.accumulate, stream=stream, **made.attrs)


def run_backward(made: Made, wrap: Callable[[Any], Any] = lambda given: given, stream: Any = None) -> None:
    given = [None if made.arguments[name] is None else wrap(made.arguments[name])
             for name in ("A", "B", "C", "gY", "Z", *GRADIENTS)]  # fmt: skip
    gemm.backward(*given, gemm.GemmAttrs(**made.attrs), stream)
