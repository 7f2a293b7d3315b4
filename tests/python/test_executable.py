"""capture and Executable on the host target: options, every method, errors, a network that learns."""

from __future__ import annotations

import numpy as np
import pytest
from arrays import layer, ramp, zeros

import graph_executor_v2 as ge


@pytest.mark.parametrize("target", ["auto", "host", "HOST", ge.Target.Auto, ge.Target.Host])
@pytest.mark.parametrize("tuning", ["off", "Measure", ge.Tuning.Off, ge.Tuning.Measure])
def test_options_are_names_or_enums(target, tuning):
    program = ge.Program()
    y = zeros(2, 2)
    program.forward(np.eye(2, dtype=np.float32), ramp(2, 2), None, y)
    executable = ge.capture(program, target=target, tuning=tuning, tuning_budget_s=0, capture_retries=0)
    executable.launch()
    np.testing.assert_array_equal(y, ramp(2, 2))
    assert executable.target == ge.Target.Host


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ge.Invalid, 'target is "gpu", expected one of "auto", "host", "cuda"', {"target": "gpu"}),
        (ge.Invalid, "target is .*udc80", {"target": "\udc80"}),
        (TypeError, "target is of type int", {"target": 1}),
        (TypeError, "target is of type Tuning", {"target": ge.Tuning.Off}),
        (ge.Invalid, "tuning is", {"tuning": "on"}),
        (TypeError, "tuning is of type bool", {"tuning": False}),
        (ge.Invalid, "tuning_budget_s", {"tuning_budget_s": -1}),
        (ge.Invalid, "tuning_budget_s", {"tuning_budget_s": float("nan")}),
        (TypeError, "incompatible", {"tuning_budget_s": "2"}),
        (ge.Invalid, "capture_retries", {"capture_retries": -1}),
        (TypeError, "incompatible", {"capture_retries": 1.5}),
        (ge.DeviceMismatch, "CUDA", {"target": "cuda"}),
        (TypeError, "incompatible", {"speed": 1}),
    ],
)
def test_bad_options_are_named(error, text, options):
    program = ge.Program()
    program.forward(zeros(2, 2), zeros(2, 2), None, zeros(2, 2))
    with pytest.raises(error, match=text):
        ge.capture(program, **options)


def test_only_programs_can_be_captured():
    with pytest.raises(TypeError):
        ge.capture("program")
    with pytest.raises(TypeError):
        ge.Executable()


def test_target_available_returns_or_says_why_not():
    assert ge.target_available("host") is None
    assert ge.target_available(ge.Target.Host) is None
    with pytest.raises(ge.Invalid):
        ge.target_available("tpu")
    if not ge.with_cuda:
        with pytest.raises(ge.Unsupported, match="without CUDA"):
            ge.target_available()


def test_launch_enqueue_and_wait():
    executable, a, b, y = layer()
    assert executable.wait() is None
    assert executable.launch() is None
    np.testing.assert_array_equal(y, a @ b)
    y[:] = 0
    assert executable.enqueue() is None
    executable.wait()
    np.testing.assert_array_equal(y, a @ b)
    a *= 2
    executable.launch(stream=None)
    np.testing.assert_array_equal(y, a @ b)


@pytest.mark.parametrize("call", ["launch", "enqueue"])
@pytest.mark.parametrize(
    ("error", "stream"),
    [(TypeError, True), (TypeError, 1.0), (TypeError, "1"), (ge.Invalid, -1), (ge.Invalid, 1 << 64)],
)
def test_f1_bad_streams_are_refused_on_the_host_too(call, error, stream):
    executable, _, _, y = layer()
    with pytest.raises(error, match="stream"):
        getattr(executable, call)(stream)
    np.testing.assert_array_equal(y, 0)


@pytest.mark.parametrize("stream", [None, 0, 1, 2, (1 << 64) - 1])
def test_f1_good_streams_are_ignored_on_the_host(stream):
    executable, a, b, y = layer()
    executable.launch(stream)
    np.testing.assert_array_equal(y, a @ b)


def test_an_executable_describes_itself():
    a, w, h, y = ramp(4, 3), ramp(3, 3), zeros(4, 3), zeros(4, 3)
    program = ge.Program()
    t = program.temporary((4, 3), device=ge.CPU)
    program.forward(a, w, None, t, act="relu")
    program.step("look", [t], [h], lambda stream, reads, writes: None)
    program.forward(h, w, None, y)
    executable = ge.capture(program)
    nodes = executable.nodes()
    assert len(nodes) == 3 and all(isinstance(node, ge.Node) for node in nodes)
    assert [node.kind for node in nodes] == ["host"] * 3
    assert [node.depends_on for node in nodes] == [[], [0], [1]]
    assert nodes[1].name == "look"
    assert "look" in repr(nodes[1])
    assert "forward Y[4,3]" in executable.explain()
    assert executable.dot().startswith("digraph")
    assert executable.workspace_bytes >= 4 * 3 * 4
    assert executable.target == ge.Target.Host
    assert "Host" in repr(executable) and "3 nodes" in repr(executable)
    operands = executable.operands()
    assert [(o.name, o.tensor.data) for o in operands] == [
        ("A", a.ctypes.data),
        ("B", w.ctypes.data),
        ("writes[0]", h.ctypes.data),
        ("A", h.ctypes.data),
        ("B", w.ctypes.data),
        ("Y", y.ctypes.data),
    ]
    assert operands[0].item == "forward Y[4,3]" and operands[2].item == "step 'look'"
    assert operands[0].tensor.shape == (4, 3) and "forward Y[4,3]" in repr(operands[0])


def test_a_small_network_learns_by_replay():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
    target = (x[:, :1] * x[:, 1:] > 0).astype(np.float32)
    w1, b1 = rng.normal(0, 1, (2, 16)).astype(np.float32), zeros(16)
    w2, b2 = rng.normal(0, 0.3, (16, 1)).astype(np.float32), zeros(1)
    h, z1, y, gy, gh = zeros(64, 16), zeros(64, 16), zeros(64, 1), zeros(64, 1), zeros(64, 16)
    gradients = [np.zeros_like(p) for p in (w1, b1, w2, b2)]
    loss = zeros(1)

    def loss_and_its_gradient(stream, reads, writes):
        off = reads[0].numpy() - reads[1].numpy()
        writes[0].numpy()[:] = 2 * off / len(off)
        writes[1].numpy()[:] = (off * off).mean()

    def descend(stream, reads, writes):
        for gradient, parameter in zip(reads, writes):
            parameter.numpy()[:] -= 0.5 * gradient.numpy()

    program = ge.Program()
    program.forward(x, w1, b1, h, Z=z1, act="tanh")
    program.forward(h, w2, b2, y)
    program.step("loss", [y, target], [gy, loss], loss_and_its_gradient)
    program.backward(h, w2, None, gy, None, gA=gh, gB=gradients[2], gBias=gradients[3])
    program.backward(x, w1, None, gh, z1, gB=gradients[0], gBias=gradients[1], act="tanh")
    program.step("descend", gradients, [w1, b1, w2, b2], descend)
    executable = ge.capture(program)
    executable.launch()
    first = float(loss[0])
    for _ in range(600):
        executable.launch()
    assert first > 0.2
    assert float(loss[0]) < 0.08
    assert ((y > 0.5) == (target > 0.5)).mean() > 0.9
