"""`MeasuredGaussian`: targets with a known standard deviation each, their error bars.

    y_i ~ N(f(x_i), (factor s_i)^2)

with ``s_i`` given with the data, and a `factor` of one, or learned: whether quoted errors are too
small or too large.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.model.hyper import Number
from tensorbnn.model.likelihoods import Likelihood, by_column
from tensorbnn.model.priors import Normal
from tensorbnn.model.scaling import Scaling

UNKNOWN_NOISE = (
    "a MeasuredGaussian likelihood knows the standard deviations of the rows in the data, not that "
    "of a new measurement: use what is without noise (`mean`, `sd`, noise=False), and add yours in "
    "quadrature, np.sqrt(prediction.sd**2 + sd**2)"
)


@final
@dataclass(frozen=True)
class MeasuredGaussian(Likelihood):
    """Targets scatter around the outputs with known standard deviations, times `factor`.

    The standard deviations are further columns of the training data's `y` (and of data to validate
    on, and to score), after the targets: ``np.column_stack([y, sd])``. There are as many of them as
    targets, in the same order, or one that all targets of a row share. ``standardise=True`` scales
    them with the targets.

    Predictions are about the quantity that was measured. What a new measurement of it gives depends
    on its own standard deviation, which is not known: ``sd_total`` and ``noise=True`` are refused.

    Parameters
    ----------
    factor
        A number or a `Hyper`, by which all standard deviations are multiplied. ``Hyper(1.0)`` has a
        log-normal prior around 1 with a log-sd of 1. Several targets share it, or have their own: a
        list with a number or a `Hyper` for each.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> x, y, sd = [-1.0, 0.0, 1.0], [0.2, 0.1, 0.4], [0.1, 0.3, 0.1]
    >>> network = tb.Network(tb.Dense(1), inputs=1)
    >>> posterior = tb.Posterior(network, tb.MeasuredGaussian(), x, np.column_stack([y, sd]))
    >>> posterior.num_parameters
    2
    """

    factor: Number = 1.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("factor",)
    column_arguments: ClassVar[tuple[str, ...]] = ("factor",)
    real_targets: ClassVar[bool] = True
    knows_noise: ClassVar[bool] = False

    def observed(self, y: NDArray[Any], outputs: int) -> NDArray[Any]:
        return self._apart(y, outputs)[0]

    def inside(self, y: NDArray[Any], scaling: Scaling, outputs: int) -> NDArray[Any]:
        values, sds = self._apart(y, outputs)
        return np.column_stack([scaling.targets(values), sds / np.asarray(scaling.y_scale or 1.0)])

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        return np.column_stack(self._apart(y, outputs))

    def log_density(self, outputs: Array, targets: Array) -> Array:
        values, sds = jnp.split(targets, 2)
        gaussian = Normal().bind({"loc": outputs, "scale": by_column(self.factor) * sds})
        return gaussian.log_density(values).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def sample(self, key: Array, outputs: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def sample_again(self, key: Array, outputs: Array, targets: Array) -> Array:
        sds = by_column(self.factor) * jnp.split(targets, 2)[1]
        return outputs + sds * jax.random.normal(key, outputs.shape, outputs.dtype)

    def cdf(self, outputs: Array, targets: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def _apart(self, y: NDArray[Any], outputs: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values and standard deviations, checked, each ``(rows, outputs)``."""
        if y.shape[1] not in (outputs + 1, 2 * outputs):
            wanted = " or ".join(str(count) for count in sorted({outputs + 1, 2 * outputs}))
            raise ValueError(
                "a MeasuredGaussian likelihood takes the standard deviations of targets as further "
                f"columns of `y`, np.column_stack([y, sd]): {wanted} columns for a network with "
                f"{outputs} output{'s' * (outputs > 1)}, but `y` has {y.shape[1]}"
            )
        values, sds = y[:, :outputs], y[:, outputs:]
        bad = np.flatnonzero(~np.all((sds > 0) & np.isfinite(sds), axis=1))
        if bad.size:
            raise ValueError(
                "standard deviations, the last columns of `y` for a MeasuredGaussian likelihood, "
                f"must be positive and finite, but {bad.size} of {len(y)} rows have others, such "
                f"as row {bad[0]} with {', '.join(f'{each:g}' for each in sds[bad[0]].tolist())}"
            )
        return values, np.broadcast_to(sds, values.shape)
