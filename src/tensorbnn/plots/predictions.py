"""Predictions against an input, and whether they are as sure as they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.ensemble.class_scores import ClassScores, Reliability
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.scores import Scores
from tensorbnn.plots.figure import check_output, new_figure, single_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, YELLOW = "#5fb760", "#f7d560"


def bands(
    prediction: Prediction,
    x: ArrayLike | None = None,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    truth: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    output: int = 0,
    noise: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Mean with one-sd (green) and two-sd (yellow) bands against one input: the paper's figure.

    Parameters
    ----------
    prediction
        Predictions at rows in any order.
    x
        What to draw them against, ``(rows,)`` or ``(rows, 1)``; by default their input.
    data
        Training inputs and targets to show as points.
    truth
        A function whose curve is drawn for comparison.
    noise
        Whether the bands include the noise of a new target.
    """
    column = single_column("x", prediction.x if x is None else x)
    if len(column) != prediction.num_rows:
        raise ValueError(f"`x` has {len(column)} rows but the prediction has {prediction.num_rows}")
    mean, sd = prediction.mean, prediction.sd_total if noise else prediction.sd
    mean, sd = mean.reshape(len(column), -1), sd.reshape(len(column), -1)
    check_output(output, mean.shape[1])
    ax = new_figure()[1] if ax is None else ax
    order = np.argsort(column)
    column = column[order]
    mean, sd = mean[order, output], sd[order, output]
    ax.fill_between(column, mean - 2 * sd, mean + 2 * sd, color=YELLOW, lw=0, label="two sd")
    ax.fill_between(column, mean - sd, mean + sd, color=GREEN, lw=0, label="one sd")
    ax.plot(column, mean, color="black", lw=1.5, label="mean")
    if truth is not None:
        ax.plot(column, np.asarray(truth(column)), color="tab:red", lw=1.2, ls="--", label="truth")
    if data is not None:
        at, targets = (single_column(name, each) for name, each in zip("xy", data, strict=True))
        ax.plot(at, targets, "o", color="tab:blue", ms=5, label="data")
    ax.set(xlabel="x", ylabel="y")
    if column[0] < column[-1]:
        ax.set_xlim(column[0], column[-1])
    ax.legend(frameon=False, loc="best")
    return ax


def calibration(scores: Scores | ClassScores, *, ax: Axes | None = None) -> Axes:
    """Predicted against observed: on the diagonal if the ensemble is calibrated.

    For numbers, the coverage of intervals of every level; below the diagonal the ensemble is too
    sure. For classes, the frequency of what was predicted with a probability; the area of a dot is
    in proportion to the number of predictions. The gray band, or the bar of a dot, holds 95 % of
    what chance alone does.
    """
    ax = new_figure()[1] if ax is None else ax
    ax.plot([0, 1], [0, 1], color="0.6", lw=0.8, ls="--")
    if isinstance(scores, ClassScores):
        _reliability(scores.reliability, ax)
        ax.set(xlabel="predicted probability", ylabel="observed frequency")
    else:
        _coverage(scores, ax)
        ax.set(xlabel="level of the interval", ylabel="fraction of targets inside")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return ax


def pit(scores: Scores, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Histogram of the probability integral transform: flat if the ensemble is calibrated.

    Heaped at both ends, the ensemble is too sure; in the middle, not sure enough; at one end, it is
    biased. The gray band holds 95 % of what chance alone does in a bin.
    """
    if not isinstance(scores, Scores):
        raise TypeError("`pit` shows scores of numbers; for classes use `calibration`")
    bins = check_count("bins", bins, least=1)
    ax = new_figure()[1] if ax is None else ax
    values = scores.pit.reshape(len(scores.pit), -1)
    rows, outputs = values.shape
    edges = np.linspace(0, 1, bins + 1)
    sd = np.sqrt((bins - 1) / rows)
    for output, own in enumerate(values.T):
        height = np.histogram(own, edges)[0] * bins / rows
        color, label = f"C{output % 10}", f"output {output}"
        ax.stairs(height, edges, color=color, fill=outputs == 1, alpha=0.7, lw=1.5, label=label)
    # In front of the bars, which would hide it.
    band = max(1 - 1.96 * sd, 0), 1 + 1.96 * sd
    ax.axhspan(*band, facecolor="black", alpha=0.12, lw=0, zorder=3)
    ax.axhline(1.0, color="0.3", lw=0.8, ls="--", zorder=3)
    ax.set(xlabel="probability integral transform", ylabel="relative frequency", xlim=(0, 1))
    ax.set_ylim(0, max(1.5, ax.get_ylim()[1]))
    if outputs > 1:
        ax.legend(frameon=False)
    return ax


def _coverage(scores: Scores, ax: Axes) -> None:
    values = scores.pit.reshape(len(scores.pit), -1)
    rows, outputs = values.shape
    level = np.linspace(0, 1, 101)
    error = 1.96 * np.sqrt(level * (1 - level) / rows)
    ax.fill_between(level, level - error, level + error, color="0.9", lw=0)
    for output, own in enumerate(values.T):
        # A target lies in the middle interval of a level if its transform is that near to a half.
        observed = np.searchsorted(np.sort(2 * np.abs(own - 0.5)), level, side="right") / rows
        ax.plot(level, observed, color=f"C{output % 10}", lw=1.5, label=f"output {output}")
    if outputs > 1:
        ax.legend(frameon=False, loc="upper left")


def _reliability(found: Reliability, ax: Axes) -> None:
    some = found.counts > 0
    predicted, observed, counts = (each[some] for each in found)
    error = 1.96 * np.sqrt(predicted * (1 - predicted) / counts)
    lower, upper = np.clip(predicted - error, 0, 1), np.clip(predicted + error, 0, 1)
    ax.vlines(predicted, lower, upper, color="0.8", lw=5)
    ax.plot(predicted, observed, color="C0", lw=1.2)
    size = 15 + 150 * counts / counts.max()
    ax.scatter(predicted, observed, s=size, color="C0", zorder=3, clip_on=False)
