"""Finds the compiled module and tells what is wrong where it is missing or of another build."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import site
import sys
import sysconfig
from types import ModuleType


def load_core(package: str, folder: str) -> ModuleType:
    """The extension module `_core` of `package`, whose Python files are in `folder`.

    ImportError where there is none for this Python, where it does not load, or where it was compiled from
    other sources than the Python files beside it.
    """
    try:
        core = importlib.import_module(f"{package}._core")
    except ImportError as error:
        raise ImportError(_why_not(package, folder, error)) from error
    try:
        expected = importlib.import_module(f"{package}._build").BUILD_ID
    except ImportError as error:
        raise ImportError(
            f"{package} in {folder} has no _build.py, which the build writes beside its extension module: the "
            f"extension module {core.__file__} belongs to another installation. {_how_to_reinstall(package)}"
        ) from error
    found = getattr(core, "build_id", "unknown")
    if found != expected:
        raise ImportError(
            f"{package}: two builds are mixed. {core.__file__} is of build {found}, but the Python files in "
            f"{folder} are of build {expected}. {_how_to_reinstall(package)}"
        )
    return core


def refuse_strays(package: str, folder: str, names: tuple[str, ...]) -> None:
    """ImportError where Python would take an extension module, or anything from elsewhere, in place of a
    Python file `name`.py of `folder`: what an older version of `package` has left behind."""
    for name in names:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            stray = os.path.join(folder, name + suffix)
            if os.path.exists(stray):
                raise ImportError(_stray(package, name, stray))
        wanted = os.path.join(folder, name + ".py")
        loaded = sys.modules.get(f"{package}.{name}")
        if loaded is not None:
            found = getattr(loaded, "__file__", None)
        else:
            spec = importlib.util.find_spec(f"{package}.{name}")
            found = None if spec is None else spec.origin
        if found is None or not os.path.exists(found) or not os.path.samefile(found, wanted):
            raise ImportError(_stray(package, name, found or "a module without a file"))


def site_packages() -> list[str]:
    """The folders in which this interpreter would find NVIDIA's wheels, in the order of its search."""
    folders = [entry for entry in sys.path if entry and os.path.isdir(os.path.join(entry, "nvidia"))]
    if hasattr(site, "getsitepackages"):  # not in environments of old versions of virtualenv
        folders += site.getsitepackages()
    folders.append(sysconfig.get_path("purelib"))
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(os.path.abspath(folder) for folder in folders if folder))


def _why_not(package: str, folder: str, error: ImportError) -> str:
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    there = sorted(file for file in os.listdir(folder) if file.startswith("_core.") and file.endswith(".so"))
    fitting = [file for file in there if file[len("_core"):] in importlib.machinery.EXTENSION_SUFFIXES]
    if fitting:
        return f"{package}: the extension module {os.path.join(folder, fitting[0])} does not load: {error}"
    if there:
        return (
            f"{package}: {folder} has {', '.join(there)}, but this is {python} ({sys.executable}), which needs "
            f"_core{suffix}. Install it for this Python: {sys.executable} -m pip install --force-reinstall <path>"
        )
    return (
        f"{package}: {folder} has no extension module (_core{suffix} for {python}, {sys.platform}). Is it the "
        "source tree? Leave that folder or take it off PYTHONPATH, and install the package: "
        f"{sys.executable} -m pip install <path of the repository>"
    )


def _how_to_reinstall(package: str) -> str:
    return (
        f"Remove what is stale and install again: {sys.executable} -m pip uninstall {package}, delete the folder if it "
        "is still there, then pip install <path of the repository>."
    )


def _stray(package: str, name: str, found: str) -> str:
    return (
        f"{package}: an old duplicate module is in the way: Python would take {found} for {package}.{name}. Delete that "
        f"file (older versions of this package have left it there), or find out what else puts it on the path."
    )
