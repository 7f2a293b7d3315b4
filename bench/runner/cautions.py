"""Rows whose figures are to be taken with care: the clock fell meanwhile, or the quick peer was the slower
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .results import FIGURE_OF
from .summary import name_of

CLOCK = 0.98  # of the clock before a row, what has to be left after it
BEHIND = 1.03  # cublaslt_fast may take this many times what cublaslt_same takes


def slowed(samples: Sequence[Mapping[str, Any]]) -> list[str]:
    """By the rows of <gpu>-samples.json, those to measure again; a clock that is not known tells nothing."""
    found = []
    for row in samples:
        before, after = row["sm_mhz"]["before"], row["sm_mhz"]["after"]
        if before is not None and after is not None and after < CLOCK * before:
            found.append(f"{name_of(row)}: {before} MHz before, {after} after")
    return found


def behind(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """By the rows of <gpu>.json, where cublaslt_fast takes more than BEHIND times cublaslt_same."""
    found = []
    for row in rows:
        fast, same = (row[FIGURE_OF[name]] for name in ("cublaslt_fast", "cublaslt_same"))
        if fast is not None and same is not None and fast > BEHIND * same:
            found.append(f"{name_of(row)}: {fast / same:.3f}")
    return found


def lines(rows: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]]) -> list[str]:
    """All of it as plain text, one line a fact."""
    late, again = behind(rows), slowed(samples)
    return [
        f"cublaslt_fast takes more than {BEHIND:.2f} times cublaslt_same in {len(late)} rows",
        *(f"  {line}" for line in late),
        f"{len(again)} rows to measure again: their SM clock fell by more than {100 * (1 - CLOCK):.0f} %",
        *(f"  {line}" for line in again),
    ]
