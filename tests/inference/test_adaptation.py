"""Dual averaging: the recursion itself, and where it ends."""

import jax
import jax.numpy as jnp
import numpy as np

from tensorbnn.inference.adaptation import DualAveraging


def test_two_updates_by_hand():
    state = DualAveraging.begin(jnp.asarray(0.5))
    state = state.update(jnp.asarray(0.3), jnp.asarray(0.8))
    state = state.update(jnp.asarray(0.9), jnp.asarray(0.8))
    first_error = 0.5 / 11
    second_error = (1 - 1 / 12) * first_error - 0.1 / 12
    first = np.log(5.0) - first_error / 0.05
    second = np.log(5.0) - np.sqrt(2) * second_error / 0.05
    np.testing.assert_allclose(state.log_step_size, second, rtol=1e-5)
    forget = 2**-0.75
    np.testing.assert_allclose(state.log_average, forget * second + (1 - forget) * first, rtol=1e-5)


def test_finds_the_step_size_with_the_wanted_acceptance():
    """Acceptance exp(-(eps / 0.2)^2) with noise: 0.8 is reached at eps = 0.2 sqrt(-log 0.8)."""

    def step(state, key):
        acceptance = jnp.exp(-jnp.square(jnp.exp(state.log_step_size) / 0.2))
        noisy = jnp.clip(acceptance + 0.1 * jax.random.normal(key), 0.0, 1.0)
        return state.update(noisy, jnp.asarray(0.8)), None

    keys = jax.random.split(jax.random.key(0), 5000)
    for guess in (1e-4, 1.0):
        state, _ = jax.lax.scan(step, DualAveraging.begin(jnp.asarray(guess)), keys)
        expected = 0.2 * np.sqrt(-np.log(0.8))
        np.testing.assert_allclose(np.exp(state.log_average), expected, rtol=0.05)
