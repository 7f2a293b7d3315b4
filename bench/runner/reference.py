"""Figures of cuBLASLt that an independent program measured, bench/reference.json: a run whose cublaslt_fast
does not come near them has a weak peer, or a slow machine.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from .results import FIGURE_OF

FILE = pathlib.Path(__file__).resolve().parents[1] / "reference.json"
LIMIT = 1.10  # cublaslt_fast may take this many times what the independent program takes


def load() -> dict[str, Any]:
    """The file's content: `gpu`, versions, and `rows` with microseconds by mode. OSError, ValueError."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def quotients(
    rows: Sequence[Mapping[str, Any]], gpu: str, reference: Mapping[str, Any]
) -> list[tuple[str, float]]:
    """By row, how many times the reference cublaslt_fast takes, for rows that both have; empty for another
    GPU.
    """
    if gpu != reference["gpu"]:
        return []
    known = {(row["workload"], row["batch"]): row for row in reference["rows"]}
    found = []
    for row in rows:
        beside = known.get((row["workload"], row["batch"]), {}).get(row["mode"])
        figure = row[FIGURE_OF["cublaslt_fast"]]
        if beside and figure is not None:
            found.append((f"{row['workload']} {row['batch']} {row['mode']}", figure / beside))
    return found


def lines(rows: Sequence[Mapping[str, Any]], gpu: str, reference: Mapping[str, Any]) -> list[str]:
    """The comparison as plain text; empty where there is nothing to compare."""
    found = quotients(rows, gpu, reference)
    if not found:
        return []
    above = [quotient for _, quotient in found if quotient > LIMIT]
    return [
        f"cublaslt_fast takes, times bench/reference.json: {len(above)} of {len(found)} above {LIMIT:.2f}",
        *(f"  {name}: {value:.3f}{' ABOVE' if value > LIMIT else ''}" for name, value in found),
    ]
