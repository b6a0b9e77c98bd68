"""A mean-field Gaussian: independent normals over the unconstrained vectors, and draws of them.

    q(v) = prod_i N(v_i; m_i, s_i),        v = theta, or theta and phi one after the other

A sampler whose transitions are independent draws samples it, so runs and ensembles work as for
posteriors. `variational.py` finds ``m`` and ``s``.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import check_choice, check_count, check_positive
from tensorbnn.engine.perturbed import Estimator
from tensorbnn.inference.cycles import Cycles
from tensorbnn.inference.sampler import Sampler, Transition, TransitionInfo, over_chains
from tensorbnn.inference.target import TargetDensity


class Normals(NamedTuple):
    """Independent normals; both arrays are ``(dimension,)``."""

    mean: Array
    log_sd: Array

    @property
    def sd(self) -> Array:
        return jnp.exp(self.log_sd)

    def at(self, standard: Array) -> Array:
        """The vector for these standard normal numbers."""
        return self.mean + self.sd * standard

    def log_density(self, vector: Array) -> Array:
        """``log q(v)``."""
        standard = (vector - self.mean) / self.sd
        return -0.5 * jnp.sum(jnp.square(standard) + math.log(2 * math.pi)) - jnp.sum(self.log_sd)

    def entropy(self) -> Array:
        """``-E log q(v)``."""
        return jnp.sum(self.log_sd) + 0.5 * self.mean.size * (1 + math.log(2 * math.pi))


@dataclass(frozen=True, kw_only=True)
class MeanField(Sampler):
    """The options of the fit of a mean-field Gaussian, and the sampler that draws from it.

    `tensorbnn.fit_variational` documents each number and makes the states.
    """

    estimator: Estimator = "flipout"
    num_starts: int = 1
    cycles: int = 3
    epochs: int = 1000
    patience: int = 100
    learning_rate: float = 0.01
    learning_rate_factor: float = 0.1
    batch_size: int | None = None
    gradient_draws: int = 1
    start_sd: float = 0.05

    exact = False

    def __post_init__(self) -> None:
        check_choice("estimator", self.estimator, get_args(Estimator))
        for name in ("num_starts", "gradient_draws"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        object.__setattr__(self, "start_sd", check_positive("start_sd", self.start_sd))
        for name in Cycles.__dataclass_fields__:
            object.__setattr__(self, name, getattr(self.plan, name))

    @property
    def plan(self) -> Cycles:
        """The schedule of the fit."""
        return Cycles(**{name: getattr(self, name) for name in Cycles.__dataclass_fields__})

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "MeanFieldState":
        """A state of the right shapes, not fitted yet."""
        del burn_in
        chains, dimension = positions.shape
        elbos, elbo = jnp.zeros((chains, self.num_starts)), jnp.zeros(chains)
        history = jnp.zeros((chains, self.cycles, self.epochs))
        record = Record(elbos, elbo=elbo, elbo_error=elbo, pareto_k=elbo, ess=elbo, history=history)
        zeros = jnp.zeros((chains, dimension))
        log_density = over_chains(target.log_density, positions)
        return MeanFieldState(positions, log_density, Normals(zeros, zeros), record)

    @staticmethod
    def step(
        keys: Array, state: "MeanFieldState", target: TargetDensity
    ) -> "Transition[MeanFieldState]":
        """An independent draw for every chain."""
        return over_chains(lambda key, each: _step(key, each, target), keys, state)


class Record(NamedTuple):
    """The record of a fit; every array has the chains as its first axis."""

    elbos: Any
    """ELBO of every start."""
    elbo: Any
    elbo_error: Any
    pareto_k: Any
    ess: Any
    history: Any
    """Estimates of the ELBO after each epoch of the best start."""


class MeanFieldState(NamedTuple):
    """The last draw, its density, and the record of the fit."""

    position: Array
    log_density: Array
    normals: Normals
    record: Record


def _step(key: Array, state: MeanFieldState, target: TargetDensity) -> Transition[MeanFieldState]:
    vector = state.normals.at(jax.random.normal(key, state.normals.mean.shape))
    size, held_phi = target.model.theta.size, target.held_phi
    position = target.position(vector[:size], vector[size:] if held_phi is None else held_phi)
    log_density = target.log_density(position)
    info = TransitionInfo(
        acceptance_rate=jnp.ones_like(log_density),
        diverging=jnp.zeros((), bool),
        energy=-log_density,
        lp=log_density,
        step_size=jnp.zeros_like(log_density),
        num_gradients=jnp.zeros((), jnp.int32),
    )
    return state._replace(position=position, log_density=log_density), info
