"""Statistics over networks that carry weights, as functions of arrays.

The networks are the first axis. Weights are ``(networks,)`` and sum to one; ``None`` stands for
equal ones, with which each function is what NumPy has under its name.

The entropy of predicted classes is that of the mean probabilities, in nats, and

    H(sum_j w_j p_j) = sum_j w_j H(p_j) + mutual information

over networks ``j`` with class probabilities ``p_j``. The first term is what no more data could
remove, the second what they could.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.model.layers import Softmax
from tensorbnn.model.likelihoods import Likelihood

# Values that are sorted at once.
SORTED_AT_ONCE = 2**20


def moments(values: NDArray[Any], weights: NDArray[Any] | None) -> tuple[NDArray[Any], ...]:
    """Mean and variance over networks, in float64."""
    if weights is None:
        return values.mean(axis=0, dtype=np.float64), values.var(axis=0, dtype=np.float64)
    # From the first network on, so that what is the same for all has no variance by rounding.
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

    With weights, the smallest value up to which the weights sum to the wanted probability.
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


def histogram(
    values: NDArray[Any], edges: NDArray[Any], weights: NDArray[Any] | None
) -> NDArray[Any]:
    """Share of the networks in each bin, bins last; those outside the edges count in none."""
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
    # Never below zero but for rounding.
    return np.maximum(together - average(entropy(probabilities, likelihood), weights), 0.0)


def _sorted_quantile(
    columns: NDArray[Any], wanted: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Quantiles ``(wanted, columns)`` of each column ``(networks, columns)``."""
    order = np.argsort(columns, axis=0)
    cumulated = np.cumsum(weights[order], axis=0)
    # Rounding must not push a sum that is meant to be equal below what is wanted.
    goal = wanted[:, None] * cumulated[-1] * (1 - 1e-12)
    places = np.stack([(cumulated < each).sum(axis=0).clip(max=len(columns) - 1) for each in goal])
    # At probability 0, the smallest value that has any weight.
    lowest = (cumulated <= 0).sum(axis=0)
    places = np.maximum(places, lowest)
    ranked = np.take_along_axis(columns, order, axis=0)
    return np.take_along_axis(ranked, places, axis=0)


def _terms(probabilities: NDArray[Any]) -> NDArray[Any]:
    """``-p log p``, zero where ``p`` is."""
    safe = np.where(probabilities > 0, probabilities, 1.0)
    return 0.0 - safe * np.log(safe)
