"""What SGHMC learns in burn-in: the size of its steps, their friction, the noise of gradients.

Gradients of a few rows have noise of a variance ``V`` in each coordinate. All noise of a step, that
which is added included, has the variance ``1 - c^2``, ``c = exp(-friction eps)``. The part of the
gradients in it, ``eps^2 V``, is kept small, by small steps and by enough friction; apart from that,
steps are as large as their energy errors allow.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.inference import dual_averaging, spread
from tensorbnn.inference.dual_averaging import DualAveraging
from tensorbnn.inference.spread import Spread

# Share of the steps whose energy error, on their own rows, is to be within the limit.
SHARE = 0.9
# The noise of the gradients is at most this part of all noise, on average over coordinates.
NOISE_PART = 0.1
# For that, a step renews at most this part of the momentum's variance.
MOST_RENEWED = 0.5
# The noise of the gradients is averaged over about this part of the burn-in so far, and over this
# many transitions at most: it is larger on the way than where the chain ends.
NOISE_SHARE, NOISE_MEMORY = 0.25, 100.0


class Settings(NamedTuple):
    """The options as arrays, so that a change of a number recompiles nothing."""

    burn_in: Array
    adapt_steps: Array
    energy_error: Array
    friction_adapt_steps: Array
    friction: Array
    num_steps: Array


class SGHMCState(NamedTuple):
    """All that the next transition needs; every array has the chains as its first axis."""

    position: Array
    momentum: Array
    log_density: Array
    """Estimated from the last rows."""
    gradient: Array
    """Estimated from the last rows."""
    rows: Array
    """The last rows, ``(chains, batch_size)``; their number is compiled in."""
    noise: Array
    """Variance of the gradient's estimate in each coordinate."""
    iteration: Array
    adaptation: DualAveraging
    spread: Spread
    settings: Settings


def find_friction(state: SGHMCState, step_size: Array) -> Array:
    """Enough of it, where it was not given, for the noise of the gradients to be a small part."""
    steps, given = state.settings.friction_adapt_steps, state.settings.friction
    across = 1 / spread.width(state.spread, state.iteration, steps, 1 / given)
    renewed = jnp.minimum(step_size**2 * jnp.mean(state.noise) / NOISE_PART, MOST_RENEWED)
    quiet = -jnp.log1p(-renewed) / (2 * step_size)
    return jnp.where(steps > 0, jnp.maximum(across, quiet), given)


def find_step_size(state: SGHMCState) -> Array:
    """The step as given, or as adapted so far and small enough for the noise of the gradients."""
    settings, adaptation = state.settings, state.adaptation
    adapting = state.iteration < settings.adapt_steps
    step_size = jnp.exp(jnp.where(adapting, adaptation.log_step_size, adaptation.log_average))
    return jnp.where(settings.adapt_steps > 0, jnp.minimum(step_size, _quiet(state)), step_size)


def adapt_step_size(state: SGHMCState, within: Array) -> DualAveraging:
    """Take in the share of a transition's steps with an energy error within the limit."""
    updated = dual_averaging.update(state.adaptation, within, jnp.full_like(within, SHARE))
    # Steps that are small for the noise's sake say nothing against larger ones.
    held = (state.adaptation.log_step_size > jnp.log(_quiet(state))) & (within > SHARE)
    adapting = (state.iteration < state.settings.adapt_steps) & ~held
    return jax.tree.map(lambda new, old: jnp.where(adapting, new, old), updated, state.adaptation)


def adapt_noise(state: SGHMCState, noise: Array) -> Array:
    """Average over the burn-in so far, but for what is long past."""
    count = NOISE_SHARE * (state.iteration.astype(noise.dtype) + 1)
    updated = state.noise + (noise - state.noise) / jnp.clip(count, 1.0, NOISE_MEMORY)
    return jnp.where(state.iteration < state.settings.burn_in, updated, state.noise)


def _quiet(state: SGHMCState) -> Array:
    """The largest step for which the noise of the gradients is a small part of all noise.

    That of a gradient has the variance V eps^2, all noise 1 - c^2: 2 friction eps of a friction
    that was given, and `MOST_RENEWED` at most of one that is chosen.
    """
    settings, noise = state.settings, jnp.maximum(jnp.mean(state.noise), 1e-30)
    return jnp.where(
        settings.friction_adapt_steps > 0,
        jnp.sqrt(NOISE_PART * MOST_RENEWED / noise),
        NOISE_PART * 2 * settings.friction / noise,
    )
