"""`StudentTNoise`: noise with heavy tails, for data with outliers.

    (y - f(x)) / scale ~ Student's t with `dof` degrees of freedom

A target far off counts for little: its pull on the network falls with its distance, where that of a
Gaussian's grows.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.model.hyper import Number
from tensorbnn.model.likelihoods import Likelihood, by_column
from tensorbnn.model.priors import StudentT, student_t_cdf


@final
@dataclass(frozen=True)
class StudentTNoise(Likelihood):
    """Targets scatter around the outputs as Student's t, which allows for outliers.

    The variance of the noise is ``scale**2 * dof / (dof - 2)``, and infinite where `dof` is at most
    2: then ``sd_noise`` and ``sd_total`` of predictions are infinite, too, while quantiles with
    ``noise=True`` are not. The outputs are the mean and the median of the targets (at `dof` of at
    most 1 there is no mean, and they are the median).

    Parameters
    ----------
    scale
        Width of the noise: a number, or a `Hyper` where it is learned. Where targets are
        standardised it is in units of their standard deviation. Several columns of `y` share it, or
        have their own: a list with a number or a `Hyper` for each.
    dof
        Degrees of freedom, likewise. The fewer, the heavier the tails: 1 is Cauchy noise, above 30
        it is hardly told from Gaussian noise.

    Examples
    --------
    >>> from tensorbnn.model.hyper import Hyper
    >>> StudentTNoise(scale=Hyper(0.1)).hypers()
    {'scale': Hyper(start=0.1, prior=None)}
    """

    scale: Number = 0.1
    dof: Number = 4.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("scale", "dof")
    column_arguments: ClassVar[tuple[str, ...]] = ("scale", "dof")
    real_targets: ClassVar[bool] = True

    def log_density(self, outputs: Array, targets: Array) -> Array:
        scale, dof = by_column(self.scale), by_column(self.dof)
        noise = StudentT().bind({"dof": dof, "loc": outputs, "scale": scale})
        return noise.log_density(targets).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        dof = jnp.asarray(by_column(self.dof), outputs.dtype)
        finite = jnp.square(by_column(self.scale)) * dof / jnp.where(dof > 2, dof - 2, 1.0)
        return jnp.broadcast_to(jnp.where(dof > 2, finite, jnp.inf), outputs.shape)

    def sample(self, key: Array, outputs: Array) -> Array:
        noise = jax.random.t(key, by_column(self.dof), outputs.shape, outputs.dtype)
        return outputs + by_column(self.scale) * noise

    def cdf(self, outputs: Array, targets: Array) -> Array:
        dof = jnp.broadcast_to(jnp.asarray(by_column(self.dof), outputs.dtype), outputs.shape)
        return student_t_cdf(dof, (targets - outputs) / by_column(self.scale))
