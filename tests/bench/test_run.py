"""Whole runs over fake contestants: order, files, what they hold, and exit codes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from runner import main, schedule
from runner.contestants import Command

Fakes = Callable[..., dict[str, Command]]


def test_a_run_writes_every_row_and_exits_with_0(
    run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.run(fakes()) == 0
    results = run.results()
    assert [results[key] for key in ("gpu", "driver", "cuda", "cublaslt", "commit", "quick")] == [
        "NVIDIA H200",
        "580.1",
        "13.0",
        "13.1.0",
        "0123abc",
        True,
    ]
    assert results["versions"] == {"torch": "2.11.0", "jax": "0.11.2"} and results["absent"] == {}
    assert len(results["rows"]) == 9
    row = run.row("small/64/forward")
    assert [
        row[key]
        for key in (
            "ours_us",
            "cublaslt_graph_us",
            "cublaslt_same_us",
            "torch_graph_us",
            "torch_eager_us",
            "torch_compile_us",
            "jax_us",
        )
    ] == [10, 12, 10, 30, 200, 25, 80]
    assert row["ratios"] == {
        "cublaslt_fast": 1.2,
        "cublaslt_same": 1,
        "torch_graph": 3,
        "torch_eager": 20,
        "torch_compile": 2.5,
        "jax": 8,
    }
    assert [
        row[key]
        for key in (
            "floor_us",
            "nodes",
            "variant",
            "error_ratio",
            "workspace_bytes",
            "host_p50_us",
            "second_start_candidates_timed",
        )
    ] == [1.4, 4, "ours/1 | plain", 0.31, 256, 10, 0]
    assert row["absent"] == {}
    assert run.row("small/1/train_step")["absent"] == {"torch_compile": "forward only"}
    told = capsys.readouterr()
    assert "[9/9] large/4096/train_step" in told.err
    assert "cublaslt_fast 1.20 (3)" in told.out and "0 results above 1.05" in told.out


def test_samples_hold_what_the_figures_come_from(run: Any, fakes: Fakes) -> None:
    run.run(
        fakes(bench_suite={"us": {"ours": [9.0, 10.0, 11.004]}}),
        "--only",
        "small",
        "--batch",
        "1",
        "--mode",
        "forward",
    )
    row = run.results("h200-samples.json")["rows"][0]
    order = [entry["contestant"] for entry in row["device"]]
    assert order[:4] == ["ours", "cublaslt_fast", "ours", "cublaslt_same"] and order[-1] == "ours"
    assert row["device"][0]["us"] == [9.0, 10.0, 11.004]
    assert row["host"] == [[9.0, 1], [10.0, 1], [11.0, 1]]
    assert row["sm_mhz"] == {"before": 1980, "after": 1980}  # nvidia-smi's, since bench_suite does not know
    run.run(fakes(bench_suite={"sm_mhz": 1755}), "--only", "small", "--batch", "1", "--mode", "forward")
    assert run.results("h200-samples.json")["rows"][0]["sm_mhz"] == {"before": 1755, "after": 1755}


def test_tables_and_pictures_are_well_formed(run: Any, fakes: Fakes) -> None:
    run.run(fakes(jax={"absent": "No module <named> 'jax' & more"}))
    picture = ElementTree.parse(run.out / "h200.svg").getroot()
    bars = [mark.get("class") for mark in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert (
        bars.count("ours") == 9 + 1 and bars.count("torch_compile") == 3 + 1 and "jax" not in bars
    )  # + legend
    floors = [
        mark for mark in picture.iter("{http://www.w3.org/2000/svg}line") if mark.get("class") == "floor"
    ]
    assert len(floors) == 9 + 1
    text = (run.out / "h200.md").read_text(encoding="utf-8")
    assert "* jax: No module <named> 'jax' & more" in text
    assert (
        "| small | 64 | 10 | 12 (1.20) | 10 (1.00) | 30 (3.00) | 200 (20.00) | 25 (2.50) | - | 1.4 |" in text
    )
    for lines in [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]:
        assert len({line.count("|") for line in lines}) == 1, lines[0]


def test_longer_bars_take_longer(run: Any, fakes: Fakes) -> None:
    run.run(fakes(), "--only", "small", "--batch", "1", "--mode", "forward")
    picture = ElementTree.parse(run.out / "h200.svg").getroot()
    bars = {
        mark.get("class"): float(mark.get("width", "0"))
        for mark in picture.iter("{http://www.w3.org/2000/svg}rect")
        if mark.get("height") == "7"
    }
    decade = (bars["jax"] - bars["ours"]) / 0.90309  # log10(80 / 10)
    assert decade > 50
    assert bars["torch_eager"] - bars["ours"] == pytest.approx(1.30103 * decade, abs=0.2)


def test_peers_are_prepared_one_process_after_the_other(
    run: Any, fakes: Fakes, tmp_path: pathlib.Path
) -> None:
    log = str(tmp_path / "requests")
    names = ("bench_suite", "torch", "torch_compile", "jax")
    run.run(fakes(**{name: {"log": log} for name in names}), "--only", "large", "--mode", "forward")
    asked = [json.loads(line) for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines()]
    prepared = [request["contestants"] for request in asked if request["do"] == "prepare"]
    assert prepared == [
        ["ours", "cublaslt_fast", "cublaslt_same"],
        ["torch_graph", "torch_eager"],
        ["torch_compile"],
        ["jax"],
    ]
    first = next(request for request in asked if request["do"] == "prepare")
    assert first["row"] == {
        "workload": "large",
        "layers": [4096, 4096],
        "activation": "None",
        "batch": 4096,
        "mode": "forward",
    }
    assert first["quick"] is True and first["budget_s"] == schedule.QUICK.budget_s
    order = [request["do"] for request in asked]
    assert order.index("warm") > max(i for i, do in enumerate(order) if do == "prepare")
    assert order.index("measure") > order.index("warm")


def test_rows_above_the_goal_are_named(run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    slow = {"us": {"ours": [10.6], "cublaslt_same": [10.0], "cublaslt_fast": [10.0]}}
    assert run.run(fakes(bench_suite=slow), "--only", "large") == 0
    told = capsys.readouterr().out
    assert "4 results above 1.05" in told  # same in three modes, fast in forward alone
    assert "4 of 4 were compared" in told
    assert "large 4096 forward: 1.060 times cublaslt_fast" in told
    assert "large 4096 train_step: 1.060 times cublaslt_fast" not in told
    run.run(fakes(), "--only", "large", "--peers", "cublaslt_fast")
    assert "1 of 4 were compared" in capsys.readouterr().out


def test_a_part_of_the_rows_does_not_replace_the_results_of_all(run: Any, fakes: Fakes) -> None:
    assert (
        main.main(
            ["--build", str(run.folder), "--suite", str(run.suite), "--commit", "0123abc", "--quick"], fakes()
        )
        == 0
    )
    assert (run.folder / "bench-run/results/h200.json").exists()


def test_another_suite_does_not_replace_the_results_of_ours(
    run: Any, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "BENCH", run.folder / "bench")
    whole = ["--build", str(run.folder), "--suite", str(run.suite), "--commit", "0123abc"]
    assert main.main(whole, fakes()) == 0
    assert (run.folder / "bench-run/results/h200.json").exists()
    assert not (run.folder / "bench").exists()
    monkeypatch.setattr(main, "SUITE", run.suite.resolve())
    assert main.main(whole, fakes()) == 0
    assert (run.folder / "bench/results/h200.json").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--only", "jets"], "no such workload: jets"),
        (["--suite", "/nowhere.json"], "/nowhere.json"),
    ],
)
def test_a_run_that_cannot_begin_exits_with_2(
    run: Any, fakes: Fakes, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.run(fakes(), *options) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_measured_without_ours(run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run(fakes(bench_suite={"absent": "no usable GPU"})) == 2
    assert "nothing can be measured: no usable GPU" in capsys.readouterr().err
    assert not run.out.exists()


def test_an_unknown_peer_is_refused(run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run.run(fakes(), "--peers", "tensorflow")
    assert stopped.value.code == 2 and "no such peer: tensorflow" in capsys.readouterr().err


def test_a_batch_that_is_no_number_is_refused(
    run: Any, fakes: Fakes, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run.run(fakes(), "--batch", "1,x")
    assert stopped.value.code == 2
    assert "argument --batch: '1,x' is no list of whole numbers" in capsys.readouterr().err


def test_a_build_folder_without_the_program_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--build", str(tmp_path)]) == 2
    assert f"{tmp_path}/bench/bench_suite is missing; cmake --build" in capsys.readouterr().err


def test_a_whole_run_gives_our_tuning_no_special_budget(
    run: Any, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "QUICK", schedule.Settings(rounds=1, min_rounds=1))
    log = run.folder / "requests"
    run.run(fakes(bench_suite={"log": str(log)}), "--only", "large", "--mode", "forward")
    asked = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert ["budget_s" in request for request in asked if request["do"] == "prepare"] == [False]
