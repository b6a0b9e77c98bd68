"""The search for the trajectory length with the most effective draws per gradient.

In each round of the search all chains use one length and record the outputs ``f`` of the network at
probe inputs. Squared jumps of ``f`` over 1, 2, 4, ... transitions, divided by the variance of ``f``
over all chains, give autocorrelations, and from them the effective draws per transition of each
output. The score is their harmonic mean, in which slow outputs count most, divided by the length.
(Jumps over a single transition only show the fast part of ``f`` and favor lengths two to three
times too short; jumps over a whole round have the same problem, but less. If even the best length
gives few effective draws per transition, the score divides by the root of the length, as in the
paper's reward. It uses the length rather than the number of steps, because the step size still
varies.) The search climbs by factors of two, then by factors of the root of two.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.engine.forward import Data
from tensorbnn.inference.target import TargetDensity

# Approximate number of outputs at all probe inputs, and least number of probe inputs: more outputs
# add little, fewer might miss a slow one.
FEATURES, LEAST_PROBES = 32, 8
# Fractional parts of powers of the plastic number, whose multiples are spread evenly in 3-D.
_RATIOS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
# Maximum number of recorded transitions in a round, evenly spaced, and the lags of the jumps.
RECORD = 64
LAGS = (1, 2, 4, 8, 16, 32)
# The decay of an output is measured by its autocorrelation at the longest lag where it is above
# this: shorter lags show only the fast part, longer ones only noise.
SEEN = 0.25
# With fewer effective draws per transition than the first number, the score divides by the root of
# the length; with more than the second, by the length itself.
FEW_MANY_DRAWS = (0.1, 0.5)
_SMOOTHING = 0.5  # octaves
# The shortest length, unless it takes many steps: a few steps make a random walk, whose draws are
# nearly equal. (On networks with a few hundred parameters, lengths from 0.35 to 0.7 give the same
# number of effective draws per gradient, and the longest of them twice as many per transition.)
MIN_STEPS = 4
MIN_LENGTH, MANY_STEPS = 0.7, 512
_LADDER = (2.0, 0.5, 2**0.5, 0.5**0.5, 1.0)
_NEAR = 0.2  # in the logarithm, less than half of the smallest rung


class Units(NamedTuple):
    """Center and spread of each output over all chains: the units of its jumps."""

    center: Array
    scale: Array


class Summary(NamedTuple):
    """The summary of the outputs in a round that a chain shares."""

    mean: Array
    variance: Array
    bounded_mean: Array
    bounded_square: Array
    jumps: Array
    """Mean, mean square, and mean squared jumps ``(lags, outputs)`` of the bounded outputs."""


def num_features(target: TargetDensity) -> int:
    """Number of values that `features` returns."""
    return _num_probes(target) * target.model.network.outputs


def features(target: TargetDensity, theta: Array) -> Array:
    """Outputs of the network with parameters `theta` at all probe inputs, ``(num_features,)``."""
    parameters = target.model.theta.unflatten(theta)
    return target.model.network.apply(parameters, probe_inputs(target)).reshape(-1)


def probe_inputs(target: TargetDensity) -> Array:
    """The probe inputs, ``(inputs, probes)``.

    Half of them are training rows. The others lie around these (a row plus half the difference of
    two others), where networks extrapolate and chains mix most slowly. Without data they are
    standard normal. They depend only on the data, so a resumed run has the same ones.
    """
    count = _num_probes(target)
    if target.data is None:
        shape = (target.model.network.inputs, count)
        return jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype=float)
    # Evenly spaced rows; each point around them comes from three rows that are far apart.
    half = count // 2
    picked = np.arange(count - half) / (count - half)
    places = [(np.arange(half) * ratio + 0.5 / half) % 1.0 for ratio in _RATIOS]
    base, plus, minus = (_rows(target.data, each) for each in places)
    return jnp.concatenate([_rows(target.data, picked), base + (plus - minus) / 2], axis=1)


def stride(round_length: Array) -> Array:
    """The number of transitions between recorded ones."""
    return jnp.maximum((round_length + RECORD - 1) // RECORD, 1)


def summarize(record: Array, round_length: Array, units: Units) -> Summary:
    """The summary of a `record` ``(RECORD, outputs)`` of a round, which may be partly filled."""
    each = stride(round_length)
    count = (jnp.maximum(round_length, 1) + each - 1) // each
    rows = jnp.arange(RECORD, dtype=jnp.int32)
    mean = _mean(record, rows < count)
    # In units of their spread, and bounded, so that heavy tails don't dominate.
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
    """Units from means and variances that chains shared, both ``(chains, outputs)``."""
    spread = jnp.median(variance, axis=0) + jnp.var(mean, axis=0)
    return Units(jnp.median(mean, axis=0), jnp.sqrt(jnp.where(spread > 0, spread, 1.0)))


def scores(shared: Summary, paths: Array, tried: Array, round_length: Array) -> Array:
    """Effective draws per transition, divided by a power of the length, per round ``(rounds,)``.

    `shared` and the mean length `paths` of trajectories are ``(chains, rounds, ...)``. Only rounds
    in which a length was `tried` count.
    """
    weights = tried.astype(shared.mean.dtype)
    weights /= jnp.maximum(jnp.sum(weights), 1.0)
    square, mean = shared.bounded_square.mean(axis=0), shared.bounded_mean.mean(axis=0)
    # Over all chains and rounds of the search.
    variance = weights @ square - jnp.square(weights @ mean)
    moves = variance > 0
    scale = jnp.where(moves, 2 * variance, 1.0)
    correlation = 1 - shared.jumps.mean(axis=0) / scale[None, None]  # (rounds, lags, outputs)
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
    """The shortest length that takes at most `many_steps`."""
    few, many = MIN_STEPS * step_size, many_steps * step_size
    return jnp.maximum(jnp.minimum(MIN_LENGTH, many), few)


def best_and_next(
    scored: Array, lengths: Array, tried: Array, shortest: Array, longest: Array
) -> tuple[Array, Array]:
    """The best of the lengths `tried` by the `scores` of the rounds, and the one to try next."""
    best = lengths[jnp.argmax(_smooth(scored, lengths, tried))]
    # An untried neighbor of the best, or the best itself if all were tried.
    ladder = best * jnp.asarray(_LADDER, dtype=best.dtype)
    near = jnp.abs(jnp.log(ladder[:, None] / lengths[None])) < _NEAR
    known = jnp.any(near & tried[None], axis=1)
    wanted = ((ladder >= shortest) & (ladder <= longest) & ~known).at[-1].set(True)
    return best, ladder[jnp.argmax(wanted)]


def _smooth(scored: Array, lengths: Array, tried: Array) -> Array:
    """Scores of the lengths tried, each a geometric mean over nearby ones; 0 for the others."""
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
