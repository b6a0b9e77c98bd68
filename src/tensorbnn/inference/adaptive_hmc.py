"""The paper's sampler: HMC over the parameters, then HMC over the hyper-parameters.

One transition is an *epoch*: a trajectory over theta given phi, whose step size and number of steps
the parameter adapter chooses (`trajectory_adapter`), then a trajectory over phi given theta with a
fixed number of steps and a step size found by dual averaging during the first 80 % of burn-in. All
adaptation ends with burn-in, so the saved chain is a Markov chain.

Then phi moves once more, by a short trajectory in which the weights follow their scales
(`hyper_moves`). Without it, chains mix poorly if data are few and the hyper-prior is wide. The
paper does not have this trajectory.

Theta and phi move in units of their priors' widths (`target`). Under the paper's priors these are
about one; under others, the units let one step size suit narrow and wide priors, and their tails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import (
    LARGEST_COUNT,
    check_choice,
    check_count,
    check_fraction,
    check_positive,
    check_type,
)
from tensorbnn.engine.trajectory import Phase
from tensorbnn.errors import OptionError
from tensorbnn.inference import hyper_moves, trajectory_adapter
from tensorbnn.inference.adaptation import DualAveraging
from tensorbnn.inference.hmc import transition
from tensorbnn.inference.hyper_moves import Randomness
from tensorbnn.inference.length_search import features
from tensorbnn.inference.sampler import Sampler, Transition, check_options, over_chains
from tensorbnn.inference.target import TargetDensity, phi_of
from tensorbnn.inference.trajectory_adapter import Adapter, Constants

HYPER_BURN_IN = 0.8


@dataclass(frozen=True, kw_only=True)
class AdaptiveHMC(Sampler):
    """The paper's HMC with its parameter adapter, alternating parameters and hyper-parameters.

    Defaults are those of the paper's examples.

    Parameters
    ----------
    step_size_start, step_size_min, step_size_max, step_size_options
        Leapfrog step over the parameters, in widths of their priors: first value, bounds, and
        number of candidates.
    num_steps_start, num_steps_min, num_steps_max, num_steps_increment
        Number of leapfrog steps: first value, bounds, and distance between candidates.
    hyper_step_size, hyper_num_steps
        First step size, in widths of the hyper-priors, and number of steps over the
        hyper-parameters.
    hyper_target_acceptance
        Acceptance that dual averaging aims for over the hyper-parameters.
    interweave
        Whether the hyper-parameters of priors move a second time in each epoch, with the parameters
        following them, at the cost of six more gradients. The paper does not do this; with few data
        and a wide hyper-prior, its chains can miss scales close to zero.
    step_size_jitter
        The step size of each trajectory, over parameters and over hyper-parameters, is multiplied
        by a random number from ``[1 - jitter, 1 + jitter]``. Without jitter, a trajectory of half a
        period would always jump to the opposite side. The paper uses 0.
    averaging_steps
        Trajectories over which the reward of a candidate is averaged.
    a, delta, k
        Constants of the search (Wang, Mohamed & de Freitas 2013): weight of the expected reward,
        width of the confidence bound, and number of candidates before exploration fades.
    strikes
        Number of consecutive rejections in burn-in after which the search restarts with both bounds
        of the step size halved.
    random_steps
        Random candidates after each (re)start of the search.
    reward
        The squared jumps that the search rewards, divided by the root of the number of steps: those
        of the ``"parameters"``, as in the paper, or of the ``"function"``, the outputs of the
        network at training rows and at points around them. The second finds shorter trajectories,
        which give more effective draws of predictions per gradient.

    Examples
    --------
    >>> AdaptiveHMC(num_steps_start=20, num_steps_min=10, num_steps_max=50).num_steps_increment
    10
    """

    step_size_start: float = 1e-3
    step_size_min: float = 1e-4
    step_size_max: float = 1e-2
    step_size_options: int = 100
    num_steps_start: int = 1000
    num_steps_min: int = 100
    num_steps_max: int = 10_000
    num_steps_increment: int = 10
    hyper_step_size: float = 1e-3
    hyper_num_steps: int = 10
    hyper_target_acceptance: float = 0.8
    interweave: bool = True
    step_size_jitter: float = 0.2
    averaging_steps: int = 2
    a: float = 4.0
    delta: float = 0.1
    k: int = 100
    strikes: int = 50
    random_steps: int = 20
    reward: Literal["parameters", "function"] = "parameters"

    learned = ("iteration",)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size_start", "step_size_min", "step_size_max")
        check_options(self, check_positive, "hyper_step_size", "a")
        counts = ("step_size_options", "averaging_steps", "k", "strikes", "hyper_num_steps")
        ends = ("num_steps_start", "num_steps_min", "num_steps_max", "num_steps_increment")
        check_options(self, check_count, *counts, *ends, most=LARGEST_COUNT)
        check_options(self, check_count, "random_steps", least=0, most=LARGEST_COUNT)
        check_options(self, check_fraction, "hyper_target_acceptance", "delta")
        check_options(self, check_fraction, "step_size_jitter", zero=True)
        check_type("interweave", self.interweave, bool, "True or False")
        check_choice("reward", self.reward, ("parameters", "function"))
        for kind in ("step_size", "num_steps"):
            low, start, high = (getattr(self, f"{kind}_{end}") for end in ("min", "start", "max"))
            if not low <= start <= high:
                wanted = f"between {{words[{kind}_min]}} ({low}) and {{words[{kind}_max]}} ({high})"
                raise OptionError(f"{kind}_start", wanted, start, "lie")

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "AdaptiveState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt for `burn_in` epochs."""
        hierarchical = any(entry.prior.hypers() for entry in target.model.theta.entries)
        follows = target.held_phi is None and hierarchical
        settings = Settings(
            burn_in=jnp.asarray(burn_in, jnp.int32),
            hyper_adapt_steps=jnp.asarray(int(HYPER_BURN_IN * burn_in), jnp.int32),
            hyper_num_steps=jnp.asarray(self.hyper_num_steps, jnp.int32),
            hyper_target_acceptance=jnp.asarray(self.hyper_target_acceptance, dtype=float),
            interweaves=jnp.asarray(self.interweave and follows),
            step_size_jitter=jnp.asarray(self.step_size_jitter, dtype=float),
            rewards_function=jnp.asarray(self.reward == "function"),
        )
        first = {
            "step_size_min": jnp.asarray(self.step_size_min, dtype=float),
            "step_size_max": jnp.asarray(self.step_size_max, dtype=float),
            "step_size": jnp.asarray(self.step_size_start, dtype=float),
            "num_steps": jnp.asarray(self.num_steps_start, jnp.int32),
        }
        hyper_step_size = jnp.asarray(self.hyper_step_size, dtype=float)
        return _init(target, positions, settings, self._constants(), first, hyper_step_size)

    @staticmethod
    def most_gradients(state: "AdaptiveState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return _gradients(state, moves_hypers=state.z_phi.shape[1] > 0)

    @staticmethod
    def step(
        keys: Array, state: "AdaptiveState", target: TargetDensity
    ) -> "Transition[AdaptiveState]":
        """One epoch of every chain; `keys` is ``(chains,)``."""
        batched = target.batches_chains(keys.shape[0])
        return over_chains(lambda key, one: _epoch(key, one, target), keys, state, batched=batched)

    def _constants(self) -> Constants:
        counts = (self.num_steps_max - self.num_steps_min) // self.num_steps_increment + 1
        return Constants(
            step_sizes=trajectory_adapter.axis(self.step_size_options),
            num_steps=trajectory_adapter.axis(counts),
            num_steps_min=jnp.asarray(self.num_steps_min, dtype=float),
            num_steps_increment=jnp.asarray(self.num_steps_increment, dtype=float),
            averaging_steps=jnp.asarray(self.averaging_steps, jnp.int32),
            a=jnp.asarray(self.a, dtype=float),
            delta=jnp.asarray(self.delta, dtype=float),
            k=jnp.asarray(self.k, dtype=float),
            strikes=jnp.asarray(self.strikes, jnp.int32),
            random_steps=jnp.asarray(self.random_steps, jnp.int32),
        )


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    burn_in: Array
    hyper_adapt_steps: Array
    hyper_num_steps: Array
    hyper_target_acceptance: Array
    interweaves: Array
    step_size_jitter: Array
    rewards_function: Array


class AdaptiveState(NamedTuple):
    """State between epochs; every array has the chains as its first axis."""

    position: Array
    log_density: Array
    theta: Array
    z_phi: Array
    """Hyper-parameters in units of their prior's width; empty where they are held."""
    iteration: Array
    adapter: Adapter
    constants: Constants
    hyper: DualAveraging
    weaving: DualAveraging
    """Of the step sizes of the two trajectories over the hyper-parameters."""
    settings: Settings


def _epoch(key: Array, state: AdaptiveState, target: TargetDensity) -> Transition[AdaptiveState]:
    key_normal, key_uniform, key_search = jax.random.split(key, 3)
    sizes = state.theta.size, state.z_phi.size
    normal = jax.random.normal(key_normal, (sizes[0] + 2 * sizes[1],))
    momentum, *hyper_momenta = jnp.split(normal, [sizes[0], sum(sizes)])
    uniform = jax.random.uniform(key_uniform, (6,))
    jitter = 1 + state.settings.step_size_jitter * (2 * uniform[3:] - 1)
    phi, log_hyper_prior = phi_of(target, state.z_phi)

    step_size, decisive = state.adapter.step_size * jitter[0], uniform[0]
    # Theta given phi, in standard coordinates.
    z_theta = target.model.theta.to_standard(state.theta, target.model.phi.unflatten(phi))
    density = target.value_and_grad_given(phi)
    start = Phase(z_theta, momentum, *density(z_theta))
    num_steps = state.adapter.num_steps
    end, info, accepted = transition(density, start, step_size, num_steps, decisive)
    theta, _ = target.model.theta.from_standard(end.position, target.model.phi.unflatten(phi))
    squared_jump = jax.lax.cond(
        state.settings.rewards_function & (state.iteration < state.settings.burn_in),
        lambda: jnp.mean(jnp.square(features(target, theta) - features(target, state.theta))),
        lambda: jnp.sum(jnp.square(end.position - start.position)),
    )
    new_state = state._replace(
        theta=theta,
        iteration=state.iteration + 1,
        adapter=_search(key_search, state, squared_jump, accepted),
    )
    if sizes[1]:
        random = list(map(Randomness, hyper_momenta, jitter[1:], uniform[1:3]))
        new_state = _move_hypers(state, new_state, target, random)
        phi, _ = phi_of(target, new_state.z_phi)

    log_density = target.model.log_density(new_state.theta, phi, target.data)
    info = info._replace(
        energy=info.energy - log_hyper_prior,  # for the whole density, as in other samplers
        lp=log_density,
        num_gradients=_gradients(state, moves_hypers=sizes[1] > 0),
    )
    position = target.position(new_state.theta, phi)
    return new_state._replace(position=position, log_density=log_density), info


def _gradients(state: AdaptiveState, *, moves_hypers: bool) -> Array:
    """Gradients of an epoch, including moves of hyper-parameters if there are any."""
    gradients = state.adapter.num_steps + 1
    if moves_hypers:
        gradients += jnp.where(state.settings.interweaves, hyper_moves.WEAVING_STEPS + 1, 0)
    return gradients


def _move_hypers(
    before: AdaptiveState, state: AdaptiveState, target: TargetDensity, random: list[Randomness]
) -> AdaptiveState:
    """Both trajectories over phi, and the adaptation of their step sizes."""
    settings = before.settings
    adapting = before.iteration < settings.hyper_adapt_steps

    def adapt(averaging: DualAveraging, acceptance: Array) -> DualAveraging:
        return averaging.adapt(acceptance, settings.hyper_target_acceptance, adapting)

    def weave() -> AdaptiveState:
        size = alone.weaving.step_size(adapting)
        end = hyper_moves.with_theta(target, alone.theta, alone.z_phi, size, random[1])
        return alone._replace(
            theta=end.theta, z_phi=end.z_phi, weaving=adapt(alone.weaving, end.acceptance)
        )

    steps, size = settings.hyper_num_steps, state.hyper.step_size(adapting)
    end = hyper_moves.given_theta(target, state.theta, state.z_phi, size, steps, random[0])
    alone = state._replace(z_phi=end.z_phi, hyper=adapt(state.hyper, end.acceptance))
    return jax.lax.cond(settings.interweaves, weave, lambda: alone)


def _search(key: Array, state: AdaptiveState, squared_jump: Array, accepted: Array) -> Adapter:
    """Let the adapter learn from the trajectory; end the search with the last burn-in epoch."""
    remaining = state.settings.burn_in - state.iteration

    def learn() -> Adapter:
        constants = state.constants
        new = trajectory_adapter.update(key, state.adapter, constants, squared_jump, accepted)
        settle = partial(trajectory_adapter.settle, new, constants)
        return jax.lax.cond(remaining == 1, settle, lambda: new)

    return jax.lax.cond(remaining > 0, learn, lambda: state.adapter)


@jax.jit
def _init(
    target: TargetDensity,
    positions: Array,
    settings: Settings,
    constants: Constants,
    first: Mapping[str, Array],
    hyper_step_size: Array,
) -> AdaptiveState:
    def start(position: Array) -> AdaptiveState:
        theta, phi = target.vectors(position)
        return AdaptiveState(
            position=position,
            log_density=target.model.log_density(theta, phi, target.data),
            theta=theta,
            z_phi=position[theta.size :],
            iteration=jnp.zeros((), jnp.int32),
            adapter=trajectory_adapter.init(constants, **first),
            constants=constants,
            hyper=DualAveraging.begin(hyper_step_size),
            weaving=DualAveraging.begin(hyper_step_size),
            settings=settings,
        )

    return over_chains(start, positions)
