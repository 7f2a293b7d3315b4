"""The peers in Python: the protocol, and the libraries themselves on the CPU where they are installed."""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from unittest import mock

import data
import peer_protocol
import pytest
from checks import check
from peer_protocol import Absent, Wrong
from small_row import MODES, row

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
ACTIVATIONS = ("None", "ReLU", "Tanh", "ELU", "GELUTanh")


class Small:
    """A peer that knows two contestants."""

    def describe(self) -> dict[str, Any]:
        return {"contestants": ["a", "b"]}

    def prepare(self, contestant: str, row: Mapping[str, Any]) -> dict[str, Any]:
        if contestant == "b":
            raise Absent("not b")
        if contestant == "c":
            raise Wrong("Y is off", 0.5)
        if contestant == "d":
            raise RuntimeError("CUDA error:\n  out of memory")
        return {"error_norm": 1e-7}

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        return [seconds]

    def warm(self, seconds: float) -> None:
        raise Absent("cold")

    def release(self) -> None:
        pass

    def lost(self) -> str | None:
        return None


def test_every_request_has_a_reply() -> None:
    peer = Small()
    assert peer_protocol.answer(peer, {"do": "describe"}) == {"ok": True, "contestants": ["a", "b"]}
    assert peer_protocol.answer(
        peer, {"do": "prepare", "row": row(), "contestants": ["a", "b", "c", "d"]}
    ) == {
        "ok": True,
        "prepared": {
            "a": {"error_norm": 1e-7},
            "b": {"absent": True, "error": "not b"},
            "c": {"ok": False, "error": "Y is off", "error_norm": 0.5},
            "d": {"ok": False, "error": "RuntimeError: CUDA error: out of memory"},
        },
    }
    assert peer_protocol.answer(
        peer, {"do": "measure", "contestant": "a", "what": "device", "seconds": 2}
    ) == {"ok": True, "us": [2.0]}
    assert peer_protocol.answer(peer, {"do": "warm", "seconds": 1}) == {
        "ok": False,
        "absent": True,
        "error": "cold",
    }
    assert peer_protocol.answer(peer, {"do": "measure"})["error"] == "KeyError: 'contestant'"
    assert peer_protocol.answer(peer, {"do": "dance"}) == {"ok": False, "error": "no such request: 'dance'"}


@pytest.mark.parametrize(
    "contestant, lost, answered",
    [
        ("d", "'an illegal access'", 1),
        ("d", "None", 2),
        ("c", "'an illegal access'", 1),
        ("a", "'not asked'", 2),
    ],
)
def test_a_process_that_is_lost_ends_after_its_reply(contestant: str, lost: str, answered: int) -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(BENCH / 'peers')!r}, {str(pathlib.Path(__file__).parent)!r}]\n"
        "from test_peers import Small\nfrom peer_protocol import serve\n"
        f"Small.lost = lambda self: {lost}\nsys.exit(serve(Small()))"
    )
    prepare = json.dumps({"do": "prepare", "row": row(), "contestants": [contestant]})
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=prepare + '\n{"do": "quit"}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(done.stdout.splitlines()) == answered
    assert done.returncode == (peer_protocol.CONTEXT_LOST if answered == 1 else 0)
    assert ("is lost to this process: an illegal access" in done.stderr) == (answered == 1)


def test_batches_fill_the_time_and_the_first_launches_are_not_timed() -> None:
    asked = []

    def run(count: int) -> float:
        asked.append(count)
        return 5.0 * count

    assert peer_protocol.timed_batches(run, 0.01) == [5.0] * 5
    assert asked[0] == 10 and asked[-1] == 400  # a fifth of 10 ms


def test_a_long_step_is_timed_once_at_least() -> None:
    assert peer_protocol.timed_batches(lambda count: 5e6 * count, 0.0) == [5e6]


@pytest.mark.parametrize("script, module", [("torch_peer.py", "torch"), ("jax_peer.py", "jax")])
def test_a_peer_without_its_library_says_so(script: str, module: str) -> None:
    code = (
        f"import sys, runpy; sys.modules[{module!r}] = None; sys.path.insert(0, {str(BENCH / 'peers')!r}); "
        f"sys.argv = [{script!r}]; runpy.run_path({str(BENCH / 'peers' / script)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input='{"do": "describe"}\n{"do": "quit"}\n',
        text=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    first, last = (json.loads(line) for line in done.stdout.splitlines())
    assert first["absent"] and module in first["error"] and last == {"ok": True}


def test_torch_multiplies_in_f32_whoever_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process that was started again is told to prepare before it was asked to describe itself.
    torch = mock.MagicMock()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "torch_network", raising=False)
    importlib.import_module("torch_network")
    del sys.modules["torch_network"]  # by monkeypatch it would come back
    assert torch.backends.cuda.matmul.allow_tf32 is False and torch.backends.cudnn.allow_tf32 is False
    torch.set_float32_matmul_precision.assert_called_once_with("highest")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_torch_computes_the_row(activation: str, mode: str) -> None:
    pytest.importorskip("torch")
    from torch_network import TorchNetwork

    network = data.network_of(row(activation, mode=mode))
    step = TorchNetwork(network, mode, "cpu")
    step.step()
    step.reset()
    step.step()
    y, gradients, parameters = step.results()
    assert check(network, mode, y, gradients or None, parameters) < 2e-6


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_jax_computes_the_row(activation: str, mode: str) -> None:
    pytest.importorskip("jax")
    from jax_network import JaxNetwork, checked

    network = data.network_of(row(activation, mode=mode))
    assert checked(network, JaxNetwork(network, mode)) < 2e-6


def test_jax_updates_its_parameters_in_place_from_step_to_step() -> None:
    jnp = pytest.importorskip("jax.numpy")
    from jax_network import JaxNetwork

    network = data.network_of(row(mode="train_step"))
    step = JaxNetwork(network, "train_step")
    for _ in range(3):
        before = step.parameters[0][0]
        outputs = step.step(jnp.float32(0.1))
        assert before.is_deleted() and not outputs[1][0][0].is_deleted()
    step.reset()
    assert (step.parameters[0][0] == network.weights[0]).all()
