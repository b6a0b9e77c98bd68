"""Statistics over weighted networks, and over chains, as functions of arrays.

The networks are the first axis. Weights are ``(networks,)`` and sum to one; ``None`` means
equal weights, for which each function equals NumPy's of the same name.

The entropy of predicted classes is that of the mean probabilities, in nats, and

    H(sum_j w_j p_j) = sum_j w_j H(p_j) + mutual information

over networks ``j`` with class probabilities ``p_j``. More data can reduce the second term, but not
the first.

An autocorrelation uses the mean over all networks and only pairs within a chain. So chains that
disagree show a correlation that does not decay, as intended.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import OptionError
from tensorbnn.model.layers import Softmax
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.warning import LagWarning, warn

SORTED_AT_ONCE = 2**20
# Sokal's window: the sum of correlations ends at the first lag that is this many times the sum.
WINDOW = 5.0


def moments(values: NDArray[Any], weights: NDArray[Any] | None) -> tuple[NDArray[Any], ...]:
    """Mean and variance over networks, in float64."""
    if weights is None:
        return values.mean(axis=0, dtype=np.float64), values.var(axis=0, dtype=np.float64)
    # Relative to the first network, so that rounding gives equal values no variance.
    mean = values[0] + average(values - values[0], weights)
    return mean, average(np.square(values - mean), weights)


def average(values: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[Any]:
    """Mean over networks, in float64."""
    if weights is None:
        return values.mean(axis=0, dtype=np.float64)
    return np.tensordot(weights, values, axes=(0, 0))


def quantile(
    values: NDArray[Any], wanted: NDArray[Any], weights: NDArray[Any] | None
) -> NDArray[Any]:
    """Quantiles over networks, of the shape of `wanted` and the rest of `values`.

    With weights, the smallest value up to which the weights add up to the probability.
    """
    if weights is None:
        return np.quantile(values, wanted, axis=0)
    columns = values.reshape(len(values), -1)
    step = max(SORTED_AT_ONCE // len(values), 1)
    parts = [
        _sorted_quantile(columns[:, first : first + step], np.atleast_1d(wanted), weights)
        for first in range(0, columns.shape[1], step)
    ]
    return np.concatenate(parts, axis=1).reshape(*wanted.shape, *values.shape[1:])


def ordered(draws: NDArray[Any], weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draws in increasing order, and their weights."""
    order = np.argsort(draws, axis=0)
    return np.take_along_axis(draws, order, axis=0), weights[order]


def weibull_quantile(
    draws: NDArray[Any], wanted: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Weighted quantiles ``(wanted, rows, outputs)``; with equal weights, Weibull's quantiles.

    A draw up to which the weights add up to ``c`` is the quantile for ``c n / (n + 1)``, where
    ``n`` is the effective number of draws; in between, quantiles are interpolated.
    """
    some = weights > 0
    draws, weights = draws[some], weights[some]
    values, own = ordered(draws, weights)
    count = 1 / np.sum(np.square(weights))
    places = np.cumsum(own, axis=0) * count / (count + 1)
    found = np.empty((len(wanted), *draws.shape[1:]))
    for place in np.ndindex(draws.shape[1:]):
        found[:, *place] = np.interp(wanted, places[:, *place], values[:, *place])
    return found


def histogram(
    values: NDArray[Any], edges: NDArray[Any], weights: NDArray[Any] | None
) -> NDArray[Any]:
    """Share of the networks in each bin, bins last; values outside the edges are in no bin."""
    count, bins = len(values), len(edges) - 1
    own = np.full(count, 1 / count) if weights is None else weights
    shares = [np.histogram(column, edges, weights=own)[0] for column in values.reshape(count, -1).T]
    return np.reshape(shares, (*values.shape[1:], bins))


def entropy(probabilities: NDArray[Any], likelihood: Likelihood) -> NDArray[Any]:
    """Entropy of classes whose probabilities are last: one for all, or one for each column."""
    own = np.asarray(probabilities, np.float64)
    if likelihood.link is Softmax:
        return _terms(own).sum(axis=-1)
    return _terms(own) + _terms(1 - own)


def mutual_information(
    probabilities: NDArray[Any], likelihood: Likelihood, weights: NDArray[Any] | None
) -> NDArray[Any]:
    """Mutual information of class and network, of probabilities ``(networks, rows, columns)``."""
    together = entropy(average(probabilities, weights), likelihood)
    # Only rounding can make it negative.
    return np.maximum(together - average(entropy(probabilities, likelihood), weights), 0.0)


def autocorrelation(values: NDArray[Any], max_lag: int) -> NDArray[Any]:
    """Autocorrelation of predictions ``(chains, draws, rows, outputs)``; see `Ensemble`."""
    _check_lag(max_lag, values.shape[1])
    total, count = np.zeros((max_lag + 1, values.shape[3])), np.zeros(values.shape[3])
    for row in range(values.shape[2]):
        rho = _normalized(values[:, :, row], max_lag)
        defined = np.isfinite(rho[0])
        total[:, defined] += rho[:, defined]
        count += defined
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def autocorrelation_time(values: NDArray[Any], max_lag: int | None = None) -> NDArray[Any]:
    """Autocorrelation time of predictions ``(chains, draws, rows, outputs)``; see `Ensemble`.

    Sokal's window, which keeps out noise, only ends at a positive sum. A chain of ``N`` draws is
    worth about ``N`` divided by this time independent ones. NaN if no prediction ever changes.
    """
    max_lag = max(values.shape[1] // 2, 1) if max_lag is None else max_lag
    _check_lag(max_lag, values.shape[1])
    found = [_lengths(_normalized(values[:, :, row], max_lag)) for row in range(values.shape[2])]
    lengths, ended = (np.stack(each) for each in zip(*found, strict=True))
    defined = np.isfinite(lengths)
    if not np.all(ended | ~defined):
        rows = int((defined & ~ended).any(axis=1).sum())
        warn(LagWarning(max_lag=max_lag, rows=rows, of=len(lengths)))
    count = defined.sum(axis=0)
    total = np.where(defined, lengths, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _sorted_quantile(
    columns: NDArray[Any], wanted: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Quantiles ``(wanted, columns)`` of each column ``(networks, columns)``."""
    order = np.argsort(columns, axis=0)
    cumulated = np.cumsum(weights[order], axis=0)
    # A sum that should equal the probability must not fall below it by rounding.
    goal = wanted[:, None] * cumulated[-1] * (1 - 1e-12)
    places = np.stack([(cumulated < each).sum(axis=0).clip(max=len(columns) - 1) for each in goal])
    # At probability 0, the smallest value with a nonzero weight.
    lowest = (cumulated <= 0).sum(axis=0)
    places = np.maximum(places, lowest)
    ranked = np.take_along_axis(columns, order, axis=0)
    return np.take_along_axis(ranked, places, axis=0)


def _terms(probabilities: NDArray[Any]) -> NDArray[Any]:
    """``-p log p``; zero where ``p`` is zero."""
    safe = np.where(probabilities > 0, probabilities, 1.0)
    return 0.0 - safe * np.log(safe)


def _normalized(series: NDArray[Any], max_lag: int) -> NDArray[Any]:
    """``rho(n)`` of ``(chains, draws, outputs)`` for n of 0 to `max_lag`, ``(lags, outputs)``."""
    values = np.asarray(series, np.float64)
    draws = values.shape[1]
    centered = values - values.mean(axis=(0, 1))
    # Zero padding prevents wraparound from the end of a chain to its start.
    length = 1 << (draws + max_lag - 1).bit_length()  # a power of two is fast
    transform = np.fft.rfft(centered, length, axis=1)
    power = np.square(transform.real) + np.square(transform.imag)
    sums = np.fft.irfft(power.mean(axis=0), length, axis=0)[: max_lag + 1]
    covariance = sums / (draws - np.arange(max_lag + 1))[:, None]
    constant = np.ptp(values, axis=(0, 1)) == 0
    return np.where(constant, np.nan, covariance / np.where(constant, 1.0, covariance[0]))


def _lengths(rho: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Autocorrelation time of each output of ``(lags, outputs)``, and whether its window ended."""
    sums = 2.0 * np.cumsum(rho, axis=0) - 1.0
    # The sums of an antithetic chain alternate, but an autocorrelation time is never negative.
    ends = (np.arange(len(rho))[:, None] >= WINDOW * sums) & (sums > 0)
    ended = np.asarray(ends.any(axis=0))
    window = np.where(ended, np.argmax(ends, axis=0), len(rho) - 1)
    return np.take_along_axis(sums, window[None], axis=0)[0], ended


def _check_lag(max_lag: int, draws: int) -> None:
    if max_lag >= draws:
        wanted = f"below the number of draws a chain, which is {draws}"
        raise OptionError("max_lag", wanted, max_lag)
