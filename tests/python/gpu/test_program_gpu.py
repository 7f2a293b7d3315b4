"""Programs over torch and CuPy tensors, captured and replayed on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import oracle  # noqa: E402
from replay import integers, layer, product, slow_layer  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402


def same(given, expected) -> None:
    torch.cuda.synchronize()
    assert torch.equal(given.cpu(), expected.cpu())


@pytest.mark.parametrize("fuse_layers", [False, True])
@pytest.mark.parametrize("tuning", ["off", "measure"])
def test_a_network_with_temporaries_equals_the_oracle(tuning, fuse_layers):
    rng = np.random.default_rng(5)
    x, w1, b1, w2 = (rng.normal(0, 1, s).astype(np.float32) for s in ((16, 64), (64, 96), (96,), (96, 8)))
    on_gpu = [torch.from_numpy(v).cuda() for v in (x, w1, b1, w2)]
    y, z = torch.zeros(16, 8, device="cuda"), torch.zeros(16, 96, device="cuda")
    program = ge.Program()
    h = program.temporary((16, 96))
    program.forward(on_gpu[0], on_gpu[1], on_gpu[2], h, Z=z, act="relu")
    program.forward(h, on_gpu[3], None, y)
    executable = ge.capture(program, tuning=tuning, tuning_budget_s=1.0, fuse_layers=fuse_layers)
    assert executable.target == ge.Target.CUDA
    executable.launch()
    executable.wait()
    expected_z, hidden = oracle.forward(x, w1, b1, act_kind="relu")
    oracle.check("Z", z.cpu().numpy(), expected_z)
    _, expected = oracle.forward(hidden.value, w2)
    off = np.abs(y.cpu().numpy() - expected.value)
    assert (off <= expected.tolerance + hidden.tolerance @ np.abs(w2)).all()
    assert "forward Y[16,8]" in executable.explain()
    assert ("forward Y[16,8] in 2 layers" in executable.explain()) == fuse_layers
    if len(executable.nodes()) == 1:  # what is passed on stays on chip
        assert fuse_layers
    else:
        assert executable.workspace_bytes >= 16 * 96 * 4
    assert all(node.kind for node in executable.nodes())


def test_backward_and_accumulation_over_torch_tensors():
    a, b, gy = integers(8, 5), integers(5, 7, seed=1), integers(8, 7, seed=2)
    ga, gb, gbias = integers(8, 5, seed=3), integers(5, 7, seed=4), integers(7, seed=5)
    old = gb.clone()
    program = ge.Program()
    program.backward(a, b, None, gy, None, ga, gb, None, gbias, accumulate=["gB"])
    executable = ge.capture(program)
    executable.launch()
    same(ga, product(gy, b.t()))
    same(gb, old.cpu() + product(a.t(), gy))
    same(gbias, gy.sum(0))


def test_transposed_torch_parameters_are_used_in_place():
    x, w, y = integers(6, 5), integers(7, 5, seed=1), torch.zeros(6, 7, device="cuda")
    parameter = torch.nn.Parameter(w)
    executable = layer(x, parameter.t(), y)
    executable.launch()
    same(y, product(x, w.t()))
    with torch.no_grad():
        parameter.mul_(2)
    executable.launch()
    same(y, product(x, w.t()))  # `w` is the parameter's memory


def test_copies_bring_pinned_inputs_and_outputs():
    host_in, host_out = torch.zeros(4, 3).pin_memory(), torch.zeros(4, 5).pin_memory()
    x, w, y = torch.zeros(4, 3, device="cuda"), integers(3, 5), torch.zeros(4, 5, device="cuda")
    program = ge.Program()
    program.copy_in(host_in, x)
    program.forward(x, w, None, y)
    program.copy_out(y, host_out)
    executable = ge.capture(program)
    for seed in range(3):
        host_in.copy_(integers(4, 3, seed=seed))
        executable.launch()
        executable.wait()
        assert torch.equal(host_out, product(host_in, w))


def test_pageable_memory_is_refused_at_capture():
    program = ge.Program()
    program.copy_in(np.zeros((4, 3), np.float32), torch.zeros(4, 3, device="cuda"))
    with pytest.raises(ge.DeviceMismatch, match="host"):
        ge.capture(program)


def test_a_step_enqueues_torch_operations_into_memory_that_exists():
    x, w, y = integers(4, 3), integers(3, 5, seed=1), torch.zeros(4, 5, device="cuda")
    total = torch.zeros(1, device="cuda")
    calls = []

    def fn(stream, reads, writes):
        calls.append(stream)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            h, out, sum_ = (torch.from_dlpack(t) for t in (reads[0], *writes))
            torch.mul(h, 2, out=out)
            sum_.add_(1)

    program = ge.Program()
    h = program.temporary((4, 5))
    program.forward(x, w, None, h)
    program.step("double", [h, total], [y, total], fn)
    executable = ge.capture(program)
    captured = len(calls)
    assert captured >= 1 and all(stream > 2 for stream in calls)
    assert torch.equal(total.cpu(), torch.zeros(1))
    for _ in range(5):
        executable.launch()
    same(y, 2 * product(x, w))
    same(total, torch.full((1,), 5.0))
    assert len(calls) == captured
    executable.enqueue(torch.cuda.Stream())
    executable.wait()
    assert len(calls) == captured + 1
    same(total, torch.full((1,), 6.0))


def test_a_step_of_cupy_kernels():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(12, dtype=cupy.float32).reshape(4, 3), cupy.zeros((4, 3), cupy.float32)
    out = cupy.zeros((4, 3), cupy.float32)
    cupy.multiply(x, 3, out=out)  # compiles the kernel

    def fn(stream, reads, writes):
        with cupy.cuda.ExternalStream(stream):
            cupy.multiply(cupy.asarray(reads[0]), 3, out=cupy.asarray(writes[0]))

    program = ge.Program()
    program.step("triple", [x], [y], fn)
    program.forward(y, cupy.eye(3, dtype=cupy.float32), None, out)
    executable = ge.capture(program)
    for value in (1, 2):
        x[:] = value
        cupy.cuda.Device().synchronize()
        executable.launch()
        executable.wait()
        assert (out == 3 * value).all()


def test_an_exception_in_a_step_is_the_cause_of_captures_error():
    problem = ValueError("not today")

    def fn(stream, reads, writes):
        raise problem

    program = ge.Program()
    program.step("loss", [], [integers(2)], fn)
    with pytest.raises(ge.Invalid, match="step 'loss': raised ValueError: not today") as caught:
        ge.capture(program)
    assert caught.value.__cause__ is problem
    x, w, y = integers(4, 3), integers(3, 5), torch.zeros(4, 5, device="cuda")
    executable = layer(x, w, y)  # and nothing is left behind
    executable.launch()
    same(y, product(x, w))


def test_a_step_that_enqueues_nothing_is_refused():
    program = ge.Program()
    program.step("idle", [], [integers(2)], lambda stream, reads, writes: None)
    with pytest.raises(ge.Invalid, match="idle"):
        ge.capture(program)


def test_devices_and_targets_are_checked():
    x = integers(3, 3)
    program = ge.Program()
    program.forward(x, x, None, torch.zeros(3, 3, device="cuda"))
    with pytest.raises(ge.DeviceMismatch):
        program.forward(np.zeros((3, 3), np.float32), x, None, torch.zeros(3, 3, device="cuda"))
    with pytest.raises(ge.DeviceMismatch):
        ge.capture(program, target="host")
    host = np.zeros((3, 3), np.float32)
    lying = ge.Program()
    lying.forward(ge.make_tensor_2d(host.ctypes.data, (3, 3)), x, None, torch.zeros(3, 3, device="cuda"))
    with pytest.raises(ge.DeviceMismatch, match="A"):
        ge.capture(lying)


def test_rebind_moves_torch_tensors_for_launches_to_come():
    x, w, y = integers(4, 3), integers(3, 5, seed=1), torch.zeros(4, 5, device="cuda")
    executable = slow_layer(x, w, y, 5_000_000)
    fresh_x, fresh_y = integers(4, 3, seed=2), torch.zeros(4, 5, device="cuda")
    executable.launch()
    executable.rebind({x: fresh_x, y: fresh_y})
    executable.launch()
    same(y, product(x, w))
    same(fresh_y, product(fresh_x, w))
    with pytest.raises(ge.ShapeMismatch, match="the new .*, expected"):
        executable.rebind({fresh_x: integers(5, 3)})
    with pytest.raises(ge.DeviceMismatch, match="expected CUDA:0"):
        executable.rebind({fresh_x: torch.zeros(4, 3)})


def test_a_clone_runs_beside_the_original():
    x, w, y = integers(4, 3), integers(3, 5, seed=1), torch.zeros(4, 5, device="cuda")
    executable = slow_layer(x, w, y, 5_000_000)
    other_x, other_y = integers(4, 3, seed=2), torch.zeros(4, 5, device="cuda")
    clone = executable.clone({x: other_x, y: other_y})
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(3):
        executable.launch(one)
        clone.launch(two)
    same(y, product(x, w))
    same(other_y, product(other_x, w))
