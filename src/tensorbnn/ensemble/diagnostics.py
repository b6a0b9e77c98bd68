"""Can the sample be trusted? R-hat, effective sample sizes and Monte Carlo errors of predictions.

Weights of a network are not identified (units can be swapped, signs flipped), so chains are
compared by what their networks say at given inputs, in function space. What to make of the numbers
is in `verdict.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.verdict import Evidence, judge

LEAST_DRAWS = 4
TAIL = (0.05, 0.95)


class Convergence(NamedTuple):
    """How well chains agree about some numbers, all arrays of one shape.

    Attributes
    ----------
    rhat
        Rank-normalised split R-hat; near 1 where chains agree. NaN for one chain, and for a value
        that never changes.
    ess
        Bulk effective sample size over all chains.
    ess_tail
        The lesser effective sample size of the 5 % and the 95 % quantile.
    """

    rhat: NDArray[Any]
    ess: NDArray[Any]
    ess_tail: NDArray[Any]


@dataclass(frozen=True)
class Diagnosis:
    """What the chains' predictions and the sampler's records say about the sample.

    Attributes
    ----------
    rhat
        Rank-normalised split R-hat of the prediction, ``(rows, outputs)``; near 1 where chains
        agree (Vehtari et al. 2021). NaN for one chain, and for a value that never changes.
    ess
        Bulk effective sample size over all chains, ``(rows, outputs)``: how many independent
        networks would give the mean as precisely.
    ess_tail
        Tail effective sample size, ``(rows, outputs)``: the lesser one of the 5 % and the 95 %
        quantile, for intervals.
    mcse_mean, mcse_sd
        Monte Carlo standard error of the mean and of the standard deviation over networks,
        ``(rows, outputs)``.
    acceptance
        Mean acceptance probability of each chain, ``(chains,)``.
    divergences
        Number of divergent transitions of each chain after burn-in, ``(chains,)``.
    ebfmi
        Energy Bayesian fraction of missing information of each chain, ``(chains,)``: below 0.3 the
        sampler moves too slowly between levels of the density (Betancourt 2016). Computed from the
        draws that were kept; a run that keeps only each n-th transition shows larger values.
    hyperparameters
        R-hat and effective sample sizes of each hyper-parameter, by name. Predictions decide:
        hyper-parameters that mix slowly are only noted in the verdict.
    verdict
        What to make of it, in words.
    """

    rhat: NDArray[Any]
    ess: NDArray[Any]
    ess_tail: NDArray[Any]
    mcse_mean: NDArray[Any]
    mcse_sd: NDArray[Any]
    acceptance: NDArray[Any]
    divergences: NDArray[Any]
    ebfmi: NDArray[Any]
    hyperparameters: dict[str, Convergence]
    verdict: str


def diagnose(
    values: NDArray[Any],
    info: Mapping[str, NDArray[Any]],
    *,
    x: NDArray[Any] | None = None,
    hyperparameters: Mapping[str, NDArray[Any]] | None = None,
) -> Diagnosis:
    """Diagnose predictions ``(chains, draws, rows, outputs)`` and the sampler's records.

    Parameters
    ----------
    values
        Predictions.
    info
        The sampler's records, each ``(chains, draws)``: at least ``acceptance``, ``divergent`` and
        ``energy``.
    x
        Inputs ``(rows, inputs)`` of the predictions, for the verdict to name them; rows are named
        by number otherwise.
    hyperparameters
        Hyper-parameters by name, each ``(chains, draws)``.
    """
    from arviz_stats.base import array_stats  # imported here: it takes a second

    if values.shape[1] < LEAST_DRAWS:
        raise ValueError(
            f"diagnosis needs at least {LEAST_DRAWS} draws a chain, got {values.shape[1]}"
        )
    found = convergence(values)
    series = _series(values)
    with np.errstate(invalid="ignore", divide="ignore"):  # a value that never changes gives NaN
        errors = [np.asarray(array_stats.mcse(series, method=each)) for each in ("mean", "sd")]
        ebfmi = _ebfmi(np.asarray(info["energy"], np.float64))
    hypers = {name: convergence(each) for name, each in (hyperparameters or {}).items()}
    evidence = Evidence(
        values=values,
        rhat=found.rhat,
        ess=np.minimum(found.ess, found.ess_tail),
        acceptance=info["acceptance"].mean(axis=1),
        divergent=info["divergent"],
        ebfmi=ebfmi,
        hyper_rhat={name: float(each.rhat) for name, each in hypers.items()},
        x=x,
    )
    return Diagnosis(
        **found._asdict(),
        mcse_mean=errors[0],
        mcse_sd=errors[1],
        acceptance=evidence.acceptance,
        divergences=info["divergent"].sum(axis=1),
        ebfmi=ebfmi,
        hyperparameters=hypers,
        verdict=judge(evidence, lambda part: convergence(part).rhat),
    )


def convergence(values: NDArray[Any]) -> Convergence:
    """R-hat and effective sample sizes of ``(chains, draws, ...)``, each of the shape ``...``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> convergence(rng.normal(size=(4, 1000, 3))).rhat.round(1).tolist()
    [1.0, 1.0, 1.0]
    """
    from arviz_stats.base import array_stats

    series = _series(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Convergence(
            rhat=np.asarray(array_stats.rhat(series)),
            ess=np.asarray(array_stats.ess(series)),
            ess_tail=np.asarray(array_stats.ess(series, method="tail", prob=TAIL)),
        )


def _ebfmi(energy: NDArray[Any]) -> NDArray[Any]:
    """Mean squared step of the energy over its variance, for each chain of ``(chains, draws)``."""
    return np.square(np.diff(energy, axis=1)).mean(axis=1) / energy.var(axis=1, ddof=1)


def _series(values: NDArray[Any]) -> NDArray[Any]:
    """Chains and draws last, as ArviZ wants them."""
    return np.moveaxis(np.asarray(values, np.float64), (0, 1), (-2, -1))
