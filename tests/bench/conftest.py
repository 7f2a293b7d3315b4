"""What the tests of the bench share: where it is, fake contestants, and the line of counts that ./check
reads.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
FAKE = pathlib.Path(__file__).resolve().parent / "fake_contestant.py"
sys.path[:0] = [str(BENCH), str(BENCH / "peers")]

from runner import main
from runner.contestants import Command


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {
        name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")
    }
    terminalreporter.ensure_newline()
    terminalreporter.write_line(
        f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped"
    )


@pytest.fixture
def bench() -> pathlib.Path:
    """The folder bench/."""
    return BENCH


@pytest.fixture
def fake() -> Callable[..., Command]:
    """Makes the command of a fake contestant; its options are those of fake_contestant.py."""

    def command(**options: Any) -> Command:
        return Command([sys.executable, str(FAKE), json.dumps(options)])

    return command


@pytest.fixture
def fakes(fake: Callable[..., Command]) -> Callable[..., dict[str, Command]]:
    """Commands of all processes, well-behaved but for the options given by process name."""

    def commands(**options: dict[str, Any]) -> dict[str, Command]:
        usual = {
            "bench_suite": {
                "contestants": ["ours", "cublaslt_fast", "cublaslt_same"],
                "us": {"cublaslt_fast": [12.0]},
            },
            "torch": {
                "contestants": ["torch_graph", "torch_eager"],
                "versions": {"torch": "2.11.0"},
                "us": {"torch_graph": [30.0], "torch_eager": [200.0]},
            },
            "torch_compile": {"contestants": ["torch_compile"], "us": {"torch_compile": [25.0]}},
            "jax": {"contestants": ["jax"], "versions": {"jax": "0.11.2"}, "us": {"jax": [80.0]}},
        }
        return {name: fake(**{**usual[name], **options.get(name, {})}) for name in usual}

    return commands


SUITE = {
    "workloads": [
        {"name": "small", "layers": [16, 64, 5], "activation": "ReLU", "batches": [1, 64]},
        {"name": "large", "layers": [4096, 4096], "activation": "None", "batches": [4096]},
    ]
}


class Bench:
    """A folder with a suite, and bench/run over it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.suite = folder / "suite.json"
        self.suite.write_text(json.dumps(SUITE), encoding="utf-8")
        self.out = folder / "out"

    def run(self, commands: dict[str, Command], *options: str) -> int:
        return main.main(
            [
                "--build",
                str(self.folder),
                "--suite",
                str(self.suite),
                "--out",
                str(self.out),
                "--commit",
                "0123abc",
                "--quick",
                *options,
            ],
            commands,
        )

    def results(self, name: str = "h200.json") -> dict[str, Any]:
        return json.loads((self.out / name).read_text(encoding="utf-8"))

    def row(self, key: str) -> dict[str, Any]:
        return next(
            row for row in self.results()["rows"] if f"{row['workload']}/{row['batch']}/{row['mode']}" == key
        )


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("runner.machine.sm_mhz", lambda: 1980)
    return Bench(tmp_path)
