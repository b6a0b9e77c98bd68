"""``tensorbnn resume``: go on with a run that was stopped, or extend it."""

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from tensorbnn.cli import summaries
from tensorbnn.cli.arguments import add_run
from tensorbnn.cli.opened import check_run
from tensorbnn.cli.output import add_json, print_result, warnings_as_lines
from tensorbnn.cli.points import naming, own_points
from tensorbnn.report.subject import Points
from tensorbnn.sampling.api import resume
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.restore import restore_until
from tensorbnn.storage.directory import DirectoryStore


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("resume", help="go on with a run that was stopped, or extend it")
    add_run(parser)
    parser.add_argument(
        "--draws", type=int, help="networks of each chain in all; at least, with --ess"
    )
    parser.add_argument("--rhat", type=float, help="go on until R-hat of predictions is below this")
    parser.add_argument("--ess", type=float, help="go on until their ESS is at least this")
    parser.add_argument(
        "--minutes", "--max-minutes", type=float, help="stop after so many minutes from now"
    )
    parser.add_argument(
        "--max-gradients", type=int, help="stop a chain that has spent so many, burn-in included"
    )
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Go on, and say what came of it."""
    began = time.monotonic()
    check_run(options.run)
    before = DirectoryStore(options.run).manifest
    until, points = _until(options), own_points(DirectoryStore(options.run))
    with warnings_as_lines(_in_own_words(options, points)):
        ensemble = resume(
            options.run,
            draws=options.draws,
            until=until,
            max_minutes=options.minutes,
            max_gradients=options.max_gradients,
            progress=not options.quiet,
        )
    seconds = time.monotonic() - began
    spent = f"{seconds:.1f} s since it went on"
    same = until is None and options.draws in (None, before["draws"])
    if before["status"] == "complete" and same and "imported" not in before:
        spent = "none: it has reached its aim; give it another with --draws or --ess"
    lines = summaries.networks(ensemble) | {"time": spent}
    lines |= summaries.sampler(ensemble)
    facts: dict[str, Any] = {"run": str(options.run), "networks": len(ensemble)}
    facts |= {"draws": ensemble.num_draws, "seconds": seconds}
    if points is not None:
        diagnosis = summaries.judged(ensemble, points, progress=not options.quiet)
        lines |= summaries.convergence(diagnosis)
        facts |= summaries.convergence_facts(diagnosis)
    print_result(options, lines | summaries.where(options.run), facts)
    return 0


def _in_own_words(options: argparse.Namespace, points: Points | None) -> Callable[[str], str]:
    """How warnings name rows: as those of the table, where the run looks at these."""
    recorded = restore_until(DirectoryStore(options.run))
    elsewhere = isinstance(recorded, Converged) and recorded.at is not None
    return str if points is None or elsewhere else naming(points)


def _until(options: argparse.Namespace) -> Converged | None:
    """What predictions are to reach, where the options change it; the rest as the run says."""
    given = {
        name: value for name in ("rhat", "ess") if (value := getattr(options, name)) is not None
    }
    if not given:
        return None
    recorded = restore_until(DirectoryStore(options.run))
    own = recorded if isinstance(recorded, Converged) else Converged()
    return dataclasses.replace(own, **given)
