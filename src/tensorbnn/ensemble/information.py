"""How unsure predicted classes are, and how much of that is disagreement between networks.

    H(sum_j w_j p_j) = sum_j w_j H(p_j) + mutual information

over networks ``j`` with class probabilities ``p_j``, in nats. The first term is what no more data
could remove, the second what they could.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.weighted import average
from tensorbnn.model.layers import Softmax
from tensorbnn.model.likelihoods import Likelihood


def entropy(probabilities: NDArray[Any], likelihood: Likelihood) -> NDArray[Any]:
    """Entropy of classes whose probabilities are last: one for all, or one for each column.

    Examples
    --------
    >>> from tensorbnn.model.classes import Bernoulli, Categorical
    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]]), Categorical()).round(3).tolist()
    [0.693, 0.0]
    >>> entropy(np.array([[0.5], [1.0]]), Bernoulli()).round(3).tolist()
    [[0.693], [0.0]]
    """
    own = np.asarray(probabilities, np.float64)
    if likelihood.link is Softmax:
        return _terms(own).sum(axis=-1)
    return _terms(own) + _terms(1 - own)


def mutual_information(
    probabilities: NDArray[Any], likelihood: Likelihood, weights: NDArray[Any] | None
) -> NDArray[Any]:
    """Mutual information of class and network, of probabilities ``(networks, rows, columns)``.

    Examples
    --------
    >>> from tensorbnn.model.classes import Bernoulli
    >>> agree, differ = np.array([[[0.5]], [[0.5]]]), np.array([[[0.0]], [[1.0]]])
    >>> [mutual_information(each, Bernoulli(), None).item() for each in (agree, differ)]
    [0.0, 0.6931471805599453]
    """
    together = entropy(average(probabilities, weights), likelihood)
    # Never below zero but for rounding.
    return np.maximum(together - average(entropy(probabilities, likelihood), weights), 0.0)


def _terms(probabilities: NDArray[Any]) -> NDArray[Any]:
    """``-p log p``, zero where ``p`` is."""
    safe = np.where(probabilities > 0, probabilities, 1.0)
    return 0.0 - safe * np.log(safe)
