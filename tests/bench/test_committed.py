"""The results that are committed and quoted: whole, within the goal, and told alike in all their files."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from runner import chart, reference, suite, summary, table

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "bench/results"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(json.loads((RESULTS / "h200.json").read_text(encoding="utf-8")))


def test_they_are_a_whole_run_of_the_suite(document: dict[str, Any], bench: pathlib.Path) -> None:
    wanted = [(row.workload, row.batch, row.mode) for row in suite.rows(suite.load(bench / "suite.json"))]
    assert [(row["workload"], row["batch"], row["mode"]) for row in document["rows"]] == wanted
    assert len(wanted) == 63
    assert document["quick"] is False


def test_no_result_is_above_the_goal_and_none_is_left_out(document: dict[str, Any]) -> None:
    assert summary.misses(document["rows"]) == []
    there, wanted = summary.compared(document["rows"])
    assert there == wanted == 63 + 21


def test_nothing_failed(document: dict[str, Any]) -> None:
    assert summary.failures(document["rows"]) == []


def test_the_peer_on_cublaslt_comes_near_what_an_independent_program_measured(
    document: dict[str, Any],
) -> None:
    quotients = reference.quotients(document["rows"], document["gpu"], reference.load())
    assert [(name, value) for name, value in quotients if value > 1.10] == []
    assert len(quotients) == 22


def test_a_second_start_times_and_asks_nothing(document: dict[str, Any]) -> None:
    counts = {
        (row["second_start_candidates_timed"], row["second_start_heuristic_queries"])
        for row in document["rows"]
    }
    assert counts == {(0, 0)}


def test_a_second_start_of_policy_takes_at_most_20_ms(document: dict[str, Any]) -> None:
    times = [row["plan_capture_cached_ms"] for row in document["rows"] if row["workload"] == "policy"]
    assert len(times) == 6 and max(times) <= 20


def test_the_page_and_the_picture_are_those_of_the_figures(document: dict[str, Any]) -> None:
    assert (RESULTS / "h200.md").read_text(encoding="utf-8") == table.markdown(document, "h200")
    assert (RESULTS / "h200.svg").read_text(encoding="utf-8") == chart.svg(document)
