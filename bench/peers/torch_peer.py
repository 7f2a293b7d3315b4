#!/usr/bin/env python3
"""PyTorch as a contestant: torch_eager and torch_graph, or with --compile torch_compile alone, which may hang
and so has a process of its own. Speaks the bench's protocol on stdin and stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from peer_protocol import Absent, serve, timed_batches

MANY = 32  # copies of the step in the long graph


class TorchPeer:
    """One row at a time; everything on the current stream."""

    def __init__(self, compiles: bool) -> None:
        self._compiles = compiles
        self._row: Mapping[str, Any] | None = None
        self._network: Any = None
        self._launch: dict[str, Callable[[], None]] = {}
        self._step: Callable[[], None] | None = None  # what the long graph holds copies of
        self._many: Callable[[], None] | None = None  # made when its slope is first asked for

    def describe(self) -> dict[str, Any]:
        try:
            import torch
        except ImportError as error:
            raise Absent(str(error)) from error
        if not torch.cuda.is_available():
            raise Absent(f"torch {torch.__version__} finds no usable GPU")
        return {
            "contestants": ["torch_compile"] if self._compiles else ["torch_graph", "torch_eager"],
            "gpu": torch.cuda.get_device_name(),
            "cuda": torch.version.cuda,
            "versions": {"torch": torch.__version__},
        }

    def prepare(self, contestant: str, row: Mapping[str, Any]) -> dict[str, Any]:
        from data import network_of
        from torch_network import TorchNetwork

        if self._row != row:
            self._network = network_of(row)
            self._row = row
        step = TorchNetwork(self._network, row["mode"], "cuda")
        if contestant == "torch_compile":
            if row["mode"] != "forward":
                raise Absent("forward only")
            self._compile(step)
        launch = step.step
        if contestant != "torch_eager":
            launch = self._captured(step.step, 1)
        if contestant == "torch_graph":
            self._step = step.step
        error = self._check(step, launch, row["mode"])
        self._launch[contestant] = launch
        return {"error_norm": error}

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        if contestant not in self._launch:
            raise ValueError(
                f"{contestant} was not prepared; prepared: {', '.join(self._launch) or 'nobody'}"
            )
        if what == "device":
            return timed_batches(lambda count: self._events(self._launch[contestant], count), seconds)
        if what == "slope" and contestant == "torch_graph":
            return self._slope(seconds)
        raise Absent(f"{what} is not measured of {contestant}")

    def warm(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._launch and time.monotonic() < end:
            self._events(next(iter(self._launch.values())), 20)

    def release(self) -> None:
        self._row = self._network = self._step = self._many = None
        self._launch = {}
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def lost(self) -> str | None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return None

    def _compile(self, step: Any) -> None:
        """Replaces the network's forward pass by a compiled one. It is captured afterwards, as everything
        else is.
        """
        import torch

        torch._dynamo.reset()
        step.forward = torch.compile(
            step.forward, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False
        )

    def _captured(self, step: Callable[[], None], copies: int) -> Callable[[], None]:
        import torch

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(copies):
                step()
        return graph.replay

    def _check(self, step: Any, launch: Callable[[], None], mode: str) -> float:
        """Runs one step from the first weights. Raises Wrong."""
        import torch
        from checks import check

        step.reset()
        launch()
        torch.cuda.synchronize()
        y, gradients, parameters = step.results()
        error = check(self._network, mode, y, gradients or None, parameters)
        step.reset()
        return error

    def _events(self, launch: Callable[[], None], count: int) -> float:
        """Device time of `count` launches back to back, in microseconds."""
        import torch

        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            launch()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3

    def _slope(self, seconds: float) -> list[float]:
        """What one copy more costs in a graph of many."""
        if self._many is None:
            assert self._step is not None
            self._many = self._captured(self._step, MANY)
        many, one = self._many, self._launch["torch_graph"]
        long = timed_batches(lambda count: self._events(many, count), seconds / 2)
        short = timed_batches(lambda count: self._events(one, count), seconds / 2)
        return [(a - b) / (MANY - 1) for a, b in zip(long, short)]


if __name__ == "__main__":
    sys.exit(serve(TorchPeer("--compile" in sys.argv[1:])))
