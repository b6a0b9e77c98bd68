"""Pictures (extra ``plots``): each function draws into an Axes and returns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.inference.pretrain import Pretrained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    column = _column("x", x)
    if len(column) != prediction.num_rows:
        raise ValueError(f"`x` has {len(column)} rows but the prediction has {prediction.num_rows}")
    if not 0 <= output < prediction.mean.shape[1]:
        raise ValueError(f"`output` must be 0 to {prediction.mean.shape[1] - 1}, got {output!r}")
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
            _column("x", data[0]), _column("y", data[1]), "o", color="tab:blue", ms=5, label="data"
        )
    ax.set(xlabel="x", ylabel="y", xlim=(column[0], column[-1]))
    ax.legend(frameon=False, loc="best")
    return ax


def losses(pretrained: Pretrained, *, chain: int | None = None, ax: Axes | None = None) -> Axes:
    """Training and validation loss of pre-training against the epoch, cycle after cycle.

    A thin vertical line stands between two cycles. The loss is on a log scale where it is positive
    throughout. Where chains took different numbers of epochs for a cycle, the next one begins for
    all of them after the longest.

    Parameters
    ----------
    pretrained
        What `tensorbnn.pretrain` returned.
    chain
        The chain to show; all of them by default.
    ax
        Axes to draw into; new ones by default.
    """
    chains = len(pretrained.epochs)
    if chain is not None and not 0 <= chain < chains:
        raise ValueError(f"`chain` must be 0 to {chains - 1}, got {chain!r}")
    shown = range(chains) if chain is None else [chain]
    ax = new_figure()[1] if ax is None else ax
    lengths = pretrained.epochs[shown].max(axis=0)
    ends = np.cumsum(lengths)
    curves = {"training": pretrained.training_loss, "validation": pretrained.validation_loss}
    for (name, loss), color in zip(curves.items(), ("tab:blue", "tab:orange"), strict=True):
        for number, each in enumerate(loss[shown]):
            parts = zip(each, lengths, strict=True)
            joined = np.concatenate([part[:length] for part, length in parts])
            label = name if number == 0 else None
            ax.plot(np.arange(1, len(joined) + 1), joined, color=color, lw=1.2, label=label)
    for end in ends[:-1]:
        ax.axvline(end + 0.5, color="gray", lw=0.6)
    values = np.stack([loss[shown] for loss in curves.values()])
    positive = np.all(values[np.isfinite(values)] > 0)
    ax.set(xlabel="epoch", ylabel="loss", xlim=(0.5, ends[-1] + 0.5))
    ax.set_yscale("log" if positive else "linear")
    ax.legend(frameon=False, loc="best")
    return ax


def new_figure() -> tuple[Figure, Axes]:
    """A figure with one Axes, of the size all pictures here have."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'tensorbnn[plots]'") from error
    return plt.subplots(figsize=(7, 4.5), layout="constrained")


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be a single column for this plot, got shape {array.shape}")
    return array
