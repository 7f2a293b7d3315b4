"""Threads that share an executable on the host target, and the GIL."""

from __future__ import annotations

import threading

import numpy as np
from arrays import stepped, zeros

import graph_executor_v2 as ge


def test_threads_may_share_an_executable():
    x, total = np.ones((1, 1), np.float32), zeros(1, 1)
    inside, most = [0], [0]

    def fn(stream, reads, writes):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        for _ in range(50):
            pass
        inside[0] -= 1

    program = ge.Program()
    program.step("watch", [x], [], fn)
    program.forward(x, x, None, total, C=total, beta=1.0)
    executable = ge.capture(program)
    failures = []

    def work():
        try:
            for _ in range(300):
                executable.launch()
                executable.explain()
                executable.wait()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    assert most[0] == 1
    assert total[0, 0] == 1200


def test_the_gil_is_free_during_a_launch():
    go, went = threading.Event(), threading.Event()

    def fn(stream, reads, writes):
        go.set()
        assert went.wait(30)

    thread = threading.Thread(target=lambda: (go.wait(30), went.set()))
    thread.start()
    stepped(fn).launch()
    thread.join(30)
    assert went.is_set()


def test_a_thread_that_waits_its_turn_holds_nobody_up():
    entered, release, results = threading.Event(), threading.Event(), []

    def fn(stream, reads, writes):
        entered.set()
        assert release.wait(30)

    executable = stepped(fn)
    first = threading.Thread(target=executable.launch)
    first.start()
    assert entered.wait(30)
    second = threading.Thread(target=lambda: results.append(executable.explain()))
    second.start()
    second.join(0.05)
    assert second.is_alive() and not results
    release.set()
    first.join(30)
    second.join(30)
    assert results
