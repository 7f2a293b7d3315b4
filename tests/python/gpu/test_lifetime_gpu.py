"""Case F3 and its kin: what an executable on a GPU holds, until when, and that nothing grows."""

from __future__ import annotations

import gc
import os
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402

from replay import LONG, integers, layer, lost_device_memory, product, reclaim, slow_layer  # noqa: E402

import graph_executor_v2 as ge  # noqa: E402

SHAPES = {"x": (32, 48), "w": (48, 64), "y": (32, 64)}


class Torch:
    """Tensors of torch, whose caching allocator hands a freed block out again at once."""

    @staticmethod
    def make(shape, seed):
        return integers(*shape, seed=seed)

    @staticmethod
    def full(shape, value):
        return torch.full(shape, value, device="cuda")

    address = staticmethod(lambda t: t.data_ptr())
    view = staticmethod(torch.from_dlpack)
    to_torch = staticmethod(lambda t: t)


class CuPy:
    """Arrays of CuPy, whose memory pool does the same."""

    @staticmethod
    def make(shape, seed):
        import cupy

        return cupy.asarray(integers(*shape, seed=seed).cpu().numpy())

    @staticmethod
    def full(shape, value):
        import cupy

        return cupy.full(shape, value, cupy.float32)

    address = staticmethod(lambda t: t.data.ptr)

    @staticmethod
    def view(tensor):
        import cupy

        return cupy.asarray(tensor)

    to_torch = staticmethod(torch.from_dlpack)


@pytest.fixture(params=[Torch, CuPy], ids=["torch", "cupy"])
def library(request):
    if request.param is CuPy:
        pytest.importorskip("cupy")
    return request.param


def watch(array):
    """Tells whether anything still holds the memory of `array`: torch's tensor objects come and go over it."""
    if isinstance(array, torch.Tensor):
        storage = StorageWeakRef(array.untyped_storage())
        return lambda: not storage.expired()
    ref = weakref.ref(array)
    return lambda: ref() is not None


def alive(refs) -> list[bool]:
    gc.collect()
    return [ref() for ref in refs]


def others_of(library, shape, count=20):
    return [library.full(shape, 7.0) for _ in range(count)]


def all_still_seven(library, tensors) -> bool:
    return all(bool((library.to_torch(t) == 7).all()) for t in tensors)


def test_f3_tensors_freed_while_the_graph_holds_their_addresses(library):
    tensors = {name: library.make(shape, seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    expected = product(library.to_torch(tensors["x"]), library.to_torch(tensors["w"]))
    addresses = {library.address(t) for t in tensors.values()}
    executable = layer(**tensors)
    del tensors
    gc.collect()
    torch.cuda.synchronize()
    others = [t for shape in SHAPES.values() for t in others_of(library, shape)]
    torch.cuda.synchronize()
    assert not addresses & {library.address(t) for t in others}
    executable.launch()
    executable.wait()
    y = next(o.tensor for o in executable.operands() if o.name == "Y")
    assert torch.equal(library.to_torch(library.view(y)).cpu(), expected)
    assert all_still_seven(library, others)


def test_f3_an_executable_that_goes_in_flight_holds_its_tensors_until_the_launch_is_over(library):
    reclaim()
    tensors = {name: library.make(shape, seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    addresses = {library.address(t) for t in tensors.values()}
    refs = [watch(t) for t in tensors.values()]
    executable = slow_layer(**tensors, cycles=4 * LONG)
    others_of(library, SHAPES["x"], 1)  # loads what fills them
    torch.cuda.synchronize()
    executable.launch()
    del tensors, executable
    assert alive(refs) == [True] * 3
    others = [t for shape in SHAPES.values() for t in others_of(library, shape)]
    assert not addresses & {library.address(t) for t in others}
    reclaim()
    assert alive(refs) == [False] * 3
    assert all_still_seven(library, others)


def test_an_idle_executable_lets_its_tensors_go_at_once():
    before = torch.cuda.memory_allocated()
    executable = layer(*(integers(*shape) for shape in SHAPES.values()))
    executable.launch()
    executable.wait()
    assert torch.cuda.memory_allocated() > before
    del executable
    assert torch.cuda.memory_allocated() == before


def moved_in_flight(cycles=2 * LONG):
    """An executable with a launch in flight over an x that has moved away since."""
    x, w, y, fresh = (integers(*shape) for shape in (*SHAPES.values(), SHAPES["x"]))
    torch.full_like(x, 7.0)  # loads what tests fill tensors with
    executable = slow_layer(x, w, y, cycles)
    torch.cuda.synchronize()
    executable.launch()
    executable.rebind({x: fresh})
    return executable, watch(x), x.data_ptr()


def test_f3_rebind_in_flight_holds_the_old_tensor_until_its_launch_is_over():
    x, w, y = (integers(*shape, seed=seed) for seed, shape in enumerate(SHAPES.values()))
    result, first = torch.zeros_like(y), product(x, w)
    old = x.data_ptr()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    executable = slow_layer(x, w, y, 10 * LONG)  # collecting garbage takes a while, too
    executable.launch(stream)
    with torch.cuda.stream(stream):
        result.copy_(y)
    fresh = integers(*SHAPES["x"], seed=8)
    second = product(fresh, w)
    executable.rebind({x: fresh})
    ref = watch(x)
    del x
    assert alive([ref]) == [True]
    others = others_of(Torch, SHAPES["x"])
    assert old not in {t.data_ptr() for t in others}
    executable.launch(stream)  # an event behind it tells when the first one was over
    assert alive([ref]) == [True]
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(result.cpu(), first)
    assert torch.equal(y.cpu(), second)
    assert all_still_seven(Torch, others)
    assert alive([ref]) == [True]
    executable.launch(stream)  # finds the event
    assert alive([ref]) == [False]
    stream.synchronize()


@pytest.mark.parametrize("finder", ["launch", "rebind"])
def test_later_moves_are_let_go_by_the_next_launch_or_rebind_that_finds_them_over(finder):
    executable, first, _ = moved_in_flight(cycles=1000)
    executable.launch()
    x = torch.from_dlpack(next(o.tensor for o in executable.operands() if o.name == "A"))
    fresh = integers(*SHAPES["x"], seed=9)
    torch.cuda.synchronize()
    executable.rebind({x: fresh})
    assert alive([first]) == [False]
    executable.launch()
    ref = watch(fresh)
    executable.rebind({fresh: x})
    del fresh
    assert executable.launch() is None
    torch.cuda.synchronize()
    if finder == "launch":
        executable.launch()
    else:
        executable.rebind([])
    assert alive([ref]) == [False]


def test_wait_lets_go_what_moved_away():
    executable, ref, _ = moved_in_flight()
    assert alive([ref]) == [True]
    executable.wait()
    assert alive([ref]) == [False]


def test_what_was_never_launched_is_let_go_at_once():
    x, w, y = (integers(*shape) for shape in SHAPES.values())
    executable = layer(x, w, y)
    ref = watch(x)
    executable.rebind({x: integers(*SHAPES["x"])})
    del x
    assert alive([ref]) == [False]


def test_what_enqueued_steps_use_is_held_until_wait():
    x, w, y = (integers(*shape) for shape in SHAPES.values())
    executable, stream = slow_layer(x, w, y), torch.cuda.Stream()
    executable.enqueue(stream)
    ref = watch(x)
    executable.rebind({x: integers(*SHAPES["x"])})
    del x
    executable.launch(stream)
    torch.cuda.synchronize()
    executable.launch(stream)
    assert alive([ref]) == [True]
    executable.wait()
    assert alive([ref]) == [False]


def test_moved_away_tensors_outlive_an_executable_that_goes_in_flight():
    reclaim()
    executable, ref, address = moved_in_flight(cycles=4 * LONG)
    executable.launch()
    del executable
    assert alive([ref]) == [True]
    assert address not in {t.data_ptr() for t in others_of(Torch, SHAPES["x"])}
    reclaim()
    assert alive([ref]) == [False]


def test_rebinding_at_every_launch_does_not_grow():
    x, w, y = (integers(*shape) for shape in SHAPES.values())
    executable = layer(x, w, y)
    torch.cuda.synchronize()
    one = x.numel() * 4
    base = torch.cuda.memory_allocated()
    most = 0
    for i in range(2000):
        fresh = torch.empty_like(x)
        executable.rebind({x: fresh})
        executable.launch()
        x = fresh
        most = max(most, torch.cuda.memory_allocated() - base)
        if i % 20 == 19:
            torch.cuda.synchronize()
    executable.wait()
    assert torch.cuda.memory_allocated() - base <= one
    assert most <= 64 * one


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_ten_thousand_launches_leave_nothing_behind():
    x, w, y = (integers(*shape, seed=seed) for seed, shape in enumerate(SHAPES.values()))
    executable = layer(x, w, y)

    def many(count: int) -> None:
        for _ in range(count):
            executable.launch()
        executable.wait()

    many(1000)
    host = resident_kib()
    assert lost_device_memory(lambda: many(10_000)) <= 0
    assert resident_kib() - host < 4096
    assert torch.equal(y.cpu(), product(x, w))


def test_hundreds_of_executables_leave_nothing_behind():
    tensors = [integers(*shape) for shape in SHAPES.values()]

    def many(count: int) -> None:
        for _ in range(count):
            layer(*tensors).launch()
        reclaim()

    many(50)
    host = resident_kib()
    assert lost_device_memory(lambda: many(300)) <= 2 << 20  # a block of the driver's
    assert resident_kib() - host < 16384


def test_cycles_through_an_executable_in_flight_are_collected_once_it_is_over():
    class Net:
        def __init__(self):
            self.x, self.w, self.y = (integers(*shape) for shape in SHAPES.values())
            program = ge.Program()
            program.step("sleep", [], [self.x], self.step)
            program.forward(self.x, self.w, None, self.y)
            self.executable = ge.capture(program, tuning="off")

        def step(self, stream, reads, writes):
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
                torch.cuda._sleep(4 * LONG)

    torch.full(SHAPES["x"], 7.0, device="cuda")
    reclaim()
    before = torch.cuda.memory_allocated()
    net = Net()
    address, needed = net.x.data_ptr(), torch.cuda.memory_allocated()
    gone = weakref.ref(net)
    torch.cuda.synchronize()
    net.executable.launch()
    del net
    gc.collect()
    assert gone() is None
    assert torch.cuda.memory_allocated() == needed
    others = others_of(Torch, SHAPES["x"])
    assert address not in {t.data_ptr() for t in others}
    del others
    reclaim()
    gc.collect()  # what the launch held was a part of the cycle
    assert torch.cuda.memory_allocated() == before
