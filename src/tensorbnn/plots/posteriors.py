"""Posteriors of hyper-parameters and of scales of inputs, and sensitivity to a prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.checks import check_choice, check_count, check_type
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.sensitivity import Sensitivity
from tensorbnn.ensemble.statistics import quantile
from tensorbnn.plots.figure import (
    Labels,
    axes_of,
    chain_color,
    choose_column,
    label_of,
    legend_above,
    name_of,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# At most this many rows are shown as curves.
MOST_ROWS = 5
QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Ticks per decade, by the minimum ratio of the largest value to the smallest.
_TICKS = (
    (10.0, (1.0, 2.0, 5.0)),
    (3.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
    (1.0, (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
)


def hyperparameters(
    ensemble: Ensemble,
    *,
    var_names: Sequence[str] | None = None,
    labels: Labels = None,
    ax: Axes | None = None,
) -> Axes:
    """Median (dot), middle 50 % (thick) and 90 % (thin) of each hyper-parameter, chain by chain.

    Shows all, or those with these `var_names` in `Ensemble.hyperparameters`.
    """
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    chosen = _chosen(var_names, list(ensemble.hyperparameters))
    series = {label_of(name, labels): _values(ensemble, name) for name in chosen}
    if not series:
        raise ValueError("this ensemble has no hyper-parameters to show")
    ax = _intervals(series, ensemble.weights, ax)
    ax.set_xlabel(_in_units("value", ensemble))
    return ax


def relevances(
    ensemble: Ensemble,
    *,
    var_names: Sequence[str] | None = None,
    labels: Labels = None,
    ax: Axes | None = None,
) -> Axes:
    """Median (dot), middle 50 % (thick) and 90 % (thin) of each input's scale, chain by chain.

    For networks that begin with `Relevance`. The axis is logarithmic, and the largest scale comes
    first. Shows all inputs, or those with these `var_names`, such as ``["x0", "x3"]``.
    """
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    if ensemble.relevances is None:
        raise ValueError("the network does not begin with Relevance(): its inputs have no scales")
    known = [
        name_of("x", each, ensemble.network.inputs, None) for each in range(ensemble.network.inputs)
    ]
    chosen = _chosen(var_names, known)
    scales = ensemble.parameters["relevance_0.scales"]
    series = {
        label_of(known[each], labels): scales[..., each]
        for each in np.argsort(-ensemble.relevances)
        if known[each] in chosen
    }
    ax = _intervals(series, ensemble.weights, ax)
    ax.set(xlabel="scale of the input", xscale="log")
    return ax


def hyperparameter(
    ensemble: Ensemble,
    name: str,
    *,
    bins: int = 20,
    labels: Labels = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of one hyper-parameter: of all chains (filled), and of each chain."""
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    values = _values(ensemble, name)
    weights = np.ones(values.shape) if ensemble.weights is None else ensemble.weights
    bins = check_count("bins", bins, least=1)
    ax = axes_of(ax)
    edges = np.histogram_bin_edges(values, bins)
    overall = np.histogram(values, edges, weights=weights, density=True)[0]
    ax.stairs(overall, edges, fill=True, color="0.85", label="all chains")
    for chain, own in enumerate(values):
        height = np.histogram(own, edges, weights=weights[chain], density=True)[0]
        ax.stairs(height, edges, baseline=None, color=chain_color(chain), label=f"chain {chain}")
    label = _in_units(label_of(name, labels), ensemble)
    ax.set(xlabel=label, ylabel="density", xlim=(edges[0], edges[-1]))
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def sensitivity(
    found: Sensitivity,
    *,
    output: int = 0,
    labels: Labels = None,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Mean, sd and effective sample size against the value of the number that was varied.

    Regions where the weights can't be trusted (k-hat is too high) are gray, and curves there are
    dotted. The dashed line marks the trustworthy value with the highest evidence. At most five rows
    are shown.

    Draws into three `axes`, by default new ones below one another, and returns them.
    """
    check_type("found", found, Sensitivity, "a tb.Sensitivity")
    shape = *found.mean.shape[:2], -1
    mean, sd = found.mean.reshape(shape), found.sd.reshape(shape)
    choose_column("output", mean[0], output)
    name_y = name_of("y", output, mean.shape[2], labels)
    if axes is None:
        figure, first = new_figure()
        first.remove()
        figure.set_size_inches(7, 7.5)
        axes = figure.subplots(3, 1, sharex=True)
    panels = np.asarray(axes)
    if panels.shape != (3,):
        raise ValueError(f"`axes` must be three Axes, got {panels.size}")
    order = np.argsort(found.values)
    values, good = found.values[order], found.trustworthy[order]
    count = mean.shape[1]
    rows = np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int))
    for ax, curves, label in zip(panels, (mean, sd), ("mean", "sd"), strict=False):
        for place, row in enumerate(rows):
            x = found.x[row]
            name = f"{name_of('x', 0, 1, labels)} = {x[0]:.3g}" if len(x) == 1 else f"row {row}"
            _curve(ax, values, curves[order, row, output], good, f"C{place}", name)
        ax.set_ylabel(f"{label} of {name_y}")
    _curve(panels[2], values, found.ess[order], good, "black", None)
    panels[2].set(ylabel="effective sample size", ylim=(0, 1.05 * len(found.ensembles[0])))
    more = f" and {len(found.names) - 1} more" if len(found.names) > 1 else ""
    panels[2].set_xlabel(label_of(found.names[0], labels) + more)
    legend_above(panels[0])
    for ax in panels:
        _mark(ax, found, values, good)
    if panels[2].get_legend_handles_labels()[1]:
        legend_above(panels[2])
    return panels


def _intervals(
    series: Mapping[str, NDArray[Any]], weights: NDArray[Any] | None, ax: Axes | None
) -> Axes:
    """Draw quantiles of each of the named values ``(chains, draws)``, one below the other."""
    chains = len(next(iter(series.values())))
    if ax is None:
        figure, ax = new_figure()
        figure.set_figheight(max(4.5, 0.8 + 0.35 * len(series)))
    ax = axes_of(ax)
    offsets = np.linspace(-0.25, 0.25, chains) if chains > 1 else np.zeros(1)
    for place, values in enumerate(series.values()):
        for chain, (own, offset) in enumerate(zip(values, offsets, strict=True)):
            shares = None if weights is None else weights[chain] / weights[chain].sum()
            low, lower, middle, upper, high = quantile(own, QUANTILES, shares)
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


def _chosen(var_names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names that the user selected, all by default."""
    if var_names is None:
        return list(known)
    check_type("var_names", var_names, (list, tuple), "a list of names")
    return [check_choice("var_names", name, known) for name in var_names]


def _in_units(name: str, ensemble: Ensemble) -> str:
    """An axis label for hyper-parameters, which are in the units of the model."""
    return f"{name} (standardized units)" if ensemble.scaling.x_scale else name


def _values(ensemble: Ensemble, name: str) -> NDArray[Any]:
    """Draws ``(chains, draws)`` of a hyper-parameter."""
    known = ensemble.hyperparameters
    return known[check_choice("name", name, sorted(known))]


def _curve(
    ax: Axes,
    x: NDArray[Any],
    y: NDArray[Any],
    good: NDArray[np.bool_],
    color: str,
    name: str | None,
) -> None:
    """Draw a dotted curve, with a solid line where the weights are trustworthy."""
    ax.plot(x, y, ":", color=color, lw=1)
    ax.plot(x, np.where(good, y, np.nan), ".-", color=color, lw=1.5, ms=6, label=name)


def _mark(ax: Axes, found: Sensitivity, values: NDArray[Any], good: NDArray[np.bool_]) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    positive = bool(np.all(values > 0))
    if positive:
        ax.set_xscale("log")
        subs = next(own for ratio, own in _TICKS if values[-1] >= ratio * values[0])
        ax.xaxis.set_major_locator(LogLocator(subs=subs))
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_locator(NullLocator())
    # Each value covers the region that is nearer to it than to other values.
    places = np.log(values) if positive else values
    middle = 0.5 * (places[1:] + places[:-1])
    middle = np.exp(middle) if positive else middle
    edges = np.concatenate([values[:1], middle, values[-1:]])
    for place in np.flatnonzero(~good):
        label = "weights can't be trusted" if place == np.flatnonzero(~good)[0] else None
        ax.axvspan(edges[place], edges[place + 1], color="0.9", lw=0, zorder=0, label=label)
    if good.any():
        ax.axvline(found.best().value, color="0.4", lw=1, ls="--", label="highest evidence")
    if len(values) > 1:
        ax.set_xlim(values[0], values[-1])
