"""What was measured lasts in a file: captures that recall it, handlers, and files that are no use."""

from __future__ import annotations

import json
import warnings

import pytest

torch = pytest.importorskip("torch")

from replay import integers, product  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402
from graph_executor_v2.ops import _ops_gemm as gemm  # noqa: E402


def chain() -> tuple[ge.Program, torch.Tensor, torch.Tensor]:
    """Two layers over small integers, the output, and what must be in it."""
    x, w1, w2 = integers(4, 48), integers(48, 64, seed=1), integers(64, 8, seed=2)
    h, y = torch.zeros(4, 64, device="cuda"), torch.zeros(4, 8, device="cuda")
    program = ge.Program()
    program.forward(x, w1, None, h, act="relu")
    program.forward(h, w2, None, y)
    return program, y, product(product(x, w1).relu(), w2)


def replayed(
    program: ge.Program, y: torch.Tensor, expected: torch.Tensor, **options: object
) -> ge.Executable:
    executable = ge.capture(program, **options)
    executable.launch()
    executable.wait()
    assert torch.equal(y.cpu(), expected)
    return executable


def test_a_second_capture_takes_what_the_first_measured(tmp_path):
    path = tmp_path / "folder" / "tuning.json"
    program, y, expected = chain()
    first = replayed(program, y, expected, tuning_cache=path)
    assert first.tuning.measured == first.tuning.tasks == 3  # each layer, and both as one
    assert first.tuning.candidates_timed > 2 and first.tuning.heuristic_queries > 0
    stored = json.loads(path.read_text())
    assert stored["format"] == "graph_executor tuning"

    second = replayed(program, y, expected, tuning_cache=path)
    report = second.tuning
    assert report.recalled == report.tasks >= 1 and report.measured == 0
    assert (report.candidates_timed, report.heuristic_queries, report.kernels_compiled) == (0, 0, 0)
    assert str(path) in second.explain() and str(path) not in first.explain()
    assert [node.name for node in first.nodes()] == [node.name for node in second.nodes()]

    again = replayed(program, y, expected, tuning="remeasure", tuning_cache=path)
    assert again.tuning.measured == 3 and again.tuning.recalled == 0
    off = replayed(program, y, expected, tuning="off", tuning_cache=path)
    assert off.tuning.candidates_timed == 0 and off.tuning.recalled == 0


def test_the_file_of_the_process_serves_captures_and_direct_calls(tmp_path):
    path = tmp_path / "tuning.json"
    ge.set_tuning_cache_path(path)
    try:
        a, b = integers(16, 128), integers(128, 128, seed=1)
        y = torch.zeros(16, 128, device="cuda")
        program = ge.Program()
        program.forward(a, b, None, y, act="relu")
        replayed(program, y, product(a, b).relu())
        assert path.exists()
        before = path.read_bytes()
        gemm.clear_plan_cache()
        y.zero_()
        gemm.forward_ex(a, b, None, y, act="relu")
        torch.cuda.synchronize()
        assert torch.equal(y.cpu(), product(a, b).relu())
        assert path.read_bytes() == before
    finally:
        ge.set_tuning_cache_path(None)
        gemm.clear_plan_cache()


def test_progress_is_told_and_what_a_handler_raises_ends_the_capture(tmp_path):
    program, y, expected = chain()
    seen: list[ge.TuningProgress] = []
    replayed(program, y, expected, tuning_cache="", on_tuning_progress=seen.append)
    assert len(seen) > 2
    layers = {"forward Y[4,64] K=48", "forward Y[4,8] K=64"}
    assert {progress.task for progress in seen} == layers | {"forward Y[4,8] in 2 layers, 48-64-8"}
    assert [progress.tasks_done for progress in seen] == sorted(progress.tasks_done for progress in seen)
    assert all(progress.candidates_done < progress.candidates for progress in seen)
    assert all(progress.budget_s == 2.0 for progress in seen)

    calls = []

    def stop(progress: ge.TuningProgress) -> None:
        calls.append(progress)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ge.capture(program, tuning_cache="", on_tuning_progress=stop)
    assert len(calls) == 1


def test_a_file_that_is_no_tuning_file_is_warned_of_and_left_alone(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"mine": 1}')
    program, y, expected = chain()
    with pytest.warns(RuntimeWarning, match="mine.json"):
        replayed(program, y, expected, tuning_cache=path)
    heard: list[str] = []
    other = tmp_path / "other.json"
    other.write_text("[1, 2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replayed(program, y, expected, tuning_cache=other, on_tuning_warning=heard.append)
    assert heard and "other.json" in heard[0]
    assert path.read_text() == '{"mine": 1}' and other.read_text() == "[1, 2"
