"""Posteriors of the hyper-parameters, and of the scales of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.checks import check_count
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.plots.figure import chain_color, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def hyperparameters(
    ensemble: Ensemble, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Median (dot), middle 50 % (thick) and 90 % (thin) of each hyper-parameter, chain by chain.

    All, or those with these `names` in `Ensemble.hyperparameters`.
    """
    if isinstance(names, str):
        raise TypeError(f"`names` must be a list of names, got {names!r}")
    chosen = list(ensemble.hyperparameters) if names is None else list(names)
    series = {name: _values(ensemble, name) for name in chosen}
    if not series:
        raise ValueError("this ensemble has no hyper-parameters to show")
    ax = _intervals(series, ensemble.num_chains, ax)
    ax.set_xlabel("value")
    return ax


def relevances(
    ensemble: Ensemble, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Median (dot), middle 50 % (thick) and 90 % (thin) of each input's scale, chain by chain.

    Of networks that begin with `Relevance`; on a logarithmic axis, the largest first. `names` are
    those of the inputs: ``x0``, ``x1``, ... by default.
    """
    if ensemble.relevances is None:
        raise ValueError("the network does not begin with Relevance(): its inputs have no scales")
    count = ensemble.network.inputs
    labels = [f"x{place}" for place in range(count)] if names is None else list(names)
    if isinstance(names, str) or len(labels) != count:
        raise ValueError(f"`names` must be a list of {count} names, got {names!r}")
    order = np.argsort(-ensemble.relevances)
    scales = ensemble.parameters["relevance_0.scales"]
    ax = _intervals({labels[each]: scales[..., each] for each in order}, ensemble.num_chains, ax)
    ax.set(xlabel="scale of the input", xscale="log")
    return ax


def _intervals(series: Mapping[str, NDArray[Any]], chains: int, ax: Axes | None) -> Axes:
    """Quantiles of each of the named values ``(chains, draws)``, one below the other."""
    if ax is None:
        figure, ax = new_figure()
        figure.set_figheight(max(4.5, 0.8 + 0.35 * len(series)))
    offsets = np.linspace(-0.25, 0.25, chains) if chains > 1 else np.zeros(1)
    for place, values in enumerate(series.values()):
        for chain, (own, offset) in enumerate(zip(values, offsets, strict=True)):
            low, lower, middle, upper, high = np.quantile(own, [0.05, 0.25, 0.5, 0.75, 0.95])
            color, y = chain_color(chain), place + offset
            ax.plot([low, high], [y, y], color=color, lw=1)
            ax.plot([lower, upper], [y, y], color=color, lw=2.5)
            label = f"chain {chain}" if place == 0 else None
            ax.plot(middle, y, "o", color=color, ms=4, mec="white", mew=0.5, label=label)
    ax.set_yticks(range(len(series)), list(series))
    ax.set_ylim(len(series) - 0.5, -0.5)
    ax.grid(axis="x", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    legend_above(ax)
    return ax


def hyperparameter(
    ensemble: Ensemble, name: str, *, bins: int = 20, ax: Axes | None = None
) -> Axes:
    """Histogram of one hyper-parameter: of all chains (filled), and of each chain."""
    values = _values(ensemble, name)
    bins = check_count("bins", bins, least=1)
    ax = new_figure()[1] if ax is None else ax
    edges = np.histogram_bin_edges(values, bins)
    together = np.histogram(values, edges, density=True)[0]
    ax.stairs(together, edges, fill=True, color="0.85", label="all chains")
    for chain, own in enumerate(values):
        height = np.histogram(own, edges, density=True)[0]
        ax.stairs(height, edges, baseline=None, color=chain_color(chain), label=f"chain {chain}")
    ax.set(xlabel=name, ylabel="density", xlim=(edges[0], edges[-1]))
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def _values(ensemble: Ensemble, name: str) -> NDArray[Any]:
    """Draws ``(chains, draws)`` of a hyper-parameter."""
    known = ensemble.hyperparameters
    if name not in known:
        raise ValueError(f"there is no hyper-parameter {name!r}: there are {sorted(known)}")
    return known[name]
