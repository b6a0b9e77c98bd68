"""Priors, and `Hyper`: a number that is sampled under a prior of its own.

Wherever a prior or a likelihood takes a number, it also takes a prior or a `Hyper`, which makes
that number a hyper-parameter. The paper's hierarchical Gaussian prior, for example, is
``Normal(Hyper(0.0, Normal(0.0, 0.1)), Hyper(1.0, Normal(1.0, 0.1)))``.

A description holds numbers and `Hyper`s. Before its density is evaluated it is *bound*: copied,
with every `Hyper` replaced by its current value. Its methods then read plain numbers or arrays from
``self``.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tensorbnn.checks import is_number


class Interval(NamedTuple):
    """The support of a quantity between two numbers."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"between {self.low:g} and {self.high:g}"


Support = Literal["real", "positive"] | Interval


class Transform(NamedTuple):
    """A smooth one-to-one map from the real line onto the support of a quantity, elementwise.

    Samplers move on the whole real line. A positive quantity ``v`` (a scale, a rate, a noise sd) is
    sampled as ``u = log v``; its density in ``u`` then includes ``log |dv/du| = u``, the
    `log_jacobian`. A quantity between two numbers is sampled as the logit of its position there.
    """

    from_real: Callable[[Array], Array]
    to_real: Callable[[Array], Array]
    log_jacobian: Callable[[Array], Array]


def transform(support: Support) -> Transform:
    """The map from the real line onto `support`."""
    return _onto(support) if isinstance(support, Interval) else _TRANSFORMS[support]


_TRANSFORMS = {
    "real": Transform(lambda real: real, lambda value: value, jnp.zeros_like),
    "positive": Transform(jnp.exp, jnp.log, lambda real: real),
}


def _onto(interval: Interval) -> Transform:
    low, high = interval
    width = high - low

    def from_real(real: Array) -> Array:
        return jnp.clip(low + width * jax.nn.sigmoid(real), low, high)

    def to_real(value: Array) -> Array:
        number = np.finfo(value.dtype)  # the bounds themselves would be infinite
        share = jnp.clip((value - low) / width, number.tiny, 1 - number.epsneg)
        return jnp.log(share) - jnp.log1p(-share)

    def log_jacobian(real: Array) -> Array:
        return math.log(width) - jax.nn.softplus(real) - jax.nn.softplus(-real)

    return Transform(from_real, to_real, log_jacobian)


def is_positive(support: Support) -> bool:
    """Whether all values in `support` are positive."""
    return support.low >= 0 if isinstance(support, Interval) else support == "positive"


def is_inside(value: Any, support: Support) -> Any:
    """Whether `value`, a number or an array, lies in `support`, elementwise."""
    if isinstance(support, Interval):
        return (value >= support.low) & (value <= support.high)
    return np.greater(value, 0 if support == "positive" else -np.inf)


def move_inside(values: Array, support: Support) -> Array:
    """`values` with those on the edge of `support` moved to the next number inside."""
    if isinstance(support, Interval):
        low, high = (jnp.asarray(bound, values.dtype) for bound in support)
        return jnp.clip(values, jnp.nextafter(low, high), jnp.nextafter(high, low))
    return jnp.maximum(values, np.finfo(values.dtype).tiny) if support == "positive" else values


def support_text(support: Support) -> str:
    """What a value in `support` must be, for an error message."""
    return "finite" if support == "real" else str(support)


@dataclass(frozen=True)
class Hyper:
    """A number that is sampled: a hyper-parameter.

    A bare prior in the place of a number, ``Normal(0, HalfNormal(1))``, is a `Hyper` that starts
    near the center of that prior.

    Parameters
    ----------
    start
        The value at the start of a chain. If hyper-parameters are not sampled, it stays there.
    prior
        The prior density. Without one, the number must be positive, and its prior is
        ``LogNormal(log(start), 1)``: the median is `start`, and 68 % of the mass lies within a
        factor of e of it. **Then** `start` **is part of the model**: another start means another
        posterior. Where the number must be positive, a prior over the whole real line is truncated
        to positive values and renormalized.

    Examples
    --------
    >>> from tensorbnn.model.priors import HalfNormal, Normal
    >>> Hyper(0.1)
    Hyper(start=0.1, prior=LogNormal(loc=log(0.1), scale=1.0))
    >>> Normal(0.0, Hyper(1.0, Normal(1.0, 0.1))).hypers()
    {'scale': Hyper(start=1.0, prior=Normal(loc=1.0, scale=0.1))}
    >>> Normal(0.0, HalfNormal(2.0))
    Normal(loc=0.0, scale=Hyper(start=2.0, prior=HalfNormal(scale=2.0)))
    """

    start: float
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if not is_number(self.start):
            raise ValueError(f"`start` of a Hyper must be a finite number, got {self.start!r}")
        object.__setattr__(self, "start", float(self.start))  # NumPy's numbers too
        if self.prior is None:
            return
        if not isinstance(self.prior, Prior):
            raise TypeError(
                f"`prior` of a Hyper must be a prior such as Normal(1.0, 0.1), got {self.prior!r}"
            )
        support = self.prior.support
        if isinstance(support, Interval) and not support.low < self.start < support.high:
            raise ValueError(
                f"`start` of a Hyper must lie inside its prior, {support_text(support)}, "
                f"got {self.start}"
            )

    def __repr__(self) -> str:
        prior = f"{self.prior!r}"
        if self.prior is None and self.start > 0:
            prior = f"LogNormal(loc=log({self.start!r}), scale=1.0)"
        return f"Hyper(start={self.start!r}, prior={prior})"


class Parametric:
    """A frozen dataclass whose fields are numbers or `Hyper`s: the base of priors and likelihoods.

    Subclasses name in `positive_arguments` the fields that must be positive.
    """

    positive_arguments: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in self.numbers().items():
            positive = self._must_be_positive(name)
            hyper = _under(value, positive=positive) if isinstance(value, Prior) else value
            _check_argument(f"`{name}` of {type(self).__name__}", hyper, positive=positive)
            # NumPy's numbers too
            self._put(name, hyper if isinstance(hyper, Hyper) else float(hyper))

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]

    def numbers(self) -> dict[str, Number]:
        """All numbers and `Hyper`s by name: the fields."""
        return {name: getattr(self, name) for name in self.arguments()}

    def hypers(self) -> dict[str, Hyper]:
        """The numbers that are sampled, by name."""
        return {name: each for name, each in self.numbers().items() if isinstance(each, Hyper)}

    def _must_be_positive(self, name: str) -> bool:
        """Whether the number of this name must be positive."""
        return name in self.positive_arguments

    def bind(self, values: Mapping[str, Any]) -> Self:
        """A copy with the numbers named in `values` replaced, by others or by arrays, unchecked."""
        bound = copy.copy(self)
        for name, value in values.items():
            bound._put(name, value)
        return bound

    def _put(self, name: str, value: Any) -> None:
        """Replace the number of this name in a new object."""
        object.__setattr__(self, name, value)


class Prior(Parametric, ABC):
    """A density over one number, applied elementwise to arrays.

    To write your own prior, make a frozen dataclass with `log_density` and `sample`. Override
    `support`, `positive_arguments`, `location_scale` and `log_positive_mass` where the defaults do
    not fit. See "Your own prior" in the documentation.
    """

    support: ClassVar[Support] = "real"
    heavy_tailed: ClassVar[bool] = False
    """Whether samplers should move in ``asinh`` of the standardized value (Cauchy, Student-t)."""

    fixed_where_truncated: ClassVar[tuple[str, ...]] = ()
    """Arguments in which `log_positive_mass` can't be differentiated."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not isinstance(cls.support, property) and cls.support not in ("real", "positive"):
            raise ValueError(
                f"`support` of {cls.__name__} must be 'real' or 'positive', got {cls.support!r}"
            )

    @abstractmethod
    def log_density(self, value: Array) -> Array:
        """Normalized log-density at `value`, elementwise; `value` lies in the support."""

    @abstractmethod
    def sample(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Independent draws of the given shape."""

    def location_scale(self) -> tuple[Any, Any]:
        """Center and width of the prior on the unconstrained scale, elementwise.

        They whiten the coordinates of a sampler. An approximate value is enough: a wrong one costs
        speed, not correctness.
        """
        return 0.0, 1.0

    def standard(self) -> Self | None:
        """The same prior with center 0 and width 1, if `location_scale` standardizes it exactly.

        This holds if the density of ``(u - location) / scale`` of the unconstrained value ``u``
        depends on neither, as in every location-scale family; otherwise this is ``None``.
        """
        return None

    def log_positive_mass(self) -> Any:
        """``log P(value > 0)``, needed where a prior on the real line is truncated to positive."""
        raise NotImplementedError(
            f"{type(self).__name__} can't be the prior of a positive number: "
            "define its `log_positive_mass`, or use a prior with support 'positive'"
        )


# A number in a description. Bound descriptions also hold arrays, so type checkers see Any.
if TYPE_CHECKING:
    Number = Any
else:
    Number = float | Hyper | Prior


def _under(prior: Prior, *, positive: bool) -> Hyper:
    """The `Hyper` that a bare prior stands for: it starts near the prior's center."""
    starts = {name: hyper.start for name, hyper in prior.hypers().items()}
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        location, scale = prior.bind(starts).location_scale()
        if positive and prior.support == "real":
            start = max(location, scale)
        else:
            start = transform(prior.support).from_real(location)
        return Hyper(float(f"{float(start):.15g}"), prior)  # exp(log(0.1)) is 0.1


def _check_argument(label: str, value: object, *, positive: bool) -> None:
    if isinstance(value, Hyper):
        _check_hyper_argument(label, value, positive=positive)
        start, label = value.start, f"start of the Hyper in {label}"
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        start = float(value)
    else:
        raise TypeError(f"{label} must be a number, a prior or a Hyper, got {value!r}")
    if not math.isfinite(start):
        raise ValueError(f"{label} must be finite, got {start}")
    if positive and start <= 0:
        raise ValueError(f"{label} must be positive, got {start}")


def _check_hyper_argument(label: str, hyper: Hyper, *, positive: bool) -> None:
    if hyper.prior is None:
        if not positive:
            raise ValueError(
                f"{label} is a Hyper without a prior: give it one, "
                f"such as Hyper({hyper.start}, Normal({hyper.start}, 0.1))"
            )
        return
    support = hyper.prior.support
    if positive and isinstance(support, Interval) and not is_positive(support):
        raise ValueError(
            f"{label} must be positive, but its prior {hyper.prior} is not: "
            "give the prior a lower bound of at least 0"
        )
