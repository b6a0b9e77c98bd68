"""Reweighting: the networks of a run under another prior or likelihood.

Weights are proportional to the `ratios` of two densities, whose mean is the ratio of the evidences.
The largest weights are smoothed by a generalized Pareto distribution fitted to them (PSIS). Its
shape, k-hat, shows whether the weights can be trusted (Vehtari et al. 2024, JMLR 25:72).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.density import Model
from tensorbnn.ensemble.ratios import check_columns
from tensorbnn.ensemble.verdict import PARETO_K_LIMIT, pareto_k_limit
from tensorbnn.findings import WeightsUntrusted
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior
from tensorbnn.warning import ReweightingWarning, warn

# With fewer networks there is no tail to fit.
LEAST_NETWORKS = 25
# Smaller differences of log-ratios are due to rounding.
NEGLIGIBLE = 1e-8
# If the effective share of the networks is larger than this, the other model is close.
MOST = 0.5


@final
@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of networks for another model, as `Ensemble.reweight` computes them.

    Attributes
    ----------
    weights
        ``(chains, draws)``; they sum to one.
    log_ratios
        Logarithms of the ratios of the two models' densities, ``(chains, draws)``, neither smoothed
        nor normalized.
    ess
        ``1 / sum(weights ** 2)``: the equivalent number of equally weighted networks.
    pareto_k
        Shape of the distribution of the largest ratios. ``-inf`` if all ratios are the same, NaN
        for fewer than 25 networks.
    log_evidence_ratio
        Log of the evidence of the other model over that of the run's model.
    """

    weights: NDArray[Any]
    log_ratios: NDArray[Any]
    ess: float
    pareto_k: float
    log_evidence_ratio: float

    @property
    def pareto_k_limit(self) -> float:
        """``min(1 - 1 / log10(networks), 0.7)``: heavier tails need more networks."""
        return pareto_k_limit(len(self))

    @property
    def trustworthy(self) -> bool:
        """Whether k-hat is at most `pareto_k_limit`."""
        return self.pareto_k <= self.pareto_k_limit

    @property
    def finding(self) -> WeightsUntrusted | None:
        """The finding for a verdict if the weights can't be trusted."""
        if self.trustworthy:
            return None
        return WeightsUntrusted(self.pareto_k, self.pareto_k_limit)

    def view(self, chains: slice | list[int], draws: slice) -> "Weights":
        """Weights of a subset of the chains and draws, smoothed again."""
        return weigh(self.log_ratios[chains, draws])

    def resample(self, seed: int) -> NDArray[np.intp]:
        """Resample the same number of networks in proportion to their weights; sorted indices.

        Systematic resampling takes a network with weight ``w`` among ``n`` networks ``n w`` times,
        rounded up or down.
        """
        count = len(self)
        shift = np.random.default_rng(seed).uniform(1e-9, 1 - 1e-9)
        ends = np.cumsum(self.weights.ravel())
        ends /= ends[-1]
        return np.searchsorted(ends, (np.arange(count) + shift) / count).clip(max=count - 1)

    def __len__(self) -> int:
        return self.weights.size

    def __str__(self) -> str:
        return f"worth {self.ess:.1f}, k-hat {self.pareto_k:.2f}"


def other_posterior(
    run: Model, scaling: Scaling, network: Network | None, likelihood: Likelihood | None
) -> Posterior:
    """The model to reweight a run to, without data; raises if it needs other targets."""
    if network is None and likelihood is None:
        raise ValueError("give another `network`, another `likelihood`, or both")
    if isinstance(likelihood, Likelihood):
        check_columns(run.likelihood, likelihood)
    return Posterior(
        run.network if network is None else network,
        run.likelihood if likelihood is None else likelihood,
        standardize=scaling,
        dtype="float64",
    )


def weigh(ratios: NDArray[Any]) -> Weights:
    """Smoothed and normalized weights of log-ratios ``(chains, draws)``."""
    flat = ratios.ravel()
    bad = int(np.sum(np.isnan(flat) | (flat == np.inf)))
    if bad:
        raise ValueError(
            f"the ratio of the two densities is not a finite number for {bad} of {len(flat)} "
            "networks: is a number of the other model out of its range?"
        )
    if flat.max() == -np.inf:
        raise ValueError(
            "no network of this run is possible under the other model: sample that one anew"
        )
    smoothed, pareto_k = pareto_smooth(ratios)
    largest = smoothed.max()
    relative = np.exp(smoothed - largest)
    total = relative.sum()
    weights = relative / total
    return Weights(
        weights=weights.reshape(ratios.shape),
        log_ratios=ratios,
        ess=min(float(1 / np.sum(np.square(weights))), float(len(flat))),
        pareto_k=pareto_k,
        log_evidence_ratio=float(largest + np.log(total / len(flat))),
    )


def pareto_smooth(ratios: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Log-ratios ``(chains, draws)`` with their largest smoothed, ``(networks,)``, and k-hat.

    ArviZ does it, with a tail of ``3 sqrt(n / r)`` of ``n`` networks for the relative efficiency
    ``r`` of correlated draws. If the tail can't be fitted because nearly all other ratios are zero,
    ratios stay unchanged, with an infinite k-hat.
    """
    from arviz_stats.base import array_stats  # imported here: it takes a second

    flat = ratios.ravel()
    shifted = flat - flat.max()
    if flat.max() - flat.min() < NEGLIGIBLE:
        return np.full_like(flat, flat.mean()), -np.inf
    if len(flat) < LEAST_NETWORKS:
        return flat, np.nan
    with np.errstate(all="ignore"):  # a tail that can't be fitted gives NaN
        try:
            found, pareto_k = array_stats.psislw(-shifted, r_eff=relative_efficiency(ratios))
        except ValueError:  # the largest ratios are all equal
            return flat, -np.inf
    least = int(np.argmin(np.where(np.isfinite(shifted), shifted, np.inf)))
    # ArviZ has normalized them; the smallest ratio is never smoothed.
    smoothed = np.asarray(found) + flat[least] - found[least]
    if not np.isfinite(pareto_k) or not np.isfinite(smoothed.max()):
        return flat, np.inf
    return smoothed, float(pareto_k)


def relative_efficiency(ratios: NDArray[Any]) -> float:
    """Effective sample size of the mean of ``(chains, draws)`` ratios, divided by their number.

    Below one if the draws of a chain are correlated; one if it can't be estimated.
    """
    from arviz_stats.base import array_stats

    values = np.exp(ratios - ratios.max())
    size = float(array_stats.ess(values, method="mean")) if values.shape[1] >= 4 else np.nan
    return size / values.size if np.isfinite(size) else 1.0


def warn_where_untrustworthy(weights: Weights) -> None:
    """Warn if the weights can't be trusted."""
    if weights.trustworthy:
        return
    worth, limit = weights.ess, weights.pareto_k_limit
    warn(
        ReweightingWarning(
            networks=len(weights),
            worth=worth,
            pareto_k=weights.pareto_k,
            limit=limit,
            needed=LEAST_NETWORKS,
            too_few=worth > MOST * len(weights) and limit < PARETO_K_LIMIT,
        )
    )
