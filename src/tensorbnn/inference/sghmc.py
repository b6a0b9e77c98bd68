"""Stochastic-gradient HMC: gradients from a few rows at a time, for large data.

Underdamped Langevin dynamics with friction ``g`` and gradients ``G`` of an unbiased estimate of the
log-density: the likelihood of ``B`` rows drawn at random, times ``N / B`` (Chen, Fox & Guestrin
2014),

    p <- p + eps/2 G;  q <- q + eps/2 p;  p <- c p + N(0, 1 - c^2 - eps^2 V (1 + c)^2 / 4);
    q <- q + eps/2 p;  p <- p + eps/2 G',        c = exp(-g eps),

with new rows for ``G'`` at each step (one gradient per step; the splitting of Leimkuhler & Matthews
2013, whose error in the positions is small). The noise of the gradients, of variance ``V`` in each
coordinate, heats the chain. It is measured during burn-in, and the added noise is reduced so that
positions diffuse correctly: in total, a kick moves them by ``eps (1 + c) / (2 (1 - c))`` times
its size, and added noise by ``eps / (1 - c)``. The method remains approximate: nothing is rejected,
``V`` varies, and steps are finite. The bias falls with the step size. The kinetic temperature, the
mean of ``p^2``, is saved with the draws; under exact dynamics it is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import NDArray

from tensorbnn.checks import LARGEST_COUNT, check_count, check_positive
from tensorbnn.engine import forward
from tensorbnn.findings import Finding, KineticTemperature
from tensorbnn.inference import sghmc_tuning as tuning
from tensorbnn.inference.adaptation import DualAveraging, Spread
from tensorbnn.inference.hmc import DIVERGENCE
from tensorbnn.inference.sampler import (
    Sampler,
    Transition,
    TransitionInfo,
    check_options,
    over_chains,
    root_key,
    select,
    start_state,
)
from tensorbnn.inference.sghmc_tuning import Settings, SGHMCState
from tensorbnn.inference.target import TargetDensity

# The first step size (small, since steps that are too large are not rejected), and the friction
# before the width of the posterior is known.
FIRST_STEP_SIZE, FIRST_FRICTION = 0.01, 5.0
# Batches from which the noise of the gradients is estimated before the first step.
INITIAL_BATCHES = 8
# The bias is small if the kinetic temperature is this close to one (measured, docs/samplers.md),
# apart from its Monte Carlo error, which is allowed up to the second limit.
TEMPERATURE_LIMIT, MAX_TEMPERATURE_LIMIT = 0.05, 0.2


@dataclass(frozen=True, kw_only=True)
class SGHMC(Sampler):
    """Stochastic-gradient HMC: approximate, for data too large for full gradients.

    Parameters
    ----------
    batch_size
        Rows per gradient, drawn with replacement. If the data have at most this many rows, all are
        used.
    step_size
        Time of a step, in units of the prior's standard deviations. By default it is found during
        burn-in, so that 90 % of the steps have an energy error within `target_energy_error` and
        the gradients contribute at most a tenth of the noise; after burn-in it is fixed.
    target_energy_error
        Limit of the energy error of a step, per root of the number of dimensions.
    friction
        Rate at which the momentum is forgotten. By default, one over the width of the posterior
        (the root mean square of its standard deviations in the second half of burn-in), so that the
        chain forgets its momentum as it crosses the posterior once. It is larger if gradients would
        otherwise contribute more than a tenth of the noise.
    num_steps
        Steps per transition, with one gradient each.

    Notes
    -----
    Draws are biased. Compare with a run with half the step size; if you can afford full gradients,
    use `HMC`. ``lp`` in `Ensemble.sample_stats` is an estimate from the rows of the last
    step.

    Examples
    --------
    >>> SGHMC(batch_size=512).num_steps
    100
    """

    batch_size: int = 256
    step_size: float | None = None
    target_energy_error: float = 0.01
    friction: float | None = None
    num_steps: int = 100

    exact = False
    learned = ("iteration",)

    def __post_init__(self) -> None:
        check_options(self, check_positive, "step_size", "target_energy_error", "friction")
        check_options(self, check_count, "batch_size", "num_steps", most=LARGEST_COUNT)

    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> "SGHMCState":
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""
        chains = len(positions)
        settings = Settings(
            burn_in=jnp.asarray(burn_in, jnp.int32),
            adapt_steps=jnp.asarray(burn_in if self.step_size is None else 0, jnp.int32),
            target_energy_error=jnp.asarray(self.target_energy_error, dtype=float),
            friction_adapt_steps=jnp.asarray(burn_in if self.friction is None else 0, jnp.int32),
            friction=jnp.asarray(self.friction or FIRST_FRICTION, dtype=float),
            num_steps=jnp.asarray(self.num_steps, jnp.int32),
        )
        rows = 0 if target.data is None else forward.num_rows(target.data)
        fields = {
            "momentum": jnp.zeros_like(positions),
            "rows": jnp.zeros((chains, min(self.batch_size, rows)), jnp.int32),
            "noise": jnp.zeros_like(positions),
            "adaptation": DualAveraging.of_chains(self.step_size or FIRST_STEP_SIZE, chains),
            "spread": Spread.begin(positions),
        }
        state = start_state(SGHMCState, target, positions, settings, **fields)
        return state._replace(noise=_initial_noise(target, state))

    @staticmethod
    def findings(info: Mapping[str, NDArray[Any]]) -> Sequence[Finding]:
        """The kinetic temperature, which shows a bias if it differs from one."""
        from arviz_stats.base import array_stats

        values = info["kinetic_temperature"]
        by_chance = TEMPERATURE_LIMIT + 3 * float(array_stats.mcse(values, method="mean"))
        temperature, limit = float(values.mean()), min(by_chance, MAX_TEMPERATURE_LIMIT)
        return (KineticTemperature(sampler=SGHMC.__name__, temperature=temperature, limit=limit),)

    @staticmethod
    def most_gradients(state: "SGHMCState") -> Array:
        """Most gradients of the next transition, ``(chains,)``."""
        return _gradients(state)

    @staticmethod
    def step(keys: Array, state: "SGHMCState", target: TargetDensity) -> "Transition[SGHMCState]":
        """One transition of every chain; `keys` is ``(chains,)``."""
        return over_chains(lambda key, each: _step(key, each, target), keys, state)


class Point(NamedTuple):
    """The state of a chain between steps."""

    position: Array
    momentum: Array
    log_density: Array
    gradient: Array
    rows: Array


class Sums(NamedTuple):
    """Sums over the steps of a transition."""

    temperature: Array
    failed: Array
    """Steps that were not taken, because they ended in NaN or, in burn-in, far away."""
    within: Array
    """In burn-in, steps with an energy error within the limit."""
    noise: Array
    """In burn-in, squared differences of two gradients, halved."""


class StepConstants(NamedTuple):
    """Constants that are the same for all steps of a transition."""

    step_size: Array
    persistence: Array
    noise_sd: Array
    target_energy_error: Array


def _step(key: Array, state: SGHMCState, target: TargetDensity) -> Transition[SGHMCState]:
    settings = state.settings
    key_first, key_steps = jax.random.split(key)
    step_size = tuning.step_size(state)
    persistence = jnp.exp(-tuning.friction(state, step_size) * step_size)
    kicked = step_size**2 * state.noise * (1 + persistence) ** 2 / 4
    injected = jnp.maximum(1 - persistence**2 - kicked, 0.0)
    constants = StepConstants(
        step_size, persistence, jnp.sqrt(injected), settings.target_energy_error
    )
    first, shape = state.iteration == 0, state.position.shape
    momentum = jnp.where(first, jax.random.normal(key_first, shape), state.momentum)
    begin = Point(state.position, momentum, state.log_density, state.gradient, state.rows)
    burning_in = state.iteration < settings.burn_in

    def one(index: Array, carry: tuple[Point, Sums]) -> tuple[Point, Sums]:
        given = (jax.random.fold_in(key_steps, index), carry, constants, target)
        return jax.lax.cond(burning_in, lambda: _measured_step(*given), lambda: _plain_step(*given))

    zero = jnp.zeros_like(state.log_density)
    sums = Sums(zero, zero, zero, jnp.zeros_like(state.position))
    end, sums = jax.lax.fori_loop(0, settings.num_steps, one, (begin, sums))
    count = settings.num_steps.astype(zero.dtype)
    info = TransitionInfo(
        acceptance_rate=1 - sums.failed / count,
        diverging=sums.failed > 0,
        energy=-end.log_density,
        lp=end.log_density,
        step_size=step_size,
        num_gradients=_gradients(state),
        kinetic_temperature=sums.temperature / count,
    )
    new_state = state._replace(
        **end._asdict(),
        noise=tuning.adapt_noise(state, sums.noise / count),
        iteration=state.iteration + 1,
        adaptation=tuning.adapt_step_size(state, sums.within / count),
        spread=state.spread.update(end.position, state.iteration, settings.friction_adapt_steps),
    )
    return new_state, info


def _gradients(state: SGHMCState) -> Array:
    """Gradients of a transition: in burn-in, two per step, to measure energy errors."""
    burning_in = state.iteration < state.settings.burn_in
    return jnp.where(burning_in, 2, 1) * state.settings.num_steps


def _plain_step(
    key: Array, carry: tuple[Point, Sums], constants: StepConstants, target: TargetDensity
) -> tuple[Point, Sums]:
    """A step whose first kick uses the rows of the previous step: one gradient."""
    key_rows, key_noise = jax.random.split(key)
    before, sums = carry
    rows = _draw_rows(key_rows, before.rows, target)
    after, _ = _move(key_noise, before, rows, constants, target)
    finite = jnp.all(jnp.isfinite(after.gradient)) & jnp.isfinite(after.log_density)
    return _accept_if_finite(key, before, after, finite, sums)


def _measured_step(
    key: Array, carry: tuple[Point, Sums], constants: StepConstants, target: TargetDensity
) -> tuple[Point, Sums]:
    """A step in which both kicks use the same new rows: two gradients, with a measurable error."""
    key_rows, key_noise = jax.random.split(key)
    before, sums = carry
    rows = _draw_rows(key_rows, before.rows, target)
    log_density, gradient = _value_and_grad(before.position, rows, target)
    begin = before._replace(log_density=log_density, gradient=gradient)
    after, error = _move(key_noise, begin, rows, constants, target)
    # Gradients far from the posterior would throw a chain off before the steps are small.
    finite = jnp.all(jnp.isfinite(after.gradient)) & (jnp.abs(error) < DIVERGENCE)
    squared = jnp.where(finite, error, jnp.inf) ** 2 / before.position.size
    sums = sums._replace(
        within=sums.within + (squared <= constants.target_energy_error**2).astype(error.dtype),
        noise=sums.noise + 0.5 * (gradient - before.gradient) ** 2,
    )
    return _accept_if_finite(key, begin._replace(rows=rows), after, finite, sums)


def _move(
    key: Array, begin: Point, rows: Array, constants: StepConstants, target: TargetDensity
) -> tuple[Point, Array]:
    """A step, and its energy error: the change in energy without noise and friction."""
    half = 0.5 * constants.step_size
    momentum = begin.momentum + half * begin.gradient
    position = begin.position + half * momentum
    noise = constants.noise_sd * jax.random.normal(key, momentum.shape)
    fresh = constants.persistence * momentum + noise
    position = position + half * fresh
    log_density, gradient = _value_and_grad(position, rows, target)
    last = fresh + half * gradient
    kinetic = [jnp.sum(each**2) for each in (begin.momentum, momentum, fresh, last)]
    gained = 0.5 * (kinetic[1] - kinetic[0] + kinetic[3] - kinetic[2])
    error = gained - log_density + begin.log_density
    return Point(position, last, log_density, gradient, rows), error


def _accept_if_finite(
    key: Array, before: Point, after: Point, finite: Array, sums: Sums
) -> tuple[Point, Sums]:
    """The step if it is finite; otherwise the chain stays, with a new momentum."""
    fresh = jax.random.normal(jax.random.fold_in(key, 2), before.momentum.shape)
    stay = before._replace(momentum=fresh)
    point = select(finite, after, stay)
    sums = sums._replace(
        temperature=sums.temperature + jnp.mean(point.momentum**2),
        failed=sums.failed + (~finite).astype(sums.failed.dtype),
    )
    return point, sums


def _draw_rows(key: Array, like: Array, target: TargetDensity) -> Array:
    if target.data is None:
        return like
    return jax.random.randint(key, like.shape, 0, forward.num_rows(target.data), jnp.int32)


def _value_and_grad(position: Array, rows: Array, target: TargetDensity) -> tuple[Array, Array]:
    """Estimate of the log-density from some rows; exact if they are all rows."""
    data = target.data
    if data is None or rows.size >= forward.num_rows(data):
        return jax.value_and_grad(target.log_density)(position)
    taken, weight = forward.take_rows(data, rows), forward.num_rows(data) / rows.size
    return jax.value_and_grad(lambda q: target.estimate(q, taken, weight))(position)


@jax.jit
def _initial_noise(target: TargetDensity, state: SGHMCState) -> Array:
    """Variance of the estimates at the start, around the full gradient."""

    def of_chain(state: SGHMCState) -> Array:
        def squared(key: Array) -> Array:
            rows = _draw_rows(key, state.rows, target)
            return (_value_and_grad(state.position, rows, target)[1] - state.gradient) ** 2

        keys = jax.random.split(root_key(0), INITIAL_BATCHES)
        return jnp.mean(jax.lax.map(squared, keys), axis=0)

    return over_chains(of_chain, state)
