"""Targets under the networks: their log-likelihood, new targets, and the mixture of all networks.

Given the outputs ``f_j`` of networks ``j`` with weights ``w_j``, a new target is distributed as
``sum_j w_j p(y | f_j)``, noise included. The variance, density, distribution function and quantiles
of this mixture are computed from the likelihood without sampling; there, targets are
``(outputs, rows)``. Results for single networks are computed one network at a time, so that only
the result takes memory.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.data import Prepared
from tensorbnn.engine.forward import pad_rows
from tensorbnn.ensemble.draws import Batch
from tensorbnn.inference.sampler import root_key
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.rows import RowLikelihood
from tensorbnn.posterior import precision

# Number of times to halve the interval around a quantile: down to the last bit of the type.
HALVINGS = {"float32": 30, "float64": 60}
# Maximum number of times to double an interval until it contains a quantile. It never does if
# rounding keeps the distribution function from reaching a probability next to 0 or 1.
DOUBLINGS = 100

_Named = dict[str, Array]


class Mixture(NamedTuple):
    """The outputs and weights of the networks in a mixture, for some rows."""

    outputs: Any  # (networks, outputs, rows)
    hypers: dict[str, Any]  # the likelihood's own by argument name, each (networks,)
    log_weights: Any  # (networks,)


@functools.partial(jax.jit, static_argnums=0)
def expected(likelihood: Likelihood, outputs: Array, hypers: _Named) -> Array:
    """Expected target of each network, ``(networks, columns, rows)``."""
    return jax.vmap(lambda f, own: likelihood.bind(own).mean(f))(outputs, hypers)


@functools.partial(jax.jit, static_argnums=0)
def mixture_variance(likelihood: Likelihood, mixture: Mixture) -> Array:
    """Variance of the noise, averaged over networks, ``(columns, rows)``."""

    def variance(f: Array, own: _Named) -> Array:
        bound = likelihood.bind(own)
        return jnp.broadcast_to(bound.variance(f), bound.mean(f).shape)

    weights = jnp.exp(mixture.log_weights)
    # A network with weight 0 must not count, even if its variance is infinite.
    each = jax.vmap(variance)(mixture.outputs, mixture.hypers)
    return jnp.tensordot(weights, jnp.where(weights[:, None, None] > 0, each, 0.0), axes=(0, 0))


@functools.partial(jax.jit, static_argnums=0)
def mixture_log_density(likelihood: Likelihood, mixture: Mixture, targets: Array) -> Array:
    """Log-density of the targets of each row, ``(rows,)``."""
    outputs, hypers, log_weights = mixture
    each = jax.vmap(lambda f, own: likelihood.bind(own).log_density(f, targets))(outputs, hypers)
    return jax.nn.logsumexp(each + log_weights[:, None], axis=0)


@functools.partial(jax.jit, static_argnums=0)
def mixture_cdf(likelihood: Likelihood, mixture: Mixture, targets: Array) -> Array:
    """Probability that a new target is at most `targets`, ``(columns, rows)``."""

    # Kahan summation corrects for rounding. With 100,000 networks in float32, the error would be
    # 0.001, more than the tail probability of many quantiles.
    def add(
        sums: tuple[Array, Array], each: tuple[Array, _Named, Array]
    ) -> tuple[tuple[Array, Array], None]:
        (total, excess), (f, own, weight) = sums, each
        share = weight * likelihood.bind(own).cdf(f, targets) - excess
        new = total + share
        return (new, (new - total) - share), None

    networks = (mixture.outputs, mixture.hypers, jnp.exp(mixture.log_weights))
    nothing = jnp.zeros_like(targets)
    return jax.lax.scan(add, (nothing, nothing), networks)[0][0]


@functools.partial(jax.jit, static_argnums=0)
def mixture_quantile(
    likelihood: Likelihood,
    mixture: Mixture,
    probability: Array,
    mean: Array,
    sd: Array,
    narrow: Array,
) -> Array:
    """The target ``(columns, rows)`` below which a new one falls with `probability`.

    By bisection, starting from the interval that Cantelli's inequality gives for any distribution
    with this `mean` and `sd`, each ``(columns, rows)``. If `sd` is infinite, the interval is found
    by doubling a `narrow` width.
    """
    share = functools.partial(mixture_cdf, likelihood, mixture)
    width = _wide_enough(share, probability, mean, narrow, jnp.isinf(sd))
    below = jnp.sqrt((1 - probability) / probability)
    above = jnp.sqrt(probability / (1 - probability))
    lower = mean - jnp.where(jnp.isinf(sd), width, sd * below * 1.001)
    upper = mean + jnp.where(jnp.isinf(sd), width, sd * above * 1.001)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        is_below = share(middle) < probability
        return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

    return jax.lax.fori_loop(0, HALVINGS[mean.dtype.name], halve, (lower, upper))[1]


def log_likelihood(network: Network, batches: Iterable[Batch], rows: Prepared) -> NDArray[Any]:
    """Log-density of each row's targets under each network, ``(networks, rows)``."""
    likelihood = rows.likelihood
    with precision(rows.dtype):
        inputs, targets = pad_rows(jnp.asarray(rows.inputs.T)), jnp.asarray(rows.targets.T)
        found = []
        for batch in batches:
            own = batch.of_likelihood(likelihood)
            found.append(_log_likelihood(network, likelihood, own, inputs, targets))
        return np.concatenate(found)


def new_targets(
    network: Network,
    batches: Iterable[Batch],
    rows: Prepared,
    *,
    seed: int,
    first_row: int = 0,
    numbers: NDArray[np.intp] | None = None,
) -> NDArray[Any]:
    """A new target from each network for each row, noise included, ``(networks, rows, columns)``.

    The noise includes the error bars of rows that have them. `first_row` is the number of the first
    row, if `rows` are a part of all rows, so that each part gets different noise. The `numbers`
    ``(networks,)``, by default 0, 1, ..., give each network different noise.
    """
    with precision(rows.dtype):
        inputs, key = jnp.asarray(rows.inputs.T), jax.random.fold_in(root_key(seed), first_row)
        like = jnp.asarray(rows.targets.T) if rows.targets.shape[1] else None
        found: list[NDArray[Any]] = []
        first, likelihood = 0, rows.likelihood
        for batch in batches:
            last = first + len(next(iter(batch.parameters.values())))
            own = jnp.arange(first, last) if numbers is None else jnp.asarray(numbers[first:last])
            networks = own, batch.of_likelihood(likelihood)
            found.append(np.asarray(_new_targets(network, likelihood, key, networks, inputs, like)))
            first = last
        return np.concatenate(found).transpose(0, 2, 1)


def noise_numbers(places: NDArray[np.intp], networks: int) -> NDArray[np.intp]:
    """Numbers that give a network new noise each time it occurs.

    `places` are the indices of the networks among all `networks`.
    """
    order = np.argsort(places, kind="stable")
    ordered, times_before = places[order], np.empty_like(places)
    times_before[order] = np.arange(len(places)) - np.searchsorted(ordered, ordered)
    return places + networks * times_before


@functools.partial(jax.jit, static_argnums=(0, 1))
def _log_likelihood(
    network: Network, likelihood: Likelihood, batch: Batch, inputs: Array, targets: Array
) -> Array:
    def one(own: Batch) -> Array:
        outputs = network.apply(own.parameters, inputs)[:, : targets.shape[1]]
        return likelihood.bind(own.hypers).log_density(outputs, targets)

    return jax.lax.map(one, batch)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _new_targets(
    network: Network,
    likelihood: Likelihood,
    key: Array,
    networks: tuple[Array, Batch],
    inputs: Array,
    targets: Array | None,
) -> Array:
    def one(numbered: tuple[Array, Batch]) -> Array:
        number, batch = numbered
        outputs, own = network.apply(batch.parameters, inputs), jax.random.fold_in(key, number)
        bound = likelihood.bind(batch.hypers)
        if targets is None or not isinstance(bound, RowLikelihood):
            return bound.sample(own, outputs)
        return bound.sample_rows(own, outputs, targets)

    return jax.lax.map(one, networks)


def _wide_enough(
    share: Callable[[Array], Array], probability: Array, center: Array, width: Array, wanted: Array
) -> Array:
    """`width`, doubled where `wanted` until the quantile is within this distance of `center`."""

    def is_short(width: Array) -> Array:
        beyond = (share(center - width) > probability) | (share(center + width) < probability)
        return wanted & beyond

    def double(tried: tuple[Array, Array]) -> tuple[Array, Array]:
        return tried[0] + 1, jnp.where(is_short(tried[1]), 2 * tried[1], tried[1])

    def goes_on(tried: tuple[Array, Array]) -> Array:
        return (tried[0] < DOUBLINGS) & jnp.any(is_short(tried[1]))

    return jax.lax.while_loop(goes_on, double, (jnp.zeros((), int), width))[1]
