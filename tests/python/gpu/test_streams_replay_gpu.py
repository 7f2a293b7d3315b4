"""Case F1 for capture and replay: every way to name a stream, and the order on it."""

from __future__ import annotations

import contextlib
import ctypes
import threading

import pytest

torch = pytest.importorskip("torch")

from replay import integers, layer, product, slow_layer  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402

LOOPS = 1000
K = 64


def capsule_of(handle: int):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(handle, None, None)


OWN_STREAM = {
    "torch.cuda.Stream": lambda stream: stream,
    "int": lambda stream: stream.cuda_stream,
    "c_void_p": lambda stream: ctypes.c_void_p(stream.cuda_stream),
    "PyCapsule": lambda stream: capsule_of(stream.cuda_stream),
}
DEFAULT_STREAM = {
    "None": None,
    "0": 0,
    "1": 1,
    "torch.cuda.default_stream": "torch",
}


def replay_behind_torch(current, argument) -> None:
    """A is produced on the stream, Y consumed on it, a thousand times without waiting."""
    with torch.cuda.stream(current):
        a, b = torch.zeros(16, K, device="cuda"), torch.ones(K, 16, device="cuda")
        y, results = torch.zeros(16, 16, device="cuda"), torch.zeros(LOOPS, device="cuda")
        torch.cuda.synchronize()
        executable = layer(a, b, y)
        for i in range(LOOPS):
            torch.cuda._sleep(20_000)  # else the work is done before the launch
            a.fill_(i % 100)
            executable.launch(argument)
            results[i].copy_(y[7, 9])
            a.fill_(-1)
    torch.cuda.synchronize()
    assert torch.equal(results.cpu(), K * (torch.arange(LOOPS) % 100).float())


@pytest.mark.parametrize("name", OWN_STREAM)
def test_f1_replay_is_ordered_on_a_stream_of_torch(name):
    stream = torch.cuda.Stream()
    replay_behind_torch(stream, OWN_STREAM[name](stream))


@pytest.mark.parametrize("name", DEFAULT_STREAM)
def test_f1_replay_is_ordered_on_the_legacy_default_stream(name):
    argument = DEFAULT_STREAM[name]
    current = torch.cuda.default_stream()
    replay_behind_torch(current, current if argument == "torch" else argument)


CUPY_STREAMS = {
    "null": lambda cupy: cupy.cuda.Stream.null,
    "own": lambda cupy: cupy.cuda.Stream(),
    "non-blocking": lambda cupy: cupy.cuda.Stream(non_blocking=True),
    "per-thread": lambda cupy: cupy.cuda.Stream.ptds,
}


@pytest.mark.parametrize("as_int", [False, True], ids=["object", "int"])
@pytest.mark.parametrize("name", CUPY_STREAMS)
def test_f1_replay_is_ordered_on_a_stream_of_cupy(name, as_int):
    cupy = pytest.importorskip("cupy")
    stream = CUPY_STREAMS[name](cupy)
    with stream:
        a, b = cupy.zeros((16, K), cupy.float32), cupy.ones((K, 16), cupy.float32)
        y, results = cupy.zeros((16, 16), cupy.float32), cupy.zeros(LOOPS, cupy.float32)
        busy = cupy.zeros(1 << 22, cupy.float32)
        cupy.cuda.Device().synchronize()
        executable = layer(a, b, y)
        for i in range(LOOPS):
            cupy.add(busy, 1, out=busy)
            a.fill(i % 100)
            executable.launch(stream.ptr if as_int else stream)
            results[i : i + 1] = y[7, 9:10]
            a.fill(-1)
    cupy.cuda.Device().synchronize()
    assert (results == K * (cupy.arange(LOOPS) % 100)).all()


def test_f1_replay_is_ordered_on_the_per_thread_stream():
    """Handle 2, with work of the library's own ahead of it: what it writes must come too late for Y."""
    x, w, y = integers(4, 3), integers(3, 5, seed=1), torch.zeros(4, 5, device="cuda")
    z = torch.zeros(4, 5, device="cuda")
    first = slow_layer(x, w, y, 10_000_000)
    second = layer(y, torch.eye(5, device="cuda"), z)
    torch.cuda.synchronize()
    for _ in range(10):
        first.launch(2)
        second.launch(2)
    second.wait()
    assert torch.equal(z.cpu(), product(x, w))


def test_f1_launches_of_one_executable_are_ordered_across_streams():
    """A counter that each replay reads and writes: none may overtake another, whatever its stream."""
    count, one = torch.zeros(1, 1, device="cuda"), torch.ones(1, 1, device="cuda")
    program = ge.Program()
    program.forward(one, one, None, count, C=count, beta=1.0)
    executable = ge.capture(program, tuning="off")
    own = [torch.cuda.Stream() for _ in range(3)]
    streams = [None, 0, 1, 2, *own, *(s.cuda_stream for s in own)]
    torch.cuda.synchronize()
    for i in range(LOOPS):
        executable.launch(streams[i % len(streams)])
    torch.cuda.synchronize()
    assert float(count) == LOOPS


@pytest.mark.parametrize(
    ("error", "stream"),
    [
        (TypeError, True),
        (TypeError, False),
        (TypeError, 1.0),
        (TypeError, "2"),
        (TypeError, object()),
        (ge.Invalid, -1),
        (ge.Invalid, 1 << 64),
    ],
)
@pytest.mark.parametrize("call", ["launch", "enqueue"])
def test_f1_bad_streams_are_refused(error, stream, call):
    x, w, y = integers(4, 3), integers(3, 5), torch.zeros(4, 5, device="cuda")
    executable = layer(x, w, y)
    with pytest.raises(error, match="stream"):
        getattr(executable, call)(stream)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), torch.zeros(4, 5))


@pytest.mark.parametrize("current", ["default", "own", "busy"])
def test_f1_capture_does_not_care_about_the_callers_stream(current):
    x, w, y = integers(4, 3), integers(3, 5), torch.zeros(4, 5, device="cuda")
    stream = torch.cuda.default_stream() if current == "default" else torch.cuda.Stream()
    with torch.cuda.stream(stream) if current != "default" else contextlib.nullcontext():
        if current == "busy":
            torch.cuda._sleep(10_000_000)
        executable = layer(x, w, y)
        executable.launch(stream)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), product(x, w))


def test_f1_pointers_have_64_bits_and_null_is_for_no_elements():
    x, w, y = integers(4, 3), integers(3, 5), torch.zeros(4, 5, device="cuda")
    assert y.data_ptr() >= 1 << 32
    executable = layer(x, ge.make_tensor_2d(w.data_ptr(), (3, 5)), ge.make_tensor_2d(y.data_ptr(), (4, 5)))
    assert [o.tensor.data for o in executable.operands()] == [x.data_ptr(), w.data_ptr(), y.data_ptr()]
    executable.launch()
    executable.wait()
    assert torch.equal(y.cpu(), product(x, w))
    with pytest.raises(ge.Invalid, match="A is null"):
        ge.Program().forward(ge.make_tensor_2d(0, (4, 3)), w, None, y)
    empty = ge.Program()
    empty.forward(ge.make_tensor_2d(0, (4, 0)), ge.make_tensor_2d(0, (0, 5)), None, y)
    executable = ge.capture(empty)
    executable.launch()
    executable.wait()
    assert torch.equal(y.cpu(), torch.zeros(4, 5))


def test_a_stream_under_capture_is_refused_and_its_capture_stays_whole():
    x, w, y = integers(4, 3), integers(3, 5), torch.zeros(4, 5, device="cuda")
    executable = layer(x, w, y)
    other = torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        other.add_(1)
        with pytest.raises(ge.CaptureActive):
            executable.launch(torch.cuda.current_stream())
        other.add_(1)
    graph.replay()
    executable.launch()
    torch.cuda.synchronize()
    assert torch.equal(other.cpu(), torch.full((4,), 2.0))
    assert torch.equal(y.cpu(), product(x, w))


def test_threads_on_streams_of_their_own_share_an_executable():
    count, one = torch.zeros(1, 1, device="cuda"), torch.ones(1, 1, device="cuda")
    program = ge.Program()
    program.forward(one, one, None, count, C=count, beta=1.0)
    executable = ge.capture(program, tuning="off")
    torch.cuda.synchronize()
    failures = []

    def work(stream) -> None:
        try:
            for _ in range(500):
                executable.launch(stream)
            executable.wait()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    arguments = [torch.cuda.Stream(), torch.cuda.Stream(), 2, None]
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    torch.cuda.synchronize()
    assert not failures
    assert float(count) == 2000
