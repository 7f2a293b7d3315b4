"""docs/python.md: its host code runs, and each of its code blocks is one that some test runs."""

from __future__ import annotations

import re

from docs_blocks import GUIDE, blocks, run_blocks

import graph_executor_v2 as ge


def test_the_guides_host_code_runs() -> None:
    assert len(blocks("python host")) >= 5
    run_blocks("python host")


def test_every_python_block_is_marked_and_compiles() -> None:
    marks = re.findall(r"^```(\S.*)$", GUIDE.read_text(encoding="utf-8"), re.M)
    assert set(marks) <= {"python host", "python gpu"}, marks
    for line, code in blocks("python gpu"):
        compile(code, f"{GUIDE}:{line}", "exec")


def test_the_guides_table_of_errors_is_complete() -> None:
    codes = {
        code.__name__
        for code in vars(ge).values()
        if isinstance(code, type) and issubclass(code, ge.GemmError) and code is not ge.GemmError
    }
    listed = set(re.findall(r"^\| `([A-Za-z]+)` \|", GUIDE.read_text(encoding="utf-8"), re.M))
    assert codes and codes <= listed, codes - listed
