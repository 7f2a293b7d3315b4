"""What a run found, as JSON: the figures of each row, and the raw samples that they come from."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .contestants import CONTESTANTS, SLOPES
from .floors import Floors
from .schedule import Measured, quantile, ratios
from .suite import Row

FIGURE_OF = {name: f"{name}_us" for name in CONTESTANTS} | {"cublaslt_fast": "cublaslt_graph_us"}
SLOPE_OF = {name: f"{name}_slope_us" for name in SLOPES}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _median(samples: Sequence[float]) -> float | None:
    return _rounded(statistics.median(samples)) if samples else None


def row_of(
    row: Row,
    prepared: Mapping[str, Mapping[str, Any]],
    measured: Measured,
    absent: Mapping[str, str],
    floors: Floors | None,
) -> dict[str, Any]:
    """One row of <gpu>.json. Times in microseconds; null where there is none, and `absent` says why.
    `ratios`: how many times ours each peer takes. `slope_absent`: why one with a figure has no slope.
    """
    ours = prepared.get("ours", {})
    second = ours.get("second_start") or {}
    reasons = {**absent, **measured.failed}
    figures = {FIGURE_OF[name]: _median(measured.samples(name)) for name in CONTESTANTS}
    for name in CONTESTANTS:
        if figures[FIGURE_OF[name]] is None:
            reasons.setdefault(name, "it gave no samples")
    slopes = {name: _median(measured.slope.get(name, [])) for name in SLOPES}
    slope_reasons = {
        name: measured.slope_failed.get(name, "it gave no samples")
        for name in SLOPES
        if slopes[name] is None and figures[FIGURE_OF[name]] is not None
    }
    host = measured.host
    return {
        "workload": row.workload,
        "batch": row.batch,
        "mode": row.mode,
        **figures,
        "floor_us": _rounded(floors.us) if floors else None,
        "host_p50_us": _rounded(quantile(host, 0.5)) if host else None,
        "host_p99_us": _rounded(quantile(host, 0.99)) if host else None,
        "host_p999_us": _rounded(quantile(host, 0.999)) if host else None,
        "launch_us": _median(measured.launch),
        "nodes": ours.get("nodes"),
        "variant": ours.get("variant"),
        "error_ratio": ours.get("error_ratio"),
        **{SLOPE_OF[name]: slope for name, slope in slopes.items()},
        "workspace_bytes": ours.get("workspace_bytes"),
        "plan_capture_cold_ms": ours.get("plan_capture_cold_ms"),
        "plan_capture_cached_ms": ours.get("plan_capture_cached_ms"),
        "second_start_candidates_timed": second.get("candidates_timed"),
        "second_start_heuristic_queries": second.get("heuristic_queries"),
        "floor_launch_us": _rounded(floors.launch_us) if floors else None,
        "floor_flop_us": _rounded(floors.flop_us) if floors else None,
        "floor_bytes_us": _rounded(floors.bytes_us) if floors else None,
        "ratios": {name: round(value, 4) for name, value in ratios(measured.device).items()},
        "peers": {
            name: {
                key: told.get(key)
                for key in ("variant", "error_ratio", "error_norm", "nodes")
                if told.get(key) is not None
            }
            for name, told in prepared.items()
            if name != "ours" and name not in reasons
        },
        "absent": reasons,
        "slope_absent": slope_reasons,
    }


def samples_of(row: Row, measured: Measured, clocks: Mapping[str, int | None]) -> dict[str, Any]:
    """One row of <gpu>-samples.json. `device`: in the order of time. `host`: how often each round trip was
    seen, to 0.01 us. `sm_mhz`: the clock of the multiprocessors before and after the row's measurements.
    """
    host = Counter(round(sample, 2) for sample in measured.host)
    return {
        "workload": row.workload,
        "batch": row.batch,
        "mode": row.mode,
        "device": [
            {"contestant": name, "us": [_rounded(sample) for sample in samples]}
            for name, samples in measured.device
        ],
        "slope": {name: [_rounded(sample) for sample in samples] for name, samples in measured.slope.items()},
        "host": [[value, host[value]] for value in sorted(host)],
        "launch": [_rounded(sample) for sample in measured.launch],
        "sm_mhz": dict(clocks),
    }


def stem_of(gpu: str) -> str:
    """The name of a GPU's files: "NVIDIA H200" gives h200."""
    words = [
        word for word in gpu.lower().replace("/", " ").split() if word not in ("nvidia", "geforce", "tesla")
    ]
    return "-".join("".join(c for c in word if c.isalnum() or c in "._") for word in words) or "gpu"


def dump(document: Mapping[str, Any]) -> str:
    """JSON with one line a row, so that a difference between two runs shows row by row."""
    lines = []
    for key, value in document.items():
        if key == "rows":
            body = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in value)
            text = f"[\n{body}\n  ]" if value else "[]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(path: pathlib.Path, text: str) -> None:
    """Replaces the file at once or not at all. OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    def text(values: Mapping[str, Any], name: str) -> str:
        return json.dumps(values[name], ensure_ascii=False) if name in values else "nothing"

    names = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    return [f"{name} was {text(was, name)} and is {text(now, name)}" for name in names]


class State:
    """Rows that are done, kept in a file, so that a run that broke off can go on. `identity` tells by name,
    in values of JSON, what was measured with what. Rows of anything else are not taken over: then `refused`
    says why, and the file stays as it is until `keep`. OSError.
    """

    def __init__(self, path: pathlib.Path, identity: Mapping[str, Any], resume: bool) -> None:
        self._path = path
        self._identity = dict(identity)
        self.rows: dict[str, dict[str, Any]] = {}  # by Row.key: {"row": ..., "samples": ...}
        self.refused: str | None = None
        if resume and path.exists():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                differences = _differences(dict(kept["identity"]), self._identity)
                if differences:
                    self.refused = f"the rows in {path} are of something else: {'; '.join(differences)}"
                else:
                    self.rows = dict(kept["rows"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.refused = f"{path} cannot be used: {error}"

    def keep(self, key: str, row: Mapping[str, Any], samples: Mapping[str, Any]) -> None:
        """Adds a row and writes the file. OSError."""
        self.rows[key] = {"row": dict(row), "samples": dict(samples)}
        write(self._path, json.dumps({"identity": self._identity, "rows": self.rows}))
