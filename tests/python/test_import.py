"""What importing the package gives, touches and refuses."""

from __future__ import annotations

import importlib.machinery
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest

import graph_executor_v2 as ge
from graph_executor_v2 import _core
from graph_executor_v2.ops import _ops_common, _ops_gemm

from conftest import ROOT

PACKAGE = pathlib.Path(ge.__file__).parent
CORE = pathlib.Path(_core.__file__)

GEMM = (
    "ActKind GemmAttrs Device DType Layout TensorDesc Tensor make_tensor_2d forward backward forward_ex backward_ex "
    "forward_numpy"
).split()
COMMON = "ActKind GemmAttrs Device DType Layout TensorDesc Tensor make_tensor_2d".split()
PLANS = "Program capture Executable Node mlp target_available libraries GemmError StatusCode __version__".split()


def python(code: str, path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """A process of its own that finds the package in `path` and nowhere else."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env={"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a copy of the package, in which a test may break something."""
    shutil.copytree(PACKAGE, tmp_path / "graph_executor_v2", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "graph_executor_v2"


def import_error(copy: pathlib.Path, code: str = "import graph_executor_v2") -> str:
    done = python(code, copy.parent)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: "), done.stderr
    return last


def test_the_direct_path_has_exactly_its_names() -> None:
    for name in GEMM:
        assert getattr(_ops_gemm, name) is getattr(_core, name)
        assert name in _ops_gemm.__all__


def test_common_types_are_the_same_objects_everywhere() -> None:
    for name in COMMON:
        assert getattr(_ops_common, name) is getattr(_ops_gemm, name) is getattr(ge, name)
        assert name in _ops_common.__all__


def test_plans_are_in_the_package() -> None:
    for name in PLANS:
        assert hasattr(ge, name), name
        assert name in ge.__all__


@pytest.mark.parametrize("module", [ge, _ops_gemm, _ops_common], ids=lambda module: module.__name__)
def test_all_names_what_is_there(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


def test_every_public_name_of_the_extension_is_exported() -> None:
    public = {name for name in dir(_core) if not name.startswith("_")} - {"build_id"}
    assert public - set(ge.__all__) - set(_ops_gemm.__all__) == set()


def test_submodules_are_there_without_an_import_of_their_own() -> None:
    code = """
import graph_executor_v2 as ge, sys
assert "graph_executor_v2.ops" not in sys.modules
assert ge.ops._ops_gemm.forward is ge.ops._ops_gemm.forward
sys.modules["torch"] = None
try:
    ge.torch.linear_act
except ImportError as error:
    assert "needs PyTorch" in str(error), error
else:
    raise SystemExit("imported without torch")
assert not hasattr(ge, "tensor")
"""
    done = python(code, PACKAGE.parent)
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_project_s() -> None:
    project = re.search(r"project\(\w+ VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None and ge.__version__ == project[1]


def test_importing_loads_no_cuda_library_and_no_array_package() -> None:
    code = """
import sys
import graph_executor_v2
from graph_executor_v2.ops import _ops_gemm
assert not {"numpy", "torch", "cupy"} & set(sys.modules), sys.modules.keys()
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if ".so" in line}
assert not [file for file in files if "cuda" in file.rsplit("/")[-1] or "cublas" in file or "nvrtc" in file], files
"""
    done = python(code, PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def test_the_extension_exports_nothing_but_its_init() -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    done = subprocess.run(["nm", "-D", "--defined-only", str(CORE)], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__core"]


def test_a_copy_of_the_package_works(copy: pathlib.Path) -> None:
    done = python("import graph_executor_v2.ops._ops_gemm as gemm; print(gemm.__file__)", copy.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(copy / "ops/_ops_gemm.py")


@pytest.mark.parametrize("name", ["_ops_gemm", "_ops_common"])
@pytest.mark.parametrize("suffix", importlib.machinery.EXTENSION_SUFFIXES)
def test_an_old_extension_module_in_our_place_is_refused(copy: pathlib.Path, name: str, suffix: str) -> None:
    stray = copy / "ops" / (name + suffix)
    shutil.copy(CORE, stray)
    said = import_error(copy, "import graph_executor_v2.ops")
    assert str(stray) in said and "Delete" in said
    assert f"graph_executor_v2.ops.{name}" in said


def test_an_old_module_that_is_loaded_already_is_refused(copy: pathlib.Path) -> None:
    code = """
import sys, types
old = types.ModuleType("graph_executor_v2.ops._ops_gemm")
old.__file__ = "/elsewhere/_ops_gemm.so"
sys.modules[old.__name__] = old
import graph_executor_v2.ops
"""
    assert "/elsewhere/_ops_gemm.so" in import_error(copy, code)


def test_a_finder_that_would_take_another_file_is_refused(copy: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.py").write_text("")
    code = f"""
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.endswith("._ops_gemm"):
            return importlib.util.spec_from_file_location(name, {str(tmp_path / "other.py")!r})
sys.meta_path.insert(0, Finder)
import graph_executor_v2.ops
"""
    assert str(tmp_path / "other.py") in import_error(copy, code)


def test_python_files_and_extension_of_different_builds_are_refused(copy: pathlib.Path) -> None:
    (copy / "_build.py").write_text('BUILD_ID = "0123456789abcdef"\n')
    said = import_error(copy)
    for part in (str(copy / CORE.name), str(copy), "0123456789abcdef", _core.build_id, "pip uninstall"):
        assert part in said


def test_an_extension_of_a_build_that_had_no_identity_is_refused(copy: pathlib.Path) -> None:
    (copy / "_build.py").unlink()
    said = import_error(copy)
    assert "_build.py" in said and str(copy / CORE.name) in said and "pip uninstall" in said


def test_a_source_tree_says_that_it_has_no_extension(copy: pathlib.Path) -> None:
    (copy / CORE.name).unlink()
    said = import_error(copy)
    assert "has no extension module" in said and "pip install" in said and str(copy) in said


def test_an_extension_for_another_python_is_named(copy: pathlib.Path) -> None:
    (copy / CORE.name).rename(copy / "_core.cpython-399-x86_64-linux-gnu.so")
    said = import_error(copy)
    assert "_core.cpython-399-x86_64-linux-gnu.so" in said
    assert f"_core{sysconfig.get_config_var('EXT_SUFFIX')}" in said
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in said and sys.executable in said


def test_an_extension_that_does_not_load_says_why(copy: pathlib.Path) -> None:
    (copy / CORE.name).unlink()
    (copy / CORE.name).write_bytes(b"\x7fELF, but no more than that")
    said = import_error(copy)
    assert str(copy / CORE.name) in said and "does not load" in said


def test_site_packages_name_where_nvidia_s_wheels_may_be(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nvidia").mkdir()
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})  # the environment's own may have some too
from graph_executor_v2._loading import site_packages
print(*site_packages(), sep="\\n")
"""
    folders = python(code, PACKAGE.parent).stdout.splitlines()
    assert folders[0] == str(tmp_path)
    assert sysconfig.get_path("purelib") in folders
    assert len(folders) == len(set(folders))
