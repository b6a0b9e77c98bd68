"""Pre-training: loss curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorbnn.inference.pretrain import Pretrained
from tensorbnn.plots.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
