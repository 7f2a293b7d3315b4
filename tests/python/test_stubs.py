"""The type stubs: they fit the module, a typed program passes mypy, and everything public is documented."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import types

import pytest

import graph_executor_v2 as ge
from graph_executor_v2 import _core

from conftest import ROOT

PACKAGE = pathlib.Path(ge.__file__).parent
HERE = pathlib.Path(__file__).parent

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None or not (PACKAGE / "_core.pyi").exists(),
    reason="mypy is not installed, or the build made no stubs",
)


def mypy(tmp_path: pathlib.Path, module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The package is among the files checked: what is on PYTHONPATH would be taken as it is."""
    return subprocess.run(
        [sys.executable, "-m", module, "--config-file" if module == "mypy" else "--mypy-config-file",
         str(ROOT / "pyproject.toml"), *arguments],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "MYPYPATH": str(PACKAGE.parent),
            "MYPY_CACHE_DIR": str(tmp_path.parent / "mypy_cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_typed_program_passes_mypy_strict(tmp_path: pathlib.Path) -> None:
    done = mypy(tmp_path, "mypy", str(HERE / "typed_program.py"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_s_python_files_pass_mypy_strict(tmp_path: pathlib.Path) -> None:
    done = mypy(tmp_path, "mypy", "-p", "graph_executor_v2")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ge.make_tensor_2d('pointer', (2, 3))", "arg-type"),
        ("ge.capture(1)", "arg-type"),
        ("ge.Program().forwards()", "attr-defined"),
        ("gemm.GemmAttrs(slope=1.0)", "call-arg"),
        ("ge.capture(ge.Program()).rebind(1)", "arg-type"),
    ],
)
def test_a_wrong_program_does_not_pass(tmp_path: pathlib.Path, line: str, complaint: str) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        f"import graph_executor_v2 as ge\nfrom graph_executor_v2.ops import _ops_gemm as gemm\n{line}\n_ = gemm\n"
    )
    done = mypy(tmp_path, "mypy", str(program))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wrong.py:3: error" in done.stdout and complaint in done.stdout


def test_the_stubs_say_what_the_module_has(tmp_path: pathlib.Path) -> None:
    done = mypy(
        tmp_path, "mypy.stubtest", "graph_executor_v2._core", "--allowlist", str(HERE / "stubtest_allowlist.txt"),
        "--ignore-disjoint-bases", PYTHONPATH=str(PACKAGE.parent),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_have_every_name_of_the_module() -> None:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    names = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    names |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    ours = {name for name in dir(_core) if not name.startswith("__") or name == "__version__"}
    assert names == ours


def members_without_docstring() -> list[str]:
    missing = []
    for name, value in vars(_core).items():
        if isinstance(value, types.ModuleType) or (name.startswith("_") and not callable(value)):
            continue
        if callable(value) and not inspect.getdoc(value):
            missing.append(name)
        if not isinstance(value, type) or issubclass(value, BaseException):
            continue
        for member, what in vars(value).items():
            if member.startswith("_") or isinstance(what, value):  # an enum's members are documented by their names
                continue
            if (callable(what) or isinstance(what, property)) and not inspect.getdoc(what):
                missing.append(f"{name}.{member}")
    return missing


def test_every_public_name_has_a_docstring() -> None:
    assert members_without_docstring() == []


def test_every_public_python_function_has_a_docstring() -> None:
    from graph_executor_v2.ops import _ops_common, _ops_gemm

    for module in (ge, _ops_gemm, _ops_common):
        assert module.__doc__
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                assert inspect.getdoc(value), name
