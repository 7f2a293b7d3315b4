"""The order of measuring, ratios, quantiles and the time that is left, with a clock of the test's own."""

from __future__ import annotations

import pytest
from runner.process import Gone, Refused
from runner.schedule import Progress, Settings, measure_row, quantile, ratios, span

SETTINGS = Settings(
    rounds=3, min_rounds=2, rounds_s=100, device_s=1, slope_rounds=2, slope_s=2, host_s=4, launch_s=8
)


class Machine:
    """Takes as long as it is asked to measure, and says 1, 2, 3, ... microseconds."""

    def __init__(self, trouble: dict[tuple[str, int], Exception] | None = None) -> None:
        self.now = 0.0
        self.asked: list[tuple[str, str]] = []
        self._trouble = trouble or {}
        self._calls: dict[str, int] = {}

    def measure(self, contestant: str, what: str, seconds: float) -> list[float]:
        self.asked.append((contestant, what))
        self._calls[contestant] = self._calls.get(contestant, 0) + 1
        if (contestant, self._calls[contestant]) in self._trouble:
            raise self._trouble[contestant, self._calls[contestant]]
        self.now += seconds
        return [float(len(self.asked))]

    def clock(self) -> float:
        return self.now


def test_ours_is_measured_before_and_after_each_peer() -> None:
    machine = Machine()
    measured = measure_row(machine.measure, ["ours", "a", "b"], ["ours", "b"], SETTINGS, machine.clock)
    one_round = ["ours", "a", "ours", "b", "ours"]
    assert [name for name, what in machine.asked if what == "device"] == one_round * 3
    assert [name for name, what in machine.asked if what == "slope"] == ["ours", "b"] * 2
    assert [what for _, what in machine.asked[-6:]] == ["host", "launch"] + ["slope"] * 4
    assert measured.samples("a") == [2.0, 7.0, 12.0]
    assert measured.samples("ours") == [1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 11.0, 13.0, 15.0]
    assert measured.slope == {"ours": [18.0, 20.0], "b": [19.0, 21.0]}
    assert (measured.host, measured.launch, measured.failed) == ([16.0], [17.0], {})


@pytest.mark.parametrize("budget, rounds", [(0, 2), (9, 2), (11, 3), (100, 3)])
def test_no_round_is_begun_after_the_budget_but_the_least_are_made(budget: float, rounds: int) -> None:
    machine = Machine()
    settings = Settings(rounds=3, min_rounds=2, rounds_s=budget, device_s=1)
    measure_row(machine.measure, ["ours", "a", "b"], [], settings, machine.clock)
    assert len([1 for name, what in machine.asked if (name, what) == ("a", "device")]) == rounds


def test_a_peer_that_fails_is_left_out_and_its_samples_are_dropped() -> None:
    machine = Machine({("a", 2): Gone("a died")})
    measured = measure_row(machine.measure, ["ours", "a", "b"], ["a", "b"], SETTINGS, machine.clock)
    assert measured.failed == {"a": "failed: a died"}
    assert measured.samples("a") == [] and "a" not in measured.slope
    assert len(measured.samples("b")) == 3 and len(measured.slope["b"]) == 2
    assert [name for name, what in machine.asked if what == "device"].count("a") == 2


@pytest.mark.parametrize(
    "trouble, reason",
    [
        (Refused("no memory", absent=False), "failed: no memory"),
        (Refused("it has none", absent=True), "it has none"),
        (Gone("b died"), "failed: b died"),
    ],
)
@pytest.mark.parametrize("call", [4, 5])  # the first and the second slope
def test_one_without_a_slope_keeps_all_else(trouble: Exception, reason: str, call: int) -> None:
    machine = Machine({("b", call): trouble})
    measured = measure_row(machine.measure, ["ours", "b"], ["ours", "b"], SETTINGS, machine.clock)
    assert measured.failed == {} and measured.slope_failed == {"b": reason}
    assert len(measured.samples("b")) == 3 and list(measured.slope) == ["ours"]
    assert len([1 for name, what in machine.asked if (name, what) == ("b", "slope")]) == call - 3


def test_one_that_has_nothing_to_measure_has_not_failed() -> None:
    machine = Machine({("b", 1): Refused("not here", absent=True)})
    assert measure_row(machine.measure, ["ours", "b"], [], SETTINGS, machine.clock).failed == {
        "b": "not here"
    }


def test_the_peers_are_measured_where_ours_fails() -> None:
    machine = Machine({("ours", 1): Gone("ours died")})
    measured = measure_row(machine.measure, ["ours", "a"], ["ours"], SETTINGS, machine.clock)
    assert measured.failed == {"ours": "failed: ours died"}
    assert len(measured.samples("a")) == 3 and measured.host == []


def test_a_ratio_compares_with_ours_just_before_and_after() -> None:
    # Everything becomes ten times slower in the second round: the ratio does not see it.
    device = [
        ("ours", [1.0]),
        ("a", [4.0]),
        ("ours", [3.0]),
        ("b", [6.0]),
        ("ours", [5.0]),
        ("ours", [10.0]),
        ("a", [40.0]),
        ("ours", [30.0]),
        ("b", [60.0]),
        ("ours", [50.0]),
    ]
    assert ratios(device) == {"a": 2.0, "b": 1.5}


def test_a_ratio_is_the_median_over_rounds_of_medians_over_samples() -> None:
    device = [
        ("ours", [1.0, 1.0, 9.0]),
        ("a", [2.0, 2.0, 70.0]),
        ("ours", [1.0]),
        ("a", [5.0]),
        ("ours", [1.0]),
        ("a", [3.0]),
        ("ours", [1.0]),
    ]
    assert ratios(device) == {"a": 3.0}


def test_there_is_no_ratio_without_ours() -> None:
    assert ratios([("a", [4.0])]) == {}


def test_quantiles_are_ranks_of_the_sorted_values() -> None:
    values = [float(i) for i in range(1000, 0, -1)]
    assert [quantile(values, share) for share in (0.5, 0.99, 0.999, 1.0, 0.0)] == [500, 990, 999, 1000, 1]
    assert quantile([7.0], 0.999) == 7.0
    with pytest.raises(ValueError, match="at least one"):
        quantile([], 0.5)


def test_the_time_that_is_left_goes_with_the_work() -> None:
    machine = Machine()
    progress = Progress([2, 1, 7], machine.clock)
    machine.now = 10
    progress.done()
    assert progress.left_s == 40
    progress.done()
    assert progress.left_s == pytest.approx(10 / 3 * 7)


def test_the_time_that_is_left_follows_the_rows_that_are_done() -> None:
    machine = Machine()
    progress = Progress([1, 1, 1, 1], machine.clock)
    assert progress.left_s is None and "left ?" in progress.line("jet/1/forward")
    machine.now = 30
    progress.done()
    assert progress.left_s == 90
    assert progress.line("jet/1/train_step") == "[2/4] jet/1/train_step  elapsed 0:30, left 1:30"
    assert span(3725) == "62:05"
