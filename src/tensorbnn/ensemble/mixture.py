"""New targets: the mixture of the likelihoods of all networks, noise included.

Given the outputs ``f_j`` of networks ``j`` with weights ``w_j``, a new target is distributed as
``sum_j w_j p(y | f_j)``. Its variance, density, distribution function and quantiles are computed
from the likelihood itself; nothing is drawn. Outputs are ``(networks, outputs, rows)``, targets
``(outputs, rows)``, log-weights ``(networks,)``.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.model.likelihoods import Likelihood

# Halvings of the interval in which a quantile is known to lie: to the last bit of the type.
HALVINGS = {"float32": 30, "float64": 60}


@functools.partial(jax.jit, static_argnums=0)
def expected(likelihood: Likelihood, outputs: Array, hypers: dict[str, Array]) -> Array:
    """Expected target of each network, ``(networks, columns, rows)``."""
    return jax.vmap(lambda f, own: likelihood.bind(own).mean(f))(outputs, hypers)


@functools.partial(jax.jit, static_argnums=0)
def mean_variance(
    likelihood: Likelihood, outputs: Array, hypers: dict[str, Array], log_weights: Array
) -> Array:
    """Variance of the noise, averaged over networks, ``(columns, rows)``."""

    def variance(f: Array, own: dict[str, Array]) -> Array:
        bound = likelihood.bind(own)
        return jnp.broadcast_to(bound.variance(f), bound.mean(f).shape)

    return jnp.tensordot(jnp.exp(log_weights), jax.vmap(variance)(outputs, hypers), axes=(0, 0))


@functools.partial(jax.jit, static_argnums=0)
def log_density(
    likelihood: Likelihood,
    outputs: Array,
    hypers: dict[str, Array],
    log_weights: Array,
    targets: Array,
) -> Array:
    """Log-density of the targets of each row, ``(rows,)``."""
    each = jax.vmap(lambda f, own: likelihood.bind(own).log_density(f, targets))(outputs, hypers)
    return jax.nn.logsumexp(each + log_weights[:, None], axis=0)


@functools.partial(jax.jit, static_argnums=0)
def cdf(
    likelihood: Likelihood,
    outputs: Array,
    hypers: dict[str, Array],
    log_weights: Array,
    targets: Array,
) -> Array:
    """Probability that a new target is at most `targets`, ``(columns, rows)``."""

    def add(total: Array, each: tuple[Array, dict[str, Array], Array]) -> tuple[Array, None]:
        f, own, weight = each
        return total + weight * likelihood.bind(own).cdf(f, targets), None

    networks = (outputs, hypers, jnp.exp(log_weights))
    return jax.lax.scan(add, jnp.zeros_like(targets), networks)[0]


@functools.partial(jax.jit, static_argnums=0)
def quantile(
    likelihood: Likelihood,
    outputs: Array,
    hypers: dict[str, Array],
    log_weights: Array,
    probability: Array,
    mean: Array,
    sd: Array,
) -> Array:
    """The target ``(columns, rows)`` below which a new one falls with `probability`.

    By bisection, from the interval that Cantelli's inequality gives for any distribution of this
    `mean` and `sd`, each ``(columns, rows)``.
    """
    lower = mean - sd * jnp.sqrt((1 - probability) / probability) * 1.001
    upper = mean + sd * jnp.sqrt(probability / (1 - probability)) * 1.001

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = cdf(likelihood, outputs, hypers, log_weights, middle) < probability
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    return jax.lax.fori_loop(0, HALVINGS[mean.dtype.name], halve, (lower, upper))[1]
