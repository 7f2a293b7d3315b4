"""mlp on the host target: small integers, whose sums are exact, against NumPy to the last bit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

WIDTHS = (5, 7, 4, 3)
BATCH = 6


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(np.float32)


class Reference:
    """The chain in NumPy, float32 throughout: exact as long as the values stay small integers."""

    def __init__(self, act="relu", last_act=None, slope=0.5, with_bias=True, seed=0):
        rng = np.random.default_rng(seed)
        self.weights = [integers(rng, i, o) for i, o in zip(WIDTHS, WIDTHS[1:])]
        self.biases = [integers(rng, o) if with_bias else None for o in WIDTHS[1:]]
        self.acts = [act, act, last_act]
        self.slope = slope
        self.x, self.gy = integers(rng, BATCH, WIDTHS[0]), integers(rng, BATCH, WIDTHS[-1])

    def weights_stored(self, how):
        """As [in, out], as [out, in], or the latter viewed as the former."""
        if how == "in_out":
            return self.weights
        turned = [np.ascontiguousarray(w.T) for w in self.weights]
        return turned if how == "out_in" else [w.T for w in turned]

    def negative(self, act):
        return {None: 1.0, "relu": 0.0, "leaky_relu": self.slope}[act]

    def forward(self):
        self.inputs, self.zs, h = [], [], self.x
        for w, b, act in zip(self.weights, self.biases, self.acts):
            z = h @ w + (0 if b is None else b)
            self.inputs.append(h)
            self.zs.append(z)
            h = np.where(z > 0, z, np.float32(self.negative(act)) * z)
        return h

    def backward(self):
        g, gweights, gbiases = self.gy, [], []
        for h, z, w, act in list(zip(self.inputs, self.zs, self.weights, self.acts))[::-1]:
            gz = np.where(z > 0, g, np.float32(self.negative(act)) * g)
            gweights.insert(0, h.T @ gz)
            gbiases.insert(0, gz.sum(0))
            g = gz @ w.T
        return g, gweights, gbiases


def equal(given, expected):
    assert given.shape == expected.shape
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("last_act", [None, "relu"])
@pytest.mark.parametrize("stored", ["in_out", "out_in", "view"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_chain_is_numpys(stored, with_bias, last_act):
    reference = Reference(with_bias=with_bias, last_act=last_act)
    weights = reference.weights_stored(stored)
    net = ge.mlp(
        weights,
        reference.biases if with_bias else None,
        "relu",
        BATCH,
        last_act=last_act,
        trans_b=stored == "out_in",
    )
    assert len(net.program) == 3
    executable = net.capture()
    net.x[:] = reference.x
    executable.launch()
    executable.wait()
    equal(net.y, reference.forward())
    assert net.gy is None and net.gx is None and net.gweights == [] and net.gbiases == []


@pytest.mark.parametrize("stored", ["in_out", "out_in", "view"])
@pytest.mark.parametrize(
    "act,slope", [("relu", 0.0), ("leaky_relu", 0.5), ("leaky_relu", 0.0), ("leaky_relu", -0.5), (None, 0.0)]
)
def test_its_gradients_are_numpys(act, slope, stored):
    reference = Reference(act=act, last_act=act, slope=slope)
    weights = reference.weights_stored(stored)
    net = ge.mlp(
        weights,
        reference.biases,
        act,
        BATCH,
        training=True,
        last_act=act,
        leaky_slope=slope,
        trans_b=stored == "out_in",
        input_gradient=True,
    )
    assert len(net.program) == 6
    executable = net.capture()
    net.x[:], net.gy[:] = reference.x, reference.gy
    for gradient in (*net.gweights, *net.gbiases, net.gx):
        gradient[:] = np.nan  # overwritten, not added to
    executable.launch()
    y = reference.forward()
    gx, gweights, gbiases = reference.backward()
    equal(net.y, y)
    equal(net.gx, gx)
    for given, like, expected in zip(net.gweights, weights, gweights):
        assert given.strides == like.strides
        equal(given, expected.T if stored == "out_in" else expected)
    for given, expected in zip(net.gbiases, gbiases):
        equal(given, expected)


@pytest.mark.parametrize(
    "act", ["none", "relu", "leaky_relu", "elu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"]
)
def test_every_activation_gives_what_single_calls_give(act):
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(s, dtype=np.float32) for s in zip(WIDTHS, WIDTHS[1:])]
    biases = [rng.standard_normal(s, dtype=np.float32) for s in WIDTHS[1:]]
    net = ge.mlp(weights, biases, act, BATCH, training=True, last_act=act, input_gradient=True)
    net.x[:] = rng.standard_normal(net.x.shape)
    net.gy[:] = rng.standard_normal(net.gy.shape)
    net.capture().launch()

    attrs = gemm.GemmAttrs(act=act)
    inputs, zs = [net.x], []
    for w, b in zip(weights, biases):
        y, z = np.empty((BATCH, w.shape[1]), np.float32), np.empty((BATCH, w.shape[1]), np.float32)
        gemm.forward(inputs[-1], w, b, y, attrs, None, z)
        inputs.append(y)
        zs.append(z)
    equal(net.y, inputs.pop())
    gradient = net.gy
    for i in reversed(range(3)):
        gx, gw, gb = (np.empty_like(like) for like in (inputs[i], weights[i], biases[i]))
        gemm.backward(inputs[i], weights[i], None, gradient, zs[i], gx, gw, None, gb, attrs, None)
        equal(net.gweights[i], gw)
        equal(net.gbiases[i], gb)
        gradient = gx
    equal(net.gx, gradient)


def test_loss_and_update_are_steps_of_one_program():
    reference = Reference()
    weights, biases = [w.copy() for w in reference.weights], [b.copy() for b in reference.biases]
    target, total = integers(np.random.default_rng(5), BATCH, 3), np.zeros(1, np.float32)

    def loss(stream, reads, writes):
        assert stream == 0 and [t.shape for t in reads] == [(BATCH, 3), (BATCH, 3)]
        y, wanted = (t.numpy() for t in reads)
        writes[0].numpy()[:] = y - wanted
        writes[1].numpy()[:] += np.abs(y - wanted).sum()

    net = ge.mlp(
        weights, biases, "relu", BATCH, training=True, loss=loss, loss_reads=[target], loss_writes=[total]
    )

    def update(stream, reads, writes):
        for gradient, parameter in zip(reads, writes):
            parameter.numpy()[:] -= gradient.numpy()

    net.program.step("sgd", [*net.gweights, *net.gbiases], [*weights, *biases], update)
    assert len(net.program) == 8
    executable = net.capture()
    net.x[:] = reference.x
    executable.launch()
    reference.gy = reference.forward() - target
    _, gweights, gbiases = reference.backward()
    assert total[0] == np.abs(reference.gy).sum()
    for given, before, gradient in zip(
        weights + biases, reference.weights + reference.biases, gweights + gbiases
    ):
        equal(given, before - gradient)


def test_buffers_may_be_given_as_parts_of_one():
    reference = Reference()
    count = sum(w.size for w in reference.weights)
    flat, at, gweights = np.zeros(count, np.float32), 0, []
    for w in reference.weights:
        gweights.append(flat[at : at + w.size].reshape(w.shape))
        at += w.size
    x, y, gy = reference.x.copy(), np.empty((BATCH, 3), np.float32), reference.gy.copy()
    gbiases = [np.empty_like(b) for b in reference.biases]
    net = ge.mlp(
        reference.weights,
        reference.biases,
        "relu",
        BATCH,
        training=True,
        x=x,
        y=y,
        gy=gy,
        gweights=gweights,
        gbiases=gbiases,
    )
    assert net.x is x and net.y is y and net.gy is gy and net.gweights[1] is gweights[1]
    net.capture().launch()
    equal(y, reference.forward())
    _, expected, _ = reference.backward()
    equal(flat, np.concatenate([g.ravel() for g in expected]))


def test_a_layer_may_have_no_bias():
    reference = Reference()
    reference.biases[1] = None
    net = ge.mlp(reference.weights, reference.biases, "relu", BATCH, training=True)
    assert net.gbiases[1] is None
    net.x[:], net.gy[:] = reference.x, reference.gy
    net.capture().launch()
    equal(net.y, reference.forward())
    equal(net.gbiases[0], reference.backward()[2][0])


def test_an_empty_batch_has_zero_gradients():
    reference = Reference()
    net = ge.mlp(reference.weights, reference.biases, "relu", 0, training=True)
    net.gweights[0][:] = 7
    net.capture().launch()
    assert net.y.shape == (0, 3)
    equal(net.gweights[0], np.zeros_like(reference.weights[0]))


def test_the_batch_may_be_any_integer():
    net = ge.mlp(Reference().weights, None, "relu", np.int64(BATCH))
    assert net.x.shape == (BATCH, WIDTHS[0])


def test_a_weight_that_serves_twice_has_two_gradients():
    rng = np.random.default_rng(7)
    square, x, gy = integers(rng, 4, 4), integers(rng, BATCH, 4), integers(rng, BATCH, 4)
    net = ge.mlp([square, square], None, None, BATCH, training=True)
    net.x[:], net.gy[:] = x, gy
    net.capture().launch()
    equal(net.gweights[1], (x @ square).T @ gy)
    equal(net.gweights[0], x.T @ (gy @ square.T))


def test_f3_the_executable_keeps_what_the_chain_was_made_of():
    reference = Reference()
    expected = reference.forward()
    net = ge.mlp([w.copy() for w in reference.weights], [b.copy() for b in reference.biases], "relu", BATCH)
    net.x[:] = reference.x
    executable, y = net.capture(), net.y
    del net
    gc.collect()
    sevens = [np.full(w.shape, 7, np.float32) for w in reference.weights for _ in range(8)]
    executable.launch()
    equal(y, expected)
    assert all((s == 7).all() for s in sevens)


def tensor(array):
    return gemm.make_tensor_2d(array.ctypes.data, array.shape, device=gemm.Device.CPU)


def test_tensors_of_the_library_serve_where_every_buffer_is_given():
    reference = Reference(with_bias=False)
    weights = [tensor(w) for w in reference.weights]
    y = np.empty((BATCH, 3), np.float32)
    with pytest.raises(
        ge.MissingInput, match=r"^MissingInput: x is not given, expected one of \[6,5\] because"
    ):
        ge.mlp(weights, None, "relu", BATCH)
    with pytest.raises(ge.MissingOutput, match=r"^MissingOutput: y is not given"):
        ge.mlp(weights, None, "relu", BATCH, x=tensor(reference.x))
    with pytest.raises(ge.MissingOutput, match=r"gweights\[0\] is not given, expected one of \[5,7\]"):
        ge.mlp(
            weights,
            None,
            "relu",
            BATCH,
            training=True,
            x=tensor(reference.x),
            y=tensor(y),
            gy=tensor(reference.gy),
        )
    ge.mlp(weights, None, "relu", BATCH, x=tensor(reference.x), y=tensor(y)).capture().launch()
    equal(y, reference.forward())
