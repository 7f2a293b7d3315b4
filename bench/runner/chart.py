"""A run's results as an SVG: for each mode a column of bars on a log scale, ours first, a tick for the
floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from .contestants import CONTESTANTS
from .results import FIGURE_OF
from .table import MODE_TITLES, TITLES, number

BAR, GAP, LABELS, COLUMN, BETWEEN, TOP, BOTTOM = 8, 9, 112, 330, 46, 78, 30
COLOURS = {  # light, dark
    "ours": ("#d1361b", "#ff7a5c"),
    "cublaslt_fast": ("#1f6fae", "#6db3ec"),
    "cublaslt_same": ("#7fb2d9", "#31648f"),
    "torch_graph": ("#6b4596", "#b592e0"),
    "torch_eager": ("#b9a3d3", "#5f4780"),
    "torch_compile": ("#3d8a56", "#7fcb97"),
    "jax": ("#c19a1b", "#e3c35a"),
}


INK, FAINT, LINE, PAPER = (
    ("#1b1f24", "#e6edf3"),
    ("#6a737d", "#9aa4ae"),
    ("#d8dde3", "#343b44"),
    ("#fff", "#0d1117"),
)


def _colours(dark: bool) -> str:
    """Plain rules without variables, which some viewers do not know."""
    rules = [
        f"text{{fill:{INK[dark]}}}.value,.axis{{fill:{FAINT[dark]}}}.paper{{fill:{PAPER[dark]}}}",
        f".grid{{stroke:{LINE[dark]}}}.floor{{stroke:{INK[dark]}}}",
    ]
    return "".join(rules + [f".{name}{{fill:{colours[dark]}}}" for name, colours in COLOURS.items()])


def _style() -> str:
    return (
        "text{font-family:system-ui,sans-serif}.value{font-size:7.5px}.axis{font-size:9px}.floor{stroke-width:1.6}"
        f"{_colours(False)}@media (prefers-color-scheme:dark){{{_colours(True)}}}"
    )


class _Scale:
    """Microseconds to pixels from the left edge of a column, in whole decades."""

    def __init__(self, values: Sequence[float]) -> None:
        self.first = math.floor(math.log10(min(values)))
        self.last = max(math.ceil(math.log10(max(values))), self.first + 1)

    def at(self, value: float) -> float:
        return (math.log10(value) - self.first) / (self.last - self.first) * COLUMN

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'


def _present(row: Mapping[str, Any]) -> list[str]:
    return [name for name in CONTESTANTS if row[FIGURE_OF[name]]]


def _group(row: Mapping[str, Any], left: float, top: float, scale: _Scale) -> list[str]:
    """The bars of one row, and its floor across them."""
    marks = []
    y = top
    for name in _present(row):
        value = row[FIGURE_OF[name]]
        length = max(scale.at(value), 1.0)
        marks.append(
            f'<rect class="{name}" x="{left:.1f}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 1}"/>'
        )
        marks.append(_text(left + length + 3, y + BAR - 1.6, number(value), 'class="value"'))
        y += BAR
    if row["floor_us"] and y > top:
        x = left + max(scale.at(row["floor_us"]), 0.0)
        marks.append(f'<line class="floor" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 1:.1f}" y2="{y:.1f}"/>')
    return marks


def _legend(names: Sequence[str]) -> list[str]:
    marks = []
    x = float(LABELS)
    for name in names:
        marks.append(f'<rect class="{name}" x="{x:.0f}" y="32" width="10" height="10"/>')
        marks.append(_text(x + 14, 41, TITLES[name], 'font-size="11"'))
        x += 24 + 6.4 * len(TITLES[name])
    marks.append(f'<line class="floor" x1="{x + 5:.0f}" x2="{x + 5:.0f}" y1="31" y2="43"/>')
    marks.append(_text(x + 14, 41, "floor: launch, arithmetic or bytes", 'font-size="11"'))
    return marks


def svg(document: Mapping[str, Any]) -> str:
    """The whole picture. One line of workload and batch across all modes that were measured."""
    rows = {(row["workload"], row["batch"], row["mode"]): row for row in document["rows"]}
    modes = [mode for mode in MODE_TITLES if any(key[2] == mode for key in rows)]
    pairs = list(dict.fromkeys(key[:2] for key in rows))
    values = [row[FIGURE_OF[name]] for row in rows.values() for name in _present(row)]
    values += [row["floor_us"] for row in rows.values() if row["floor_us"]]
    scale = _Scale(values or [1.0, 10.0])
    heights = [
        max([len(_present(rows[pair + (mode,)])) for mode in modes if pair + (mode,) in rows] + [1]) * BAR
        + GAP
        for pair in pairs
    ]
    width = max(LABELS + len(modes) * (COLUMN + BETWEEN), 900)
    height = TOP + sum(heights) + BOTTOM
    lefts = [LABELS + index * (COLUMN + BETWEEN) for index in range(len(modes))]

    marks = [f'<rect class="paper" width="{width}" height="{height}"/>']
    marks.append(
        _text(
            LABELS,
            20,
            f"{document['gpu']}: microseconds a step, log scale; shorter is quicker",
            'font-size="14" font-weight="600"',
        )
    )
    there = {name for row in rows.values() for name in _present(row)}
    marks += _legend([name for name in CONTESTANTS if name in there])
    for mode, left in zip(modes, lefts):
        marks.append(_text(left, TOP - 18, MODE_TITLES[mode], 'font-size="12" font-weight="600"'))
        for decade in scale.decades():
            x = left + scale.at(decade)
            marks.append(
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - BOTTOM + 4}"/>'
            )
            marks.append(_text(x, TOP - 7, f"{decade:g}", 'class="axis" text-anchor="middle"'))
    y = float(TOP + 2)
    for pair, size in zip(pairs, heights):
        marks.append(
            _text(
                LABELS - 8,
                y + (size - GAP) / 2 + 4,
                f"{pair[0]} {pair[1]}",
                'font-size="11" text-anchor="end"',
            )
        )
        for mode, left in zip(modes, lefts):
            if pair + (mode,) in rows:
                marks += _group(rows[pair + (mode,)], left, y, scale)
        y += size
    marks.append(
        _text(
            LABELS,
            height - 10,
            f"Commit {document['commit']}, {document['date']}, driver "
            f"{document['driver']}, CUDA {document['cuda']}, cuBLASLt {document['cublaslt']}. "
            "JAX: wall time of many dispatches; all others device time.",
            'class="axis"',
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img"><title>Latency on {escape(document["gpu"])}</title>'
        f"<style>{_style()}</style>\n" + "\n".join(marks) + "\n</svg>\n"
    )
