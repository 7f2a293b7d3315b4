"""The code of docs/python.md: blocks marked `python host` run anywhere, `python gpu` need torch and a GPU.

README.md's is marked `python` alone and needs both, too.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "python.md"
README = ROOT / "README.md"


def blocks(mark: str, path: pathlib.Path = GUIDE) -> list[tuple[int, str]]:
    """(line, code) of the blocks with this mark, in order; a block's line is that of its first code line."""
    found = []
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        if match.group(1).strip() == mark:
            found.append((text.count("\n", 0, match.start(2)) + 1, match.group(2)))
    return found


def run_blocks(mark: str, path: pathlib.Path = GUIDE) -> None:
    """Runs the blocks of one mark in order, in one namespace, as if they were one session."""
    session: dict[str, Any] = {"__name__": "guide"}
    for line, code in blocks(mark, path):
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), session)
