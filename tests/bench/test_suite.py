"""The list of workloads: what is in it, and what is said of a bad one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from runner.suite import SuiteError, load, rows

GOOD = {"name": "jet", "layers": [16, 64, 5], "activation": "ReLU", "batches": [1, 64]}


def written(folder: pathlib.Path, document: Any) -> pathlib.Path:
    path = folder / "suite.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def test_the_suite_holds_exactly_the_workloads_that_results_are_quoted_for(bench: pathlib.Path) -> None:
    suite = load(bench / "suite.json")
    assert [(w.name, w.layers, w.activation, w.batches) for w in suite] == [
        ("jet", (16, 64, 32, 32, 5), "ReLU", (1, 64)),
        ("policy", (64, 256, 256, 8), "ReLU", (1, 64)),
        ("policy_tanh", (64, 64, 64, 8), "Tanh", (1, 64)),
        ("legged", (235, 512, 256, 128, 12), "ELU", (1, 64)),
        ("anomaly", (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640), "ReLU", (1,)),
        ("pinn", (3, 20, 20, 20, 20, 20, 20, 20, 20, 2), "Tanh", (256,)),
        ("ncf", (256, 256, 128, 64), "ReLU", (128,)),
        ("ranking", (479, 1024, 1024, 512, 256, 1), "ReLU", (1, 128)),
        ("radiance", (64, 64, 64, 64, 64, 64), "ReLU", (16384,)),
        ("wide", (1024, 1024, 1024, 1024, 1024), "ReLU", (1, 16, 256)),
        ("ffn", (4096, 11008, 4096), "GELUTanh", (1, 16, 512)),
        ("gemm", (4096, 4096), "None", (4096,)),
    ]
    assert len(rows(suite)) == 63


def test_rows_come_in_suite_order_and_can_be_chosen(bench: pathlib.Path) -> None:
    suite = load(bench / "suite.json")
    chosen = rows(suite, only=["wide", "jet"], batches=[1], modes=["train_step", "forward"])
    assert [row.key for row in chosen] == [
        "jet/1/forward",
        "jet/1/train_step",
        "wide/1/forward",
        "wide/1/train_step",
    ]
    assert chosen[0].request() == {
        "workload": "jet",
        "layers": [16, 64, 32, 32, 5],
        "activation": "ReLU",
        "batch": 1,
        "mode": "forward",
    }


@pytest.mark.parametrize(
    "choice, message",
    [
        ({"only": ["jets"]}, "no such workload: jets; there are jet, policy"),
        ({"batches": [2]}, "no such batch: 2; there are 1, 16"),
        ({"modes": ["backward"]}, "no such mode: backward; there are forward, forward_backward, train_step"),
        ({"only": ["jet"], "batches": [4096]}, "no row is left"),
    ],
)
def test_a_choice_that_is_not_there_is_refused(
    bench: pathlib.Path, choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(SuiteError, match=message):
        rows(load(bench / "suite.json"), **choice)


@pytest.mark.parametrize(
    "document, message",
    [
        ("{", "suite.json: Expecting"),
        ([], 'expected {"workloads"'),
        ({"workloads": []}, "with one workload or more"),
        ({"workloads": [3]}, "workload 0 is 3, expected an object"),
        ({"workloads": [{**GOOD, "bathces": [1]}]}, "workload 0 has the fields .*bathces"),
        ({"workloads": [{**GOOD, "name": ""}]}, "name is '', expected a word"),
        (
            {"workloads": [{**GOOD, "layers": [16]}]},
            r"workload 0 \(jet\): layers is \[16\], expected two or more",
        ),
        ({"workloads": [{**GOOD, "layers": [16, 0]}]}, r"layers is \[16, 0\]"),
        ({"workloads": [{**GOOD, "layers": [16, True]}]}, r"layers is \[16, True\]"),
        ({"workloads": [{**GOOD, "batches": []}]}, r"batches is \[\]"),
        ({"workloads": [{**GOOD, "batches": [1, 1]}]}, "which names one twice"),
        ({"workloads": [{**GOOD, "activation": "Relu"}]}, "activation is 'Relu', expected one of None, ReLU"),
        ({"workloads": [GOOD, GOOD]}, "two workloads are called jet"),
    ],
)
def test_a_bad_suite_names_the_entry_and_what_was_wanted(
    tmp_path: pathlib.Path, document: Any, message: str
) -> None:
    with pytest.raises(SuiteError, match=message):
        load(written(tmp_path, document))


def test_a_suite_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SuiteError, match="nowhere.json"):
        load(tmp_path / "nowhere.json")
