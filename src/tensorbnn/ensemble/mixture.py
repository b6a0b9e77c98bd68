"""New targets: the mixture of the likelihoods of all networks, noise included.

Given the outputs ``f_j`` of networks ``j`` with weights ``w_j``, a new target is distributed as
``sum_j w_j p(y | f_j)``. Its variance, density, distribution function and quantiles are computed
from the likelihood itself; nothing is drawn. Outputs are ``(networks, outputs, rows)``, targets
``(outputs, rows)``, log-weights ``(networks,)``.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.model.likelihoods import Likelihood

# Halvings of the interval in which a quantile is known to lie: to the last bit of the type.
HALVINGS = {"float32": 30, "float64": 60}
# Doublings of an interval until a quantile lies in it; it never does where rounding keeps the
# distribution function from reaching a probability next to 0 or 1.
DOUBLINGS = 100


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

    weights = jnp.exp(log_weights)
    # A network without weight counts for nothing, even where its variance is infinite.
    each = jnp.where(weights[:, None, None] > 0, jax.vmap(variance)(outputs, hypers), 0.0)
    return jnp.tensordot(weights, each, axes=(0, 0))


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

    # Kahan's sum: what rounding took from the total is given to the next network. Of 100,000
    # networks in float32 it would be 0.001, more than what lies beyond many a quantile.
    def add(
        sums: tuple[Array, Array], each: tuple[Array, dict[str, Array], Array]
    ) -> tuple[tuple[Array, Array], None]:
        (total, excess), (f, own, weight) = sums, each
        share = weight * likelihood.bind(own).cdf(f, targets) - excess
        new = total + share
        return (new, (new - total) - share), None

    networks = (outputs, hypers, jnp.exp(log_weights))
    nothing = jnp.zeros_like(targets)
    return jax.lax.scan(add, (nothing, nothing), networks)[0][0]


@functools.partial(jax.jit, static_argnums=0)
def quantile(
    likelihood: Likelihood,
    outputs: Array,
    hypers: dict[str, Array],
    log_weights: Array,
    probability: Array,
    mean: Array,
    sd: Array,
    narrow: Array,
) -> Array:
    """The target ``(columns, rows)`` below which a new one falls with `probability`.

    By bisection, from the interval that Cantelli's inequality gives for any distribution of this
    `mean` and `sd`, each ``(columns, rows)``. Where `sd` is infinite there is none: an interval is
    made from a `narrow` width by doubling.
    """

    def share(end: Array) -> Array:
        return cdf(likelihood, outputs, hypers, log_weights, end)

    width = _wide_enough(share, probability, mean, narrow, jnp.isinf(sd))
    below, above = (
        jnp.sqrt((1 - probability) / probability),
        jnp.sqrt(probability / (1 - probability)),
    )
    lower = mean - jnp.where(jnp.isinf(sd), width, sd * below * 1.001)
    upper = mean + jnp.where(jnp.isinf(sd), width, sd * above * 1.001)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        is_below = share(middle) < probability
        return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

    return jax.lax.fori_loop(0, HALVINGS[mean.dtype.name], halve, (lower, upper))[1]


def _wide_enough(
    share: Callable[[Array], Array], probability: Array, centre: Array, width: Array, wanted: Array
) -> Array:
    """`width`, doubled where `wanted` until the quantile lies within it of the `centre`."""

    def is_short(width: Array) -> Array:
        beyond = (share(centre - width) > probability) | (share(centre + width) < probability)
        return wanted & beyond

    def double(tried: tuple[Array, Array]) -> tuple[Array, Array]:
        return tried[0] + 1, jnp.where(is_short(tried[1]), 2 * tried[1], tried[1])

    def goes_on(tried: tuple[Array, Array]) -> Array:
        return (tried[0] < DOUBLINGS) & jnp.any(is_short(tried[1]))

    return jax.lax.while_loop(goes_on, double, (jnp.zeros((), int), width))[1]
