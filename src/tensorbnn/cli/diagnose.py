"""``tensorbnn diagnose``: whether the predictions of a run can be trusted."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.cli import summaries
from tensorbnn.cli.arguments import add_run
from tensorbnn.cli.opened import OpenedRun, open_run
from tensorbnn.cli.output import NOT_TRUSTWORTHY, add_json, print_result
from tensorbnn.cli.points import own_points
from tensorbnn.report.subject import Points
from tensorbnn.tables.naming import row_names
from tensorbnn.tables.reading import joined


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "diagnose",
        help="say whether the predictions of a run can be trusted",
        description="Say whether the predictions of a run can be trusted. Exits with 0 if they "
        f"can, with {NOT_TRUSTWORTHY} if they can't.",
    )
    add_run(parser)
    parser.add_argument("--at", type=Path, help="a table of inputs; default: training rows")
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Diagnose, and say it by the exit code too."""
    opened = open_run(options.run)
    points = _points(opened, options.at)
    diagnosis = opened.ensemble.diagnose(points.x, names=points.names, progress=not options.quiet)
    lines = summaries.networks(opened.ensemble) | summaries.sampler(opened.ensemble)
    slow = {
        name: float(each.rhat)
        for name, each in diagnosis.hyperparameters.items()
        if each.rhat >= 1.05
    }
    if slow:
        lines["slow"] = ", ".join(f"{name} (R-hat {rhat:.2f})" for name, rhat in slow.items())
    facts = {
        "run": str(options.run),
        "networks": len(opened.ensemble),
        **summaries.convergence_facts(diagnosis),
        "rhat": diagnosis.rhat,
        "ess": diagnosis.ess,
        "ess_tail": diagnosis.ess_tail,
        "mcse_mean": diagnosis.mcse_mean,
        "hyperparameters": {
            name: {"rhat": float(each.rhat), "ess": float(each.ess)}
            for name, each in diagnosis.hyperparameters.items()
        },
    }
    print_result(options, lines | summaries.convergence(diagnosis), facts)
    return 0 if diagnosis.trustworthy else NOT_TRUSTWORTHY


def _points(opened: OpenedRun, at: Path | None) -> Points:
    if at is not None:
        table = joined(opened.read(at))
        encoding = opened.encoding_for(table)
        numbers = encoding.encode(table)
        places = (np.flatnonzero(numbers.kept) + 1).tolist()
        return Points(numbers.x, row_names(numbers.x, encoding, places))
    points = own_points(opened.store)
    if points is None:
        raise ValueError(
            f"{opened.path} keeps no training data: say where to look with --at, a table of inputs"
        )
    return points
