"""The bench's protocol as peers in Python speak it: one JSON object a line on stdin, one on stdout in
reply.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

UNTIMED = 10  # launches before anything is timed
CONTEXT_LOST = 3  # exit code
BATCHES = 5  # samples that one measurement is meant to give


class Absent(Exception):
    """A contestant that does not exist here, or not for this row; the text says why."""


class Wrong(Exception):
    """A result that differs too much from the reference, which is no reason to end."""

    def __init__(self, text: str, error: float) -> None:
        super().__init__(text)
        self.error = error


class Peer(Protocol):
    """What a peer's process can do. Whatever it raises becomes the reply's error."""

    def describe(self) -> dict[str, Any]:
        """The reply to "describe", without "ok". Absent where nothing can run here."""

    def prepare(self, contestant: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Makes one contestant ready for the row and checks its results. Absent, Wrong."""

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        """Samples in microseconds. Absent."""

    def warm(self, seconds: float) -> None:
        """Keeps the GPU busy."""

    def release(self) -> None:
        """Forgets the row."""

    def lost(self) -> str | None:
        """Why nothing can run in this process any more, or None. Asked after an error."""


def _prepare(peer: Peer, request: Mapping[str, Any]) -> dict[str, Any]:
    peer.release()
    answers: dict[str, Any] = {}
    for contestant in request["contestants"]:
        try:
            answers[contestant] = peer.prepare(contestant, request["row"])
        except Absent as why:
            answers[contestant] = {"absent": True, "error": str(why)}
        except Wrong as why:
            answers[contestant] = {"ok": False, "error": str(why), "error_norm": why.error}
        except Exception as error:  # noqa: BLE001 (a library that fails is a result, too)
            traceback.print_exc()
            answers[contestant] = {"ok": False, "error": _short(error)}
    return {"prepared": answers}


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def answer(peer: Peer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to one request; never raises."""
    try:
        do = request.get("do")
        if do == "describe":
            reply = peer.describe()
        elif do == "prepare":
            reply = _prepare(peer, request)
        elif do == "measure":
            reply = {"us": peer.measure(request["contestant"], request["what"], float(request["seconds"]))}
        elif do == "warm":
            peer.warm(float(request["seconds"]))
            reply = {}
        elif do == "release":
            peer.release()
            reply = {}
        elif do == "quit":
            reply = {}
        else:
            return {"ok": False, "error": f"no such request: {do!r}"}
        return {"ok": True, **reply}
    except Absent as why:
        return {"ok": False, "absent": True, "error": str(why)}
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        return {"ok": False, "error": _short(error)}


def _tells_of_an_error(reply: Mapping[str, Any]) -> bool:
    prepared = reply.get("prepared", {})
    return not reply["ok"] or any(each.get("ok") is False for each in prepared.values())


def serve(peer: Peer) -> int:
    """Answers requests until "quit" or the end of stdin, or until the peer is lost, so that whoever asks
    starts it again: the exit code is then CONTEXT_LOST. What libraries print goes to stderr: stdout carries
    replies alone.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        if not line.strip():
            continue
        request = json.loads(line)
        reply = answer(peer, request)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if _tells_of_an_error(reply) and (why := peer.lost()) is not None:
            print(f"the GPU is lost to this process: {why}", file=sys.stderr, flush=True)
            return CONTEXT_LOST
        if request.get("do") == "quit":
            break
    return 0


def timed_batches(run: Callable[[int], float], seconds: float) -> list[float]:
    """Samples in microseconds a step, BATCHES of them within about `seconds`, after UNTIMED steps that are
    not timed; fewer where a step takes long, at least one. `run(count)`: microseconds that `count` steps
    take, back to back.
    """
    run(UNTIMED)
    count = 1
    took = run(count)
    while (
        took < seconds * 1e6 / BATCHES / 8
    ):  # the first guess is of a single step, and overhead weighs in it
        count *= 4
        took = run(count)
    count = max(1, round(count * seconds * 1e6 / BATCHES / max(took, 1e-3)))
    end = time.monotonic() + seconds
    samples = [run(count) / count]
    while len(samples) < BATCHES and time.monotonic() < end:
        samples.append(run(count) / count)
    return samples
