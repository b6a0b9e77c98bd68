"""Likelihoods of two or more classes, and of counts.

y ~ Bernoulli(sigmoid(f(x))),    y ~ Categorical(softmax(f(x))),    y ~ Poisson(exp(f(x)))
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaincc, gammaln, ndtr
from numpy.typing import NDArray

from tensorbnn.model.layers import Exp, Layer, Sigmoid, Softmax
from tensorbnn.model.likelihoods import Likelihood, some_of

# Stirling's series is exact to rounding from this count on.
STIRLING_FROM = 16.0
# Above these rates, `gammaincc` loses more digits than the expansion leaves out.
EXPANDED_FROM = {"float32": 50.0, "float64": 1e6}
# Above this rate, counts are drawn as rounded Gaussians: those of JAX end at 2^31.
GAUSSIAN_FROM = 2.0**24


@final
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Targets are 1 with probability ``sigmoid(output)`` and 0 otherwise, independently."""

    link: ClassVar[type[Layer] | None] = Sigmoid

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        y = super().targets(y, outputs)
        bad = np.setdiff1d(y, [0, 1])
        if bad.size:
            raise ValueError(
                f"`y` must hold only 0 and 1 for a Bernoulli likelihood, but has {some_of(bad)}: "
                "encode the two classes as 0 and 1, or use Categorical for more classes"
            )
        return y

    def log_density(self, outputs: Array, targets: Array) -> Array:
        # log sigmoid(f) = f - softplus(f) and log(1 - sigmoid(f)) = -softplus(f)
        return (targets * outputs - jax.nn.softplus(outputs)).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Array) -> Array:
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        uniform = jax.random.uniform(key, outputs.shape, outputs.dtype)
        return (uniform < jax.nn.sigmoid(outputs)).astype(outputs.dtype)


@final
@dataclass(frozen=True)
class Categorical(Likelihood):
    """Targets are class labels ``0, 1, ...`` with probabilities ``softmax(outputs)``."""

    link: ClassVar[type[Layer] | None] = Softmax

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        if y.shape[1] != 1:
            raise ValueError(
                f"`y` must be one column of class labels for a Categorical likelihood, "
                f"got {y.shape[1]} columns: use `y.argmax(axis=1)` for one-hot targets"
            )
        if outputs < 2:
            raise ValueError(
                "a Categorical likelihood needs a network with one output per class, at least 2, "
                f"but this one has {outputs}: end it in Dense(classes), or use Bernoulli"
            )
        classes = np.arange(outputs)
        bad = np.setdiff1d(y, classes)
        if bad.size:
            raise ValueError(
                f"`y` must hold class labels 0 to {outputs - 1} for a network with {outputs} "
                f"outputs, but has {some_of(bad)}"
            )
        return (y == classes).astype(np.float64)

    def log_density(self, outputs: Array, targets: Array) -> Array:
        return (targets * jax.nn.log_softmax(outputs, axis=0)).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return jax.nn.softmax(outputs, axis=0)

    def variance(self, outputs: Array) -> Array:
        probability = jax.nn.softmax(outputs, axis=0)
        return probability * (1 - probability)

    def sample(self, key: Array, outputs: Array) -> Array:
        return jax.random.categorical(key, outputs, axis=0)[None].astype(outputs.dtype)


@final
@dataclass(frozen=True)
class Poisson(Likelihood):
    """Targets are independent counts 0, 1, 2, ... with expectation ``exp(output)``.

    The link is the exponential; a network may end in `Exp` or leave it out. Predictions are of the
    expected count. ``standardize=True`` scales only the inputs.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> network = tb.Network(tb.Dense(1), inputs=1)
    >>> tb.Posterior(network, tb.Poisson(), [-1.0, 0.0, 1.0], [0, 2, 7]).num_parameters
    2
    """

    link: ClassVar[type[Layer] | None] = Exp
    whole_targets: ClassVar[bool] = True

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        y = super().targets(y, outputs)
        values = np.asarray(y, np.float64)
        bad = np.unique(values[(values < 0) | (values != np.round(values))])
        if bad.size:
            raise ValueError(
                "`y` must hold whole numbers of at least 0 for a Poisson likelihood, but has "
                f"{some_of(bad)}: give counts, not rates or their logarithms, or use Gaussian"
            )
        return y

    def log_density(self, outputs: Array, targets: Array) -> Array:
        # y f - exp(f) - log y! from its maximum at f = log y: its terms are as large as y, and
        # their difference would lose digits.
        some = targets > 0
        safe = jnp.where(some, targets, 1.0)
        # The branch that is not taken must not overflow, or gradients would be NaN.
        above = jnp.where(some, outputs, 0.0) - jnp.log(safe)
        positive = safe * (above - jnp.expm1(above)) + _log_peak(safe)
        none = -jnp.exp(jnp.where(some, 0.0, outputs))
        return jnp.where(some, positive, none).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return jnp.exp(outputs)

    def variance(self, outputs: Array) -> Array:
        return jnp.exp(outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        few, many = jax.random.split(key)
        rate = jnp.minimum(jnp.exp(outputs), float(np.finfo(outputs.dtype).max))
        exact = jax.random.poisson(few, jnp.minimum(rate, GAUSSIAN_FROM)).astype(outputs.dtype)
        noise = jax.random.normal(many, outputs.shape, outputs.dtype)
        return jnp.where(rate < GAUSSIAN_FROM, exact, jnp.round(rate + jnp.sqrt(rate) * noise))

    def cdf(self, outputs: Array, targets: Array) -> Array:
        shape, rate = jnp.floor(jnp.maximum(targets, 0.0)) + 1, jnp.exp(outputs)
        limit = EXPANDED_FROM[outputs.dtype.name]
        exact = gammaincc(shape, jnp.minimum(rate, limit))
        found = jnp.where(rate < limit, exact, _expanded_gammaincc(shape, rate))
        return jnp.where(targets < 0, 0.0, found)


def _log_peak(count: Array) -> Array:
    """``log Poisson(count; rate=count)``, of counts of at least 1."""
    few = jnp.minimum(count, STIRLING_FROM)
    exact = few * jnp.log(few) - few - gammaln(few + 1)
    square = jnp.square(1 / count)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / count
    stirling = -0.5 * jnp.log(2 * math.pi * count) - series
    return jnp.where(count < STIRLING_FROM, exact, stirling)


def _expanded_gammaincc(shape: Array, x: Array) -> Array:
    """The upper incomplete gamma function ``Q(shape, x)`` for large `x`.

    Temme's uniform expansion with its first correction (Temme 1979, Eq. 1.4), for which ``eta^2 / 2
    = m - log(1 + m)``, ``m = x / shape - 1``. The error is of the order of ``x^(-3/2)``.
    """
    m = jnp.minimum((x - shape) / shape, float(np.finfo(x.dtype).max))
    small = jnp.abs(m) < 0.1
    near, far = jnp.where(small, m, 0.0), jnp.where(small, 1.0, m)
    # An alternating series, since the difference would lose its digits.
    terms = jnp.polyval(jnp.asarray([(-1) ** n / n for n in range(12, 1, -1)], x.dtype), near)
    half_square = jnp.where(small, near * near * terms, far - jnp.log1p(far))
    eta = jnp.sign(m) * jnp.sqrt(2 * half_square)
    tiny = jnp.abs(m) < 0.01
    correction = 1 / jnp.where(tiny, 1.0, m) - 1 / jnp.where(tiny, 1.0, eta)
    correction = jnp.where(tiny, near * (1 / 12 - near * (23 / 540)) - 1 / 3, correction)
    peak = jnp.exp(-shape * half_square) / jnp.sqrt(2 * math.pi * shape)
    return jnp.clip(ndtr(-eta * jnp.sqrt(shape)) + peak * correction, 0.0, 1.0)
