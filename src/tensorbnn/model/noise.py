"""Likelihoods of real numbers whose noise is not that of one `Gaussian`.

    y_i ~ N(f(x_i), (factor s_i)^2)                       `MeasuredGaussian`
    (y - f(x)) / scale ~ t(df)                           `StudentTNoise`
    y ~ N(m(x), softplus(g(x))^2), f = (m, g)             `HeteroscedasticGaussian`

With ``exp(g)`` instead of the softplus, the mean variance over networks would explode far from the
data, where the outputs of networks differ by several units.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr

from tensorbnn.model.hyper import Number
from tensorbnn.model.likelihoods import Likelihood, by_column
from tensorbnn.model.priors import Normal, StudentT, student_t_cdf

UNKNOWN_NOISE = (
    "a MeasuredGaussian likelihood does not know the standard deviation of a new measurement: use "
    "predictions without noise (`mean`, `sd`, noise=False), and add its standard deviation in "
    "quadrature, np.sqrt(prediction.sd**2 + sd**2)"
)
# Lower outputs give the same noise, 2e-9, as this one: the gradient contains the cube of the noise,
# which would underflow in float32.
LEAST_OUTPUT = -20.0


@final
@dataclass(frozen=True)
class MeasuredGaussian(Likelihood):
    """Targets scatter around the outputs with known standard deviations, times `factor`.

    The standard deviations are the error bars of the rows: ``tb.Posterior(..., y_sd=y_sd)``.

    Predictions are of the measured quantity. The scatter of a new measurement depends on its own
    standard deviation, which the model does not know: ``sd_total`` and ``noise=True`` are refused.

    Parameters
    ----------
    factor
        A number or a `Hyper` that multiplies all standard deviations. ``Hyper(1.0)`` has a
        log-normal prior around 1 with a log-sd of 1. Columns of `y` share it, unless you give a
        list with a number or a `Hyper` for each.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> x, y, y_sd = [-1.0, 0.0, 1.0], [0.2, 0.1, 0.4], [0.1, 0.3, 0.1]
    >>> network = tb.Network(tb.Dense(1), inputs=1)
    >>> posterior = tb.Posterior(network, tb.MeasuredGaussian(), x, y, y_sd=y_sd)
    >>> posterior.num_parameters
    2
    """

    factor: Number = 1.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("factor",)
    column_arguments: ClassVar[tuple[str, ...]] = ("factor",)
    real_targets: ClassVar[bool] = True
    knows_noise: ClassVar[bool] = False

    def log_density(self, outputs: Array, targets: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def sd_of_rows(self, outputs: Array, y_sd: Array) -> Array:
        return by_column(self.factor) * y_sd

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def sample(self, key: Array, outputs: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)

    def cdf(self, outputs: Array, targets: Array) -> Array:
        raise ValueError(UNKNOWN_NOISE)


@final
@dataclass(frozen=True)
class StudentTNoise(Likelihood):
    """Targets scatter around the outputs as Student's t, which allows for outliers.

    Far targets pull less on the network, whereas under a Gaussian they pull more. The variance of
    the noise is ``scale**2 * df / (df - 2)``. If `df` is at most 2 it is infinite, and so are
    ``sd_noise`` and ``sd_total`` of predictions; quantiles with ``noise=True`` stay finite. The
    outputs are the median of the targets and, if `df` is above 1, their mean. There is no `y_sd`
    with this likelihood, since a Gaussian error and this noise do not add up to a Student-t.

    Parameters
    ----------
    df
        Degrees of freedom: a number, or a `Hyper` to learn it. Lower values have heavier tails: 1
        is Cauchy noise, and above 30 the noise is nearly Gaussian. Columns of `y` share it, unless
        you give a list with a number or a `Hyper` for each.
    scale
        Width of the noise, given in the same way. With ``standardize=True`` it is in units of the
        targets' standard deviation.

    Examples
    --------
    >>> from tensorbnn.model.hyper import Hyper
    >>> StudentTNoise(scale=Hyper(0.1)).hypers()
    {'scale': Hyper(start=0.1, prior=LogNormal(loc=log(0.1), scale=1.0))}
    """

    df: Number = 4.0
    scale: Number = 0.1
    positive_arguments: ClassVar[tuple[str, ...]] = ("df", "scale")
    column_arguments: ClassVar[tuple[str, ...]] = ("df", "scale")
    real_targets: ClassVar[bool] = True

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        return ("scale", "df")  # the order of hyper-parameters, on which draws depend

    def log_density(self, outputs: Array, targets: Array) -> Array:
        scale, df = by_column(self.scale), by_column(self.df)
        noise = StudentT().bind({"df": df, "loc": outputs, "scale": scale})
        return noise.log_density(targets).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        df = jnp.asarray(by_column(self.df), outputs.dtype)
        finite = jnp.square(by_column(self.scale)) * df / jnp.where(df > 2, df - 2, 1.0)
        return jnp.broadcast_to(jnp.where(df > 2, finite, jnp.inf), outputs.shape)

    def sample(self, key: Array, outputs: Array) -> Array:
        noise = jax.random.t(key, by_column(self.df), outputs.shape, outputs.dtype)
        return outputs + by_column(self.scale) * noise

    def cdf(self, outputs: Array, targets: Array) -> Array:
        df = jnp.broadcast_to(jnp.asarray(by_column(self.df), outputs.dtype), outputs.shape)
        return student_t_cdf(df, (targets - outputs) / by_column(self.scale))


@final
@dataclass(frozen=True)
class HeteroscedasticGaussian(Likelihood):
    """Targets scatter around half of the outputs; the other half gives the standard deviations.

    The network has two outputs for each column of `y`, so it ends in ``Dense(2 * columns)``: first
    the means of all columns, then, in the same order, outputs whose softplus,
    ``log(1 + exp(output))``, is their standard deviation (at least 2e-9). Predictions are of the
    means, ``(rows, columns)``. ``sd_noise``, ``sd_total`` and ``noise=True`` use the noise of each
    row. With ``standardize=True`` the outputs are about standardized targets; predictions and noise
    are in units of `y`.

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

    def sd_of_rows(self, outputs: Array, y_sd: Array) -> Array:
        return jnp.hypot(_mean_and_sd(outputs)[1], y_sd)

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
