#!/usr/bin/env python3
"""Runs everything that needs a GPU and writes the record docs/results/gpu-tests.md.

    scripts/gpu_tests.py BUILD_DIR [--only SECTION,...] [--quick] [--budget SECONDS]
    scripts/gpu_tests.py --assemble FOLDER...
    scripts/gpu_tests.py --check

BUILD_DIR is a build with GE_WITH_CUDA=ON, tests, samples and GE_BUILD_BENCH=ON. The record says what
was run, on what, and what came out; the logs keep the whole output and each section as it came out.
Sections: tests, alone, chains, large, bench, digits, python, python_alone, memcheck, racecheck, synccheck, initcheck.
A run of some sections, or a quick one, writes its record into the logs, so that docs/ only ever holds a whole one;
`--assemble` makes one record of the sections that several runs of one commit on one kind of GPU kept. Runs of tests,
chains, python, memcheck, racecheck and synccheck may go on side by side; the others want the GPU to themselves.
`--check` compares the tables with the programs that tests/gpu builds. The last lines are one for each thing that
ran. Exit code 1 if anything failed, 2 for wrong usage.
"""

import argparse
import pathlib
import re
import sys
import time

from gpu_record import record, sets
from gpu_record.runner import Runner
from gpu_record.sections import ROOT, SECTIONS

RECORD = ROOT / "docs/results/gpu-tests.md"


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--only", default=",".join(SECTIONS), metavar="SECTION,...")
    parser.add_argument("--quick", action="store_true", help="fewer cases, some minutes less")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop what runs longer")
    parser.add_argument("--python", type=pathlib.Path, metavar="FOLDER",
                        help="where the package graph_executor_v2 lies; default: BUILD_DIR/python")
    parser.add_argument("--commit", help="where the build folder's sources are no git checkout")
    parser.add_argument("--out", type=pathlib.Path, help="the record")
    parser.add_argument("--logs", type=pathlib.Path, help="default: BUILD_DIR/gpu-test-logs")
    parser.add_argument("--assemble", type=pathlib.Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(argv)
    arguments.only = arguments.only.split(",")
    unknown = [name for name in arguments.only if name not in SECTIONS]
    if unknown:
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if not arguments.build and not arguments.assemble and not arguments.check:
        parser.error("BUILD_DIR is missing")
    return arguments


def check():
    """Whether the tables name exactly the programs of tests/gpu."""
    text = (ROOT / "tests/gpu/CMakeLists.txt").read_text(encoding="utf-8")
    built = set(re.findall(r"(?:ge_gpu_test|add_executable)\(\s*(test_gpu_\w+)", text))
    named = {program.name for program in sets.EVERY_TEST}
    for name in sorted(built - named):
        print(f"{name} is built, and scripts/gpu_record/sets.py does not run it")
    for name in sorted(named - built):
        print(f"{name} is in scripts/gpu_record/sets.py, and tests/gpu does not build it")
    if built != named:
        return 1
    print(f"{len(built)} GPU programs, all recorded")
    return 0


def run(arguments):
    logs = arguments.logs or arguments.build / "gpu-test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + arguments.budget if arguments.budget else None
    commit = arguments.commit or record.commit_of(ROOT)
    sections = [name for name in SECTIONS if name in arguments.only]
    if arguments.quick:
        sections = [name for name in sections if name != "large"]
    for name in sections:
        (logs / f"section-{name}.json").unlink(missing_ok=True)
    for name in sections:
        print(f"{name}:", flush=True)
        runner = Runner(arguments.build.resolve(), logs, arguments.quick, deadline,
                        arguments.python and arguments.python.resolve())
        record.keep(logs, name, runner, SECTIONS[name](runner), commit)
    kept = record.kept_sections([logs])
    # Logs of earlier runs may be there too; another commit's do not belong in this record.
    return {name: kept[name] for name in sections}, logs


def main(argv):
    arguments = arguments_of(argv)
    if arguments.check:
        return check()
    if arguments.assemble:
        sections, logs = record.kept_sections(arguments.assemble), arguments.assemble[0]
        trouble = record.mixed(sections) if sections else "no sections are kept there"
        if trouble:
            print(trouble, file=sys.stderr)
            return 2
    else:
        sections, logs = run(arguments)
    lines, good, whole = record.record_of(sections)
    out = arguments.out or (RECORD if whole else logs / "gpu-tests.md")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n", encoding="utf-8")
    print("", *record.table(sections), sep="\n")
    print(f"{'everything passed' if good else 'FAILED'}: {out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
