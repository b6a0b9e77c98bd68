"""Helpers for all figures: new Axes, names of columns, and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tensorbnn.checks import check_count
from tensorbnn.errors import OptionTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Labels = Mapping[str, str] | None


def new_figure() -> tuple[Figure, Axes]:
    """A figure with one Axes, of the same size for all plots."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need Matplotlib: pip install 'tensorbnn[plots]'") from error
    return plt.subplots(figsize=(7, 4.5), layout="constrained")


def axes_of(ax: Axes | None) -> Axes:
    """The Axes to draw into: the user's, or new ones."""
    if ax is None:
        return new_figure()[1]
    if not hasattr(ax, "plot"):
        raise OptionTypeError("ax", "Axes of Matplotlib or None", ax)
    return ax


def chain_color(chain: int) -> str:
    """The color of a chain, or of an output, the same in all figures."""
    return f"C{chain % 10}"


def legend_above(ax: Axes) -> None:
    """Add a legend above the Axes, where it hides no data."""
    ax.legend(
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(len(ax.get_legend_handles_labels()[1]), 5),
        handlelength=1.2,
        columnspacing=1.0,
        handletextpad=0.5,
    )


def name_of(kind: str, number: int, count: int, labels: Labels) -> str:
    """The name in a figure of one of `count` inputs (``"x"``) or outputs (``"y"``).

    Examples
    --------
    >>> name_of("x", 0, 1, None), name_of("y", 1, 2, None), name_of("y", 1, 2, {"y1": "flow"})
    ('x', 'y1', 'flow')
    """
    return label_of(kind if count == 1 else f"{kind}{number}", labels)


def label_of(name: str, labels: Labels) -> str:
    """The label of this name in a figure."""
    return name if labels is None else labels.get(name, name)


def choose_column(name: str, values: NDArray[Any], number: int) -> NDArray[Any]:
    """One column ``(rows,)`` of ``(rows, columns)``, selected by the argument `name`."""
    return values[:, check_count(name, number, least=0, most=values.shape[1] - 1)]
