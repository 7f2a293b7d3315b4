"""Case E7 beside torch: two builds of the module, and torch imported before, between and after them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import graph_executor_v2 as ge

HERE = pathlib.Path(__file__).resolve().parents[1]
BUILDS = ("graph_executor_v2", "graph_executor_v2_other")
FOLDERS = (pathlib.Path(ge.__file__).parents[1], pathlib.Path(ge.__file__).parents[1] / "tests")

pytestmark = pytest.mark.skipif(
    not (FOLDERS[1] / BUILDS[1]).exists(), reason=f"{FOLDERS[1]} has no second build of the package"
)


@pytest.mark.parametrize("order", [BUILDS, BUILDS[::-1]], ids=["ours first", "other first"])
@pytest.mark.parametrize("torch", ["before", "between", "after"])
def test_e7_objects_of_another_build_are_refused_beside_torch(order: tuple[str, str], torch: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "other_build.py"), *order, "torch", torch],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("each build refuses the other's objects\n")
