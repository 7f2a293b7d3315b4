"""Whether what a peer computed is right, in every mode."""

from __future__ import annotations

from collections.abc import Sequence

from data import LEARNING_RATE, Array, Network
from peer_protocol import Wrong
from reference import TOLERANCE, Reference, forward_error, gradient_errors, update_errors, worst


def check(
    network: Network,
    mode: str,
    y: Sequence[Array],
    gradients: Sequence[Array] | None = None,
    parameters: Sequence[Array] | None = None,
    rate: float = LEARNING_RATE,
) -> float:
    """The largest relative error (Frobenius norm against f64) of the last Y, of the gradients and, after a
    training step with learning rate `rate`, of the updates. `y`: of each layer; `gradients` and `parameters`:
    of every weight, then of every bias; None where the peer does not show them. Raises Wrong above
    TOLERANCE.
    """
    depth = len(network.weights)
    reference = Reference(network, mode, y)
    errors = forward_error(reference, y[-1])
    if mode != "forward":
        if gradients is None and parameters is None:
            raise ValueError("a backward pass without gradients or updated parameters cannot be checked")
        if gradients is not None:
            errors |= gradient_errors(reference, gradients[:depth], gradients[depth:])
        if mode == "train_step" and parameters is not None:
            errors |= update_errors(reference, network, parameters[:depth], parameters[depth:], rate)
    name, error = worst(errors)
    if not error <= TOLERANCE:
        raise Wrong(
            f"{name} is off by {error:.2g} of its norm, and {TOLERANCE:g} is the most that f32 may be", error
        )
    return error
