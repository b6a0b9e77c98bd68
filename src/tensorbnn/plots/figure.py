"""What all pictures share: a new figure, and checks of what is to be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure() -> tuple[Figure, Axes]:
    """A figure with one Axes, of the size all pictures here have."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'tensorbnn[plots]'") from error
    return plt.subplots(figsize=(7, 4.5), layout="constrained")


def chain_color(chain: int) -> str:
    """The color of a chain, or of an output, the same in all pictures."""
    return f"C{chain % 10}"


def legend_above(ax: Axes) -> None:
    """A legend above the Axes, where it hides no data."""
    ax.legend(
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(len(ax.get_legend_handles_labels()[1]), 5),
        handlelength=1.2,
        columnspacing=1.0,
        handletextpad=0.5,
    )


def single_column(name: str, values: ArrayLike) -> NDArray[Any]:
    """`values` as ``(rows,)``, or an error that names them."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be a single column for this plot, got shape {array.shape}")
    return array


def check_output(output: int, outputs: int) -> None:
    """Raise where there is no such output."""
    if not 0 <= output < outputs:
        raise ValueError(f"`output` must be 0 to {outputs - 1}, got {output!r}")
