"""The direct path: every error by operand and class, without a GPU and over fake pointers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import calls
import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

M, N, K = 4, 6, 8
SHAPES = {
    "A": (M, K), "B": (K, N), "C": (M, N), "Y": (M, N), "Z": (M, N), "gY": (M, N),
    "gA": (M, K), "gB": (K, N), "gC": (M, N),
}  # fmt: skip
PLACES = {name: 0x100000 * (1 + at) for at, name in enumerate([*SHAPES, "bias", "gBias"])}


def fake(name: str, shape: tuple[int, int] | None = None, at: int | None = None, **how: Any) -> ge.Tensor:
    """A device tensor over memory that nobody has: nothing may touch it."""
    return ge.make_tensor_2d(PLACES[name] if at is None else at, shape or SHAPES[name], **how)


def fake_bias(name: str = "bias", count: int = N, **how: Any) -> ge.Tensor:
    return ge.make_tensor_1d(PLACES[name], count, **how)


def forward(act: Any = "relu", **changed: Any) -> None:
    """Every operand over fake memory, but for `changed` operands and keywords."""
    operands = {name: fake(name) for name in ("A", "B", "C", "Y", "Z")} | {"bias": fake_bias(), "C": None}
    attrs = {name: changed.pop(name) for name in list(changed) if name not in operands}
    operands |= changed
    gemm.forward_ex(
        operands["A"], operands["B"], operands["bias"], operands["Y"], Z=operands["Z"], C=operands["C"],
        act=act, **attrs,
    )  # fmt: skip


def backward(act: Any = "relu", **changed: Any) -> None:
    names = ("A", "B", "C", "gY", "Z", "gA", "gB", "gC")
    operands = {name: fake(name) for name in names} | {"gBias": fake_bias("gBias")}
    attrs = {name: changed.pop(name) for name in list(changed) if name not in operands}
    operands |= changed
    gemm.backward_ex(**operands, act=act, **attrs)


def columns(name: str, outer: int = 1, inner: int = 100) -> Any:
    """A device array whose strides are those of columns."""
    rows, cols = SHAPES[name]

    class Array:
        __cuda_array_interface__ = {
            "shape": (rows, cols), "typestr": "<f4", "data": (PLACES[name], False), "version": 3,
            "strides": (4 * outer, 4 * inner),
        }  # fmt: skip

    return Array()


# error class, how to provoke it, what the message says first
ERRORS: list[tuple[str, Callable[..., None], dict[str, Any], str]] = [
    ("DeviceMismatch", forward, {"B": fake("B", device=ge.CPU)}, "B is on CPU:0, expected CUDA:0"),
    ("DeviceMismatch", forward, {"Y": fake("Y", device_index=1)}, "Y is on CUDA:1, expected CUDA:0"),
    ("DeviceMismatch", forward, {"bias": fake_bias(device=ge.CPU)}, "bias is on CPU:0"),
    ("DeviceMismatch", forward, {"Z": np.zeros((M, N), np.float32)}, "Z is on CPU:0"),
    ("DeviceMismatch", backward, {"gBias": fake_bias("gBias", device_index=2)}, "gBias is on CUDA:2"),
    ("DtypeMismatch", forward, {"A": fake("A", dtype=ge.DType.F16)}, "A is F16, expected F32"),
    ("DtypeMismatch", forward, {"bias": fake_bias(dtype=ge.DType.I32)}, "bias is I32, expected F32"),
    ("DtypeMismatch", forward, {"Y": np.zeros((M, N))}, "Y is float64, expected float32"),
    ("DtypeMismatch", backward, {"gY": fake("gY", dtype=ge.DType.BF16)}, "gY is BF16, expected F32"),
    ("LayoutMismatch", backward, {"gA": columns("gA", inner=M)}, "gA has strides [1,4], expected a "
     "stride of 1 along its rows, as A has ([8,1])"),
    ("LayoutMismatch", backward, {"A": columns("A", inner=M)}, "gA has strides [8,1], expected a "
     "stride of 1 along its columns, as A has ([1,4])"),
    ("LayoutMismatch", backward, {"B": columns("B", inner=K)}, "gB has strides [6,1], expected a "
     "stride of 1 along its columns, as B has ([1,8])"),
    ("StrideMismatch", forward, {"A": columns("A", outer=9, inner=2)}, "A has strides [9,2]"),
    ("StrideMismatch", forward, {"Y": columns("Y")}, "Y has strides [1,100]"),
    ("StrideMismatch", forward, {"B": fake("B", ld=N - 1)}, "B has leading dimension 5, expected at least 6"),
    ("StrideMismatch", forward, {"Y": columns("Y", outer=0, inner=1)}, "Y is expanded"),
    ("StrideMismatch", forward, {"bias": fake_bias(stride=0)}, "bias is expanded"),
    ("StrideMismatch", backward, {"gC": columns("gC", inner=M)}, "gC has strides [1,4]"),
    ("StrideMismatch", backward, {"gY": columns("gY", inner=M)}, "gY has strides [1,4]"),
    ("ShapeMismatch", forward, {"B": fake("B", (K + 1, N))}, "B is [9,6], expected [8,N]"),
    ("ShapeMismatch", forward, {"Y": fake("Y", (N, M))}, "Y is [6,4], expected [4,6]"),
    ("ShapeMismatch", forward, {"bias": fake_bias(count=5)}, "bias is [5], expected [1], [6], [4]"),
    ("ShapeMismatch", forward, {"A": fake_bias("A")}, "A is [6] of rank 1, expected rank 2"),
    ("ShapeMismatch", backward, {"gB": fake("gB", (N, K))}, "gB is [6,8], expected [8,6]"),
    ("ShapeMismatch", backward, {"A": columns("A", inner=M), "gA": fake("gA", (K, M))},
     "gA is [8,4], expected [4,8]"),
    ("MissingInput", forward, {"A": None}, "A is not given"),
    ("MissingInput", forward, {"B": None}, "B is not given"),
    ("MissingInput", forward, {"bias": None, "with_bias": True}, "bias is not given"),
    ("MissingInput", forward, {"beta": 1.0}, "C is not given"),
    ("MissingInput", backward, {"gY": None}, "gY is not given"),
    ("MissingInput", backward, {"Z": None}, "Z is not given"),
    ("MissingInput", backward, {"C": None}, "C is not given"),
    ("MissingOutput", forward, {"Y": None}, "Y is not given"),
    ("MissingOutput", forward, {"Z": None, "save_z": True}, "Z is not given"),
    ("MissingOutput", backward, dict.fromkeys(calls.GRADIENTS), "no gradient is given"),
    ("MissingOutput", backward, {"gB": None, "accumulate": ("gA", "gB")},
     "gB is not given, expected it because accumulate names it"),
    ("Overlap", forward, {"Y": fake("Y", at=PLACES["A"])}, "Y overlaps A"),
    ("Overlap", forward, {"Z": fake("Z", at=PLACES["Y"] + 4)}, "Z overlaps Y"),
    ("Overlap", backward, {"gB": fake("gB", at=PLACES["gA"])}, "gB overlaps gA"),
    ("Invalid", forward, {"alpha": float("nan")}, "alpha is nan"),
    ("Invalid", forward, {"C": fake("C"), "beta": 1e300}, "beta is inf"),
    ("Invalid", forward, {"act": "leaky_relu", "leaky_slope": float("inf")}, "leaky_slope is inf"),
    ("Invalid", forward, {"A": fake("A", at=0)}, "A is null"),
    ("Invalid", forward, {"Y": fake("Y", at=PLACES["Y"] + 2)}, "Y is at "),
    ("Invalid", forward, {"A": fake("A", device_index=-1)}, "A has device index -1"),
    ("Invalid", backward, {"accumulate": "gZ"}, "accumulate names 'gZ', expected gA, gB, gC or gBias"),
    ("Invalid", backward, {"accumulate": ["gA", "A"]}, "accumulate names 'A', expected gA, gB, gC or gBias"),
    ("Invalid", backward, {"accumulate": "\udc80"}, "accumulate names '\\udc80', expected gA"),
    ("Invalid", backward, {"act": "\udc80"}, 'act is "\\udc80", expected none, relu'),
    ("Invalid", forward, {"act": "rleu"}, ""),
    ("Invalid", forward, {"stream": -1}, ""),
    ("Invalid", forward, {"stream": 2**64}, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    "code, call, changed, text", ERRORS, ids=[f"{e[0]}-{e[1].__name__}-{e[3][:24]}" for e in ERRORS]
)
def test_an_error_names_its_code_and_the_operand(
    code: str, call: Callable[..., None], changed: dict[str, Any], text: str
) -> None:
    with pytest.raises(ge.GemmError) as caught:
        call(**changed)
    assert type(caught.value) is getattr(ge, code)
    assert caught.value.status == getattr(ge.StatusCode, code)
    assert str(caught.value).startswith(f"{code}: {text}")
    assert isinstance(caught.value, RuntimeError)


def test_the_positional_calls_give_the_same_errors() -> None:
    attrs = gemm.GemmAttrs(act="relu")
    with pytest.raises(ge.ShapeMismatch, match=r"^ShapeMismatch: B is \[9,6\]"):
        gemm.forward(fake("A"), fake("B", (K + 1, N)), fake_bias(), fake("Y"), attrs, None)
    with pytest.raises(ge.MissingOutput, match="^MissingOutput: Y is not given"):
        gemm.forward(fake("A"), fake("B"), None, None, gemm.GemmAttrs(beta=1.0), None)
    with pytest.raises(ge.MissingOutput, match="^MissingOutput: Z is not given"):
        gemm.forward(fake("A"), fake("B"), None, fake("Y"), gemm.GemmAttrs(save_z=True), None, None)
    with pytest.raises(ge.Overlap, match="^Overlap: Z overlaps Y"):
        gemm.forward(fake("A"), fake("B"), None, fake("Y"), attrs, None, Z_saved=fake("Y"))
    with pytest.raises(ge.MissingInput, match="^MissingInput: Z is not given"):
        gemm.backward(fake("A"), fake("B"), None, fake("gY"), None, fake("gA"), None, None, None, attrs, None)


def test_a_call_without_a_gpu_says_why() -> None:
    reason = calls.why_no_gpu()
    for call in (forward, backward):
        with pytest.raises(ge.Unsupported) as caught:
            call()
        assert str(caught.value) == reason
    with pytest.raises(ge.Unsupported):
        gemm.forward(fake("A"), fake("B"), fake_bias(), fake("Y"), gemm.GemmAttrs(), 1)


@pytest.mark.parametrize("name", ["A", "B", "bias", "Y", "Z", "C"])
@pytest.mark.parametrize(
    "wrong", [7, "text", [[1.0]], object(), gemm.GemmAttrs()], ids=lambda wrong: type(wrong).__name__
)
def test_what_holds_no_memory_is_a_type_error_naming_the_operand(name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        forward(**{name: wrong})


@pytest.mark.parametrize("wrong", [True, 1.0, "0", object()], ids=lambda wrong: type(wrong).__name__)
def test_f1_what_is_no_stream_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        forward(stream=wrong)


@pytest.mark.parametrize("attrs", [None, "relu", {}, 0])
def test_attrs_are_gemm_attrs(attrs: object) -> None:
    with pytest.raises(TypeError):
        gemm.forward(fake("A"), fake("B"), None, fake("Y"), attrs, None)


@pytest.mark.parametrize("wrong", [7, [1], object(), ("gA", None), b"gA"], ids=str)
def test_accumulate_holds_names(wrong: object) -> None:
    with pytest.raises(TypeError):
        backward(accumulate=wrong)


def test_a_failing_iterator_of_names_raises_what_it_raised() -> None:
    def names() -> Any:
        yield "gA"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        backward(accumulate=names())


def test_the_keyword_names_are_the_documented_ones() -> None:
    a, b, y = np.ones((M, K), np.float32), np.ones((K, N), np.float32), np.zeros((M, N), np.float32)
    gemm.forward(A=a, B=b, Bias=None, Y=y, attrs=gemm.GemmAttrs(), stream=None, Z_saved=None)
    assert (y == K).all()
    ga = np.zeros_like(a)
    gemm.backward(
        A=a,
        B=b,
        C=None,
        gY=y,
        Z=None,
        gA=ga,
        gB=None,
        gC=None,
        gBias=None,
        attrs=gemm.GemmAttrs(),
        stream=None,
    )
    assert (ga == N * K).all()


def test_the_primitives_of_the_ex_calls_are_keywords_only() -> None:
    with pytest.raises(TypeError):
        gemm.forward_ex(fake("A"), fake("B"), None, fake("Y"), True)
    with pytest.raises(TypeError):
        gemm.backward_ex(fake("A"), fake("B"), fake("gY"), fake("Z"), fake("C"))


def test_every_call_has_a_docstring() -> None:
    for name in ("forward", "backward", "forward_ex", "backward_ex", "forward_numpy", "plan_cache",
                 "set_plan_cache_limit", "set_graph_limit", "clear_plan_cache", "GemmAttrs"):  # fmt: skip
        assert len(inspect.getdoc(getattr(gemm, name)) or "") > 40, name
