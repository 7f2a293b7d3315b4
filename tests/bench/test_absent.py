"""Contestants that are absent, wrong, dead or hanging, in whole runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runner import contestants
from runner.contestants import Command

Fakes = Callable[..., dict[str, Command]]


def test_an_absent_peer_is_null_with_its_reason(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(jax={"absent": "No module named 'jax'"}, torch={"lacks": ["torch_graph"]})) == 0
    assert run.results()["absent"] == {"jax": "No module named 'jax'"}
    row = run.row("small/1/forward")
    assert row["jax_us"] is None and row["absent"]["jax"] == "No module named 'jax'"
    assert row["torch_graph_us"] is None and row["absent"]["torch_graph"] == "not this row"
    assert row["torch_eager_us"] == 200


def test_a_wrong_peer_has_no_figure_and_fails_the_run(
    run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run.run(fakes(bench_suite={"wrong": ["cublaslt_same"]}), "--only", "large", "--mode", "forward") == 1
    )
    row = run.row("large/4096/forward")
    assert row["cublaslt_same_us"] is None
    assert row["absent"]["cublaslt_same"] == "failed: Y[0,3] is 7, expected 8"
    assert "large 4096 forward: cublaslt_same: failed: Y[0,3]" in capsys.readouterr().out


def test_a_row_without_ours_has_no_figures_and_fails_the_run(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(bench_suite={"wrong": ["ours"]}), "--only", "large", "--mode", "forward") == 1
    row = run.row("large/4096/forward")
    assert row["ours_us"] is None and row["jax_us"] is None and row["ratios"] == {}
    assert row["absent"]["jax"] == "ours is absent from this row"


def test_a_peer_that_dies_as_it_gets_ready_fails_the_run_and_is_started_again_for_the_next_row(
    run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.run(fakes(torch={"die": '"batch": 64, "mode": "forward"'}), "--mode", "forward") == 1
    dead = run.row("small/64/forward")
    why = "failed: torch ended with exit code 3: something terrible happened"
    assert dead["absent"]["torch_eager"] == dead["absent"]["torch_graph"] == why
    assert f"small 64 forward: torch_eager: {why}" in capsys.readouterr().out
    assert dead["torch_eager_us"] is None and dead["jax_us"] == 80
    assert (
        run.row("small/1/forward")["torch_eager_us"] == run.row("large/4096/forward")["torch_eager_us"] == 200
    )


def test_a_process_that_lost_its_gpu_is_started_again_for_the_next_row(run: Any, fakes: Fakes) -> None:
    one = '"contestant": "cublaslt_same", "what": "device"'
    lost = {"lose": one, "lose_once": str(run.folder / "lost")}
    run.run(fakes(bench_suite=lost), "--only", "small", "--mode", "forward")
    first, second = run.row("small/1/forward"), run.row("small/64/forward")
    assert "an illegal memory access" in first["absent"]["cublaslt_same"]
    assert "ended with exit code 3: the context is lost" in first["absent"]["ours"]
    assert second["ours_us"] == second["cublaslt_same_us"] == 10 and second["absent"] == {}


def test_a_peer_that_dies_again_and_again_is_given_up(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(jax={"die": "prepare"}), "--only", "small") == 1
    reasons = [row["absent"]["jax"] for row in run.results()["rows"]]
    assert len(reasons) == 6 and all(reason.startswith("failed: jax ended") for reason in reasons)
    assert [reason for reason in reasons if "was started again 3 times already" in reason] == reasons[4:]


@pytest.mark.parametrize(
    "trouble, reason",
    [
        ({"hang": "prepare"}, "jax did not answer prepare within 1 s"),
        ({"babble": "prepare"}, "jax replied to prepare with 'oops'"),
        ({"refuse": "prepare"}, "wrong result of 32 copies"),
        ({"die": "describe"}, "jax ended with exit code 3"),
        ({"refuse": "describe"}, "wrong result of 32 copies"),
    ],
)
def test_a_peer_that_fails_before_it_is_ready_fails_the_run(
    run: Any, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, trouble: dict[str, str], reason: str
) -> None:
    monkeypatch.setattr(contestants, "PREPARE_S", 1.0)
    assert run.run(fakes(jax=trouble), "--only", "large", "--mode", "forward", "--peers", "jax") == 1
    assert run.row("large/4096/forward")["absent"]["jax"].startswith(f"failed: {reason}")


def test_a_peer_whose_program_is_not_there_is_absent(run: Any, fakes: Fakes) -> None:
    commands = {**fakes(), "jax": Command(["/nowhere"])}
    assert run.run(commands, "--only", "large", "--mode", "forward") == 0
    assert run.results()["absent"]["jax"].startswith("jax could not be started: ")


def test_a_peer_that_dies_while_measured_takes_its_samples_along(run: Any, fakes: Fakes) -> None:
    assert (
        run.run(fakes(torch={"die": '"contestant": "torch_eager"'}), "--only", "large", "--mode", "forward")
        == 1
    )
    row = run.row("large/4096/forward")
    assert row["torch_eager_us"] is None and "exit code 3" in row["absent"]["torch_eager"]
    assert row["ours_us"] == 10 and row["jax_us"] == 80


def test_one_that_dies_over_its_slope_keeps_its_figure_and_fails_the_run(
    run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    dies = fakes(bench_suite={"die": '"contestant": "ours", "what": "slope"'})
    assert run.run(dies, "--only", "large", "--mode", "forward") == 1
    row = run.row("large/4096/forward")
    assert row["ours_us"] == 10 and row["ours_slope_us"] is None and row["host_p50_us"] == 10
    assert row["cublaslt_graph_us"] == 12 and row["cublaslt_fast_slope_us"] is None
    why = "failed: bench_suite ended with exit code 3: something terrible happened"
    assert row["slope_absent"] == dict.fromkeys(["ours", "cublaslt_fast", "cublaslt_same"], why)
    assert f"large 4096 forward: ours: no slope: {why}" in capsys.readouterr().out
    assert f"* slope of ours: {why} (large 4096 forward)" in (run.out / "h200.md").read_text(encoding="utf-8")


def test_one_whose_copies_give_a_wrong_result_has_no_slope_and_fails_the_run(run: Any, fakes: Fakes) -> None:
    wrong = fakes(bench_suite={"refuse": '"contestant": "cublaslt_same", "what": "slope"'})
    assert run.run(wrong, "--only", "large", "--mode", "forward") == 1
    row = run.row("large/4096/forward")
    assert row["cublaslt_same_us"] == 10 and row["cublaslt_same_slope_us"] is None
    assert row["slope_absent"] == {"cublaslt_same": "failed: wrong result of 32 copies"}


def test_torch_compile_is_ended_when_its_time_is_over(run: Any, fakes: Fakes) -> None:
    assert (
        run.run(fakes(torch_compile={"hang": "prepare"}), "--mode", "forward", "--limit-compile", "0.4") == 0
    )
    first, second, third = (row["absent"]["torch_compile"] for row in run.results()["rows"])
    assert first == "torch_compile did not answer prepare within 0.4 s"
    assert second == third == "the time for torch.compile is used up (--limit-compile)"


def test_one_row_may_not_take_all_of_torch_compiles_time(
    run: Any, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contestants, "COMPILE_S", 0.3)
    run.run(fakes(torch_compile={"hang": '"batch": 64'}), "--only", "small", "--mode", "forward")
    assert run.row("small/1/forward")["torch_compile_us"] == 25
    assert "within 0.3 s" in run.row("small/64/forward")["absent"]["torch_compile"]


def test_torch_compile_that_dies_within_its_time_fails_the_run(run: Any, fakes: Fakes) -> None:
    assert run.run(fakes(torch_compile={"die": "prepare"}), "--only", "large", "--mode", "forward") == 1
    why = "failed: torch_compile ended with exit code 3: something terrible happened"
    assert run.row("large/4096/forward")["absent"]["torch_compile"] == why


def test_torch_compile_without_time_is_absent(run: Any, fakes: Fakes) -> None:
    run.run(fakes(), "--only", "large", "--mode", "forward", "--limit-compile", "0")
    assert run.results()["absent"] == {"torch_compile": "no time is given to torch.compile (--limit-compile)"}


def test_peers_that_are_not_asked_for_are_not_started(run: Any, fakes: Fakes) -> None:
    commands = fakes()
    commands["jax"] = Command(["/nowhere"])
    run.run(commands, "--only", "large", "--peers", "torch_graph,cublaslt_same")
    row = run.row("large/4096/forward")
    assert sorted(row["ratios"]) == ["cublaslt_same", "torch_graph"]
    assert run.results()["absent"]["jax"] == "not asked for"
