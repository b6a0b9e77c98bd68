"""``tensorbnn diagnose``: check whether you can trust the predictions of a run."""

import argparse
from pathlib import Path

from tensorbnn.cli.options import RESULT, RUN, Command, Option
from tensorbnn.cli.output import NOT_TRUSTWORTHY, convergence, print_result, sampled
from tensorbnn.cli.saved_run import SavedRun, open_run, training_points
from tensorbnn.data import Dataset
from tensorbnn.ensemble.verdict import DISAGREEMENT
from tensorbnn.tables.encoding import row_names
from tensorbnn.tables.reading import joined


def run(options: argparse.Namespace) -> int:
    """Print the diagnosis; the exit code also gives the answer."""
    saved = open_run(options.run)
    options.words = options.words.of_table(saved.encoding)
    points = _points(saved, options.x)
    diagnosis = saved.ensemble.diagnose(points.x, names=points.names, progress=not options.quiet)
    lines = sampled(saved.ensemble)
    verdict, verdict_facts = convergence(diagnosis, options.words)
    hypers = {
        name: {"rhat": float(each.rhat), "ess": float(each.ess)}
        for name, each in diagnosis.hyperparameters.items()
    }
    slow = [
        f"{name} (R-hat {each['rhat']:.2f})"
        for name, each in hypers.items()
        if each["rhat"] >= DISAGREEMENT
    ]
    if slow:
        lines["slow"] = ", ".join(slow)
    facts = {
        "run": str(options.run),
        "networks": len(saved.ensemble),
        **verdict_facts,
        "rhat": diagnosis.rhat,
        "ess": diagnosis.ess,
        "ess_tail": diagnosis.ess_tail,
        "mcse_mean": diagnosis.mcse_mean,
        "hyperparameters": hypers,
    }
    print_result(options, lines | verdict, facts)
    return 0 if diagnosis.trustworthy else NOT_TRUSTWORTHY


def _points(saved: SavedRun, x: Path | None) -> Dataset:
    if x is not None:
        table = joined(saved.read(x))
        encoding = saved.encoding_for(table)
        rows = encoding.encode(table)
        return Dataset(rows.x, names=row_names(rows.x, encoding, rows.rows.tolist()))
    points = training_points(saved.store)
    if points is None:
        raise ValueError(
            f"{saved.store.path} does not contain its training data: give a table of inputs with "
            "--x"
        )
    return points


COMMAND = Command(
    "diagnose",
    "check whether the predictions of a run can be trusted",
    (RUN, Option("x", "a table of inputs; default: training rows", Path, path="file"), *RESULT),
    run,
    description="Check whether the predictions of a run can be trusted. The exit code is 0 if they "
    f"can, and {NOT_TRUSTWORTHY} if they can't.",
)
