"""The machine and the checkout: clocks, the commit, the build, and what tells one set of programs from
another.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parents[2]


class BuildError(Exception):
    """Why there is no bench_suite to run: the command that failed, or the file that is missing."""


def sm_mhz() -> int | None:
    """The clock of the first visible GPU's multiprocessors now; None where nvidia-smi cannot tell."""
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if visible:
        command.append(f"--id={visible}")
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return int(text.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def commit(root: pathlib.Path = ROOT) -> str:
    """The commit that is checked out, with -dirty where a tracked file differs from it; "unknown" outside
    git.
    """

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout

    try:
        name = git("rev-parse", "--short=12", "HEAD").strip()
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results").strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return name + ("-dirty" if changed else "")


def digest(files: Iterable[pathlib.Path]) -> str:
    """A hash over the contents of files; of one that is missing, its name."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode())
        if file.is_file():
            total.update(file.read_bytes())
    return total.hexdigest()[:16]


def bench_suite(build: pathlib.Path | None, log: pathlib.Path) -> pathlib.Path:
    """The program bench_suite of the build folder `build`; without one, build/bench is configured where it is
    new and brought up to date. BuildError names what went wrong; the output of cmake is in `log`.
    """
    if build is not None:
        program = build / "bench" / "bench_suite"
        if not program.is_file():
            raise BuildError(
                f"{program} is missing; cmake --build {build} --target bench_suite makes it, in a build "
                "with GE_WITH_CUDA=ON and GE_BUILD_BENCH=ON"
            )
        return program
    folder = ROOT / "build" / "bench"
    program = folder / "bench" / "bench_suite"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        if not (folder / "CMakeCache.txt").exists():
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            architectures = [] if "CUDAARCHS" in os.environ else ["-DCMAKE_CUDA_ARCHITECTURES=native"]
            _make(
                [
                    "cmake",
                    "-S",
                    str(ROOT),
                    "-B",
                    str(folder),
                    *generator,
                    *architectures,
                    "-DCMAKE_BUILD_TYPE=Release",
                    "-DGE_WITH_CUDA=ON",
                    "-DGE_BUILD_BENCH=ON",
                    "-DGE_BUILD_TESTS=OFF",
                    "-DGE_BUILD_SAMPLES=OFF",
                ],
                output,
                log,
            )
        _make(
            [
                "cmake",
                "--build",
                str(folder),
                "--target",
                "bench_suite",
                "--parallel",
                str(os.cpu_count() or 2),
            ],
            output,
            log,
        )
    if not program.is_file():
        raise BuildError(f"the build made no {program}")
    return program


def _make(command: list[str], output: IO[str], log: pathlib.Path) -> None:
    try:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    except OSError as error:
        raise BuildError(f"{command[0]} could not be started: {error}") from error
    if code != 0:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-5:]
        raise BuildError(
            f"`{' '.join(command)}` failed with exit code {code} (whole log: {log}):\n" + "\n".join(last)
        )
