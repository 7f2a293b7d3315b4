"""The contestants of a run, and the processes that they live in."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .process import FAILED, Gone, Process, Refused, TimedOut, reason_of
from .suite import Row

PROCESS_OF = {
    "ours": "bench_suite",
    "cublaslt_fast": "bench_suite",
    "cublaslt_same": "bench_suite",
    "torch_graph": "torch",
    "torch_eager": "torch",
    "torch_compile": "torch_compile",
    "jax": "jax",
}
CONTESTANTS = tuple(PROCESS_OF)
PEERS = CONTESTANTS[1:]
SLOPES = ("ours", "cublaslt_fast", "cublaslt_same", "torch_graph")  # which can time 32 copies in one graph

DESCRIBE_S, PREPARE_S, COMPILE_S = 180.0, 240.0, 60.0
RESTARTS = 3  # of one process; one that hangs in torch.compile is limited by time instead


@dataclass(frozen=True)
class Command:
    """How a process is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Pool:
    """Starts the processes that the wanted contestants need, and starts them again when they die. What is
    absent for the whole run is in `absent`, with the reason.
    """

    def __init__(
        self,
        commands: Mapping[str, Command],
        wanted: Collection[str],
        logs: pathlib.Path,
        compile_limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.absent: dict[str, str] = {}
        self.descriptions: dict[str, dict[str, Any]] = {}
        self._commands = commands
        self._logs = logs
        self._clock = clock
        self._compile_left_s = compile_limit_s
        self._restarts: dict[str, int] = {}
        self._processes: dict[str, Process] = {}
        self._wanted = list(wanted)
        for name in CONTESTANTS:
            if name not in wanted:
                self.absent[name] = "not asked for"

    def start(self) -> None:
        """Starts everything at once, and asks each what it is. Fills `descriptions` (by process) and
        `absent`. Time limits change nothing of `descriptions`.
        """
        names = [name for name in dict.fromkeys(PROCESS_OF.values()) if self._present(name)]
        for name in names:
            self._processes[name] = self._spawn(name)
        asked = {"do": "describe"}
        for name in names:
            try:
                self._processes[name].send(asked)
            except Gone as gone:
                self._absent_process(name, reason_of(gone))
        for name in names:
            if not self._present(name):
                continue
            try:
                reply = self._processes[name].receive(asked, DESCRIBE_S)
            except (Gone, Refused) as why:
                self._absent_process(name, reason_of(why))
                continue
            self.descriptions[name] = reply
            for contestant in self._present(name):
                if contestant not in reply.get("contestants", []):
                    self.absent[contestant] = f"{name} does not have it"
        if self._compile_left_s <= 0 and self._present("torch_compile"):
            self.absent["torch_compile"] = "no time is given to torch.compile (--limit-compile)"
            self._processes.pop("torch_compile").close()

    def prepare(
        self, row: Row, quick: bool, budget_s: float | None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Lets every contestant make the row ready and check it, one process after the other: several of them
        choose by timing, which must not be disturbed. `budget_s`: for our tuning; None for the library's
        default. Returns what each says of itself, and who is absent and
        why.
        """
        prepared: dict[str, dict[str, Any]] = {}
        absent: dict[str, str] = {}
        for name in dict.fromkeys(PROCESS_OF.values()):
            contestants = self._present(name)
            if name == "torch_compile" and contestants and row.mode != "forward":
                absent["torch_compile"] = "forward only"
                continue
            if contestants:
                self._prepare_process(
                    name,
                    contestants,
                    {
                        "do": "prepare",
                        "row": row.request(),
                        "contestants": contestants,
                        "quick": quick,
                        **({} if budget_s is None else {"budget_s": budget_s}),
                    },
                    prepared,
                    absent,
                )
        return prepared, absent

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        """Samples in microseconds. Gone, Refused."""
        reply = self._process(contestant).ask(
            {"do": "measure", "contestant": contestant, "what": what, "seconds": seconds}, 60 + 20 * seconds
        )
        samples = reply.get("us")
        if (
            not isinstance(samples, list)
            or not samples
            or not all(isinstance(sample, (int, float)) for sample in samples)
        ):
            raise Refused(f"{contestant} gave no samples of {what}", absent=False)
        return [float(sample) for sample in samples]

    def warm(self, seconds: float) -> None:
        """Keeps the GPU busy with one of the row's graphs. Gone, Refused."""
        self._process("ours").ask({"do": "warm", "seconds": seconds}, 60 + 20 * seconds)

    def sm_mhz(self) -> int | None:
        """The clock of the GPU's multiprocessors now, by bench_suite; None where it cannot tell."""
        try:
            clock = self._process("ours").ask({"do": "clocks"}, 20).get("sm_mhz")
        except (Gone, Refused):
            return None
        return clock if isinstance(clock, int) else None

    def release(self) -> None:
        """Frees what the row took in the processes that are still there."""
        for process in self._processes.values():
            if process.gone is None:
                try:
                    process.ask({"do": "release"}, 60)
                except (Gone, Refused):
                    pass  # the next request tells

    def close(self) -> None:
        for process in self._processes.values():
            process.close()

    def _present(self, process: str) -> list[str]:
        return [name for name in self._wanted if PROCESS_OF[name] == process and name not in self.absent]

    def _absent_process(self, name: str, reason: str) -> None:
        for contestant in self._present(name):
            self.absent[contestant] = reason

    def _spawn(self, name: str) -> Process:
        command = self._commands[name]
        count = self._restarts.get(name, 0)
        log = self._logs / (f"{name}.log" if count == 0 else f"{name}-{count}.log")
        return Process(name, command.arguments, log, command.environment)

    def _process(self, contestant: str) -> Process:
        return self._processes[PROCESS_OF[contestant]]

    def _prepare_process(
        self,
        name: str,
        contestants: list[str],
        message: Mapping[str, Any],
        prepared: dict[str, dict[str, Any]],
        absent: dict[str, str],
    ) -> None:
        timeout = PREPARE_S
        started = self._clock()
        if name == "torch_compile":
            if self._compile_left_s <= 0:
                absent["torch_compile"] = "the time for torch.compile is used up (--limit-compile)"
                return
            timeout = min(COMPILE_S, self._compile_left_s)
        try:
            self._revive(name)
            reply = self._processes[name].ask(message, timeout)
        except (Gone, Refused) as why:
            used_up_its_time = name == "torch_compile" and isinstance(why, TimedOut)
            absent.update(dict.fromkeys(contestants, str(why) if used_up_its_time else reason_of(why)))
        else:
            answers = reply.get("prepared", {})
            for contestant in contestants:
                answer = answers.get(contestant)
                if not isinstance(answer, dict):
                    absent[contestant] = f"{name} did not say whether it is ready"
                elif answer.get("absent") or answer.get("ok") is False or "error" in answer:
                    absent[contestant] = str(answer.get("error", "it gave no reason"))
                    if not answer.get("absent"):
                        absent[contestant] = FAILED + absent[contestant]
                else:
                    prepared[contestant] = answer
        finally:
            if name == "torch_compile":
                self._compile_left_s -= self._clock() - started

    def _revive(self, name: str) -> None:
        """Starts a process again that died in an earlier row. Gone once it has died too often."""
        process = self._processes[name]
        if process.gone is None:
            return
        count = self._restarts.get(name, 0) + 1
        if count > RESTARTS and name != "torch_compile":
            raise Gone(f"{process.gone} (and {name} was started again {RESTARTS} times already)")
        self._restarts[name] = count
        self._processes[name] = self._spawn(name)
