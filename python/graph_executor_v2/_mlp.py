"""mlp: a chain of layers Y = act(X W + b), forward or with its backward pass, as one Program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._buffers import Maker, fail, one_each, shape_of, text
from ._core import ActKind, GemmAttrs, GemmError, Program


@dataclass(eq=False)
class MLP:
    """What `mlp` made: a program, and the buffers it reads and writes.

    Write `x` (and `gy`, where no loss was given) before a launch, read the rest after it, both on
    the launch's stream or after `wait()`. More items may be added to `program` before `capture`;
    the program holds all buffers and parameters, and so does the executable captured from it.
    """

    program: Program
    x: Any  #: [batch, in]
    y: Any  #: [batch, out]
    gy: Any = None  #: training: the loss's gradient by y, [batch, out]
    gweights: list[Any] = field(default_factory=list)  #: training: stored as the weights are
    gbiases: list[Any] = field(default_factory=list)  #: training: shaped as the biases; None for None
    gx: Any = None  #: with input_gradient: [batch, in]

    def capture(self, **options: Any) -> _core.Executable:
        """`graph_executor_v2.capture(self.program, **options)`."""
        return _core.capture(self.program, **options)


def mlp(
    weights: Sequence[Any],
    biases: Sequence[Any] | None,
    act: Any,
    batch: int,
    training: bool = False,
    *,
    last_act: Any = None,
    leaky_slope: float = 0.01,
    trans_b: bool = False,
    loss: Callable[[int, list[Any], list[Any]], None] | None = None,
    loss_reads: Iterable[Any] = (),
    loss_writes: Iterable[Any] = (),
    input_gradient: bool = False,
    x: Any = None,
    y: Any = None,
    gy: Any = None,
    gx: Any = None,
    gweights: Sequence[Any] | None = None,
    gbiases: Sequence[Any] | None = None,
) -> MLP:
    """The layers Y = act(X weights[i] + biases[i]) in a row, over your parameters, without copies.

    weights: [in, out] each, or [out, in] with `trans_b` (torch.nn.Linear's); a transposed view
        (W.t(), W.T) is taken as it is. float32: torch, CuPy or NumPy arrays, or Tensors.
    biases: [out] each (or any shape a bias may have), None for a layer without, or None for all.
    act, last_act: an ActKind or its name; of all layers but the last, and of the last (None: none).
    training: after the forward pass comes `loss(stream, reads, writes)` as a step with reads
        [y, *loss_reads] and writes [gy, *loss_writes] (see Program.step; without it gy is an input
        that you fill), then the backward pass, which overwrites gweights and gbiases, and gx with
        `input_gradient`.

    x, y, gy, gx, gweights and gbiases are made by the weights' library, on their device and
    uninitialised, unless they are given (gweights or gbiases may be slices of one buffer, say).
    With weights of another kind, Tensors among them, they must be given. What lies between the layers is
    temporary storage of the program. A weight that serves in several layers has a gradient for each
    of them: a step of yours adds them up.

    Raises GemmError: ShapeMismatch and the like, which name the layer; MissingInput and
    MissingOutput for buffers that must be given; Invalid for arguments that do not go together.
    """
    weights = list(weights)
    if not weights:
        fail(_core.MissingInput, "weights is empty, expected at least one matrix")
    if isinstance(batch, bool) or not hasattr(batch, "__index__"):
        raise TypeError(f"batch is {batch!r}, expected an int")
    batch = operator.index(batch)
    if batch < 0:
        fail(_core.Invalid, f"batch is {batch}, expected at least 0")
    count = len(weights)
    all_biases = one_each("biases", biases, count)
    if not training:
        given = {
            "loss": loss,
            "input_gradient": input_gradient or None,
            "gy": gy,
            "gx": gx,
            "gweights": gweights,
            "gbiases": gbiases,
        }
        for name, value in given.items():
            if value is not None:
                fail(_core.Invalid, f"{name} is given, expected training=True with it")
    elif gx is not None and not input_gradient:
        fail(_core.Invalid, "gx is given, expected input_gradient=True with it")
    widths = _widths(weights, trans_b)

    make = Maker(weights[0])
    program = Program()

    def temporary(width: int) -> Any:
        return program.temporary((batch, width), device=make.device, device_index=make.device_index)

    x = make.buffer("x", x, (batch, widths[0]), _core.MissingInput)
    y = make.buffer("y", y, (batch, widths[-1]), _core.MissingOutput)
    layers: list[_Layer] = []
    for i in range(count):
        last = i + 1 == count
        attrs = GemmAttrs(trans_b=trans_b, act=last_act if last else act, leaky_slope=leaky_slope)
        output = y if last else temporary(widths[i + 1])
        below = layers[-1].output if layers else x
        layer = _Layer(i, below, weights[i], all_biases[i], output, attrs, last=last)
        if training and not y_serves_as_z(attrs.act, leaky_slope):
            layer.z = temporary(widths[i + 1])
        elif training and attrs.act != ActKind.None_:
            layer.z = output
        layer.add_forward(program)
        layers.append(layer)
    result = MLP(program, x, y)
    if not training:
        return result

    result.gy = make.buffer(
        "gy", gy, (batch, widths[-1]), _core.MissingInput if loss is None else _core.MissingOutput
    )
    result.gweights = make.like("gweights", gweights, weights)
    result.gbiases = make.like("gbiases", gbiases, all_biases)
    if input_gradient:
        result.gx = make.buffer("gx", gx, (batch, widths[0]), _core.MissingOutput)
    if loss is not None:
        program.step("loss", [y, *loss_reads], [result.gy, *loss_writes], loss)
    gradient = result.gy
    for layer in reversed(layers):
        below = temporary(widths[layer.index]) if layer.index > 0 else result.gx
        layer.add_backward(
            program, gradient, below, result.gweights[layer.index], result.gbiases[layer.index]
        )
        gradient = below
    return result


def y_serves_as_z(act: ActKind, leaky_slope: float) -> bool:
    """Whether the backward pass needs nothing that Y does not hold: no activation, or one that keeps
    the sign, by which alone its gradient goes."""
    return act in (ActKind.None_, ActKind.ReLU) or (act == ActKind.LeakyReLU and leaky_slope >= 0)


@dataclass
class _Layer:
    index: int
    input: Any
    weight: Any
    bias: Any
    output: Any
    attrs: GemmAttrs
    z: Any = None  # what the backward pass takes as Z
    last: bool = False

    def add_forward(self, program: Program) -> None:
        z = None if self.z is self.output else self.z
        self._named(
            {"Y": "y"} if self.last else {},
            lambda: program.forward(self.input, self.weight, self.bias, self.output, self.attrs, Z=z),
        )

    def add_backward(self, program: Program, gy: Any, gx: Any, gweight: Any, gbias: Any) -> None:
        names = {"gB": f"gweights[{self.index}]", "gBias": f"gbiases[{self.index}]"}
        if self.last:
            names["gY"] = "gy"
        if self.index == 0:
            names["gA"] = "gx"
        self._named(
            names,
            lambda: program.backward(
                self.input, self.weight, None, gy, self.z, gA=gx, gB=gweight, gBias=gbias, attrs=self.attrs
            ),
        )

    def _named(self, names: dict[str, str], add: Callable[[], None]) -> None:
        """Calls `add`; its errors say which of mlp's arguments the operands that they name are."""
        names = {"B": f"weights[{self.index}]", "bias": f"biases[{self.index}]", **names}
        if self.index == 0:
            names = {"A": "x", **names}
        *most, final = (f"{operand} is {argument}" for operand, argument in names.items())
        where = f"layer {self.index}, where {', '.join(most)} and {final}"
        try:
            add()
        except GemmError as error:
            raise _retold(error, where) from error
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from error


def _widths(weights: Sequence[Any], trans_b: bool) -> list[int]:
    """The input's width and each layer's, checked to fit."""
    widths: list[int] = []
    for i, weight in enumerate(weights):
        shape = shape_of(f"weights[{i}]", weight)
        if len(shape) != 2:
            fail(_core.ShapeMismatch, f"weights[{i}] is {text(shape)}, expected a matrix")
        rows, columns = reversed(shape) if trans_b else shape
        if widths and rows != widths[-1]:
            wanted = f"[N,{widths[-1]}]" if trans_b else f"[{widths[-1]},N]"
            before = shape_of(f"weights[{i - 1}]", weights[i - 1])
            turned = not trans_b and shape[1] == before[0]
            fail(
                _core.ShapeMismatch,
                f"weights[{i}] is {text(shape)}, expected {wanted} because weights[{i - 1}] is {text(before)}"
                + (": trans_b=True is for weights stored [out, in]" if turned else ""),
            )
        widths += [columns] if widths else [rows, columns]
    return widths


def _retold(error: GemmError, where: str) -> GemmError:
    code, _, rest = str(error).partition(": ")
    return type(error)(f"{code}: {where}: {rest}")
