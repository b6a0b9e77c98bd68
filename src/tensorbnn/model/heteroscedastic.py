"""`HeteroscedasticGaussian`: noise that the network predicts with the target, row by row.

    y ~ N(m(x), s(x)^2),    s = softplus(g) = log(1 + exp(g)),    f(x) = (m(x), g(x))

A standard deviation of ``exp(g)`` would be as good near the data. Far from them, where outputs
scatter by several units, its mean square over networks would be that of a log-normal number, beyond
all bounds; a softplus grows only as its argument does.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr

from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.priors import Normal

# Below it an output changes the noise no more, which is 2e-9 there: in float32, the density and its
# gradient, in which there is a cube of the noise, are still numbers.
LEAST_OUTPUT = -20.0


@final
@dataclass(frozen=True)
class HeteroscedasticGaussian(Likelihood):
    """Targets scatter around the first half of the outputs; the second half says how much.

    The network has two outputs for each column of `y`, and so ends in ``Dense(2 * columns)``: first
    the means of all columns, then, in the same order, what gives their standard deviations by a
    softplus, ``log(1 + exp(output))``, which is at least 2e-9. Predictions are of the means,
    ``(rows, columns)``, with the noise of each row in ``sd_noise``, ``sd_total`` and all that takes
    ``noise=True``. With ``standardise=True`` the outputs are about standardised targets, and
    predictions, noise included, in units of `y`.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> network = tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(2), inputs=1)
    >>> x, y = [-1.0, 0.0, 1.0], [0.2, 0.1, 0.9]
    >>> tb.Posterior(network, tb.HeteroscedasticGaussian(), x, y).num_parameters
    22
    """

    real_targets: ClassVar[bool] = True
    outputs_per_column: ClassVar[int] = 2

    def log_density(self, outputs: Array, targets: Array) -> Array:
        mean, sd = _mean_and_sd(outputs)
        return Normal().bind({"loc": mean, "scale": sd}).log_density(targets).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return _mean_and_sd(outputs)[0]

    def variance(self, outputs: Array) -> Array:
        return jnp.square(_mean_and_sd(outputs)[1])

    def sample(self, key: Array, outputs: Array) -> Array:
        mean, sd = _mean_and_sd(outputs)
        return mean + sd * jax.random.normal(key, mean.shape, mean.dtype)

    def cdf(self, outputs: Array, targets: Array) -> Array:
        mean, sd = _mean_and_sd(outputs)
        return ndtr((targets - mean) / sd)


def _mean_and_sd(outputs: Array) -> tuple[Array, Array]:
    """Each ``(columns, rows)``."""
    mean, other = jnp.split(outputs, 2)
    return mean, jax.nn.softplus(jnp.maximum(other, LEAST_OUTPUT))
