"""HMC with persistent momentum and a persistent slice variable for acceptance.

Generalized HMC (Horowitz 1991) keeps most of the momentum. A *move* refreshes a part of it,

    p <- a p + sqrt(1 - a^2) N(0, 1),        a = exp(-time of the move / decoherence time),

makes a few leapfrog steps, and accepts the end if ``|u| < exp(H_start - H_end)``; a rejection
reverses the momentum. The uniform number ``u`` in [-1, 1] persists, too (Neal 2020,
"Non-reversibly updating a uniform [0,1] value for Metropolis accept/reject decisions"): each move
first shifts it a little, and an acceptance multiplies it by ``exp(H_end - H_start)``, which
preserves the joint density of position, momentum and ``u``. So rejections occur in clusters, and
the momentum persists between them. All of these updates are exact. One transition consists of
moves with a total time of `trajectory_length`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import LARGEST_COUNT, check_count, check_fraction, check_positive
from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference import hmc, tuning
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
from tensorbnn.inference.target import TargetDensity
from tensorbnn.inference.tuning import Tuning

# Used if the time of a transition is given.
DECOHERENCE_TIME = 0.5


@dataclass(frozen=True, kw_only=True)
class GHMC(Sampler):
    """HMC with persistent momentum: exact, and usually faster than `HMC` per gradient.

    Parameters
    ----------
    step_size
        Leapfrog step in units of the prior's standard deviations. By default, one step for all
        chains is found during burn-in and then held, so the saved chain is a Markov chain; one
        transition in five, at random, takes half of it, as in `HMC`.
    num_steps
        Leapfrog steps of a move, after which it is accepted or rejected; fewer if the decoherence
        time is shorter.
    num_steps_jitter
        The number of steps of each move is multiplied by a uniform random number from
        ``[1 - jitter, 1 + jitter]``, so that no direction resonates with the moves.
    decoherence_time
        Time (step size times number of steps) after which ``1 / e`` of the momentum is left. By
        default it is tuned during burn-in, like the trajectory length of `HMC`; if you pass
        `trajectory_length`, it is 0.5.
    trajectory_length
        Total time of the moves of a transition, which only affects the distance between draws. By
        default, the decoherence time.
    target_acceptance
        Target of the adaptation: the acceptance probability of a move with the whole step.
    slice_step
        Average shift of the slice variable in [-1, 1] before each move.
    max_steps
        Most leapfrog steps of a transition, on average.

    Examples
    --------
    >>> GHMC(step_size=0.01, num_steps=2).num_steps
    2
    """

    step_size: float | None = None
    num_steps: int = 10
    num_steps_jitter: float = 0.5
    decoherence_time: float | None = None
    trajectory_length: float | None = None
    target_acceptance: float = 0.9
    slice_step: float = 0.03
    max_steps: int = 2048

    learned = ("iteration", "tuning")
    share = staticmethod(tuning.share_chains)
    pool = staticmethod(tuning.pool_chains)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size", "decoherence_time", "trajectory_length")
        check_options(self, check_count, "num_steps", "max_steps", most=LARGEST_COUNT)
        check_options(self, check_fraction, "target_acceptance", "slice_step")
        check_options(self, check_fraction, "num_steps_jitter", zero=True)

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "GHMCState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        settings = Settings(
            num_steps=jnp.asarray(self.num_steps, jnp.int32),
            num_steps_jitter=jnp.asarray(self.num_steps_jitter, dtype=float),
            trajectory_length=jnp.asarray(self.trajectory_length or 0.0, dtype=float),
            slice_step=jnp.asarray(self.slice_step, dtype=float),
        )
        given = None if self.trajectory_length is None else DECOHERENCE_TIME
        first = tuning.init(
            target,
            burn_in,
            step_size=self.step_size,
            length=self.decoherence_time or given,
            search=True,
            target_acceptance=self.target_acceptance,
            max_steps=self.max_steps,
        )
        fields = {
            "momentum": jnp.zeros_like(positions),
            "slice": jnp.zeros_like(positions[:, 0]),
            "tuning": broadcast_to_chains(first, len(positions)),
        }
        return start_state(GHMCState, target, positions, settings, **fields)

    @staticmethod
    def most_gradients(state: "GHMCState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return jax.vmap(_most_gradients)(state)

    @staticmethod
    def step(keys: Array, state: "GHMCState", target: TargetDensity) -> "Transition[GHMCState]":
        """One transition of every chain; `keys` is ``(chains,)``."""
        return over_chains(lambda key, each: _step(key, each, target), keys, state)


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    num_steps: Array
    num_steps_jitter: Array
    trajectory_length: Array
    """0 if it equals the decoherence time."""
    slice_step: Array


class GHMCState(NamedTuple):
    """State between transitions; every array has the chains as its first axis."""

    position: Array
    momentum: Array
    log_density: Array
    gradient: Array
    slice: Array
    iteration: Array
    tuning: Tuning
    settings: Settings


class Moves(NamedTuple):
    """The result of some moves.

    `acceptance` and `num_steps` are sums, `divergent` is whether any move diverged, `energy` and
    `energy_error` are those of the last move.
    """

    phase: Phase
    slice: Array
    acceptance: Array
    energy: Array
    energy_error: Array
    divergent: Array
    num_steps: Array


def move(
    value_and_grad: hmc.ValueAndGrad,
    start: Phase,
    slice_: Array,
    *,
    fresh: Array,
    slice_step: Array,
    step_size: Array,
    num_steps: Array,
    persistence: Array,
) -> Moves:
    """Refresh the momentum and the slice, follow a trajectory, and accept it or reverse."""
    momentum = persistence * start.momentum + jnp.sqrt(1 - persistence**2) * fresh
    slice_ = jnp.mod(slice_ + 1 + slice_step, 2.0) - 1
    begin = start._replace(momentum=momentum)
    end = hmc.leapfrog(value_and_grad, begin, step_size, num_steps)
    energy, energy_after = hmc.energy_of(begin), hmc.energy_of(end)
    error = energy_after - energy
    acceptance = hmc.acceptance_of(energy, energy_after)
    accepted = jnp.abs(slice_) < acceptance
    turned = begin._replace(momentum=-momentum)
    return Moves(
        phase=select(accepted, end, turned),
        slice=jnp.where(accepted, slice_ * jnp.exp(error), slice_),
        acceptance=acceptance,
        energy=energy,
        energy_error=error,
        divergent=~(jnp.abs(error) < hmc.DIVERGENCE),
        num_steps=num_steps,
    )


def _step(key: Array, state: GHMCState, target: TargetDensity) -> Transition[GHMCState]:
    key, key_part = jax.random.split(key)
    whole = tuning.step_size(state.tuning, state.iteration)
    moves, usual_steps = _moves(state, whole)
    step_size = whole * tuning.step_fraction(state.tuning, jax.random.uniform(key_part))
    end = _follow(key, state, target, step_size, moves, usual_steps)
    acceptance = end.acceptance / moves.astype(end.acceptance.dtype)
    info = TransitionInfo(
        acceptance_rate=acceptance,
        energy_error=end.energy_error,
        diverging=end.divergent,
        energy=end.energy,
        lp=end.phase.log_density,
        step_size=whole,
        num_gradients=end.num_steps,
    )
    new_state = state._replace(
        **end.phase._asdict(),
        slice=end.slice,
        iteration=state.iteration + 1,
        tuning=tuning.learn(
            state,
            acceptance,
            step_size * end.num_steps.astype(step_size.dtype),
            target,
            end.phase.position,
        ),
    )
    return new_state, info


def _follow(
    key: Array,
    state: GHMCState,
    target: TargetDensity,
    step_size: Array,
    moves: Array,
    usual_steps: Array,
) -> Moves:
    """Make all moves of a transition."""
    value_and_grad, settings = target.value_and_grad, state.settings

    def one(index: Array, so_far: Moves) -> Moves:
        key_momentum, key_slice = jax.random.split(jax.random.fold_in(key, index))
        # The first move of a chain has no momentum to keep.
        first = (state.iteration == 0) & (index == 0)
        uniform = jax.random.uniform(key_slice, (3,))
        fresh = jax.random.normal(key_momentum, state.position.shape)
        slice_step = jnp.where(first, 2 * uniform[1], 2 * uniform[0] * settings.slice_step)
        factor = 1 + settings.num_steps_jitter * (2 * uniform[2] - 1)
        num_steps = _steps_of_move(factor, usual_steps)
        time = step_size * num_steps.astype(step_size.dtype)
        persistence = jnp.exp(-time / state.tuning.length)
        made = move(
            value_and_grad,
            so_far.phase,
            so_far.slice,
            fresh=fresh,
            slice_step=slice_step,
            step_size=step_size,
            num_steps=num_steps,
            persistence=jnp.where(first, 0.0, persistence),
        )
        return made._replace(
            acceptance=so_far.acceptance + made.acceptance,
            divergent=so_far.divergent | made.divergent,
            num_steps=so_far.num_steps + made.num_steps,
        )

    begin = Phase(state.position, state.momentum, state.log_density, state.gradient)
    zero = jnp.zeros_like(state.log_density)
    none = Moves(
        begin, state.slice, zero, zero, zero, jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    )
    return jax.lax.fori_loop(0, moves, one, none)


def _most_gradients(state: GHMCState) -> Array:
    """Gradients of a transition if all of its moves have their maximum length."""
    moves, usual_steps = _moves(state, tuning.step_size(state.tuning, state.iteration))
    return moves * _steps_of_move(1 + state.settings.num_steps_jitter, usual_steps)


def _steps_of_move(factor: Array, usual_steps: Array) -> Array:
    return jnp.maximum(jnp.rint(factor * usual_steps), 1.0).astype(jnp.int32)


def _moves(state: GHMCState, step_size: Array) -> tuple[Array, Array]:
    """Number of moves per transition, and of leapfrog steps per move without jitter."""
    settings, time = state.settings, state.tuning.length
    length = jnp.where(settings.trajectory_length > 0, settings.trajectory_length, time)
    # A move is never longer than the decoherence time.
    num_steps = jnp.clip(jnp.rint(time / step_size), 1.0, settings.num_steps.astype(time.dtype))
    cap = tuning.max_steps(state.tuning, state.iteration).astype(time.dtype)
    wanted = jnp.minimum(length / (step_size * num_steps), jnp.floor(cap / num_steps))
    moves = jnp.maximum(jnp.rint(wanted), 1.0)
    return moves.astype(jnp.int32), num_steps
