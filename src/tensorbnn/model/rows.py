"""The likelihood of rows that have error bars or weights.

    log p(D | theta) = sum_i w_i log p(y_i | f(x_i), s_i)

Row ``i`` has the error bar ``s_i`` (`y_sd`) and the weight ``w_i`` (`sample_weight`). The variances
of the error bar and of the likelihood's own Gaussian noise add.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, final

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.model.hyper import Number
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.priors import Normal

# Class attributes of the user's likelihood that also hold here.
_SHARED = ("link", "real_targets", "whole_targets", "outputs_per_column", "knows_noise")


class Parts(NamedTuple):
    """The columns of rows, each ``(n, rows)``."""

    targets: Array
    y_sd: Array | None
    weights: Array | None  # (rows,)


@final
@dataclass(frozen=True)
class RowLikelihood(Likelihood):
    """The user's likelihood, of rows whose error bars and weights follow their targets.

    Parameters
    ----------
    likelihood
        The user's likelihood, whose numbers and names these are.
    num_sds
        Columns of error bars; 0 without.
    is_weighted
        Whether the last column holds weights.
    """

    likelihood: Likelihood
    num_sds: int
    is_weighted: bool

    def __post_init__(self) -> None:
        for name in _SHARED:
            object.__setattr__(self, name, getattr(self.likelihood, name))

    def numbers(self) -> dict[str, Number]:
        return self.likelihood.numbers()

    def _must_be_positive(self, name: str) -> bool:
        return self.likelihood._must_be_positive(name)

    def bind(self, values: Mapping[str, Any]) -> Self:
        return replace(self, likelihood=self.likelihood.bind(values))

    def columns(self, outputs: int) -> int:
        return self.likelihood.columns(outputs)

    def split(self, columns: Array) -> Parts:
        """Targets, error bars and weights from the columns ``(n, rows)`` of rows."""
        end = len(columns) - self.is_weighted
        first = end - self.num_sds
        return Parts(
            columns[:first],
            columns[first:end] if self.num_sds else None,
            columns[-1] if self.is_weighted else None,
        )

    def log_density(self, outputs: Array, targets: Array) -> Array:
        own, y_sd, weights = self.split(targets)
        if weights is None:
            return self._log_density(outputs, own, y_sd)
        # The density of a row of weight 0 may be zero: 0 log 0, and its gradient, are NaN.
        counts = weights > 0
        each = self._log_density(jnp.where(counts[None], outputs, 0.0), own, y_sd)
        return jnp.where(counts, weights * each, 0.0)

    def mean(self, outputs: Array) -> Array:
        return self.likelihood.mean(outputs)

    def variance(self, outputs: Array) -> Array:
        return self.likelihood.variance(outputs)

    def sample_rows(self, key: Array, outputs: Array, targets: Array) -> Array:
        """New targets of the rows whose columns are `targets`, with their error bars."""
        y_sd = self.split(targets).y_sd
        if y_sd is None:
            return self.likelihood.sample(key, outputs)
        mean, sd = self.likelihood.mean(outputs), self.likelihood.sd_of_rows(outputs, y_sd)
        return mean + sd * jax.random.normal(key, mean.shape, mean.dtype)

    def _log_density(self, outputs: Array, targets: Array, y_sd: Array | None) -> Array:
        if y_sd is None:
            return self.likelihood.log_density(outputs, targets)
        mean, sd = self.likelihood.mean(outputs), self.likelihood.sd_of_rows(outputs, y_sd)
        noise = Normal().bind({"loc": mean, "scale": sd})
        return noise.log_density(targets).sum(axis=0)


def without_rows(likelihood: Likelihood) -> Likelihood:
    """The user's likelihood."""
    return likelihood.likelihood if isinstance(likelihood, RowLikelihood) else likelihood
