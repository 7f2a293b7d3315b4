"""What no program can beat on a GPU: the cost of one launch, of the arithmetic, and of the memory traffic."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from .suite import Row


@dataclass(frozen=True)
class Limits:
    """Rates of one kind of GPU. `launch_us`: a graph of one empty node, replayed back to back."""

    launch_us: float
    flop_per_s: float  # f32 with fused multiply-add, datasheet
    hbm_bytes_per_s: float  # datasheet
    l2_bytes_per_s: float  # the best that was read from L2 by all multiprocessors


LIMITS = {
    "NVIDIA H200": Limits(launch_us=1.4, flop_per_s=67e12, hbm_bytes_per_s=4.8e12, l2_bytes_per_s=8e12),
}


@dataclass(frozen=True)
class Floors:
    """Microseconds for one row; `us` is the largest."""

    launch_us: float
    flop_us: float
    bytes_us: float

    @property
    def us(self) -> float:
        return max(self.launch_us, self.flop_us, self.bytes_us)


def flop(row: Row) -> int:
    """Floating-point operations of the matrix products. Backward: a weight gradient for every layer, a data
    gradient for every layer but the first."""
    products = [2 * row.batch * k * n for k, n in zip(row.layers, row.layers[1:])]
    if row.mode == "forward":
        return sum(products)
    return 2 * sum(products) + sum(products[1:])


def weight_bytes(row: Row) -> int:
    """Of all weights and biases."""
    return 4 * sum(k * n + n for k, n in zip(row.layers, row.layers[1:]))


def traffic_bytes(row: Row) -> int:
    """Every operand read once, every result written once: the Y of each layer, and with a backward pass the
    gradients of all weights and biases, or in a training step their new values: nobody has to store gradients
    that he applies at once."""
    weights = weight_bytes(row)
    total = weights + 4 * row.batch * sum(row.layers)  # reads X, writes every Y
    if row.mode != "forward":
        total += (
            4 * row.batch * row.layers[-1] + weights
        )  # reads gY or the target, writes gradients or weights
    return total


def floors_of(row: Row, gpu: str, l2_bytes: int) -> Floors | None:
    """None for a GPU whose limits are not in LIMITS."""
    limits = LIMITS.get(gpu)
    if limits is None:
        return None
    rate = limits.l2_bytes_per_s if weight_bytes(row) <= l2_bytes else limits.hbm_bytes_per_s
    return Floors(limits.launch_us, flop(row) / limits.flop_per_s * 1e6, traffic_bytes(row) / rate * 1e6)


def limits_of(gpu: str) -> dict[str, float] | None:
    """The limits as results hold them; None where they are not known."""
    limits = LIMITS.get(gpu)
    return None if limits is None else asdict(limits)
