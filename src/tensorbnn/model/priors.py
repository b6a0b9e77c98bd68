"""Prior densities. Every argument may be a number, a prior or a `Hyper`, unless noted otherwise.

Their formulas are the ones in ``docs/model.md``.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy import special, stats

from tensorbnn.model.hyper import Hyper, Interval, Number, Prior, Support


class _LocationScale(Prior):
    """A prior whose density depends on ``(u - loc) / scale``, where ``u`` is unconstrained."""

    loc: Number
    scale: Number
    positive_arguments: ClassVar[tuple[str, ...]] = ("scale",)

    def location_scale(self) -> tuple[Any, Any]:
        return self.loc, self.scale

    def standard(self) -> Self:
        return self.bind({"loc": 0.0, "scale": 1.0})


@dataclass(frozen=True)
class Normal(_LocationScale):
    """Gaussian with mean `loc` and standard deviation `scale`.

    Examples
    --------
    >>> f"{Normal(0.0, 1.0).log_density(jnp.asarray(0.0)):.4f}"
    '-0.9189'
    """

    loc: Number = 0.0
    scale: Number = 1.0

    def log_density(self, value: Array) -> Array:
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - jnp.log(self.scale) - _HALF_LOG_TWO_PI

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.loc + self.scale * jax.random.normal(key, shape)

    def log_positive_mass(self) -> Any:
        return special.log_ndtr(jnp.asarray(self.loc / self.scale))


@dataclass(frozen=True)
class Cauchy(_LocationScale):
    """Cauchy with median `loc` and half-width at half-maximum `scale`."""

    loc: Number = 0.0
    scale: Number = 1.0
    heavy_tailed: ClassVar[bool] = True

    def log_density(self, value: Array) -> Array:
        z = (value - self.loc) / self.scale
        return -jnp.log1p(z * z) - jnp.log(self.scale) - math.log(math.pi)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.loc + self.scale * jax.random.cauchy(key, shape)

    def log_positive_mass(self) -> Any:
        # atan2 keeps its digits where the mass is small, which 1/2 + atan does not.
        return jnp.log(jnp.arctan2(1.0, -jnp.asarray(self.loc / self.scale)) / math.pi)


@dataclass(frozen=True)
class StudentT(_LocationScale):
    """Student's t with `df` degrees of freedom, median `loc` and width `scale`."""

    df: Number = 3.0
    loc: Number = 0.0
    scale: Number = 1.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("df", "scale")
    fixed_where_truncated: ClassVar[tuple[str, ...]] = ("df",)
    heavy_tailed: ClassVar[bool] = True

    def log_density(self, value: Array) -> Array:
        return stats.t.logpdf(value, self.df, self.loc, self.scale)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.loc + self.scale * jax.random.t(key, self.df, shape)

    def log_positive_mass(self) -> Any:
        z = jnp.asarray(self.loc / self.scale)
        return jnp.log(student_t_cdf(jnp.asarray(self.df, z.dtype), z))


@dataclass(frozen=True)
class Laplace(_LocationScale):
    """Double exponential with median `loc`: density ``exp(-|v - loc| / scale) / (2 scale)``."""

    loc: Number = 0.0
    scale: Number = 1.0

    def log_density(self, value: Array) -> Array:
        return -jnp.abs(value - self.loc) / self.scale - jnp.log(2 * self.scale)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.loc + self.scale * jax.random.laplace(key, shape)

    def log_positive_mass(self) -> Any:
        z = jnp.asarray(self.loc / self.scale)
        return jnp.where(z > 0, jnp.log1p(-0.5 * jnp.exp(-jnp.abs(z))), z - math.log(2.0))


@dataclass(frozen=True)
class Exponential(Prior):
    """Density ``rate exp(-rate v)`` over positive ``v``."""

    rate: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("rate",)

    def log_density(self, value: Array) -> Array:
        return jnp.log(self.rate) - self.rate * value

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.exponential(key, shape) / self.rate

    def location_scale(self) -> tuple[Any, Any]:
        return -jnp.log(self.rate), 1.0

    def standard(self) -> Self:
        return self.bind({"rate": 1.0})


@dataclass(frozen=True)
class LogNormal(_LocationScale):
    """Positive ``v`` whose logarithm is Gaussian with mean `loc` and standard deviation `scale`."""

    loc: Number = 0.0
    scale: Number = 1.0
    support: ClassVar[Support] = "positive"

    def log_density(self, value: Array) -> Array:
        log_value = jnp.log(value)
        z = (log_value - self.loc) / self.scale
        return -0.5 * z * z - log_value - jnp.log(self.scale) - _HALF_LOG_TWO_PI

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jnp.exp(self.loc + self.scale * jax.random.normal(key, shape))


@dataclass(frozen=True)
class HalfNormal(Prior):
    """The absolute value of a Gaussian with mean 0 and standard deviation `scale`."""

    scale: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("scale",)

    def log_density(self, value: Array) -> Array:
        z = value / self.scale
        return -0.5 * z * z - jnp.log(self.scale) + 0.5 * math.log(2 / math.pi)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.scale * jnp.abs(jax.random.normal(key, shape))

    def location_scale(self) -> tuple[Any, Any]:
        return jnp.log(self.scale), 1.0

    def standard(self) -> Self:
        return self.bind({"scale": 1.0})


@dataclass(frozen=True)
class HalfCauchy(Prior):
    """The absolute value of a Cauchy variable with median 0 and width `scale`.

    Its tail is heavy: a common choice for the scale of another prior, ``Normal(0, HalfCauchy(1))``.
    """

    scale: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("scale",)

    def log_density(self, value: Array) -> Array:
        z = value / self.scale
        return -jnp.log1p(z * z) - jnp.log(self.scale) + math.log(2 / math.pi)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.scale * jnp.abs(jax.random.cauchy(key, shape))

    def location_scale(self) -> tuple[Any, Any]:
        return jnp.log(self.scale), 1.0

    def standard(self) -> Self:
        return self.bind({"scale": 1.0})


@dataclass(frozen=True)
class Gamma(Prior):
    """Density proportional to ``v**(shape - 1) exp(-rate v)`` over positive ``v``.

    Its mean is ``shape / rate``. In SciPy this is ``gamma(a=shape, scale=1 / rate)``.
    """

    shape: Number = 1.0
    rate: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("shape", "rate")

    def log_density(self, value: Array) -> Array:
        shape = jnp.asarray(self.shape, value.dtype)
        constant = shape * jnp.log(self.rate) - special.gammaln(shape)
        return constant + (shape - 1) * jnp.log(value) - self.rate * value

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jnp.exp(_log_gamma(key, self.shape, shape) - jnp.log(self.rate))

    def location_scale(self) -> tuple[Any, Any]:
        return jnp.log(self.shape) - jnp.log(self.rate), _sd_of_log_gamma(self.shape)


@dataclass(frozen=True)
class InverseGamma(Prior):
    """Density proportional to ``v**(-shape - 1) exp(-scale / v)`` over positive ``v``.

    ``1 / v`` has the density ``Gamma(shape, rate=scale)``. In SciPy this is
    ``invgamma(a=shape, scale=scale)``.
    """

    shape: Number = 1.0
    scale: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("shape", "scale")

    def log_density(self, value: Array) -> Array:
        shape = jnp.asarray(self.shape, value.dtype)
        constant = shape * jnp.log(self.scale) - special.gammaln(shape)
        return constant - (shape + 1) * jnp.log(value) - self.scale / value

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jnp.exp(jnp.log(self.scale) - _log_gamma(key, self.shape, shape))

    def location_scale(self) -> tuple[Any, Any]:
        return jnp.log(self.scale) - jnp.log(self.shape), _sd_of_log_gamma(self.shape)


@dataclass(frozen=True)
class Uniform(Prior):
    """Constant density between `low` and `high`, which must be numbers.

    Examples
    --------
    >>> Normal(0.0, Uniform(0.0, 2.0))
    Normal(loc=0.0, scale=Hyper(start=1.0, prior=Uniform(low=0.0, high=2.0)))
    """

    low: Number = 0.0
    high: Number = 1.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if isinstance(getattr(self, name), Hyper | Prior):
                raise TypeError(
                    f"`{name}` of Uniform must be a number, got {getattr(self, name)!r}: "
                    "bounds can't be sampled"
                )
        super().__post_init__()
        if not self.low < self.high:
            raise ValueError(
                f"`low` of Uniform must be below `high`, got {self.low} and {self.high}"
            )

    @property
    def support(self) -> Support:  # type: ignore[override]
        return Interval(self.low, self.high)

    def log_density(self, value: Array) -> Array:
        return jnp.zeros_like(value) - jnp.log(jnp.asarray(self.high) - self.low)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        return self.low + (self.high - self.low) * jax.random.uniform(key, shape)

    def location_scale(self) -> tuple[Any, Any]:
        return 0.0, math.pi / math.sqrt(3)  # the logit of a uniform variable is logistic


@dataclass(frozen=True)
class GammaPrecision(Prior):
    """A positive scale ``s`` whose precision ``1 / s**2`` has a gamma density (Neal's FBM).

    The precision has shape ``df / 2`` and mean ``1 / width**2``. A Gaussian weight with such a
    scale is then `width` times a Student-t variable with `df` degrees of freedom. Neal writes
    ``width:df``. Use it for the scale of another prior: ``Normal(0, GammaPrecision(0.05, 0.5))``.
    """

    width: Number = 1.0
    df: Number = 1.0
    support: ClassVar[Support] = "positive"
    positive_arguments: ClassVar[tuple[str, ...]] = ("width", "df")

    def log_density(self, value: Array) -> Array:
        shape = jnp.asarray(0.5 * self.df)
        rate = shape * jnp.square(self.width)
        constant = shape * jnp.log(rate) - special.gammaln(shape) + math.log(2.0)
        return constant - (2 * shape + 1) * jnp.log(value) - rate / jnp.square(value)

    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        half_df = jnp.broadcast_to(jnp.asarray(0.5 * self.df, dtype=float), shape)
        log_precision = _log_gamma(key, half_df, shape) - jnp.log(half_df)
        return self.width * jnp.exp(-0.5 * log_precision)

    def location_scale(self) -> tuple[Any, Any]:
        return jnp.log(self.width), 1.0

    def standard(self) -> Self:
        return self.bind({"width": 1.0})


_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _log_gamma(key: Array, gamma_shape: Any, shape: tuple[int, ...]) -> Array:
    """Logarithms of gamma variables of rate 1, which underflow themselves at a small shape."""
    return jax.random.loggamma(key, jnp.broadcast_to(jnp.asarray(gamma_shape, dtype=float), shape))


def _sd_of_log_gamma(shape: Any) -> Any:
    """About the standard deviation of the logarithm of a gamma variable."""
    return jnp.sqrt(1 + jnp.asarray(shape)) / shape


@jax.custom_jvp
def student_t_cdf(df: Array, z: Array) -> Array:
    """``P(T < z)`` by whichever incomplete beta function keeps its digits."""
    square = z * z
    half, half_df = jnp.full_like(df, 0.5), 0.5 * df
    near = 0.5 - 0.5 * special.betainc(half, half_df, square / (df + square))
    far = 0.5 * special.betainc(half_df, half, df / (df + square))
    tail = jnp.where(square < df, near, far)
    return jnp.where(z > 0, 1 - tail, tail)


# Differentiated by hand: the chain rule through the incomplete beta function gives NaN at z = 0.
# There is no derivative in `df`, which is why it is fixed where the prior is truncated.
student_t_cdf.defjvps(None, lambda tangent, _, df, z: tangent * jnp.exp(stats.t.logpdf(z, df)))
