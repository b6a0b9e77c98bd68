"""The step size at which chains would have accepted as often as they should.

A step is held within a round of burn-in. What each chain accepted in each round then says how it
would have fared with another step, and the next is the one at which all of them together, in all
rounds, accept as often as they should: it rests on wide and narrow regions as chains met them.

One trajectory in five takes half the step: where the posterior of a network is narrower than
anywhere in burn-in, a chain that always takes the whole one may reject for thousands of
transitions.
"""

import jax
import jax.numpy as jnp
from jax import Array

# How far the acceptance of a chain may lie below the mean before it decides on the step size.
LAGGING = 0.05
# Part of the trajectories that take half the step.
HALVED = 0.2
_MAX_CHANGE = 0.5  # change of the logarithm of the step size


def step_fraction(uniform: Array) -> Array:
    """What part of the step size a trajectory takes; `uniform` decides.

    The steps stay as many, so that it costs no more.
    """
    return jnp.where(uniform < HALVED, 0.5, 1.0)


def fit_step_size(
    log_steps: Array, acceptance: Array, weights: Array, now: Array, target: Array
) -> Array:
    """Logarithm of the step size that fits, near `now`.

    In each round each chain took steps of `log_steps` and had an `acceptance`, both
    ``(chains, rounds)``; rounds count by their `weights`, with a sum of one. Energy errors are
    nearly normal with a mean of half their variance, and the variance goes with the fourth power of
    the step: the acceptance is ``2 Phi(-c step^2)``. There is a ``c`` for each chain and round,
    since some regions are narrower than others. The `target` is that of trajectories with whole
    steps; of those that take half of it more are accepted.
    """
    target_halved = 2 * jax.scipy.stats.norm.cdf(jax.scipy.stats.norm.ppf(target / 2) / 4)
    wanted = (1 - HALVED) * target + HALVED * target_halved
    errors = -jax.scipy.stats.norm.ppf(jnp.clip(acceptance, 0.01, 0.9999) / 2)
    counts = weights[None] > 0  # others hold anything
    errors = jnp.where(counts, errors, 1.0)
    log_steps = jnp.where(counts, log_steps, now)

    def is_small(log_step: Array) -> Array:
        grown = errors * jnp.exp(2 * (log_step - log_steps))
        accepted = 2 * jax.scipy.stats.norm.cdf(-grown) @ weights
        # A mean must not hide a chain that accepts far less.
        return jnp.minimum(jnp.mean(accepted), jnp.min(accepted) + LAGGING) > wanted

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        small = is_small(middle)
        return jnp.where(small, middle, low), jnp.where(small, high, middle)

    low, high = jax.lax.fori_loop(0, 20, halve, (now - _MAX_CHANGE, now + _MAX_CHANGE))
    return (low + high) / 2
