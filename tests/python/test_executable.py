"""capture and Executable on the host target: every method, every error, steps, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graph_executor_v2 as ge


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ramp(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def layer(m: int = 4, k: int = 3, n: int = 5) -> tuple[ge.Executable, np.ndarray, np.ndarray, np.ndarray]:
    a, b, y = ramp(m, k), ramp(k, n, seed=1), zeros(m, n)
    program = ge.Program()
    program.forward(a, b, None, y)
    return ge.capture(program), a, b, y


def stepped(fn) -> ge.Executable:
    program = ge.Program()
    program.step("loss", [zeros(1)], [], fn)
    return ge.capture(program)


@pytest.mark.parametrize("target", ["auto", "host", "HOST", ge.Target.Auto, ge.Target.Host])
@pytest.mark.parametrize("tuning", ["off", "Measure", ge.Tuning.Off, ge.Tuning.Measure])
def test_options_are_names_or_enums(target, tuning):
    program = ge.Program()
    y = zeros(2, 2)
    program.forward(np.eye(2, dtype=np.float32), ramp(2, 2), None, y)
    executable = ge.capture(program, target=target, tuning=tuning, tuning_budget_s=0, capture_retries=0)
    executable.launch()
    np.testing.assert_array_equal(y, ramp(2, 2))
    assert executable.target == ge.Target.Host


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ge.Invalid, 'target is "gpu", expected one of "auto", "host", "cuda"', {"target": "gpu"}),
        (ge.Invalid, "target is .*udc80", {"target": "\udc80"}),
        (TypeError, "target is of type int", {"target": 1}),
        (TypeError, "target is of type Tuning", {"target": ge.Tuning.Off}),
        (ge.Invalid, "tuning is", {"tuning": "on"}),
        (TypeError, "tuning is of type bool", {"tuning": False}),
        (ge.Invalid, "tuning_budget_s", {"tuning_budget_s": -1}),
        (ge.Invalid, "tuning_budget_s", {"tuning_budget_s": float("nan")}),
        (TypeError, "incompatible", {"tuning_budget_s": "2"}),
        (ge.Invalid, "capture_retries", {"capture_retries": -1}),
        (TypeError, "incompatible", {"capture_retries": 1.5}),
        (ge.DeviceMismatch, "CUDA", {"target": "cuda"}),
        (TypeError, "incompatible", {"speed": 1}),
    ],
)
def test_bad_options_are_named(error, text, options):
    program = ge.Program()
    program.forward(zeros(2, 2), zeros(2, 2), None, zeros(2, 2))
    with pytest.raises(error, match=text):
        ge.capture(program, **options)


def test_only_programs_can_be_captured():
    with pytest.raises(TypeError):
        ge.capture("program")
    with pytest.raises(TypeError):
        ge.Executable()


def test_target_available_returns_or_says_why_not():
    assert ge.target_available("host") is None
    assert ge.target_available(ge.Target.Host) is None
    with pytest.raises(ge.Invalid):
        ge.target_available("tpu")
    if not ge.with_cuda:
        with pytest.raises(ge.Unsupported, match="without CUDA"):
            ge.target_available()


def test_launch_enqueue_and_wait():
    executable, a, b, y = layer()
    assert executable.wait() is None
    assert executable.launch() is None
    np.testing.assert_array_equal(y, a @ b)
    y[:] = 0
    assert executable.enqueue() is None
    executable.wait()
    np.testing.assert_array_equal(y, a @ b)
    a *= 2
    executable.launch(stream=None)
    np.testing.assert_array_equal(y, a @ b)


@pytest.mark.parametrize("call", ["launch", "enqueue"])
@pytest.mark.parametrize(
    ("error", "stream"),
    [(TypeError, True), (TypeError, 1.0), (TypeError, "1"), (ge.Invalid, -1), (ge.Invalid, 1 << 64)],
)
def test_f1_bad_streams_are_refused_on_the_host_too(call, error, stream):
    executable, _, _, y = layer()
    with pytest.raises(error, match="stream"):
        getattr(executable, call)(stream)
    np.testing.assert_array_equal(y, 0)


@pytest.mark.parametrize("stream", [None, 0, 1, 2, (1 << 64) - 1])
def test_f1_good_streams_are_ignored_on_the_host(stream):
    executable, a, b, y = layer()
    executable.launch(stream)
    np.testing.assert_array_equal(y, a @ b)


def test_an_executable_describes_itself():
    a, w, h, y = ramp(4, 3), ramp(3, 3), zeros(4, 3), zeros(4, 3)
    program = ge.Program()
    t = program.temporary((4, 3), device=ge.CPU)
    program.forward(a, w, None, t, act="relu")
    program.step("look", [t], [h], lambda stream, reads, writes: None)
    program.forward(h, w, None, y)
    executable = ge.capture(program)
    nodes = executable.nodes()
    assert len(nodes) == 3 and all(isinstance(node, ge.Node) for node in nodes)
    assert [node.kind for node in nodes] == ["host"] * 3
    assert [node.depends_on for node in nodes] == [[], [0], [1]]
    assert nodes[1].name == "look"
    assert "look" in repr(nodes[1])
    assert "forward Y[4,3]" in executable.explain()
    assert executable.dot().startswith("digraph")
    assert executable.workspace_bytes >= 4 * 3 * 4
    assert executable.target == ge.Target.Host
    assert "Host" in repr(executable) and "3 nodes" in repr(executable)
    operands = executable.operands()
    assert [(o.name, o.tensor.data) for o in operands] == [
        ("A", a.ctypes.data),
        ("B", w.ctypes.data),
        ("writes[0]", h.ctypes.data),
        ("A", h.ctypes.data),
        ("B", w.ctypes.data),
        ("Y", y.ctypes.data),
    ]
    assert operands[0].item == "forward Y[4,3]" and operands[2].item == "step 'look'"
    assert operands[0].tensor.shape == (4, 3) and "forward Y[4,3]" in repr(operands[0])


def test_steps_run_between_gemms_in_program_order():
    x, y, seen = ramp(2, 3), zeros(2, 3), []
    program = ge.Program()
    program.step("before", [], [x], lambda stream, reads, writes: seen.append("before"))
    program.forward(x, np.eye(3, dtype=np.float32), None, y)
    program.step("after", [y], [], lambda stream, reads, writes: seen.append(reads[0].numpy().copy()))
    executable = ge.capture(program)
    executable.launch()
    assert seen[0] == "before"
    np.testing.assert_array_equal(seen[1], x)


def test_an_exception_in_a_step_is_the_cause_of_the_error():
    problem = ValueError("no loss")

    def fn(stream, reads, writes):
        raise problem

    executable = stepped(fn)
    for call in (executable.launch, executable.enqueue):
        with pytest.raises(ge.Invalid, match="^Invalid: step 'loss': raised ValueError: no loss$") as caught:
            call()
        assert caught.value.__cause__ is problem
        assert caught.value.status == ge.StatusCode.Invalid
        assert caught.value.__cause__.__traceback__ is not None


def test_a_failed_step_ends_the_launch_and_the_next_launch_is_whole():
    y, fail = zeros(2, 2), [True]

    def fn(stream, reads, writes):
        if fail[0]:
            raise RuntimeError("once")

    program = ge.Program()
    program.step("gate", [], [x := ramp(2, 2)], fn)
    program.forward(x, np.eye(2, dtype=np.float32), None, y)
    executable = ge.capture(program)
    with pytest.raises(ge.Invalid, match="gate"):
        executable.launch()
    np.testing.assert_array_equal(y, 0)
    fail[0] = False
    executable.launch()
    np.testing.assert_array_equal(y, x)


def test_a_librarys_error_in_a_step_is_not_named_twice():
    def fn(stream, reads, writes):
        ge.Program().forward(zeros(2, 3), zeros(2, 3), None, zeros(2, 3))

    with pytest.raises(ge.Invalid, match="step 'loss': raised ShapeMismatch: B ") as caught:
        stepped(fn).launch()
    assert isinstance(caught.value.__cause__, ge.ShapeMismatch)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_is_an_error_too():
    def fn(stream, reads, writes):
        raise Unprintable

    with pytest.raises(ge.Invalid, match="Unprintable") as caught:
        stepped(fn).launch()
    assert isinstance(caught.value.__cause__, Unprintable)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_passes_through_as_it_is(kind):
    def fn(stream, reads, writes):
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        stepped(fn).launch()


def test_a_wrong_signature_is_an_error_of_the_step():
    with pytest.raises(ge.Invalid, match="raised TypeError") as caught:
        stepped(lambda stream: None).launch()
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_step_may_launch_another_executable():
    inner, a, b, y = layer()
    outer = stepped(lambda stream, reads, writes: inner.launch())
    outer.launch()
    np.testing.assert_array_equal(y, a @ b)


def test_errors_of_nested_launches_are_chained():
    def fail(stream, reads, writes):
        raise ValueError("deep")

    inner = stepped(fail)
    outer = stepped(lambda stream, reads, writes: inner.launch())
    with pytest.raises(ge.Invalid) as caught:
        outer.launch()
    assert isinstance(caught.value.__cause__, ge.Invalid)
    assert isinstance(caught.value.__cause__.__cause__, ValueError)


@pytest.mark.parametrize(
    "use",
    [
        lambda executable: executable.launch(),
        lambda executable: executable.enqueue(),
        lambda executable: executable.wait(),
        lambda executable: executable.rebind([]),
        lambda executable: executable.clone(),
        lambda executable: executable.explain(),
        lambda executable: executable.nodes(),
        lambda executable: executable.operands(),
        lambda executable: executable.workspace_bytes,
    ],
)
def test_a_step_that_uses_its_own_executable_is_invalid(use):
    executables = []
    executables.append(stepped(lambda stream, reads, writes: use(executables[0])))
    with pytest.raises(ge.Invalid, match="in use by a step of its own"):
        executables[0].launch()
    assert executables[0].wait() is None


def test_a_step_may_print_its_own_executable():
    executables, texts = [], []
    executables.append(stepped(lambda stream, reads, writes: texts.append(repr(executables[0]))))
    executables[0].launch()
    assert "in use" in texts[0]


def test_a_small_network_learns_by_replay():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
    target = (x[:, :1] * x[:, 1:] > 0).astype(np.float32)
    w1, b1 = rng.normal(0, 1, (2, 16)).astype(np.float32), zeros(16)
    w2, b2 = rng.normal(0, 0.3, (16, 1)).astype(np.float32), zeros(1)
    h, z1, y, gy, gh = zeros(64, 16), zeros(64, 16), zeros(64, 1), zeros(64, 1), zeros(64, 16)
    gradients = [np.zeros_like(p) for p in (w1, b1, w2, b2)]
    loss = zeros(1)

    def loss_and_its_gradient(stream, reads, writes):
        off = reads[0].numpy() - reads[1].numpy()
        writes[0].numpy()[:] = 2 * off / len(off)
        writes[1].numpy()[:] = (off * off).mean()

    def descend(stream, reads, writes):
        for gradient, parameter in zip(reads, writes):
            parameter.numpy()[:] -= 0.5 * gradient.numpy()

    program = ge.Program()
    program.forward(x, w1, b1, h, Z=z1, act="tanh")
    program.forward(h, w2, b2, y)
    program.step("loss", [y, target], [gy, loss], loss_and_its_gradient)
    program.backward(h, w2, None, gy, None, gA=gh, gB=gradients[2], gBias=gradients[3])
    program.backward(x, w1, None, gh, z1, gB=gradients[0], gBias=gradients[1], act="tanh")
    program.step("descend", gradients, [w1, b1, w2, b2], descend)
    executable = ge.capture(program)
    executable.launch()
    first = float(loss[0])
    for _ in range(600):
        executable.launch()
    assert first > 0.2
    assert float(loss[0]) < 0.08
    assert ((y > 0.5) == (target > 0.5)).mean() > 0.9


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
