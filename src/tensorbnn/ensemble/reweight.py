"""Re-weighting: what the networks of a run would say under another prior or likelihood.

Networks ``theta_j`` with hyper-parameters ``phi_j``, drawn under model 1, stand for model 2 with

    w_j  ~  p2(D | theta_j, phi_j) p2(theta_j | phi_j) p2(phi_j)
          / p1(D | theta_j, phi_j) p1(theta_j | phi_j) p1(phi_j)

Where model 2 has a number in place of a hyper-parameter ``h`` of model 1, the same ``p1(h)`` stands
above and below the line and cancels: any normalised density of ``h`` may stand above, since
integrating over ``h`` gives back model 2. The mean of the ratios is the ratio of the evidences.

The largest ratios are smoothed by a generalised Pareto distribution fitted to them (PSIS), whose
shape, k-hat, says whether the weights can be trusted (Vehtari et al. 2024, JMLR 25:72).
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data, Outputs
from tensorbnn.ensemble.verdict import pareto_k_limit
from tensorbnn.model.hyper import Prior
from tensorbnn.model.layout import Layout
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.weighted import Weighted
from tensorbnn.posterior import Model, precision
from tensorbnn.progress import Bar
from tensorbnn.warning import warn

# With fewer networks there is no tail to fit.
LEAST_NETWORKS = 25
# Log-ratios that differ by less differ by rounding.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of the networks of an ensemble for another model; made by `Ensemble.reweight`.

    Attributes
    ----------
    weights
        ``(networks,)``, in the order of `Prediction.networks`; they sum to one.
    log_weights
        Their logarithms.
    log_ratios
        Logarithms of the ratios of the two models' densities, ``(networks,)``, as they are: neither
        smoothed nor normalised.
    effective_size
        ``1 / sum(weights ** 2)``: how many networks of equal weight are worth as much. That draws
        of a chain are correlated is not in it, but in ``diagnose(x, weights=...)``.
    pareto_k
        Shape of the distribution of the largest ratios: above `pareto_k_limit` the weights can't be
        trusted, from 0.5 their variance is infinite. ``-inf`` where all are the same,
        NaN for fewer than 25 networks, which can't show it.
    log_evidence_ratio
        Log of the evidence of the other model over that of the run's model.
    likelihood
        The likelihood of the other model, by which predictions with these weights are made.
    """

    weights: NDArray[Any]
    log_weights: NDArray[Any]
    log_ratios: NDArray[Any]
    effective_size: float
    pareto_k: float
    log_evidence_ratio: float
    likelihood: Likelihood

    @property
    def pareto_k_limit(self) -> float:
        """``min(1 - 1 / log10(networks), 0.7)``: heavier tails need more networks."""
        return pareto_k_limit(len(self))

    @property
    def trustworthy(self) -> bool:
        """Whether k-hat is at most `pareto_k_limit`."""
        return self.pareto_k <= self.pareto_k_limit

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return (
            f"Weights({len(self)} networks worth {self.effective_size:.1f}, "
            f"k-hat {self.pareto_k:.2f}, log evidence ratio {self.log_evidence_ratio:.3f})"
        )


@dataclass(frozen=True)
class Side:
    """One side of the ratio: a density of named natural values, fixed when compiled.

    `theta` and `phi` hold only what does not have the same prior on both sides of the line.
    """

    network: Network
    likelihood: Likelihood
    theta: Layout
    phi: Layout

    def log_density(
        self, named: Mapping[str, Array], outputs: Outputs | None, data: Data | None
    ) -> Array:
        """Log-density at natural values of parameters and hyper-parameters by name."""
        total = self.theta.log_density(self.theta.flatten(named), named)
        total += self.phi.log_density(self.phi.flatten(named), named)
        if outputs is not None and data is not None:
            own = {name: named[f"likelihood.{name}"] for name in self.likelihood.hypers()}
            total += forward.log_likelihood_of_outputs(self.likelihood, own, outputs, data)
        return total


def both_sides(run: Model, other: Model, *, held: bool) -> tuple[Side, Side]:
    """The two sides of the ratio, the run's first; or an error that says what does not fit.

    `held` says that the run held its hyper-parameters, so that they had no prior.
    """
    check_networks(run.network, other.network)
    _check_layouts(run, other)
    names = {entry.name for entry in other.phi.entries}
    kept = Layout(tuple(entry for entry in run.phi.entries if entry.name in names))
    phis = (Layout(()), Layout(())) if held else (kept, other.phi)
    return without_common(
        Side(run.network, run.likelihood, run.theta, phis[0]),
        Side(other.network, other.likelihood, other.theta, phis[1]),
    )


def without_common(run: Side, other: Side) -> tuple[Side, Side]:
    """Both sides without the priors that stand on both: these cancel, whatever their values."""
    sides = []
    for side, across in ((run, other), (other, run)):
        known = {entry.name: entry.prior for entry in (*across.theta.entries, *across.phi.entries)}
        theta, phi = (
            Layout(tuple(e for e in layout.entries if known.get(e.name) != e.prior))
            for layout in (side.theta, side.phi)
        )
        sides.append(dataclasses.replace(side, theta=theta, phi=phi))
    return sides[0], sides[1]


def log_ratios(
    sides: tuple[Side, Side],
    batches: Iterable[Mapping[str, NDArray[Any]]],
    data: Data | None,
    *,
    moved: Mapping[str, NDArray[Any]] | None = None,
    total: int,
    progress: bool,
) -> NDArray[Any]:
    """Log-ratio of the densities of each network, ``(networks,)``.

    Computed in float64, whatever the run was sampled in: of two large numbers the difference
    counts.

    Parameters
    ----------
    sides
        The run's and the other density.
    batches
        Parameters and hyper-parameters by name, the networks as first axis.
    data
        Training data in float64, where the likelihoods differ.
    moved
        Values ``(n,)`` by name that the other model takes one after another; the answer is then
        ``(n, networks)``.
    total
        Number of networks.
    progress
        Show a bar where it takes longer than a second.
    """
    found = []
    grid = {name: np.asarray(values, np.float64) for name, values in (moved or {}).items()}
    with precision("float64"), Bar("weighing", total, show=progress) as bar:
        for batch in batches:
            named = {name: np.asarray(each, np.float64) for name, each in batch.items()}
            above = np.asarray(_log_densities(sides[1], named, grid, data))
            below = np.asarray(_log_densities(sides[0], named, {}, data))
            found.append(above - below)
            bar.advance(len(above))
    ratios = np.concatenate(found).T
    return ratios if moved else ratios[0]


def weigh(ratios: NDArray[Any], likelihood: Likelihood) -> Weights:
    """Smoothed and normalised weights of log-ratios ``(chains, draws)``.

    Examples
    --------
    >>> from tensorbnn.model.likelihoods import Gaussian
    >>> weigh(np.random.default_rng(0).normal(0, 0.1, (4, 500)), Gaussian())
    Weights(2000 networks worth 1980..., k-hat ..., log evidence ratio 0.00...)
    """
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
    total = np.exp(smoothed - smoothed.max()).sum()
    weights = np.exp(smoothed - smoothed.max()) / total
    return Weights(
        weights=weights,
        log_weights=smoothed - smoothed.max() - np.log(total),
        log_ratios=flat,
        effective_size=min(float(1 / np.sum(np.square(weights))), float(len(flat))),
        pareto_k=pareto_k,
        log_evidence_ratio=float(smoothed.max() + np.log(total / len(flat))),
        likelihood=likelihood,
    )


def pareto_smooth(ratios: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Log-ratios ``(chains, draws)`` with their largest smoothed, ``(networks,)``, and k-hat.

    By ArviZ, with a tail of ``3 sqrt(n / r)`` of ``n`` networks for the relative efficiency ``r``
    of correlated draws. Ratios whose tail can't be fitted, since nearly all of the others are zero,
    stay as they are, with an infinite k-hat.
    """
    from arviz_stats.base import array_stats  # imported here: it takes a second

    flat = ratios.ravel()
    shifted = flat - flat.max()
    if flat.max() - flat.min() < NEGLIGIBLE:
        return np.full_like(flat, flat.mean()), -np.inf
    if len(flat) < LEAST_NETWORKS:
        return flat, np.nan
    with np.errstate(all="ignore"):  # what can't be fitted comes out as NaN
        try:
            found, pareto_k = array_stats.psislw(-shifted, r_eff=relative_efficiency(ratios))
        except ValueError:  # the largest are all the same
            return flat, -np.inf
    least = int(np.argmin(np.where(np.isfinite(shifted), shifted, np.inf)))
    # ArviZ has normalised them; the smallest ratio is never smoothed.
    smoothed = np.asarray(found) + flat[least] - found[least]
    if not np.isfinite(pareto_k) or not np.isfinite(smoothed.max()):
        return flat, np.inf
    return smoothed, float(pareto_k)


def relative_efficiency(ratios: NDArray[Any]) -> float:
    """Effective sample size of the mean of the ratios over their number, ``(chains, draws)``.

    Below one where draws of a chain are correlated; one where it can't be known.
    """
    from arviz_stats.base import array_stats

    values = np.exp(ratios - ratios.max())
    size = float(array_stats.ess(values, method="mean")) if values.shape[1] >= 4 else np.nan
    return size / values.size if np.isfinite(size) else 1.0


def warn_where_untrustworthy(weights: Weights) -> None:
    """Warn, and say what to do, where weights can't be trusted."""
    if weights.trustworthy:
        return
    reason = f"Pareto k-hat is {weights.pareto_k:.2f}, above {weights.pareto_k_limit:.2g}"
    if np.isnan(weights.pareto_k):
        reason = f"{len(weights)} networks are too few to tell, {LEAST_NETWORKS} are needed"
    warn(
        f"these weights can't be trusted: {reason}, and the {len(weights)} networks are worth only "
        f"{weights.effective_size:.0f}. The other model is too far from the one that was sampled: "
        "sample it, starting from here, by tb.sample(posterior, start=ensemble) with a posterior "
        "of the other model",
    )


def check_networks(run: Network, other: Network) -> None:
    """Raise where two networks differ in more than their priors."""
    if run.inputs != other.inputs:
        raise ValueError(
            f"the other network has {other.inputs} inputs, that of the run {run.inputs}: only "
            "priors may differ"
        )
    if run.names != other.names:
        raise ValueError(
            f"the other network has the layers {list(other.names)}, that of the run "
            f"{list(run.names)}: only priors may differ"
        )
    for name, one, two in zip(run.names, run.layers, other.layers, strict=True):
        ours, theirs = _fixed(one), _fixed(two)
        for field in sorted(set(ours) & set(theirs)):
            if ours[field] != theirs[field]:
                raise ValueError(
                    f"`{field}` of {name} is {theirs[field]!r} in the other network, "
                    f"{ours[field]!r} in that of the run: only priors may differ"
                )


def _check_layouts(run: Model, other: Model) -> None:
    for kind, one, two in (
        ("parameter", run.theta, other.theta),
        ("hyper-parameter", run.phi, other.phi),
    ):
        ours = {entry.name: entry for entry in one.entries}
        unknown = [entry.name for entry in two.entries if entry.name not in ours]
        if unknown:
            raise ValueError(
                f"the other model has {kind}s that were not sampled, {unknown}: put numbers in "
                "their place, or sample the other model, by tb.sample(posterior, start=ensemble)"
            )
        for entry in two.entries:
            own = ours[entry.name]
            if entry.shape != own.shape or entry.support != own.support:
                raise ValueError(
                    f"{entry.name} is {_kind(entry.shape, entry.support)} in the other model, "
                    f"{_kind(own.shape, own.support)} in that of the run: only densities may differ"
                )


def check_columns(run: Likelihood, other: Likelihood) -> None:
    """Raise where the two are not computed from the same columns of `y`."""
    known = [
        (isinstance(each, Weighted), each.knows_noise, each.outputs_per_column)
        for each in (run, other)
    ]
    if known[0] != known[1]:
        names = [type(each).__name__ for each in (other, run)]
        raise ValueError(
            f"a {names[0]} likelihood takes other columns of `y` than the {names[1]} of the run: "
            "re-weight to one that takes the same, or sample the other model, by "
            "tb.sample(posterior, start=ensemble)"
        )


def _kind(shape: tuple[int, ...], support: str) -> str:
    return f"{support} of shape {shape}"


def _fixed(layer: Any) -> dict[str, Any]:
    """Fields of a layer that are not priors."""
    fields = {field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)}
    return {name: value for name, value in fields.items() if not isinstance(value, Prior)}


@functools.partial(jax.jit, static_argnums=0)
def _log_densities(
    side: Side, named: dict[str, Array], moved: dict[str, Array], data: Data | None
) -> Array:
    """Log-density of each network at each of the moved values, ``(networks, n)``."""

    def one(own: dict[str, Array]) -> Array:
        outputs = None
        if data is not None:
            parameters = {name: own[name] for name in side.network.parameters}
            outputs = forward.outputs(side.network, parameters, data)

        def at(values: dict[str, Array]) -> Array:
            return side.log_density({**own, **values}, outputs, data)

        return jax.vmap(at)(moved) if moved else at({})[None]

    return jax.lax.map(one, named)
