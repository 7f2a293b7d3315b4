"""What linear_act must give, by torch's own autograd in float64, and how far float32 may be off.

An f32 sum of L terms: (2 sqrt(L) + 8) * 2^-24 * sum|terms|, as everywhere in these tests. An error
of z goes on through the activation by |act'| <= 1.13 and through its derivative by |act''| <= 1
(GELUTanh's 0.8 is the largest but ELU's 1). An f32 evaluation itself: 12 units of 2^-24 of |y| and
2 for the rounded argument of erfc or the sigmoid (6 * max |z v| sigmoid'(v) < 2); of the
derivative 24 units of its terms (< 1.35 together) and 5 for arguments: 40 in all.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from graph_executor_v2.torch import linear_act

EPS = 2.0**-24
SLOPE = 0.07
ACTIVATIONS = {
    "none": lambda z: z,
    "relu": F.relu,
    "leaky_relu": lambda z: F.leaky_relu(z, SLOPE),
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
KINKED = ("none", "relu", "leaky_relu")


def sum_error(length, terms):
    return (2 * math.sqrt(length) + 8) * EPS * terms


def within(given, expected, bound, what):
    assert given.dtype == torch.float32, what
    assert given.shape == expected.shape, what
    off = (given.detach().double().cpu() - expected).abs()
    worst = (off / bound.clamp_min(1e-300)).max().item() if off.numel() else 0.0
    assert bool((off <= bound).all()), f"{what} is off by {worst:.2f} times its bound"


def operands(device, m, k, n, *, with_bias=True, stored="in_out", seed=0):
    """x, w, b in float32 on `device`; "out_in" gives w as the transposed view of [N, K]."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, k, generator=generator)
    w = torch.randn(k, n, generator=generator)
    b = torch.randn(n, generator=generator) if with_bias else None
    x, w, b = (None if t is None else t.to(device) for t in (x, w, b))
    return x, (w.t().contiguous().t() if stored == "out_in" else w), b


def check(device, act, *, m=9, k=33, n=17, with_bias=True, stored="in_out", needs=("x", "w", "b")):
    """Runs linear_act and its backward pass, and compares with float64."""
    x, w, b = operands(device, m, k, n, with_bias=with_bias, stored=stored)
    names = {"x": x, "w": w, "b": b}
    for name in needs:
        if names[name] is not None:
            names[name].requires_grad_()
    gy = torch.randn(m, n, generator=torch.Generator().manual_seed(9))

    x64, w64, b64 = (None if t is None else t.detach().double().cpu().requires_grad_() for t in (x, w, b))
    z = x64 @ w64 + (0 if b64 is None else b64)
    y64 = ACTIVATIONS[act](z)
    y64.backward(gy.double())
    with torch.no_grad():
        ax, aw = x64.abs(), w64.abs()
        z_error = sum_error(k, ax @ aw + (0 if b64 is None else b64.abs()))
        if act in ("relu", "leaky_relu"):
            assert bool((z.abs() > z_error).all()), "the data has a sum at the kink: its side is open"
    y = linear_act(x, w, b, act, leaky_slope=SLOPE)
    with torch.no_grad():
        own = torch.zeros_like(z) if act == "none" else EPS * (12 * y64.abs() + 2)
        within(y, y64.detach(), 1.13 * z_error + own, "y")
    if not y.requires_grad:
        assert not any(name in needs and names[name] is not None for name in names)
        return

    y.backward(gy.to(device))
    with torch.no_grad():
        zz = z.detach().requires_grad_()
        with torch.enable_grad():
            (gz,) = torch.autograd.grad(ACTIVATIONS[act](zz), zz, gy.double())
        gz_error = EPS * gz.abs()
        if act not in KINKED:
            gz_error = gz_error + gy.double().abs() * (z_error + 40 * EPS)
        expected = {
            "x": (x64.grad, gz_error @ aw.T + sum_error(n, gz.abs() @ aw.T)),
            "w": (w64.grad, ax.T @ gz_error + sum_error(m, ax.T @ gz.abs())),
            "b": (None if b64 is None else b64.grad, gz_error.sum(0) + sum_error(m, gz.abs().sum(0))),
        }
    for name, (gradient, bound) in expected.items():
        if name in needs and names[name] is not None:
            within(names[name].grad, gradient, bound, f"the gradient of {name}")
        elif names[name] is not None:
            assert names[name].grad is None, name
