"""Convergence of chains and of pre-training: curves against draws, lags and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, check_type
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.verdict import ESS_LIMIT, RHAT_LIMIT
from tensorbnn.inference.pretrain import Pretrained
from tensorbnn.plots.figure import (
    Labels,
    axes_of,
    chain_color,
    choose_column,
    legend_above,
    name_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def losses(pretrained: Pretrained, *, chain: int | None = None, ax: Axes | None = None) -> Axes:
    """Training and validation loss of pre-training against the epoch, cycle after cycle.

    A thin vertical line separates two cycles. The scale is logarithmic if all losses are positive.
    If chains needed different numbers of epochs for a cycle, the next one begins after the longest.
    By default all chains are shown; `chain` selects one.
    """
    check_type("pretrained", pretrained, Pretrained, "a tb.Pretrained")
    chains = len(pretrained.epochs)
    one = None if chain is None else check_count("chain", chain, least=0, most=chains - 1)
    shown = range(chains) if one is None else [one]
    ax = axes_of(ax)
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


def trace(
    ensemble: Ensemble,
    x: ArrayLike,
    *,
    output: int = 0,
    labels: Labels = None,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """Prediction of each chain at one row of inputs, draw after draw.

    Chains that have converged look alike, without a trend. Draws with a divergent trajectory are
    marked at the bottom. `x` is one row of inputs: a number, or ``(inputs,)``.
    """
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    values = _at(ensemble, x, output, "plots.trace", progress=progress)
    ax = axes_of(ax)
    draws = np.arange(1, values.shape[1] + 1)
    for chain, own in enumerate(values):
        ax.plot(draws, own, color=chain_color(chain), lw=0.7, alpha=0.8, label=f"chain {chain}")
    diverging = ensemble.sample_stats.get("diverging", np.zeros((1, len(draws)), bool))
    found = draws[np.any(diverging, axis=0)]
    if len(found):
        where, bottom = np.zeros(len(found)), ax.get_xaxis_transform()
        ax.plot(found, where, "|", color="black", ms=8, transform=bottom, label="divergence")
    ax.set(xlabel="draw", ylabel=_label(ensemble, x, output, labels), xlim=(0.5, len(draws) + 0.5))
    legend_above(ax)
    return ax


def ranks(
    ensemble: Ensemble,
    x: ArrayLike,
    *,
    output: int = 0,
    bins: int | None = None,
    labels: Labels = None,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """Ranks of the draws of each chain among those of all chains, at one row of inputs.

    The height is a chain's number of draws in a bin of ranks, relative to the mean over chains. The
    gray band contains 95 % of the heights if draws are independent; heights vary more if draws are
    correlated. A sloping histogram means that a chain is too low or too high, a U-shaped one that
    it is too wide. Equal predictions get random ranks.

    `x` is as for `trace`. By default there are 5 to 20 `bins`, with about 50 draws per chain each.
    """
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    values = _at(ensemble, x, output, "plots.ranks", progress=progress)
    chains, draws = values.shape
    if chains < 2:
        raise ValueError("ranks compare chains, but this ensemble has only one")
    chosen = min(max(draws // 50, 5), 20, draws) if bins is None else bins
    bins = check_count("bins", chosen, least=1)
    if bins > draws:
        raise ValueError(f"`bins` must be 1 to the number of draws, {draws}, got {bins!r}")
    ax = axes_of(ax)
    order = np.lexsort([np.random.default_rng(0).permutation(values.size), values.ravel()])
    rank = np.empty(values.size)
    rank[order] = np.arange(values.size) + 0.5
    edges = np.linspace(0, 1, bins + 1)
    sd = np.sqrt(bins * (1 - 1 / chains) * (1 - 1 / bins) / draws)
    ax.axhspan(max(1 - 1.96 * sd, 0), 1 + 1.96 * sd, color="0.9", lw=0, label="95 %")
    ax.axhline(1.0, color="0.6", lw=0.8)
    for chain, own in enumerate(rank.reshape(values.shape) / values.size):
        height = np.histogram(own, edges)[0] * bins / draws
        color = chain_color(chain)
        ax.stairs(height, edges, baseline=None, color=color, lw=1.5, label=f"chain {chain}")
    name = f"rank of the {_label(ensemble, x, output, labels)}"
    ax.set(xlabel=name, ylabel="relative frequency", xlim=(0, 1))
    ax.set_ylim(0, max(2.0, ax.get_ylim()[1]))
    legend_above(ax)
    return ax


def autocorrelation(
    ensemble: Ensemble,
    x: ArrayLike | None = None,
    *,
    max_lag: int | None = None,
    labels: Labels = None,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """Autocorrelation of the predictions against the lag, averaged over the rows of `x`.

    By default `x` is at most 100 training rows, and `max_lag` is 75 draws or all of them.
    """
    check_type("ensemble", ensemble, Ensemble, "a tb.Ensemble")
    max_lag = min(75, ensemble.num_draws - 1) if max_lag is None else max_lag
    rho = ensemble.autocorrelation(x, max_lag, progress=progress)
    rho = rho.reshape(len(rho), -1)
    ax = axes_of(ax)
    lags = np.arange(max_lag + 1)
    ax.axhline(0.0, color="0.6", lw=0.8)
    for output, own in enumerate(rho.T):
        label = name_of("y", output, rho.shape[1], labels) if rho.shape[1] > 1 else None
        ax.plot(lags, own, ".-", color=chain_color(output), lw=1.2, ms=5, label=label)
    ax.set(xlabel="lag (draws)", ylabel="autocorrelation of predictions", xlim=(0, max_lag))
    ax.set_ylim(min(-0.1, np.nanmin(rho, initial=0.0) * 1.1), 1.03)
    if rho.shape[1] > 1:
        ax.legend(frameon=False)
    return ax


def rhat(
    diagnosis: Diagnosis, *, column: int = 0, labels: Labels = None, ax: Axes | None = None
) -> Axes:
    """R-hat against an input, with the limit below which chains agree."""
    check_type("diagnosis", diagnosis, Diagnosis, "a tb.Diagnosis")
    ax = _against(diagnosis, diagnosis.rhat, "R-hat", column, labels, ax)
    ax.axhline(RHAT_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {RHAT_LIMIT}")
    ax.set_ylim(0.998, max(1.02, ax.get_ylim()[1]))
    ax.legend(frameon=False)
    return ax


def ess(
    diagnosis: Diagnosis, *, column: int = 0, labels: Labels = None, ax: Axes | None = None
) -> Axes:
    """Bulk (dots) and tail (crosses) effective sample size against an input."""
    check_type("diagnosis", diagnosis, Diagnosis, "a tb.Diagnosis")
    ax = _against(diagnosis, diagnosis.ess, "bulk", column, labels, ax)
    _against(diagnosis, diagnosis.ess_tail, "tail", column, labels, ax, marker="x")
    ax.axhline(ESS_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {ESS_LIMIT:.0f}")
    ax.set(ylabel="effective sample size", ylim=(0, ax.get_ylim()[1]))
    ax.legend(frameon=False)
    return ax


def _at(
    ensemble: Ensemble, x: ArrayLike, output: int, plot: str, *, progress: bool
) -> NDArray[Any]:
    """Predictions ``(chains, draws)`` at one row of inputs."""
    ensemble._refuse_weights(plot, "it shows draws in the order they were sampled")
    row = np.asarray(x)
    if row.ndim > 1:
        raise ValueError(
            f"`x` must be one row of inputs, ({ensemble.network.inputs},), got shape {row.shape}"
        )
    samples = ensemble.predict(row.reshape(1, -1), progress=progress).samples
    values = choose_column("output", samples.reshape(len(samples), -1), output)
    return values.reshape(ensemble.num_chains, -1)


def _label(ensemble: Ensemble, x: ArrayLike, output: int, labels: Labels) -> str:
    network = ensemble.network
    name = name_of("y", output, ensemble.likelihood.columns(network.outputs), labels)
    row = np.atleast_1d(np.asarray(x)).tolist()
    inputs = [
        f"{name_of('x', place, len(row), labels)} = {each:.3g}"
        for place, each in enumerate(row[:4])
    ]
    return f"prediction of {name} at {', '.join(inputs)}{', ...' * (len(row) > 4)}"


def _against(
    diagnosis: Diagnosis,
    values: NDArray[Any],
    name: str,
    column: int,
    labels: Labels,
    ax: Axes | None,
    *,
    marker: str = "o",
) -> Axes:
    if diagnosis.x is None:
        raise ValueError("the diagnosis does not have its inputs: make it with `ensemble.diagnose`")
    at, values = choose_column("column", diagnosis.x, column), values.reshape(len(values), -1)
    ax = axes_of(ax)
    order = np.argsort(at)
    for output, own in enumerate(values.T):
        of = name_of("y", output, values.shape[1], labels)
        label = name if values.shape[1] == 1 else f"{name}, {of}"
        color = chain_color(output)
        ax.plot(at[order], own[order], marker=marker, ms=4, lw=0.6, color=color, label=label)
    ax.set(xlabel=name_of("x", column, diagnosis.x.shape[1], labels), ylabel=name)
    return ax
