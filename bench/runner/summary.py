"""What the rows say together: which miss the goal, and how much quicker or slower ours is on the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import reference
from .contestants import PEERS
from .process import FAILED
from .results import FIGURE_OF

GOAL = 1.05  # ours may take this many times what a peer that does the same takes


@dataclass(frozen=True)
class Miss:
    """A row where ours takes more than GOAL times as long as the peer: `times`."""

    row: str
    peer: str
    times: float


def name_of(row: Mapping[str, Any]) -> str:
    return f"{row['workload']} {row['batch']} {row['mode']}"


def _judges(row: Mapping[str, Any]) -> list[str]:
    return ["cublaslt_same"] + (["cublaslt_fast"] if row["mode"] == "forward" else [])


def misses(rows: Sequence[Mapping[str, Any]]) -> list[Miss]:
    """Rows that miss the goal: against cublaslt_same in every mode, against cublaslt_fast where no Z is asked
    for. Both the ratio of the interleaved rounds and that of the figures have to reach it.
    """
    found = []
    for row in rows:
        for peer in _judges(row):
            figure = row[FIGURE_OF[peer]]
            if figure is None or row["ours_us"] is None:
                continue
            times = max(row["ours_us"] / figure, 1 / row["ratios"].get(peer, math.inf))
            if times > GOAL:
                found.append(Miss(name_of(row), peer, times))
    return found


def compared(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Of how many results `misses` could tell, and how many there are for it to tell of."""
    peers = [(row, peer) for row in rows for peer in _judges(row)]
    there = [1 for row, peer in peers if row[FIGURE_OF[peer]] is not None and row["ours_us"] is not None]
    return len(there), len(peers)


def failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for every contestant that took part and was wrong, died or failed, and for every row without
    ours.
    """
    lost = [
        f"{name_of(row)}: {name}: {reason}"
        for row in rows
        for name, reason in row["absent"].items()
        if name == "ours" or reason.startswith(FAILED)
    ]
    slopes = [
        f"{name_of(row)}: {name}: no slope: {reason}"
        for row in rows
        for name, reason in row["slope_absent"].items()
        if reason.startswith(FAILED)
    ]
    return lost + slopes


def geometric_means(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, int]]]:
    """By mode and peer: the geometric mean of how many times ours the peer takes, and over how many rows."""
    means: dict[str, dict[str, tuple[float, int]]] = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        for peer in PEERS:
            logs = [
                math.log(row["ratios"][peer]) for row in rows if row["mode"] == mode and peer in row["ratios"]
            ]
            if logs:
                means.setdefault(mode, {})[peer] = (math.exp(sum(logs) / len(logs)), len(logs))
    return means


def lines(rows: Sequence[Mapping[str, Any]], gpu: str) -> list[str]:
    """The summary as plain text, one line a fact. OSError where bench/reference.json is not there."""
    text = []
    for mode, peers in geometric_means(rows).items():
        text.append(
            f"{mode}: a peer takes, times ours (geometric mean over rows): "
            + ", ".join(f"{peer} {value:.2f} ({count})" for peer, (value, count) in peers.items())
        )
    missed = misses(rows)
    there, wanted = compared(rows)
    text.append(
        f"{len(missed)} results above {GOAL} times cublaslt_same, or forward cublaslt_fast; "
        f"{there} of {wanted} were compared"
    )
    text.extend(f"  {miss.row}: {miss.times:.3f} times {miss.peer}" for miss in missed)
    text.extend(reference.lines(rows, gpu, reference.load()))
    failed = failures(rows)
    text.append(f"{len(failed)} results failed")
    text.extend(f"  {line}" for line in failed)
    return text
