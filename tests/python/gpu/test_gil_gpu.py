"""The GIL is free while the library waits for the driver or the device (case F7)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

torch = pytest.importorskip("torch")


def captured() -> tuple[ge.Executable, torch.Tensor]:
    x, y = torch.eye(64, device="cuda"), torch.zeros(64, 64, device="cuda")
    program = ge.Program()
    program.forward(x, x, None, y, act="relu")
    executable = ge.capture(program, tuning="off")
    executable.launch()
    executable.wait()
    return executable, y


def cycles_of(seconds: float) -> int:
    """Device cycles of a spin of about this long."""
    probe = 20_000_000
    torch.cuda._sleep(probe)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(probe)
    torch.cuda.synchronize()
    return int(probe * seconds / (time.perf_counter() - begin))


class Ticker:
    """A Python thread that notes the time every millisecond."""

    def __enter__(self) -> Ticker:
        self.ticks: list[float] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def _run(self) -> None:
        while not self.stop.is_set():
            self.ticks.append(time.perf_counter())
            time.sleep(0.001)

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def longest_pause(self, begin: float, end: float) -> float:
        times = [begin, *(tick for tick in self.ticks if begin <= tick <= end), end]
        return max(later - earlier for earlier, later in zip(times, times[1:], strict=False))


def test_f7_a_ticking_thread_keeps_ticking_during_a_long_wait() -> None:
    spin = cycles_of(2.0)
    executable, _ = captured()
    with Ticker() as ticker:
        begin = time.perf_counter()
        torch.cuda._sleep(spin)
        executable.launch()
        executable.wait()
        end = time.perf_counter()
    assert end - begin > 1.5, "the wait was as long as the spin"
    pause = ticker.longest_pause(begin, end)
    assert pause < 0.5, f"the other thread stood still for {pause:.2f} s"


def test_f7_a_ticking_thread_keeps_ticking_during_forward_numpy() -> None:
    x = np.ones((8192, 8192), np.float32)
    gemm.forward_numpy(x[:8, :8], x[:8, :8])  # the context is there
    with Ticker() as ticker:
        begin = time.perf_counter()
        y = gemm.forward_numpy(x, x)
        end = time.perf_counter()
    assert (y == 8192).all()
    pause = ticker.longest_pause(begin, end)
    assert pause < (end - begin) / 2, f"stood still for {pause:.3f} of {end - begin:.3f} s"


def pending_callback(stream: torch.cuda.Stream, release: threading.Event) -> threading.Event:
    """Another library's Python callback holds `stream` up until `release`; set once it has run."""
    cupy = pytest.importorskip("cupy")
    ran = threading.Event()

    def callback(_: object) -> None:
        release.wait(4)
        ran.set()

    cupy.cuda.ExternalStream(stream.cuda_stream).launch_host_func(callback, None)
    return ran


def replay_wait_and_drop(stream: torch.cuda.Stream) -> None:
    executable, y = captured()
    y.zero_()
    torch.cuda.current_stream().synchronize()
    executable.launch(stream)
    executable.wait()
    del executable
    assert torch.equal(y, torch.eye(64, device="cuda"))


def direct_call(stream: torch.cuda.Stream) -> None:
    x, y = torch.eye(64, device="cuda"), torch.zeros(64, 64, device="cuda")
    torch.cuda.current_stream().synchronize()
    gemm.forward(x, x, None, y, gemm.GemmAttrs(), stream)
    stream.synchronize()
    assert torch.equal(x, y)


@pytest.mark.parametrize("work", [replay_wait_and_drop, direct_call])
def test_f7_a_pending_python_callback_does_not_lock_up_a_thread_behind_it(
    work: Callable[[torch.cuda.Stream], None],
) -> None:
    work(torch.cuda.Stream())  # everything is loaded
    stream, release = torch.cuda.Stream(), threading.Event()
    ran = pending_callback(stream, release)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(stream)
        except BaseException as error:  # shown by the main thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    begin = time.perf_counter()
    thread.start()
    time.sleep(0.2)  # the thread is in the driver by now, and the callback still wants the GIL
    release.set()
    thread.join(5)
    took = time.perf_counter() - begin
    assert not thread.is_alive(), "the thread is stuck behind a callback that cannot get the GIL"
    assert not errors, errors
    assert took < 5 and ran.is_set()


def test_f7_dropping_an_executable_in_flight_does_not_wait_for_a_callback() -> None:
    stream, release = torch.cuda.Stream(), threading.Event()
    executable, _ = captured()
    ran = pending_callback(stream, release)
    executable.launch(stream)
    begin = time.perf_counter()
    del executable
    took = time.perf_counter() - begin
    release.set()
    stream.synchronize()
    assert took < 1, f"the drop took {took:.2f} s"
    assert ran.is_set()


def test_f7_threads_call_at_once() -> None:
    """Direct calls and replays from eight threads, each on a stream of its own: all right, none stuck."""
    code = textwrap.dedent(
        """
        import threading
        import torch
        import graph_executor_v2 as ge
        from graph_executor_v2.ops import _ops_gemm as gemm

        errors = []

        def work(i):
            try:
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    x = torch.full((32, 32), float(i), device="cuda")
                    unit, y, z = torch.eye(32, device="cuda"), torch.zeros_like(x), torch.zeros_like(x)
                program = ge.Program()
                program.forward(x, unit, None, z)
                stream.synchronize()
                executable = ge.capture(program, tuning="off")
                for _ in range(200):
                    gemm.forward(x, unit, None, y, gemm.GemmAttrs(), stream)
                    executable.launch(stream)
                executable.wait()
                stream.synchronize()
                assert torch.equal(x, y) and torch.equal(x, z)
            except BaseException as error:
                errors.append(repr(error))

        torch.zeros(1, device="cuda")
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
