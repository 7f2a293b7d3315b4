"""The direct path on a GPU: the host's table over torch and CuPy, streams, pointers that lie elsewhere."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import calls
import numpy as np
import oracle
import pytest
from calls import Case, Place

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

torch = pytest.importorskip("torch")

from replay import lost_device_memory  # noqa: E402


def _torch_place() -> Place:
    return Place(
        "torch",
        lambda array: torch.from_numpy(np.ascontiguousarray(array)).cuda(),
        lambda tensor: tensor.cpu().numpy(),
    )


def _cupy_place() -> Place:
    cupy = pytest.importorskip("cupy")
    return Place("cupy", cupy.array, cupy.asnumpy)


PLACES: dict[str, Callable[[], Place]] = {"torch": _torch_place, "cupy": _cupy_place}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    return PLACES[request.param]()


def pointer_tensor(given: Any) -> ge.Tensor:
    """The same memory as a Tensor made of its pointer alone; what a pointer cannot say goes by as_tensor."""
    if not isinstance(given, torch.Tensor) or given.ndim != 2 or given.stride(1) != 1:
        return ge.as_tensor(given)
    return ge.make_tensor_2d(given.data_ptr(), tuple(given.shape), ld=max(given.stride(0), given.shape[1]))


@pytest.mark.parametrize("case", list(calls.forward_cases()), ids=str)
@pytest.mark.parametrize("run", [calls.run_forward, calls.run_forward_ex], ids=["forward", "forward_ex"])
def test_forward(place: Place, case: Case, run: Any) -> None:
    made = calls.make_forward(place, case)
    run(made)
    made.check()


@pytest.mark.parametrize("case", list(calls.backward_cases()), ids=str)
def test_backward_ex(place: Place, case: Case) -> None:
    made = calls.make_backward(place, case)
    calls.run_backward_ex(made)
    made.check()


@pytest.mark.parametrize("wrap", [pointer_tensor, ge.as_tensor], ids=["pointers", "as_tensor"])
def test_library_tensors(wrap: Callable[[Any], Any]) -> None:
    here = _torch_place()
    for case in calls.forward_cases():
        made = calls.make_forward(here, case)
        calls.run_forward(made, wrap)
        made.check()
    for case in calls.backward_cases():
        if not case.accumulate:
            made = calls.make_backward(here, case)
            calls.run_backward(made, wrap)
            made.check()


@pytest.mark.parametrize("case", list(calls.forward_cases()), ids=str)
def test_forward_numpy(case: Case) -> None:
    made = calls.make_forward(calls.HOST, case)
    given = made.arguments
    y, z = gemm.forward_numpy(
        given["A"], given["B"], given["bias"], C=given["C"], return_z=True, **made.attrs
    )
    oracle.check("Z", z, made.expected["Z"])
    oracle.check("Y", y, made.expected["Y"])


def test_forward_numpy_takes_any_strides_and_keeps_no_memory() -> None:
    generator = np.random.default_rng(3)
    a = generator.standard_normal((1024, 2048)).astype(np.float32)[::-2, ::2]
    b = generator.standard_normal((512, 1024)).astype(np.float32).T[:, ::-1]
    bias = generator.standard_normal(1024).astype(np.float32)[::2]
    expected = oracle.forward(a, b, bias, act_kind="relu")[1]

    def calls_of(count: int) -> None:
        for _ in range(count):
            oracle.check("Y", gemm.forward_numpy(a, b, bias, "relu"), expected)

    calls_of(2)
    assert lost_device_memory(lambda: calls_of(18)) <= 0


def test_requires_grad_and_parameters_are_plain_operands() -> None:
    a = torch.randn(4, 8, device="cuda", requires_grad=True)
    b = torch.nn.Parameter(torch.randn(8, 6, device="cuda"))
    y = torch.empty(4, 6, device="cuda")
    gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    torch.testing.assert_close(y, (a.double() @ b.double()).float().detach())


def test_f5_views_are_right_or_a_named_error(place: Place) -> None:
    x = np.random.default_rng(5).standard_normal((8, 8)).astype(np.float32)
    unit = place.put(np.eye(8, dtype=np.float32))
    for view, shown in (
        (lambda t: t.T, x.T), (lambda t: t[::2], x[::2]), (lambda t: t[:, 1:], x[:, 1:]),
        (lambda t: t.T[1:], x.T[1:]), (lambda t: t[2:5, 3:7], x[2:5, 3:7]),
        (lambda t: t[3:4, ::2], x[3:4, ::2]), (lambda t: t[:, 3:4], x[:, 3:4]),
    ):  # fmt: skip
        y = place.put(np.full(shown.shape, np.float32(np.nan)))
        gemm.forward(
            view(place.put(x)), unit[: shown.shape[1], : shown.shape[1]], None, y, gemm.GemmAttrs(), None
        )
        np.testing.assert_array_equal(place.get(y), shown)
    y = place.put(np.zeros((8, 4), np.float32))
    with pytest.raises(ge.StrideMismatch, match="^StrideMismatch: A has strides"):
        gemm.forward(place.put(x)[:, ::2], unit[:4, :4], None, y, gemm.GemmAttrs(), None)
    with pytest.raises(ge.StrideMismatch, match="^StrideMismatch: Y "):
        gemm.forward(unit, unit, None, place.put(x).T, gemm.GemmAttrs(), None)
    with pytest.raises(ge.DtypeMismatch, match="^DtypeMismatch: A "):
        gemm.forward(place.put(x.astype(np.float64)), unit, None, unit, gemm.GemmAttrs(), None)


def test_f5_an_expanded_output_is_refused() -> None:
    unit = torch.eye(8, device="cuda")
    with pytest.raises(ge.StrideMismatch, match="^StrideMismatch: Y is expanded"):
        gemm.forward(unit, unit, None, torch.zeros(1, 8, device="cuda").expand(8, 8), gemm.GemmAttrs(), None)
    with pytest.raises(ge.StrideMismatch, match="^StrideMismatch: A is expanded"):
        gemm.forward(
            torch.zeros(1, 8, device="cuda").expand(8, 8), unit, None, unit.clone(), gemm.GemmAttrs(), None
        )


# Streams


def _handle_streams() -> dict[str, Callable[[], tuple[Any, torch.cuda.Stream]]]:
    """How a stream is given, and the torch stream that is the same."""

    def own(given: Callable[[torch.cuda.Stream], Any]) -> Callable[[], tuple[Any, torch.cuda.Stream]]:
        def make() -> tuple[Any, torch.cuda.Stream]:
            stream = torch.cuda.Stream()
            return given(stream), stream

        return make

    def capsule(stream: torch.cuda.Stream) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(stream.cuda_stream, None, None)

    def cupy_stream(stream: torch.cuda.Stream) -> Any:
        return pytest.importorskip("cupy").cuda.ExternalStream(stream.cuda_stream)

    class Protocol:
        def __init__(self, stream: torch.cuda.Stream) -> None:
            self.stream = stream

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self.stream.cuda_stream

    per_thread = lambda: (2, torch.cuda.ExternalStream(2))  # noqa: E731
    return {
        "None": lambda: (None, torch.cuda.default_stream()),
        "0": lambda: (0, torch.cuda.default_stream()),
        "1": lambda: (1, torch.cuda.default_stream()),
        "2": per_thread,
        "int": own(lambda stream: stream.cuda_stream),
        "c_void_p": own(lambda stream: ctypes.c_void_p(stream.cuda_stream)),
        "c_void_p()": lambda: (ctypes.c_void_p(), torch.cuda.default_stream()),
        "PyCapsule": own(capsule),
        "torch": own(lambda stream: stream),
        "cupy": own(cupy_stream),
        "__cuda_stream__": own(Protocol),
    }


STREAMS = _handle_streams()


@pytest.mark.parametrize("kind", STREAMS)
def test_f1_a_call_comes_after_the_work_that_is_on_its_stream(kind: str) -> None:
    given, stream = STREAMS[kind]()
    count, size = 1000, 64
    attrs = gemm.GemmAttrs()
    unit = torch.eye(size, device="cuda")
    last = torch.empty(count, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        a = torch.zeros(256, size, device="cuda")
        y = torch.zeros(256, size, device="cuda")
        y_tensor = ge.as_tensor(y)
        for i in range(count):
            if i % 100 == 0:
                torch.cuda._sleep(200_000)  # what comes next lies behind this, on this stream alone
            a.fill_(float(i))
            gemm.forward(a, unit, None, y_tensor, attrs, given)
            last[i] = y[-1, -1]
    stream.synchronize()
    wrong = (last.cpu() != torch.arange(count)).nonzero()
    assert not len(wrong), f"with stream={kind}, call {int(wrong[0])} read {float(last[wrong[0]])}"


@pytest.mark.parametrize("wrong", [True, 1.0, "0", object()], ids=lambda wrong: type(wrong).__name__)
def test_f1_what_is_no_stream_is_a_type_error(wrong: object) -> None:
    x = torch.eye(8, device="cuda")
    with pytest.raises(TypeError):
        gemm.forward(x, x, None, x.clone(), gemm.GemmAttrs(), wrong)


@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_f1_a_handle_beyond_64_bits_is_invalid(wrong: int) -> None:
    x = torch.eye(8, device="cuda")
    with pytest.raises(ge.Invalid):
        gemm.forward(x, x, None, x.clone(), gemm.GemmAttrs(), wrong)


def test_a_call_is_recorded_into_the_callers_torch_graph() -> None:
    x, y = torch.eye(8, device="cuda"), torch.zeros(8, 8, device="cuda")
    attrs = gemm.GemmAttrs(act="relu")
    gemm.forward(x, x, None, y, attrs, None)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm.forward(x, x, None, y, attrs, torch.cuda.current_stream())
    y.zero_()
    x.mul_(3)
    graph.replay()
    assert torch.equal(y, 9 * torch.eye(8, device="cuda"))


# Pointers that lie elsewhere


def _refused_or_right(a: ge.Tensor, shown: torch.Tensor) -> None:
    """A is host memory that is called CUDA memory."""
    unit, y = torch.eye(8, device="cuda"), torch.full((8, 8), float("nan"), device="cuda")
    try:
        gemm.forward(a, unit, None, y, gemm.GemmAttrs(), None)
    except ge.DeviceMismatch as error:
        assert str(error).startswith("DeviceMismatch: A ")
    else:
        torch.cuda.synchronize()
        assert torch.equal(y.cpu(), shown)


def test_f4_a_numpy_address_called_cuda_is_refused() -> None:
    x = np.ones((8, 8), np.float32)
    unit, y = torch.eye(8, device="cuda"), torch.zeros(8, 8, device="cuda")
    with pytest.raises(ge.DeviceMismatch, match="^DeviceMismatch: A "):
        gemm.forward(ge.make_tensor_2d(x.ctypes.data, (8, 8)), unit, None, y, gemm.GemmAttrs(), None)
    gemm.forward(unit, unit, None, y, gemm.GemmAttrs(), None)
    assert torch.equal(y, unit), "the context is as it was"


def test_f4_a_pinned_address_called_cuda_is_refused_or_right() -> None:
    x = torch.full((8, 8), 2.0).pin_memory()
    _refused_or_right(ge.make_tensor_2d(x.data_ptr(), (8, 8)), x)
    unit = torch.eye(8, device="cuda")
    gemm.forward(unit, unit, None, torch.zeros(8, 8, device="cuda"), gemm.GemmAttrs(), None)


def test_f4_host_arrays_among_device_arrays_are_refused() -> None:
    unit, host = torch.eye(8, device="cuda"), torch.eye(8)
    for operands in ((host, unit, unit), (unit, host, unit), (unit, unit, host)):
        with pytest.raises(ge.DeviceMismatch):
            gemm.forward(operands[0], operands[1], None, operands[2].clone(), gemm.GemmAttrs(), None)


def test_f4_a_device_that_is_not_there_is_a_mismatch() -> None:
    index = torch.cuda.device_count()
    a, b, y = (ge.make_tensor_2d(0x1000 * i, (8, 8), device_index=index) for i in (1, 2, 3))
    with pytest.raises(ge.DeviceMismatch):
        gemm.forward(a, b, None, y, gemm.GemmAttrs(), None)
    with pytest.raises(ge.DeviceMismatch):
        gemm.forward_numpy(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), device_index=index)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_f4_the_device_is_that_of_the_tensors_whatever_is_current() -> None:
    torch.cuda.set_device(0)
    x = torch.randn(16, 16, device="cuda:1")
    y = torch.zeros(16, 16, device="cuda:1")
    stream = torch.cuda.Stream(1)
    torch.cuda.synchronize(1)
    gemm.forward(x, torch.eye(16, device="cuda:1"), None, y, gemm.GemmAttrs(), None)
    torch.cuda.synchronize(1)
    assert torch.equal(x, y)
    assert torch.cuda.current_device() == 0
    gemm.forward(x, torch.eye(16, device="cuda:1"), None, y, gemm.GemmAttrs(), stream)
    with pytest.raises(ge.DeviceMismatch):
        gemm.forward(x, torch.eye(16, device="cuda:0"), None, y, gemm.GemmAttrs(), None)
    with pytest.raises(ge.DeviceMismatch):
        gemm.forward(*(torch.eye(4, device="cuda:0") for _ in range(2)), None, torch.eye(4, device="cuda:0"),
                     gemm.GemmAttrs(), stream)  # fmt: skip


def test_the_plan_cache_counts_problems() -> None:
    gemm.clear_plan_cache()
    planned = gemm.plan_cache().planned
    x, y = torch.eye(24, device="cuda"), torch.zeros(24, 24, device="cuda")
    for _ in range(3):
        gemm.forward(x, x, None, y, gemm.GemmAttrs(), None)
    assert gemm.plan_cache().planned == planned + 1
    assert gemm.plan_cache().plans == 1
