"""``tensorbnn fit``: from a table to a run."""

import argparse
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbnn.cli import output
from tensorbnn.cli.messages import print_error, warnings_as_lines
from tensorbnn.cli.models import PRIORS, read_model
from tensorbnn.cli.options import (
    DATA,
    FORCE,
    RESULT,
    Command,
    Option,
    fraction,
    grouped,
    once,
    whole_numbers,
)
from tensorbnn.cli.saved_run import check_free_run
from tensorbnn.data import Dataset
from tensorbnn.ensemble.metrics import Accuracy, MeanSquaredError
from tensorbnn.findings import VerdictKind
from tensorbnn.inference.hmc import HMC
from tensorbnn.model.layers import ACTIVATION_NAMES
from tensorbnn.posterior import Posterior
from tensorbnn.report.context import DIAGNOSED_ROWS, diagnosed_rows
from tensorbnn.sampling.api import sample
from tensorbnn.sampling.converged import Converged
from tensorbnn.tables.columns import Missing
from tensorbnn.tables.decimals import comma_columns, with_points
from tensorbnn.tables.encoding import Encoding, Task, learn
from tensorbnn.tables.reading import Table, counted, read_table

# Without --draws, at least so many, and minutes after which it ends all the same.
LEAST_DRAWS = 250
MINUTES = 10.0


def run(options: argparse.Namespace) -> int:
    """Read, sample, and say what came of it."""
    if options.seed < 0:
        raise ValueError(f"--seed must be a whole number of at least 0, got {options.seed}")
    resume = f"go on with it by `tensorbnn resume {shlex.quote(str(options.out))}`, "
    check_free_run(options.out, force=options.force, option="--out", hint=resume)
    table, decimal = _read(options)
    encoding = learn(
        table,
        options.target,
        target_sds=options.target_sd,
        task=options.task,
        ignored=options.ignore,
        categorical=options.categorical,
        missing=options.missing,
    )
    rows = encoding.encode(table, targets=True)
    training, held_out = _split(rows, options.hold_out, options.seed)
    notes = {
        "table": asdict(encoding)
        | {
            "file": table.file.name,
            "rows": len(training),
            "held_out": 0 if held_out is None else len(held_out),
            "dropped": table.num_rows - len(rows),
            "ignored": list(options.ignore),
            "diagnosed": training.evenly(DIAGNOSED_ROWS).rows.tolist(),
            "decimal": decimal,
        },
        "command": options.command.line(options),
    }
    x, y = training.x, training.targets
    check_columns(options, encoding, x, y)
    posterior = read_model(options, encoding).posterior(
        x,
        y,
        y_sd=training.y_sd,
        classes=None if encoding.classes is None else len(encoding.classes),
    )
    if not options.quiet:
        inside = f"{counted(len(x), 'row')}, {counted(x.shape[1], 'input')}"
        print(f"{encoding.task}: {inside}, {posterior.num_parameters:,} weights", file=sys.stderr)
    points = diagnosed_rows(notes, training.x)
    _sample(options, posterior, points, held_out, notes)
    return 0


def _read(options: argparse.Namespace) -> tuple[Table, str]:
    """The table with decimal points, and what it has itself: a point or a comma."""
    table = read_table(options.data)
    as_they_are = {*options.ignore, *options.categorical}
    if options.task == "classification":
        as_they_are |= {*options.target}
    commas = comma_columns([table], [name for name in table.columns if name not in as_they_are])
    return with_points(table, commas), "," if commas else "."


def _split(rows: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset | None]:
    """Rows to train with, and rows that are held out."""
    if not share:
        return rows, None
    count = round(share * len(rows))
    if not count:
        raise ValueError(
            f"--hold-out {share:g} of {counted(len(rows), 'row')} keeps none apart: give a larger "
            "share, or leave it out"
        )
    if count == len(rows):
        raise ValueError(f"--hold-out {share:g} of {len(rows)} rows leaves none to train with")
    return rows.split(share, seed=seed)


def check_columns(
    options: argparse.Namespace, encoding: Encoding, x: NDArray[Any], y: NDArray[Any]
) -> None:
    """Warn of columns that are of no use or may be another task; refuse targets that never vary."""
    named = list(zip(encoding.columns, x.T, strict=True))
    constant = [name for name, column in named if np.ptp(column) == 0]
    if constant:
        print_error(f"warning: constant in all rows, and so of no use: {', '.join(constant)}")
    for name in [name for name, column in named if len(named) > 1 and _only_counts(column)]:
        print_error(
            f"warning: {name} only counts the rows: if it is no measurement leave it out with "
            f"--ignore {shlex.quote(name)}"
        )
    for name, column in zip(encoding.targets, y.T, strict=True) if not encoding.classes else ():
        different = len(np.unique(column))
        if different == 2 and len(column) > 2 and options.task is None:
            print_error(
                f"warning: {name} has only two values, but is fitted as a number: for classes use "
                "--task classification"
            )
        elif different == 1 and len(column) > 1 and not (options.likelihood or encoding.target_sds):
            raise ValueError(
                f"the target {name!r} is {column[0]:g} in all {len(column):,} rows, from which "
                "nothing can be learned: choose another --target, or say how it scatters, such as "
                "by --likelihood 'Gaussian(sd=0.1)'"
            )


def _only_counts(column: NDArray[Any]) -> bool:
    """Whether it is whole numbers that grow by one, but for rows that were left out."""
    steps = np.diff(column)
    grows = bool(np.all((steps >= 1) & (steps % 1 == 0)))
    return len(steps) > 1 and grows and float(np.median(steps)) == 1


def _sample(
    options: argparse.Namespace,
    posterior: Posterior,
    points: Dataset,
    held_out: Dataset | None,
    notes: dict[str, Any],
) -> None:
    """Sample, and print what came of it."""
    by_itself = options.draws is None and options.chains > 1
    minutes = MINUTES if by_itself and options.minutes is None else options.minutes
    table, run, show = notes["table"], shlex.quote(str(options.out)), not options.quiet
    began = time.monotonic()
    with warnings_as_lines(replace(options.words, points=points.names)):
        ensemble = sample(
            posterior,
            sampler=HMC(target_acceptance=options.target_acceptance),
            chains=options.chains,
            burn_in=options.burn_in,
            draws=LEAST_DRAWS if options.draws is None else options.draws,
            until=Converged() if by_itself else None,
            max_minutes=minutes,
            metrics=[MeanSquaredError() if table["classes"] is None else Accuracy()],
            validation=held_out,
            seed=options.seed,
            path=options.out,
            notes=notes,
            overwrite=options.force,
            progress=show,
        )
    seconds = time.monotonic() - began
    diagnosis = output.diagnose(ensemble, points, progress=show)
    verdict, verdict_facts = output.convergence(diagnosis, options.words)
    lines = {"data": _data_line(table)} | output.sampled(ensemble, f"{seconds:.1f} s") | verdict
    facts = {"run": str(options.out), "networks": len(ensemble), "seconds": seconds}
    noted = "targets", "target_sds", "decimal", "rows", "held_out", "dropped"
    facts |= {name: table[name] for name in noted} | verdict_facts
    if held_out is not None and ensemble.num_draws:
        prediction = ensemble.predict(held_out.x, progress=show)
        score = prediction.log_score(held_out.targets, y_sd=held_out.y_sd)
        lines["log score"] = f"{score:.3f} per held-out row"
        facts["log_score"] = score
    then = [f"tensorbnn report {run}", f"tensorbnn predict {run} new.csv --out predictions.csv"]
    longer = VerdictKind.NOT_YET, VerdictKind.DISAGREE
    if diagnosis is None or diagnosis.verdict.kind in longer:  # which may be all that it takes
        then.insert(0, f"tensorbnn resume {run}{_aim(options)}")
    lines |= {"run": str(options.out), "next": "; ".join(then)}
    output.print_result(options, lines, facts)


def _aim(options: argparse.Namespace) -> str:
    """What makes a run longer: one of so many draws is complete without another aim."""
    if options.draws is None:
        return ""
    one = options.chains == 1  # which can't agree with another
    return f" --draws {2 * options.draws}" if one else f" --ess {Converged().ess:g} --minutes 10"


def _data_line(table: dict[str, Any]) -> str:
    parts = [counted(table["rows"], "row")]
    if table["held_out"]:
        parts.append(f"{table['held_out']:,} held out")
    if table["dropped"]:
        parts.append(f"{table['dropped']:,} with missing values dropped")
    commas = "; numbers with decimal commas" if table["decimal"] == "," else ""
    return f"{', '.join(parts)}: {output.predicted(table)}{commas}"


TARGET = "the column to predict; needed; repeat it for more"
SDS = "the column with the target's standard deviations, its error bars; repeat for each --target"
PRIOR = f"of weights and biases: {', '.join(PRIORS)}, 'Normal(0, 1)', ..."
LIKELIHOOD = "such as 'Gaussian(sd=0.1)'; default: learned noise, that of --target-sd, or classes"
RELEVANCE = "learn how much each input matters, by a scale for each"
ACCEPTANCE = "share of proposals to accept; closer to 1 for smaller, safer steps"
COMMAND = Command(
    "fit",
    "sample networks that predict a column of a table",
    (
        replace(DATA, help=f"{DATA.help}; needed", needed="a table"),
        Option("out", "the run directory to make; needed", Path, needed="--out", path="directory"),
        Option("target", TARGET, kind="list", needed="--target"),
        Option("target_sd", SDS, kind="list"),
        once("settings", "a TOML file with any of these options", Path, path="file"),
        *grouped(
            "table",
            Option("task", "default: by the target's values", choices=get_args(Task)),
            Option("ignore", "a column to leave out; repeat for more", kind="list"),
            Option("categorical", "a column of numbers that are categories; repeat", kind="list"),
            Option(
                "missing", "rows with missing values", default="refuse", choices=get_args(Missing)
            ),
            Option("hold_out", "share of the rows kept apart to judge the fit by", fraction, 0.0),
        ),
        *grouped(
            "model",
            Option("hidden", "units of hidden layers, such as 50,50", whole_numbers, (50,)),
            Option("relevance", RELEVANCE, kind="switch"),
            Option("activation", default="tanh", choices=sorted(ACTIVATION_NAMES)),
            Option("prior", PRIOR, default="gaussian"),
            Option("likelihood", LIKELIHOOD),
        ),
        *grouped(
            "sampling",
            Option("chains", "number of chains", int, 4),
            Option("burn_in", "transitions that are not saved", int, 500),
            Option("draws", "networks to save from each chain", int),
            Option("target_acceptance", ACCEPTANCE, float, HMC.target_acceptance),
            Option("minutes", "stop after so many minutes", float, python="max_minutes"),
            Option("seed", "seed of all random numbers", int, 0),
            FORCE,
        ),
        *RESULT,
    ),
    run,
    description="Sample networks that predict a column of a table from the others.",
    epilog="Without --draws, chains go on until their predictions agree and are known well, for "
    f"{MINUTES:g} minutes at most (--minutes).",
)
