"""Rows that a run says are to be taken with care."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runner import cautions
from runner.contestants import Command


def clocks(before: int | None, after: int | None, batch: int = 1) -> dict[str, Any]:
    return {
        "workload": "small",
        "batch": batch,
        "mode": "forward",
        "sm_mhz": {"before": before, "after": after},
    }


def figures(fast: float | None, same: float | None, batch: int = 1) -> dict[str, Any]:
    return {
        "workload": "small",
        "batch": batch,
        "mode": "forward",
        "cublaslt_graph_us": fast,
        "cublaslt_same_us": same,
    }


def test_rows_whose_clock_fell_by_more_than_two_percent_are_named() -> None:
    rows = [clocks(2000, 1961, 1), clocks(2000, 1959, 2), clocks(1500, 1980, 4), clocks(1980, 1500, 8)]
    assert cautions.slowed(rows) == [
        "small 2 forward: 2000 MHz before, 1959 after",
        "small 8 forward: 1980 MHz before, 1500 after",
    ]


@pytest.mark.parametrize("before, after", [(None, 1500), (1980, None), (None, None)])
def test_a_clock_that_is_not_known_names_no_row(before: int | None, after: int | None) -> None:
    assert cautions.slowed([clocks(before, after)]) == []


def test_rows_where_the_quick_peer_is_the_slower_one_are_named() -> None:
    rows = [figures(10.29, 10.0, 1), figures(10.31, 10.0, 2), figures(10.0, 12.0, 4)]
    assert cautions.behind(rows) == ["small 2 forward: 1.031"]


@pytest.mark.parametrize("fast, same", [(None, 10.0), (20.0, None), (None, None)])
def test_a_peer_without_a_figure_names_no_row(fast: float | None, same: float | None) -> None:
    assert cautions.behind([figures(fast, same)]) == []


def test_a_run_names_them_at_its_end(
    run: Any,
    fakes: Callable[..., dict[str, Command]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mhz = iter([1980, 1900, 1980, 1975])
    monkeypatch.setattr("runner.machine.sm_mhz", lambda: next(mhz))
    assert run.run(fakes(), "--only", "small", "--mode", "forward") == 0  # fast: 12 us, same: 10
    told = capsys.readouterr().out.splitlines()
    at = told.index("cublaslt_fast takes more than 1.03 times cublaslt_same in 2 rows")
    assert told[at + 1 : at + 5] == [
        "  small 1 forward: 1.200",
        "  small 64 forward: 1.200",
        "1 rows to measure again: their SM clock fell by more than 2 %",
        "  small 1 forward: 1980 MHz before, 1900 after",
    ]
