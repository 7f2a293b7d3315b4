"""sdist -> wheel -> a clean virtual environment, in which the package is imported and computes on the host.

GE_CMAKE_DEFINE ("NAME=VALUE,VALUE|...") goes to the wheel's build; GE_PACKAGE_FOLDER is where everything is built, so that a
second run finds its objects in the compiler cache.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from conftest import ROOT

PROGRAM = """
import ctypes, sys
from graph_executor_v2.ops import _ops_gemm as gemm
import graph_executor_v2 as ge

assert "numpy" not in sys.modules
memory = [(ctypes.c_float * 4)(1, 2, 3, 4) for _ in range(3)]
A, B, Y = (gemm.make_tensor_2d(ctypes.addressof(m), (2, 2), device=gemm.Device.CPU) for m in memory)
gemm.forward(A, B, None, Y, gemm.GemmAttrs(act="relu"), None)
assert list(memory[2]) == [7, 10, 15, 22], list(memory[2])
try:
    ge.target_available("cuda")
    print("CUDA target: usable")
except ge.GemmError as error:
    print("CUDA target:", error)
print(ge.__version__, ge.with_cuda)
"""

NUMPY_PROGRAM = """
import numpy
from graph_executor_v2.ops import _ops_gemm as gemm

a = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
b = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
y = gemm.forward_numpy(a, b, numpy.float32([-20, -20, -20, -20]), "relu", device=gemm.Device.CPU)
assert (y == numpy.maximum(a @ b - 20, 0)).all(), y
print("forward_numpy", y.tolist())
"""


def run(*command: str | pathlib.Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def files_of(*folders: str) -> set[str]:
    """The files in the folders but what git ignores; all of them where it cannot be asked."""
    if (ROOT / ".git").exists() and shutil.which("git") is not None:
        return set(run("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT).splitlines())
    files = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    given = os.environ.get("GE_PACKAGE_FOLDER")
    path = pathlib.Path(given) if given else tmp_path_factory.mktemp("package")
    path.mkdir(parents=True, exist_ok=True)
    for old in ("dist", "source", "venv"):
        shutil.rmtree(path / old, ignore_errors=True)
    return path


@pytest.fixture(scope="module")
def sdist(folder: pathlib.Path) -> pathlib.Path:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder / "dist", ROOT)
    (path,) = (folder / "dist").glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(folder: pathlib.Path, sdist: pathlib.Path) -> pathlib.Path:
    with tarfile.open(sdist) as archive:
        (folder / "source").mkdir()
        archive.extractall(folder / "source", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = (folder / "source").iterdir()
    settings = [f"-Cbuild-dir={source / 'build/wheel'}"]  # as deep as build/cuda: the same for a compiler cache
    defines = os.environ.get("GE_CMAKE_DEFINE", "").replace(",", ";").split("|")
    settings += [f"-Ccmake.define.{each}" for each in defines if each]
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", *settings, source)
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(folder: pathlib.Path, wheel: pathlib.Path) -> pathlib.Path:
    """The interpreter of a virtual environment that has the wheel and nothing else."""
    run(sys.executable, "-m", "venv", folder / "venv")
    path = folder / "venv/bin/python"
    run(path, "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    return path


def clean_run(python: pathlib.Path, code: str) -> str:
    return run(python, "-I", "-c", code, cwd="/", env={"PATH": os.environ["PATH"]}, timeout=120)


def test_the_sdist_holds_the_sources_and_nothing_else(sdist: pathlib.Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    expected = {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"}
    expected |= files_of("cmake", "lib", "kernels", "capture", "python")
    assert names == expected


def test_the_wheel_holds_the_package_and_nothing_else(wheel: pathlib.Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"graph_executor_v2/{path.relative_to(ROOT / 'python/graph_executor_v2')}"
        for pattern in ("*.py", "ops/*.py", "py.typed")
        for path in (ROOT / "python/graph_executor_v2").glob(pattern)
    }
    package = {name for name in names if ".dist-info/" not in name}
    extensions = {name for name in package if name.endswith(".so")}
    assert len(extensions) == 1 and extensions.pop().startswith("graph_executor_v2/_core.")
    assert {name for name in package if not name.endswith(".so")} == sources | {
        "graph_executor_v2/_build.py",
        "graph_executor_v2/_core.pyi",
    }
    assert [name for name in names if name.endswith("/LICENSE")]
    assert "linux" in wheel.name and f"cp{sys.version_info.major}{sys.version_info.minor}" in wheel.name


def test_the_wheel_s_version_is_the_project_s(wheel: pathlib.Path) -> None:
    project = re.search(r"project\(\w+ VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None and wheel.name.startswith(f"graph_executor_v2-{project[1]}-")


def test_a_clean_environment_imports_it_and_computes_without_numpy(python: pathlib.Path) -> None:
    said = clean_run(python, PROGRAM)
    assert "CUDA target: " in said
    with_cuda = "GE_WITH_CUDA=ON" in os.environ.get("GE_CMAKE_DEFINE", "")
    if with_cuda:
        assert said.rstrip().endswith("True")


def test_forward_numpy_says_that_numpy_is_missing(python: pathlib.Path) -> None:
    code = """
import ctypes
from graph_executor_v2.ops import _ops_gemm as gemm
square = (ctypes.c_float * 2 * 2)()
try:
    gemm.forward_numpy(square, square, device=gemm.Device.CPU)
except ImportError as error:
    assert "numpy" in str(error).lower(), error
else:
    raise SystemExit("forward_numpy worked without NumPy")
"""
    clean_run(python, code)


def test_a_clean_environment_with_numpy_runs_forward_numpy_on_the_host(python: pathlib.Path) -> None:
    if subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", "numpy"], capture_output=True).returncode != 0:
        pytest.skip("NumPy cannot be installed into a clean environment here")
    assert "forward_numpy" in clean_run(python, NUMPY_PROGRAM)


def test_pip_removes_all_of_it(python: pathlib.Path) -> None:
    where = pathlib.Path(clean_run(python, "import graph_executor_v2 as ge; print(ge.__path__[0])").strip())
    run(python, "-I", "-m", "pip", "uninstall", "--quiet", "--yes", "graph_executor_v2")
    assert not [path for path in where.rglob("*") if path.is_file() and path.suffix != ".pyc"]
