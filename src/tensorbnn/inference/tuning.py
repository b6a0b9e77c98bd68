"""Tuning of step size and trajectory length while chains burn in, shared by all chains.

Burn-in has `POOLING_ROUNDS` rounds of equal length. After each round, every chain *shares* a short
vector of statistics, these are *pooled*, and all chains continue with the same settings. Nothing
here is random and the order of chains is fixed, so a run can be stopped anywhere and resumed.

At first the step size comes from dual averaging, whose mean errors are averaged after each round.
Trajectories are capped, since long ones far from the posterior would give a step size two to three
times too small. Later the step size is fixed within a round. After the round, the tuning chooses
the step size at which all chains in all rounds would have had the target acceptance, which takes
wide and narrow regions into account. The same rounds search for the length (`length_search`).

One trajectory in five takes half the step. In regions narrower than those of burn-in, a chain that
always takes the full step may reject for thousands of transitions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from tensorbnn.inference import length_search
from tensorbnn.inference.adaptation import DualAveraging
from tensorbnn.inference.length_search import MANY_STEPS, RECORD, Summary, Units, num_features
from tensorbnn.inference.sampler import POOLING_ROUNDS, pooling_rounds, select
from tensorbnn.inference.target import TargetDensity

# Trajectories have at most FIRST_CAP steps up to the first of these rounds, and at most SECOND_CAP
# up to the second. The step size is averaged up to the second round. The search for the length ends
# with the third. From the last on, trajectories have their final length, which may cost far more.
CAPPED, SEARCH, FINAL, LAST = 4, 8, 16, POOLING_ROUNDS - 1
FIRST_CAP, SECOND_CAP = 16, 64
# The length before the search, or without one.
UNTUNED_LENGTH = 1.0
# The first step size; if it is far too large, a few rejections reduce it.
FIRST_STEP_SIZE = 0.1
# If the acceptance of a chain is this far below the mean, that chain determines the step size; and
# the largest single change of the logarithm of the step size.
LAGGING, MAX_CHANGE = 0.05, 0.5
# Share of the trajectories that take half the step.
HALVED = 0.2


class Settings(NamedTuple):
    """The settings of the tuning."""

    round_length: Array
    """Transitions of a round; 0 if burn-in is too short for rounds."""
    end: Array
    """Transitions after which the tuning ends."""
    tunes_step_size: Array
    tunes_length: Array
    target_acceptance: Array
    max_steps: Array
    many_steps: Array
    """After the search, the minimum length only applies if it takes at most this many steps."""


class Tuning(NamedTuple):
    """The tuning state of a chain. All chains have the same lengths in every round."""

    averaging: DualAveraging
    length: Array
    """Length (step size times steps) of the trajectories of this round."""
    lengths: Array
    """Lengths of all rounds so far."""
    units: Units
    """Units of the outputs; empty without a search for the length."""
    record: Array
    """Outputs in this round, ``(RECORD, outputs)``."""
    acceptance: Array
    path: Array
    """Sums over this round: `acceptance` of probabilities, `path` of step sizes times steps."""
    settings: Settings


def init(
    target: TargetDensity,
    burn_in: int,
    *,
    step_size: float | None,
    length: float | None,
    search: bool,
    target_acceptance: float,
    max_steps: int,
    many_steps: int = MANY_STEPS,
) -> Tuning:
    """State of one chain before its first transition.

    A given `step_size` or `length` is kept. Otherwise the length is tuned if `search` is true;
    without a search, outputs are not recorded. The length found is at least 0.7, unless that takes
    `many_steps`.
    """
    round_length = burn_in // POOLING_ROUNDS if pooling_rounds(burn_in) else 0
    searches = search and length is None and round_length > 0
    count = num_features(target) if search else 0
    start = jnp.asarray(UNTUNED_LENGTH if length is None else length, dtype=float)
    return Tuning(
        averaging=DualAveraging.begin(jnp.asarray(step_size or FIRST_STEP_SIZE, dtype=float)),
        length=start,
        lengths=jnp.full(POOLING_ROUNDS, start),
        units=Units(jnp.zeros(count), jnp.ones(count)),
        record=jnp.zeros((RECORD, count)),
        acceptance=jnp.zeros(()),
        path=jnp.zeros(()),
        settings=Settings(
            round_length=jnp.asarray(round_length, jnp.int32),
            end=jnp.asarray(round_length * POOLING_ROUNDS if round_length else burn_in, jnp.int32),
            tunes_step_size=jnp.asarray(step_size is None),
            tunes_length=jnp.asarray(searches),
            target_acceptance=jnp.asarray(target_acceptance, dtype=float),
            max_steps=jnp.asarray(max_steps, jnp.int32),
            many_steps=jnp.asarray(many_steps, jnp.int32),
        ),
    )


def step_size(tuning: Tuning, iteration: Array) -> Array:
    """Step size of a transition."""
    return tuning.averaging.step_size(_adapts_step_size(tuning.settings, iteration))


def step_fraction(tuning: Tuning, uniform: Array) -> Array:
    """The fraction of the step size that a trajectory uses; 1 for a given step size.

    The number of steps stays the same, and so does the cost.
    """
    part = jnp.where(uniform < HALVED, 0.5, 1.0)
    return jnp.where(tuning.settings.tunes_step_size, part, 1.0).astype(tuning.length.dtype)


def max_steps(tuning: Tuning, iteration: Array) -> Array:
    """Maximum number of steps in a transition's trajectory."""
    settings = tuning.settings
    done = POOLING_ROUNDS * iteration
    cap = jnp.where(done < CAPPED * settings.end, FIRST_CAP, SECOND_CAP)
    capped = settings.tunes_step_size & (done < SEARCH * settings.end)
    return jnp.where(capped, jnp.minimum(cap, settings.max_steps), settings.max_steps)


def learn(
    state: Any, acceptance: Array, path: Array, target: TargetDensity, position: Array
) -> Tuning:
    """Update with a transition from `state`, of length `path`, that ended at `position`."""
    tuning, iteration = state.tuning, state.iteration
    settings = tuning.settings
    tunes = iteration < settings.end
    updated = tuning.averaging.update(acceptance, settings.target_acceptance)
    averaging = jax.tree.map(
        lambda new, old: jnp.where(_adapts_step_size(settings, iteration), new, old),
        updated,
        tuning.averaging,
    )
    if tuning.record.size:
        tuning = _record(tuning, iteration, target, position)
    return tuning._replace(
        averaging=averaging,
        acceptance=tuning.acceptance + jnp.where(tunes, acceptance, 0.0),
        path=tuning.path + jnp.where(tunes, path, 0.0),
    )


def _record(tuning: Tuning, iteration: Array, target: TargetDensity, position: Array) -> Tuning:
    """Record the outputs at `position`, if this transition is a recorded one."""
    settings = tuning.settings
    stride = length_search.stride(settings.round_length)
    tunes = iteration < settings.end
    within = jnp.where(tunes, iteration % jnp.maximum(settings.round_length, 1), 0)

    def keep() -> Array:
        row = tuning.record.at[within // stride]
        outputs = length_search.features(target, target.vectors(position)[0])
        return row.set(jnp.nan_to_num(outputs, nan=0.0, posinf=1e6, neginf=-1e6))

    wanted = tunes & settings.tunes_length & (within % stride == 0)
    return tuning._replace(record=jax.lax.cond(wanted, keep, lambda: tuning.record))


class Report(NamedTuple):
    """The statistics that a chain shares after a round, as one vector of the fields in order."""

    mean_error: Array
    log_average: Array
    acceptance: Array
    path: Array
    """Mean over transitions, as is `acceptance`."""
    outputs: Summary


def pool(tuning: Tuning, shared: Array, number: Array) -> Tuning:
    """Continue after round `number`; `shared` are statistics ``(chains, rounds, values)``.

    Values of later rounds are ignored.
    """
    reports = _unravel(shared, tuning)
    tuning = tuning._replace(
        averaging=_pool_step_size(tuning, reports, number),
        record=jnp.zeros_like(tuning.record),
        acceptance=jnp.zeros_like(tuning.acceptance),
        path=jnp.zeros_like(tuning.path),
    )
    # The search compares all rounds in the same units.
    shared_outputs = reports.outputs
    latest = length_search.common_units(
        shared_outputs.mean[:, number], shared_outputs.variance[:, number]
    )
    tuning = tuning._replace(units=select(number < SEARCH, latest, tuning.units))
    found = _next_length(tuning, reports, number)
    length = jnp.where(tuning.settings.tunes_length, found, tuning.length)
    lengths = tuning.lengths.at[jnp.minimum(number + 1, POOLING_ROUNDS - 1)].set(length)
    return tuning._replace(length=length, lengths=lengths)


def share_chains(state: Any) -> Array:
    """The statistics of each chain in the last round, ``(chains, values)``."""
    return jax.vmap(lambda tuning: ravel_pytree(_report(tuning))[0])(state.tuning)


def pool_chains(state: Any, shared: Array, number: Array) -> Any:
    """`pool` for all chains whose state has a `tuning`."""
    return state._replace(tuning=jax.vmap(lambda each: pool(each, shared, number))(state.tuning))


def _report(tuning: Tuning) -> Report:
    settings, averaging = tuning.settings, tuning.averaging
    length = jnp.maximum(settings.round_length, 1).astype(tuning.record.dtype)
    return Report(
        mean_error=averaging.mean_error,
        log_average=averaging.log_average,
        acceptance=tuning.acceptance / length,
        path=tuning.path / length,
        outputs=length_search.summarize(tuning.record, settings.round_length, tuning.units),
    )


def _unravel(shared: Array, tuning: Tuning) -> Report:
    """Unpack vectors ``(chains, rounds, values)`` into arrays ``(chains, rounds, ...)``."""
    shapes = jax.eval_shape(_report, tuning)
    empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.vmap(jax.vmap(ravel_pytree(empty)[1]))(shared)


def _adapts_step_size(settings: Settings, iteration: Array) -> Array:
    """Whether the step size is being averaged in a transition."""
    # Without rounds, until the end of burn-in.
    held = jnp.where(settings.round_length > 0, SEARCH * settings.round_length, settings.end)
    return settings.tunes_step_size & (iteration < held)


def _pool_step_size(tuning: Tuning, reports: Report, number: Array) -> DualAveraging:
    pooled = tuning.averaging.pool(
        jnp.mean(reports.mean_error[:, number]), jnp.mean(reports.log_average[:, number])
    )
    # Start a new average when trajectories become longer.
    fresh = DualAveraging.begin(jnp.exp(pooled.log_average), lift=1.0)
    kept = select(number == CAPPED - 1, fresh, pooled)
    found = fit_step_size(
        reports.log_average,  # the step size itself, if it was held
        reports.acceptance,
        _weights(number, reports.acceptance.dtype),
        jnp.mean(reports.log_average[:, number]),
        tuning.settings.target_acceptance,
    )
    kept = kept._replace(log_average=jnp.where(number >= SEARCH, found, kept.log_average))
    return select(tuning.settings.tunes_step_size, kept, tuning.averaging)


def fit_step_size(
    log_steps: Array, acceptance: Array, weights: Array, now: Array, target: Array
) -> Array:
    """Logarithm of the step size with the target acceptance, near `now`.

    In each round, each chain used a step size of `log_steps` and had an `acceptance`, both
    ``(chains, rounds)``; the `weights` of the rounds sum to one. Energy errors are nearly normal
    with a mean of half their variance, and the variance is proportional to the fourth power of the
    step, so the acceptance is ``2 Phi(-c step^2)``. Each chain and round has its own ``c``, since
    some regions are narrower than others. The `target` is for trajectories with full steps; those
    with half steps are accepted more often.
    """
    target_halved = 2 * jax.scipy.stats.norm.cdf(jax.scipy.stats.norm.ppf(target / 2) / 4)
    wanted = (1 - HALVED) * target + HALVED * target_halved
    errors = -jax.scipy.stats.norm.ppf(jnp.clip(acceptance, 0.01, 0.9999) / 2)
    counts = weights[None] > 0  # other rounds hold arbitrary values
    errors = jnp.where(counts, errors, 1.0)
    log_steps = jnp.where(counts, log_steps, now)

    def is_small(log_step: Array) -> Array:
        grown = errors * jnp.exp(2 * (log_step - log_steps))
        accepted = 2 * jax.scipy.stats.norm.cdf(-grown) @ weights
        # The mean must not hide a chain that accepts far less.
        return jnp.minimum(jnp.mean(accepted), jnp.min(accepted) + LAGGING) > wanted

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        small = is_small(middle)
        return jnp.where(small, middle, low), jnp.where(small, high, middle)

    low, high = jax.lax.fori_loop(0, 20, halve, (now - MAX_CHANGE, now + MAX_CHANGE))
    return (low + high) / 2


def _weights(number: Array, dtype: Any) -> Array:
    """Weights for the step size of the rounds from `SEARCH` to `number`."""
    rounds = jnp.arange(POOLING_ROUNDS, dtype=jnp.int32)
    looked_at = (rounds >= SEARCH) & (rounds <= number)
    # Later rounds count more, since a chain may not have reached the posterior in the first ones.
    weights = jnp.where(looked_at, rounds - SEARCH + 1, 0).astype(dtype)
    return weights / jnp.maximum(jnp.sum(weights), 1.0)


def _next_length(tuning: Tuning, reports: Report, number: Array) -> Array:
    """The length of the round after round `number`."""
    settings, step = tuning.settings, jnp.exp(tuning.averaging.log_average)
    shortest = length_search.min_length(step, MANY_STEPS)
    in_the_end = length_search.min_length(step, settings.many_steps.astype(step.dtype))
    most = settings.max_steps.astype(step.dtype) * step
    first = jnp.maximum(jnp.minimum(SECOND_CAP * step, UNTUNED_LENGTH), shortest)
    rounds = jnp.arange(POOLING_ROUNDS, dtype=jnp.int32)
    tried = (rounds >= SEARCH) & (rounds <= number)
    scored = length_search.scores(reports.outputs, reports.path, tried, settings.round_length)
    best, neighbor = length_search.best_and_next(scored, tuning.lengths, tried, shortest, most)
    following = number + 1
    # The step size, and thus the minimum length, may have grown since a length was tried.
    return jnp.select(
        [following < SEARCH, following == SEARCH, following < FINAL, following == FINAL],
        [tuning.length, first, neighbor, jnp.maximum(best, shortest)],
        jnp.maximum(tuning.length, jnp.where(following < LAST, shortest, in_the_end)),
    )
