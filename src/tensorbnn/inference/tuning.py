"""Tuning of step size and trajectory length while chains burn in, shared by all chains.

Burn-in has `ROUNDS` rounds of equal length. Within a round each chain goes on by itself; between
two rounds chains meet: each *tells* a short vector of what it saw, each *listens* to those of all
chains, and all go on with the same numbers. Nothing is random here and the order of chains is
fixed, so a run can be stopped anywhere and taken up again.

Step size
    At first, dual averaging of the acceptance probability, whose mean errors are averaged at each
    meeting. Trajectories are capped, since a step size found on long ones far from the posterior
    ends two to three times too small. From then on the step is held within a round, and what each
    chain accepted in each round says how it would have fared with another step: the next is the one
    at which all of them together accept as often as they should. So the last one rests on more than
    half of burn-in, and on wide and narrow regions as chains met them. One trajectory in five takes
    half the step: where the posterior of a network is narrower than anywhere in burn-in, a chain
    that always takes the whole one may reject for thousands of transitions.

Trajectory length
    What counts is how fast outputs of the network are forgotten. In each of the search's rounds all
    chains use one length, and record the outputs ``f`` at probe inputs. Squared jumps of ``f`` over
    1, 2, 4, ... transitions, against the variance of ``f`` over all chains, give autocorrelations,
    and these the effective draws of a transition for each output. Their harmonic mean, in which
    slow outputs count most, over the length is the score. (Jumps over one transition alone favour
    lengths two to three times too short: they see what is fast in ``f``, not what is slow. So do,
    less so, jumps over as many transitions as a round has. Where even the best length seen gives
    only a few effective draws a transition, so that a round is short for it, the root stands in
    place of the length, as in the paper's reward. The length and not the number of steps, because
    the step size still varies.) The search climbs by factors of two, then by their square root.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tensorbnn.inference import dual_averaging
from tensorbnn.inference.dual_averaging import DualAveraging
from tensorbnn.inference.probes import features, num_features
from tensorbnn.inference.sampler import ROUNDS, meetings
from tensorbnn.inference.target import Target

# Rounds up to which trajectories have at most FIRST_CAP steps; up to which they have at most
# SECOND_CAP, and the step size is averaged; and up to which the length is sought.
CAPPED, SEARCH, FINAL = 4, 8, 16
FIRST_CAP, SECOND_CAP = 16, 64
# The length before the search, and without it.
UNTUNED_LENGTH = 1.0
# Where the search for the step size begins; one that is far too large is cut down within a few
# rejections.
FIRST_STEP_SIZE = 0.1
# Transitions of a round that are recorded at most, evenly, and lags at which jumps are looked at.
RECORD = 64
LAGS = (1, 2, 4, 8, 16, 32)
# The autocorrelation at the longest lag at which it is above this says how fast an output is
# forgotten: at shorter lags only its fast part is seen, at longer ones only noise.
SEEN = 0.25
# Effective draws of a transition that are few, so that the root of the length counts, and many, so
# that the length itself does.
FEW_MANY_DRAWS = (0.1, 0.5)
_SMOOTHING = 0.5  # octaves
# No shorter ones are tried, however well they do in a short round: a few steps are a random walk,
# and draws should be worth keeping, unless such a length takes many steps. (On networks of a few
# hundred parameters lengths from 0.35 to 0.7 give as many effective draws a gradient, and the
# longest of them twice as many a draw.)
LEAST_STEPS = 4
LEAST_LENGTH, MANY_STEPS = 0.7, 512
_LADDER = (2.0, 0.5, 2**0.5, 0.5**0.5, 1.0)
# How far the acceptance of a chain may lie below the mean before it decides on the step size.
LAGGING = 0.05
# Part of the trajectories that take half the step.
HALVED = 0.2
_MOST = 0.5  # change of the logarithm of the step size at a meeting
_NEAR = 0.2  # in the logarithm, less than half of the smallest rung


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


class Tuning(NamedTuple):
    """What a chain knows. The lengths are the same for all chains, from round to round."""

    averaging: DualAveraging
    length: Array
    """Length (step size times steps) of the trajectories of this round."""
    lengths: Array
    """Lengths of all rounds so far."""
    centre: Array
    scale: Array
    """Of each output, over all chains; none where the length is not sought."""
    record: Array
    """Outputs in this round, ``(RECORD, outputs)``."""
    acceptance: Array
    path: Array
    """Sums over this round: of acceptance probabilities, and of step sizes times steps."""
    settings: Settings


def init(
    target: Target,
    burn_in: int,
    *,
    step_size: float | None,
    length: float | None,
    search: bool,
    target_acceptance: float,
    max_steps: int,
) -> Tuning:
    """Before the first transition of one chain.

    A `step_size` that is given is kept. A `length` that is given is kept; else it is sought, if
    `search`. Without `search` there are no records of outputs.
    """
    round_length = burn_in // ROUNDS if meetings(burn_in) else 0
    searches = search and length is None and round_length > 0
    count = num_features(target) if search else 0
    first = FIRST_STEP_SIZE if step_size is None else step_size
    start = jnp.asarray(UNTUNED_LENGTH if length is None else length, dtype=float)
    return Tuning(
        averaging=dual_averaging.init(jnp.asarray(first, dtype=float)),
        length=start,
        lengths=jnp.full(ROUNDS, start),
        centre=jnp.zeros(count),
        scale=jnp.ones(count),
        record=jnp.zeros((RECORD, count)),
        acceptance=jnp.zeros(()),
        path=jnp.zeros(()),
        settings=Settings(
            round_length=jnp.asarray(round_length, jnp.int32),
            end=jnp.asarray(round_length * ROUNDS if round_length else burn_in, jnp.int32),
            tunes_step_size=jnp.asarray(step_size is None),
            tunes_length=jnp.asarray(searches),
            target_acceptance=jnp.asarray(target_acceptance, dtype=float),
            max_steps=jnp.asarray(max_steps, jnp.int32),
        ),
    )


def step_size(tuning: Tuning, iteration: Array) -> Array:
    """Step size of a transition."""
    averaging, varies = tuning.averaging, _varies_step_size(tuning.settings, iteration)
    return jnp.exp(jnp.where(varies, averaging.log_step_size, averaging.log_average))


def part_of_step(tuning: Tuning, uniform: Array) -> Array:
    """What part of the step size a trajectory takes; `uniform` decides.

    The steps stay as many, so that it costs no more. A step that was given is taken as it is.
    """
    halved = tuning.settings.tunes_step_size & (uniform < HALVED)
    return jnp.where(halved, 0.5, 1.0).astype(tuning.length.dtype)


def max_steps(tuning: Tuning, iteration: Array) -> Array:
    """Most steps of a transition's trajectory."""
    settings = tuning.settings
    done = ROUNDS * iteration
    cap = jnp.where(done < CAPPED * settings.end, FIRST_CAP, SECOND_CAP)
    capped = settings.tunes_step_size & (done < SEARCH * settings.end)
    return jnp.where(capped, jnp.minimum(cap, settings.max_steps), settings.max_steps)


def learn(
    tuning: Tuning,
    iteration: Array,
    acceptance: Array,
    path: Array,
    target: Target,
    position: Array,
) -> Tuning:
    """Take in one transition, number `iteration`, of length `path`, that ended at `position`."""
    settings = tuning.settings
    tunes = iteration < settings.end
    updated = dual_averaging.update(tuning.averaging, acceptance, settings.target_acceptance)
    averaging = jax.tree.map(
        lambda new, old: jnp.where(_varies_step_size(settings, iteration), new, old),
        updated,
        tuning.averaging,
    )
    if tuning.centre.size:
        tuning = _record(tuning, iteration, target, position)
    return tuning._replace(
        averaging=averaging,
        acceptance=tuning.acceptance + jnp.where(tunes, acceptance, 0.0),
        path=tuning.path + jnp.where(tunes, path, 0.0),
    )


def _record(tuning: Tuning, iteration: Array, target: Target, position: Array) -> Tuning:
    """Keep the outputs at `position`, if the transition that led there is one to be recorded."""
    settings, stride = tuning.settings, _stride(tuning.settings)
    tunes = iteration < settings.end
    within = jnp.where(tunes, iteration % jnp.maximum(settings.round_length, 1), 0)
    record = jax.lax.cond(
        tunes & settings.tunes_length & (within % stride == 0),
        lambda: tuning.record.at[within // stride].set(_outputs(target, position)),
        lambda: tuning.record,
    )
    return tuning._replace(record=record)


class Told(NamedTuple):
    """What a chain tells after a round; the parts of one vector."""

    mean_error: Array
    log_average: Array
    acceptance: Array
    path: Array
    """Means over transitions."""
    mean: Array
    variance: Array
    """Of each output."""
    bounded_mean: Array
    bounded_square: Array
    jumps: Array
    """Of the bounded outputs: mean, mean square, and mean squared jumps ``(lags, outputs)``."""


def tell(tuning: Tuning) -> Array:
    """What one chain saw in the round that is over, as one vector."""
    settings, averaging = tuning.settings, tuning.averaging
    length = jnp.maximum(settings.round_length, 1)
    count = (length + _stride(settings) - 1) // _stride(settings)
    rows = jnp.arange(RECORD, dtype=jnp.int32)
    record = tuning.record
    mean = _mean(record, rows < count)
    bounded = _bounded(tuning, record)
    jumps = [_mean(jnp.square(bounded[lag:] - bounded[:-lag]), rows[lag:] < count) for lag in LAGS]
    told = Told(
        mean_error=averaging.mean_error,
        log_average=averaging.log_average,
        acceptance=tuning.acceptance / length.astype(record.dtype),
        path=tuning.path / length.astype(record.dtype),
        mean=mean,
        variance=_mean(jnp.square(record - mean[None]), rows < count),
        bounded_mean=_mean(bounded, rows < count),
        bounded_square=_mean(jnp.square(bounded), rows < count),
        jumps=jnp.stack(jumps),
    )
    return jnp.concatenate([leaf.reshape(-1) for leaf in told])


def listen(tuning: Tuning, told: Array, number: Array) -> Tuning:
    """Go on after round `number` with what all chains told, ``(chains, rounds, values)``.

    Rounds that are still to come hold anything.
    """
    heard = _unpack(told, tuning.centre.size)
    now = jax.tree.map(lambda leaf: leaf[:, number], heard)
    tuning = tuning._replace(
        averaging=_pool_step_size(tuning, heard, number),
        record=jnp.zeros_like(tuning.record),
        acceptance=jnp.zeros_like(tuning.acceptance),
        path=jnp.zeros_like(tuning.path),
    )
    # What the search compares is measured in the same units throughout.
    spread = jnp.median(now.variance, axis=0) + jnp.var(now.mean, axis=0)
    before = number < SEARCH
    tuning = tuning._replace(
        centre=jnp.where(before, jnp.median(now.mean, axis=0), tuning.centre),
        scale=jnp.where(before, jnp.sqrt(jnp.where(spread > 0, spread, 1.0)), tuning.scale),
    )
    length = jnp.where(
        tuning.settings.tunes_length, _next_length(tuning, heard, number), tuning.length
    )
    lengths = tuning.lengths.at[jnp.minimum(number + 1, ROUNDS - 1)].set(length)
    return tuning._replace(length=length, lengths=lengths)


def tell_state(state: Any) -> Array:
    """What each chain tells whose state has a `tuning`, ``(chains, values)``."""
    return jax.vmap(tell)(state.tuning)


def listen_state(state: Any, told: Array, number: Array) -> Any:
    """The state after a meeting, where it has a `tuning`; `told` as in `listen`."""
    return state._replace(tuning=jax.vmap(lambda each: listen(each, told, number))(state.tuning))


def _varies_step_size(settings: Settings, iteration: Array) -> Array:
    """Whether the step size is being averaged in a transition."""
    # Without rounds, to the end of burn-in.
    held = jnp.where(settings.round_length > 0, SEARCH * settings.round_length, settings.end)
    return settings.tunes_step_size & (iteration < held)


def _pool_step_size(tuning: Tuning, heard: Told, number: Array) -> DualAveraging:
    pooled = dual_averaging.pool(
        tuning.averaging,
        jnp.mean(heard.mean_error[:, number]),
        jnp.mean(heard.log_average[:, number]),
    )
    # A new average where trajectories become longer.
    fresh = dual_averaging.init(jnp.exp(pooled.log_average), lift=1.0)
    kept = jax.tree.map(lambda new, old: jnp.where(number == CAPPED - 1, new, old), fresh, pooled)
    found = _fitting_step_size(heard, number, tuning.settings.target_acceptance)
    kept = kept._replace(log_average=jnp.where(number >= SEARCH, found, kept.log_average))
    tunes = tuning.settings.tunes_step_size
    return jax.tree.map(lambda new, old: jnp.where(tunes, new, old), kept, tuning.averaging)


def _fitting_step_size(heard: Told, number: Array, target: Array) -> Array:
    """Logarithm of the step size at which chains would have accepted as often as they should.

    Energy errors are nearly normal with a mean of half their variance, and the variance goes with
    the fourth power of the step: the acceptance is ``2 Phi(-c step^2)``. There is a ``c`` for each
    chain and round, since some regions are narrower than others. The target is that of trajectories
    with whole steps; of those that take half of it more are accepted.
    """
    of_halved = 2 * jax.scipy.stats.norm.cdf(jax.scipy.stats.norm.ppf(target / 2) / 4)
    wanted = (1 - HALVED) * target + HALVED * of_halved
    rounds = jnp.arange(ROUNDS, dtype=jnp.int32)
    looked_at = (rounds >= SEARCH) & (rounds <= number)
    # Later rounds count more: in the first ones a chain may still be on its way.
    weights = jnp.where(looked_at, rounds - SEARCH + 1, 0)
    weights = weights.astype(heard.acceptance.dtype)
    weights /= jnp.maximum(jnp.sum(weights), 1.0)
    log_steps = heard.log_average  # of rounds in which it was held
    now = jnp.mean(log_steps[:, number])
    errors = -jax.scipy.stats.norm.ppf(jnp.clip(heard.acceptance, 0.01, 0.9999) / 2)
    errors = jnp.where(looked_at[None], errors, 1.0)
    log_steps = jnp.where(looked_at[None], log_steps, now)

    def is_small(log_step: Array) -> Array:
        grown = errors * jnp.exp(2 * (log_step - log_steps))
        accepted = 2 * jax.scipy.stats.norm.cdf(-grown) @ weights
        # A mean must not hide a chain that accepts far less.
        return jnp.minimum(jnp.mean(accepted), jnp.min(accepted) + LAGGING) > wanted

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        small = is_small(middle)
        return jnp.where(small, middle, low), jnp.where(small, high, middle)

    low, high = jax.lax.fori_loop(0, 20, halve, (now - _MOST, now + _MOST))
    return (low + high) / 2


def _next_length(tuning: Tuning, heard: Told, number: Array) -> Array:
    """The length of the round after round `number`."""
    step = jnp.exp(tuning.averaging.log_average)
    least = jnp.maximum(jnp.minimum(LEAST_LENGTH, MANY_STEPS * step), LEAST_STEPS * step)
    first = jnp.maximum(jnp.minimum(SECOND_CAP * step, UNTUNED_LENGTH), least)
    rounds = jnp.arange(ROUNDS, dtype=jnp.int32)
    tried = (rounds >= SEARCH) & (rounds <= number)
    scores = _smooth(_scores(tuning, heard, tried), tuning.lengths, tried)
    best = tuning.lengths[jnp.argmax(scores)]
    # Neighbours of the best that were not tried, the best itself where all were.
    ladder = best * jnp.asarray(_LADDER, dtype=best.dtype)
    near = jnp.abs(jnp.log(ladder[:, None] / tuning.lengths[None])) < _NEAR
    known = jnp.any(near & tried[None], axis=1)
    most = tuning.settings.max_steps.astype(best.dtype) * step
    wanted = ((ladder >= least) & (ladder <= most) & ~known).at[-1].set(True)
    neighbour = ladder[jnp.argmax(wanted)]
    following = number + 1
    # The step size may have grown since a length was tried, and the least length with it.
    return jnp.select(
        [following < SEARCH, following == SEARCH, following < FINAL, following == FINAL],
        [tuning.length, first, neighbour, jnp.maximum(best, least)],
        jnp.maximum(tuning.length, least),
    )


def _smooth(scores: Array, lengths: Array, tried: Array) -> Array:
    """Scores of the lengths tried, each a geometric mean over those near it; else 0."""
    octaves = jnp.log2(lengths[:, None] / lengths[None])
    weights = jnp.exp(-0.5 * jnp.square(octaves / _SMOOTHING)) * tried[None].astype(scores.dtype)
    logs = jnp.where(tried, jnp.log(jnp.where(tried, scores, 1.0)), 0.0)
    means = weights @ logs / jnp.maximum(jnp.sum(weights, axis=1), 1e-6)
    return jnp.where(tried, jnp.exp(means), 0.0)


def _scores(tuning: Tuning, heard: Told, tried: Array) -> Array:
    """Effective draws of a transition over a power of its length, in each round, ``(rounds,)``."""

    def over_chains(values: Array) -> Array:
        return jnp.mean(values, axis=0)

    weights = tried.astype(heard.mean.dtype)
    weights /= jnp.maximum(jnp.sum(weights), 1.0)
    square, mean = over_chains(heard.bounded_square), over_chains(heard.bounded_mean)
    # Over all chains and rounds of the search.
    variance = weights @ square - jnp.square(weights @ mean)
    moves = variance > 0
    scale = jnp.where(moves, 2 * variance, 1.0)
    correlation = 1 - over_chains(heard.jumps) / scale[None, None]  # (rounds, lags, outputs)
    transitions = jnp.asarray(LAGS, jnp.int32) * _stride(tuning.settings)
    lags = transitions.astype(correlation.dtype)[None, :, None]
    root = jnp.clip(correlation, 0.02, 1 - 1e-5) ** (1 / lags)
    effective = (1 - root) / (1 + root)
    measured = (2 * transitions < tuning.settings.round_length)[None, :, None]
    seen = ((correlation > SEEN) & measured).at[:, 0].set(True)
    last = len(LAGS) - 1 - jnp.argmax(seen[:, ::-1], axis=1)
    slowest = jnp.take_along_axis(effective, last[:, None], axis=1)[:, 0]
    mean_time = jnp.sum(jnp.where(moves[None], 1 / slowest, 0.0), axis=1)
    mean_time /= jnp.maximum(jnp.sum(moves), 1).astype(mean_time.dtype)
    draws = 1 / jnp.maximum(mean_time, 1.0)
    most = jnp.max(jnp.where(tried, draws, 0.0))
    power = jnp.interp(
        most,
        jnp.asarray(FEW_MANY_DRAWS, dtype=draws.dtype),
        jnp.asarray([0.5, 1.0], dtype=draws.dtype),
    )
    return draws / jnp.where(tried, over_chains(heard.path), 1.0) ** power


def _unpack(told: Array, count: int) -> Told:
    """Vectors ``(chains, rounds, values)`` as their parts, each ``(chains, rounds, ...)``."""
    sizes = [1, 1, 1, 1, count, count, count, count, len(LAGS) * count]
    parts = jnp.split(told, np.cumsum(sizes)[:-1].tolist(), axis=2)
    parts[:4] = [each[:, :, 0] for each in parts[:4]]
    parts[8] = parts[8].reshape(*told.shape[:2], len(LAGS), count)
    return Told._make(parts)


def _bounded(tuning: Tuning, outputs: Array) -> Array:
    """Outputs in units of their spread, bounded so that heavy tails don't drown the rest."""
    return jnp.tanh((outputs - tuning.centre[None]) / tuning.scale[None])


def _stride(settings: Settings) -> Array:
    """Of so many transitions one is recorded."""
    return jnp.maximum((settings.round_length + RECORD - 1) // RECORD, 1)


def _mean(values: Array, chosen: Array) -> Array:
    """Mean over the chosen rows; zero where there are none."""
    weight = chosen[:, None].astype(values.dtype)
    return jnp.sum(values * weight, axis=0) / jnp.maximum(jnp.sum(weight), 1.0)


def _outputs(target: Target, position: Array) -> Array:
    outputs = features(target, target.vectors(position)[0])
    return jnp.nan_to_num(outputs, nan=0.0, posinf=1e6, neginf=-1e6)
