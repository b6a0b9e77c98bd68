"""Adaptation during burn-in: the step size by dual averaging, and the width of the posterior."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.inference.sampler import select

GAMMA = 0.05
T0 = 10.0
KAPPA = 0.75


class DualAveraging(NamedTuple):
    """State of the adaptation of one step size (Nesterov 2009; Hoffman & Gelman 2014, section 3.2).

    With ``error_t = target - acceptance_t`` the iterates are

        log eps_{t+1}     = mu - sqrt(t) / gamma * mean_error_t
        mean_error_t      = (1 - 1/(t + t0)) mean_error_{t-1} + error_t / (t + t0)
        log eps_average_t = t^-kappa log eps_{t+1} + (1 - t^-kappa) log eps_average_{t-1}

    The first is used while adapting, the average afterwards.
    """

    log_step_size: Array
    log_average: Array
    mean_error: Array
    updates: Array
    log_anchor: Array

    @classmethod
    def begin(cls, step_size: Array, lift: float = 10.0) -> "DualAveraging":
        """Start from a guess; the iterates are drawn toward `lift` times that guess."""
        log_step_size = jnp.log(step_size)
        zero = jnp.zeros_like(log_step_size)
        anchor = log_step_size + jnp.log(jnp.full_like(zero, lift))
        return cls(log_step_size, log_step_size, mean_error=zero, updates=zero, log_anchor=anchor)

    @classmethod
    def of_chains(cls, step_size: float, chains: int) -> "DualAveraging":
        """Start each chain from the same guess."""
        return _begin(jnp.full(chains, step_size, dtype=float))

    def update(self, acceptance: Array, target: Array) -> "DualAveraging":
        """Update with the acceptance probability of a transition with ``exp(log_step_size)``."""
        updates = self.updates + 1
        weight = 1 / (updates + T0)
        mean_error = (1 - weight) * self.mean_error + weight * (target - acceptance)
        log_step_size = self.log_anchor - jnp.sqrt(updates) / GAMMA * mean_error
        forget = updates**-KAPPA
        log_average = forget * log_step_size + (1 - forget) * self.log_average
        return DualAveraging(log_step_size, log_average, mean_error, updates, self.log_anchor)

    def adapt(self, acceptance: Array, target: Array, adapting: Array) -> "DualAveraging":
        """`update` while `adapting`; unchanged afterwards."""
        return select(adapting, self.update(acceptance, target), self)

    def step_size(self, adapting: Array) -> Array:
        """The exploring step size while `adapting`; the average afterwards."""
        return jnp.exp(jnp.where(adapting, self.log_step_size, self.log_average))

    def pool(self, mean_error: Array, log_average: Array) -> "DualAveraging":
        """Continue from means over several adaptations with the same number of updates."""
        log_step_size = self.log_anchor - jnp.sqrt(self.updates) / GAMMA * mean_error
        return DualAveraging(log_step_size, log_average, mean_error, self.updates, self.log_anchor)


_begin = jax.jit(DualAveraging.begin)


class Spread(NamedTuple):
    """Mean and summed squared deviations of a chain's positions in the second half of burn-in."""

    visits: Array
    mean: Array
    squares: Array

    @classmethod
    def begin(cls, positions: Array) -> "Spread":
        """State before the first position; `positions` of chains are ``(chains, dimension)``."""
        zero = jnp.zeros_like(positions)
        return cls(zero[:, 0], zero, zero)

    def update(self, position: Array, iteration: Array, burn_in: Array) -> "Spread":
        """Update with the position after transition `iteration` in the second half (Welford)."""
        visits = self.visits + 1
        off = position - self.mean
        mean = self.mean + off / visits
        updated = Spread(visits, mean, self.squares + off * (position - mean))
        wanted = (2 * iteration >= burn_in) & (iteration < burn_in)
        return select(wanted, updated, self)

    def width(self, iteration: Array, burn_in: Array, otherwise: Array) -> Array:
        """Root mean square of the standard deviations; `otherwise` in the first 3/4 of burn-in."""
        found = jnp.sqrt(jnp.mean(self.squares) / jnp.maximum(self.visits - 1, 1.0))
        known = (4 * iteration >= 3 * burn_in) & (self.visits > 1) & (found > 0)
        return jnp.where(known, found, otherwise)
