"""A sampler that compiles fast: the checks of scikit-learn fit hundreds of small data sets."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

import tensorbnn as tb
from tensorbnn.inference.sampler import TransitionInfo, over_chains


class QuickState(NamedTuple):
    position: Array
    log_density: Array
    step_size: Array


@dataclass(frozen=True)
class QuickHMC(tb.Sampler):
    """HMC with 10 leapfrog steps, whose size follows the acceptance for ever: good enough here."""

    def init(self, target, positions, burn_in):
        log_density = over_chains(target.log_density, positions)
        return QuickState(positions, log_density, jnp.full_like(log_density, 0.05))

    @property
    def step(self):
        return step


def step(keys, state, target):
    return over_chains(lambda key, each: _step(key, each, target), keys, state)


def _step(key, state, target):
    key_momentum, key_uniform = jax.random.split(key)
    eps = state.step_size
    momentum = jax.random.normal(key_momentum, state.position.shape)
    gradient = jax.grad(target.log_density)

    def leap(_, at):
        q, p = at
        q = q + 0.5 * eps * p
        p = p + eps * gradient(q)
        return q + 0.5 * eps * p, p

    q, p = jax.lax.fori_loop(0, 10, leap, (state.position, momentum))
    log_density = target.log_density(q)
    energy = 0.5 * momentum @ momentum - state.log_density
    error = 0.5 * p @ p - log_density - energy
    acceptance = jnp.where(jnp.isnan(error), 0.0, jnp.exp(jnp.minimum(-error, 0.0)))
    accept = jax.random.uniform(key_uniform) < acceptance
    new = QuickState(
        jnp.where(accept, q, state.position),
        jnp.where(accept, log_density, state.log_density),
        eps * jnp.where(accept, 1.1, 0.7),
    )
    info = TransitionInfo(
        acceptance_rate=acceptance,
        energy_error=error,
        diverging=jnp.isnan(error),
        energy=energy,
        lp=new.log_density,
        step_size=eps,
        num_gradients=jnp.asarray(10, jnp.int32),
    )
    return new, info
