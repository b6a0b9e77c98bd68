"""Layers: dense layers with their priors, activations, and scales of the inputs.

Arrays inside a network are feature-major: ``h`` is ``(units, rows)``, one column per row of data,
because ``W.T @ h`` is several times faster than ``h @ W`` for the narrow networks of this field.
"""

from __future__ import annotations

import difflib
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.checks import LARGEST_COUNT, is_number, is_whole
from tensorbnn.model.hyper import Hyper, Interval, Prior, is_inside, is_positive, support_text
from tensorbnn.model.priors import Cauchy, Exponential, HalfNormal, Normal

# The paper's hierarchical priors of weights and biases, and of slopes.
GAUSSIAN_PRIOR = Normal(Hyper(0.0, Normal(0.0, 0.1)), Hyper(1.0, Normal(1.0, 0.1)))
CAUCHY_PRIOR = Cauchy(Hyper(0.0, Normal(0.0, 0.2)), Hyper(0.5, Normal(0.5, 0.5)))
PRELU_PRIOR = Exponential(Hyper(0.3, Exponential(0.3)))
SQUARE_PRELU_PRIOR = Normal(Hyper(0.3, Normal(0.0, 0.1)), Hyper(0.3, Normal(0.3, 0.3)))
RELEVANCE_PRIOR = HalfNormal(1.0)


@dataclass(frozen=True)
class Parameter:
    """One array of a layer: its shape, its prior, and where a chain starts.

    Parameters
    ----------
    shape
        Shape of the array.
    prior
        Prior of each of its elements. Elements are independent given the prior's numbers.
    start
        A number, or a density from which the start is drawn; ``None`` draws it from `prior`.
    """

    shape: tuple[int, ...]
    prior: Prior
    start: float | Prior | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise TypeError(f"`prior` must be a prior such as Normal(0.0, 1.0), got {self.prior!r}")
        lengths = self.shape if isinstance(self.shape, tuple | list) else (None,)
        if not all(is_whole(each) and each >= 0 for each in lengths):
            raise ValueError(
                "`shape` of a Parameter must be a tuple of whole numbers, such as (3,) or (2, 3), "
                f"got {self.shape!r}"
            )
        object.__setattr__(self, "shape", tuple(int(each) for each in self.shape))
        if isinstance(self.start, Prior):
            if self.start.hypers():
                raise ValueError(f"`start` must not hold a Hyper, got {self.start!r}")
        elif self.start is not None:
            object.__setattr__(self, "start", self._number(self.start))

    def _number(self, start: object) -> float:
        if not isinstance(start, numbers.Real) or isinstance(start, bool):
            raise TypeError(f"`start` must be a number, a prior or None, got {start!r}")
        support = self.prior.support
        if not math.isfinite(start) or not is_inside(start, support):
            raise ValueError(
                f"`start` must be {support_text(support)} under {self.prior}, got {start!r}"
            )
        return float(start)


class Layer(ABC):
    """A map from ``(inputs, rows)`` to ``(outputs, rows)`` with named parameters.

    To write your own layer, make a frozen dataclass with `apply`. Add `parameters` if it has any,
    and `outputs` if it changes the number of units. See "Your own layer" in the documentation.
    """

    @property
    def kind(self) -> str:
        """The name under which layers of this class are numbered: ``dense`` in ``dense_0``."""
        return type(self).__name__.lower()

    def outputs(self, inputs: int) -> int:
        """Number of outputs for this number of inputs."""
        return inputs

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        """The layer's parameters by name; none by default. `inputs` is the number of inputs."""
        return {}

    @abstractmethod
    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        """Outputs ``(outputs, rows)`` for ``h`` of shape ``(inputs, rows)``."""


class AbstractDense(Layer):
    """``W.T h + b``. Subclasses differ in their priors."""

    units: int
    weight_prior: Prior
    bias_prior: Prior

    def __post_init__(self) -> None:
        if not is_whole(self.units) or not 1 <= self.units <= LARGEST_COUNT:
            is_large = is_whole(self.units) and self.units > 1
            bound = f"at most {LARGEST_COUNT}" if is_large else "at least 1"
            raise ValueError(
                f"`units` of {type(self).__name__} must be a whole number of {bound}, "
                f"got {self.units!r}"
            )
        for name in ("weight_prior", "bias_prior"):
            check_prior(self, name)

    @property
    def kind(self) -> str:
        return "dense"

    def outputs(self, inputs: int) -> int:
        return self.units

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        # Gaussian He start; the paper draws biases from the same distribution as weights. Positive
        # parameters start from their prior.
        he = Normal(0.0, math.sqrt(2.0 / inputs))
        return {
            name: Parameter(shape, prior, start=he if prior.support == "real" else None)
            for name, shape, prior in (
                ("weights", (inputs, self.units), self.weight_prior),
                ("biases", (self.units,), self.bias_prior),
            )
        }

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return parameters["weights"].T @ h + parameters["biases"][:, None]


@final
@dataclass(frozen=True)
class Dense(AbstractDense):
    """A fully connected layer; weights are ``(inputs, units)``, biases ``(units,)``.

    Parameters
    ----------
    units
        Number of units.
    weight_prior, bias_prior
        Priors of weights and biases; by default the paper's hierarchical Gaussian: each
        ``N(a, b)`` with ``a ~ N(0, 0.1)`` and ``b ~ N(1, 0.1)`` truncated to positive values, one
        pair ``(a, b)`` for the weights and one for the biases of each layer.

    Examples
    --------
    >>> from tensorbnn.model.priors import Laplace
    >>> Dense(3, weight_prior=Laplace(0.0, 0.5)).parameters(2)["weights"].shape
    (2, 3)
    """

    units: int
    weight_prior: Prior = GAUSSIAN_PRIOR
    bias_prior: Prior = GAUSSIAN_PRIOR


@final
@dataclass(frozen=True)
class CauchyDense(AbstractDense):
    """A fully connected layer with the paper's hierarchical Cauchy prior.

    As in `Dense`, but Cauchy with median ``a ~ N(0, 0.2)`` and width ``b ~ N(0.5, 0.5)``.
    """

    units: int
    weight_prior: Prior = CAUCHY_PRIOR
    bias_prior: Prior = CAUCHY_PRIOR


@final
@dataclass(frozen=True)
class Sigmoid(Layer):
    """``1 / (1 + exp(-h))``."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.sigmoid(h)


@final
@dataclass(frozen=True)
class Tanh(Layer):
    """Hyperbolic tangent."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jnp.tanh(h)


@final
@dataclass(frozen=True)
class Softmax(Layer):
    """``exp(h_i) / sum_j exp(h_j)`` over the units of a row, never over rows."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.softmax(h, axis=0)


@final
@dataclass(frozen=True)
class Exp(Layer):
    """``exp(h)``."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jnp.exp(h)


@final
@dataclass(frozen=True)
class Softplus(Layer):
    """``log(1 + exp(h))``."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.softplus(h)


@final
@dataclass(frozen=True)
class GELU(Layer):
    """``h Phi(h)``, where ``Phi`` is the distribution function of a standard Gaussian."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.gelu(h, approximate=False)


@final
@dataclass(frozen=True)
class SiLU(Layer):
    """``h / (1 + exp(-h))``, also known as swish."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.silu(h)


@final
@dataclass(frozen=True)
class ReLU(Layer):
    """``max(h, 0)``."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.relu(h)


@final
@dataclass(frozen=True)
class LeakyReLU(Layer):
    """``h`` where positive, ``negative_slope * h`` elsewhere; the slope is fixed."""

    negative_slope: float = 0.3

    def __post_init__(self) -> None:
        slope = self.negative_slope
        if not is_number(slope):
            raise ValueError(
                f"`negative_slope` of LeakyReLU must be a finite number, got {slope!r}"
            )
        object.__setattr__(self, "negative_slope", float(slope))  # also NumPy's and fractions

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jnp.where(h > 0, h, self.negative_slope * h)


@final
@dataclass(frozen=True)
class ELU(Layer):
    """``h`` where positive, ``exp(h) - 1`` where not."""

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jax.nn.elu(h)


@final
@dataclass(frozen=True)
class PReLU(Layer):
    """``h`` where positive, ``m * h`` where not, with one sampled slope ``m >= 0`` per unit.

    The paper's prior: ``m ~ Exp(rate l)`` with ``l ~ Exp(rate 0.3)``; slopes start at 0.2.
    """

    slope_prior: Prior = PRELU_PRIOR

    def __post_init__(self) -> None:
        check_prior(self, "slope_prior", positive="Exponential(1.0)")

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        return {"slopes": _start_at(0.2, inputs, self.slope_prior)}

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jnp.where(h > 0, h, parameters["slopes"][:, None] * h)


@final
@dataclass(frozen=True)
class SquarePReLU(Layer):
    """``h`` where positive, ``a**2 * h`` where not, with one sampled ``a`` per unit.

    The paper's prior: ``a ~ N(xi, kappa)``, ``xi ~ N(0, 0.1)``, ``kappa ~ N(0.3, 0.3)`` truncated
    to positive values; ``a`` starts at 0.2. The parameter named ``slopes`` is ``a``.
    """

    slope_prior: Prior = SQUARE_PRELU_PRIOR

    def __post_init__(self) -> None:
        check_prior(self, "slope_prior")

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        return {"slopes": _start_at(0.2, inputs, self.slope_prior)}

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return jnp.where(h > 0, h, jnp.square(parameters["slopes"])[:, None] * h)


@final
@dataclass(frozen=True)
class Relevance(Layer):
    """``s_i h_i``, with one sampled scale ``s_i > 0`` for each input: how much it matters.

    Automatic relevance determination (Neal 1996): a small scale ``s_i`` shrinks all weights
    ``s_i W_ij`` of an input together. Scales and weights are independent under the prior, so there
    is no funnel between them.

    Put this layer before a dense layer, usually the first. The parameter is named ``scales``, has a
    prior over positive numbers and starts at 1. Only ratios of scales have a meaning, because the
    weights of the next layer can absorb a common factor.

    Examples
    --------
    >>> Relevance().parameters(4)["scales"].shape
    (4,)
    """

    scale_prior: Prior = RELEVANCE_PRIOR

    def __post_init__(self) -> None:
        check_prior(self, "scale_prior", positive="HalfNormal(1.0)")

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        return {"scales": _start_at(1.0, inputs, self.scale_prior)}

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return parameters["scales"][:, None] * h


_ACTIVATIONS: tuple[type[Layer], ...] = (
    *(Sigmoid, Tanh, Softmax, Exp, Softplus),
    *(ReLU, LeakyReLU, ELU, GELU, SiLU, PReLU, SquarePReLU),
)
ACTIVATIONS: dict[str, type[Layer]] = {each.__name__.lower(): each for each in _ACTIVATIONS}
"""Activations by lower-case name."""

ACTIVATION_NAMES = (*ACTIVATIONS, "linear")
"""The names that a user may give: those of `ACTIVATIONS`, and ``linear`` for none at all."""


def activation_named(name: str) -> Layer | None:
    """The activation of this name in any case, ``leaky_relu`` too; ``None`` for ``linear``.

    Examples
    --------
    >>> activation_named("tanh"), activation_named("Leaky_ReLU"), activation_named("linear")
    (Tanh(), LeakyReLU(negative_slope=0.3), None)
    """
    plain = name.lower().replace("_", "")
    if plain == "linear":
        return None
    if plain not in ACTIVATIONS:
        near = difflib.get_close_matches(plain, ACTIVATION_NAMES, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        names = ", ".join(ACTIVATION_NAMES)
        raise ValueError(f"unknown activation '{name}': {hint}choose from {names}")
    return ACTIVATIONS[plain]()


def _start_at(start: float, units: int, prior: Prior) -> Parameter:
    """A number for each unit that starts at `start`, or is drawn where `prior` excludes that."""
    support = prior.support
    inside = is_inside(start, support) and not (isinstance(support, Interval) and start in support)
    return Parameter((units,), prior, start=start if inside else None)


def check_prior(layer: Layer, name: str, *, positive: str = "") -> None:
    """Check that a field holds a prior, and, with a `positive` example, one of positive numbers."""
    prior, label = getattr(layer, name), f"`{name}` of {type(layer).__name__}"
    if not isinstance(prior, Prior):
        raise TypeError(f"{label} must be a prior such as Normal(0.0, 1.0), got {prior!r}")
    if positive and not is_positive(prior.support):
        raise ValueError(
            f"{label} must be a prior over positive numbers such as {positive}, got {prior!r}"
        )
