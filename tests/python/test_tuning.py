"""Tuning options and reports as Python sees them, on the host target, where nothing is measured."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from arrays import ramp, zeros

import graph_executor_v2 as ge


def small() -> ge.Program:
    program = ge.Program()
    program.forward(np.eye(2, dtype=np.float32), ramp(2, 2), None, zeros(2, 2))
    return program


@pytest.fixture(autouse=True)
def path_of_the_environment():
    yield
    ge.set_tuning_cache_path(None)


@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path])
def test_the_path_is_set_in_any_form_a_path_has(form, tmp_path):
    wanted = tmp_path / "tuning \N{GREEK SMALL LETTER MU}.json"
    ge.set_tuning_cache_path(form(wanted))
    assert ge.tuning_cache_path() == str(wanted)
    ge.set_tuning_cache_path("")
    assert ge.tuning_cache_path() == ""


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"GRAPH_EXECUTOR_TUNING_CACHE": "/a/b.json"}, "/a/b.json"),
        ({"GRAPH_EXECUTOR_TUNING_CACHE": "off"}, ""),
        ({"GRAPH_EXECUTOR_TUNING_CACHE": ""}, ""),
        ({"XDG_CACHE_HOME": "/a", "HOME": "/b"}, "/a/graph_executor/tuning.json"),
        ({"HOME": "/b"}, "/b/.cache/graph_executor/tuning.json"),
    ],
)
def test_the_environment_names_the_file(variables, path):
    names = ("GRAPH_EXECUTOR_TUNING_CACHE", "XDG_CACHE_HOME", "HOME")
    others = {name: value for name, value in os.environ.items() if name not in names}
    code = "import graph_executor_v2 as ge; print(ge.tuning_cache_path())"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**others, **variables}, capture_output=True, text=True, check=True
    )
    assert run.stdout == path + "\n"


@pytest.mark.parametrize("path", [1, [], b"a\0b", "a\0b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError if path in (1, []) else ValueError):
        ge.set_tuning_cache_path(path)


@pytest.mark.parametrize("tuning", ["remeasure", "Remeasure", ge.Tuning.Remeasure])
def test_remeasuring_is_an_option(tuning):
    assert ge.capture(small(), tuning=tuning, tuning_cache="").tuning.tasks == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("tuning_cache", 1), ("on_tuning_progress", "print"), ("on_tuning_warning", 7)],
)
def test_options_of_another_type_are_named(option, value):
    with pytest.raises(TypeError, match=option):
        ge.capture(small(), **{option: value})


def test_the_host_chooses_nothing_and_reads_no_file(tmp_path):
    damaged = tmp_path / "tuning.json"
    damaged.write_text("{")
    heard: list[object] = []
    executable = ge.capture(
        small(), tuning_cache=damaged, on_tuning_progress=heard.append, on_tuning_warning=heard.append
    )
    report = executable.tuning
    assert heard == []
    assert damaged.read_text() == "{"
    assert (report.tasks, report.recalled, report.measured) == (0, 0, 0)
    assert (report.candidates_timed, report.heuristic_queries) == (0, 0)
    assert repr(report).startswith("TuningReport(tasks=0, recalled=0, measured=0, candidates_timed=0")
    assert executable.clone().tuning.seconds == 0
