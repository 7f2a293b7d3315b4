"""Sections as they are kept on disk, and the record made of them."""

import datetime
import json
import subprocess

from .sections import SECTIONS


def query(field):
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def commit_of(root):
    """The commit of a checkout, with a word where files differ from it; "unknown" without git."""
    def git(*arguments):
        return subprocess.run(["git", "-C", str(root), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    try:
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", ".", ":!docs/results")
    except OSError:
        return "unknown"
    return (commit + (" with local changes" if changed else "")) if commit else "unknown"


def keep(logs, section, runner, lines, commit):
    """Writes what a section came to; every later record from these logs holds it."""
    kept = {"section": section, "commit": commit, "quick": runner.quick, "lines": lines,
            "rows": runner.rows, "date": datetime.date.today().isoformat(),
            "gpu": f"{query('name')}, driver {query('driver_version')}"}
    (logs / f"section-{section}.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")


def kept_sections(folders):
    """The sections kept in these folders, by name; of one that is there twice, the last."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("section-*.json")):
            section = json.loads(path.read_text(encoding="utf-8"))
            found[section["section"]] = section
    return found


def mixed(sections):
    """Why these sections cannot make one record; empty where they can."""
    for key in ("commit", "gpu"):
        values = {s[key] for s in sections.values()}
        if len(values) > 1:
            return f"the sections are of different {key}s: " + ", ".join(sorted(values))
    return ""


def record_of(sections):
    """The record's lines, and whether everything is there and passed."""
    here = [name for name in SECTIONS if name in sections]
    missing = [name for name in SECTIONS if name not in sections]
    quick = [name for name in here if sections[name]["quick"]]
    rows = [row for name in here for row in sections[name]["rows"]]
    failed = sum(1 for row in rows if not row[3])
    verdict = f"{failed} failed" if failed else "everything passed"
    dates = sorted({sections[name]["date"] for name in here})
    software = ""
    if "bench" in here:
        fence = next((line for line in sections["bench"]["lines"] if "cuBLASLt " in line
                      and "driver for CUDA" in line), "")
        software = f"* Software: {fence}" if fence else ""
    lines = ["# GPU tests", "",
             "Written by `scripts/gpu_tests.py BUILD_DIR`; run it again rather than editing this.", "",
             f"* Result: {verdict}"]
    if missing:
        lines.append(f"* Partial; sections: {', '.join(here)}; not run: {', '.join(missing)}")
    if quick:
        lines.append(f"* Quick, with fewer cases: {', '.join(quick)}")
    lines += [f"* Commit: {sections[here[0]]['commit']}", f"* Date: {', '.join(dates)}",
              f"* GPU: {sections[here[0]]['gpu']}"]
    lines += [software] if software else []
    for name in here:
        lines += ["", *sections[name]["lines"]]
    return lines, not failed, not missing and not quick


def table(sections):
    """One line for each thing that ran: name, result, seconds."""
    rows = [row for name in SECTIONS if name in sections for row in sections[name]["rows"]]
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{name:<{width}}  {seconds:7.1f} s  {result}" for name, result, seconds, _ in rows]
