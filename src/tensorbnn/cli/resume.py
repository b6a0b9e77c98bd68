"""``tensorbnn resume``: continue a run that was stopped, or extend it."""

import argparse
import dataclasses
import time
from typing import Any

from tensorbnn.cli import output
from tensorbnn.cli.messages import warnings_as_lines
from tensorbnn.cli.options import RESULT, RUN, UNTIL, Command, Option, whole_number
from tensorbnn.cli.saved_run import open_store, training_points
from tensorbnn.data import unpack_dataset
from tensorbnn.sampling.api import resume
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.restore import restore_until
from tensorbnn.tables.encoding import noted_encoding


def run(options: argparse.Namespace) -> int:
    """Continue the run, and print the result."""
    began = time.monotonic()
    store = open_store(options.run)
    options.words = options.words.of_table(noted_encoding(store.manifest["notes"]))
    rule, points = restore_until(store), training_points(store)
    recorded = rule if isinstance(rule, Converged) else None
    wanted = {"rhat": options.rhat, "ess": options.ess}
    aims = {name: value for name, value in wanted.items() if value is not None}
    until = dataclasses.replace(recorded or Converged(fraction=1.0), **aims) if aims else None
    # The names of training rows, unless the rule checks other rows.
    names = () if points is None or (recorded and recorded.x is not None) else points.names
    with warnings_as_lines(dataclasses.replace(options.words, points=names)):
        ensemble = resume(
            options.run,
            draws=options.draws,
            until=until,
            max_minutes=options.max_minutes,
            max_gradients=options.max_gradients,
            progress=not options.quiet,
        )
    seconds, before = time.monotonic() - began, store.manifest
    spent = f"{seconds:.1f} s since it was resumed"
    same = until is None and options.draws in (None, before["draws"])
    if before["status"] == "complete" and same and "imported" not in before:
        spent = "none: the run is complete; extend it with --draws or --ess"
    lines = output.sampled(ensemble, spent)
    facts: dict[str, Any] = {"run": str(options.run), "networks": len(ensemble)}
    facts |= {"draws": ensemble.num_draws, "seconds": seconds}
    if points is not None:
        diagnosis = output.diagnose(ensemble, points, progress=not options.quiet)
        verdict, verdict_facts = output.convergence(diagnosis, options.words)
        lines, facts = lines | verdict, facts | verdict_facts
    validation = unpack_dataset(store.data(), "validation_")
    score, score_facts = output.score(ensemble, validation, progress=not options.quiet)
    lines |= score | output.where(options.run)
    output.print_result(options, lines, facts | score_facts)
    return 0


COMMAND = Command(
    "resume",
    "continue a run that was stopped, or extend it",
    (
        RUN,
        Option("draws", "total networks of each chain; the least number, with --ess", whole_number),
        *UNTIL,
        *RESULT,
    ),
    run,
)
