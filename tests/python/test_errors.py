"""GemmError, its subclasses and their codes."""

from __future__ import annotations

import gc
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

CODES = [code for code in ge.StatusCode if code is not ge.StatusCode.Ok]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_code_has_a_subclass_of_its_name(code: ge.StatusCode) -> None:
    error = getattr(ge, code.name)
    assert issubclass(error, ge.GemmError)
    assert error.status is code
    assert error("text").status is code
    assert error.__name__ == code.name
    assert error.__doc__


def test_the_codes_are_the_library_s() -> None:
    assert [code.name for code in ge.StatusCode] == (
        "Ok Invalid Unsupported MissingInput MissingOutput DeviceMismatch DtypeMismatch LayoutMismatch "
        "ShapeMismatch StrideMismatch Overlap OutOfMemory CaptureActive CaptureInvalidated CudaError"
    ).split()


def test_gemm_error_is_a_runtime_error() -> None:
    assert issubclass(ge.GemmError, RuntimeError)
    assert isinstance(ge.GemmError("text").status, ge.StatusCode)


def test_an_error_starts_with_its_code_s_name_and_names_the_operand() -> None:
    a, y = np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(ge.ShapeMismatch, match=r"^ShapeMismatch: B is \[5,4\], expected \[3,N\]") as caught:
        gemm.forward(a, np.ones((5, 4), np.float32), None, y, gemm.GemmAttrs(), None)
    assert caught.value.status is ge.StatusCode.ShapeMismatch
    assert caught.value.__cause__ is None


def test_an_error_survives_pickling() -> None:
    with pytest.raises(ge.Invalid) as caught:
        ge.make_tensor_2d(-1, (2, 2))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (
        type(again) is ge.Invalid
        and str(again) == str(caught.value)
        and again.status is ge.StatusCode.Invalid
    )


def test_the_package_and_the_modules_below_it_have_the_same_classes() -> None:
    from graph_executor_v2.ops import _ops_common

    for name in ("GemmError", "ShapeMismatch", "Tensor", "Device", "ActKind"):
        if hasattr(_ops_common, name):
            assert getattr(_ops_common, name) is getattr(ge, name)


def test_errors_do_not_leak() -> None:
    array = np.zeros((2, 2), np.float64)

    def fail() -> None:
        for _ in range(20_000):
            try:
                ge.as_tensor(array)
            except ge.DtypeMismatch:
                pass
            try:
                ge.as_tensor(None)
            except TypeError:
                pass

    fail()
    before = sys.getrefcount(array), sys.getrefcount(ge.DtypeMismatch), sys.getrefcount(None)
    gc.collect()
    tracemalloc.start()
    fail()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    after = sys.getrefcount(array), sys.getrefcount(ge.DtypeMismatch), sys.getrefcount(None)
    assert grown < 20_000
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 1000
