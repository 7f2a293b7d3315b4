"""The Python samples and the guide's GPU code, run as a user runs them, only shorter."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from docs_blocks import README, blocks, run_blocks
from test_samples import SAMPLES, run


def test_torch_mlp_learns_on_the_gpu(message):
    output = run("torch_mlp.py", "--target", "cuda", "--seeds", "2", "--epochs", "15")
    assert output.startswith("target cuda, buffers of torch;")
    accuracy = float(re.search(r"^accuracy ([0-9.]+)$", output, re.M).group(1))
    assert accuracy >= 0.95
    message(f"torch_mlp, 2 seeds of 15 epochs: accuracy {accuracy}")


def test_latency_compares_with_torch(message):
    output = run("latency.py", "--sizes", "8,64", "--rounds", "5")
    assert output.count("size") >= 2 and "torch graph" in output
    assert len(re.findall(r"^ +(?:8|64) (?: +[0-9.]+ \| +[0-9.]+){5} +[0-9.]+$", output, re.M)) == 4, output
    assert output.count("times as quick as torch's") == 2
    for line in output.splitlines():
        if line.startswith("With "):
            message(line)


def test_samples_say_that_there_is_no_gpu_where_it_is_hidden():
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, SAMPLES / "torch_mlp.py", "--target", "cuda"],
        env=hidden,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1 and "torch_mlp: no GPU to use (" in done.stderr


def test_the_guides_gpu_code_runs():
    run_blocks("python gpu")


def test_the_readmes_python_code_runs():
    assert len(blocks("python", README)) == 1
    run_blocks("python", README)
