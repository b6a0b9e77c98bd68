"""What a prior is, and `Hyper`: a number that is sampled under one.

Wherever a prior or a likelihood takes a number it also takes a `Hyper`, which makes that number a
hyper-parameter with a prior of its own. The paper's hierarchical Gaussian prior, for instance, is
``Normal(Hyper(0.0, Normal(0.0, 0.1)), Hyper(1.0, Normal(1.0, 0.1)))``.

A description holds numbers and `Hyper`s. Before its density is evaluated it is *bound*: a copy in
which every `Hyper` has been replaced by its current value, so that its methods read plain numbers
or arrays from ``self``.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import is_number

Support = Literal["real", "positive"]


class Transform(NamedTuple):
    """A smooth one-to-one map from the real line onto the values a quantity may take, elementwise.

    Samplers move on the whole real line. A positive quantity ``v`` (a scale, a rate, a noise sd) is
    sampled as ``u = log v``; its density in ``u`` then carries ``log |dv/du| = u``, `log_jacobian`.
    """

    from_real: Callable[[Array], Array]
    to_real: Callable[[Array], Array]
    log_jacobian: Callable[[Array], Array]


TRANSFORMS: dict[Support, Transform] = {
    "real": Transform(lambda real: real, lambda value: value, jnp.zeros_like),
    "positive": Transform(jnp.exp, jnp.log, lambda real: real),
}


@dataclass(frozen=True)
class Hyper:
    """A number that is sampled: a hyper-parameter.

    Parameters
    ----------
    start
        Its value at the start of a chain, and the value it keeps when hyper-parameters are held.
    prior
        Its prior density. Where the number must be positive, a prior on the whole real line is
        truncated to positive values (and renormalized), and no prior at all means log-normal
        around `start` with a log-sd of 1.

    Examples
    --------
    >>> from tensorbnn.model.priors import Normal
    >>> Normal(0.0, Hyper(1.0, Normal(1.0, 0.1))).hypers()
    {'scale': Hyper(start=1.0, prior=Normal(loc=1.0, scale=0.1))}
    """

    start: float
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if not is_number(self.start):
            raise ValueError(f"`start` of a Hyper must be a finite number, got {self.start!r}")
        object.__setattr__(self, "start", float(self.start))  # NumPy's numbers too
        if self.prior is not None and not isinstance(self.prior, Prior):
            raise TypeError(
                f"`prior` of a Hyper must be a prior such as Normal(1.0, 0.1), got {self.prior!r}"
            )


# A number or a `Hyper` in a description; once bound, the number or the array that stands for it.
Number = Any


class Parametric:
    """A frozen dataclass whose fields are numbers or `Hyper`s: the base of priors and likelihoods.

    Subclasses name in `positive_arguments` the fields that must be positive.
    """

    positive_arguments: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in self.numbers().items():
            _check_argument(self, name, value)
            if not isinstance(value, Hyper):
                self._put(name, float(value))  # NumPy's numbers too

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

    def must_be_positive(self, name: str) -> bool:
        """Whether the number of this name must be positive."""
        return name in self.positive_arguments

    def bind(self, values: Mapping[str, Any]) -> Self:
        """A copy with the numbers named in `values` replaced, by others or by arrays, unchecked."""
        bound = copy.copy(self)
        for name, value in values.items():
            bound._put(name, value)
        return bound

    def _put(self, name: str, value: Any) -> None:
        """Replace the number of this name, in an object that nobody has seen yet."""
        object.__setattr__(self, name, value)


class Prior(Parametric, ABC):
    """A density over one number, applied elementwise to arrays.

    A user's own prior is a frozen dataclass with `log_density` and `sample`; `support`,
    `positive_arguments`, `location_scale` and `log_positive_mass` are there to be overridden where
    the defaults do not fit. See "Your own prior" in the documentation.
    """

    support: ClassVar[Support] = "real"
    heavy_tailed: ClassVar[bool] = False
    """Whether samplers should move in ``asinh`` of the standardized value (Cauchy, Student-t)."""

    fixed_where_truncated: ClassVar[tuple[str, ...]] = ()
    """Arguments in which `log_positive_mass` can't be differentiated."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.support not in get_args(Support):
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

        They whiten the coordinates of a sampler. They need not be exact, only of the right size:
        a wrong value costs speed, never correctness.
        """
        return 0.0, 1.0

    def standard(self) -> Self | None:
        """The same prior with center 0 and width 1, where `location_scale` standardizes it exactly.

        That is, where ``(u - location) / scale`` of the unconstrained value ``u`` has a density
        free of both, as in every location-scale family; ``None`` where it has not.
        """
        return None

    def log_positive_mass(self) -> Any:
        """``log P(value > 0)``, needed where a prior on the real line is truncated to positive."""
        raise NotImplementedError(
            f"{type(self).__name__} can't be the prior of a positive number: "
            "define its `log_positive_mass`, or use a prior with support 'positive'"
        )


def _check_argument(owner: Parametric, name: str, value: object) -> None:
    label = f"`{name}` of {type(owner).__name__}"
    positive = owner.must_be_positive(name)
    if isinstance(value, Hyper):
        if value.prior is None and not positive:
            raise ValueError(
                f"{label} is a Hyper without a prior: give it one, "
                f"such as Hyper({value.start}, Normal({value.start}, 0.1))"
            )
        start, label = value.start, f"start of the Hyper in {label}"
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        start = float(value)
    else:
        raise TypeError(f"{label} must be a number or a Hyper, got {value!r}")
    if not math.isfinite(start):
        raise ValueError(f"{label} must be finite, got {start}")
    if positive and start <= 0:
        raise ValueError(f"{label} must be positive, got {start}")
