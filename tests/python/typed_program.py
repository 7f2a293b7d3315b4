"""Uses the whole API with its types; checked by mypy, never run."""

from __future__ import annotations

import numpy
import numpy.typing

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_common
from graph_executor_v2.ops import _ops_gemm as gemm

Array = numpy.typing.NDArray[numpy.float32]


def direct(a: Array, b: Array, bias: Array, y: Array, pointer: int) -> float:
    A = gemm.make_tensor_2d(pointer, (16, 64), dtype=gemm.DType.F32, device=gemm.Device.CPU, ld=64)
    same: _ops_common.Tensor = A
    attrs = gemm.GemmAttrs(with_bias=True, act=gemm.ActKind.ReLU)
    attrs.act = "leaky_relu"
    attrs.leaky_slope = 0.1
    gemm.forward(same, b, bias, y, attrs, None)
    gemm.forward(a, b, None, y, attrs, 0, Z_saved=y)
    gemm.backward(a, b, None, y, y, a, b, None, bias, attrs, stream=None)
    gemm.forward_ex(a, b, bias, y, trans_a=False, act="relu", with_bias=True, save_z=False, stream=2)
    gemm.backward_ex(a, b, y, y, gA=a, gB=b, act=gemm.ActKind.GELU, accumulate=("gA",))
    product: Array = gemm.forward_numpy(a, b, bias, "relu", device=ge.Device.CPU)
    rows, columns = ge.as_tensor(a).shape
    return float(product[0, 0]) + rows + columns


def plans(a: Array, b: Array, y: Array) -> str:
    program = ge.Program()
    hidden = program.temporary((16, 64), device=ge.Device.CPU)
    program.forward(a, b, None, hidden, act="relu")

    def scale(stream: int, reads: list[ge.Tensor], writes: list[ge.Tensor]) -> None:
        writes[0].numpy()[:] = 2 * reads[0].numpy()

    program.step("scale", [hidden], [y], scale)
    executable: ge.Executable = ge.capture(program, target="host", tuning="off")
    executable.launch()
    executable.launch(stream=0)
    executable.wait()
    executable.rebind([(a, b)])
    copy = executable.clone({1: 2})
    nodes: list[ge.Node] = copy.nodes()
    return executable.explain() + executable.dot() + nodes[0].name + str(executable.workspace_bytes + len(program))


def errors() -> ge.StatusCode:
    try:
        ge.target_available("cuda")
    except ge.Unsupported as error:
        return error.status
    except ge.GemmError as error:
        print(error.status)
    found: str | None = ge.libraries()[0].file
    print(found, ge.__version__)
    return ge.StatusCode.Ok
