"""What linear_act keeps for its backward pass, on the CPU and on a GPU: imported by both test files."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch_layer import operands

from graph_executor_v2.torch import linear_act


def expected_gradient(x, w, b, name):
    leaf = {"x": x, "w": w, "b": b}[name].detach().clone().requires_grad_()
    x, w, b = (leaf if key == name else value for key, value in (("x", x), ("w", w), ("b", b)))
    torch.tanh(x @ w + b).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("needed,changed", [("x", "xb"), ("w", "wb"), ("b", "xwb")])
def test_what_the_gradient_does_not_read_may_change_in_place(device, needed, changed, turned):
    """Of a product's factors the gradient of one reads the other."""
    x, w, b = operands(device, 8, 6, 5, stored="out_in" if turned else "in_out")
    if turned:
        x = x.t().contiguous().t()
    expected = expected_gradient(x, w, b, needed)
    named = {"x": x, "w": w, "b": b}
    named[needed].requires_grad_()
    y = linear_act(x, w, b, "tanh")
    with torch.no_grad():
        for name in changed:
            named[name].add_(1)
    y.sum().backward()
    torch.testing.assert_close(named[needed].grad, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("needed,changed", [("x", "w"), ("w", "x")])
def test_what_the_gradient_reads_may_not_change_in_place(device, needed, changed):
    x, w, b = operands(device, 8, 6, 5)
    named = {"x": x, "w": w}
    named[needed].requires_grad_()
    y = linear_act(x, w, b, "tanh")
    with torch.no_grad():
        named[changed].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_nothing_is_kept_of_an_input_when_weights_are_frozen(device):
    x, w, b = operands(device, 8, 6, 5)
    leaf = x.requires_grad_()
    middle = leaf * 2
    storage = weakref.ref(middle.untyped_storage())
    y = linear_act(middle, w, b, "tanh")
    del middle
    gc.collect()
    assert storage() is None
    y.sum().backward()
    assert leaf.grad.shape == x.shape
