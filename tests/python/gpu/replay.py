"""What the GPU tests of programs share: small integers, whose products are exact, and slow steps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch

import graph_executor_v2 as ge

LONG = 100_000_000  # cycles: some 50 ms


def integers(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).float().cuda()


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In f64 on the host: exact, and on no stream."""
    return (a.cpu().double() @ b.cpu().double()).float()


def lost_device_memory(work: Callable[[], object], tries: int = 5) -> int:
    """Bytes of free device memory that are gone after `work`, the least of several tries: what it leaks is gone
    after each, what other programs on this GPU take meanwhile is not."""
    least = None
    for _ in range(tries):
        before = torch.cuda.mem_get_info()[0]
        work()
        lost = before - torch.cuda.mem_get_info()[0]
        least = lost if least is None else min(least, lost)
        if least <= 0:
            break
    return least or 0


def sleeping(cycles: int = LONG) -> Any:
    """A step that keeps its stream busy."""

    def fn(stream: int, reads: list[ge.Tensor], writes: list[ge.Tensor]) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            torch.cuda._sleep(cycles)

    return fn


def slow_layer(x: Any, w: Any, y: Any, cycles: int = LONG) -> ge.Executable:
    """y = x w, some time after the launch has begun."""
    program = ge.Program()
    program.step("sleep", [], [x], sleeping(cycles))
    program.forward(x, w, None, y)
    return ge.capture(program, tuning="off")


def layer(x: Any, w: Any, y: Any) -> ge.Executable:
    program = ge.Program()
    program.forward(x, w, None, y)
    return ge.capture(program, tuning="off")


def reclaim() -> None:
    """Lets go what was in flight when its executable went, now that the device is idle."""
    torch.cuda.synchronize()
    other = layer(integers(1, 1), integers(1, 1), integers(1, 1))
    other.launch()
    other.wait()
    del other
    gc.collect()
