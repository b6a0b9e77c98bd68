"""`Weighted`: a likelihood whose rows count as often as their weights say.

    log p(D | theta) = sum_i w_i log p(y_i | f(x_i)),

the likelihood of each row to the power of its weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.model.hyper import Number
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.scaling import Scaling

# What the likelihood inside says of its targets and outputs also holds for the weighted one.
_AS_INSIDE = ("link", "real_targets", "whole_targets", "outputs_per_column", "knows_noise")


@final
@dataclass(frozen=True)
class Weighted(Likelihood):
    """The density of each row's targets to the power of the row's weight.

    A whole number is as good as the row repeated so often, but weights need not be whole.

    The weights are one more column of the training data's `y` (and of data to validate on), the
    last one: ``np.column_stack([y, weights])``. They enter the posterior, and the means and
    standard deviations of ``standardize=True``; a row of weight 0 is as good as none. Predictions,
    metrics and scores are about targets: there a row counts once, and ``ensemble.evaluate(x, y)``
    takes `y` without weights.

    Parameters
    ----------
    likelihood
        The likelihood of the targets.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> x, y, weights = [-1.0, 0.0, 1.0], [0.2, 0.1, 0.4], [1.0, 2.0, 0.5]
    >>> network = tb.Network(tb.Dense(1), inputs=1)
    >>> likelihood = tb.Weighted(tb.Gaussian(sd=0.1))
    >>> tb.Posterior(network, likelihood, x, np.column_stack([y, weights])).num_parameters
    2
    """

    likelihood: Likelihood

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, Likelihood) or isinstance(self.likelihood, Weighted):
            raise TypeError(
                "`likelihood` of Weighted must be a likelihood without weights, such as "
                f"tb.Gaussian(sd=0.1), got {self.likelihood!r}"
            )
        for name in _AS_INSIDE:
            object.__setattr__(self, name, getattr(self.likelihood, name))

    @property
    def plain(self) -> Likelihood:
        return self.likelihood

    def numbers(self) -> dict[str, Number]:
        return self.likelihood.numbers()

    def must_be_positive(self, name: str) -> bool:
        return self.likelihood.must_be_positive(name)

    def bind(self, values: Mapping[str, Any]) -> Self:
        return replace(self, likelihood=self.likelihood.bind(values))

    def unweighted(self, y: NDArray[Any]) -> NDArray[Any]:
        return y[:, :-1]

    def observed(self, y: NDArray[Any], outputs: int) -> NDArray[Any]:
        self.weights(y)
        return self.likelihood.observed(self.unweighted(y), outputs)

    def inside(self, y: NDArray[Any], scaling: Scaling, outputs: int) -> NDArray[Any]:
        weights = self.weights(y)
        inside = self.likelihood.inside(self.unweighted(y), scaling, outputs)
        return np.column_stack([inside, weights])

    def weights(self, y: NDArray[Any]) -> NDArray[Any]:
        """The last column of `y`, checked, ``(rows,)``."""
        if y.shape[1] < 2:
            raise ValueError(
                "a Weighted likelihood takes the weights of rows as the last column of `y`, which "
                "has only one column: give np.column_stack([y, weights])"
            )
        weights = y[:, -1]
        if np.any(weights < 0) or not np.any(weights > 0):
            raise ValueError(
                "weights, the last column of `y` for a Weighted likelihood, must be at least 0 and "
                f"not all 0, but go from {weights.min():g} to {weights.max():g}"
            )
        return weights

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        weights = self.weights(y)
        own = np.array(self.likelihood.targets(self.unweighted(y), outputs))
        # In place of what stands in rows that do not count, such as 1e30 for what is missing: of
        # that even a gradient times zero may be no number.
        own[weights == 0] = own[np.argmax(weights > 0)]
        return np.column_stack([own, weights])

    def log_density(self, outputs: Array, targets: Array) -> Array:
        weights = targets[-1]
        # The density of a row that does not count may be zero: 0 log 0, and its gradient, are NaN.
        counts = weights > 0
        outputs = jnp.where(counts[None], outputs, 0.0)
        each = self.likelihood.log_density(outputs, targets[:-1])
        return jnp.where(counts, weights * each, 0.0)

    def mean(self, outputs: Array) -> Array:
        return self.likelihood.mean(outputs)

    def variance(self, outputs: Array) -> Array:
        return self.likelihood.variance(outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        return self.likelihood.sample(key, outputs)

    def sample_again(self, key: Array, outputs: Array, targets: Array) -> Array:
        return self.likelihood.sample_again(key, outputs, targets[:-1])

    def cdf(self, outputs: Array, targets: Array) -> Array:
        return self.likelihood.cdf(outputs, targets)
