"""mlp: a chain of layers Y = act(X W + b), forward or with its backward pass, as one Program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import _core
from ._core import ActKind, Device, GemmAttrs, GemmError, Program


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
    temporary storage of the program.

    Raises GemmError: ShapeMismatch and the like, which name the layer; MissingInput and
    MissingOutput for buffers that must be given; Invalid for arguments that do not go together.
    """
    weights = list(weights)
    if not weights:
        _fail(_core.MissingInput, "weights is empty, expected at least one matrix")
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch is {batch!r}, expected an int")
    if batch < 0:
        _fail(_core.Invalid, f"batch is {batch}, expected at least 0")
    count = len(weights)
    all_biases = _one_each("biases", biases, count)
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
                _fail(_core.Invalid, f"{name} is given, expected training=True with it")
    elif gx is not None and not input_gradient:
        _fail(_core.Invalid, "gx is given, expected input_gradient=True with it")
    widths = _widths(weights, trans_b)

    make = _Maker(weights[0])
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
        layer = _Layer(i, layers[-1].output if layers else x, weights[i], all_biases[i], output, attrs)
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

    def add_forward(self, program: Program) -> None:
        z = None if self.z is self.output else self.z
        self._named(lambda: program.forward(self.input, self.weight, self.bias, self.output, self.attrs, Z=z))

    def add_backward(self, program: Program, gy: Any, gx: Any, gweight: Any, gbias: Any) -> None:
        self._named(
            lambda: program.backward(
                self.input, self.weight, None, gy, self.z, gA=gx, gB=gweight, gBias=gbias, attrs=self.attrs
            )
        )

    def _named(self, add: Callable[[], None]) -> None:
        where = f"layer {self.index}, where B is weights[{self.index}] and bias is biases[{self.index}]"
        try:
            add()
        except GemmError as error:
            raise _retold(error, where) from error
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from error


class _Maker:
    """Makes buffers as `like` is: by its library, on its device."""

    def __init__(self, like: Any) -> None:
        self.device, self.device_index = _place_of(like)
        self._kind = type(like).__name__
        self._empty: Callable[[tuple[int, ...]], Any] | None = None
        library = _library_of(like)
        if library is None:
            return
        if library.__name__ == "torch":
            self._empty = lambda shape: library.empty(shape, dtype=library.float32, device=like.device)
        elif library.__name__ == "cupy":

            def empty(shape: tuple[int, ...]) -> Any:
                with library.cuda.Device(self.device_index):
                    return library.empty(shape, dtype=library.float32)

            self._empty = empty
        else:
            self._empty = lambda shape: library.empty(shape, dtype=library.float32)

    def empty(self, name: str, shape: tuple[int, ...], missing: type[GemmError]) -> Any:
        if self._empty is None:
            _fail(
                missing,
                f"{name} is not given, expected one of {_text(shape)} because nothing can be made "
                f"like weights of type {self._kind}",
            )
        return self._empty(shape)

    def buffer(self, name: str, given: Any, shape: tuple[int, ...], missing: type[GemmError]) -> Any:
        if given is None:
            return self.empty(name, shape, missing)
        if _shape_of(given) != shape:
            _fail(_core.ShapeMismatch, f"{name} is {_text(_shape_of(given))}, expected {_text(shape)}")
        return given

    def like(self, name: str, given: Sequence[Any] | None, parameters: Sequence[Any]) -> list[Any]:
        """One buffer stored as each of `parameters` is; None for None."""
        if given is not None:
            return _one_each(name, given, len(parameters))
        made: list[Any] = []
        for i, parameter in enumerate(parameters):
            if parameter is None:
                made.append(None)
                continue
            shape = _shape_of(parameter)
            turned = _is_transposed(parameter)
            buffer = self.empty(f"{name}[{i}]", shape[::-1] if turned else shape, _core.MissingOutput)
            made.append(buffer.T if turned else buffer)
        return made


def _widths(weights: Sequence[Any], trans_b: bool) -> list[int]:
    """The input's width and each layer's, checked to fit."""
    widths: list[int] = []
    for i, weight in enumerate(weights):
        shape = _shape_of(weight)
        if len(shape) != 2:
            _fail(_core.ShapeMismatch, f"weights[{i}] is {_text(shape)}, expected a matrix")
        rows, columns = reversed(shape) if trans_b else shape
        if widths and rows != widths[-1]:
            wanted = f"[N,{widths[-1]}]" if trans_b else f"[{widths[-1]},N]"
            _fail(
                _core.ShapeMismatch,
                f"weights[{i}] is {_text(shape)}, expected {wanted} because "
                f"weights[{i - 1}] is {_text(_shape_of(weights[i - 1]))}",
            )
        widths += [columns] if widths else [rows, columns]
    return widths


def _one_each(name: str, given: Sequence[Any] | None, count: int) -> list[Any]:
    values = [None] * count if given is None else list(given)
    if len(values) != count:
        _fail(_core.Invalid, f"{name} has {len(values)} entries, expected {count}, one for each of weights")
    return values


def _library_of(array: Any) -> Any:
    """torch, cupy or numpy, whichever `array` is of, or None."""
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("torch", "cupy", "numpy"):
            return sys.modules[root]
    return None


def _place_of(array: Any) -> tuple[Device, int]:
    if not hasattr(array, "__dlpack_device__"):
        tensor = _core.as_tensor(array)
        return tensor.device, tensor.device_index
    kind, index = array.__dlpack_device__()
    on_gpu = int(kind) in (2, 13)  # CUDA and CUDA managed memory; pinned memory is the host's
    return (Device.CUDA, int(index)) if on_gpu else (Device.CPU, 0)


def _shape_of(array: Any) -> tuple[int, ...]:
    shape = array.shape if hasattr(array, "shape") else _core.as_tensor(array).shape
    return tuple(int(extent) for extent in shape)


def _is_transposed(array: Any) -> bool:
    if _library_of(array) is None or array.ndim != 2 or min(array.shape) < 2:
        return False
    if hasattr(array, "strides"):
        outer, inner = (stride // array.itemsize for stride in array.strides)
    else:
        outer, inner = array.stride()
    return bool(outer == 1 and inner != 1)


def _text(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _fail(kind: type[GemmError], message: str) -> NoReturn:
    raise kind(f"{kind.__name__}: {message}")


def _retold(error: GemmError, where: str) -> GemmError:
    code, _, rest = str(error).partition(": ")
    return type(error)(f"{code}: {where}: {rest}")
