"""A row small enough for any machine."""

from __future__ import annotations

from typing import Any

MODES = ("forward", "forward_backward", "train_step")


def row(activation: str = "Tanh", batch: int = 4, mode: str = "forward") -> dict[str, Any]:
    return {
        "workload": "small",
        "layers": [5, 7, 6, 3],
        "activation": activation,
        "batch": batch,
        "mode": mode,
    }
