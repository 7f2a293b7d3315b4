"""Matrix products on tensors that are there already: forward and backward, enqueued at once.

Y = act(Z), Z = alpha * op(A) op(B) + beta * C + bias; its gradients; and what such a call keeps.
"""

from __future__ import annotations

from .._core import (
    PlanCacheInfo,
    backward,
    backward_ex,
    clear_plan_cache,
    forward,
    forward_ex,
    forward_numpy,
    plan_cache,
    set_graph_limit,
    set_plan_cache_limit,
)
from . import _ops_common
from ._ops_common import *  # noqa: F403

__all__ = [
    "PlanCacheInfo",
    "backward",
    "backward_ex",
    "clear_plan_cache",
    "forward",
    "forward_ex",
    "forward_numpy",
    "plan_cache",
    "set_graph_limit",
    "set_plan_cache_limit",
]
__all__ += _ops_common.__all__
