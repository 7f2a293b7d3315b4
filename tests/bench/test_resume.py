"""Runs that go on where one broke off."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from runner.contestants import PEERS, Command

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
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


CHANGES = {
    "commit": 'commit was "0123abc" and is "beef"',
    "gpu": 'bench_suite gpu was "NVIDIA H200" and is "NVIDIA B300"',
    "another of the same": 'bench_suite gpu_id was "GPU-1" and is "GPU-2"',
    "library": 'torch versions was {"torch": "2.11.0"} and is {"torch": "2.12.0"}',
    "library gone": 'torch versions was {"torch": "2.11.0"} and is nothing',
    "library new": 'jax versions was nothing and is {"jax": "0.11.2"}',
    "peers": '"torch_graph"] and is ["jax"]',
    "quick": "--quick was false and is true",
    "damage": "h200-rows.json cannot be used: ",
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_something_else_are_neither_taken_over_nor_lost(
    run: Any, fakes: Fakes, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--only", "large", "--mode", "forward"]
    processes: dict[str, dict[str, Any]] = {"bench_suite": {"log": str(run.folder / "requests")}}
    run.run(fakes(jax={"absent": "not installed"}) if change == "library new" else fakes(), *options)
    rows = run.folder / "bench-run/h200-rows.json"
    if change == "another of the same":
        processes["bench_suite"]["gpu_id"] = "GPU-2"
    if change == "library":
        processes["torch"] = {"versions": {"torch": "2.12.0"}}
    if change == "library gone":
        processes["torch"] = processes["torch_compile"] = {"absent": "not installed"}
    if change == "commit":
        options += ["--commit", "beef"]
    if change == "peers":
        options += ["--peers", "jax"]
    if change == "gpu":
        processes["bench_suite"]["gpu"] = "NVIDIA B300"
        rows = rows.rename(rows.with_name("b300-rows.json"))
    if change == "damage":
        rows.write_text('{"identity": ', encoding="utf-8")
    if change == "quick":
        kept = json.loads(rows.read_text(encoding="utf-8"))
        kept["identity"]["--quick"] = False
        rows.write_text(json.dumps(kept), encoding="utf-8")
    before = {path: path.read_bytes() for path in [rows, *run.out.iterdir()]}
    assert run.run(fakes(**processes), *options, "--resume") == 2
    told = capsys.readouterr().err
    assert "--resume is refused: " in told and CHANGES[change] in told
    assert '"prepare"' not in (run.folder / "requests").read_text(encoding="utf-8")
    assert {path: path.read_bytes() for path in before} == before


def test_without_resume_every_row_is_measured_again(run: Any, fakes: Fakes) -> None:
    options = ["--only", "large", "--mode", "forward"]
    run.run(fakes(), *options)
    assert run.run(fakes(bench_suite={"us": {"ours": [20.0]}}), *options) == 0
    assert run.row("large/4096/forward")["ours_us"] == 20


@pytest.mark.parametrize("peers", [",".join(PEERS), "torch_compile"])
def test_a_run_may_go_on_with_other_limits(
    run: Any, fakes: Fakes, peers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--batch", "64,4096", "--mode", "forward", "--peers", peers]
    assert run.run(fakes(), *options, "--only", "small", "--limit", "100", "--limit-compile", "150") == 0
    log = run.folder / "requests"
    capsys.readouterr()
    assert run.run(fakes(torch_compile={"log": str(log)}), *options, "--limit-compile", "0", "--resume") == 0
    assert [row["torch_compile_us"] for row in run.results()["rows"]] == [25, None]
    assert "torch_compile 2.50 (1)" in capsys.readouterr().out
    assert "torch_compile" not in run.results()["absent"]
    assert "torch_compile" not in run.row("small/64/forward")["absent"]
    reason = "no time is given to torch.compile (--limit-compile)"
    assert run.row("large/4096/forward")["absent"]["torch_compile"] == reason
    text = (run.out / "h200.md").read_text(encoding="utf-8")
    assert f"* torch_compile: {reason} (large 4096 forward)" in text
    schema = json.loads((BENCH / "results/schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(run.results(), {**schema, "$ref": "#/$defs/results"})
    asked = [json.loads(line)["do"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert asked == ["describe", "quit"]
