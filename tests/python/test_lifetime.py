"""Who holds what, on the host target: operands, step functions, cycles."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest
from arrays import Array, ramp, watched

import graph_executor_v2 as ge


class Layer:
    """A captured layer, its operands, and weak references to them."""

    def __init__(self, seed: int = 0) -> None:
        self.a, self.b = watched(ramp(4, 3, seed=seed)), watched(ramp(3, 5, seed=seed + 1))
        self.y = watched(np.zeros((4, 5)))
        program = ge.Program()
        program.forward(self.a, self.b, None, self.y)
        self.executable = ge.capture(program)
        self.refs = {name: weakref.ref(getattr(self, name)) for name in ("a", "b", "y")}

    def drop(self) -> None:
        del self.a, self.b, self.y

    def alive(self) -> list[str]:
        gc.collect()
        return [name for name, ref in self.refs.items() if ref() is not None]


def test_f3_operands_dropped_before_launch_are_not_reused():
    layer = Layer()
    expected = np.asarray(layer.a) @ np.asarray(layer.b)
    layer.drop()
    assert layer.alive() == ["a", "b", "y"]
    others = [np.full(shape, 7, np.float32) for shape in ((4, 3), (3, 5), (4, 5)) for _ in range(50)]
    layer.executable.launch()
    np.testing.assert_array_equal(layer.refs["y"](), expected)
    assert all((other == 7).all() for other in others)
    del layer.executable
    assert layer.alive() == []


def test_the_operands_of_an_executable_hold_their_memory():
    layer = Layer()
    layer.drop()
    y = layer.executable.operands()[2]
    layer.executable.launch()
    del layer.executable
    assert layer.alive() == ["y"]
    assert y.tensor.numpy().shape == (4, 5)
    del y
    assert layer.alive() == []


def test_a_tensor_as_operand_is_held_with_its_array():
    a = watched(np.eye(3))
    alive = weakref.ref(a)
    y = np.zeros((3, 3), np.float32)
    program = ge.Program()
    program.forward(ge.as_tensor(a), ramp(3, 3), None, y)
    executable = ge.capture(program)
    del a, program
    gc.collect()
    assert alive() is not None
    executable.launch()
    np.testing.assert_array_equal(y, ramp(3, 3))
    del executable
    gc.collect()
    assert alive() is None


def test_views_hold_their_base():
    base = watched(ramp(4, 8))
    alive = weakref.ref(base)
    program = ge.Program()
    program.forward(base[:, 1:4], ramp(3, 2), None, np.zeros((4, 2), np.float32))
    executable = ge.capture(program)
    del base, program
    gc.collect()
    assert alive() is not None
    del executable
    gc.collect()
    assert alive() is None


def test_rebind_holds_the_new_operand_and_lets_the_old_one_go():
    layer = Layer()
    layer.drop()
    fresh = watched(ramp(4, 3, seed=9))
    alive = weakref.ref(fresh)
    layer.executable.rebind([(layer.refs["a"](), fresh)])
    del fresh
    assert layer.alive() == ["b", "y"]
    assert alive() is not None
    layer.executable.launch()
    np.testing.assert_array_equal(layer.refs["y"](), ramp(4, 3, seed=9) @ layer.refs["b"]())
    layer.executable.rebind([(alive(), np.zeros((4, 3), np.float32))])
    gc.collect()
    assert alive() is None


def test_a_failed_rebind_lets_the_new_operand_go_and_keeps_the_old():
    layer = Layer()
    layer.drop()
    fresh, wrong = watched(ramp(4, 3)), watched(ramp(3, 4))
    alive = weakref.ref(fresh)
    with pytest.raises(ge.ShapeMismatch):
        layer.executable.rebind([(layer.refs["a"](), fresh), (layer.refs["b"](), wrong)])
    del fresh
    gc.collect()
    assert alive() is None
    assert layer.alive() == ["a", "b", "y"]


def test_rebinding_to_an_address_holds_nothing():
    layer = Layer()
    layer.drop()
    fresh = watched(ramp(4, 3, seed=3))
    layer.executable.rebind([(layer.refs["a"](), fresh.ctypes.data)])
    assert layer.alive() == ["b", "y"]
    alive = weakref.ref(fresh)
    del fresh
    assert alive() is None


def test_an_operand_in_two_places_stays_while_one_needs_it():
    a = watched(np.eye(3))
    alive = weakref.ref(a)
    program = ge.Program()
    program.forward(a, ramp(3, 3), None, np.zeros((3, 3), np.float32))
    executable = ge.capture(program)
    clone = executable.clone()
    executable.rebind([(a, ramp(3, 3))])
    del a, program, executable
    gc.collect()
    assert alive() is not None
    clone.launch()
    del clone
    gc.collect()
    assert alive() is None


def test_a_clone_holds_its_own_operands_and_steps():
    called = []

    def fn(stream, reads, writes):
        called.append(reads[0].numpy()[0])

    x, fresh = watched(np.ones(2)), watched(np.full(2, 5.0))
    alive = [weakref.ref(fn), weakref.ref(x), weakref.ref(fresh)]
    program = ge.Program()
    program.step("step", [x], [], fn)
    executable = ge.capture(program)
    clone = executable.clone([(x, fresh)])
    del program, executable, fn, x, fresh
    gc.collect()
    assert [ref() is not None for ref in alive] == [True, False, True]
    clone.launch()
    assert called == [5]
    del clone
    gc.collect()
    assert [ref() is not None for ref in alive] == [False, False, False]


def test_the_program_may_go_and_steps_still_run():
    called = []
    program = ge.Program()
    program.step("step", [np.zeros(1, np.float32)], [], lambda stream, reads, writes: called.append(1))
    executable = ge.capture(program)
    del program
    gc.collect()
    executable.launch()
    assert called == [1]


class Net:
    """Owns an executable whose step closes over it: a cycle."""

    def __init__(self) -> None:
        self.count = 0
        self.x = watched(np.zeros((2, 2)))
        self.program = ge.Program()
        self.program.forward(self.x, self.x, None, watched(np.zeros((2, 2))))
        self.program.step("count", [self.x], [], self.step)
        self.executable = ge.capture(self.program)

    def step(self, stream, reads, writes) -> None:
        self.count += 1


def test_cycles_through_an_executable_are_collected():
    net = Net()
    net.executable.launch()
    assert net.count == 1
    alive = [weakref.ref(o) for o in (net, net.executable, net.program, net.x)]
    gc.collect()
    assert all(ref() is not None for ref in alive)
    net.executable.launch()
    assert net.count == 2
    del net
    gc.collect()
    assert [ref() for ref in alive] == [None] * 4


def test_cycles_through_a_program_alone_are_collected():
    class Owner:
        pass

    owner = Owner()
    owner.program = ge.Program()
    owner.program.step("step", [np.zeros(1, np.float32)], [], lambda stream, reads, writes: owner)
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


def test_cycles_through_an_operand_are_collected():
    layer = Layer()
    layer.y.executable = layer.executable
    del layer.executable
    layer.drop()
    assert layer.alive() == []


def test_cycles_through_a_clone_and_moved_operands_are_collected():
    net = Net()
    fresh = watched(np.zeros((2, 2)))
    fresh.clone = net.executable.clone([(net.x, fresh)])
    net.executable.rebind([(net.x, fresh)])
    alive = [weakref.ref(o) for o in (net, net.executable, net.x, fresh, fresh.clone)]
    del net, fresh
    gc.collect()
    assert [ref() for ref in alive] == [None] * 5


def test_collecting_while_another_thread_launches_is_harmless():
    net, stop = Net(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            net.executable.launch()

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(50):
        gc.collect()
        net.executable.rebind([(net.x, fresh := watched(np.zeros((2, 2))))])
        net.x = fresh
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert net.count > 0


class Loud(Array):
    """Uses an executable when it goes."""

    executable: ge.Executable | None = None
    outcomes: list[str] = []

    def __del__(self) -> None:
        if type(self).executable is not None:
            type(self).executable.launch()
            type(self).outcomes.append("launched")


def test_an_operand_that_uses_the_executable_when_it_goes_does_not_lock_it():
    layer = Layer()
    loud = ramp(4, 3).view(Loud)
    layer.executable.rebind([(layer.a, loud)])
    Loud.executable, Loud.outcomes = layer.executable, []
    try:
        address = loud.ctypes.data
        del loud
        gc.collect()
        layer.executable.rebind([(address, layer.a)])
        assert Loud.outcomes == ["launched"]
        layer.executable.launch()
    finally:
        Loud.executable = None


def test_a_long_chain_of_owners_goes_without_deep_recursion():
    class Last:
        pass

    last = Last()
    gone = weakref.ref(last)
    desc = ge.TensorDesc(shape=(1,))
    owner = last
    del last
    for _ in range(300_000):
        owner = ge.Tensor(4096, desc, ge.CPU, owner=owner)
    del owner
    assert gone() is None


def test_nothing_grows_over_thousands_of_captures_and_moves():
    a, b, y = ramp(2, 2), ramp(2, 2), np.zeros((2, 2), np.float32)
    others = [ramp(2, 2), ramp(2, 2)]

    def fn(stream, reads, writes):
        pass

    def once() -> None:
        program = ge.Program()
        program.forward(a, b, None, y)
        program.step("step", [y], [], fn)
        executable = ge.capture(program)
        executable.launch()
        executable.rebind([(a, others[0])])
        executable.rebind([(others[0], others[1])])
        executable.clone([(others[1], a)]).launch()

    once()
    before = [sys.getrefcount(o) for o in (a, b, y, fn, *others)]
    for _ in range(2000):
        once()
    gc.collect()
    assert [sys.getrefcount(o) for o in (a, b, y, fn, *others)] == before
