"""A run's results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import summary
from .contestants import CONTESTANTS
from .results import FIGURE_OF, SLOPE_OF

TITLES = {
    "ours": "ours",
    "cublaslt_fast": "cuBLASLt fast",
    "cublaslt_same": "cuBLASLt same",
    "torch_graph": "torch graph",
    "torch_eager": "torch eager",
    "torch_compile": "torch compile",
    "jax": "JAX",
}
MODE_TITLES = {
    "forward": "Forward",
    "forward_backward": "Forward and backward",
    "train_step": "Training step",
}


def number(value: float | int | None) -> str:
    """Three significant digits, or what is there of a whole number; a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def _figures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    def cell(row: Mapping[str, Any], name: str) -> str:
        text = number(row[FIGURE_OF[name]])
        ratio = row["ratios"].get(name)
        return text if ratio is None else f"{text} ({ratio:.2f})"

    header = [
        "workload",
        "batch",
        *(TITLES[name] for name in CONTESTANTS),
        "floor",
        "host p50",
        "p99",
        "p99.9",
        "launch",
        "nodes",
    ]
    return _table(
        header,
        [
            [
                row["workload"],
                str(row["batch"]),
                *(cell(row, name) for name in CONTESTANTS),
                number(row["floor_us"]),
                *(
                    number(row[key])
                    for key in ("host_p50_us", "host_p99_us", "host_p999_us", "launch_us", "nodes")
                ),
            ]
            for row in rows
        ],
    )


def _slopes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return _table(
        ["workload", "batch", *(TITLES[name] for name in SLOPE_OF)],
        [
            [row["workload"], str(row["batch"]), *(number(row[key]) for key in SLOPE_OF.values())]
            for row in rows
        ],
    )


def _choices(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = (
        "plan_capture_cold_ms",
        "plan_capture_cached_ms",
        "second_start_candidates_timed",
        "second_start_heuristic_queries",
        "workspace_bytes",
        "error_ratio",
    )
    header = [
        "row",
        "plan + capture cold, ms",
        "with tuning file, ms",
        "timed then",
        "heuristic calls then",
        "workspace, bytes",
        "error / bound",
        "chosen",
    ]
    return _table(
        header,
        [
            [
                summary.name_of(row),
                *(number(row[key]) for key in keys),
                (row["variant"] or "-").replace(" | ", "; ").replace("|", "/"),
            ]
            for row in rows
        ],
    )


def _absent(document: Mapping[str, Any]) -> list[str]:
    lines = [f"* {name}: {reason}" for name, reason in document["absent"].items()]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in document["rows"]:
        of_row = {name: why for name, why in row["absent"].items() if name not in document["absent"]}
        of_row |= {f"slope of {name}": why for name, why in row["slope_absent"].items()}
        for name, reason in of_row.items():
            reasons.setdefault((name, reason), []).append(summary.name_of(row))
    for (name, reason), where in reasons.items():
        lines.append(f"* {name}: {reason} ({where[0] if len(where) == 1 else f'{len(where)} rows'})")
    return lines or ["Nobody."]


def markdown(document: Mapping[str, Any], stem: str) -> str:
    """The whole page; `stem` names the files beside it."""
    rows = document["rows"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        f"# Latency on {document['gpu']}",
        "",
        f"Driver {document['driver']}, CUDA {document['cuda']}, cuBLASLt {document['cublaslt']}"
        + (f", {versions}" if versions else "")
        + f". Commit {document['commit']}, {document['date']}.",
        "Written by `bench/run`"
        + (" `--quick`" if document["quick"] else "")
        + "; docs/performance.md says how to read it.",
        "",
        f"![Device time of every row, ours beside its peers]({stem}.svg)",
        "",
    ]
    lines += ["## Summary", "", *(f"    {line}" for line in summary.lines(rows, document["gpu"])), ""]
    for mode, title in MODE_TITLES.items():
        of_mode = [row for row in rows if row["mode"] == mode]
        if not of_mode:
            continue
        lines += [
            f"## {title}",
            "",
            "Microseconds of device time a step, back to back; in brackets, times ours. JAX: wall time.",
            "",
            *_figures(of_mode),
        ]
        lines += [
            "One step more in a graph of many, microseconds: (32 copies less one) / 31.",
            "",
            *_slopes(of_mode),
        ]
    lines += ["## What was chosen, and what it took", "", *_choices(rows)]
    lines += ["## Absent", "", *_absent(document), ""]
    return "\n".join(lines)
