"""Small networks of matrix products with the lowest latency: validated, planned and captured once, then replayed.

`Program` describes one, `capture` makes it an `Executable`, `Executable.launch` replays it; `mlp` builds the usual chain
of layers. Products that are enqueued at once are in `graph_executor_v2.ops._ops_gemm`, torch's layers in
`graph_executor_v2.torch`. Importing touches no GPU and needs neither NumPy nor torch.
"""

from __future__ import annotations

import os as _os
import typing as _typing

from ._loading import load_core as _load_core
from ._loading import site_packages as _site_packages

_load_core(__name__, _os.path.dirname(_os.path.abspath(__file__)))._set_site_packages(_site_packages())

from ._core import (  # noqa: E402
    BF16,
    CPU,
    CUDA,
    F16,
    F32,
    I8,
    I32,
    ActKind,
    BoundOperand,
    CaptureActive,
    CaptureInvalidated,
    ColMajor,
    CudaError,
    Device,
    DeviceMismatch,
    DType,
    DtypeMismatch,
    Executable,
    GemmAttrs,
    GemmError,
    Invalid,
    Layout,
    LayoutMismatch,
    MissingInput,
    MissingOutput,
    Node,
    OutOfMemory,
    Overlap,
    Program,
    RowMajor,
    ShapeMismatch,
    StatusCode,
    StrideMismatch,
    Target,
    Tensor,
    TensorDesc,
    Tuning,
    TuningProgress,
    TuningReport,
    Unsupported,
    __version__,
    as_tensor,
    capture,
    make_tensor_1d,
    make_tensor_2d,
    set_tuning_cache_path,
    target_available,
    tuning_cache_path,
    with_cuda,
)
from ._libraries import Library, libraries  # noqa: E402
from ._mlp import MLP, mlp  # noqa: E402

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """`ops` and `torch` are imported when they are first asked for."""
        if name in ("ops", "torch"):
            import importlib

            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BF16",
    "CPU",
    "CUDA",
    "F16",
    "F32",
    "I8",
    "I32",
    "MLP",
    "ActKind",
    "BoundOperand",
    "CaptureActive",
    "CaptureInvalidated",
    "ColMajor",
    "CudaError",
    "DType",
    "Device",
    "DeviceMismatch",
    "DtypeMismatch",
    "Executable",
    "GemmAttrs",
    "GemmError",
    "Invalid",
    "Layout",
    "LayoutMismatch",
    "Library",
    "MissingInput",
    "MissingOutput",
    "Node",
    "OutOfMemory",
    "Overlap",
    "Program",
    "RowMajor",
    "ShapeMismatch",
    "StatusCode",
    "StrideMismatch",
    "Target",
    "Tensor",
    "TensorDesc",
    "Tuning",
    "TuningProgress",
    "TuningReport",
    "Unsupported",
    "__version__",
    "as_tensor",
    "capture",
    "libraries",
    "make_tensor_1d",
    "make_tensor_2d",
    "mlp",
    "set_tuning_cache_path",
    "target_available",
    "tuning_cache_path",
    "with_cuda",
]
