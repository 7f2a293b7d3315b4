"""bench/run: chooses rows, drives the processes, writes the results."""

from __future__ import annotations

import argparse
import datetime
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import cautions, chart, floors, machine, results, summary, table
from .contestants import CONTESTANTS, PEERS, SLOPES, Command, Pool
from .process import Gone, Refused
from .schedule import QUICK, Measured, Progress, Settings, measure_row, span
from .suite import MODES, Row, SuiteError, load, rows

BENCH = pathlib.Path(__file__).resolve().parents[1]
SUITE = BENCH / "suite.json"
ROW_FLOP = 5e10  # operations of as long as a row takes whose own count for nothing
DESCRIPTION = """Measures every workload of bench/suite.json on this machine's GPU, ours beside its peers, and
writes <gpu>.json, <gpu>.md, <gpu>.svg and <gpu>-samples.json. docs/performance.md says how to read them. A
run of some rows or peers, of another suite, or a quick one, writes below the build folder unless --out says
where, so that bench/results only ever holds whole runs. Exit code 1: a row has no figure of ours, or a
contestant was wrong, failed or died; 2: nothing was measured, be it that --resume was refused."""


def _list(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _numbers(text: str) -> list[int]:
    try:
        return [int(item) for item in _list(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as in 1,64") from error


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with code 2 and a message where it is wrong."""
    parser = argparse.ArgumentParser(prog="bench/run", description=DESCRIPTION)
    add = parser.add_argument
    add(
        "--build",
        type=pathlib.Path,
        metavar="DIR",
        help="a build folder with bench_suite; default: build/bench, made and brought up to date",
    )
    add("--python", default=sys.executable, metavar="PATH", help="the interpreter that has torch and jax")
    add("--quick", action="store_true", help="fewer rounds and less time for tuning")
    add("--only", type=_list, default=[], metavar="W[,W]", help="workloads")
    add("--batch", type=_numbers, default=[], metavar="N[,N]")
    add("--mode", type=_list, default=[], metavar="M[,M]", help=", ".join(MODES))
    add(
        "--peers",
        type=_list,
        default=list(PEERS),
        metavar="P[,P]",
        help=", ".join(PEERS) + "; ours is always there",
    )
    add("--out", type=pathlib.Path, metavar="DIR", help="default: bench/results")
    add(
        "--resume",
        action="store_true",
        help="keep rows measured earlier with the same commit, programs, libraries, --peers, --quick and GPU "
        "(limits may differ); where one of these is another, nothing is measured and the rows stay",
    )
    add("--limit", type=float, metavar="SECONDS", help="begin no row after this; --resume goes on from there")
    add(
        "--limit-compile",
        type=float,
        default=300,
        metavar="SECONDS",
        help="for torch.compile in all (default 300; 0: it takes no part)",
    )
    add("--commit", help="where the sources are no git checkout")
    add("--suite", type=pathlib.Path, default=SUITE, metavar="FILE", help="workloads other than suite.json's")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.peers if name not in PEERS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return arguments


def commands_of(program: pathlib.Path, python: str, work: pathlib.Path) -> dict[str, Command]:
    """How the processes are started. Our own tuning goes into a file below `work`, never into the user's."""
    peers = BENCH / "peers"
    return {
        "bench_suite": Command([str(program)], {"GRAPH_EXECUTOR_TUNING_CACHE": str(work / "tuning.json")}),
        "torch": Command([python, str(peers / "torch_peer.py")]),
        "torch_compile": Command([python, str(peers / "torch_peer.py"), "--compile"]),
        "jax": Command([python, str(peers / "jax_peer.py")], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Run:
    """One call of bench/run, after its processes have said what they are."""

    def __init__(self, arguments: argparse.Namespace, pool: Pool, work: pathlib.Path, programs: str) -> None:
        self.pool = pool
        self.settings = QUICK if arguments.quick else Settings()
        self.limit_s = arguments.limit
        self.suite = pool.descriptions["bench_suite"]
        self.gpu = str(self.suite["gpu"])
        self.stem = results.stem_of(self.gpu)
        self.commit = arguments.commit or machine.commit()
        identity = {
            "commit": self.commit,
            "programs": programs,
            "--quick": arguments.quick,
            "--peers": sorted(set(arguments.peers)),
            **{
                f"{name} {key}": value  # GPU, driver and the version of each library
                for name, description in pool.descriptions.items()
                for key, value in description.items()
                if key != "ok"
            },
        }
        self.state = results.State(work / f"{self.stem}-rows.json", identity, arguments.resume)

    def measure(self, chosen: Sequence[Row]) -> None:
        """Every chosen row that is not there yet; keeps each as soon as it is done."""
        todo = [row for row in chosen if row.key not in self.state.rows]
        if len(todo) < len(chosen):
            say(f"{len(chosen) - len(todo)} of {len(chosen)} rows are there from an earlier run")
        progress = Progress([floors.flop(row) + ROW_FLOP for row in todo])
        for row in todo:
            if self.limit_s is not None and progress.elapsed_s >= self.limit_s:
                say(f"stopped after {span(progress.elapsed_s)} (--limit); --resume measures the rest")
                break
            say(progress.line(row.key))
            self.state.keep(row.key, *self._row(row))
            progress.done()

    def _row(self, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
        began = time.monotonic()
        prepared, absent = self.pool.prepare(row, self.settings.quick, self.settings.budget_s)
        absent = {**self.pool.absent, **absent}
        ready = time.monotonic()
        clocks: dict[str, int | None] = {"before": None, "after": None}
        measured = Measured()
        if "ours" in prepared:
            try:
                self.pool.warm(self.settings.warm_s)
            except (Gone, Refused) as why:
                say(f"    warming up failed: {why}")
            clocks["before"] = self._sm_mhz()
            measured = measure_row(
                self.pool.measure,
                [name for name in CONTESTANTS if name in prepared],
                [name for name in SLOPES if name in prepared],
                self.settings,
            )
            clocks["after"] = self._sm_mhz()
        else:  # without ours there is nothing to compare with
            absent.update({name: "ours is absent from this row" for name in prepared})
        self.pool.release()
        floor = floors.floors_of(row, self.gpu, int(self.suite.get("l2_bytes", 0)))
        figures = results.row_of(row, prepared, measured, absent, floor)
        shown = ", ".join(
            f"{name} {table.number(figures[key])}"
            for name, key in results.FIGURE_OF.items()
            if figures[key] is not None
        )
        say(
            f"    {shown or 'nothing'} us; prepared in {ready - began:.1f} s, "
            f"measured in {time.monotonic() - ready:.1f} s"
        )
        for name, reason in figures["absent"].items():
            if name not in self.pool.absent:
                say(f"    {name} is absent: {reason}")
        return figures, results.samples_of(row, measured, clocks)

    def _sm_mhz(self) -> int | None:
        clock = self.pool.sm_mhz()
        return machine.sm_mhz() if clock is None else clock

    def documents(self, order: Sequence[Row], quick: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """<gpu>.json and <gpu>-samples.json of every row that is there, in suite order."""
        kept = [self.state.rows[row.key] for row in order if row.key in self.state.rows]
        top = {
            "gpu": self.gpu,
            "driver": str(self.suite.get("driver")),
            "cuda": str(self.suite.get("cuda")),
            "cublaslt": str(self.suite.get("cublaslt")),
            "commit": self.commit,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "quick": quick,
        }
        versions: dict[str, str] = {}
        for description in self.pool.descriptions.values():
            versions.update(description.get("versions", {}))
        rows_kept = [item["row"] for item in kept]
        absent = {
            name: reason
            for name, reason in self.pool.absent.items()
            if all(row[results.FIGURE_OF[name]] is None for row in rows_kept)
        }
        figures = {
            **top,
            "versions": versions,
            "sm_count": self.suite.get("sm_count"),
            "l2_bytes": self.suite.get("l2_bytes"),
            "limits": floors.limits_of(self.gpu),
            "absent": absent,
            "rows": rows_kept,
        }
        return figures, {**top, "rows": [item["samples"] for item in kept]}


def write_all(out: pathlib.Path, stem: str, figures: Mapping[str, Any], samples: Mapping[str, Any]) -> None:
    """The four files. OSError."""
    results.write(out / f"{stem}.json", results.dump(figures))
    results.write(out / f"{stem}-samples.json", results.dump(samples))
    results.write(out / f"{stem}.md", table.markdown(figures, stem))
    results.write(out / f"{stem}.svg", chart.svg(figures))


def main(argv: Sequence[str], commands: Mapping[str, Command] | None = None) -> int:
    """The whole run; `commands` replaces the processes in tests. Returns the exit code."""
    arguments = parse(argv)
    build = arguments.build or machine.ROOT / "build" / "bench"
    work = build / "bench-run"
    try:
        suite = load(arguments.suite)
        chosen = rows(suite, arguments.only, arguments.batch, arguments.mode)
        if commands is None:
            program = machine.bench_suite(arguments.build, work / "build.log")
            commands = commands_of(program, arguments.python, work)
    except (SuiteError, machine.BuildError) as error:
        say(f"bench/run: {error}")
        return 2
    files = [
        arguments.suite,
        *sorted(BENCH.glob("runner/*.py")),
        *sorted(BENCH.glob("peers/*.py")),
        *(pathlib.Path(c.arguments[0]) for c in commands.values()),
    ]
    pool = Pool(commands, ["ours", *arguments.peers], work / "logs", arguments.limit_compile)
    try:
        pool.start()
        if "ours" in pool.absent:
            say(f"bench/run: nothing can be measured: {pool.absent['ours']} (logs: {work / 'logs'})")
            return 2
        for name, reason in pool.absent.items():
            say(f"{name} is absent: {reason}")
        run = Run(arguments, pool, work, machine.digest(files))
        if run.state.refused:
            say(f"bench/run: --resume is refused: {run.state.refused}")
            say("bench/run: nothing was measured; without --resume, new rows replace those")
            return 2
        run.measure(chosen)
        every = rows(suite)
        figures, samples = run.documents(every, arguments.quick)
    finally:
        pool.close()
    if not figures["rows"]:
        say("bench/run: no row was measured, nothing is written")
        return 2
    whole = (
        len(figures["rows"]) == len(every)
        and not arguments.quick
        and set(arguments.peers) == set(PEERS)
        and arguments.suite.resolve() == SUITE
    )
    out = arguments.out or (BENCH / "results" if whole else work / "results")
    write_all(out, run.stem, figures, samples)
    print(
        *summary.lines(figures["rows"], run.gpu),
        *cautions.lines(figures["rows"], samples["rows"]),
        f"{len(figures['rows'])} of {len(every)} rows are in {out / run.stem}.json",
        sep="\n",
    )
    return 1 if summary.failures(figures["rows"]) else 0
