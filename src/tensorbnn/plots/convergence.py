"""R-hat and effective sample size of the predictions against an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.verdict import ESS_LIMIT, RHAT_LIMIT
from tensorbnn.plots.figure import new_figure, single_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def rhat(diagnosis: Diagnosis, x: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """R-hat against an input, with the limit below which chains agree.

    Parameters
    ----------
    diagnosis
        What `Ensemble.diagnose` found at the rows of `x`.
    x
        One input ``(rows,)``, such as a column of those that were diagnosed.
    ax
        Axes to draw into; new ones by default.
    """
    ax = _against(diagnosis.rhat, x, "R-hat", ax)
    ax.axhline(RHAT_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {RHAT_LIMIT}")
    ax.set_ylim(0.998, max(1.02, ax.get_ylim()[1]))
    ax.legend(frameon=False)
    return ax


def ess(diagnosis: Diagnosis, x: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Bulk (dots) and tail (crosses) effective sample size against an input.

    Parameters
    ----------
    diagnosis
        What `Ensemble.diagnose` found at the rows of `x`.
    x
        One input ``(rows,)``, such as a column of those that were diagnosed.
    ax
        Axes to draw into; new ones by default.
    """
    ax = _against(diagnosis.ess, x, "bulk", ax)
    _against(diagnosis.ess_tail, x, "tail", ax, marker="x")
    ax.axhline(ESS_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {ESS_LIMIT:.0f}")
    ax.set(ylabel="effective sample size")
    ax.set_ylim(0, ax.get_ylim()[1])
    ax.legend(frameon=False)
    return ax


def _against(
    values: NDArray[Any], x: ArrayLike, name: str, ax: Axes | None, *, marker: str = "o"
) -> Axes:
    column = single_column("x", x)
    if len(column) != len(values):
        raise ValueError(f"`x` has {len(column)} rows but the diagnosis has {len(values)}")
    ax = new_figure()[1] if ax is None else ax
    order = np.argsort(column)
    for output, own in enumerate(values.T):
        label = name if values.shape[1] == 1 else f"{name}, output {output}"
        color = f"C{output % 10}"
        ax.plot(column[order], own[order], marker=marker, ms=4, lw=0.6, color=color, label=label)
    ax.set(xlabel="x", ylabel=name)
    return ax
