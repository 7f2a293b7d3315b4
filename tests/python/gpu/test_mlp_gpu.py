"""mlp over CUDA memory of torch and CuPy: small integers, whose sums are exact in any order."""

from __future__ import annotations

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_mlp import BATCH, Reference, integers  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402
from graph_executor_v2.torch import step  # noqa: E402


def cuda(array):
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array)).cuda()


def same(given, expected):
    np.testing.assert_array_equal(given.cpu().numpy(), expected)


@pytest.mark.parametrize("tuning", ["off", "measure"])
@pytest.mark.parametrize("stored", ["in_out", "out_in", "view"])
@pytest.mark.parametrize("act,slope", [("relu", 0.0), ("leaky_relu", 0.5), ("leaky_relu", -0.5)])
def test_a_training_pass_is_numpys(act, slope, stored, tuning):
    reference = Reference(act=act, last_act=act, slope=slope)
    weights = [cuda(w if stored == "in_out" else w.T) for w in reference.weights]
    if stored == "view":
        weights = [w.t() for w in weights]
    net = ge.mlp(
        weights,
        [cuda(b) for b in reference.biases],
        act,
        BATCH,
        training=True,
        last_act=act,
        leaky_slope=slope,
        trans_b=stored == "out_in",
        input_gradient=True,
    )
    executable = net.capture(tuning=tuning, tuning_budget_s=0.1)
    net.x.copy_(cuda(reference.x))
    net.gy.copy_(cuda(reference.gy))
    for gradient in (*net.gweights, *net.gbiases, net.gx):
        gradient.fill_(float("nan"))
    chosen = torch.cuda.current_stream()
    for _ in range(3):
        executable.launch(chosen)
    executable.wait()
    y = reference.forward()
    gx, gweights, gbiases = reference.backward()
    same(net.y, y)
    same(net.gx, gx)
    for given, expected in zip(net.gweights, gweights):
        same(given, expected.T if stored == "out_in" else expected)
    for given, expected in zip(net.gbiases, gbiases):
        same(given, expected)


def test_loss_and_update_in_torchs_operations_are_replayed():
    reference = Reference()
    parameters = [cuda(p) for p in (*reference.weights, *reference.biases)]
    target, total = cuda(integers(np.random.default_rng(5), BATCH, 3)), torch.zeros(1, device="cuda")

    @step
    def loss(reads, writes):
        torch.sub(reads[0], reads[1], out=writes[0])
        writes[1].add_(1)

    @step
    def update(reads, writes):
        for gradient, parameter in zip(reads, writes):
            parameter.sub_(gradient)

    net = ge.mlp(
        parameters[:3],
        parameters[3:],
        "relu",
        BATCH,
        training=True,
        loss=loss,
        loss_reads=[target, total],
        loss_writes=[total],
    )
    net.program.step("sgd", [*net.gweights, *net.gbiases, *parameters], parameters, update)
    executable = net.capture(tuning="off")
    net.x.copy_(cuda(reference.x))
    torch.cuda.synchronize()
    assert total.item() == 0  # a capture does not do the work
    executable.launch(torch.cuda.current_stream())
    executable.wait()
    reference.gy = reference.forward() - target.cpu().numpy()
    _, gweights, gbiases = reference.backward()
    for given, before, gradient in zip(parameters, reference.weights + reference.biases, gweights + gbiases):
        same(given, before - gradient)
    assert total.item() == 1


def test_f3_replays_use_what_the_caller_has_dropped():
    reference = Reference()
    expected = reference.forward()
    net = ge.mlp([cuda(w) for w in reference.weights], [cuda(b) for b in reference.biases], "relu", BATCH)
    net.x.copy_(cuda(reference.x))
    executable, y = net.capture(tuning="off"), net.y
    del net
    gc.collect()
    sevens = [torch.full(w.shape, 7.0, device="cuda") for w in reference.weights for _ in range(8)]
    torch.cuda.synchronize()
    executable.launch()
    executable.wait()
    same(y, expected)
    assert all(bool((s == 7).all()) for s in sevens)


def test_cupy_weights_make_cupy_buffers():
    cupy = pytest.importorskip("cupy")
    reference = Reference()
    net = ge.mlp(
        [cupy.asarray(w) for w in reference.weights],
        [cupy.asarray(b) for b in reference.biases],
        "relu",
        BATCH,
        training=True,
    )
    assert all(isinstance(a, cupy.ndarray) for a in (net.x, net.y, net.gy, *net.gweights, *net.gbiases))
    net.x[:], net.gy[:] = cupy.asarray(reference.x), cupy.asarray(reference.gy)
    executable = net.capture(tuning="off")
    executable.launch(cupy.cuda.get_current_stream())
    executable.wait()
    np.testing.assert_array_equal(net.y.get(), reference.forward())
    np.testing.assert_array_equal(net.gweights[0].get(), reference.backward()[1][0])


def test_weights_on_two_devices_name_the_layer():
    reference = Reference()
    weights = [cuda(reference.weights[0]), torch.from_numpy(reference.weights[1]), cuda(reference.weights[2])]
    with pytest.raises(
        ge.DeviceMismatch, match=r"layer 1, where B is weights\[1\] and bias is biases\[1\]: "
    ):
        ge.mlp(weights, None, "relu", BATCH)
