"""Case E3: cuBLASLt and NVRTC are found in a toolkit and in NVIDIA's wheels, or an error says where they were not.

Every test asks a process of its own: what is loaded stays loaded.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import graph_executor_v2 as ge

pytestmark = pytest.mark.skipif(not ge.with_cuda, reason="built without CUDA")

REPORT = """
import json, sys
sys.path[:0] = {before!r}
import graph_executor_v2 as ge
print(json.dumps([library._asdict() for library in ge.libraries()]))
"""


def report(before: tuple[str, ...] = (), **environment: str) -> dict[str, dict[str, str | None]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPH_EXECUTOR", "CUDA"))}
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(before=list(before))],
        env={**clean, "LD_LIBRARY_PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def found() -> dict[str, pathlib.Path]:
    """The files of the libraries that are loaded where nothing is said."""
    rows = report()
    missing = [str(row["error"]) for row in rows.values() if row["error"]]
    if missing:
        pytest.skip(missing[0].splitlines()[0])
    return {name: pathlib.Path(str(row["file"])).resolve() for name, row in rows.items()}


SONAME = {"cuBLASLt": "libcublasLt.so.13", "NVRTC": "libnvrtc.so.13"}
VARIABLE = {"cuBLASLt": "GRAPH_EXECUTOR_CUBLASLT", "NVRTC": "GRAPH_EXECUTOR_NVRTC"}
WHEEL = {"cuBLASLt": "nvidia/cublas/lib", "NVRTC": "nvidia/cuda_nvrtc/lib"}


def test_e3_the_versions_compiled_and_loaded_are_reported(found: dict[str, pathlib.Path]) -> None:
    rows = report()
    assert list(rows) == ["cuBLASLt", "NVRTC"]
    for row in rows.values():
        assert row["error"] is None
        assert str(row["loaded"]).split(".")[0] == str(row["compiled"]).split(".")[0] == "13"
        assert pathlib.Path(str(row["file"])).exists()


@pytest.mark.parametrize("library", SONAME)
@pytest.mark.parametrize("folder", ["own", "nvidia/cu13/lib"])
def test_e3_the_wheels_on_sys_path_come_before_the_toolkit(
    found: dict[str, pathlib.Path], library: str, folder: str, tmp_path: pathlib.Path
) -> None:
    place = tmp_path / (WHEEL[library] if folder == "own" else folder)
    place.mkdir(parents=True)
    (place / SONAME[library]).symlink_to(found[library])
    row = report(before=(str(tmp_path),))[library]
    assert row["error"] is None
    assert row["file"] == str(place / SONAME[library])


@pytest.mark.parametrize("library", SONAME)
def test_e3_a_library_that_is_hidden_gives_an_error_that_names_it(library: str, tmp_path: pathlib.Path) -> None:
    missing = str(tmp_path / "nowhere" / SONAME[library])
    row = report(**{VARIABLE[library]: missing})[library]
    assert row["loaded"] is None and row["file"] is None
    for part in (library, SONAME[library], "major version 13", VARIABLE[library], missing):
        assert part in str(row["error"])


def test_e3_another_major_version_is_named(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "nvidia/cublas/lib"
    place.mkdir(parents=True)
    (place / "libcublasLt.so.12").touch()
    row = report(before=(str(tmp_path),), GRAPH_EXECUTOR_CUBLASLT=str(place / "libcublasLt.so.13"))["cuBLASLt"]
    assert str(place / "libcublasLt.so.12") in str(row["error"])
    assert "found another version" in str(row["error"])


def test_e3_a_file_that_is_no_library_is_passed_over(found: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    place = tmp_path / "nvidia/cublas/lib"
    place.mkdir(parents=True)
    (place / SONAME["cuBLASLt"]).write_text("not a library")
    row = report(before=(str(tmp_path),))["cuBLASLt"]
    assert row["error"] is None and pathlib.Path(str(row["file"])).resolve() == found["cuBLASLt"]
