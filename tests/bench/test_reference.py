"""The data of a row, the reference in f64, and what it takes for wrong."""

from __future__ import annotations

from typing import Any

import data
import numpy as np
import pytest
import reference
from checks import check
from peer_protocol import Wrong
from reference import Reference, distance
from small_row import MODES, row


def by_hand(tensor: int, i: int) -> float:
    """The formula in Python's integers."""
    x = (i * 2654435761 + tensor * 40503 + 12345) % 2**32
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    x ^= x >> 16
    return (x >> 8) / 8388608 - 1


@pytest.mark.parametrize(
    "tensor, i, value",
    [  # worked out once; the C++ contestants' test has the first of each too
        (1, 0, 0.5104972124099731),
        (1, 1, 0.9470188617706299),
        (2, 0, 0.8008468151092529),
        (3, 5, -0.4894927740097046),
        (100, 0, 0.8422460556030273),
        (101, 4095, 0.535205602645874),
        (203, 19, -0.9576728343963623),
        (1, 2000000, 0.9105572700500488),
    ],
)
def test_data_equals_literals(tensor: int, i: int, value: float) -> None:
    assert by_hand(tensor, i) == value
    assert data.unit_values(tensor, i + 1)[i] == np.float32(value)


def test_data_equals_the_formula_everywhere() -> None:
    for tensor in (1, 2, 3, 100, 203):
        values = data.unit_values(tensor, 3000)
        assert values.dtype == np.float32
        assert values.tolist() == [by_hand(tensor, i) for i in range(3000)]
        assert values.min() >= -1 and values.max() < 1 and abs(values.mean()) < 0.05


def test_operands_are_scaled_in_f32_and_row_major() -> None:
    network = data.network_of(row())
    assert network.weights[1].shape == (7, 6) and network.x.shape == (4, 5) and network.target.shape == (4, 3)
    scale = np.float32(np.sqrt(3.0 / 7))
    assert network.weights[1][2, 5] == np.float32(by_hand(101, 2 * 6 + 5)) * scale
    assert network.biases[2][1] == np.float32(by_hand(202, 1)) * np.float32(0.1)
    assert (
        network.x[1, 2] == by_hand(1, 7)
        and network.gy[3, 2] == by_hand(2, 11)
        and network.target[0, 1] == by_hand(3, 1)
    )
    assert [network.activation_of(layer) for layer in range(3)] == ["Tanh", "Tanh", "None"]


ACTS = {
    "None": lambda z: z,
    "ReLU": lambda z: max(z, 0.0),
    "Tanh": np.tanh,
    "ELU": lambda z: z if z > 0 else np.exp(z) - 1,
    "GELUTanh": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}


def plain_forward(network: data.Network, weights: list[Any], biases: list[Any]) -> list[Any]:
    """Loops over scalars; independent of the reference."""
    outputs = []
    y = [[float(v) for v in line] for line in network.x]
    for layer, (w, b) in enumerate(zip(weights, biases)):
        act = ACTS[network.activation_of(layer)]
        y = [
            [act(sum(line[k] * float(w[k][n]) for k in range(len(w))) + float(b[n])) for n in range(len(b))]
            for line in y
        ]
        outputs.append(np.array(y))
    return outputs


def plain_loss(network: data.Network, mode: str, weights: list[Any], biases: list[Any]) -> float:
    y = plain_forward(network, weights, biases)[-1]
    if mode == "forward_backward":
        return float((y * network.gy).sum())
    return float(((y - network.target) ** 2).mean())


@pytest.mark.parametrize("activation", ACTS)
def test_the_reference_equals_loops_over_scalars(activation: str) -> None:
    network = data.network_of(row(activation))
    rows, y = Reference(network, "forward", []).y()
    np.testing.assert_allclose(
        y, plain_forward(network, network.weights, network.biases)[-1][rows], rtol=1e-12
    )


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("activation", ACTS)
def test_reference_gradients_equal_differences(activation: str, mode: str) -> None:
    network = data.network_of(row(activation, mode=mode))
    hidden = plain_forward(network, network.weights, network.biases)
    reference = Reference(network, mode, hidden)
    step = 1e-5
    for layer in range(3):
        rows, cols, gw = reference.gw(layer)
        assert rows == cols == slice(None)
        for k, n in [(0, 0), (4, 2), (2, 1)]:
            weights = [w.astype(np.float64) for w in network.weights]
            weights[layer][k, n] += step
            above = plain_loss(network, mode, weights, network.biases)
            weights[layer][k, n] -= 2 * step
            below = plain_loss(network, mode, weights, network.biases)
            assert gw[k, n] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)
        _, gb = reference.gb(layer)
        biases = [b.astype(np.float64) for b in network.biases]
        biases[layer][1] += step
        above = plain_loss(network, mode, network.weights, biases)
        biases[layer][1] -= 2 * step
        assert gb[1] == pytest.approx(
            (above - plain_loss(network, mode, network.weights, biases)) / (2 * step), rel=1e-5, abs=1e-8
        )


@pytest.mark.parametrize("mode", MODES[1:])
def test_samples_of_a_large_row_equal_the_whole(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = data.network_of(row("GELUTanh", batch=9, mode=mode))
    whole = Reference(network, mode, [])
    every_y = whole.y()[1]
    every_gw, every_gb = (
        [whole.gw(layer)[2] for layer in range(3)],
        [whole.gb(layer)[1] for layer in range(3)],
    )
    monkeypatch.setattr("reference.WHOLE", 0)
    monkeypatch.setattr("reference.SAMPLED", 3)
    some = Reference(network, mode, [])
    rows, y = some.y()
    assert list(rows) == [0, 4, 8]
    np.testing.assert_allclose(y, every_y[rows], rtol=1e-12)
    for layer in range(3):
        rows, cols, gw = some.gw(layer)
        assert gw.shape == (3, 3) or layer == 2
        np.testing.assert_allclose(gw, every_gw[layer][rows][:, cols], rtol=1e-12)
        cols, gb = some.gb(layer)
        np.testing.assert_allclose(gb, every_gb[layer][cols], rtol=1e-12)


def exact(mode: str, activation: str = "Tanh") -> tuple[data.Network, list[Any], list[Any]]:
    """A network, and its Y and gradients right to f32."""
    network = data.network_of(row(activation, mode=mode))
    y = plain_forward(network, network.weights, network.biases)
    reference = Reference(network, mode, y)
    gradients = [reference.gw(layer)[2] for layer in range(3)] + [
        reference.gb(layer)[1] for layer in range(3)
    ]
    return network, [a.astype(np.float32) for a in y], [g.astype(np.float32) for g in gradients]


@pytest.mark.parametrize("mode", MODES)
def test_right_results_pass(mode: str) -> None:
    network, y, gradients = exact(mode)
    parameters = [
        (p - 1e-4 * g).astype(np.float32) for p, g in zip([*network.weights, *network.biases], gradients)
    ]
    assert check(network, mode, y, gradients, parameters) < 1e-6


@pytest.mark.parametrize("what", ["y", "nan", "tf32", "gw", "gb", "parameters", "no step"])
def test_wrong_results_are_told(what: str) -> None:
    network, y, gradients = exact("train_step")
    old = [*network.weights, *network.biases]
    rate = 1.0
    parameters = [(p - rate * g).astype(np.float32) for p, g in zip(old, gradients)]
    if what == "y":
        y[-1][1, 2] *= 1.001
    if what == "nan":
        y[-1][0, 0] = np.nan
    if what == "tf32":
        y[-1] = (y[-1].view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if what == "gw":
        gradients[1] = gradients[1] * np.float32(1.001)
    if what == "gb":
        gradients[4][0] = 0
    if what == "parameters":
        parameters[0] = (old[0] - 1.001 * rate * gradients[0]).astype(np.float32)
    if what == "no step":
        parameters[5] = old[5]
    name = {
        "gw": "gW of layer 1",
        "gb": "gBias of layer 1",
        "parameters": "W of layer 0",
        "no step": "bias of layer 2",
    }
    with pytest.raises(Wrong, match=f"^{name.get(what, 'Y')} is off by"):
        check(network, "train_step", y, gradients, parameters, rate)


def test_an_update_that_was_never_made_is_told_where_rounding_takes_most_of_it() -> None:
    rng = np.random.default_rng(1)
    old = rng.uniform(-1, 1, (64, 64)).astype(np.float32)
    step = rng.uniform(-1, 1, (64, 64)) * 3e-8  # half of what f32 tells from 1
    new = (old - step).astype(np.float32)
    assert reference._update_error(old.astype(np.float64), new, step) == 0
    assert reference._update_error(old.astype(np.float64), old, step) > reference.TOLERANCE


def test_the_sign_of_a_vanishing_z_is_the_peers() -> None:
    network = data.network_of(row("ReLU", batch=1, mode="forward_backward"))
    z = network.x.astype(np.float64) @ network.weights[0].astype(np.float64)
    network.biases[0][:] = -z[0].astype(np.float32)  # Z of layer 0 is rounding alone
    hidden = [np.zeros((1, 7), np.float32), np.ones((1, 6), np.float32), np.zeros((1, 3), np.float32)]
    network.biases[0][0] = 1  # and one that is not
    dead = Reference(network, "forward_backward", hidden).gb(0)[1]
    hidden[0][0, 3] = 1e-9
    alive = Reference(network, "forward_backward", hidden).gb(0)[1]
    assert np.flatnonzero(alive - dead).tolist() == [3]


def test_a_distance_is_relative_and_never_passes_nan() -> None:
    assert distance(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)
    assert distance(np.array([np.nan]), np.array([1.0])) == float("inf")
