"""Metrics: how far a network's predictions are from the targets, in the user's own units.

The three of the paper undo a normalization of the targets, and a logarithm, before they compare:
both sides, predictions and targets alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_number, check_positive
from tensorbnn.errors import OptionError, OptionTypeError
from tensorbnn.storage.manifest import describe, restore

Metric = Callable[[NDArray[Any], NDArray[Any]], float]
"""``(predictions, targets) -> float`` for one network.

Predictions are expected targets, ``(rows, outputs)``; targets are as the user gave them,
``(rows, columns)``.
"""


@dataclass(frozen=True)
class _Scaled(ABC):
    """A metric of ``y * sd + mean``, or of the exponential of that."""

    mean: float = 0.0
    sd: float = 1.0
    exp: bool = False

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_number("mean", self.mean)
        check_positive("sd", self.sd)
        if not isinstance(self.exp, bool | np.bool_):
            raise OptionError("exp", "True or False", self.exp)

    def __call__(self, predictions: ArrayLike, targets: ArrayLike) -> float:
        """The metric of `predictions` ``(rows, outputs)`` for `targets` of as many rows."""
        predicted, true = _columns(predictions), _columns(targets)
        if len(predicted) != len(true):
            raise ValueError(f"there are {len(predicted)} predictions for {len(true)} targets")
        # What is infinite or undefined comes out as such.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return float(np.mean(self._each(predicted, true)))

    @abstractmethod
    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        """What is averaged."""

    def _natural(self, values: NDArray[Any]) -> NDArray[Any]:
        scaled = values * self.sd + self.mean
        return np.exp(scaled) if self.exp else scaled

    def _natural_pair(
        self, predicted: NDArray[Any], true: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions {predicted.shape} and targets {true.shape} differ in shape: "
                f"{self.name} compares numbers; for class labels use Accuracy"
            )
        return self._natural(predicted), self._natural(true)


@final
@dataclass(frozen=True)
class SquaredError(_Scaled):
    """Mean squared error, ``mean((predicted - true)^2)`` over rows and outputs.

    Parameters
    ----------
    mean, sd
        The normalization of the targets, which is undone first: ``y * sd + mean``.
    exp
        Whether the targets are logarithms: their exponentials are compared.

    Examples
    --------
    >>> SquaredError()([[1.0], [2.0]], [[1.0], [4.0]])
    2.0
    >>> SquaredError(mean=5, sd=10)([[1.0], [2.0]], [[1.0], [4.0]])
    200.0
    """

    name: ClassVar[str] = "squared_error"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        predicted, true = self._natural_pair(predicted, true)
        return np.square(predicted - true)


@final
@dataclass(frozen=True)
class PercentError(_Scaled):
    """Mean relative error in percent, ``100 mean(|predicted - true| / |true|)``.

    The absolute value of the truth is used, so that negative targets don't cancel positive ones
    (the paper leaves it out). Infinite where a target is 0.

    Parameters
    ----------
    mean, sd, exp
        As for `SquaredError`.

    Examples
    --------
    >>> PercentError()([[1.0], [-2.0]], [[1.0], [-4.0]])
    25.0
    """

    name: ClassVar[str] = "percent_error"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        predicted, true = self._natural_pair(predicted, true)
        return 100 * np.abs(predicted - true) / np.abs(true)


@final
@dataclass(frozen=True)
class Accuracy(_Scaled):
    """Fraction of predictions that name the right class.

    - Targets 0 and 1, as many columns as predictions (`Bernoulli`): a probability above 0.5 is a
      1, each output by itself.
    - One column of class labels 0, 1, ..., and a probability for each class (`Categorical`): the
      class with the largest probability.

    Parameters
    ----------
    mean, sd, exp
        As for `SquaredError`, for targets 0 and 1 that were normalized. Labels are compared as they
        are: these options would not change which probability is the largest.

    Examples
    --------
    >>> Accuracy()([[0.2], [0.7], [0.6]], [[0], [1], [0]])
    0.6666666666666666
    >>> Accuracy()([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7]], [[0], [1]])
    0.5
    """

    name: ClassVar[str] = "accuracy"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        if true.shape[1] == 1 and predicted.shape[1] > 1:
            return predicted.argmax(axis=1) == true[:, 0]
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions {predicted.shape} and targets {true.shape} differ in shape: targets "
                "must be one column of class labels, or 0 and 1 for each output"
            )
        return (self._natural(predicted) > 0.5) == (self._natural(true) > 0.5)


def named_metrics(metrics: Iterable[Metric] | None) -> dict[str, Metric]:
    """The user's metrics by name; a second one of a name gets the suffix ``_2``."""
    if metrics is None:
        return {}
    if not isinstance(metrics, list | tuple):
        raise OptionTypeError("metrics", "a list such as [tb.SquaredError()]", metrics)
    found: dict[str, Metric] = {}
    for metric in metrics:
        if isinstance(metric, type) or not callable(metric):
            raise TypeError(
                "`metrics` must hold metrics such as tb.SquaredError() or functions "
                f"(predictions, targets) -> float, got {metric!r}"
            )
        name = base = _name(metric)
        number = 1
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found[name] = metric
    return found


def describe_metrics(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Metrics by name for JSON: the library's own with their numbers, ``None`` for functions."""
    return {
        name: describe(metric) if isinstance(metric, _Scaled) else None
        for name, metric in metrics.items()
    }


def restore_metrics(described: Mapping[str, Any]) -> dict[str, Metric]:
    """The library's own metrics among those that `describe_metrics` described."""
    known = {each.__name__: each for each in (SquaredError, PercentError, Accuracy)}
    return {name: restore(each, known) for name, each in described.items() if each is not None}


def _name(metric: Metric) -> str:
    for name in (getattr(metric, "name", None), getattr(metric, "__name__", None)):
        if isinstance(name, str):
            return name
    return type(metric).__name__


def _columns(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values, np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"predictions and targets must be (rows, outputs), got {array.shape}")
    return array
