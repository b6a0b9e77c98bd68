"""Tuning of step size and trajectory length while chains burn in, shared by all chains.

Burn-in has `POOLING_ROUNDS` rounds of equal length. Within a round each chain runs by itself; after
it each chain *shares* a short vector of what it saw, these are *pooled*, and all chains continue
with the same numbers. Nothing is random here and the order of chains is fixed, so a run can be
stopped anywhere and resumed.

At first the step size comes from dual averaging of the acceptance probability, whose mean errors
are averaged after each round. Trajectories are capped, since a step size found on long ones far
from the posterior ends up two to three times too small. From then on the step size is held within a
round and chosen after it (`step_fitting`), so that the last one rests on more than half of burn-in.
In the same rounds the trajectory length is searched for (`length_search`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from tensorbnn.inference import dual_averaging, length_search, step_fitting
from tensorbnn.inference.dual_averaging import DualAveraging
from tensorbnn.inference.length_search import MANY_STEPS, RECORD, Summary, Units
from tensorbnn.inference.probes import features, num_features
from tensorbnn.inference.sampler import POOLING_ROUNDS, pooling_rounds, select
from tensorbnn.inference.target import TargetDensity

# Rounds up to which trajectories have at most FIRST_CAP steps; up to which they have at most
# SECOND_CAP, and the step size is averaged; up to which the length is sought; and from which on
# trajectories are as long as draws are to have them, which may take many times more gradients.
CAPPED, SEARCH, FINAL, LAST = 4, 8, 16, POOLING_ROUNDS - 1
FIRST_CAP, SECOND_CAP = 16, 64
# The length before the search, and without it.
UNTUNED_LENGTH = 1.0
# Where the search for the step size begins; one that is far too large is cut down within a few
# rejections.
FIRST_STEP_SIZE = 0.1


class Settings(NamedTuple):
    """What the tuning is to do."""

    round_length: Array
    """Transitions of a round; 0 where burn-in is too short for meetings."""
    end: Array
    """Transitions after which nothing is tuned any more."""
    tunes_step_size: Array
    tunes_length: Array
    target_acceptance: Array
    max_steps: Array
    many_steps: Array
    """More of them than these are never due to the least length, when the search is over."""


class Tuning(NamedTuple):
    """What a chain knows. The lengths are the same for all chains, from round to round."""

    averaging: DualAveraging
    length: Array
    """Length (step size times steps) of the trajectories of this round."""
    lengths: Array
    """Lengths of all rounds so far."""
    units: Units
    """Of the outputs; none where the length is not sought."""
    record: Array
    """Outputs in this round, ``(RECORD, outputs)``."""
    acceptance: Array
    path: Array
    """Sums over this round: of acceptance probabilities, and of step sizes times steps."""
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
    """Before the first transition of one chain.

    A `step_size` that is given is kept. A `length` that is given is kept; else it is sought, if
    `search`. Without `search` there are no records of outputs. A length that was found is made at
    least 0.7 in the end, unless that takes `many_steps`.
    """
    round_length = burn_in // POOLING_ROUNDS if pooling_rounds(burn_in) else 0
    searches = search and length is None and round_length > 0
    count = num_features(target) if search else 0
    first = FIRST_STEP_SIZE if step_size is None else step_size
    start = jnp.asarray(UNTUNED_LENGTH if length is None else length, dtype=float)
    return Tuning(
        averaging=dual_averaging.init(jnp.asarray(first, dtype=float)),
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
    adapting = _adapts_step_size(tuning.settings, iteration)
    return dual_averaging.step_size(tuning.averaging, adapting)


def step_fraction(tuning: Tuning, uniform: Array) -> Array:
    """What part of the step size a trajectory takes; one that was given is taken as it is."""
    part = jnp.where(tuning.settings.tunes_step_size, step_fitting.step_fraction(uniform), 1.0)
    return part.astype(tuning.length.dtype)


def max_steps(tuning: Tuning, iteration: Array) -> Array:
    """Most steps of a transition's trajectory."""
    settings = tuning.settings
    done = POOLING_ROUNDS * iteration
    cap = jnp.where(done < CAPPED * settings.end, FIRST_CAP, SECOND_CAP)
    capped = settings.tunes_step_size & (done < SEARCH * settings.end)
    return jnp.where(capped, jnp.minimum(cap, settings.max_steps), settings.max_steps)


def learn(
    tuning: Tuning,
    iteration: Array,
    acceptance: Array,
    path: Array,
    target: TargetDensity,
    position: Array,
) -> Tuning:
    """Take in one transition, number `iteration`, of length `path`, that ended at `position`."""
    settings = tuning.settings
    tunes = iteration < settings.end
    updated = dual_averaging.update(tuning.averaging, acceptance, settings.target_acceptance)
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
    """Keep the outputs at `position`, if the transition that led there is one to be recorded."""
    settings = tuning.settings
    stride = length_search.stride(settings.round_length)
    tunes = iteration < settings.end
    within = jnp.where(tunes, iteration % jnp.maximum(settings.round_length, 1), 0)
    record = jax.lax.cond(
        tunes & settings.tunes_length & (within % stride == 0),
        lambda: tuning.record.at[within // stride].set(_outputs(target, position)),
        lambda: tuning.record,
    )
    return tuning._replace(record=record)


def _outputs(target: TargetDensity, position: Array) -> Array:
    outputs = features(target, target.vectors(position)[0])
    return jnp.nan_to_num(outputs, nan=0.0, posinf=1e6, neginf=-1e6)


class Report(NamedTuple):
    """What a chain shares after a round, as one vector: its leaves in this order."""

    mean_error: Array
    log_average: Array
    acceptance: Array
    path: Array
    """Means over transitions."""
    outputs: Summary


def share(tuning: Tuning) -> Array:
    """What one chain saw in the round that has just ended, as one vector."""
    return ravel_pytree(_report(tuning))[0]


def pool(tuning: Tuning, shared: Array, number: Array) -> Tuning:
    """Go on after round `number` with what all chains shared, ``(chains, rounds, values)``.

    Rounds to come may hold anything.
    """
    reports = _unravel(shared, tuning)
    tuning = tuning._replace(
        averaging=_pool_step_size(tuning, reports, number),
        record=jnp.zeros_like(tuning.record),
        acceptance=jnp.zeros_like(tuning.acceptance),
        path=jnp.zeros_like(tuning.path),
    )
    # What the search compares is measured in the same units throughout.
    latest = length_search.common_units(
        reports.outputs.mean[:, number], reports.outputs.variance[:, number]
    )
    tuning = tuning._replace(units=select(number < SEARCH, latest, tuning.units))
    length = jnp.where(
        tuning.settings.tunes_length, _next_length(tuning, reports, number), tuning.length
    )
    lengths = tuning.lengths.at[jnp.minimum(number + 1, POOLING_ROUNDS - 1)].set(length)
    return tuning._replace(length=length, lengths=lengths)


def share_chains(state: Any) -> Array:
    """What chains whose state has a `tuning` share, ``(chains, values)``."""
    return jax.vmap(share)(state.tuning)


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
        outputs=length_search.summarise(tuning.record, settings.round_length, tuning.units),
    )


def _unravel(shared: Array, tuning: Tuning) -> Report:
    """Vectors ``(chains, rounds, values)`` as reports, each array ``(chains, rounds, ...)``."""
    shapes = jax.eval_shape(_report, tuning)
    empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    reports: Report = jax.vmap(jax.vmap(ravel_pytree(empty)[1]))(shared)
    return reports


def _adapts_step_size(settings: Settings, iteration: Array) -> Array:
    """Whether the step size is being averaged in a transition."""
    # Without rounds, to the end of burn-in.
    held = jnp.where(settings.round_length > 0, SEARCH * settings.round_length, settings.end)
    return settings.tunes_step_size & (iteration < held)


def _pool_step_size(tuning: Tuning, reports: Report, number: Array) -> DualAveraging:
    pooled = dual_averaging.pool(
        tuning.averaging,
        jnp.mean(reports.mean_error[:, number]),
        jnp.mean(reports.log_average[:, number]),
    )
    # A new average where trajectories become longer.
    fresh = dual_averaging.init(jnp.exp(pooled.log_average), lift=1.0)
    kept = select(number == CAPPED - 1, fresh, pooled)
    found = step_fitting.fit_step_size(
        reports.log_average,  # the step itself, where it was held
        reports.acceptance,
        _weights(number, reports.acceptance.dtype),
        jnp.mean(reports.log_average[:, number]),
        tuning.settings.target_acceptance,
    )
    kept = kept._replace(log_average=jnp.where(number >= SEARCH, found, kept.log_average))
    return select(tuning.settings.tunes_step_size, kept, tuning.averaging)


def _weights(number: Array, dtype: Any) -> Array:
    """How much rounds up to `number` count for the step size, none before `SEARCH`."""
    rounds = jnp.arange(POOLING_ROUNDS, dtype=jnp.int32)
    looked_at = (rounds >= SEARCH) & (rounds <= number)
    # Later rounds count more: in the first ones a chain may still be on its way.
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
    best, neighbour = length_search.best_and_next(scored, tuning.lengths, tried, shortest, most)
    following = number + 1
    # The step size may have grown since a length was tried, and the least length with it.
    return jnp.select(
        [following < SEARCH, following == SEARCH, following < FINAL, following == FINAL],
        [tuning.length, first, neighbour, jnp.maximum(best, shortest)],
        jnp.maximum(tuning.length, jnp.where(following < LAST, shortest, in_the_end)),
    )
