"""What mlp says of arguments that do not go together: which of them, and of which layer."""

from __future__ import annotations

import numpy as np
import pytest

import graph_executor_v2 as ge

from test_mlp import BATCH, Reference


def changed(**changes):
    """mlp's arguments with some replaced."""
    reference = Reference()
    arguments = {"weights": reference.weights, "biases": reference.biases, "act": "relu", "batch": BATCH}
    return {**arguments, **{name: make(reference) for name, make in changes.items()}}


@pytest.mark.parametrize(
    "arguments,error,message",
    [
        (
            changed(weights=lambda r: [*r.weights[:2], r.weights[0]]),
            ge.ShapeMismatch,
            "weights[2] is [5,7], expected [4,N] because weights[1] is [7,4]",
        ),
        (
            changed(weights=lambda r: [np.ascontiguousarray(w.T) for w in r.weights]),
            ge.ShapeMismatch,
            "weights[1] is [4,7], expected [5,N] because weights[0] is [7,5]: trans_b=True is for weights stored [out",
        ),
        (
            changed(weights=lambda r: r.weights, trans_b=lambda r: True),
            ge.ShapeMismatch,
            "weights[1] is [7,4], expected [N,5] because weights[0] is [5,7]",
        ),
        (
            changed(weights=lambda r: [r.weights[0], r.biases[0]], biases=lambda r: None),
            ge.ShapeMismatch,
            "weights[1] is [7], expected a matrix",
        ),
        (changed(weights=lambda r: []), ge.MissingInput, "weights is empty"),
        (
            changed(biases=lambda r: r.biases[:2]),
            ge.Invalid,
            "biases has 2 entries, expected 3, one for each of weights",
        ),
        (
            changed(biases=lambda r: [r.biases[0], r.biases[0], None]),
            ge.ShapeMismatch,
            "layer 1, where B is weights[1] and bias is biases[1]: bias is [7]",
        ),
        (
            changed(weights=lambda r: [r.weights[0], r.weights[1].astype(np.float64), r.weights[2]]),
            ge.DtypeMismatch,
            "layer 1, where B is weights[1] and bias is biases[1]: B is ",
        ),
        (
            changed(weights=lambda r: [np.repeat(r.weights[0], 2, 1)[:, ::2], *r.weights[1:]]),
            ge.StrideMismatch,
            "layer 0, where A is x, B is weights[0] and bias is biases[0]: B ",
        ),
        (changed(batch=lambda r: -1), ge.Invalid, "batch is -1, expected at least 0"),
        (changed(x=lambda r: r.x[:5]), ge.ShapeMismatch, "x is [5,5], expected [6,5]"),
        (changed(y=lambda r: r.x), ge.ShapeMismatch, "y is [6,5], expected [6,3]"),
        (changed(training=lambda r: True, gy=lambda r: r.x), ge.ShapeMismatch, "gy is [6,5], expected [6,3]"),
        (
            changed(training=lambda r: True, gweights=lambda r: r.weights[:1]),
            ge.Invalid,
            "gweights has 1 entries",
        ),
        (changed(loss=lambda r: print), ge.Invalid, "loss is given, expected training=True with it"),
        (
            changed(input_gradient=lambda r: True),
            ge.Invalid,
            "input_gradient is given, expected training=True",
        ),
        (
            changed(training=lambda r: True, gx=lambda r: r.x),
            ge.Invalid,
            "gx is given, expected input_gradient=True",
        ),
        (
            changed(x=lambda r: r.x.astype(np.float64)),
            ge.DtypeMismatch,
            "layer 0, where A is x, B is weights[0] and bias is biases[0]: A is float64",
        ),
        (
            changed(training=lambda r: True, gbiases=lambda r: [r.biases[0], r.biases[0], r.biases[2]]),
            ge.Overlap,
            "gbiases[1] is gbiases[0], expected a buffer for each of weights",
        ),
        (changed(act=lambda r: "softmax"), ge.Invalid, "softmax"),
    ],
)
def test_errors_name_the_layer(arguments, error, message):
    with pytest.raises(error) as raised:
        ge.mlp(**arguments)
    assert str(raised.value).startswith(f"{error.__name__}: ")
    assert message in str(raised.value)
    assert raised.value.status == getattr(ge.StatusCode, error.__name__)


@pytest.mark.parametrize(
    "arguments,message",
    [
        (changed(batch=lambda r: True), "batch is True, expected an int"),
        (changed(batch=lambda r: 6.0), "batch is 6.0, expected an int"),
        (
            changed(biases=lambda r: ["none", None, None]),
            "layer 0, where A is x, B is weights[0] and bias is biases[0]: bias (str)",
        ),
        (changed(weights=lambda r: [r.weights[0], None, r.weights[2]]), "weights[1] (NoneType) is no Tensor"),
        (changed(x=lambda r: r.x.tolist()), "x (list) is no Tensor"),
        (
            changed(training=lambda r: True, gweights=lambda r: [*r.weights[:2], 7]),
            "B is weights[2], bias is biases[2], gB is gweights[2], gBias is gbiases[2] and gY is gy: gB (int)",
        ),
    ],
)
def test_wrong_types_are_type_errors(arguments, message):
    with pytest.raises(TypeError) as raised:
        ge.mlp(**arguments)
    assert message in str(raised.value)
