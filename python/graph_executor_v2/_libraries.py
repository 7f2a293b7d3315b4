"""Which of NVIDIA's libraries are used, for troubleshooting."""

from __future__ import annotations

from typing import NamedTuple

from . import _core


class Library(NamedTuple):
    """A library that is loaded when a call first needs it."""

    name: str
    """"cuBLASLt" or "NVRTC"."""
    compiled: str
    """The version this package was compiled against; the one loaded must have its major version."""
    loaded: str | None
    """The version loaded; None where that fails."""
    file: str | None
    """The file it was loaded from; None where that fails."""
    error: str | None
    """Why it could not be loaded, with every place searched; None where it was."""


def libraries() -> tuple[Library, ...]:
    """Loads cuBLASLt and NVRTC, as the first call that needs them does, and says what was found.

    No GPU is needed. Empty where the package was built without CUDA. What has been loaded, and that something
    could not be, is remembered until the process ends.
    """
    return tuple(
        Library(name, compiled, loaded or None, file or None, error or None)
        for name, compiled, loaded, file, error in _core._library_report()
    )
