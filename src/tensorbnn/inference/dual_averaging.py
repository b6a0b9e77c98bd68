"""Step-size adaptation by dual averaging (Nesterov 2009; Hoffman & Gelman 2014, section 3.2).

With ``error_t = target - acceptance_t`` the iterates are

    log eps_{t+1}     = mu - sqrt(t) / gamma * mean_error_t
    mean_error_t      = (1 - 1/(t + t0)) mean_error_{t-1} + error_t / (t + t0)
    log eps_average_t = t^-kappa log eps_{t+1} + (1 - t^-kappa) log eps_average_{t-1}

The first explores while adapting, the average is used afterwards.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tensorbnn.inference.sampler import select

GAMMA = 0.05
T0 = 10.0
KAPPA = 0.75


class DualAveraging(NamedTuple):
    """State of the adaptation of one step size."""

    log_step_size: Array
    log_average: Array
    mean_error: Array
    updates: Array
    log_anchor: Array


def init(step_size: Array, lift: float = 10.0) -> DualAveraging:
    """Start from a guess; the iterates are drawn towards `lift` times that guess."""
    log_step_size = jnp.log(step_size)
    zero = jnp.zeros_like(log_step_size)
    return DualAveraging(
        log_step_size=log_step_size,
        log_average=log_step_size,
        mean_error=zero,
        updates=zero,
        log_anchor=log_step_size + jnp.log(jnp.full_like(zero, lift)),
    )


def update(state: DualAveraging, acceptance: Array, target: Array) -> DualAveraging:
    """Take in the acceptance probability of one transition made with ``exp(log_step_size)``."""
    updates = state.updates + 1
    weight = 1 / (updates + T0)
    mean_error = (1 - weight) * state.mean_error + weight * (target - acceptance)
    log_step_size = state.log_anchor - jnp.sqrt(updates) / GAMMA * mean_error
    forget = updates**-KAPPA
    log_average = forget * log_step_size + (1 - forget) * state.log_average
    return state._replace(
        log_step_size=log_step_size, log_average=log_average, mean_error=mean_error, updates=updates
    )


def adapt(state: DualAveraging, acceptance: Array, target: Array, adapting: Array) -> DualAveraging:
    """`update` while `adapting`; unchanged afterwards."""
    return select(adapting, update(state, acceptance, target), state)


def step_size(state: DualAveraging, adapting: Array) -> Array:
    """The step size that explores while `adapting`; their average afterwards."""
    return jnp.exp(jnp.where(adapting, state.log_step_size, state.log_average))


def pool(state: DualAveraging, mean_error: Array, log_average: Array) -> DualAveraging:
    """Go on from the means over several adaptations that have made as many updates as this one."""
    log_step_size = state.log_anchor - jnp.sqrt(state.updates) / GAMMA * mean_error
    return state._replace(
        log_step_size=log_step_size, log_average=log_average, mean_error=mean_error
    )
