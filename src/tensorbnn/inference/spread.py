"""The width of the posterior, as a chain's second half of burn-in shows it."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tensorbnn.inference.sampler import select


class Spread(NamedTuple):
    """Mean and summed squared deviations of a chain's positions so far (Welford)."""

    visits: Array
    mean: Array
    squares: Array


def init(positions: Array) -> Spread:
    """Before the first of the positions; for chains ``(chains, dimension)``."""
    zero = jnp.zeros_like(positions)
    return Spread(zero[:, 0], zero, zero)


def update(spread: Spread, position: Array, iteration: Array, burn_in: Array) -> Spread:
    """Take in the position after transition `iteration`, if that is in the second half."""
    visits = spread.visits + 1
    off = position - spread.mean
    mean = spread.mean + off / visits
    updated = Spread(visits, mean, spread.squares + off * (position - mean))
    wanted = (2 * iteration >= burn_in) & (iteration < burn_in)
    return select(wanted, updated, spread)


def width(spread: Spread, iteration: Array, burn_in: Array, otherwise: Array) -> Array:
    """Root mean square of the standard deviations; `otherwise` in the first 3/4 of burn-in."""
    found = jnp.sqrt(jnp.mean(spread.squares) / jnp.maximum(spread.visits - 1, 1.0))
    known = (4 * iteration >= 3 * burn_in) & (spread.visits > 1) & (found > 0)
    return jnp.where(known, found, otherwise)
