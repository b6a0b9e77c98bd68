"""``tensorbnn report``: one self-contained HTML page about a run."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.cli.arguments import add_run
from tensorbnn.cli.opened import OpenedRun, open_run
from tensorbnn.cli.output import add_json, print_result
from tensorbnn.report.advice import as_options
from tensorbnn.report.page import write_report
from tensorbnn.report.subject import Judged
from tensorbnn.tables.reading import joined
from tensorbnn.tables.writing import check_no_directory


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("report", help="write an HTML page about a run")
    add_run(parser)
    parser.add_argument("--out", type=Path, help="the page to write; default: RUN/report.html")
    parser.add_argument(
        "--data", type=Path, help="a table with targets to judge by; default: held-out rows"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is at --out")
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    opened = open_run(options.run)
    file = options.out or options.run / "report.html"
    check_no_directory(file)
    if options.out is not None and file.exists() and not options.force:
        raise FileExistsError(f"{file} exists: choose another --out, or replace it with --force")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{file} can't be written: there is no directory {file.parent}")
    judged = None if options.data is None else _judged(opened, options.data)
    subject = write_report(options.run, file, judged=judged, progress=not options.quiet)
    size, verdict = file.stat().st_size, as_options(subject.diagnosis.verdict)
    lines = {"report": f"{file} ({size / 1e6:.1f} MB)", "verdict": verdict}
    facts = {
        "run": str(options.run),
        "report": str(file),
        "bytes": size,
        "trustworthy": subject.diagnosis.trustworthy,
        "verdict": verdict,
    }
    print_result(options, lines, facts)
    return 0


def _judged(opened: OpenedRun, file: Path) -> Judged:
    table = joined(opened.read(file, targets=True))
    numbers = opened.encoding_for(table, targets=True).encode(table, targets=True)
    name = f"{len(numbers.x):,} rows of {file.name}"
    places = np.flatnonzero(numbers.kept) + 1
    return Judged(numbers.x, np.asarray(numbers.y), name, unseen=None, numbers=places)
