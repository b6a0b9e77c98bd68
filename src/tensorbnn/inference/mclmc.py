"""Microcanonical Langevin Monte Carlo, unadjusted: fast, and biased by its finite steps.

The momentum has constant length, so a chain moves at constant speed, and the gradient turns it
(Robnik, De Luca, Silverstein & Seljak 2023; isokinetic McLachlan integrator and noise by BlackJAX).
The exact dynamics sample the posterior. Nothing is rejected, so finite steps leave a bias, which
falls with the energy error of a step and which neither R-hat nor ESS can detect. So steps are small
by default, and their errors are saved with the draws for the verdict. As with the other samplers,
each coordinate moves by about ``t`` standard deviations of the prior in a time ``t`` (a unit
momentum is multiplied by the root of the dimension).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.checks import LARGEST_COUNT, check_count, check_positive
from tensorbnn.findings import EnergyErrors, Finding
from tensorbnn.inference.adaptation import DualAveraging, Spread
from tensorbnn.inference.ghmc import GHMC
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

# The share of steps whose energy error should be within the limit. The errors have heavy tails: a
# few outliers dominate a mean of squares, and a median misses the regions that cause the bias.
TARGET_SHARE = 0.97
# Decoherence time as a fraction of the time to cross the posterior (chosen by experiments, for the
# fastest mixing of the function per gradient), and its value before that time is known.
FRACTION_OF_WIDTH = 0.4
FIRST_TIME = 0.4
GRADIENTS_PER_STEP = 2
# The bias is small if this share of the draws has energy errors up to this limit, per root of the
# dimension (measured, docs/samplers.md).
ERROR_SHARE, ERROR_LIMIT = 0.95, 0.1


@dataclass(frozen=True, kw_only=True)
class MCLMC(Sampler):
    """Microcanonical Langevin Monte Carlo: fast per gradient, and not exact.

    Nothing is rejected, so draws have a bias that grows with the step size. With the default steps
    it is too small to measure (see the page on samplers), and the verdict of `Ensemble.diagnose`
    reports the energy errors.

    Parameters
    ----------
    step_size
        Time of an integrator step (two gradients), in units of the prior's standard deviations. By
        default it is found during burn-in, so that 97 % of the steps have an energy error within
        `target_energy_error`, and then held.
    target_energy_error
        Limit of the energy error of a step, per root of the number of dimensions.
    decoherence_time
        Time in which the momentum is forgotten, and time of a transition. By default, 0.4 times the
        width of the posterior: the root mean square of its standard deviations in the second half
        of burn-in.
    max_steps
        Maximum number of integrator steps of a transition.

    Examples
    --------
    >>> MCLMC(step_size=0.002).target_energy_error
    0.01
    """

    step_size: float | None = None
    target_energy_error: float = 0.01
    decoherence_time: float | None = None
    max_steps: int = 1024

    exact = False
    packages = ("blackjax",)
    learned = ("iteration",)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size", "target_energy_error", "decoherence_time")
        check_options(self, check_count, "max_steps", most=LARGEST_COUNT)

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "MCLMCState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        if target.dimension < 2:
            raise ValueError(
                "tb.MCLMC needs at least two parameters, but this posterior has one: use tb.HMC()"
            )
        time = self.decoherence_time
        settings = Settings(
            step_size_adapt_steps=jnp.asarray(burn_in if self.step_size is None else 0, jnp.int32),
            time_adapt_steps=jnp.asarray(burn_in if time is None else 0, jnp.int32),
            target_energy_error=jnp.asarray(self.target_energy_error, dtype=float),
            decoherence_time=jnp.asarray(time or FIRST_TIME, dtype=float),
            max_steps=jnp.asarray(self.max_steps, jnp.int32),
        )
        first_step_size = self.step_size or FIRST_STEP_SIZE
        fields = {
            "momentum": jnp.zeros_like(positions),
            "adaptation": DualAveraging.of_chains(first_step_size, len(positions)),
            "spread": Spread.begin(positions),
        }
        return start_state(MCLMCState, target, positions, settings, **fields)

    @staticmethod
    def findings(info: Mapping[str, NDArray[Any]]) -> Sequence[Finding]:
        """The energy errors of the worst chain, whose tail shows the bias."""
        error = float(np.quantile(info["energy_error_rms"], ERROR_SHARE, axis=1).max())
        names = {"sampler": MCLMC.__name__, "exact": GHMC.__name__}
        return (EnergyErrors(error=error, share=ERROR_SHARE, limit=ERROR_LIMIT, **names),)

    @staticmethod
    def most_gradients(state: "MCLMCState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return GRADIENTS_PER_STEP * jax.vmap(lambda each: _trajectory(each)[2])(state)

    @staticmethod
    def step(keys: Array, state: "MCLMCState", target: TargetDensity) -> "Transition[MCLMCState]":
        """One transition of every chain; `keys` is ``(chains,)``."""
        return over_chains(lambda key, each: _step(key, each, target), keys, state)


class Settings(NamedTuple):
    """The options as arrays, so that new values need no recompilation."""

    step_size_adapt_steps: Array
    time_adapt_steps: Array
    target_energy_error: Array
    decoherence_time: Array
    max_steps: Array


class MCLMCState(NamedTuple):
    """State between transitions; every array has the chains as its first axis."""

    position: Array
    momentum: Array
    """Of unit length."""
    log_density: Array
    gradient: Array
    iteration: Array
    adaptation: DualAveraging
    spread: Spread
    settings: Settings


class Sums(NamedTuple):
    """Sums over the steps of a transition."""

    squared_error: Array
    """Squared energy errors per dimension, of the steps that did not fail."""
    within: Array
    """Steps with an energy error within the limit."""
    failed: Array
    """Steps that ended in NaN and were not taken."""


def _step(key: Array, state: MCLMCState, target: TargetDensity) -> Transition[MCLMCState]:
    from blackjax.mcmc.integrators import IntegratorState

    settings = state.settings
    adapting = state.iteration < settings.step_size_adapt_steps
    step_size, time, num_steps = _trajectory(state)
    key_first, key_steps = jax.random.split(key)
    first = state.iteration == 0
    momentum = jnp.where(first, _direction(key_first, state.position), state.momentum)
    begin = IntegratorState(state.position, momentum, state.log_density, state.gradient)
    end, sums = _steps(key_steps, begin, step_size, time, num_steps, settings, target)
    count = num_steps.astype(time.dtype)
    info = TransitionInfo(
        acceptance_rate=1 - sums.failed / count,
        energy_error_rms=jnp.sqrt(sums.squared_error / count),
        diverging=sums.failed > 0,
        energy=-end.logdensity,
        lp=end.logdensity,
        step_size=step_size,
        num_gradients=GRADIENTS_PER_STEP * num_steps,
    )
    new_state = state._replace(
        position=end.position,
        momentum=end.momentum,
        log_density=end.logdensity,
        gradient=end.logdensity_grad,
        iteration=state.iteration + 1,
        adaptation=state.adaptation.adapt(
            sums.within / count, jnp.full_like(time, TARGET_SHARE), adapting
        ),
        spread=state.spread.update(end.position, state.iteration, settings.time_adapt_steps),
    )
    return new_state, info


def _trajectory(state: MCLMCState) -> tuple[Array, Array, Array]:
    """Step size, decoherence time and number of steps of the next transition."""
    settings = state.settings
    adapting = state.iteration < settings.step_size_adapt_steps
    step_size = state.adaptation.step_size(adapting)
    first_width = settings.decoherence_time / FRACTION_OF_WIDTH
    width = state.spread.width(state.iteration, settings.time_adapt_steps, first_width)
    time = FRACTION_OF_WIDTH * width
    wanted = jnp.minimum(time / step_size, settings.max_steps.astype(time.dtype))
    return step_size, time, jnp.maximum(jnp.rint(wanted), 1.0).astype(jnp.int32)


def _steps(
    key: Array,
    begin: Any,
    step_size: Array,
    time: Array,
    num_steps: Array,
    settings: Settings,
    target: TargetDensity,
) -> tuple[Any, Sums]:
    from blackjax.mcmc.integrators import isokinetic_mclachlan, with_isokinetic_maruyama

    # BlackJAX uses Python numbers, which strict promotion rejects.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        dimension = begin.position.size
        root = dimension**0.5
        integrate = with_isokinetic_maruyama(
            isokinetic_mclachlan(logdensity_fn=target.log_density, inverse_mass_matrix=1.0)
        )

        def one(index: Array, carry: tuple[Any, Sums]) -> tuple[Any, Sums]:
            before, sums = carry
            key_noise, key_fresh = jax.random.split(jax.random.fold_in(key, index))
            after, kinetic = integrate(before, root * step_size, root * time, key_noise)
            error = kinetic - after.logdensity + before.logdensity
            finite = jnp.isfinite(error) & jnp.all(jnp.isfinite(after.logdensity_grad))
            # A step that fails is not taken, and the chain continues in another direction.
            stay = before._replace(momentum=_direction(key_fresh, before.position))
            after = select(finite, after, stay)
            squared = jnp.where(finite, error, 0.0) ** 2 / dimension
            within = finite & (squared <= settings.target_energy_error**2)
            added = Sums(squared, within, ~finite)
            return after, jax.tree.map(lambda a, b: a + b.astype(a.dtype), sums, added)

        zero = jnp.zeros_like(begin.logdensity)
        return jax.lax.fori_loop(0, num_steps, one, (begin, Sums(zero, zero, zero)))


def _direction(key: Array, like: Array) -> Array:
    """A random unit vector."""
    direction = jax.random.normal(key, like.shape)
    return direction / jnp.sqrt(jnp.sum(direction**2))
