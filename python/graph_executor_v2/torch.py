"""The library for torch: a differentiable layer on the direct path, and user steps in torch's ops."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

try:
    import torch
    from torch.autograd import forward_ad
    from torch.utils.dlpack import from_dlpack
except ImportError as error:
    raise ImportError(f"graph_executor_v2.torch needs PyTorch, which does not import: {error}") from error

from ._core import ActKind, GemmAttrs, Tensor, backward, forward
from ._mlp import y_serves_as_z

__all__ = ["linear_act", "step", "stream"]


def linear_act(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    act: ActKind | str | None,
    *,
    leaky_slope: float = 0.01,
) -> torch.Tensor:
    """act(x @ w + b), float32, differentiable once.

    x: [..., K]; w: [K, N], or the transpose of a [N, K] one (`linear.weight.t()`), without a copy;
    b: [N] or None. Returns a new tensor [..., N]. On CUDA it is enqueued on torch's current stream,
    also into a capture of torch.cuda.graph; on the CPU it is done on return.

    Only gradients that are asked for are computed, and only what they read is kept: Z where the
    activation's gradient cannot be told from the result. Copies nothing but an incoming gradient
    that is not contiguous. torch.func's transforms and forward-mode derivatives are refused, and
    torch.compile leaves its graph here. Raises GemmError, in whose messages x is A, w is B and b is
    bias: DtypeMismatch for other dtypes, StrideMismatch for views that cannot be read in place
    (`.contiguous()` them), ShapeMismatch, DeviceMismatch.
    """
    for name, value in (("x", x), ("w", w), ("b", b)):
        if not isinstance(value, torch.Tensor) and (value is not None or name != "b"):
            raise TypeError(f"{name} is of type {type(value).__name__}, expected a torch.Tensor")
    attrs = _attrs(act, float(leaky_slope))
    rows = x if x.dim() == 2 else x.reshape(x.shape[:-1].numel(), x.shape[-1] if x.dim() else 1)
    if (
        torch.is_grad_enabled()
        and (x.requires_grad or w.requires_grad or (b is not None and b.requires_grad))
    ) or forward_ad._current_level >= 0:  # which is refused there, where an operand has a tangent
        y = _apply(rows, w, b, attrs)
    else:
        y = _empty(rows, w)
        forward(rows, w, b, y, attrs, _current_stream(x))
    return y if x.dim() == 2 else y.reshape(*x.shape[:-1], y.shape[1])


class _LinearAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, attrs: GemmAttrs
    ) -> torch.Tensor:
        y = _empty(x, w)
        z = None if y_serves_as_z(attrs.act, attrs.leaky_slope) else torch.empty_like(y)
        forward(x, w, b, y, attrs, _current_stream(x), z)
        if attrs.act != ActKind.None_:
            z = y if z is None else z
        needs_x, needs_w, *_ = ctx.needs_input_grad
        # What is only described, not read, may be changed in place before the backward pass; x may be freed.
        ctx.save_for_backward(x if needs_w else None, w if needs_x else None, z)
        ctx.x_stored = (x.shape, x.stride())
        ctx.w_like = None if needs_x else w.detach()
        ctx.b_shape = None if b is None else b.shape
        ctx.attrs = attrs
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, w, z = ctx.saved_tensors
        needs_x, needs_w, needs_b, _ = ctx.needs_input_grad
        # empty_like keeps a transposed operand's layout, which its gradient must have.
        shape, stride = ctx.x_stored
        x = _uninitialised(shape, stride, gy.device) if x is None else x
        w = ctx.w_like if w is None else w
        gx = torch.empty_like(x) if needs_x else None
        gw = torch.empty_like(w) if needs_w else None
        gb = torch.empty(ctx.b_shape, dtype=torch.float32, device=gy.device) if needs_b else None
        backward(x, w, None, gy.contiguous(), z, gx, gw, None, gb, ctx.attrs, _current_stream(x))
        return gx, gw, gb, None


def stream(handle: int | None, device: Any = None) -> contextlib.AbstractContextManager[Any]:
    """A context in which torch enqueues on the CUDA stream with this handle, as a user step must.

    `device` is the stream's (None: the current one). 0 and None, which is what the host target
    gives a step, change nothing.
    """
    if not handle:
        return contextlib.nullcontext()
    return torch.cuda.stream(_external_stream(handle, device=device))


def step(
    fn: Callable[[list[torch.Tensor], list[torch.Tensor]], None],
) -> Callable[[int, list[Tensor], list[Tensor]], None]:
    """`fn(reads, writes)` over torch tensors as a function for Program.step.

    The tensors are views of the step's operands, good during the call. It runs under the step's
    stream and without autograd. On CUDA it is captured: it must write into `writes` (`out=`,
    in-place operations) rather than allocate, and must not synchronise (`.item()`, `.cpu()`).
    """

    @functools.wraps(fn)
    def run(handle: int, reads: list[Tensor], writes: list[Tensor]) -> None:
        read = [from_dlpack(tensor) for tensor in reads]
        written = [from_dlpack(tensor) for tensor in writes]
        device = next((tensor.device for tensor in read + written if tensor.is_cuda), None)
        with stream(handle, device), torch.no_grad():
            fn(read, written)

    return run


@functools.lru_cache(maxsize=256)
def _attrs(act: Any, leaky_slope: float) -> GemmAttrs:
    return GemmAttrs(act=act, leaky_slope=leaky_slope)


def _empty(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    columns = w.shape[-1] if w.dim() else 1
    return torch.empty((x.shape[0], columns), dtype=torch.float32, device=x.device)


def _uninitialised(shape: torch.Size, stride: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """A dense matrix, transposed if one of that stride is."""
    rows, columns = shape
    if stride[0] == 1 and stride[1] != 1:
        return torch.empty((columns, rows), dtype=torch.float32, device=device).t()
    return torch.empty((rows, columns), dtype=torch.float32, device=device)


def _current_stream(x: torch.Tensor) -> int | None:
    return _raw_stream(x.device.index) if x.is_cuda else None


def _stream_handle(device_index: int) -> int:
    return int(torch.cuda.current_stream(device_index).cuda_stream)


_apply: Callable[..., torch.Tensor] = _LinearAct.apply
_external_stream: Callable[..., torch.cuda.Stream] = torch.cuda.ExternalStream
# torch's own quick road, 0.1 us against 4.6; not part of its public interface.
_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _stream_handle)
