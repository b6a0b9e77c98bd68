"""The no-U-turn sampler, based on the kernels of BlackJAX.

A trajectory is doubled, forwards or backwards at random, until its ends begin to approach each
other or it has doubled `max_tree_depth` times; the next state is drawn from its points by their
densities (Hoffman & Gelman 2014; Betancourt 2017; iterative as in Phan et al. 2019). Positions are
in the standard coordinates of `TargetDensity`, whitened by the prior, where the mass is the
identity: a mass matrix learned in burn-in does not help these posteriors, so there is none.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import check_count, check_fraction, check_positive
from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference.adaptation import DualAveraging
from tensorbnn.inference.hmc import DIVERGENCE, energy_of
from tensorbnn.inference.sampler import (
    Sampler,
    Transition,
    TransitionInfo,
    check_options,
    over_chains,
    select,
    start_state,
)
from tensorbnn.inference.target import TargetDensity
from tensorbnn.inference.tuning import FIRST_STEP_SIZE

# In the first and second third of the search for the step size, trees have at most 15 and 255
# steps, since a first guess that is far too small would be most expensive there.
FIRST_CAP, SECOND_CAP = 4, 8
# Length of the arrays of a tree, so that a new depth needs no recompilation.
MAX_DEPTH = 15


@dataclass(frozen=True, kw_only=True)
class NUTS(Sampler):
    """The no-U-turn sampler: exact, without options that need tuning.

    Parameters
    ----------
    step_size
        Leapfrog step in units of the prior's standard deviations. By default it is found by dual
        averaging during burn-in and then held, so the saved chain is a Markov chain.
    target_acceptance
        Target of the adaptation: the mean acceptance statistic of a trajectory's points.
    max_tree_depth
        Maximum number of doublings, 1 to 15: at most ``2**max_tree_depth - 1`` gradients.

    Examples
    --------
    >>> NUTS(max_tree_depth=8).max_tree_depth
    8
    """

    step_size: float | None = None
    target_acceptance: float = 0.8
    max_tree_depth: int = 10

    packages = ("blackjax",)
    learned = ("iteration",)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size")
        check_options(self, check_fraction, "target_acceptance")
        check_options(self, check_count, "max_tree_depth", most=MAX_DEPTH)

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "NUTSState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        settings = Settings(
            adapt_steps=jnp.asarray(burn_in if self.step_size is None else 0, jnp.int32),
            target_acceptance=jnp.asarray(self.target_acceptance, dtype=float),
            max_tree_depth=jnp.asarray(self.max_tree_depth, jnp.int32),
        )
        adaptation = DualAveraging.of_chains(self.step_size or FIRST_STEP_SIZE, len(positions))
        return start_state(NUTSState, target, positions, settings, adaptation=adaptation)

    @staticmethod
    def most_gradients(state: "NUTSState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return 2 ** jax.vmap(_max_depth)(state) - 1

    @staticmethod
    def step(keys: Array, state: "NUTSState", target: TargetDensity) -> "Transition[NUTSState]":
        """One transition of every chain; `keys` is ``(chains,)``."""
        return over_chains(lambda key, each: _step(key, each, target), keys, state)


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    adapt_steps: Array
    target_acceptance: Array
    max_tree_depth: Array


class NUTSState(NamedTuple):
    """State between transitions; every array has the chains as its first axis."""

    position: Array
    log_density: Array
    gradient: Array
    iteration: Array
    adaptation: DualAveraging
    settings: Settings


def _step(key: Array, state: NUTSState, target: TargetDensity) -> Transition[NUTSState]:
    key_momentum, key_tree = jax.random.split(key)
    momentum = jax.random.normal(key_momentum, state.position.shape)
    begin = Phase(state.position, momentum, state.log_density, state.gradient)
    energy = energy_of(begin)
    adapting = state.iteration < state.settings.adapt_steps
    step_size = state.adaptation.step_size(adapting)
    drawn, info = _tree(key_tree, begin, energy, step_size, _max_depth(state), target)
    updated = state.adaptation.update(info.acceptance_rate, state.settings.target_acceptance)
    new_state = state._replace(
        position=drawn.position,
        log_density=drawn.logdensity,
        gradient=drawn.logdensity_grad,
        iteration=state.iteration + 1,
        adaptation=select(adapting, updated, state.adaptation),
    )
    return new_state, info


def _max_depth(state: NUTSState) -> Array:
    """Maximum number of doublings of the next trajectory."""
    most, steps = state.settings.max_tree_depth, state.settings.adapt_steps
    cap = jnp.where(3 * state.iteration < steps, FIRST_CAP, SECOND_CAP)
    return jnp.where(3 * state.iteration < 2 * steps, jnp.minimum(most, cap), most)


def _tree(
    key: Array, start: Phase, energy: Array, step_size: Array, depth: Array, target: TargetDensity
) -> tuple[Any, TransitionInfo]:
    """A point of a trajectory by BlackJAX's `nuts`, with a depth that is not compiled in."""
    from blackjax.mcmc import integrators, metrics, proposal, termination, trajectory

    # BlackJAX counts with Python numbers, which strict promotion rejects.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        metric = metrics.default_metric(jnp.ones_like(start.position))
        criterion: Any = termination.iterative_uturn_numpyro(metric.check_turning)
        new_criterion, update_criterion, is_met = criterion
        expand = trajectory.dynamic_multiplicative_expansion(
            trajectory.dynamic_progressive_integration(
                integrators.velocity_verlet(target.log_density, metric.kinetic_energy),
                metric.kinetic_energy,
                update_criterion,
                is_met,
                DIVERGENCE,
            ),
            metric.check_turning,
            depth,
        )
        begin = integrators.IntegratorState(*start)
        own_energy = energy_of(start)  # as `energy`; without it XLA would compile another program
        expansion = trajectory.DynamicExpansionState(
            0,
            proposal.Proposal(begin, own_energy, 0.0, -jnp.inf),
            trajectory.Trajectory(begin, begin, start.momentum, 0),
            new_criterion(begin, MAX_DEPTH),
        )
        end, (divergent, _) = expand(key, expansion, own_energy, step_size)
        drawn, num_steps = end.proposal, end.trajectory.num_states
        return drawn.state, TransitionInfo(
            # The mean over all points, including those of the last doubling.
            acceptance_rate=jnp.exp(drawn.sum_log_p_accept) / num_steps,
            num_gradients=num_steps.astype(jnp.int32),
            energy_error=drawn.energy - energy,
            diverging=divergent,
            energy=energy,
            lp=drawn.state.logdensity,
            step_size=step_size,
        )
