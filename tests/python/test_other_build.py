"""Case E7: objects of another build of the module give TypeError, never a crash, whichever is imported first."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILDS = ("graph_executor_v2", "graph_executor_v2_other")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(BUILDS[1]) is None, reason="the second build of the package is not on PYTHONPATH"
)


def run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "other_build.py"), *arguments], env=os.environ, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "each build refuses the other's objects\n"
    assert done.stderr == ""


@pytest.mark.parametrize("order", [BUILDS, BUILDS[::-1]], ids=["ours first", "other first"])
@pytest.mark.parametrize("numpy", ["before", "between", "after", "never"])
def test_e7_objects_of_another_build_are_refused(order: tuple[str, str], numpy: str) -> None:
    run(*order, *([] if numpy == "never" else ["numpy", numpy]))


def test_e7_the_two_builds_have_different_identities() -> None:
    import graph_executor_v2
    import graph_executor_v2_other

    assert graph_executor_v2._core.build_id != graph_executor_v2_other._core.build_id
