"""The independent figures of cuBLASLt, and how a run is compared with them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from runner import reference, suite
from runner.contestants import Command

REFERENCE = {
    "gpu": "NVIDIA H200",
    "rows": [
        {"workload": "small", "batch": 1, "forward": 10.0, "forward_backward": 20.0},
        {"workload": "gone", "batch": 1, "forward": 10.0, "forward_backward": 20.0},
    ],
}


def row(workload: str, batch: int, mode: str, us: float | None) -> dict[str, Any]:
    return {"workload": workload, "batch": batch, "mode": mode, "cublaslt_graph_us": us}


ROWS = [
    row("small", 1, "forward", 11.0),
    row("small", 1, "forward_backward", 22.1),
    row("small", 1, "train_step", 40.0),
    row("small", 64, "forward", 99.0),
]


def test_rows_that_both_have_are_compared_and_slow_ones_flagged() -> None:
    assert reference.lines(ROWS, "NVIDIA H200", REFERENCE) == [
        "cublaslt_fast takes, times bench/reference.json: 1 of 2 above 1.10",
        "  small 1 forward: 1.100",
        "  small 1 forward_backward: 1.105 ABOVE",
    ]


def test_nothing_is_compared_on_another_gpu_or_without_a_figure() -> None:
    assert reference.lines(ROWS, "NVIDIA B300", REFERENCE) == []
    assert reference.lines([row("small", 1, "forward", None)], "NVIDIA H200", REFERENCE) == []


def test_the_committed_figures_are_of_rows_of_the_suite(bench: pathlib.Path) -> None:
    figures = reference.load()
    assert figures["gpu"] == "NVIDIA H200" and figures["unit"] == "us"
    assert {"driver", "cuda", "cublaslt"} < set(figures)
    there = {(row.workload, row.batch) for row in suite.rows(suite.load(bench / "suite.json"))}
    named = [(row["workload"], row["batch"]) for row in figures["rows"]]
    assert set(named) <= there and len(set(named)) == len(named) == 11
    for line in figures["rows"]:
        assert 0 < line["forward"] < line["forward_backward"]


def test_a_run_tells_how_its_peer_compares(
    run: Any,
    fakes: Callable[..., dict[str, Command]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = run.folder / "reference.json"
    figures.write_text(json.dumps(REFERENCE), encoding="utf-8")
    monkeypatch.setattr(reference, "FILE", figures)
    assert run.run(fakes(), "--only", "small", "--batch", "1", "--mode", "forward") == 0
    line = "  small 1 forward: 1.200 ABOVE"  # 12 us
    assert line in capsys.readouterr().out
    assert line in (run.out / "h200.md").read_text(encoding="utf-8")
