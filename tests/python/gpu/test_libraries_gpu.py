"""Case E3 on a GPU: calls find cuBLASLt with torch imported before, after or never, and say where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable

import pytest

# A product large enough that cuBLASLt is among the candidates.
USE = """
import numpy
{first}
import graph_executor_v2 as ge
{second}
from graph_executor_v2.ops import _ops_gemm as gemm
a = numpy.ones((512, 512), numpy.float32)
y = gemm.forward_numpy(a, a)
assert (y == 512).all(), y
{third}
rows = ge.libraries()
assert all(row.error is None for row in rows), rows
with open("/proc/self/maps") as maps:
    loaded = {{line.split()[-1] for line in maps if "libcublasLt.so" in line}}
assert len(loaded) == 1, loaded
print("; ".join(f"{{row.name}} {{row.loaded}} (compiled against {{row.compiled}}) from {{row.file}}" for row in rows))
"""
TORCH = "import torch; torch.ones(8, 8, device='cuda') @ torch.ones(8, 8, device='cuda'); torch.cuda.synchronize()"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("when", ["before", "between", "after", "never"])
def test_e3_cublaslt_is_found_once_whenever_torch_is_imported(when: str, message: Callable[[str], None]) -> None:
    steps = {"first": "", "second": "", "third": ""}
    place = {"before": "first", "between": "second", "after": "third"}.get(when)
    if place is not None:
        steps[place] = TORCH
    done = run(USE.format(**steps))
    assert done.returncode == 0, done.stderr
    message(f"torch {when}: {done.stdout.strip()}".replace(f"{sysconfig.get_path('purelib')}/", ".../site-packages/"))


def test_e3_a_call_without_cublaslt_is_right_or_says_what_is_missing() -> None:
    code = """
import numpy
import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm
a = numpy.ones((512, 512), numpy.float32)
try:
    assert (gemm.forward_numpy(a, a) == 512).all()  # by a kernel of the library's own
except ge.GemmError as error:
    assert error.status == ge.StatusCode.Unsupported and "/nowhere/libcublasLt.so.13" in str(error), error
assert "/nowhere/libcublasLt.so.13" in ge.libraries()[0].error
"""
    done = run(code, GRAPH_EXECUTOR_CUBLASLT="/nowhere/libcublasLt.so.13")
    assert done.returncode == 0, done.stderr
