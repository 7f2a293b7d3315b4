"""forward_numpy on the host target: values, strides, refusals; on CUDA what it says without a GPU."""

from __future__ import annotations

from typing import Any

import calls
import numpy as np
import oracle
import pytest
from calls import Case

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

RNG = np.random.default_rng(7)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(case: Case, device: Any, **keywords: Any) -> None:
    made = calls.make_forward(calls.HOST, case)
    given = made.arguments
    inputs = {name: given[name] for name in ("A", "B", "bias", "C") if given[name] is not None}
    before = {name: array.copy() for name, array in inputs.items()}
    y, z = gemm.forward_numpy(
        given["A"],
        given["B"],
        given["bias"],
        C=given["C"],
        return_z=True,
        device=device,
        **keywords,
        **made.attrs,
    )
    assert y.dtype == z.dtype == np.float32 and y.flags.c_contiguous
    oracle.check("Z", z, made.expected["Z"])
    oracle.check("Y", y, made.expected["Y"])
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, before[name], err_msg=f"{name} was changed")


@pytest.mark.parametrize("case", list(calls.forward_cases()), ids=str)
def test_forward_numpy_on_the_host(case: Case) -> None:
    run(case, ge.CPU)


VIEWS = {
    "reversed rows": lambda x: x[::-1],
    "reversed columns": lambda x: x[:, ::-1],
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every other row and column": lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
    "columns first": np.asfortranarray,
    "reversed transpose": lambda x: np.ascontiguousarray(x.T)[::-1].T[:, ::-1],
    "unaligned": lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
}


@pytest.mark.parametrize("name", ["A", "B", "C", "bias"])
@pytest.mark.parametrize("how", VIEWS)
def test_any_strides_will_do(name: str, how: str) -> None:
    plain = {"A": random(5, 9), "B": random(9, 7), "C": random(5, 7), "bias": random(1, 7)}
    given = plain | {name: VIEWS[how](plain[name])}
    plain[name] = np.array(given[name], order="C")
    expected = gemm.forward_numpy(**plain, beta=0.5, act="gelu", device=ge.CPU)
    got = gemm.forward_numpy(**given, beta=0.5, act="gelu", device=ge.CPU)
    np.testing.assert_array_equal(got, expected)


def test_expanded_arrays_will_do() -> None:
    a, b = np.broadcast_to(random(1, 9), (5, 9)), random(9, 7)
    got = gemm.forward_numpy(a, b, np.broadcast_to(np.float32(2), (7,)), device=ge.CPU)
    oracle.check("Y", got, oracle.forward(a, b, np.full(7, 2.0))[1])


def test_a_negative_bias_stride_will_do() -> None:
    bias = random(7)
    got = gemm.forward_numpy(random(5, 9) * 0, random(9, 7), bias[::-1], device=ge.CPU)
    np.testing.assert_array_equal(got, np.broadcast_to(bias[::-1], (5, 7)))


def test_a_scalar_array_is_a_bias() -> None:
    got = gemm.forward_numpy(random(5, 0), random(0, 7), np.array(3, np.float32), device=ge.CPU)
    assert got.shape == (5, 7) and (got == 3).all()


def test_y_alone_is_returned_unless_z_is_asked_for() -> None:
    a, b = random(5, 9), random(9, 7)
    y = gemm.forward_numpy(a, b, act="relu", device=ge.CPU)
    assert isinstance(y, np.ndarray) and y.shape == (5, 7)
    both = gemm.forward_numpy(a, b, act="relu", device=ge.CPU, return_z=True)
    assert isinstance(both, tuple)
    np.testing.assert_array_equal(both[0], y)
    np.testing.assert_array_equal(np.maximum(both[1], 0), y)


def absurd(*shape: int) -> ge.Tensor:
    return ge.Tensor(4096, ge.TensorDesc(shape=shape), ge.CPU)


class Lender:
    """Shows its memory by DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("view", [np.s_[:, ::2], np.s_[::-1, ::2], np.s_[:, ::-2]], ids=str)
def test_any_strides_are_taken_from_what_is_no_numpy_array_too(view: Any) -> None:
    a, b = random(4, 16)[view], random(8, 6)
    y = gemm.forward_numpy(Lender(a), b, device=ge.CPU)
    assert (y == gemm.forward_numpy(a.copy(), b, device=ge.CPU)).all()


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    (
        "DtypeMismatch",
        {"A": np.zeros((4, 8))},
        r"A is float64, expected float32: give A\.astype\(numpy\.float32\)",
    ),
    ("DtypeMismatch", {"B": np.zeros((8, 6), np.float16)}, r"B is .*, expected float32"),
    ("DtypeMismatch", {"bias": np.zeros(6, np.int64)}, r"bias is int64"),
    ("DtypeMismatch", {"C": np.zeros((4, 6), np.complex64)}, r"C is complex64"),
    ("DtypeMismatch", {"A": np.zeros((4, 8), ">f4")}, r"A is "),
    ("ShapeMismatch", {"B": np.zeros((7, 6), np.float32)}, r"B is \[7,6\], expected \[8,N\]"),
    ("ShapeMismatch", {"A": np.zeros((2, 4, 8), np.float32)}, r"A is \[2,4,8\] of rank 3, expected rank 2"),
    ("ShapeMismatch", {"A": np.zeros(8, np.float32)}, r"A is \[8\] of rank 1"),
    ("ShapeMismatch", {"bias": np.zeros(5, np.float32)}, r"bias is \[5\]"),
    ("ShapeMismatch", {"C": np.zeros((6, 4), np.float32), "beta": 1.0}, r"C is \[6,4\], expected \[4,6\]"),
    ("ShapeMismatch", {"trans_a": True}, r"B is \[8,6\]"),
    ("MissingInput", {"A": None}, "A is not given"),
    ("MissingInput", {"B": None}, "B is not given"),
    ("MissingInput", {"beta": 1.0}, "C is not given"),
    ("Invalid", {"act": "rleu"}, ""),
    ("Invalid", {"alpha": float("nan")}, "alpha is nan"),
    ("Invalid", {"device_index": -1}, "device_index is -1"),
    ("Invalid", {"A": absurd(-1, 8)}, r"A is \[-1,8\], expected no negative extent"),
    ("Invalid", {"B": absurd(8, -1)}, r"B is \[8,-1\], expected no negative extent"),
    ("OutOfMemory", {"A": absurd(2**40, 1), "B": absurd(1, 2**40)}, "Y is "),
    ("DeviceMismatch", {"A": ge.make_tensor_2d(4096, (4, 8))}, "A is on CUDA:0, expected a NumPy array"),
]


@pytest.mark.parametrize("device", [ge.CPU, ge.CUDA], ids=["host", "cuda"])
@pytest.mark.parametrize("code, changed, text", ERRORS, ids=[f"{e[0]}-{'-'.join(e[1])}" for e in ERRORS])
def test_an_error_comes_before_any_work(device: Any, code: str, changed: dict[str, Any], text: str) -> None:
    arguments = {"A": np.zeros((4, 8), np.float32), "B": np.zeros((8, 6), np.float32)} | changed
    with pytest.raises(ge.GemmError, match=f"^{code}: {text}") as caught:
        gemm.forward_numpy(**arguments, device=device)
    assert type(caught.value) is getattr(ge, code)


def test_without_a_gpu_it_says_why() -> None:
    reason = calls.why_no_gpu()
    for extents in ((4, 8, 6), (0, 8, 6)):
        with pytest.raises(ge.Unsupported) as caught:
            gemm.forward_numpy(random(*extents[:2]), random(*extents[1:]))
        assert str(caught.value) == reason


@pytest.mark.parametrize("wrong", [7, "text", [[1.0]], object()], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_array_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"\bA\b"):
        gemm.forward_numpy(wrong, random(8, 6), device=ge.CPU)
    with pytest.raises(TypeError, match=r"\bbias\b"):
        gemm.forward_numpy(random(4, 8), random(8, 6), wrong, device=ge.CPU)


def test_the_device_is_a_device() -> None:
    for wrong in ("cuda", 1, None):
        with pytest.raises(TypeError):
            gemm.forward_numpy(random(4, 8), random(8, 6), device=wrong)
