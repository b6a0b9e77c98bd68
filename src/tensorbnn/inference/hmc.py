"""Hamiltonian Monte Carlo: leapfrog trajectories and a Metropolis step.

With position ``q``, momentum ``p`` and energy ``H = -log p(q) + p.p / 2`` one transition draws
``p ~ N(0, 1)``, follows the leapfrog integrator

    p <- p + eps/2 grad log p(q);   q <- q + eps p;   p <- p + eps/2 grad log p(q)

for ``L`` steps and accepts the end with probability ``min(1, exp(H_start - H_end))``. Positions are
in the standard coordinates of `TargetDensity`, in which the mass is the identity. See Neal (2011),
"MCMC using Hamiltonian dynamics".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import LARGEST_COUNT, check_count, check_fraction, check_positive
from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference import tuning
from tensorbnn.inference.sampler import (
    Sampler,
    Transition,
    TransitionInfo,
    broadcast_to_chains,
    check_options,
    over_chains,
    select,
    start_state,
)
from tensorbnn.inference.target import Density, TargetDensity
from tensorbnn.inference.tuning import Tuning

# An energy error beyond this means that the integrator has left the trajectory.
DIVERGENCE = 1000.0
# A trajectory has a length of at least 0.7, unless that takes this many steps. With tiny steps, no
# round of the search is long enough for the slowest outputs: on the paper's variable case it
# prefers 800 steps, but 4,000 give two to three times the effective draws per gradient there.
MANY_STEPS = 4096

ValueAndGrad = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True)
class HMC(Sampler):
    """Hamiltonian Monte Carlo over parameters and hyper-parameters jointly.

    Parameters
    ----------
    step_size
        Leapfrog step in units of the prior's standard deviations. By default, one step for all
        chains is found during burn-in and then held, so the saved chain is a Markov chain. One
        trajectory in five, at random, takes half of it, so that chains don't get stuck in regions
        narrower than those seen during burn-in.
    num_steps
        Leapfrog steps per trajectory. By default, the number that `trajectory_length` requires.
    trajectory_length
        Step size times number of steps, if `num_steps` is not given. By default it is tuned during
        burn-in for the most effective draws per gradient of the network's outputs at probe inputs
        (training rows and points around them); see `tensorbnn.inference.tuning`. This needs a
        burn-in of at least 160 transitions; in a shorter one the length is 1.
    target_acceptance
        Target of the adaptation: the acceptance probability of trajectories with the whole step.
    step_size_jitter, num_steps_jitter
        Each trajectory's step size and number of steps are multiplied by a uniform random number
        from ``[1 - jitter, 1 + jitter]``, so that no direction resonates with the trajectory.
        By default, `num_steps_jitter` is 0 with `num_steps` and 0.5 otherwise.
    max_steps
        Maximum number of steps of a trajectory, if `num_steps` is not given.

    Examples
    --------
    >>> HMC(step_size=0.01, num_steps=50).num_steps
    50
    """

    step_size: float | None = None
    num_steps: int | None = None
    trajectory_length: float | None = None
    target_acceptance: float = 0.9
    step_size_jitter: float = 0.0
    num_steps_jitter: float | None = None
    max_steps: int = 8192

    learned = ("iteration", "tuning")
    share = staticmethod(tuning.share_chains)
    pool = staticmethod(tuning.pool_chains)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size", "trajectory_length")
        check_options(self, check_count, "num_steps", "max_steps", most=LARGEST_COUNT)
        check_options(self, check_fraction, "target_acceptance")
        check_options(self, check_fraction, "step_size_jitter", "num_steps_jitter", zero=True)
        if self.num_steps is not None and self.trajectory_length is not None:
            raise ValueError(
                f"`num_steps` ({self.num_steps}) and `trajectory_length` "
                f"({self.trajectory_length:g}) both say how long a trajectory is: leave one out"
            )

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "HMCState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        jitter = self.num_steps_jitter
        if jitter is None:
            jitter = 0.5 if self.num_steps is None else 0.0
        settings = Settings(
            num_steps=jnp.asarray(self.num_steps or 0, jnp.int32),
            step_size_jitter=jnp.asarray(self.step_size_jitter, dtype=float),
            num_steps_jitter=jnp.asarray(jitter, dtype=float),
        )
        first = tuning.init(
            target,
            burn_in,
            step_size=self.step_size,
            length=self.trajectory_length,
            search=self.num_steps is None,
            target_acceptance=self.target_acceptance,
            max_steps=self.max_steps,
            many_steps=MANY_STEPS,
        )
        first = broadcast_to_chains(first, len(positions))
        return start_state(HMCState, target, positions, settings, tuning=first)

    @staticmethod
    def most_gradients(state: "HMCState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return jax.vmap(lambda each: _trajectory(jnp.ones(2, each.position.dtype), each)[1])(state)

    @staticmethod
    def step(keys: Array, state: "HMCState", target: TargetDensity) -> "Transition[HMCState]":
        """One transition of every chain; `keys` is ``(chains,)``."""
        batched = target.batches_chains(keys.shape[0])
        return over_chains(lambda key, each: _step(key, each, target), keys, state, batched=batched)


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    num_steps: Array
    """0 if it follows from the length."""
    step_size_jitter: Array
    num_steps_jitter: Array


class HMCState(NamedTuple):
    """State between transitions; every array has the chains as its first axis."""

    position: Array
    log_density: Array
    gradient: Array
    iteration: Array
    tuning: Tuning
    settings: Settings


def leapfrog(
    value_and_grad: ValueAndGrad, start: Phase, step_size: Array, num_steps: Array
) -> Phase:
    """Run the leapfrog integrator; `num_steps` steps cost `num_steps` gradients.

    `step_size` is one number, or one for each coordinate, which corresponds to a diagonal mass. If
    the engine of a `Density` has its own integrator, it is used. Adjacent half kicks are merged.
    """
    if isinstance(value_and_grad, Density) and value_and_grad.follow is not None:
        return value_and_grad.follow(start, step_size, num_steps)

    def advance(_: Array, phase: Phase) -> Phase:
        position = phase.position + step_size * phase.momentum
        log_density, gradient = value_and_grad(position)
        return Phase(position, phase.momentum + step_size * gradient, log_density, gradient)

    half = 0.5 * step_size
    kicked = start._replace(momentum=start.momentum + half * start.gradient)
    end = jax.lax.fori_loop(0, num_steps, advance, kicked)
    return end._replace(momentum=end.momentum - half * end.gradient)


def transition(
    density: ValueAndGrad, start: Phase, step_size: Array, num_steps: Array, uniform: Array
) -> tuple[Phase, TransitionInfo, Array]:
    """A leapfrog trajectory and its Metropolis step; `uniform` decides whether it is accepted.

    Returns the state and whether it was accepted.
    """
    end = leapfrog(density, start, step_size, num_steps)
    energy, energy_after = energy_of(start), energy_of(end)
    energy_error = energy_after - energy
    acceptance = acceptance_of(energy, energy_after)
    accepted = uniform < acceptance
    kept = select(accepted, end, start)
    info = TransitionInfo(
        acceptance_rate=acceptance,
        energy_error=energy_error,
        diverging=~(jnp.abs(energy_error) < DIVERGENCE),
        energy=energy,
        lp=kept.log_density,
        step_size=step_size,
        num_gradients=num_steps,
    )
    return kept, info, accepted


def _step(key: Array, state: HMCState, target: TargetDensity) -> Transition[HMCState]:
    key_momentum, key_uniform = jax.random.split(key)
    momentum = jax.random.normal(key_momentum, state.position.shape)
    uniform = jax.random.uniform(key_uniform, (4,))
    step_size, num_steps = _trajectory(2 * uniform[:2] - 1, state)
    used = step_size * tuning.step_fraction(state.tuning, uniform[3])
    start = Phase(state.position, momentum, state.log_density, state.gradient)
    end, info, _ = transition(target.value_and_grad, start, used, num_steps, uniform[2])
    new_state = state._replace(
        position=end.position,
        log_density=end.log_density,
        gradient=end.gradient,
        iteration=state.iteration + 1,
        tuning=tuning.learn(
            state, info.acceptance_rate, used * num_steps.astype(used.dtype), target, end.position
        ),
    )
    return new_state, info._replace(step_size=step_size)


def _trajectory(jitter: Array, state: HMCState) -> tuple[Array, Array]:
    """Step size and number of steps of the next trajectory; `jitter` is two numbers in [-1, 1]."""
    settings = state.settings
    step_size = tuning.step_size(state.tuning, state.iteration)
    cap = tuning.max_steps(state.tuning, state.iteration).astype(step_size.dtype)
    factor = 1 + settings.num_steps_jitter * jitter[0]
    by_length = jnp.minimum(factor * state.tuning.length / step_size, cap)
    given = factor * settings.num_steps.astype(step_size.dtype)
    length = jnp.where(settings.num_steps > 0, given, by_length)
    num_steps = jnp.maximum(jnp.rint(length), 1.0).astype(jnp.int32)
    return step_size * (1 + settings.step_size_jitter * jitter[1]), num_steps


def energy_of(phase: Phase) -> Array:
    """Kinetic and potential energy."""
    return 0.5 * jnp.sum(phase.momentum**2) - phase.log_density


def acceptance_of(energy: Array, energy_after: Array) -> Array:
    """Probability of accepting a trajectory between these energies.

    It is 0 if the trajectory ends in NaN, or at a point of infinite density, which no chain would
    ever leave. It is 1 if the trajectory starts at a density of zero.
    """
    error = energy_after - energy
    fails = jnp.isnan(error) | (energy_after == -jnp.inf)
    return jnp.where(fails, 0.0, jnp.exp(jnp.minimum(-error, 0.0)))
