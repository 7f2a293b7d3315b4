"""Tests of graph_executor_v2.torch that hold on the CPU and on a GPU: imported by both test files.

They take a fixture `device`.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch_layer import ACTIVATIONS, check, operands

import graph_executor_v2 as ge
from graph_executor_v2.torch import linear_act, step


@pytest.mark.parametrize("stored", ["in_out", "out_in"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_result_and_gradients_are_those_of_float64(device, act, with_bias, stored):
    check(device, act, with_bias=with_bias, stored=stored)


@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("needs", [s for n in range(4) for s in itertools.combinations("xwb", n)])
def test_only_gradients_that_are_needed_are_made(device, act, needs):
    check(device, act, needs=needs)


@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (1, 64, 10), (16, 64, 64), (3, 1, 5), (5, 3, 1), (0, 4, 3), (4, 3, 0)]
)
def test_shapes(device, m, k, n):
    check(device, "silu", m=m, k=k, n=n)


def test_a_step_along_the_gradient_changes_the_sum_as_it_says(device):
    """A finite difference of a smooth activation. The sum's own curvature and rounding leave 1 %."""
    x, w, b = operands(device, 8, 16, 4)
    w.requires_grad_()
    linear_act(x, w, b, "tanh").sum().backward()
    direction, h = torch.sign(w.grad), 1e-3
    with torch.no_grad():
        ends = [linear_act(x, w + s * h * direction, b, "tanh").double().sum() for s in (1, -1)]
    slope = (ends[0] - ends[1]).item() / (2 * h)
    assert slope == pytest.approx((w.grad * direction).sum().item(), rel=1e-2)


def test_leading_dimensions_are_a_batch(device):
    x, w, b = operands(device, 24, 7, 5)
    whole = linear_act(x, w, b, "elu")
    x3 = x.reshape(2, 3, 4, 7).requires_grad_()
    y = linear_act(x3, w, b, "elu")
    assert y.shape == (2, 3, 4, 5) and torch.equal(y.reshape(24, 5), whole)
    y.sum().backward()
    assert x3.grad.shape == x3.shape
    assert linear_act(x[0], w, b, "elu").shape == (5,)
    assert linear_act(torch.empty(0, 2, 7, device=device), w, b, "elu").shape == (0, 2, 5)


def test_no_graph_is_kept_under_no_grad(device):
    x, w, b = operands(device, 4, 5, 6)
    w.requires_grad_()
    with torch.no_grad():
        y = linear_act(x, w, b, "gelu")
    assert not y.requires_grad and y.grad_fn is None
    assert torch.equal(y, linear_act(x, w, b, "gelu"))


@pytest.mark.parametrize(
    "act,saves_z",
    [("none", False), ("relu", False), ("leaky_relu", False), ("gelu", True), ("sigmoid", True)],
)
def test_z_is_saved_only_where_it_is_needed(device, act, saves_z):
    x, w, b = operands(device, 4, 5, 6)
    saved = []

    def pack(tensor):
        saved.append(tensor.data_ptr())
        return tensor

    w.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = linear_act(x, w, b, act)
    known = {t.data_ptr() for t in (x, w, b, y)}
    assert any(p not in known for p in saved) == saves_z


def test_a_negative_slope_has_its_gradient(device):
    """There the sign of y does not tell that of z."""
    x, w, b = operands(device, 6, 5, 4)
    x.requires_grad_()
    linear_act(x, w, b, "leaky_relu", leaky_slope=-0.5).sum().backward()
    z = x.detach().double() @ w.double() + b.double()
    expected = torch.where(z > 0, 1.0, -0.5).double() @ w.double().T
    torch.testing.assert_close(x.grad.double(), expected, rtol=1e-5, atol=1e-5)


def test_a_second_backward_is_refused_in_torchs_words(device):
    x, w, b = operands(device, 4, 5, 6)
    w.requires_grad_()
    (gradient,) = torch.autograd.grad(linear_act(x, w, b, "tanh").square().sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_gradients_that_torch_expands_or_turns_are_taken(device):
    x, w, b = operands(device, 4, 5, 6)
    x.requires_grad_()
    linear_act(x, w, b, "none").sum().backward()  # gy is a view of one number
    summed, x.grad = x.grad, None
    (linear_act(x, w, b, "none").t() * torch.ones(6, 4, device=device)).sum().backward()  # gy is transposed
    assert torch.equal(x.grad, summed)


def test_parameters_of_a_linear_layer_serve_as_they_are(device):
    torch.manual_seed(0)
    layer = torch.nn.Linear(12, 7).to(device)
    x = torch.randn(5, 12, device=device)
    linear_act(x, layer.weight.t(), layer.bias, "relu").sum().backward()
    given = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    torch.relu(layer(x)).sum().backward()
    for mine, torchs in zip(given, (p.grad for p in layer.parameters())):
        torch.testing.assert_close(mine, torchs, rtol=1e-5, atol=1e-5)


def test_transposed_inputs_are_read_in_place(device):
    x, w, b = operands(device, 8, 6, 5)
    turned = x.t().contiguous().t().requires_grad_()
    y = linear_act(turned, w, b, "silu")
    torch.testing.assert_close(y, linear_act(x, w, b, "silu"), rtol=1e-5, atol=1e-5)
    y.sum().backward()
    assert turned.grad.shape == (8, 6)
    x.requires_grad_()
    linear_act(x, w, b, "silu").sum().backward()
    torch.testing.assert_close(turned.grad, x.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "spoil,error,operand",
    [
        (lambda x, w, b: (x.double(), w, b), ge.DtypeMismatch, "A is "),
        (lambda x, w, b: (x, w.half(), b), ge.DtypeMismatch, "B is "),
        (lambda x, w, b: (x, w, b.double()), ge.DtypeMismatch, "bias is "),
        (lambda x, w, b: (x[:, :-1], w, b), ge.ShapeMismatch, "B is [6,4], expected [5,N]"),
        (lambda x, w, b: (x, w, b[:-1]), ge.ShapeMismatch, "bias is [3]"),
        (lambda x, w, b: (torch.cat([x, x], 1)[:, ::2], w, b), ge.StrideMismatch, "A "),
    ],
)
def test_errors_name_the_operand(device, spoil, error, operand):
    for wanted in (False, True):
        x, w, b = spoil(*operands(device, 8, 6, 4))
        with pytest.raises(error) as raised:
            linear_act(x.requires_grad_(wanted), w, b, "relu")
        assert str(raised.value).startswith(f"{error.__name__}: ") and operand in str(raised.value)


def test_forward_mode_is_refused_and_never_ignored(device):
    x, w, b = operands(device, 4, 5, 6)
    with torch.autograd.forward_ad.dual_level():
        linear_act(x, w, b, "tanh")
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(NotImplementedError, match="jvp"):
            linear_act(dual, w, b, "tanh")


def test_what_is_no_torch_tensor_is_a_type_error_that_names_it(device):
    x, w, b = operands(device, 4, 5, 6)
    for name, arguments in (("x", (1.0, w, b)), ("w", (x, None, b)), ("b", (x, w, [0.0] * 6))):
        with pytest.raises(TypeError, match=f"^{name} is of type .*, expected a torch.Tensor$"):
            linear_act(*arguments, "relu")


def test_a_slope_held_in_a_tensor_is_read_at_each_call(device):
    x, w, b = operands(device, 4, 5, 6)
    slope = torch.tensor(0.5)
    before = linear_act(x, w, b, "leaky_relu", leaky_slope=slope)
    slope.fill_(0.25)
    after = linear_act(x, w, b, "leaky_relu", leaky_slope=slope)
    assert torch.equal(after[before < 0], before[before < 0] / 2)


def test_a_step_sees_torch_tensors_over_the_operands(device):
    x, y = torch.arange(6.0, device=device).reshape(2, 3), torch.zeros(2, 3, device=device)
    seen = []

    def double(reads, writes):
        seen.append((reads[0].data_ptr(), writes[0].data_ptr(), torch.is_grad_enabled()))
        torch.add(reads[0], reads[0], out=writes[0])

    program = ge.Program()
    program.step("double", [x], [y], step(double))
    executable = ge.capture(program)
    executable.launch()
    executable.wait()
    assert torch.equal(y, 2 * x)
    assert seen[-1] == (x.data_ptr(), y.data_ptr(), False)


def test_mlp_over_torch_tensors_makes_torch_buffers(device):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(i, o).to(device) for i, o in ((6, 9), (9, 4))]
    with torch.no_grad():
        net = ge.mlp(
            [l.weight.t() for l in layers],
            [l.bias for l in layers],
            "tanh",
            5,
            training=True,
            input_gradient=True,
        )
        net.x.copy_(torch.randn(5, 6))
        net.gy.copy_(torch.randn(5, 4))
    executable = net.capture()
    executable.launch()
    executable.wait()
    x = net.x.clone().requires_grad_()
    y = layers[1](torch.tanh(layers[0](x)))
    y.backward(net.gy)
    near = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(net.y, y.detach(), **near)
    torch.testing.assert_close(net.gx, x.grad, **near)
    for i, layer in enumerate(layers):
        assert net.gweights[i].device.type == device and net.gweights[i].stride() == layer.weight.t().stride()
        torch.testing.assert_close(net.gweights[i], layer.weight.grad.t(), **near)
        torch.testing.assert_close(net.gbiases[i], layer.bias.grad, **near)
