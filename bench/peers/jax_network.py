"""A row in JAX: one jitted function a step, which returns everything that a step has to give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from data import Array, Network

jax.config.update("jax_default_matmul_precision", "highest")  # no TF32

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "None": lambda z: z,
    "ReLU": jax.nn.relu,
    "Tanh": jnp.tanh,
    "ELU": jax.nn.elu,
    "GELUTanh": lambda z: jax.nn.gelu(z, approximate=True),
}
Parameters = tuple[list[jax.Array], list[jax.Array]]


class JaxNetwork:
    """The operands of a row on the default device, and its step, compiled at the first call."""

    def __init__(self, network: Network, mode: str) -> None:
        self.mode = mode
        self._origin = network
        self._acts = [ACTIVATIONS[network.activation_of(layer)] for layer in range(len(network.weights))]
        self.x = jax.device_put(network.x)
        self.given = jax.device_put(network.gy if mode == "forward_backward" else network.target)
        self.reset()
        self._step = jax.jit(
            {
                "forward": self._forward,
                "forward_backward": self._forward_backward,
                "train_step": self._train_step,
            }[mode],
            donate_argnums=(0,) if mode == "train_step" else (),  # parameters are updated in place
        )

    def reset(self) -> None:
        """Weights and biases as they were at first, in memory of their own, since a training step takes it."""
        self.parameters: Parameters = (
            [jnp.array(w, copy=True) for w in self._origin.weights],
            [jnp.array(b, copy=True) for b in self._origin.biases],
        )

    def step(self, rate: jax.Array) -> Any:
        """One dispatch: the Y of each layer, and with a backward pass the gradients or, after a training
        step, the new parameters, which the next step starts from.
        """
        if self.mode == "forward":
            return self._step(self.parameters, self.x)
        if self.mode == "forward_backward":
            return self._step(self.parameters, self.x, self.given)
        outputs = self._step(self.parameters, self.x, self.given, rate)
        self.parameters = outputs[1]
        return outputs

    def _forward(self, parameters: Parameters, x: jax.Array) -> list[jax.Array]:
        outputs = []
        y = x
        for w, b, act in zip(*parameters, self._acts):
            y = act(y @ w + b)
            outputs.append(y)
        return outputs

    def _forward_backward(self, parameters: Parameters, x: jax.Array, gy: jax.Array) -> Any:
        def last(given: Parameters) -> Any:
            outputs = self._forward(given, x)
            return outputs[-1], outputs

        _, pull_back, outputs = jax.vjp(last, parameters, has_aux=True)
        return outputs, pull_back(gy)[0]

    def _train_step(self, parameters: Parameters, x: jax.Array, target: jax.Array, rate: jax.Array) -> Any:
        def loss(given: Parameters) -> Any:
            outputs = self._forward(given, x)
            return jnp.mean((outputs[-1] - target) ** 2), outputs

        gradients, outputs = jax.grad(loss, has_aux=True)(parameters)
        return outputs, jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)


def checked(network: Network, step: JaxNetwork) -> float:
    """Runs one step and returns its error as checks.check does. Raises Wrong."""
    import numpy as np
    from checks import check

    def here(arrays: Any) -> list[Array]:
        return [np.asarray(array) for array in jax.tree.leaves(arrays)]

    if step.mode == "forward":
        return check(network, step.mode, here(step.step(jnp.float32(0))))
    if step.mode == "forward_backward":
        y, gradients = step.step(jnp.float32(0))
        return check(network, step.mode, here(y), gradients=here(gradients))
    # The gradients do not come out, and a step of the usual rate is lost in the rounding of the weights: take
    # one as long as the weights themselves.
    rate = 1.0
    first = [*network.weights, *network.biases]
    for _ in range(2):
        step.reset()
        y, parameters = step.step(jnp.float32(rate))
        new = [np.array(array) for array in here(parameters)]
        moved = np.sqrt(sum(float(np.sum((a - b).astype(np.float64) ** 2)) for a, b in zip(first, new)))
        size = np.sqrt(sum(float(np.sum(a.astype(np.float64) ** 2)) for a in first))
        used, rate = rate, float(np.float32(rate * size / max(moved, 1e-30)))
    step.reset()
    return check(network, step.mode, here(y), parameters=new, rate=used)
