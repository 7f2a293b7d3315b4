"""Runs that go on where one broke off."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from runner.contestants import Command

Fakes = Callable[..., dict[str, Command]]


def test_a_run_goes_on_where_one_broke_off(run: Any, fakes: Fakes, tmp_path: pathlib.Path) -> None:
    assert run.run(fakes(), "--only", "small") == 0
    assert len(run.results()["rows"]) == 6
    log = tmp_path / "requests"
    slower = {"log": str(log), "us": {"ours": [20.0]}}
    assert run.run(fakes(bench_suite=slower), "--resume") == 0
    assert len(run.results()["rows"]) == len(run.results("h200-samples.json")["rows"]) == 9
    assert run.row("small/64/forward")["ours_us"] == 10 and run.row("large/4096/forward")["ours_us"] == 20
    assert [row["workload"] for row in run.results()["rows"]] == ["small"] * 6 + ["large"] * 3
    prepared = [line for line in log.read_text(encoding="utf-8").splitlines() if '"prepare"' in line]
    assert len(prepared) == 3


def test_a_limit_ends_a_run_between_rows(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(), "--only", "small", "--batch", "1") == 0
    assert run.run(fakes(), "--resume", "--limit", "0") == 0
    assert len(run.results()["rows"]) == 3


def test_a_limit_before_the_first_row_writes_nothing(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(), "--limit", "0") == 2
    assert not run.out.exists()


@pytest.mark.parametrize(
    "change",
    ["commit", "gpu", "another of the same", "library", "peers", "quick", "damage", "no resume"],
)
def test_rows_of_another_run_are_measured_again(
    run: Any, fakes: Fakes, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--only", "large", "--mode", "forward"]
    run.run(fakes(), *options)
    slower: dict[str, Any] = {"us": {"ours": [20.0]}}
    torch: dict[str, Any] = {}
    if change == "another of the same":
        slower["gpu_id"] = "GPU-2"
    if change == "library":
        torch["versions"] = {"torch": "2.12.0"}
    if change != "no resume":
        options.append("--resume")
    if change == "commit":
        options += ["--commit", "beef"]
    if change == "peers":
        options += ["--peers", "jax"]
    if change == "gpu":
        slower["gpu"] = "NVIDIA B300"
        shutil.copy(run.folder / "bench-run/h200-rows.json", run.folder / "bench-run/b300-rows.json")
    if change == "damage":
        (run.folder / "bench-run/h200-rows.json").write_text('{"identity": ', encoding="utf-8")
    if change == "quick":
        kept = json.loads((run.folder / "bench-run/h200-rows.json").read_text(encoding="utf-8"))
        kept["identity"] = kept["identity"].replace("quick", "full")
        (run.folder / "bench-run/h200-rows.json").write_text(json.dumps(kept), encoding="utf-8")
    run.run(fakes(bench_suite=slower, torch=torch), *options)
    assert ("every row is measured again" in capsys.readouterr().err) == (change != "no resume")
    assert len(list((run.folder / "bench-run").glob("*.old"))) == (change != "no resume")
    assert run.results("b300.json" if change == "gpu" else "h200.json")["rows"][0]["ours_us"] == 20
