"""graph_executor_v2.torch on the CPU, where torch is installed, and its absence where it is hidden."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture
def device() -> str:
    return "cpu"


if HAS_TORCH:
    from torch_layer_cases import *  # noqa: F401,F403
    from torch_layer_kept import *  # noqa: F401,F403
else:

    @pytest.mark.skip(reason="torch is not installed")
    def test_the_layer_on_the_cpu() -> None: ...


HIDDEN = """
import sys
sys.modules["torch"] = None
import graph_executor_v2
assert "graph_executor_v2.torch" not in sys.modules
try:
    import graph_executor_v2.torch
except ImportError as error:
    assert str(error).startswith("graph_executor_v2.torch needs PyTorch, which does not import: "), error
else:
    raise SystemExit("imported without torch")
"""


def test_without_torch_the_package_imports_and_its_torch_module_says_why_not() -> None:
    subprocess.run([sys.executable, "-c", HIDDEN], check=True)


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, graph_executor_v2, graph_executor_v2.ops._ops_gemm; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = (
        "import graph_executor_v2.torch, sys, torch; assert hasattr(torch, 'nn'); "
        "assert graph_executor_v2.torch.torch is torch"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
