"""The search for a trajectory length: how fast outputs of the network are forgotten, per gradient.

In each round of the search all chains use one length, and record the outputs ``f`` at probe inputs.
Squared jumps of ``f`` over 1, 2, 4, ... transitions, against the variance of ``f`` over all chains,
give autocorrelations, and these the effective draws of a transition for each output. Their harmonic
mean, in which slow outputs count most, over the length is the score. (Jumps over one transition
alone favour lengths two to three times too short: they see what is fast in ``f``, not what is slow.
So do, less so, jumps over as many transitions as a round has. Where even the best length seen gives
only a few effective draws a transition, so that a round is short for it, the root stands in place
of the length, as in the paper's reward. The length and not the number of steps, because the step
size still varies.) The search climbs by factors of two, then by their square root.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

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
MIN_STEPS = 4
MIN_LENGTH, MANY_STEPS = 0.7, 512
_LADDER = (2.0, 0.5, 2**0.5, 0.5**0.5, 1.0)
_NEAR = 0.2  # in the logarithm, less than half of the smallest rung


class Units(NamedTuple):
    """Centre and spread of each output over all chains, in which its jumps are measured."""

    centre: Array
    scale: Array


class Summary(NamedTuple):
    """What is told of the outputs that a chain recorded in a round."""

    mean: Array
    variance: Array
    bounded_mean: Array
    bounded_square: Array
    jumps: Array
    """Of the bounded outputs: mean, mean square, and mean squared jumps ``(lags, outputs)``."""


def stride(round_length: Array) -> Array:
    """Of so many transitions one is recorded."""
    return jnp.maximum((round_length + RECORD - 1) // RECORD, 1)


def summarise(record: Array, round_length: Array, units: Units) -> Summary:
    """The summary of a `record` ``(RECORD, outputs)``, filled as far as a round goes."""
    each = stride(round_length)
    count = (jnp.maximum(round_length, 1) + each - 1) // each
    rows = jnp.arange(RECORD, dtype=jnp.int32)
    mean = _mean(record, rows < count)
    # In units of their spread, bounded so that heavy tails don't drown the rest.
    bounded = jnp.tanh((record - units.centre[None]) / units.scale[None])
    jumps = [_mean(jnp.square(bounded[lag:] - bounded[:-lag]), rows[lag:] < count) for lag in LAGS]
    return Summary(
        mean=mean,
        variance=_mean(jnp.square(record - mean[None]), rows < count),
        bounded_mean=_mean(bounded, rows < count),
        bounded_square=_mean(jnp.square(bounded), rows < count),
        jumps=jnp.stack(jumps),
    )


def common_units(mean: Array, variance: Array) -> Units:
    """Units from what chains told of a round, both ``(chains, outputs)``."""
    spread = jnp.median(variance, axis=0) + jnp.var(mean, axis=0)
    return Units(jnp.median(mean, axis=0), jnp.sqrt(jnp.where(spread > 0, spread, 1.0)))


def scores(told: Summary, paths: Array, tried: Array, round_length: Array) -> Array:
    """Effective draws of a transition over a power of its length, in each round, ``(rounds,)``.

    `told` and the mean length `paths` of trajectories are ``(chains, rounds, ...)``. Only rounds in
    which a length was `tried` count.
    """

    def over_chains(values: Array) -> Array:
        return jnp.mean(values, axis=0)

    weights = tried.astype(told.mean.dtype)
    weights /= jnp.maximum(jnp.sum(weights), 1.0)
    square, mean = over_chains(told.bounded_square), over_chains(told.bounded_mean)
    # Over all chains and rounds of the search.
    variance = weights @ square - jnp.square(weights @ mean)
    moves = variance > 0
    scale = jnp.where(moves, 2 * variance, 1.0)
    correlation = 1 - over_chains(told.jumps) / scale[None, None]  # (rounds, lags, outputs)
    transitions = jnp.asarray(LAGS, jnp.int32) * stride(round_length)
    lags = transitions.astype(correlation.dtype)[None, :, None]
    root = jnp.clip(correlation, 0.02, 1 - 1e-5) ** (1 / lags)
    effective = (1 - root) / (1 + root)
    measured = (2 * transitions < round_length)[None, :, None]
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
    return draws / jnp.where(tried, over_chains(paths), 1.0) ** power


def min_length(step_size: Array, many_steps: int | Array) -> Array:
    """The shortest length, with at most `many_steps`."""
    few, many = MIN_STEPS * step_size, many_steps * step_size
    return jnp.maximum(jnp.minimum(MIN_LENGTH, many), few)


def best_and_next(
    scored: Array, lengths: Array, tried: Array, shortest: Array, longest: Array
) -> tuple[Array, Array]:
    """The best of the lengths `tried`, and the one to try next, given `scores` of the rounds."""
    best = lengths[jnp.argmax(_smooth(scored, lengths, tried))]
    # Neighbours of the best that were not tried, the best itself where all were.
    ladder = best * jnp.asarray(_LADDER, dtype=best.dtype)
    near = jnp.abs(jnp.log(ladder[:, None] / lengths[None])) < _NEAR
    known = jnp.any(near & tried[None], axis=1)
    wanted = ((ladder >= shortest) & (ladder <= longest) & ~known).at[-1].set(True)
    return best, ladder[jnp.argmax(wanted)]


def _smooth(scored: Array, lengths: Array, tried: Array) -> Array:
    """Scores of the lengths tried, each a geometric mean over those near it; else 0."""
    octaves = jnp.log2(lengths[:, None] / lengths[None])
    weights = jnp.exp(-0.5 * jnp.square(octaves / _SMOOTHING)) * tried[None].astype(scored.dtype)
    logs = jnp.where(tried, jnp.log(jnp.where(tried, scored, 1.0)), 0.0)
    means = weights @ logs / jnp.maximum(jnp.sum(weights, axis=1), 1e-6)
    return jnp.where(tried, jnp.exp(means), 0.0)


def _mean(values: Array, chosen: Array) -> Array:
    """Mean over the chosen rows; zero where there are none."""
    weight = chosen[:, None].astype(values.dtype)
    return jnp.sum(values * weight, axis=0) / jnp.maximum(jnp.sum(weight), 1.0)
