"""Accuracy of predictions: RMSE and log score on public tables, next to published figures.

    python -m benchmarks.quality --data folder
    python -m benchmarks.quality --data folder --sets yacht,boston --splits 3 --minutes 2

`quality_data` describes the folder and the test rows, `published` has the figures of other methods.
Every finished fit is saved, in ``benchmarks/results/quality.json`` and ``.md``; the same command
continues after the last one.
"""

import argparse
import datetime
import json
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import tensorbnn as tb
from benchmarks import machine, quality_tables, tables
from benchmarks.quality_data import Case, DataError, find_sets, read_cases, read_paired
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import RunError

RESULTS = Path(__file__).parent / "results"
# Units of the hidden layers. Those of the UCI tables are part of their protocol. For airfoil, two
# layers predict a fifth of the rows to train with much better (RMSE 0.18, one layer 0.23).
HIDDEN: dict[str, tuple[int, ...]] = {"UCI": (50,), "airfoil": (20, 20)}


class Effort(NamedTuple):
    """The length of the chains."""

    minutes: float = 5.0
    gradients: float = math.inf
    """For each chain: unlike minutes, a limit that gives the same results on any machine."""
    burn_in: int = 500
    draws: int = 250
    """At least; more until predictions have converged or the time is up."""


class Results(NamedTuple):
    """Everything that is saved."""

    machine: dict[str, Any]
    """The machine of the last fits."""
    fits: list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fits that are missing; print and save the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    console = Console()
    try:
        sets = find_sets(options.data, options.sets)
        cases = [case for name in sets for case in read_cases(options.data, name, options.splits)]
        before, paired = read_results(options.out), read_paired(options.data)
    except DataError as error:
        parser.error(str(error))
    fits = before.fits
    done = {(each["set"], each["split"]) for each in fits}
    left = [case for case in cases if (case.name, case.split) not in done]
    console.print(f"fits to make: {len(left)}; done before: {len(cases) - len(left)}")
    effort, failed = Effort(options.minutes, options.gradients, options.burn_in), 0
    about = machine.describe() if left else before.machine
    for number, case in enumerate(left, start=1):
        try:
            fits.append(fit(case, effort, progress=console.is_terminal))
        except RunError:  # the only warning of a run in memory is that of a limit
            failed += 1
            console.print(f"{number} of {len(left)}: {too_short(case, effort)}", soft_wrap=True)
            continue
        except KeyboardInterrupt:
            console.print(f"stopped in {case.name}, split {case.split}; the same command continues")
            return 130
        save(Results(about, fits), options.out, paired)
        console.print(f"{number} of {len(left)}: {summary(fits[-1])}", soft_wrap=True)
    if not fits:
        return 1
    save(Results(about, fits), options.out, paired)
    for table in quality_tables.make(fits, paired):
        console.print(tables.terminal(table))
    console.print(f"results are in {options.out}")
    return 1 if failed else 0


def make_posterior(name: str, x: Any, y: Any) -> tb.Posterior:
    """The network of a set and learned noise; otherwise the library's defaults."""
    units = HIDDEN.get(name, HIDDEN["UCI"])
    hidden = [layer for each in units for layer in (tb.Dense(each), tb.Tanh())]
    network = tb.Network(*hidden, tb.Dense(1), inputs=x.shape[1])
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), x, y, standardize=True)


def fit(case: Case, effort: Effort, *, progress: bool = False) -> dict[str, Any]:
    """Sample and predict the test rows; return what is saved."""
    began, began_cpu = time.monotonic(), time.process_time()
    ensemble = _sample(case, effort, progress=progress)
    if ensemble.num_draws < LEAST_DRAWS:
        raise RunError(f"only {ensemble.num_draws} draws of each chain")
    seconds = time.monotonic() - began
    scores = ensemble.evaluate(case.x_test, case.y_test, level=0.9, progress=progress)
    diagnosis = ensemble.diagnose(case.x_test, progress=progress)
    return {
        "set": case.name,
        "split": case.split,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "rows": len(case.x),
        "tested": len(case.x_test),
        "rmse": float(scores.rmse) / case.unit,
        # The density of y / unit is that of y times the unit.
        "log_score": float(scores.log_score) + float(np.log(case.unit)),
        "coverage": float(scores.coverage),
        "rhat": float(diagnosis.rhat.max()),
        "share_below_1.01": float(np.mean(diagnosis.rhat < 1.01)),
        "ess": float(diagnosis.ess.min()),
        "burn_in": effort.burn_in,
        "minutes": effort.minutes,
        # null if infinite: JSON has no infinity
        "max_gradients": effort.gradients if math.isfinite(effort.gradients) else None,
        "draws": ensemble.num_draws,
        "gradients": int(ensemble.sample_stats["num_gradients"].sum()),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time() - began_cpu, 1),
    }


def _sample(case: Case, effort: Effort, *, progress: bool) -> Ensemble:
    with warnings.catch_warnings():
        # The results say how far chains got. Half a fit does not count.
        warnings.filterwarnings("ignore", "stopped by", UserWarning)
        warnings.filterwarnings("error", "interrupted", UserWarning)
        try:
            return tb.sample(
                make_posterior(case.name, case.x, case.y),
                burn_in=effort.burn_in,
                draws=effort.draws,
                until=tb.Converged(),
                max_minutes=effort.minutes,
                max_gradients=effort.gradients,
                seed=case.split,
                progress=progress,
            )
        except UserWarning:
            raise KeyboardInterrupt from None


def summary(done: dict[str, Any]) -> str:
    """A fit in one line."""
    return (
        f"{done['set']}, split {done['split']}: RMSE {done['rmse']:.3g}, log score "
        f"{done['log_score']:.3f}, R-hat up to {done['rhat']:.3f} (below 1.01 at "
        f"{done['share_below_1.01']:.0%} of the rows), {done['draws']:,} draws a chain, "
        f"{done['seconds']:.0f} s"
    )


def too_short(case: Case, effort: Effort) -> str:
    """What to do if there was no time for the first draws."""
    return (
        f"{case.name}, split {case.split}: the limit came before {LEAST_DRAWS} draws after the "
        f"{effort.burn_in:,} transitions of burn-in: give more --minutes or --gradients"
    )


def read_results(folder: Path) -> Results:
    """The results in a folder, empty if there are none."""
    file = folder / "quality.json"
    if not file.exists():
        return Results({}, [])
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        models, found = content["models"], Results(content["machine"], content["fits"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{file} has no results of this benchmark: give another --out") from None
    if models != _models():
        raise DataError(f"{file} has results of other models, {models}: give another --out")
    return found


def save(
    results: Results, folder: Path, paired: dict[tuple[str, int], tuple[float, float]]
) -> None:
    """Write JSON and Markdown, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": results.machine, "models": _models(), "fits": results.fits}
    text = quality_tables.page(results.fits, machine.sentence(results.machine), paired)
    for name, each in (("quality.json", json.dumps(content, indent=1)), ("quality.md", text)):
        partial = folder / f"{name}.partial"
        partial.write_text(each.rstrip() + "\n", encoding="utf-8")
        partial.replace(folder / name)


def _models() -> dict[str, str]:
    """A description of the networks, without the number of inputs."""
    x, y = np.eye(2), np.arange(2.0)
    return {name: str(make_posterior(name, x, y).network) for name in HIDDEN}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality", description="Quality of predictions on public tables."
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with NAME.csv and NAME.splits.csv")
    add("--sets", type=_names, help="such as yacht,boston; default: all")
    add("--splits", type=_count, help="only the first splits of each set, this many")
    add(
        "--minutes",
        type=_minutes,
        default=Effort().minutes,
        help="minutes of a fit (default: 5)",
    )
    add("--gradients", type=_count, default=math.inf, help="limit for each chain (default: none)")
    add("--burn-in", type=_count, default=Effort().burn_in, help="transitions; default: 500")
    add("--out", type=Path, default=RESULTS, help="folder for the results")
    return parser


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
