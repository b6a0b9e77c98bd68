"""Can the sample be trusted? R-hat and effective sample size of the predictions.

Weights of a network are not identified (units can be swapped, signs flipped), so chains are
compared by what their networks say at given inputs, in function space.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
DIVERGENCE_LIMIT = 0.01


@dataclass(frozen=True)
class Diagnosis:
    """R-hat and effective sample size of the prediction at each row.

    Attributes
    ----------
    rhat
        Rank-normalised split R-hat, ``(rows, outputs)``; near 1 where chains agree (Vehtari et al.
        2021). NaN for a value that never changes.
    ess
        Bulk effective sample size over all chains, ``(rows, outputs)``.
    acceptance
        Mean acceptance probability of each chain, ``(chains,)``.
    divergences
        Number of divergent transitions of each chain after burn-in, ``(chains,)``.
    verdict
        What to make of it, in words.
    """

    rhat: NDArray[Any]
    ess: NDArray[Any]
    acceptance: NDArray[Any]
    divergences: NDArray[Any]
    verdict: str


def diagnose(values: NDArray[Any], info: dict[str, NDArray[Any]]) -> Diagnosis:
    """Diagnose predictions ``(chains, draws, rows, outputs)`` and the sampler's info."""
    from arviz_stats.base import array_stats  # imported here: it takes a second

    if values.shape[1] < 4:
        raise ValueError(f"diagnosis needs at least 4 draws a chain, got {values.shape[1]}")
    series = np.moveaxis(np.asarray(values, np.float64), (0, 1), (-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):  # a value that never changes gives NaN
        rhat = np.asarray(array_stats.rhat(series, chain_axis=-2, draw_axis=-1))
        ess = np.asarray(array_stats.ess(series, chain_axis=-2, draw_axis=-1))
    return Diagnosis(
        rhat=rhat,
        ess=ess,
        acceptance=info["acceptance"].mean(axis=1),
        divergences=info["divergent"].sum(axis=1),
        verdict=_verdict(rhat, ess, chains=values.shape[0]) + _divergence_note(info["divergent"]),
    )


def _verdict(rhat: NDArray[Any], ess: NDArray[Any], chains: int) -> str:
    if chains < 2:
        return "one chain alone can't show that it has converged: run at least two"
    bad = ~(rhat < RHAT_LIMIT)  # NaN counts as bad: such a chain has not moved
    if bad.any():
        finite = rhat[np.isfinite(rhat)]
        worst = f"R-hat up to {finite.max():.2f}" if finite.size else "they have not moved"
        return (
            f"chains do not agree yet at {int(bad.any(axis=-1).sum())} of {len(rhat)} rows "
            f"({worst}): run longer, with a longer burn-in"
        )
    worst, least = f"{rhat.max():.3f}", ess.min()
    if least >= ESS_LIMIT:
        return f"trustworthy: R-hat is at most {worst} and the ESS at least {least:.0f}"
    return (
        f"chains agree (R-hat at most {worst}), but the ESS is only {least:.0f} where it is least: "
        f"run about {ESS_LIMIT / least:.1f} times longer for {ESS_LIMIT:.0f}"
    )


def _divergence_note(divergent: NDArray[Any]) -> str:
    share = np.mean(divergent > 0)  # a draw may be several transitions
    if share <= DIVERGENCE_LIMIT:
        return ""
    return (
        f"; but {share:.1%} of the draws saw a divergent trajectory, near which the posterior "
        "may be missed: use smaller steps (a higher `target_acceptance`, or lower bounds)"
    )
