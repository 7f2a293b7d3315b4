"""GemmAttrs: its defaults, names, conversions and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_common, _ops_gemm

DEFAULTS = {
    "trans_a": False,
    "trans_b": False,
    "with_bias": False,
    "save_z": False,
    "act": ge.ActKind.None_,
    "leaky_slope": 0.01,
    "alpha": 1.0,
    "beta": 0.0,
}


def test_the_defaults_are_a_plain_product() -> None:
    attrs = ge.GemmAttrs()
    for name, value in DEFAULTS.items():
        assert getattr(attrs, name) == pytest.approx(value), name


def test_every_field_is_a_keyword_and_may_be_changed() -> None:
    other = dict(
        trans_a=True, trans_b=True, with_bias=True, save_z=True, act=ge.ActKind.GELU, leaky_slope=0.5,
        alpha=-2.0, beta=3.0,
    )  # fmt: skip
    attrs = ge.GemmAttrs(**other)
    for name, value in other.items():
        assert getattr(attrs, name) == value, name
        setattr(attrs, name, DEFAULTS[name])
        assert getattr(attrs, name) == pytest.approx(DEFAULTS[name]), name


def test_positional_arguments_stand_in_the_documented_order() -> None:
    attrs = ge.GemmAttrs(True, False, True, False, "tanh", 0.25, 2, 4)
    assert (attrs.trans_a, attrs.trans_b, attrs.with_bias, attrs.save_z) == (True, False, True, False)
    assert attrs.act is ge.ActKind.Tanh or attrs.act == ge.ActKind.Tanh
    assert (attrs.leaky_slope, attrs.alpha, attrs.beta) == (0.25, 2.0, 4.0)


@pytest.mark.parametrize(
    "name, kind",
    [("relu", "ReLU"), ("RELU", "ReLU"), ("leaky_relu", "LeakyReLU"), ("LeakyReLU", "LeakyReLU"),
     ("none", "None_"), ("gelu", "GELU"), ("gelu_tanh", "GELUTanh"), ("GELUTanh", "GELUTanh"),
     ("elu", "ELU"), ("silu", "SiLU"),
     ("sigmoid", "Sigmoid"), ("tanh", "Tanh")],
)  # fmt: skip
def test_an_activation_has_a_name(name: str, kind: str) -> None:
    assert ge.GemmAttrs(act=name).act == getattr(ge.ActKind, kind)
    attrs = ge.GemmAttrs()
    attrs.act = name
    assert attrs.act == getattr(ge.ActKind, kind)


def test_no_activation_is_none() -> None:
    attrs = ge.GemmAttrs(act=None)
    assert attrs.act == ge.ActKind.None_
    attrs.act = "relu"
    attrs.act = None
    assert attrs.act == ge.ActKind.None_


def test_an_unknown_activation_is_invalid_and_a_number_is_no_activation() -> None:
    with pytest.raises(ge.Invalid, match="^Invalid: .*rleu"):
        ge.GemmAttrs(act="rleu")
    attrs = ge.GemmAttrs(act="relu")
    for wrong in (1, 1.5, True, b"relu", ["relu"]):
        with pytest.raises(TypeError):
            ge.GemmAttrs(act=wrong)
        with pytest.raises(TypeError):
            attrs.act = wrong
    assert attrs.act == ge.ActKind.ReLU


@pytest.mark.parametrize("name, wrong", [("trans_a", 1), ("save_z", "yes"), ("alpha", "2"), ("beta", None)])
def test_other_types_are_refused(name: str, wrong: object) -> None:
    with pytest.raises(TypeError):
        ge.GemmAttrs(**{name: wrong})
    attrs = ge.GemmAttrs()
    with pytest.raises(TypeError):
        setattr(attrs, name, wrong)


def test_integers_and_numpy_numbers_are_numbers() -> None:
    attrs = ge.GemmAttrs(alpha=2, beta=np.float32(0.5), leaky_slope=np.float64(0.25))
    assert (attrs.alpha, attrs.beta, attrs.leaky_slope) == (2.0, 0.5, 0.25)


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError):
        ge.GemmAttrs(transa=True)
    with pytest.raises(AttributeError):
        ge.GemmAttrs().transa = True


def test_the_text_names_every_field() -> None:
    text = repr(ge.GemmAttrs(trans_b=True, act="leaky_relu", leaky_slope=0.25, alpha=2))
    assert text == (
        'GemmAttrs(trans_a=False, trans_b=True, with_bias=False, save_z=False, act="LeakyReLU", '
        "leaky_slope=0.25, alpha=2, beta=0)"
    )
    again = eval(text, {"GemmAttrs": ge.GemmAttrs})
    assert repr(again) == text


def test_there_is_one_type_under_every_name() -> None:
    assert ge.GemmAttrs is _ops_gemm.GemmAttrs is _ops_common.GemmAttrs
