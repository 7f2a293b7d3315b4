"""The order in which a row is measured, and how long all of it takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .process import Gone, Refused, reason_of

Measure = Callable[[str, str, float], list[float]]  # contestant, what, seconds -> microseconds
Clock = Callable[[], float]


@dataclass(frozen=True)
class Settings:
    """How much of a row is measured; times in seconds. Of the rounds, at least `min_rounds` are made and no
    more are begun after `rounds_s`: steps of milliseconds get fewer.
    """

    rounds: int = 5
    min_rounds: int = 3
    rounds_s: float = 3.0
    device_s: float = 0.03
    slope_rounds: int = 2
    slope_s: float = 0.03
    host_s: float = 0.3
    launch_s: float = 0.05
    warm_s: float = 0.2
    budget_s: float | None = None  # for our tuning; None: the library's default
    quick: bool = False


QUICK = Settings(
    rounds=2,
    min_rounds=1,
    rounds_s=0.8,
    device_s=0.015,
    slope_rounds=1,
    slope_s=0.015,
    host_s=0.1,
    launch_s=0.02,
    warm_s=0.1,
    budget_s=1.0,
    quick=True,
)


@dataclass
class Measured:
    """What measuring one row gave, in microseconds. `device`: in the order of time, who was measured and its
    samples. `failed`: contestants that dropped out, and why; none of their samples are kept. `slope_failed`:
    contestants without a slope, whose other samples are kept."""

    device: list[tuple[str, list[float]]] = field(default_factory=list)
    slope: dict[str, list[float]] = field(default_factory=dict)
    host: list[float] = field(default_factory=list)
    launch: list[float] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    slope_failed: dict[str, str] = field(default_factory=dict)

    def samples(self, contestant: str) -> list[float]:
        """All device samples of one contestant."""
        return [sample for name, samples in self.device if name == contestant for sample in samples]


def measure_row(
    measure: Measure,
    contestants: Sequence[str],
    slopes: Sequence[str],
    settings: Settings,
    clock: Clock = time.monotonic,
) -> Measured:
    """Rounds of (ours, peer, ours, next peer, ours, ...), so that whatever drifts drifts for both sides of a
    ratio; then our own host times, and slopes in turn, last, as their long graphs may fail where the step
    itself does not. A contestant that fails is left out from there on; where `ours` is not among the
    contestants, or fails, the peers are measured alone.
    """
    result = Measured()
    present = list(contestants)

    def one(contestant: str, what: str, seconds: float) -> list[float] | None:
        if contestant not in present:
            return None
        try:
            return measure(contestant, what, seconds)
        except (Gone, Refused) as why:
            present.remove(contestant)
            result.failed[contestant] = reason_of(why)
            return None

    def device(contestant: str) -> None:
        samples = one(contestant, "device", settings.device_s)
        if samples is not None:
            result.device.append((contestant, samples))

    started = clock()
    for number in range(settings.rounds):
        if number >= settings.min_rounds and clock() - started >= settings.rounds_s:
            break
        device("ours")
        for peer in [name for name in present if name != "ours"]:
            device(peer)
            device("ours")
    result.host = one("ours", "host", settings.host_s) or []
    result.launch = one("ours", "launch", settings.launch_s) or []
    for _ in range(settings.slope_rounds):
        for contestant in [name for name in slopes if name in present and name not in result.slope_failed]:
            try:
                samples = measure(contestant, "slope", settings.slope_s)
                result.slope.setdefault(contestant, []).extend(samples)
            except (Gone, Refused) as why:
                result.slope_failed[contestant] = reason_of(why)
                result.slope.pop(contestant, None)
    result.device = [(name, samples) for name, samples in result.device if name not in result.failed]
    return result


def ratios(device: Sequence[tuple[str, Sequence[float]]]) -> dict[str, float]:
    """How many times ours each peer takes: the median over its measurements of its median sample over the
    mean of ours just before and just after. Empty without ours.
    """
    medians = [(name, statistics.median(samples)) for name, samples in device]
    found: dict[str, list[float]] = {}
    for index, (name, value) in enumerate(medians):
        if name == "ours":
            continue
        before = next((v for n, v in reversed(medians[:index]) if n == "ours"), None)
        after = next((v for n, v in medians[index + 1 :] if n == "ours"), None)
        beside = [v for v in (before, after) if v is not None]
        if beside:
            found.setdefault(name, []).append(value / statistics.mean(beside))
    return {name: statistics.median(values) for name, values in found.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The value at `share` (0..1) of the sorted values, the nearest rank above. ValueError without values."""
    if not values:
        raise ValueError("a quantile needs at least one value")
    ordered = sorted(values)
    rank = -int(-share * len(ordered) // 1)  # rounded up
    return ordered[min(max(rank, 1), len(ordered)) - 1]


class Progress:
    """Says how far a run is, and how long the rest may take. `work`: of each row, in any unit that time goes
    with.
    """

    def __init__(self, work: Sequence[float], clock: Clock = time.monotonic) -> None:
        self._work = list(work)
        self._clock = clock
        self._started = clock()
        self._done = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    @property
    def left_s(self) -> float | None:
        """By the work of the rows that are done; None before the first."""
        done = sum(self._work[: self._done])
        return None if done == 0 else self.elapsed_s / done * sum(self._work[self._done :])

    def done(self) -> None:
        """One row more is done."""
        self._done += 1

    def line(self, what: str) -> str:
        left = self.left_s
        return (
            f"[{self._done + 1}/{len(self._work)}] {what}  elapsed {span(self.elapsed_s)}, "
            f"left {'?' if left is None else span(left)}"
        )


def span(seconds: float) -> str:
    """Minutes and seconds, as 3:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
