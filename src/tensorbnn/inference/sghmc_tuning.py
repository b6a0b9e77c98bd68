"""Tuning of SGHMC in burn-in: the step size, the friction, and the noise of gradients.

Gradients from a few rows have noise with variance ``V`` in each coordinate. The total noise of a
step, with the added noise, has the variance ``1 - c^2``, ``c = exp(-friction eps)``. Small steps
and enough friction keep the gradients' part, ``eps^2 V``, small; within that limit, steps are as
large as their energy errors allow.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tensorbnn.inference.adaptation import DualAveraging, Spread
from tensorbnn.inference.sampler import select

# The share of steps whose energy error, on their own rows, should be within the limit.
TARGET_SHARE = 0.9
# The noise of the gradients is at most this share of all noise, on average over coordinates.
MAX_NOISE_SHARE = 0.1
# To that end, a step renews at most this share of the momentum's variance.
MAX_RENEWED = 0.5
# The noise of the gradients is averaged over about this fraction of the burn-in so far, and over at
# most this many transitions, because it is larger before the chain reaches the posterior.
NOISE_WINDOW, MAX_NOISE_WINDOW = 0.25, 100.0


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    burn_in: Array
    adapt_steps: Array
    target_energy_error: Array
    friction_adapt_steps: Array
    friction: Array
    num_steps: Array


class SGHMCState(NamedTuple):
    """State between transitions; every array has the chains as its first axis."""

    position: Array
    momentum: Array
    log_density: Array
    """Estimated from the last rows."""
    gradient: Array
    """Estimated from the last rows."""
    rows: Array
    """The last rows, ``(chains, batch_size)``; the batch size is compiled in."""
    noise: Array
    """Variance of the gradient's estimate in each coordinate."""
    iteration: Array
    adaptation: DualAveraging
    spread: Spread
    settings: Settings


def friction(state: SGHMCState, step_size: Array) -> Array:
    """The given friction, or one that keeps the noise of the gradients a small share."""
    steps, given = state.settings.friction_adapt_steps, state.settings.friction
    across = 1 / state.spread.width(state.iteration, steps, 1 / given)
    renewed = jnp.minimum(step_size**2 * jnp.mean(state.noise) / MAX_NOISE_SHARE, MAX_RENEWED)
    for_noise = -jnp.log1p(-renewed) / (2 * step_size)
    return jnp.where(steps > 0, jnp.maximum(across, for_noise), given)


def step_size(state: SGHMCState) -> Array:
    """The given step size, or the adapted one, limited by the noise of the gradients."""
    adapt_steps = state.settings.adapt_steps
    found = state.adaptation.step_size(state.iteration < adapt_steps)
    return jnp.where(adapt_steps > 0, jnp.minimum(found, _max_step_for_noise(state)), found)


def adapt_step_size(state: SGHMCState, within: Array) -> DualAveraging:
    """Update with the share of a transition's steps with an energy error within the limit."""
    updated = state.adaptation.update(within, jnp.full_like(within, TARGET_SHARE))
    # Steps that are small only because of the noise are no evidence against larger ones.
    limited = state.adaptation.log_step_size > jnp.log(_max_step_for_noise(state))
    adapting = (state.iteration < state.settings.adapt_steps) & ~(limited & (within > TARGET_SHARE))
    return select(adapting, updated, state.adaptation)


def adapt_noise(state: SGHMCState, noise: Array) -> Array:
    """Average the noise over the more recent part of burn-in."""
    count = NOISE_WINDOW * (state.iteration.astype(noise.dtype) + 1)
    updated = state.noise + (noise - state.noise) / jnp.clip(count, 1.0, MAX_NOISE_WINDOW)
    return jnp.where(state.iteration < state.settings.burn_in, updated, state.noise)


def _max_step_for_noise(state: SGHMCState) -> Array:
    """The largest step for which the noise of the gradients is a small share of all noise.

    A gradient contributes the variance V eps^2 to 1 - c^2, which is 2 friction eps if the friction
    is given, and at most `MAX_RENEWED` otherwise.
    """
    settings, noise = state.settings, jnp.maximum(jnp.mean(state.noise), 1e-30)
    return jnp.where(
        settings.friction_adapt_steps > 0,
        jnp.sqrt(MAX_NOISE_SHARE * MAX_RENEWED / noise),
        MAX_NOISE_SHARE * 2 * settings.friction / noise,
    )
