"""The list of workloads, bench/suite.json, and the rows it makes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

MODES = ("forward", "forward_backward", "train_step")
ACTIVATIONS = ("None", "ReLU", "Tanh", "ELU", "GELUTanh")


class SuiteError(Exception):
    """What is wrong with the suite or with a choice from it: what was given and what was wanted."""


@dataclass(frozen=True)
class Workload:
    """A network: `layers` are its widths, the input's first; the last layer has no activation."""

    name: str
    layers: tuple[int, ...]
    activation: str
    batches: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One workload at one batch in one mode: what is measured at a time."""

    workload: str
    layers: tuple[int, ...]
    activation: str
    batch: int
    mode: str

    @property
    def key(self) -> str:
        return f"{self.workload}/{self.batch}/{self.mode}"

    def request(self) -> dict[str, Any]:
        """The row as contestants are told it."""
        return {
            "workload": self.workload,
            "layers": list(self.layers),
            "activation": self.activation,
            "batch": self.batch,
            "mode": self.mode,
        }


def _positive_integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item > 0 for item in value)


def _workload(entry: Any, where: str) -> Workload:
    if not isinstance(entry, dict):
        raise SuiteError(f"{where} is {entry!r}, expected an object")
    wanted = {"name", "layers", "activation", "batches"}
    if set(entry) != wanted:
        raise SuiteError(f"{where} has the fields {sorted(entry)}, expected {sorted(wanted)}")
    name = entry["name"]
    if not isinstance(name, str) or not name:
        raise SuiteError(f"{where}: name is {name!r}, expected a word")
    where = f"{where} ({name})"
    if not _positive_integers(entry["layers"]) or len(entry["layers"]) < 2:
        raise SuiteError(f"{where}: layers is {entry['layers']!r}, expected two or more positive widths")
    if not _positive_integers(entry["batches"]) or not entry["batches"]:
        raise SuiteError(f"{where}: batches is {entry['batches']!r}, expected one or more positive numbers")
    if len(set(entry["batches"])) != len(entry["batches"]):
        raise SuiteError(f"{where}: batches is {entry['batches']!r}, which names one twice")
    if entry["activation"] not in ACTIVATIONS:
        raise SuiteError(
            f"{where}: activation is {entry['activation']!r}, expected one of {', '.join(ACTIVATIONS)}"
        )
    return Workload(name, tuple(entry["layers"]), entry["activation"], tuple(entry["batches"]))


def load(path: pathlib.Path) -> list[Workload]:
    """The workloads of a suite file, in its order. SuiteError names the file and the entry at fault."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: {error}") from error
    entries = document.get("workloads") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise SuiteError(f'{path}: expected {{"workloads": [...]}} with one workload or more')
    workloads = [_workload(entry, f"{path}: workload {index}") for index, entry in enumerate(entries)]
    names = [workload.name for workload in workloads]
    for name in names:
        if names.count(name) > 1:
            raise SuiteError(f"{path}: two workloads are called {name}")
    return workloads


def rows(
    workloads: Collection[Workload],
    only: Collection[str] = (),
    batches: Collection[int] = (),
    modes: Collection[str] = (),
) -> list[Row]:
    """The rows of these workloads in suite order; an empty choice means all. SuiteError for what is not
    there.
    """
    _known("workload", only, [workload.name for workload in workloads])
    _known("batch", batches, sorted({batch for workload in workloads for batch in workload.batches}))
    _known("mode", modes, MODES)
    chosen = [
        Row(workload.name, workload.layers, workload.activation, batch, mode)
        for workload in workloads
        if not only or workload.name in only
        for batch in workload.batches
        if not batches or batch in batches
        for mode in MODES
        if not modes or mode in modes
    ]
    if not chosen:
        raise SuiteError("no row is left of the workloads and batches that were asked for")
    return chosen


def _known(what: str, given: Collection[Any], there: Collection[Any]) -> None:
    for item in given:
        if item not in there:
            raise SuiteError(f"no such {what}: {item}; there are {', '.join(str(known) for known in there)}")
