"""The search for a trajectory length: how fast outputs of the network are forgotten, per gradient.

In each round of the search all chains use one length, and record the outputs ``f`` at probe inputs.
Squared jumps of ``f`` over 1, 2, 4, ... transitions, against the variance of ``f`` over all chains,
give autocorrelations, and these the effective draws of a transition for each output. Their harmonic
mean, in which slow outputs count most, over the length is the score. (Jumps over one transition
alone see what is fast in ``f``, and favor lengths two to three times too short; so do, less so,
jumps over as many transitions as a round has. Where even the best length seen gives few effective
draws a transition, the root of the length counts, as in the paper's reward. It is not the number of
steps, as the step size still varies.) The search climbs by factors of two, then by their root.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.engine.forward import Data
from tensorbnn.inference.target import TargetDensity

# Outputs at all probe inputs, about: more of them say hardly more, fewer might miss a slow one.
FEATURES, LEAST_PROBES = 32, 8
# Fractional parts of powers of the plastic number: multiples of them are spread evenly in 3-D.
_RATIOS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
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
# No shorter ones are tried, unless such a length takes many steps: few steps are a random walk, and
# draws should be worth keeping. (On networks of a few hundred parameters lengths from 0.35 to 0.7
# give as many effective draws a gradient, and the longest of them twice as many a draw.)
MIN_STEPS = 4
MIN_LENGTH, MANY_STEPS = 0.7, 512
_LADDER = (2.0, 0.5, 2**0.5, 0.5**0.5, 1.0)
_NEAR = 0.2  # in the logarithm, less than half of the smallest rung


class Units(NamedTuple):
    """Center and spread of each output over all chains, in which its jumps are measured."""

    center: Array
    scale: Array


class Summary(NamedTuple):
    """What a chain shares of the outputs that it recorded in a round."""

    mean: Array
    variance: Array
    bounded_mean: Array
    bounded_square: Array
    jumps: Array
    """Of the bounded outputs: mean, mean square, and mean squared jumps ``(lags, outputs)``."""


def num_features(target: TargetDensity) -> int:
    """Number of values `features` has."""
    return _num_probes(target) * target.model.network.outputs


def features(target: TargetDensity, theta: Array) -> Array:
    """Outputs of the network with parameters `theta` at all probe inputs, ``(num_features,)``."""
    parameters = target.model.theta.unflatten(theta)
    return target.model.network.apply(parameters, probe_inputs(target)).reshape(-1)


def probe_inputs(target: TargetDensity) -> Array:
    """The probe inputs, ``(inputs, probes)``.

    Half of them are training rows, half lie around them, where predictions are extrapolated and
    chains mix least: a row plus half the difference of two others. Without data they are standard
    normal. They follow from the data alone, so that a resumed run has the same.
    """
    count = _num_probes(target)
    if target.data is None:
        shape = (target.model.network.inputs, count)
        return jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype=float)
    # Rows are picked evenly; the three that make a point around them are far from each other.
    half = count // 2
    picked = np.arange(count - half) / (count - half)
    places = [(np.arange(half) * ratio + 0.5 / half) % 1.0 for ratio in _RATIOS]
    base, plus, minus = (_rows(target.data, each) for each in places)
    return jnp.concatenate([_rows(target.data, picked), base + (plus - minus) / 2], axis=1)


def stride(round_length: Array) -> Array:
    """Of so many transitions one is recorded."""
    return jnp.maximum((round_length + RECORD - 1) // RECORD, 1)


def summarize(record: Array, round_length: Array, units: Units) -> Summary:
    """The summary of a `record` ``(RECORD, outputs)``, filled as far as a round goes."""
    each = stride(round_length)
    count = (jnp.maximum(round_length, 1) + each - 1) // each
    rows = jnp.arange(RECORD, dtype=jnp.int32)
    mean = _mean(record, rows < count)
    # In units of their spread, bounded so that heavy tails don't drown the rest.
    bounded = jnp.tanh((record - units.center[None]) / units.scale[None])
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
    weights = tried.astype(told.mean.dtype)
    weights /= jnp.maximum(jnp.sum(weights), 1.0)
    square, mean = told.bounded_square.mean(axis=0), told.bounded_mean.mean(axis=0)
    # Over all chains and rounds of the search.
    variance = weights @ square - jnp.square(weights @ mean)
    moves = variance > 0
    scale = jnp.where(moves, 2 * variance, 1.0)
    correlation = 1 - told.jumps.mean(axis=0) / scale[None, None]  # (rounds, lags, outputs)
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
    limits = jnp.asarray(FEW_MANY_DRAWS, dtype=draws.dtype)
    power = jnp.interp(most, limits, jnp.asarray([0.5, 1.0], dtype=draws.dtype))
    return draws / jnp.where(tried, paths.mean(axis=0), 1.0) ** power


def min_length(step_size: Array, many_steps: int | Array) -> Array:
    """The shortest length, with at most `many_steps`."""
    few, many = MIN_STEPS * step_size, many_steps * step_size
    return jnp.maximum(jnp.minimum(MIN_LENGTH, many), few)


def best_and_next(
    scored: Array, lengths: Array, tried: Array, shortest: Array, longest: Array
) -> tuple[Array, Array]:
    """The best of the lengths `tried`, and the one to try next, given `scores` of the rounds."""
    best = lengths[jnp.argmax(_smooth(scored, lengths, tried))]
    # Neighbors of the best that were not tried, the best itself where all were.
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


def _num_probes(target: TargetDensity) -> int:
    return max(FEATURES // target.model.network.outputs, LEAST_PROBES)


def _rows(data: Data, places: NDArray[np.floating[Any]]) -> Array:
    """Rows at `places` in [0, 1) of all rows, ``(inputs, places)``."""
    tiles, _, size = data.tile_inputs.shape
    whole = tiles * size
    rows = (places * (whole + data.targets.shape[1])).astype(int)
    found = [
        data.tile_inputs[row // size, :, row % size] if row < whole else data.inputs[:, row - whole]
        for row in rows.tolist()
    ]
    return jnp.stack(found, axis=1)
