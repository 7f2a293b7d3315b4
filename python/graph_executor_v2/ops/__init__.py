"""Operations that are enqueued at once: `_ops_gemm`, and the types they share: `_ops_common`."""

from __future__ import annotations

import os as _os

from .._loading import refuse_strays as _refuse_strays

_refuse_strays(__name__, _os.path.dirname(_os.path.abspath(__file__)), ("_ops_common", "_ops_gemm"))

from . import _ops_common, _ops_gemm  # noqa: E402

__all__ = ["_ops_common", "_ops_gemm"]
