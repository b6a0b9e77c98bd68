"""Maps between a constrained quantity and the real line, with their log-Jacobians.

Samplers move on the whole real line. A positive quantity ``v`` (a scale, a rate, a noise sd) is
sampled as ``u = log v``; its density in ``u`` then carries ``log |dv/du| = u``.
"""

from abc import ABC, abstractmethod
from typing import Literal

import jax.numpy as jnp
from jax import Array

Support = Literal["real", "positive"]


class Transform(ABC):
    """A smooth one-to-one map from the real line onto the values a quantity may take."""

    @abstractmethod
    def from_real(self, real: Array) -> Array:
        """Constrained value at an unconstrained point, elementwise."""

    @abstractmethod
    def to_real(self, value: Array) -> Array:
        """Unconstrained point of a constrained value: the inverse of `from_real`."""

    @abstractmethod
    def log_jacobian(self, real: Array) -> Array:
        """``log |d value / d real|`` at an unconstrained point, elementwise."""


class Real(Transform):
    """The real line as it is.

    Examples
    --------
    >>> float(Real().from_real(jnp.asarray(-2.0)))
    -2.0
    """

    def from_real(self, real: Array) -> Array:
        return real

    def to_real(self, value: Array) -> Array:
        return value

    def log_jacobian(self, real: Array) -> Array:
        return jnp.zeros_like(real)


class Positive(Transform):
    """Positive values ``v = exp(u)``, so that ``log |dv/du| = u``.

    Examples
    --------
    >>> f"{Positive().from_real(jnp.asarray(1.0)):.3f}"
    '2.718'
    """

    def from_real(self, real: Array) -> Array:
        return jnp.exp(real)

    def to_real(self, value: Array) -> Array:
        return jnp.log(value)

    def log_jacobian(self, real: Array) -> Array:
        return real


_TRANSFORMS: dict[Support, Transform] = {"real": Real(), "positive": Positive()}


def transform_to(support: Support) -> Transform:
    """The map from the real line onto `support` (``"real"`` or ``"positive"``)."""
    return _TRANSFORMS[support]
