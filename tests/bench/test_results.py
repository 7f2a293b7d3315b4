"""Results against their schema: those of a run, those that are committed, and some that are broken on
purpose.
"""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import jsonschema
import pytest
from runner import results
from runner.floors import floors_of, limits_of
from runner.schedule import Measured
from runner.suite import Row

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
SCHEMA = json.loads((BENCH / "results/schema.json").read_text(encoding="utf-8"))
ROW = Row("policy", (64, 256, 256, 8), "ReLU", 1, "forward")
READY = {
    "nodes": 3,
    "workspace_bytes": 0,
    "variant": "lt/3",
    "plan_capture_cold_ms": 1.5,
    "plan_capture_cached_ms": 0.5,
    "second_start": {"candidates_timed": 0, "heuristic_queries": 0},
    "error_ratio": 0.4,
}
COMMITTED = sorted(path for path in (BENCH / "results").glob("*.json") if path.name != "schema.json")
TOP = {
    "gpu": "NVIDIA H200",
    "driver": "580.1",
    "cuda": "13.0",
    "cublaslt": "13.1.0",
    "commit": "0123abc",
    "date": "2026-01-02T03:04:05+00:00",
    "quick": False,
}


def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{kind}"})


def measured() -> Measured:
    peers = ("cublaslt_fast", "cublaslt_same", "torch_graph", "torch_eager", "torch_compile", "jax")
    device = [("ours", [7.0, 7.2])]
    for peer in peers:
        device += [(peer, [8.0]), ("ours", [7.1])]
    return Measured(
        device=device, slope={name: [6.5] for name in results.SLOPE_OF}, host=[11.0, 12.0], launch=[1.3]
    )


def document() -> dict[str, Any]:
    row = results.row_of(
        ROW,
        {"ours": READY, "jax": {"error_norm": 3e-7}},
        measured(),
        {},
        floors_of(ROW, "NVIDIA H200", 62914560),
    )
    return json.loads(
        results.dump(
            {
                **TOP,
                "versions": {"torch": "2.11.0"},
                "sm_count": 132,
                "l2_bytes": 62914560,
                "limits": limits_of("NVIDIA H200"),
                "absent": {},
                "rows": [row],
            }
        )
    )


def samples() -> dict[str, Any]:
    row = results.samples_of(ROW, measured(), {"before": 1980, "after": None})
    return json.loads(results.dump({**TOP, "rows": [row]}))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_results_and_samples_fit_the_schema() -> None:
    validator("results").validate(document())
    validator("samples").validate(samples())


@pytest.mark.parametrize("field", sorted(document()))
def test_results_without_one_field_do_not_fit(field: str) -> None:
    broken = document()
    del broken[field]
    assert not validator("results").is_valid(broken)


@pytest.mark.parametrize("field", sorted(document()["rows"][0]))
def test_a_row_without_one_field_does_not_fit(field: str) -> None:
    broken = document()
    del broken["rows"][0][field]
    assert not validator("results").is_valid(broken)


@pytest.mark.parametrize(
    "field, value",
    [
        ("ours_us", "7"),
        ("ours_us", 0),
        ("mode", "backward"),
        ("batch", 0),
        ("nodes", 3.5),
        ("variant", None),
        ("ratios", {"tensorflow": 1.0}),
        ("ratios", {"jax": -1}),
        ("absent", {"jax": ""}),
        ("colour", "red"),
    ],
)
def test_a_row_with_a_bad_value_does_not_fit(field: str, value: Any) -> None:
    broken = document()
    broken["rows"][0][field] = value
    assert not validator("results").is_valid(broken)


@pytest.mark.parametrize("contestant, figure", results.FIGURE_OF.items())
def test_a_figure_may_be_null_only_with_a_reason(contestant: str, figure: str) -> None:
    broken = document()
    broken["rows"][0][figure] = None
    assert not validator("results").is_valid(broken)
    broken["rows"][0]["absent"][contestant] = "it died"
    assert validator("results").is_valid(broken)


@pytest.mark.parametrize("contestant, slope", results.SLOPE_OF.items())
def test_a_slope_may_be_null_only_with_a_reason_or_without_a_figure(contestant: str, slope: str) -> None:
    broken = document()
    broken["rows"][0][slope] = None
    assert not validator("results").is_valid(broken)
    broken["rows"][0]["slope_absent"][contestant] = "out of memory"
    assert validator("results").is_valid(broken)
    broken["rows"][0]["slope_absent"] = {}
    broken["rows"][0][results.FIGURE_OF[contestant]] = None
    broken["rows"][0]["absent"][contestant] = "it died"
    assert validator("results").is_valid(broken)


@pytest.mark.parametrize("field", ["device", "slope", "host", "launch", "sm_mhz", "workload"])
def test_samples_without_one_field_do_not_fit(field: str) -> None:
    broken = copy.deepcopy(samples())
    del broken["rows"][0][field]
    assert not validator("samples").is_valid(broken)


@pytest.mark.parametrize("path", COMMITTED or [None], ids=lambda path: path.name if path else "none")
def test_committed_results_fit_the_schema(path: pathlib.Path | None) -> None:
    if path is None:
        pytest.skip("no results are committed")
    kind = "samples" if path.stem.endswith("-samples") else "results"
    validator(kind).validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "gpu, stem",
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
        ("NVIDIA", "gpu"),
        ("../NVIDIA A/B", "..-a-b"),
    ],
)
def test_files_are_named_after_the_gpu(gpu: str, stem: str) -> None:
    assert results.stem_of(gpu) == stem


def test_a_row_is_one_line() -> None:
    text = results.dump(document())
    assert len([line for line in text.splitlines() if '"workload"' in line]) == 1
    assert results.dump({"rows": []}) == '{\n  "rows": []\n}\n'


def test_figures_are_medians_over_all_samples() -> None:
    row = document()["rows"][0]
    assert row["ours_us"] == 7.1 and row["cublaslt_graph_us"] == 8.0 and row["torch_graph_slope_us"] == 6.5
    assert (row["host_p50_us"], row["host_p99_us"], row["launch_us"]) == (11.0, 12.0, 1.3)
    assert row["ratios"]["jax"] == pytest.approx(8 / 7.1, abs=1e-4)
    assert row["peers"] == {"jax": {"error_norm": 3e-7}}
