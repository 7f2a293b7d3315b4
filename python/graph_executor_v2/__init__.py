"""Small networks of matrix products on the GPU or the host, with the lowest latency."""

from __future__ import annotations

import os as _os

from ._loading import load_core as _load_core
from ._loading import site_packages as _site_packages

_load_core(__name__, _os.path.dirname(_os.path.abspath(__file__)))

from . import _core  # noqa: E402

_core._set_site_packages(_site_packages())

globals().update({name: getattr(_core, name) for name in dir(_core) if not name.startswith("_")})
__version__ = _core.__version__
