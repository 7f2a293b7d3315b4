"""The identity of a build: equal for equal inputs wherever they lie, different for anything else."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not on PATH")


def identity(folder: pathlib.Path, text: str = "int x;", package: str = "p", options: str = "-O3") -> tuple[str, str]:
    source = folder / "src/a file.cpp"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    (folder / "sources.txt").write_text(f"{source}\n")
    arguments = {"PACKAGE": package, "OPTIONS": options, "ROOT": folder, "SOURCES": folder / "sources.txt"}
    outputs = {"HEADER": folder / "build_id.hpp", "MODULE": folder / "_build.py"}
    defines = [f"-D{name}={value}" for name, value in {**arguments, **outputs}.items()]
    subprocess.run(["cmake", *defines, "-P", str(ROOT / "python/build_id.cmake")], check=True, capture_output=True)
    names: dict[str, str] = {}
    exec(outputs["MODULE"].read_text(), names)
    return names["BUILD_ID"], outputs["HEADER"].read_text()


def test_equal_inputs_in_two_places_give_one_identity(tmp_path: pathlib.Path) -> None:
    assert identity(tmp_path / "one") == identity(tmp_path / "two")


def test_the_header_and_the_module_agree(tmp_path: pathlib.Path) -> None:
    build_id, header = identity(tmp_path)
    assert f'#define GE_BUILD_ID "{build_id}"' in header and f"#define NB_DOMAIN p_{build_id}" in header


@pytest.mark.parametrize("change", [{"text": "int y;"}, {"package": "q"}, {"options": "-O2"}], ids=str)
def test_any_other_input_gives_another_identity(tmp_path: pathlib.Path, change: dict[str, str]) -> None:
    assert identity(tmp_path)[0] != identity(tmp_path, **change)[0]
