"""``tensorbnn report``: write a self-contained HTML page about a run."""

import argparse
from pathlib import Path

from tensorbnn.cli.messages import render
from tensorbnn.cli.options import OVERWRITE, RESULT, RUN, Command, Option
from tensorbnn.cli.output import print_result
from tensorbnn.cli.saved_run import check_free_file, open_run
from tensorbnn.report.page import write_report
from tensorbnn.tables.reading import joined


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    saved = open_run(options.run)
    file = options.out or options.run / "report.html"
    check_free_file(file, overwrite=options.overwrite or options.out is None, is_table=False)
    options.words = options.words.of_table(saved.encoding)
    judged, name = None, ""
    if options.validation is not None:
        table = joined(saved.read(options.validation, targets=True))
        judged = saved.encoding_for(table, targets=True).encode(table, targets=True)
        name = f"{len(judged):,} rows of {options.validation.name}"
    shown = {"words": options.words, "progress": not options.quiet}
    context = write_report(options.run, file, judged=judged, judged_name=name, **shown)
    size, verdict = file.stat().st_size, context.diagnosis.verdict
    text = render(verdict, options.words)
    lines = {"report": f"{file} ({size / 1e6:.1f} MB)", "verdict": text}
    facts = {"run": str(options.run), "report": str(file), "bytes": size}
    facts |= {"trustworthy": verdict.trustworthy, "kind": verdict.kind.value, "verdict": text}
    print_result(options, lines, facts)
    return 0


VALIDATION = "a table of rows with targets to judge predictions by; default: those held out"
COMMAND = Command(
    "report",
    "write an HTML report about a run",
    (
        RUN,
        Option("out", "the page to write; default: RUN/report.html", Path, path="file"),
        Option("validation", VALIDATION, Path, path="file"),
        OVERWRITE,
        *RESULT,
    ),
    run,
)
