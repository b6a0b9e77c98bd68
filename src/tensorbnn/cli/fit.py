"""``tensorbnn fit``: from a table to a run."""

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbnn.cli import summaries
from tensorbnn.cli.arguments import fraction, whole_numbers
from tensorbnn.cli.modelling import make_posterior
from tensorbnn.cli.oddities import say_what_is_odd
from tensorbnn.cli.opened import check_free_run
from tensorbnn.cli.output import add_json, print_result, warnings_as_lines
from tensorbnn.cli.points import naming
from tensorbnn.cli.settings import fill_in
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Accuracy, SquaredError
from tensorbnn.inference.hmc import HMC
from tensorbnn.model.layers import ACTIVATIONS
from tensorbnn.posterior import Posterior
from tensorbnn.report.subject import DIAGNOSED_ROWS, spread, training_points
from tensorbnn.sampling.api import sample
from tensorbnn.sampling.converged import Converged
from tensorbnn.tables.columns import Missing
from tensorbnn.tables.decimals import comma_columns, with_points
from tensorbnn.tables.encoding import Encoding, Numbers, Task, learn
from tensorbnn.tables.reading import Table, counted, read_table

DEFAULTS: dict[str, Any] = {
    "hidden": (50,),
    "relevance": False,
    "activation": "tanh",
    "prior": "gaussian",
    "chains": 4,
    "burn_in": 500,
    "target_acceptance": HMC.target_acceptance,
    "seed": 0,
    "target_sd": [],
    "missing": "refuse",
    "hold_out": 0.0,
    "ignore": [],
    "categorical": [],
}
# Without --draws, at least so many, and minutes after which it ends all the same.
LEAST_DRAWS = 250
MINUTES = 10.0


class _Rows(NamedTuple):
    """Rows to train with, and rows that are held out."""

    x: NDArray[Any]
    y: NDArray[Any]
    """With the standard deviations of targets, where they have any."""
    numbers: NDArray[Any]
    """Which rows of the table they are, from 1."""
    held_out: tuple[NDArray[Any], NDArray[Any]] | None


def add(commands: Any) -> None:
    """Declare the command; what is not given is ``None``, so that a settings file can say it."""
    parser = commands.add_parser(
        "fit",
        help="sample networks that predict a column of a table",
        description="Sample networks that predict a column of a table from the others.",
        epilog="Without --draws, chains go on until their predictions agree and are known well, "
        f"for {MINUTES:g} minutes at most (--minutes).",
    )
    parser.add_argument("data", type=Path, nargs="?", help="a CSV, TSV or Parquet file; needed")
    parser.add_argument("--out", type=Path, help="the run directory to make; needed")
    parser.add_argument(
        "--target", action="append", help="the column to predict; needed; repeat it for more"
    )
    parser.add_argument(
        "--target-sd",
        action="append",
        help="the column with the target's standard deviations, its error bars; repeat for each "
        "--target",
    )
    parser.add_argument("--settings", type=Path, help="a TOML file with any of these options")
    table = parser.add_argument_group("table")
    table.add_argument("--task", choices=get_args(Task), help="default: by the target's values")
    table.add_argument("--ignore", action="append", help="a column to leave out; repeat for more")
    table.add_argument(
        "--categorical", action="append", help="a column of numbers that are categories; repeat"
    )
    table.add_argument(
        "--missing", choices=get_args(Missing), help="rows with missing values; default: refuse"
    )
    table.add_argument(
        "--hold-out", type=fraction, help="share of the rows kept apart to judge the fit by"
    )
    model = parser.add_argument_group("model")
    model.add_argument(
        "--hidden", type=whole_numbers, help="units of hidden layers, such as 50,50; default: 50"
    )
    model.add_argument(
        "--relevance",
        action="store_true",
        default=None,  # not given
        help="learn how much each input matters, by a scale for each",
    )
    model.add_argument("--activation", choices=sorted(ACTIVATIONS), help="default: tanh")
    model.add_argument(
        "--prior", help="of weights and biases: gaussian (default), cauchy, 'Normal(0, 1)', ..."
    )
    model.add_argument(
        "--likelihood",
        help="such as 'Gaussian(sd=0.1)'; default: learned noise, that of --target-sd, or classes",
    )
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--chains", type=int, help="number of chains; 4")
    sampling.add_argument("--burn-in", type=int, help="transitions that are not saved; 500")
    sampling.add_argument("--draws", type=int, help="networks to save from each chain")
    sampling.add_argument(
        "--target-acceptance",
        type=float,
        help="share of proposals to accept, 0.9; closer to 1 for smaller, safer steps",
    )
    sampling.add_argument("--minutes", type=float, help="stop after so many minutes")
    sampling.add_argument("--seed", type=int, help="seed of all random numbers; 0")
    sampling.add_argument("--force", action="store_true", help="replace a run that is at --out")
    add_json(parser)
    parser.set_defaults(command=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Read, sample, and say what came of it."""
    fill_in(options, options.parser, DEFAULTS)
    _check(options)
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
    numbers = encoding.encode(table, targets=True)
    rows = _split(numbers, options.hold_out, options.seed)
    notes = _notes(options, table, encoding, rows, dropped=int((~numbers.kept).sum()))
    notes["table"]["decimal"] = decimal
    say_what_is_odd(options, encoding, rows.x, rows.y)
    posterior = make_posterior(options, encoding, rows.x, rows.y)
    began = time.monotonic()
    ensemble = _sample(options, posterior, rows, notes, encoding)
    _report(options, ensemble, notes, rows, time.monotonic() - began)
    return 0


def _read(options: argparse.Namespace) -> tuple[Table, str]:
    """The table with decimal points, and what it has itself: a point or a comma."""
    table = read_table(options.data)
    as_they_are = {*options.ignore, *options.categorical}
    if options.task == "classification":
        as_they_are |= {*options.target}
    commas = comma_columns([table], [name for name in table.columns if name not in as_they_are])
    return with_points(table, commas), "," if commas else "."


def _check(options: argparse.Namespace) -> None:
    for name, flag in (("data", "a table"), ("target", "--target"), ("out", "--out")):
        if not getattr(options, name):
            options.parser.error(f"{flag} is needed")
    if options.seed < 0:
        raise ValueError(f"--seed must be a whole number of at least 0, got {options.seed}")
    resume = f"go on with it by `tensorbnn resume {summaries.quoted(options.out)}`, "
    check_free_run(options.out, force=options.force, option="--out", hint=resume)


def _split(numbers: Numbers, share: float, seed: int) -> _Rows:
    x, y, places = numbers.x, np.asarray(numbers.y), np.flatnonzero(numbers.kept) + 1
    order = np.random.default_rng(seed).permutation(len(x))
    count = round(share * len(x))
    if not share:
        return _Rows(x, y, places, None)
    if not count:
        raise ValueError(
            f"--hold-out {share:g} of {counted(len(x), 'row')} keeps none apart: give a larger "
            "share, or leave it out"
        )
    if count == len(x):
        raise ValueError(f"--hold-out {share:g} of {len(x)} rows leaves none to train with")
    held, kept = np.sort(order[:count]), np.sort(order[count:])
    return _Rows(x[kept], y[kept], places[kept], (x[held], y[held]))


def _notes(
    options: argparse.Namespace, table: Table, encoding: Encoding, rows: _Rows, *, dropped: int
) -> dict[str, Any]:
    """What the run keeps, so that `predict` does the same and a report can say what was done."""
    return {
        "table": encoding.describe()
        | {
            "file": table.file.name,
            "rows": len(rows.x),
            "held_out": 0 if rows.held_out is None else len(rows.held_out[0]),
            "dropped": dropped,
            "ignored": list(options.ignore),
            "diagnosed": spread(rows.numbers, DIAGNOSED_ROWS).tolist(),
        },
        "command": shlex.join(["tensorbnn", *_arguments(options)]),
    }


def _arguments(options: argparse.Namespace) -> list[str]:
    """The arguments that give this fit again, those of a settings file included."""
    words = ["fit", str(options.data)]
    for action in options.parser._actions:
        value = getattr(options, action.dest, None)
        if not action.option_strings or action.dest in ("help", "settings", "json", "quiet"):
            continue
        if value is None or value is False or value == DEFAULTS.get(action.dest):
            continue
        for each in value if isinstance(value, list) else [value]:
            words.append(action.option_strings[-1])
            if each is not True:
                words.append(",".join(map(str, each)) if isinstance(each, tuple) else str(each))
    return words


def _sample(
    options: argparse.Namespace,
    posterior: Posterior,
    rows: _Rows,
    notes: dict[str, Any],
    encoding: Encoding,
) -> Ensemble:
    by_itself = options.draws is None and options.chains > 1
    minutes = MINUTES if by_itself and options.minutes is None else options.minutes
    if not options.quiet:
        inside = f"{counted(len(rows.x), 'row')}, {counted(rows.x.shape[1], 'input')}"
        print(f"{encoding.task}: {inside}, {posterior.num_parameters:,} weights", file=sys.stderr)
    with warnings_as_lines(naming(training_points({"notes": notes}, rows.x))):
        return sample(
            posterior,
            sampler=HMC(target_acceptance=options.target_acceptance),
            chains=options.chains,
            burn_in=options.burn_in,
            draws=LEAST_DRAWS if options.draws is None else options.draws,
            until=Converged() if by_itself else None,
            max_minutes=minutes,
            metrics=[SquaredError() if encoding.classes is None else Accuracy()],
            validation=rows.held_out,
            seed=options.seed,
            path=options.out,
            notes=notes,
            overwrite=options.force,
            progress=not options.quiet,
        )


def _report(
    options: argparse.Namespace,
    ensemble: Ensemble,
    notes: dict[str, Any],
    rows: _Rows,
    seconds: float,
) -> None:
    show = not options.quiet
    points = training_points({"notes": notes}, rows.x)
    diagnosis = summaries.judged(ensemble, points, progress=show)
    table, run = notes["table"], summaries.quoted(options.out)
    lines = {"data": _data_line(table)} | summaries.networks(ensemble)
    lines |= {"time": f"{seconds:.1f} s"} | summaries.sampler(ensemble)
    lines |= summaries.convergence(diagnosis)
    facts = {"run": str(options.out), "networks": len(ensemble), "seconds": seconds}
    facts |= {"targets": table["targets"], "target_sds": table["target_sds"]}
    facts |= {"decimal": table["decimal"]}
    facts |= {"rows": table["rows"], "held_out": table["held_out"], "dropped": table["dropped"]}
    facts |= summaries.convergence_facts(diagnosis)
    if rows.held_out is not None and ensemble.num_draws:
        score = ensemble.predict(rows.held_out[0], progress=show).log_score(rows.held_out[1])
        lines["log score"] = f"{score:.3f} per held-out row"
        facts["log_score"] = score
    then = [f"tensorbnn report {run}", f"tensorbnn predict {run} new.csv --out predictions.csv"]
    if lines["verdict"].startswith(("run ", "chains disagree")):
        then.insert(0, f"tensorbnn resume {run}{_aim(options)}")
    lines |= {"run": str(options.out), "next": "; ".join(then)}
    print_result(options, lines, facts)


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
    return f"{', '.join(parts)}: {summaries.predicted(table)}{commas}"
