"""Predictions against an input, and their calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, check_type
from tensorbnn.data import Dataset, as_dataset
from tensorbnn.ensemble.class_scores import ClassScores, Reliability
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.scores import Scores
from tensorbnn.plots.figure import Labels, axes_of, choose_column, name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, YELLOW = "#5fb760", "#f7d560"
# If there are more error bars than this, they are rasterized.
MOST_POINTS = 3000


def bands(
    prediction: Prediction,
    *,
    data: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    truth: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    column: int = 0,
    output: int = 0,
    noise: bool = False,
    labels: Labels = None,
    ax: Axes | None = None,
) -> Axes:
    """Mean with one-sd (green) and two-sd (yellow) bands against one input: the paper's figure.

    Parameters
    ----------
    prediction
        The prediction, with its rows in any order.
    data
        Rows ``(x, y)`` to show as points, with bars if a `Dataset` has `y_sd`.
    truth
        A function of the input, whose curve is drawn for comparison.
    column
        The input on the horizontal axis.
    noise
        Whether the bands include the noise of a new target.
    labels
        Names of the input and the output, such as ``{"x": "depth (m)", "y": "flow"}``.
    """
    check_type("prediction", prediction, Prediction, "a tb.Prediction")
    inputs = choose_column("column", prediction.x, column)
    means, sds = (
        each.reshape(prediction.num_rows, -1)
        for each in (prediction.mean, prediction.sd_total if noise else prediction.sd)
    )
    order = np.argsort(inputs)
    at, mean = inputs[order], choose_column("output", means, output)[order]
    sd = sds[order, output]
    ax = axes_of(ax)
    ax.fill_between(at, mean - 2 * sd, mean + 2 * sd, color=YELLOW, lw=0, label="two sd")
    ax.fill_between(at, mean - sd, mean + sd, color=GREEN, lw=0, label="one sd")
    ax.plot(at, mean, color="black", lw=1.5, label="mean")
    if truth is not None:
        ax.plot(at, np.asarray(truth(at)), color="tab:red", lw=1.2, ls="--", label="truth")
    if data is not None:
        _show_data(as_dataset("data", data), column, output, ax)
    name = name_of("x", column, prediction.x.shape[1], labels)
    ax.set(xlabel=name, ylabel=name_of("y", output, means.shape[1], labels))
    if at[0] < at[-1]:
        ax.set_xlim(at[0], at[-1])
    ax.legend(frameon=False, loc="best")
    return ax


def calibration(
    scores: Scores | ClassScores, *, labels: Labels = None, ax: Axes | None = None
) -> Axes:
    """Observed against predicted frequencies: on the diagonal if the ensemble is calibrated.

    For numbers, the coverage of intervals of every level; below the diagonal, the ensemble is
    overconfident. For classes, the observed frequency against the predicted probability; the area
    of a dot is proportional to the number of predictions. The gray band, or the bar of a dot,
    contains 95 % of deviations that are due to chance.
    """
    check_type("scores", scores, (Scores, ClassScores), "scores, as `evaluate` returns")
    ax = axes_of(ax)
    ax.plot([0, 1], [0, 1], color="0.6", lw=0.8, ls="--")
    if isinstance(scores, ClassScores):
        _reliability(scores.reliability, ax)
        ax.set(xlabel="predicted probability", ylabel="observed frequency")
    else:
        _coverage(scores, labels, ax)
        ax.set(xlabel="level of the interval", ylabel="fraction of targets inside")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return ax


def pit(scores: Scores, *, bins: int = 20, labels: Labels = None, ax: Axes | None = None) -> Axes:
    """Histogram of the probability integral transform: flat if the ensemble is calibrated.

    Peaks at both ends show that the ensemble is overconfident, a peak in the middle that it is
    underconfident, and a peak at one end that it is biased. The gray band contains 95 % of
    deviations of a bin that are due to chance.
    """
    if not isinstance(scores, Scores):
        raise TypeError("`pit` shows scores of numbers; for classes use `calibration`")
    bins = check_count("bins", bins, least=1)
    ax = axes_of(ax)
    values = scores.pit.reshape(len(scores.pit), -1)
    rows, outputs = values.shape
    edges = np.linspace(0, 1, bins + 1)
    sd = np.sqrt((bins - 1) / rows)
    for output, own in enumerate(values.T):
        height = np.histogram(own, edges)[0] * bins / rows
        color, label = f"C{output % 10}", name_of("y", output, outputs, labels)
        ax.stairs(height, edges, color=color, fill=outputs == 1, alpha=0.7, lw=1.5, label=label)
    # In front of the bars, which would otherwise hide it.
    band = max(1 - 1.96 * sd, 0), 1 + 1.96 * sd
    ax.axhspan(*band, facecolor="black", alpha=0.12, lw=0, zorder=3)
    ax.axhline(1.0, color="0.3", lw=0.8, ls="--", zorder=3)
    ax.set(xlabel="probability integral transform", ylabel="relative frequency", xlim=(0, 1))
    ax.set_ylim(0, max(1.5, ax.get_ylim()[1]))
    if outputs > 1:
        ax.legend(frameon=False)
    return ax


def _show_data(data: Dataset, column: int, output: int, ax: Axes) -> None:
    """Draw rows as points, with error bars if they have any."""
    x, y = choose_column("column", data.x, column), choose_column("output", data.targets, output)
    ax.plot(x, y, "o", color="tab:blue", ms=5, label="data")
    if data.y_sd is not None:
        sd = data.y_sd.reshape(len(data), -1)[:, output]
        pixels = len(data) > MOST_POINTS
        ax.errorbar(x, y, sd, fmt="none", ecolor="tab:blue", elinewidth=0.7, rasterized=pixels)


def _coverage(scores: Scores, labels: Labels, ax: Axes) -> None:
    values = scores.pit.reshape(len(scores.pit), -1)
    rows, outputs = values.shape
    level = np.linspace(0, 1, 101)
    error = 1.96 * np.sqrt(level * (1 - level) / rows)
    ax.fill_between(level, level - error, level + error, color="0.9", lw=0)
    for output, own in enumerate(values.T):
        # A target is inside the central interval of a level if its transform is close to one half.
        observed = np.searchsorted(np.sort(2 * np.abs(own - 0.5)), level, side="right") / rows
        ax.plot(
            level,
            observed,
            color=f"C{output % 10}",
            lw=1.5,
            label=name_of("y", output, outputs, labels),
        )
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
