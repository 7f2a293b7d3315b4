"""A row in PyTorch, as one would write it by hand: addmm, activations in place, autograd, one fused
update.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from data import LEARNING_RATE, Array, Network
from torch import Tensor

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.set_float32_matmul_precision("highest")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "None": lambda z: z,
    "ReLU": torch.relu_,
    "Tanh": torch.tanh_,
    "ELU": torch.nn.functional.elu_,
    "GELUTanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
}


class TorchNetwork:
    """The operands of a row on a device, and its step. After step(): `y`, the Y of each layer, and with a
    backward pass `gradients`, of every weight and then of every bias.
    """

    def __init__(self, network: Network, mode: str, device: str) -> None:
        def there(array: Array) -> Tensor:
            return torch.tensor(array, device=device)

        self._origin = network
        self._mode = mode
        self.x = there(network.x)
        self.weights = [there(w) for w in network.weights]
        self.biases = [there(b) for b in network.biases]
        self.parameters = [*self.weights, *self.biases]
        self._gy = there(network.gy) if mode == "forward_backward" else None
        self._target = there(network.target) if mode == "train_step" else None
        self._one = torch.ones((), device=device)
        for parameter in self.parameters:
            parameter.requires_grad_(mode != "forward")
        self._acts = [ACTIVATIONS[network.activation_of(layer)] for layer in range(len(self.weights))]
        self.y: list[Tensor] = []
        self.gradients: tuple[Tensor, ...] = ()

    def forward(self) -> list[Tensor]:
        """The Y of each layer."""
        outputs = []
        y = self.x
        for w, b, act in zip(self.weights, self.biases, self._acts):
            y = act(torch.addmm(b, y, w))
            outputs.append(y)
        return outputs

    def step(self) -> None:
        """One step of the row's mode, enqueued on the current stream. Can be captured."""
        if self._mode == "forward":
            with torch.no_grad():
                self.y = self.forward()
            return
        self.y = self.forward()
        gy = self._gy
        if gy is None:  # the one kernel that autograd runs for a mean square loss; its value is not asked for
            gy = torch.ops.aten.mse_loss_backward(self._one, self.y[-1].detach(), self._target, 1)
        self.gradients = torch.autograd.grad(self.y[-1], self.parameters, gy)
        if self._mode == "train_step":
            with torch.no_grad():
                torch._foreach_add_(self.parameters, self.gradients, alpha=-LEARNING_RATE)

    def reset(self) -> None:
        """Weights and biases as they were at first, in place. Results that step() made are filled with NaN,
        so that one that a replay does not write shows.
        """
        with torch.no_grad():
            for parameter, origin in zip(self.parameters, [*self._origin.weights, *self._origin.biases]):
                parameter.copy_(torch.from_numpy(np.array(origin)))
            for result in [*self.y, *self.gradients]:
                result.detach().fill_(float("nan"))

    def results(self) -> tuple[list[Array], list[Array], list[Array]]:
        """Y of each layer, then gradients and parameters, weights first, as NumPy arrays. Waits for the
        device.
        """

        def here(tensors: list[Tensor] | tuple[Tensor, ...]) -> list[Array]:
            return [tensor.detach().cpu().numpy() for tensor in tensors]

        return here(self.y), here(self.gradients), here(self.parameters)
