"""The code blocks of docs/python.md: those marked `python host` run anywhere, `python gpu` need torch and a GPU."""

from __future__ import annotations

import pathlib
import re
from typing import Any

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def blocks(kind: str) -> list[tuple[int, str]]:
    """(line, code) of the blocks with this mark, in order; a block's line is that of its first code line."""
    found = []
    text = GUIDE.read_text(encoding="utf-8")
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        if match.group(1).strip() == kind:
            found.append((text.count("\n", 0, match.start(2)) + 1, match.group(2)))
    return found


def run_blocks(kind: str) -> None:
    """Runs the blocks of one mark in order, in one namespace, as if they were one session."""
    session: dict[str, Any] = {"__name__": "guide"}
    for line, code in blocks(f"python {kind}"):
        exec(compile("\n" * (line - 1) + code, str(GUIDE), "exec"), session)
