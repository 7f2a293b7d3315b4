"""What the Python tests share: the line of counts that ./check reads, and the package under test."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

os.environ["GRAPH_EXECUTOR_TUNING_CACHE"] = "off"  # the user's own file is none of the tests' business

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    if any(counts.values()) and getattr(terminalreporter.config, "nothing_can_run", None) is None:
        terminalreporter.ensure_newline()
        terminalreporter.write_line(
            f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped"
        )


@pytest.fixture
def message() -> Callable[[str], None]:
    """Prints what a record of the tests should hold, such as a time measured."""
    return lambda text: print(f"\nMESSAGE: {text}")
