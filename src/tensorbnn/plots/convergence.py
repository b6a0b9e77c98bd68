"""Have chains converged, and the pre-training before them? Curves against draws, lags, epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.verdict import ESS_LIMIT, RHAT_LIMIT
from tensorbnn.inference.pretrain import Pretrained
from tensorbnn.plots.figure import (
    chain_color,
    check_output,
    legend_above,
    new_figure,
    single_column,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def losses(pretrained: Pretrained, *, chain: int | None = None, ax: Axes | None = None) -> Axes:
    """Training and validation loss of pre-training against the epoch, cycle after cycle.

    A thin vertical line stands between two cycles. The loss is on a log scale where it is positive
    throughout. Where chains took different numbers of epochs for a cycle, the next one begins for
    all of them after the longest. All chains are shown, or the one with the number `chain`.
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


def trace(
    ensemble: Ensemble,
    x: ArrayLike,
    *,
    output: int = 0,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """What each chain says at one input, draw after draw.

    Chains that have converged look like one another, without trend; draws with a divergent
    trajectory are marked at the bottom. `x` is one row of inputs: a number, or ``(inputs,)``.
    """
    values = _at(ensemble, x, output, progress=progress)
    ax = new_figure()[1] if ax is None else ax
    draws = np.arange(1, values.shape[1] + 1)
    for chain, own in enumerate(values):
        ax.plot(draws, own, color=chain_color(chain), lw=0.7, alpha=0.8, label=f"chain {chain}")
    diverging = ensemble.sample_stats.get("diverging", np.zeros((1, len(draws)), bool))
    found = draws[np.any(diverging, axis=0)]
    if len(found):
        where, bottom = np.zeros(len(found)), ax.get_xaxis_transform()
        ax.plot(found, where, "|", color="black", ms=8, transform=bottom, label="divergence")
    ax.set(xlabel="draw", ylabel=_label(x), xlim=(0.5, len(draws) + 0.5))
    legend_above(ax)
    return ax


def ranks(
    ensemble: Ensemble,
    x: ArrayLike,
    *,
    output: int = 0,
    bins: int | None = None,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """How the draws of each chain rank among those of all chains, at one input.

    The height is a chain's number of draws in a bin of ranks, relative to that of chains that say
    the same: 1. The gray band holds 95 % of it for independent draws; correlated ones stray
    further. A chain that slopes sits too low or too high, one that is hollow is too wide. Draws
    that say exactly the same are ranked at random.

    `x` is as for `trace`; by default there are so many `bins` that each holds 50 draws of a chain,
    5 to 20.
    """
    values = _at(ensemble, x, output, progress=progress)
    chains, draws = values.shape
    if chains < 2:
        raise ValueError("ranks compare chains, but this ensemble has only one")
    chosen = min(max(draws // 50, 5), 20, draws) if bins is None else bins
    bins = check_count("bins", chosen, least=1)
    if bins > draws:
        raise ValueError(f"`bins` must be 1 to the number of draws, {draws}, got {bins!r}")
    ax = new_figure()[1] if ax is None else ax
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
    ax.set(xlabel=f"rank of {_label(x)}", ylabel="relative frequency", xlim=(0, 1))
    ax.set_ylim(0, max(2.0, ax.get_ylim()[1]))
    legend_above(ax)
    return ax


def autocorrelation(
    ensemble: Ensemble,
    x: ArrayLike,
    *,
    max_lag: int | None = None,
    ax: Axes | None = None,
    progress: bool = True,
) -> Axes:
    """Autocorrelation of the predictions against the lag, averaged over the rows of `x`.

    Up to `max_lag` draws; by default 75, or all where there are fewer.
    """
    max_lag = min(75, ensemble.num_draws - 1) if max_lag is None else max_lag
    rho = ensemble.autocorrelation(x, max_lag, progress=progress)
    rho = rho.reshape(len(rho), -1)
    ax = new_figure()[1] if ax is None else ax
    lags = np.arange(max_lag + 1)
    ax.axhline(0.0, color="0.6", lw=0.8)
    for output, own in enumerate(rho.T):
        label = f"output {output}" if rho.shape[1] > 1 else None
        ax.plot(lags, own, ".-", color=chain_color(output), lw=1.2, ms=5, label=label)
    ax.set(xlabel="lag (draws)", ylabel="autocorrelation", xlim=(0, max_lag))
    ax.set_ylim(min(-0.1, np.nanmin(rho, initial=0.0) * 1.1), 1.03)
    if rho.shape[1] > 1:
        ax.legend(frameon=False)
    return ax


def rhat(diagnosis: Diagnosis, x: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """R-hat against an input, with the limit below which chains agree.

    `x` is what to draw it against, ``(rows,)``, such as one of several inputs; by default the input
    that was diagnosed.
    """
    ax = _against(diagnosis, "rhat", x, "R-hat", ax)
    ax.axhline(RHAT_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {RHAT_LIMIT}")
    ax.set_ylim(0.998, max(1.02, ax.get_ylim()[1]))
    ax.legend(frameon=False)
    return ax


def ess(diagnosis: Diagnosis, x: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Bulk (dots) and tail (crosses) effective sample size against an input, as for `rhat`."""
    ax = _against(diagnosis, "ess", x, "bulk", ax)
    _against(diagnosis, "ess_tail", x, "tail", ax, marker="x")
    ax.axhline(ESS_LIMIT, color="tab:red", lw=1, ls="--", label=f"limit {ESS_LIMIT:.0f}")
    ax.set(ylabel="effective sample size", ylim=(0, ax.get_ylim()[1]))
    ax.legend(frameon=False)
    return ax


def _at(ensemble: Ensemble, x: ArrayLike, output: int, *, progress: bool) -> NDArray[Any]:
    """Predictions ``(chains, draws)`` at one input."""
    row = np.asarray(x)
    if row.ndim > 1:
        raise ValueError(
            f"`x` must be one row of inputs, ({ensemble.network.inputs},), got shape {row.shape}"
        )
    values = ensemble.predict(row.reshape(1, -1), progress=progress)._samples[:, 0]
    check_output(output, values.shape[1])
    return values[:, output].reshape(ensemble.num_chains, -1)


def _label(x: ArrayLike) -> str:
    row = np.atleast_1d(np.asarray(x))
    inputs = ", ".join(f"{each:.3g}" for each in row[:4].tolist())
    return f"prediction at ({inputs}, ...)" if len(row) > 4 else f"prediction at {inputs}"


def _against(
    diagnosis: Diagnosis,
    attribute: str,
    x: ArrayLike | None,
    name: str,
    ax: Axes | None,
    *,
    marker: str = "o",
) -> Axes:
    values: NDArray[Any] = getattr(diagnosis, attribute)
    given = diagnosis.x if x is None else x
    if given is None:
        raise ValueError("`x` must be given: this diagnosis does not know its inputs")
    column = single_column("x", given)
    if len(column) != len(values):
        raise ValueError(f"`x` has {len(column)} rows but the diagnosis has {len(values)}")
    ax = new_figure()[1] if ax is None else ax
    order, values = np.argsort(column), values.reshape(len(column), -1)
    for output, own in enumerate(values.T):
        label = name if values.shape[1] == 1 else f"{name}, output {output}"
        color = chain_color(output)
        ax.plot(column[order], own[order], marker=marker, ms=4, lw=0.6, color=color, label=label)
    ax.set(xlabel="x", ylabel=name)
    return ax
