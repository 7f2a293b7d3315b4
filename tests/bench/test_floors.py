"""Floors against numbers worked out by hand."""

from __future__ import annotations

import pytest
from runner.floors import floors_of, flop, traffic_bytes, weight_bytes
from runner.suite import Row

L2 = 62914560


def row(mode: str, layers: tuple[int, ...] = (2, 3, 5), batch: int = 7) -> Row:
    return Row("small", layers, "ReLU", batch, mode)


def test_operations_are_counted_for_each_product() -> None:
    # 2*7*2*3 = 84 and 2*7*3*5 = 210; backward: both again for the weights, 210 for the data.
    assert flop(row("forward")) == 294
    assert flop(row("forward_backward")) == flop(row("train_step")) == 294 + 294 + 210


def test_bytes_are_counted_once_for_each_operand_and_result() -> None:
    assert weight_bytes(row("forward")) == 4 * (6 + 3 + 15 + 5)
    forward = 4 * (29 + 7 * (2 + 3 + 5))  # weights and biases, X, both Y
    assert traffic_bytes(row("forward")) == forward
    assert traffic_bytes(row("forward_backward")) == forward + 4 * (7 * 5 + 29)  # gY, gradients
    assert traffic_bytes(row("train_step")) == forward + 4 * (7 * 5 + 29)  # target, new weights


def test_a_small_network_is_bound_by_its_launch() -> None:
    floors = floors_of(row("forward"), "NVIDIA H200", L2)
    assert floors is not None and floors.us == floors.launch_us == 1.4


def test_a_large_product_is_bound_by_its_arithmetic() -> None:
    floors = floors_of(row("forward", (4096, 4096), 4096), "NVIDIA H200", L2)
    assert floors is not None
    assert floors.us == floors.flop_us == pytest.approx(2051.32, abs=0.01)  # 2 * 4096^3 / 67e12


def test_weights_that_fit_l2_are_read_from_there_and_others_from_hbm() -> None:
    wide = floors_of(row("forward", (1024,) * 5, 1), "NVIDIA H200", L2)
    ffn = floors_of(row("forward", (4096, 11008, 4096), 1), "NVIDIA H200", L2)
    assert wide is not None and wide.bytes_us == pytest.approx(
        (4 * (1024 * 1024 + 1024) + 5 * 1024) * 4 / 8e6
    )
    assert ffn is not None
    assert (
        ffn.us
        == ffn.bytes_us
        == pytest.approx((2 * 4096 * 11008 + 11008 + 4096 + 4096 + 11008 + 4096) * 4 / 4.8e6)
    )


def test_a_gpu_whose_limits_are_not_known_has_no_floor() -> None:
    assert floors_of(row("forward"), "NVIDIA B300", L2) is None
