"""The Python samples on the host, with NumPy or with torch where it is installed."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples" / "python"
HIDE_TORCH = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(name: str, *arguments: str, without_torch: bool = False) -> str:
    """The sample's standard output; fails with its errors."""
    start = ["-c", HIDE_TORCH] if without_torch else []
    done = subprocess.run(
        [sys.executable, *start, str(SAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("without_torch", [True, False])
def test_torch_mlp_learns_on_the_host(without_torch: bool) -> None:
    if not without_torch and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    output = run(
        "torch_mlp.py", "--target", "host", "--seeds", "1", "--epochs", "4", without_torch=without_torch
    )
    library = "numpy" if without_torch else "torch"
    assert output.startswith(
        f"target host, buffers of {library}; 64-128-64-10 ReLU; 1347 images to train on, 450"
    )
    first, last = map(
        float, re.search(r"^seed 1: loss ([0-9.]+) -> ([0-9.]+), test accuracy", output, re.M).groups()
    )
    assert last < first / 3
    # Four epochs get there with room: NumPy alone, the same network and seed, reaches 0.947.
    assert float(re.search(r"^accuracy ([0-9.]+)$", output, re.M).group(1)) >= 0.9


def test_latency_shows_what_it_can_without_a_gpu() -> None:
    output = run("latency.py", "--sizes", "8,16", "--rounds", "3", without_torch=True)
    assert output.startswith("not compared with torch on a GPU: PyTorch is not installed")
    assert len(re.findall(r"^ +(?:8|16)(?: +[0-9.]+){4}$", output, re.M)) == 2, output


def test_latency_names_the_size_where_the_advantage_fades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SAMPLES))
    import latency

    def rows(**eager: float) -> dict:
        return {
            int(size[1:]): {"direct/torch": (5.0, 10.0), "torch": (time, 9.0)} for size, time in eager.items()
        }

    assert latency.fading((8, 64, 512), rows(_8=30, _64=25, _512=10)) == (
        "a direct call on torch tensors is up to 3.0 times as quick as torch's (at 8); from 512 on less than "
        "1.1 times: there both wait for the GPU."
    )
    assert "still 2.50 times at 64" in latency.fading((8, 64), rows(_8=30, _64=25))
    # Once below and above again: it has not faded yet.
    assert "from 512 on" in latency.fading((8, 64, 512), rows(_8=10, _64=25, _512=10))
