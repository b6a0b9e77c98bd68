"""The fits of `quality` as tables, next to published figures."""

import math
from typing import Any

import numpy as np

from benchmarks.published import AIRFOIL, METHODS, SOURCES, UCI
from benchmarks.tables import Cell, Table, markdown

Fits = list[dict[str, Any]]
Paired = dict[tuple[str, int], tuple[float, float]]

SETTINGS = (
    "One hidden layer of 50 units (airfoil: two of 20), tanh, the default prior, the noise "
    "learned, columns standardized by the training rows; `tb.sample` with "
    "`until=tb.Converged()`, four chains and {burn_in} transitions of burn-in, for at most "
    "{minutes} minutes (`quality.json` has the limits of gradients)."
)
ABOUT = {
    "rmse": "Mean ± standard error over splits, in the units of the target. Published figures are "
    "over 20 splits, ours over the first ones, as many as the table says. Splits differ, so with "
    "few of them read *paired*, the mean difference from MC dropout (one layer) on the same "
    "splits. The ± of Deep Ensembles are probably standard deviations.",
    "log_score": "The mean log-density of the test targets, in their units, under the mixture of "
    "all networks; otherwise as above.",
    "airfoil": "One split, with 1,202 training and 301 test rows; means over seeds of the model, "
    "in units of the standard deviation of the training targets. The log score is minus the NLL "
    "of the paper. Our ± are standard errors, the others standard deviations.",
    "fits": "For the predictions of the test rows: the largest R-hat over all fits, the share of "
    "rows with an R-hat below 1.01, the smallest effective sample size, and the coverage of 90 % "
    "intervals. Then means over fits: draws of each of four chains, minutes of a fit, and minutes "
    "of one core in it, which was shared with other programs.",
}
TITLES = {
    "rmse": "UCI tables: RMSE (lower is better)",
    "log_score": "UCI tables: log score (higher is better)",
    "airfoil": "Airfoil",
    "fits": "How far the chains had converged",
}


def make(fits: Fits, paired: Paired) -> list[Table]:
    """All tables that have fits."""
    names = list(dict.fromkeys(each["set"] for each in fits))
    tables = [name for name in names if name != "airfoil"]
    found = []
    if tables:
        found.append(_uci(fits, tables, paired, "rmse"))
        found.append(_uci(fits, tables, paired, "log_score"))
    if "airfoil" in names:
        found.append(_airfoil([each for each in fits if each["set"] == "airfoil"]))
    if fits:
        found.append(_convergence(fits, names))
    return found


def page(fits: Fits, machine: str, paired: Paired) -> str:
    """The page of results."""
    dates = sorted(each["date"][:10] for each in fits)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    lines = ["# Quality", "", f"{when}. {machine}.", ""]
    settings = SETTINGS.format(burn_in=_range(fits, "burn_in"), minutes=_range(fits, "minutes"))
    lines += ['Made by `make quality ARGS="--data folder"`. ' + settings, "", SOURCES, ""]
    return "\n".join(lines) + "\n" + "\n".join(markdown(each) for each in make(fits, paired))


def _range(fits: Fits, name: str) -> str:
    values = sorted({each[name] for each in fits})
    return f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"


def spread(values: list[float]) -> tuple[float, float | None]:
    """Mean and standard error."""
    if len(values) < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def with_error(values: list[float]) -> str:
    """Mean ± standard error with two digits, or a mean alone with three."""
    mean, error = spread(values)
    size = 10 * error if error else abs(mean)
    digits = min(max(2 - math.floor(math.log10(size)), 0), 4) if size > 0 else 2
    text = f"{mean:.{digits}f}"
    return text if error is None else f"{text} ± {error:.{digits}f}"


def _uci(fits: Fits, names: list[str], paired: Paired, score: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        own = [each for each in fits if each["set"] == name]
        at = 0 if score == "rmse" else 1
        both = [
            each[score] - paired[name, each["split"]][at]
            for each in own
            if (name, each["split"]) in paired
        ]
        others = [
            str(getattr(UCI[name][method], score)) if name in UCI else None for method in METHODS
        ]
        rows.append(
            (
                name,
                len(own),
                with_error([each[score] for each in own]),
                with_error(both) if both else None,
                *others,
            )
        )
    return _table(score, ("set", "splits", "tensorbnn", "paired", *METHODS), rows)


def _airfoil(fits: Fits) -> Table:
    own = (
        f"tensorbnn ({len(fits)} {'seed' if len(fits) == 1 else 'seeds'})",
        with_error([each["rmse"] for each in fits]),
        with_error([each["log_score"] for each in fits]),
    )
    others = [
        (name, _four(rmse), None if score is None else _four(score))
        for name, (rmse, score) in AIRFOIL.items()
    ]
    columns = ("method", "RMSE", "log score")
    return _table("airfoil", columns, [own, *others])


def _four(figure: Any) -> str:
    error = "" if figure.error is None else f" ± {figure.error:.4f}"
    return f"{figure.mean:.4f}{error}"


def _convergence(fits: Fits, names: list[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        own = [each for each in fits if each["set"] == name]
        tested = np.array([each["tested"] for each in own])
        share = np.array([each["share_below_1.01"] for each in own])
        rows.append(
            (
                name,
                len(own),
                f"{max(each['rhat'] for each in own):.3f}",
                f"{float((share * tested).sum() / tested.sum()):.0%}",
                f"{min(each['ess'] for each in own):.0f}",
                f"{float(np.mean([each['coverage'] for each in own])):.0%}",
                round(float(np.mean([each["draws"] for each in own]))),
                f"{float(np.mean([each['seconds'] for each in own])) / 60:.1f}",
                f"{float(np.mean([each['cpu_seconds'] for each in own])) / 60:.1f}",
            )
        )
    columns = (
        "set", "fits", "R-hat", "below 1.01", "ESS", "coverage", "draws", "minutes", "of a core",
    )  # fmt: skip
    return _table("fits", columns, rows)


def _table(name: str, columns: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> Table:
    return Table(f"quality-{name}", TITLES[name], ABOUT[name], columns, rows)
