"""Hamiltonian Monte Carlo: leapfrog trajectories and a Metropolis step.

With position ``q``, momentum ``p`` and energy ``H = -log p(q) + p.p / 2`` one transition draws
``p ~ N(0, 1)``, follows the leapfrog integrator

    p <- p + eps/2 grad log p(q);   q <- q + eps p;   p <- p + eps/2 grad log p(q)

for ``L`` steps and accepts the end with probability ``min(1, exp(H_start - H_end))``. Positions are
in the standard coordinates of `Target`, in which the mass is the identity. See Neal (2011), "MCMC
using Hamiltonian dynamics".
"""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.inference import dual_averaging
from tensorbnn.inference.dual_averaging import DualAveraging
from tensorbnn.inference.sampler import Info, over_chains
from tensorbnn.inference.target import Density, Target

# An energy error beyond this means that the integrator has left the trajectory.
DIVERGENCE = 1000.0
# While the step size is sought, trajectories are short: first at most 16 steps, then 256. Adapted
# on long trajectories it ends two to three times too small.
FIRST_CAP, SECOND_CAP = 16, 256
# Where that search begins; a step that is far too large is cut down within a few rejections.
FIRST_STEP_SIZE = 0.1

ValueAndGradient = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo over parameters and hyper-parameters jointly.

    Parameters
    ----------
    step_size
        Leapfrog step in units of the prior's standard deviations. Left out, it is found by dual
        averaging during burn-in, for each chain, and held from then on, so that what is saved is a
        Markov chain.
    num_leapfrog
        Leapfrog steps per trajectory. Left out, as many as `trajectory_length` takes.
    trajectory_length
        Step size times number of steps, where `num_leapfrog` is left out. The default is a quarter
        of a turn around a prior of unit width, as the paper advises.
    target_acceptance
        Acceptance probability that the adaptation of the step size aims at.
    step_size_jitter, num_leapfrog_jitter
        Each trajectory's step size and number of steps are multiplied by a number drawn evenly
        from ``[1 - jitter, 1 + jitter]``, so that no direction resonates with the trajectory.
        Left out, the second is 0.5 where `num_leapfrog` is left out and 0 where it is given.
    max_leapfrog
        Most steps of a trajectory, where `num_leapfrog` is left out.

    Examples
    --------
    >>> HMC(step_size=0.01, num_leapfrog=50).num_leapfrog
    50
    """

    step_size: float | None = None
    num_leapfrog: int | None = None
    trajectory_length: float = math.pi / 2
    target_acceptance: float = 0.9
    step_size_jitter: float = 0.0
    num_leapfrog_jitter: float | None = None
    max_leapfrog: int = 1024

    def __post_init__(self) -> None:
        _check_options(self)

    def init(self, target: Target, positions: Array, burn_in: int) -> "HMCState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        chains = positions.shape[0]
        jitter = self.num_leapfrog_jitter
        if jitter is None:
            jitter = 0.5 if self.num_leapfrog is None else 0.0
        settings = Settings(
            adapt_steps=jnp.asarray(burn_in if self.step_size is None else 0, jnp.int32),
            num_leapfrog=jnp.asarray(self.num_leapfrog or 0, jnp.int32),
            trajectory_length=jnp.asarray(self.trajectory_length, dtype=float),
            target_acceptance=jnp.asarray(self.target_acceptance, dtype=float),
            step_size_jitter=jnp.asarray(self.step_size_jitter, dtype=float),
            num_leapfrog_jitter=jnp.asarray(jitter, dtype=float),
            max_leapfrog=jnp.asarray(self.max_leapfrog, jnp.int32),
        )
        settings = jax.tree.map(lambda value: jnp.broadcast_to(value, (chains,)), settings)
        first = FIRST_STEP_SIZE if self.step_size is None else self.step_size
        return _init(target, positions, settings, jnp.full(chains, first, dtype=float))

    @property
    def step(self) -> Callable[[Array, "HMCState", Target], tuple["HMCState", Info]]:
        """The transition of all chains, `step`."""
        return step


class Settings(NamedTuple):
    """The options as arrays, so that a change of a number recompiles nothing."""

    adapt_steps: Array
    num_leapfrog: Array
    trajectory_length: Array
    target_acceptance: Array
    step_size_jitter: Array
    num_leapfrog_jitter: Array
    max_leapfrog: Array


class HMCState(NamedTuple):
    """All that the next transition needs; every array has the chains as its first axis."""

    position: Array
    log_density: Array
    gradient: Array
    iteration: Array
    adaptation: DualAveraging
    settings: Settings


class Phase(NamedTuple):
    """A point of a trajectory: position, momentum, and log-density with its gradient there."""

    position: Array
    momentum: Array
    log_density: Array
    gradient: Array


class Moved(NamedTuple):
    """What a Metropolis step did."""

    accepted: Array
    acceptance: Array
    energy: Array
    energy_error: Array
    divergent: Array


def step(keys: Array, state: HMCState, target: Target) -> tuple[HMCState, Info]:
    """One transition of every chain; `keys` is ``(chains,)``."""
    together = target.moves_together(keys.shape[0])
    return over_chains(lambda key, each: _step(key, each, target), keys, state, together=together)


def leapfrog(
    value_and_gradient: ValueAndGradient, start: Phase, step_size: Array, num_steps: Array
) -> Phase:
    """Follow the leapfrog integrator; `num_steps` steps cost `num_steps` gradients.

    `step_size` is one number, or one for each coordinate, which is a diagonal mass. A `Density`
    whose engine has an integrator of its own is left to that. Neighbouring half kicks are merged
    into whole ones; the first and the last are made half here.
    """
    if isinstance(value_and_gradient, Density) and value_and_gradient.follow is not None:
        return Phase(*value_and_gradient.follow(*start, step_size, num_steps))

    def advance(_: Array, phase: Phase) -> Phase:
        position = phase.position + step_size * phase.momentum
        log_density, gradient = value_and_gradient(position)
        return Phase(position, phase.momentum + step_size * gradient, log_density, gradient)

    half = 0.5 * step_size
    begun = start._replace(momentum=start.momentum + half * start.gradient)
    end = jax.lax.fori_loop(0, num_steps, advance, begun)
    return end._replace(momentum=end.momentum - half * end.gradient)


def transition(
    value_and_gradient: ValueAndGradient,
    start: Phase,
    step_size: Array,
    num_steps: Array,
    uniform: Array,
) -> tuple[Phase, Moved]:
    """A leapfrog trajectory and its Metropolis step; `uniform` decides on acceptance."""
    end = leapfrog(value_and_gradient, start, step_size, num_steps)
    energy = _energy(start)
    energy_error = _energy(end) - energy
    # A trajectory that ends in NaN is rejected.
    acceptance = jnp.where(jnp.isnan(energy_error), 0.0, jnp.exp(jnp.minimum(-energy_error, 0.0)))
    accepted = uniform < acceptance
    kept = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), end, start)
    divergent = ~(jnp.abs(energy_error) < DIVERGENCE)
    return kept, Moved(accepted, acceptance, energy, energy_error, divergent)


def _step(key: Array, state: HMCState, target: Target) -> tuple[HMCState, Info]:
    key_momentum, key_uniform = jax.random.split(key)
    momentum = jax.random.normal(key_momentum, state.position.shape)
    uniform = jax.random.uniform(key_uniform, (3,))
    step_size, num_steps = _trajectory(2 * uniform[:2] - 1, state)
    start = Phase(state.position, momentum, state.log_density, state.gradient)
    value_and_gradient = target.value_and_gradient
    end, moved = transition(value_and_gradient, start, step_size, num_steps, uniform[2])
    info = Info(
        acceptance=moved.acceptance,
        energy_error=moved.energy_error,
        divergent=moved.divergent,
        energy=moved.energy,
        log_density=end.log_density,
        step_size=step_size,
        num_steps=num_steps,
    )
    new_state = state._replace(
        position=end.position,
        log_density=end.log_density,
        gradient=end.gradient,
        iteration=state.iteration + 1,
        adaptation=_adapt(state, moved.acceptance),
    )
    return new_state, info


def _trajectory(wobble: Array, state: HMCState) -> tuple[Array, Array]:
    """Step size and number of steps of the next trajectory; `wobble` is two numbers in [-1, 1]."""
    settings = state.settings
    adapting = state.iteration < settings.adapt_steps
    log_step_size = jnp.where(
        adapting, state.adaptation.log_step_size, state.adaptation.log_average
    )
    step_size = jnp.exp(log_step_size)

    factor = 1 + settings.num_leapfrog_jitter * wobble[0]
    cap = jnp.where(3 * state.iteration < settings.adapt_steps, FIRST_CAP, SECOND_CAP)
    cap = jnp.where(adapting, jnp.minimum(cap, settings.max_leapfrog), settings.max_leapfrog)
    by_length = jnp.minimum(
        factor * settings.trajectory_length / step_size, cap.astype(step_size.dtype)
    )
    given = factor * settings.num_leapfrog.astype(step_size.dtype)
    length = jnp.where(settings.num_leapfrog > 0, given, by_length)
    num_steps = jnp.maximum(jnp.rint(length), 1.0).astype(jnp.int32)
    return step_size * (1 + settings.step_size_jitter * wobble[1]), num_steps


def _adapt(state: HMCState, acceptance: Array) -> DualAveraging:
    updated = dual_averaging.update(state.adaptation, acceptance, state.settings.target_acceptance)
    adapting = state.iteration < state.settings.adapt_steps
    return jax.tree.map(lambda new, old: jnp.where(adapting, new, old), updated, state.adaptation)


def _energy(phase: Phase) -> Array:
    return 0.5 * jnp.sum(phase.momentum**2) - phase.log_density


@jax.jit
def _init(target: Target, positions: Array, settings: Settings, step_size: Array) -> HMCState:
    log_density, gradient = over_chains(jax.value_and_grad(target.log_density), positions)
    return HMCState(
        position=positions,
        log_density=log_density,
        gradient=gradient,
        iteration=jnp.zeros(step_size.shape, jnp.int32),
        adaptation=dual_averaging.init(step_size),
        settings=settings,
    )


def _check_options(options: HMC) -> None:
    for name in ("step_size", "trajectory_length"):
        value = getattr(options, name)
        if value is not None and not (_is_number(value) and math.isfinite(value) and value > 0):
            raise ValueError(f"`{name}` must be a positive number, got {value!r}")
    for name in ("num_leapfrog", "max_leapfrog"):
        value = getattr(options, name)
        if value is not None and not (isinstance(value, numbers.Integral) and int(value) >= 1):
            raise ValueError(f"`{name}` must be a whole number of at least 1, got {value!r}")
    value = options.target_acceptance
    if not (_is_number(value) and 0 < value < 1):
        raise ValueError(f"`target_acceptance` must lie between 0 and 1, got {value!r}")
    for name in ("step_size_jitter", "num_leapfrog_jitter"):
        value = getattr(options, name)
        if value is not None and not (_is_number(value) and 0 <= value < 1):
            raise ValueError(f"`{name}` must lie in [0, 1), got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)
