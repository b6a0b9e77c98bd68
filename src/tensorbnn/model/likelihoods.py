"""Likelihoods: how targets scatter around a network's outputs.

`Gaussian` is here, others are in `noise` and `discrete`. A likelihood owns its link: a
classifier's network ends in logits, and the sigmoid or softmax is part of the likelihood, computed
stably from them. Arrays are feature-major, ``(outputs, rows)``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtr
from numpy.typing import NDArray

from tensorbnn.model.hyper import Number, Parametric
from tensorbnn.model.layers import Layer, Sigmoid, Softmax
from tensorbnn.model.priors import Normal


class Likelihood(Parametric, ABC):
    """Density of a row's targets given the network's outputs for that row.

    To write your own likelihood, make a frozen dataclass with `log_density`, `mean` and `variance`,
    and `sample` for new targets. Its fields are numbers or `Hyper`s, as for priors. See "Your own
    likelihood" in the documentation.
    """

    column_arguments: ClassVar[tuple[str, ...]] = ()
    """Fields that may hold numbers or `Hyper`s for each column of `y`: see `by_column`."""

    link: ClassVar[type[Layer] | None] = None
    """The activation this likelihood applies itself; a network may end in it or leave it out."""

    real_targets: ClassVar[bool] = False
    """Whether targets are real numbers in some unit, which `standardize` may shift and scale."""

    whole_targets: ClassVar[bool] = False
    """Whether targets are whole numbers, such as counts; so are quantiles of new targets then."""

    outputs_per_column: ClassVar[int] = 1
    """Outputs of the network for each column of `mean`: 2 if the noise has outputs, too."""

    knows_noise: ClassVar[bool] = True
    """Whether the noise of a new target is known; if not, each row needs a `y_sd`."""

    def __post_init__(self) -> None:
        for name in self.column_arguments:
            value = getattr(self, name)
            if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
                if len(value) == 0:
                    raise ValueError(f"`{name}` of {type(self).__name__} is empty: give a number")
                object.__setattr__(self, name, tuple(value))
        super().__post_init__()

    def numbers(self) -> dict[str, Number]:
        """All numbers and `Hyper`s by name; those for each column are ``sd.0``, ``sd.1``, ..."""
        found: dict[str, Number] = {}
        for name, value in super().numbers().items():
            if isinstance(value, tuple):
                found |= {f"{name}.{place}": each for place, each in enumerate(value)}
            else:
                found[name] = value
        return found

    def _must_be_positive(self, name: str) -> bool:
        """Whether the number of this name must be positive."""
        return name.partition(".")[0] in self.positive_arguments

    def _put(self, name: str, value: Any) -> None:
        argument, _, place = name.partition(".")
        if place:
            each = list(getattr(self, argument))
            each[int(place)] = value
            value = tuple(each)
        super()._put(argument, value)

    @property
    def predicts_classes(self) -> bool:
        """Whether `mean` are probabilities of classes."""
        return self.link in (Sigmoid, Softmax)

    def columns(self, outputs: int) -> int:
        """Number of columns of `mean` for this number of outputs of the network."""
        each = self.outputs_per_column
        if outputs % each:
            raise ValueError(
                f"a {type(self).__name__} likelihood takes {each} outputs of the network for "
                f"each column of `y`, but it has {outputs}: end it in Dense({each}), or a multiple"
            )
        count = outputs // each
        for name in self.column_arguments:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != count:
                raise ValueError(
                    f"`{name}` of {type(self).__name__} has {len(value)} numbers, one for "
                    f"each column of `y`, but the network predicts {count}: give {count}, or one "
                    "number for all"
                )
        return count

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        """Check targets ``(rows, columns)`` and return them as ``(rows, n)`` for `log_density`.

        `y` holds finite numbers, as the user gave them; `outputs` is the network's number of
        outputs.
        """
        columns, each = self.columns(outputs), self.outputs_per_column
        if y.shape[1] != columns:
            why = f", {each} for each column" if each > 1 else ""
            raise ValueError(
                f"`y` has {y.shape[1]} columns but the network has {outputs} outputs{why}: "
                f"end the network in Dense({each * y.shape[1]}), or give `y` with {columns} columns"
            )
        return y

    @abstractmethod
    def log_density(self, outputs: Array, targets: Array) -> Array:
        """Log-density of each row's targets, shape ``(rows,)``.

        `outputs` is ``(outputs, rows)`` and `targets` ``(n, rows)``, as `targets` returned them.
        """

    @abstractmethod
    def mean(self, outputs: Array) -> Array:
        """Expected targets ``(columns, rows)`` given the network's outputs ``(outputs, rows)``."""

    @abstractmethod
    def variance(self, outputs: Array) -> Array:
        """Variance of the targets around `mean`, in a shape that broadcasts against it."""

    def sample(self, key: Array, outputs: Array) -> Array:
        """New targets ``(columns, rows)``, as a user would give them, for ``(outputs, rows)``.

        Only scores and posterior predictive samples need it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} can't draw new targets: define its `sample(key, outputs)`"
        )

    def sd_of_rows(self, outputs: Array, y_sd: Array) -> Array:
        """Standard deviation of the Gaussian noise of rows with the error bars `y_sd`.

        All are ``(columns, rows)``. A likelihood without this method refuses `y_sd`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} takes no `y_sd`: define its `sd_of_rows(outputs, y_sd)`"
        )

    def cdf(self, outputs: Array, targets: Array) -> Array:
        """Probability that each new target is at most `targets`, both ``(outputs, rows)``.

        Only quantiles, intervals and densities with ``noise=True`` need it.
        """
        raise NotImplementedError(
            f"quantiles and densities with noise need the distribution function of a target, which "
            f"{type(self).__name__} does not have: define its `cdf(outputs, targets)`, or use "
            "noise=False"
        )


@final
@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Targets scatter around the outputs with standard deviation `sd`.

    Where rows have error bars, ``tb.Posterior(..., y_sd=y_sd)``, this is scatter on top of them:
    the variances add.

    Parameters
    ----------
    sd
        A number (known noise) or a `Hyper` (learned noise). ``Hyper(0.1)`` has a log-normal prior
        around 0.1 with a log-sd of 1. With ``standardize=True`` it is in units of the targets'
        standard deviation. Columns of `y` share it, unless you give a list with a number or a
        `Hyper` for each, named ``sd.0``, ``sd.1``, ...

    Examples
    --------
    >>> from tensorbnn.model.hyper import Hyper
    >>> from tensorbnn.model.priors import HalfNormal
    >>> Gaussian(sd=Hyper(0.1, HalfNormal(1.0))).hypers()
    {'sd': Hyper(start=0.1, prior=HalfNormal(scale=1.0))}
    >>> Gaussian(sd=[0.1, Hyper(0.5)]).hypers()
    {'sd.1': Hyper(start=0.5, prior=LogNormal(loc=log(0.5), scale=1.0))}
    """

    sd: Number = 0.1
    positive_arguments: ClassVar[tuple[str, ...]] = ("sd",)
    column_arguments: ClassVar[tuple[str, ...]] = ("sd",)
    real_targets: ClassVar[bool] = True

    def log_density(self, outputs: Array, targets: Array) -> Array:
        noise = Normal().bind({"loc": outputs, "scale": by_column(self.sd)})
        return noise.log_density(targets).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return outputs

    def variance(self, outputs: Array) -> Array:
        return jnp.broadcast_to(jnp.square(by_column(self.sd)), outputs.shape)

    def sample(self, key: Array, outputs: Array) -> Array:
        return outputs + by_column(self.sd) * jax.random.normal(key, outputs.shape, outputs.dtype)

    def sd_of_rows(self, outputs: Array, y_sd: Array) -> Array:
        return jnp.hypot(by_column(self.sd), y_sd)

    def cdf(self, outputs: Array, targets: Array) -> Array:
        return ndtr((targets - outputs) / by_column(self.sd))


def for_each_column(number: Number, columns: int) -> Number:
    """The same number or `Hyper` for each column of `y`, learned separately."""
    return number if columns == 1 else (number,) * columns


def by_column(number: Number) -> Any:
    """A number as it is; a tuple with one for each column of `y` as an array ``(columns, 1)``."""
    if not isinstance(number, tuple):
        return number
    return jnp.stack([jnp.asarray(each, float) for each in number])[:, None]


def some_of(values: NDArray[np.generic], most: int = 3) -> str:
    """The first few of `values`, for an error message."""
    shown = ", ".join(f"{value:g}" for value in values[:most].tolist())
    return shown + (", ..." if values.size > most else "")
