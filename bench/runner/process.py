"""A process that speaks the bench's protocol: one JSON object a line on stdin, one on stdout in reply."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

KILL_S = 10.0  # how long a killed process is waited for
FAILED = "failed: "  # begins the reason of one who was wrong, failed or died, rather than absent


class Gone(Exception):
    """The process is not there any more, with the reason: it never started, died, hung, or talked
    nonsense.
    """


class NeverStarted(Gone):
    """There is no such program, or it may not be run."""


class TimedOut(Gone):
    """It was ended, as it had not answered in time."""


class Refused(Exception):
    """The process answered that it cannot: the text of its reply. `absent`: it says that this is nothing to
    measure here, rather than a failure."""

    def __init__(self, text: str, absent: bool) -> None:
        super().__init__(text)
        self.absent = absent


def reason_of(why: Gone | Refused) -> str:
    """What results say of one who could not take part: a failure, unless it never started or says itself that
    there is nothing to measure.
    """
    is_absent = isinstance(why, NeverStarted) or (isinstance(why, Refused) and why.absent)
    return str(why) if is_absent else FAILED + str(why)


class Process:
    """Starts at construction, in a process group of its own, with stderr into `log`. After Gone was raised it
    stays gone: every later call raises the same reason. Not for use from several threads."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: pathlib.Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = log
        self._buffer = b""
        self._gone: Gone | None = None
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as errors:
                self._child: subprocess.Popen[bytes] | None = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
        except OSError as error:
            self._child = None
            self._gone = NeverStarted(f"{name} could not be started: {error}")

    @property
    def gone(self) -> str | None:
        """Why it is not there any more, or None."""
        return None if self._gone is None else str(self._gone)

    def ask(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Sends one request and waits `timeout` seconds at most for the reply. Gone; Refused."""
        self.send(message)
        return self.receive(message, timeout)

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one request, whose reply is to be received before the next. Gone."""
        child = self._there()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            self._fail(Gone(self._death()))

    def receive(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The reply to `message`. Gone; Refused."""
        line = self._read_line(message, time.monotonic() + timeout, timeout)
        try:
            reply: Any = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict) or not isinstance(reply.get("ok"), bool):
            text = line[:200].decode(errors="replace")
            self._fail(
                Gone(
                    f'{self.name} replied to {message.get("do")} with {text!r}, '
                    'expected a JSON object with "ok"'
                )
            )
        if not reply["ok"]:
            raise Refused(str(reply.get("error", "it gave no reason")), bool(reply.get("absent")))
        return dict(reply)

    def close(self, timeout: float = 10.0) -> None:
        """Asks it to quit, and kills it and all it started."""
        if self._child is None:
            return
        if self._gone is None:
            with contextlib.suppress(Gone, Refused):
                self.ask({"do": "quit"}, timeout)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout)
            self._gone = Gone(f"{self.name} was closed")
        self._kill()

    def _there(self) -> subprocess.Popen[bytes]:
        if self._gone is not None:
            raise type(self._gone)(str(self._gone))
        assert self._child is not None
        return self._child

    def _read_line(self, message: Mapping[str, Any], deadline: float, timeout: float) -> bytes:
        child = self._there()
        assert child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self._fail(
                        TimedOut(f"{self.name} did not answer {message.get('do')} within {timeout:g} s")
                    )
                chunk = os.read(child.stdout.fileno(), 1 << 20)
                if not chunk:
                    self._fail(Gone(self._death()))
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _death(self) -> str:
        """How it ended, and the last thing that it wrote to stderr."""
        assert self._child is not None
        try:
            code = self._child.wait(5)
        except subprocess.TimeoutExpired:
            how = "closed its output"
        else:
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{self.name} {how}" + (f": {lines[-1][:300]}" if lines else "")

    def _fail(self, gone: Gone) -> None:
        self._gone = gone
        self._kill()
        raise gone

    def _kill(self) -> None:
        """Ends the whole group: compilers that the process started too."""
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver, it ends when it can
            self._child.wait(KILL_S)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
