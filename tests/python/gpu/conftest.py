"""Tests that need a GPU. Without one every test is skipped, and pytest ends with exit code 77."""

from __future__ import annotations

import importlib.util

import pytest


def _why_not() -> str | None:
    import graph_executor_v2 as ge

    try:
        ge.target_available("cuda")
    except ge.GemmError as error:
        return str(error).splitlines()[0]
    missing = [name for name in ("numpy", "torch") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if "gpu" in item.path.parent.parts[-1:]]
    reason = _why_not() if here else None
    if reason is None:
        return
    for item in here:
        item.add_marker(pytest.mark.skip(reason=reason))
    if len(here) == len(items):
        config.nothing_can_run = reason  # type: ignore[attr-defined]


def pytest_sessionfinish(session: pytest.Session) -> None:
    reason = getattr(session.config, "nothing_can_run", None)
    if reason is not None and session.exitstatus == pytest.ExitCode.OK:
        session.config.get_terminal_writer().line(f"\nskipped: {reason}")
        session.exitstatus = 77
