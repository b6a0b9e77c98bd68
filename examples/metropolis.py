"""Your own sampler in one file: a random walk, explained in docs/extending.md."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

import tensorbnn as tb


class MetropolisState(NamedTuple):
    """All that the next transition needs; at least `position` and `log_density`."""

    position: Array  # (chains, dimension)
    log_density: Array  # (chains,)
    step_size: Array  # (chains,)


@dataclass(frozen=True)
class Metropolis(tb.Sampler):
    """Random walk: propose ``q + step_size * N(0, 1)``, accept by the ratio of densities."""

    step_size: float = 0.1

    def init(self, target, positions, burn_in):
        log_density = jax.vmap(target.log_density)(positions)
        return MetropolisState(positions, log_density, jnp.full_like(log_density, self.step_size))

    @staticmethod
    def step(keys, state, target):
        return jax.vmap(lambda key, chain: step_one_chain(key, chain, target))(keys, state)


def step_one_chain(key, state, target):
    key_proposal, key_uniform = jax.random.split(key)
    noise = jax.random.normal(key_proposal, state.position.shape)
    proposal = state.position + state.step_size * noise
    log_density = target.log_density(proposal)
    energy_error = state.log_density - log_density
    acceptance = jnp.where(jnp.isnan(energy_error), 0.0, jnp.exp(jnp.minimum(-energy_error, 0.0)))
    accept = jax.random.uniform(key_uniform) < acceptance
    new = state._replace(
        position=jnp.where(accept, proposal, state.position),
        log_density=jnp.where(accept, log_density, state.log_density),
    )
    info = tb.TransitionInfo(
        acceptance_rate=acceptance,
        energy_error=energy_error,
        diverging=jnp.isnan(energy_error),
        energy=-state.log_density,
        lp=new.log_density,
        step_size=state.step_size,
        num_gradients=jnp.ones((), jnp.int32),
    )
    return new, info
