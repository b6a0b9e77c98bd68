"""Predictions against an input: the paper's figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.plots.figure import check_output, new_figure, single_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, YELLOW = "#5fb760", "#f7d560"


def bands(
    prediction: Prediction,
    x: ArrayLike,
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
        Predictions at `x`.
    x
        The input ``(rows,)`` or ``(rows, 1)`` at which they were made, in any order.
    data
        Training inputs and targets to show as points.
    truth
        A function whose curve is drawn for comparison.
    output
        Which output of the network to show.
    noise
        Whether the bands include the noise of a new target.
    ax
        Axes to draw into; new ones by default.
    """
    column = single_column("x", x)
    if len(column) != prediction.num_rows:
        raise ValueError(f"`x` has {len(column)} rows but the prediction has {prediction.num_rows}")
    check_output(output, prediction.mean.shape[1])
    ax = new_figure()[1] if ax is None else ax
    order = np.argsort(column)
    column = column[order]
    mean = prediction.mean[order, output]
    sd = (prediction.sd_total if noise else prediction.sd)[order, output]
    ax.fill_between(column, mean - 2 * sd, mean + 2 * sd, color=YELLOW, lw=0, label="two sd")
    ax.fill_between(column, mean - sd, mean + sd, color=GREEN, lw=0, label="one sd")
    ax.plot(column, mean, color="black", lw=1.5, label="mean")
    if truth is not None:
        ax.plot(column, np.asarray(truth(column)), color="tab:red", lw=1.2, ls="--", label="truth")
    if data is not None:
        ax.plot(
            single_column("x", data[0]),
            single_column("y", data[1]),
            "o",
            color="tab:blue",
            ms=5,
            label="data",
        )
    ax.set(xlabel="x", ylabel="y")
    if column[0] < column[-1]:
        ax.set_xlim(column[0], column[-1])
    ax.legend(frameon=False, loc="best")
    return ax
