"""A contestant's process: replies, refusals, and each way to go."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from runner.contestants import Command
from runner.process import KILL_S, Gone, NeverStarted, Process, Refused, TimedOut, reason_of

DESCRIBE = {"do": "describe"}


@pytest.fixture
def start(tmp_path: pathlib.Path, fake: Callable[..., Command]) -> Iterator[Callable[..., Process]]:
    started = []

    def process(**options: Any) -> Process:
        started.append(
            Process("torch", fake(contestants=["jax"], **options).arguments, tmp_path / "torch.log")
        )
        return started[-1]

    yield process
    for one in started:
        one.close(1)


def test_a_request_is_answered(start: Callable[..., Process]) -> None:
    process = start()
    assert process.ask(DESCRIBE, 20)["gpu"] == "NVIDIA H200"
    assert process.ask({"do": "measure", "contestant": "jax"}, 20)["us"] == [10.0, 10.0, 10.0]
    assert process.gone is None


def test_a_reply_longer_than_a_pipe_comes_whole(tmp_path: pathlib.Path) -> None:
    samples = [float(i) for i in range(100_000)]
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'ok': True, 'us': [float(i) for i in range(100000)]}), flush=True)\n"
    )
    long = Process("long", [sys.executable, "-c", code], tmp_path / "log")
    assert long.ask({"do": "measure"}, 20)["us"] == samples
    long.close(1)


def test_a_refusal_carries_its_reason(start: Callable[..., Process]) -> None:
    with pytest.raises(Refused, match="No module named 'torch'") as caught:
        start(absent="No module named 'torch'").ask(DESCRIBE, 20)
    assert caught.value.absent


def test_a_death_is_told_with_code_and_last_words(start: Callable[..., Process]) -> None:
    process = start(die="prepare")
    process.ask(DESCRIBE, 20)
    for _ in range(2):  # and again whenever it is asked
        with pytest.raises(Gone, match="^torch ended with exit code 3: something terrible happened$"):
            process.ask({"do": "prepare", "contestants": []}, 20)
    assert process.gone


def test_a_death_by_signal_is_told(tmp_path: pathlib.Path) -> None:
    process = Process("jax", [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], tmp_path / "log")
    with pytest.raises(Gone, match="jax died of SIGSEGV"):
        process.ask(DESCRIBE, 20)


def test_a_process_that_hangs_is_ended(start: Callable[..., Process]) -> None:
    process = start(hang="prepare")
    process.ask(DESCRIBE, 20)
    began = time.monotonic()
    for _ in range(2):  # the second time at once
        with pytest.raises(TimedOut, match="torch did not answer prepare within 0.2 s"):
            process.ask({"do": "prepare", "contestants": []}, 0.2)
    assert time.monotonic() - began < 10


def test_what_a_hanging_process_started_is_ended_too(tmp_path: pathlib.Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "log"
    process = Process("torch", [sys.executable, "-c", code], log)
    while not log.read_text():
        time.sleep(0.01)
    with pytest.raises(Gone):
        process.ask(DESCRIBE, 0.1)
    stat = pathlib.Path(f"/proc/{log.read_text().strip()}/stat")
    end = time.monotonic() + 10
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.01)


def test_nonsense_ends_the_process(start: Callable[..., Process]) -> None:
    process = start(babble="measure")
    with pytest.raises(Gone, match="torch replied to measure with 'oops', expected a JSON object"):
        process.ask({"do": "measure", "contestant": "jax"}, 20)


def test_a_program_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    process = Process("torch", [str(tmp_path / "nowhere")], tmp_path / "log")
    with pytest.raises(NeverStarted, match="torch could not be started: .*nowhere"):
        process.ask(DESCRIBE, 20)
    process.close()


@pytest.mark.parametrize(
    "why, reason",
    [
        (Gone("it died"), "failed: it died"),
        (TimedOut("it hung"), "failed: it hung"),
        (NeverStarted("no such program"), "no such program"),
        (Refused("no memory", absent=False), "failed: no memory"),
        (Refused("no GPU", absent=True), "no GPU"),
    ],
)
def test_a_reason_tells_a_failure_from_an_absence(why: Gone | Refused, reason: str) -> None:
    assert reason_of(why) == reason


def test_closing_ends_it(start: Callable[..., Process]) -> None:
    process = start()
    process.ask(DESCRIBE, 20)
    assert process._child is not None
    pid = process._child.pid
    process.close(5)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(Gone, match="torch was closed"):
        process.ask(DESCRIBE, 1)


def test_one_that_not_even_a_kill_ends_is_not_waited_for_forever(
    start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(hang="prepare")
    process.ask(DESCRIBE, 20)
    child = process._child
    assert child is not None
    asked = []

    def wait(timeout: float | None = None) -> int:
        asked.append(timeout)
        raise subprocess.TimeoutExpired("torch", timeout or 0)

    with monkeypatch.context() as patched:
        patched.setattr(child, "wait", wait)
        with pytest.raises(Gone, match="torch did not answer prepare within 0.1 s"):
            process.ask({"do": "prepare", "contestants": []}, 0.1)
    assert asked == [KILL_S]
