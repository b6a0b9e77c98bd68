"""``tensorbnn fit``: sample networks for a table."""

import argparse
import shlex
import sys
import time
from collections.abc import Callable
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
    OVERWRITE,
    RESULT,
    UNTIL,
    Command,
    Option,
    fraction,
    grouped,
    number,
    once,
    whole_number,
    whole_numbers,
)
from tensorbnn.cli.saved_run import check_free_run
from tensorbnn.data import Dataset
from tensorbnn.data_findings import ConstantTargets
from tensorbnn.ensemble.metrics import Accuracy, MeanSquaredError
from tensorbnn.findings import VerdictKind
from tensorbnn.inference.hmc import HMC
from tensorbnn.model.layers import ACTIVATION_NAMES
from tensorbnn.posterior import Posterior
from tensorbnn.report.context import DIAGNOSED_ROWS, diagnosed_rows
from tensorbnn.sampling.api import begin_run
from tensorbnn.sampling.converged import Converged
from tensorbnn.tables.columns import Missing
from tensorbnn.tables.decimals import comma_columns, with_points
from tensorbnn.tables.encoding import Encoding, Task, learn
from tensorbnn.tables.reading import Table, counted, read_table
from tensorbnn.tabular import DEFAULTS

# Without --draws, each chain has at least this many draws.
LEAST_DRAWS = 250


def run(options: argparse.Namespace) -> int:
    """Read the table, sample, and print the result."""
    if options.seed < 0:
        raise ValueError(f"--seed must be a whole number of at least 0, got {options.seed}")
    resume = f"continue it with `tensorbnn resume {shlex.quote(str(options.out))}`, "
    check_free_run(options.out, overwrite=options.overwrite, option="--out", hint=resume)
    table, decimal = _read(options)
    encoding = learn(
        table,
        options.target,
        target_sds=options.target_sd,
        weight=options.weight,
        task=options.task,
        ignored=options.ignore,
        categorical=options.categorical,
        missing=options.missing,
    )
    rows = encoding.encode(table, targets=True)
    training, validation = _split(rows, options.validation, options.seed)
    notes = {
        "table": asdict(encoding)
        | {
            "file": table.file.name,
            "rows": len(training),
            "validation": 0 if validation is None else len(validation),
            "dropped": table.num_rows - len(rows),
            "ignored": list(options.ignore),
            "diagnosed": training.evenly(DIAGNOSED_ROWS).rows.tolist(),
            "decimal": decimal,
        },
        "command": options.command.line(options),
    }
    x, y = training.x, training.targets
    posterior = read_model(options, encoding).posterior(
        x,
        y,
        y_sd=training.y_sd,
        sample_weight=training.sample_weight,
        classes=None if encoding.classes is None else len(encoding.classes),
    )
    options.words = options.words.of_table(encoding, training.rows.tolist())
    check_targets(options, encoding, posterior, y)
    if not options.quiet:
        inside = f"{counted(len(x), 'row')}, {counted(x.shape[1], 'input')}"
        print(f"{encoding.task}: {inside}, {posterior.num_parameters:,} weights", file=sys.stderr)
    points = diagnosed_rows(notes, training.x)
    _sample(options, posterior, points, validation, notes)
    return 0


def _read(options: argparse.Namespace) -> tuple[Table, str]:
    """The table with decimal points, and the decimal separator of the file."""
    table = read_table(options.data)
    as_they_are = {*options.ignore, *options.categorical}
    if options.task == "classification":
        as_they_are |= {*options.target}
    commas = comma_columns([table], [name for name in table.columns if name not in as_they_are])
    return with_points(table, commas), "," if commas else "."


def _split(rows: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset | None]:
    """Split the rows into training rows and held-out rows, if any."""
    if not share:
        return rows, None
    count = round(share * len(rows))
    if not count:
        raise ValueError(
            f"--validation {share:g} of {counted(len(rows), 'row')} holds out none: give a larger "
            "share, or leave it out"
        )
    if count == len(rows):
        raise ValueError(f"--validation {share:g} of {len(rows)} rows leaves none to train with")
    parts = rows.split(share, seed=seed)
    if any(part.sample_weight is not None and not part.sample_weight.any() for part in parts):
        raise ValueError(
            f"--validation {share:g} leaves only rows of weight 0 on one side: give another share, "
            "or another --seed"
        )
    return parts


def check_targets(
    options: argparse.Namespace, encoding: Encoding, posterior: Posterior, y: NDArray[Any]
) -> None:
    """Reject targets that never vary, and warn about numbers that may be classes."""
    if not (options.likelihood or encoding.target_sds):
        for finding in posterior.check_data():
            if isinstance(finding, ConstantTargets):
                raise ValueError(finding.advice(options.words))
    for name, column in zip(encoding.targets, y.T, strict=True) if not encoding.classes else ():
        if len(column) > len(np.unique(column)) == 2 and options.task is None:
            print_error(
                f"warning: the target {name!r} has only two values, but is fitted as a number: for "
                "classes, use --task classification"
            )


def _sample(
    options: argparse.Namespace,
    posterior: Posterior,
    points: Dataset,
    validation: Dataset | None,
    notes: dict[str, Any],
) -> None:
    """Sample, and print the result."""
    until = _until(options)
    minutes = options.max_minutes
    if minutes is None and until is not None and options.draws is None:
        minutes = DEFAULTS["max_minutes"].command_line
    table, run, show = notes["table"], shlex.quote(str(options.out)), not options.quiet
    began = time.monotonic()
    with warnings_as_lines(replace(options.words, points=points.names)):
        sampling, backend = begin_run(
            posterior,
            sampler=HMC(target_acceptance=options.target_acceptance),
            chains=options.chains,
            burn_in=options.burn_in,
            draws=LEAST_DRAWS if options.draws is None else options.draws,
            until=until,
            max_minutes=minutes,
            max_gradients=options.max_gradients,
            metrics=[MeanSquaredError() if table["classes"] is None else Accuracy()],
            validation=validation,
            seed=options.seed,
            path=options.out,
            notes=notes,
            overwrite=options.overwrite,
            diagnoses=1,
        )
        ensemble = sampling.run(backend, progress=show)
    seconds = time.monotonic() - began
    diagnosis = output.diagnose(ensemble, points, progress=show)
    verdict, verdict_facts = output.convergence(diagnosis, options.words)
    lines = {"data": _data_line(table)} | output.sampled(ensemble, f"{seconds:.1f} s") | verdict
    facts = {"run": str(options.out), "networks": len(ensemble), "seconds": seconds}
    noted = "targets", "target_sds", "weight", "decimal", "rows", "validation", "dropped"
    facts |= {name: table[name] for name in noted} | verdict_facts
    score, score_facts = output.score(ensemble, validation, progress=show)
    lines, facts = lines | score, facts | score_facts
    then = [f"tensorbnn report {run}", f"tensorbnn predict {run} new.csv --out predictions.csv"]
    longer = VerdictKind.NOT_YET, VerdictKind.DISAGREE
    if diagnosis.verdict.kind in longer:  # running longer may be enough
        then.insert(0, f"tensorbnn resume {run}{_aim(options)}")
    lines |= {"run": str(options.out), "next": "; ".join(then)}
    output.print_result(options, lines, facts)


def _until(options: argparse.Namespace) -> Converged | None:
    """When the run stops by itself: always without --draws, if there are chains to compare."""
    aims = {"rhat": options.rhat, "ess": options.ess}
    given = {name: value for name, value in aims.items() if value is not None}
    wanted = bool(given) or (options.draws is None and options.chains > 1)
    return Converged(**given, fraction=1.0) if wanted else None  # as the verdict requires


def _aim(options: argparse.Namespace) -> str:
    """The option that extends a run; a run with --draws is complete without a new goal."""
    if options.draws is None or options.ess or options.rhat:
        return ""
    one = options.chains == 1  # it has no other chain to agree with
    return (
        f" --draws {2 * options.draws}" if one else f" --ess {Converged().ess:g} --max-minutes 10"
    )


def _data_line(table: dict[str, Any]) -> str:
    parts = [counted(table["rows"], "row")]
    if table["validation"]:
        parts.append(f"{table['validation']:,} held out")
    if table["dropped"]:
        parts.append(f"{table['dropped']:,} with missing values dropped")
    commas = "; numbers with decimal commas" if table["decimal"] == "," else ""
    return f"{', '.join(parts)}: {output.predicted(table)}{commas}"


def _option(name: str, help: str, type: Callable[[str], Any] = str, **more: Any) -> Option:
    """An option with its default from the table of all defaults."""
    return Option(name, help, type, DEFAULTS[name].command_line, **more)


TARGET = "the column to predict; repeat it for several"
SDS = "the column with the target's standard deviations (error bars); one for each --target"
PRIOR = f"of weights and biases: {', '.join(PRIORS)}, 'Normal(0, 1)', ..."
LIKELIHOOD = "such as 'Gaussian(sd=0.1)'; default: by the target, with learned noise for numbers"
ACTIVATION = f"after each hidden layer: {', '.join(sorted(ACTIVATION_NAMES))}"
RELEVANCE = "learn how much each input matters, by a scale for each"
ACCEPTANCE = "acceptance rate to aim at; closer to 1 for smaller, safer steps"
COMMAND = Command(
    "fit",
    "sample networks that predict a column of a table",
    (
        replace(DATA, required=True),
        Option("out", "the run directory to create", Path, required=True, path="directory"),
        Option("target", TARGET, kind="list", required=True),
        Option("target_sd", SDS, kind="list"),
        Option("weight", "the column with the weights of the rows"),
        once("settings", "a TOML file with any of these options", Path, path="file"),
        *grouped(
            "table",
            Option("task", "default: by the target's values", choices=get_args(Task)),
            Option("ignore", "a column to leave out; repeat for more", kind="list"),
            Option("categorical", "a column of numbers that are categories; repeat", kind="list"),
            Option(
                "missing", "rows with missing values", default="refuse", choices=get_args(Missing)
            ),
            _option("validation", "share of the rows to hold out, to validate the fit", fraction),
        ),
        *grouped(
            "model",
            _option("hidden_layer_sizes", "units of hidden layers, such as 50,50", whole_numbers),
            _option("relevance", RELEVANCE, kind="switch"),
            _option("activation", ACTIVATION, choices=sorted(ACTIVATION_NAMES)),
            _option("prior", PRIOR),
            _option("likelihood", LIKELIHOOD),
        ),
        *grouped(
            "sampling",
            _option("chains", "number of chains", whole_number),
            _option("burn_in", "transitions that are not saved", whole_number),
            _option("draws", "networks to save from each chain", whole_number),
            *UNTIL,
            _option("target_acceptance", ACCEPTANCE, number),
            _option("seed", "seed of all random numbers", whole_number),
            OVERWRITE,
        ),
        *RESULT,
    ),
    run,
    description="Sample networks that predict a column of a table from the others.",
    epilog="Without --draws, chains continue until R-hat of their predictions is below "
    f"{Converged().rhat:g} (--rhat) and their effective sample size reaches {Converged().ess:g} "
    f"(--ess), but for at most {DEFAULTS['max_minutes'].command_line:g} minutes (--max-minutes).",
)
