#!/usr/bin/env python3
"""JAX as a contestant: one jitted function a step. JAX gives no device events, so what it measures is wall
time over many dispatches that are waited for once. Speaks the bench's protocol on stdin and stdout.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from peer_protocol import Absent, serve, timed_batches

os.environ.setdefault(
    "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
)  # the GPU is shared with the other contestants


class JaxPeer:
    """One row at a time."""

    def __init__(self) -> None:
        self._step: Any = None
        self._rate: Any = None

    def describe(self) -> dict[str, Any]:
        try:
            import jax
        except ImportError as error:
            raise Absent(str(error)) from error
        try:
            device = jax.devices("gpu")[0]
        except RuntimeError as error:
            raise Absent(
                f"jax {jax.__version__} finds no usable GPU: {str(error).splitlines()[0]}"
            ) from error
        return {"contestants": ["jax"], "gpu": device.device_kind, "versions": {"jax": jax.__version__}}

    def prepare(self, contestant: str, row: Mapping[str, Any]) -> dict[str, Any]:
        import jax.numpy as jnp
        from data import LEARNING_RATE, network_of
        from jax_network import JaxNetwork, checked

        network = network_of(row)
        step = JaxNetwork(network, row["mode"])
        error = checked(network, step)
        self._rate = jnp.float32(LEARNING_RATE)
        self._step = step
        return {"error_norm": error}

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        if self._step is None:
            raise ValueError("jax was not prepared")
        if what != "device":
            raise Absent(f"{what} is not measured of jax")
        return timed_batches(self._dispatches, seconds)

    def warm(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._step is not None and time.monotonic() < end:
            self._dispatches(20)

    def release(self) -> None:
        self._step = None
        jax = sys.modules.get("jax")
        if jax is not None:
            jax.clear_caches()

    def lost(self) -> str | None:
        return None  # JAX has no call that tells

    def _dispatches(self, count: int) -> float:
        """Wall time of `count` dispatches, waited for once, in microseconds."""
        import jax

        outputs = None
        begin = time.perf_counter()
        for _ in range(count):
            outputs = self._step.step(self._rate)
        jax.block_until_ready(outputs)
        return (time.perf_counter() - begin) * 1e6


if __name__ == "__main__":
    sys.exit(serve(JaxPeer()))
