"""``tensorbnn diagnose``: whether the predictions of a run can be trusted."""

import argparse
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tensorbnn.cli import summaries
from tensorbnn.cli.arguments import add_run
from tensorbnn.cli.opened import OpenedRun, open_run, some_training_rows
from tensorbnn.cli.output import NOT_TRUSTWORTHY, add_json, print_result
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
    diagnosis = opened.ensemble.diagnose(_rows(opened, options.at), progress=not options.quiet)
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


def _rows(opened: OpenedRun, at: Path | None) -> NDArray[Any]:
    if at is not None:
        table = joined(opened.read(at))
        return opened.encoding_for(table).encode(table).x
    rows = some_training_rows(opened.store)
    if rows is None:
        raise ValueError(
            f"{opened.path} keeps no training data: say where to look with --at, a table of inputs"
        )
    return rows
