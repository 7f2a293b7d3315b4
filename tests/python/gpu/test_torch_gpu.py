"""graph_executor_v2.torch on a GPU: the cases of the CPU's test, and what only a GPU has, its streams."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch_layer_cases import *  # noqa: E402,F401,F403
from torch_layer_kept import *  # noqa: E402,F401,F403
from torch_layer import operands  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402
from graph_executor_v2.torch import linear_act, step, stream  # noqa: E402


@pytest.fixture
def device() -> str:
    return "cuda"


def busy():
    """Keeps the current stream busy for some milliseconds: what does not wait for it comes too early."""
    torch.cuda._sleep(10_000_000)


@pytest.mark.parametrize("on", ["default", "own"])
def test_the_layer_runs_on_torchs_current_stream_in_both_directions(on):
    x, w, b = operands("cuda", 64, 64, 64)
    expected = linear_act(x, w, b, "relu")
    leaf = w.clone().requires_grad_()
    linear_act(x, leaf, b, "relu").sum().backward()
    torch.cuda.synchronize()
    chosen = torch.cuda.Stream() if on == "own" else torch.cuda.default_stream()
    for _ in range(10):
        late, late_leaf = torch.full_like(x, float("nan")), w.clone().requires_grad_()
        torch.cuda.synchronize()
        with torch.cuda.stream(chosen):
            busy()
            late.copy_(x)
            y = linear_act(late, late_leaf, b, "relu")
            y.sum().backward()
        chosen.synchronize()
        assert torch.equal(y, expected)
        assert torch.equal(late_leaf.grad, leaf.grad)


def test_the_layer_goes_into_a_capture_of_torchs():
    x, w, b = operands("cuda", 16, 64, 64)
    w.requires_grad_()

    def work():
        w.grad = None
        y = linear_act(x, w, b, "gelu")
        y.sum().backward()
        return y

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = work()
    gradient = w.grad
    for seed in range(3):
        x.copy_(operands("cuda", 16, 64, 64, seed=seed)[0])
        graph.replay()
        torch.cuda.synchronize()
        again = w.detach().clone().requires_grad_()
        expected = linear_act(x, again, b, "gelu")
        expected.sum().backward()
        torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradient, again.grad, rtol=1e-5, atol=1e-5)


def test_operands_on_two_devices_are_a_device_mismatch():
    x, w, b = operands("cuda", 8, 6, 4)
    with pytest.raises(ge.DeviceMismatch, match="^DeviceMismatch: "):
        linear_act(x, w.cpu(), b, "relu")
    with pytest.raises(ge.DeviceMismatch, match="^DeviceMismatch: "):
        linear_act(x.cpu(), w, b, "relu")


def test_a_step_is_captured_and_replayed():
    x, y, runs = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda"), []

    def add(reads, writes):
        runs.append(torch.cuda.current_stream().cuda_stream)
        writes[0].add_(reads[0])

    program = ge.Program()
    program.step("add", [x, y], [y], step(add))
    executable = ge.capture(program)
    y.zero_()
    torch.cuda.synchronize()
    recorded = len(runs)
    for _ in range(5):
        executable.launch()
    executable.wait()
    assert len(runs) == recorded  # it ran while it was captured, not at the launches
    assert all(handle not in (0, torch.cuda.default_stream().cuda_stream) for handle in runs)
    assert torch.equal(y, torch.full_like(y, 5))


def test_stream_makes_a_handle_torchs_current_stream():
    chosen = torch.cuda.Stream()
    before = torch.cuda.current_stream()
    with stream(chosen.cuda_stream):
        assert torch.cuda.current_stream().cuda_stream == chosen.cuda_stream
    assert torch.cuda.current_stream() == before
    with stream(0):
        assert torch.cuda.current_stream() == before


def test_an_error_in_a_step_is_the_cause_of_captures():
    def fail(reads, writes):
        raise ValueError("no such luck")

    y = torch.zeros(4, device="cuda")
    program = ge.Program()
    program.step("fails", [], [y], step(fail))
    with pytest.raises(ge.GemmError, match="fails") as raised:
        ge.capture(program)
    causes, error = [], raised.value
    while error is not None:
        causes.append(type(error))
        error = error.__cause__ or error.__context__
    assert ValueError in causes
