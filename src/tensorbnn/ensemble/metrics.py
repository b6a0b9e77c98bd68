"""Metrics: one number that measures how well a network predicts the targets.

A metric is any function of predictions and targets, both in the user's units. The metrics of this
library are classes without options, so that a run can save their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.errors import OptionTypeError
from tensorbnn.model.checks import check_unmasked
from tensorbnn.storage.manifest import describe, restore

Metric = Callable[[NDArray[Any], NDArray[Any]], float]
"""``(predictions, targets) -> float`` for one network.

Predictions are expected targets; targets are in the user's units. For a `y` of shape ``(rows,)``
both are ``(rows,)``, otherwise ``(rows, outputs)``; `Categorical` predicts ``(rows, classes)``.
"""


@dataclass(frozen=True)
class _LibraryMetric(ABC):
    """The mean over rows and outputs of what `_each` returns."""

    name: ClassVar[str]

    def __call__(
        self,
        predictions: ArrayLike,
        targets: ArrayLike,
        *,
        sample_weight: NDArray[Any] | None = None,
    ) -> float:
        """The metric of `predictions` for `targets`, each ``(rows,)`` or ``(rows, outputs)``.

        With `sample_weight` ``(rows,)`` the mean over rows is weighted.
        """
        predicted, true = _columns("predictions", predictions), _columns("targets", targets)
        if len(predicted) != len(true):
            raise ValueError(f"there are {len(predicted)} predictions for {len(true)} targets")
        # Infinite and undefined values are returned as inf and NaN.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            each = self._each(predicted, true)
            if sample_weight is not None:
                each = np.average(each, axis=0, weights=sample_weight)
            return float(np.mean(each))

    @abstractmethod
    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        """The values to average."""

    def _check_shapes(self, predicted: NDArray[Any], true: NDArray[Any]) -> None:
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions {predicted.shape} and targets {true.shape} differ in shape: "
                f"{type(self).__name__} compares numbers; for class labels use Accuracy"
            )


@final
@dataclass(frozen=True)
class MeanSquaredError(_LibraryMetric):
    """Mean squared error, ``mean((predicted - true)**2)`` over rows and outputs.

    Examples
    --------
    >>> MeanSquaredError()([1.0, 2.0], [1.0, 4.0])
    2.0
    """

    name: ClassVar[str] = "mean_squared_error"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        self._check_shapes(predicted, true)
        return np.square(predicted - true)


@final
@dataclass(frozen=True)
class MeanAbsolutePercentageError(_LibraryMetric):
    """Mean absolute error relative to the truth, ``100 mean(|predicted - true| / |true|)``.

    It is in percent, and infinite if a target is 0.

    Examples
    --------
    >>> MeanAbsolutePercentageError()([1.0, -2.0], [1.0, -4.0])
    25.0
    """

    name: ClassVar[str] = "mean_absolute_percentage_error"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        self._check_shapes(predicted, true)
        return 100 * np.abs(predicted - true) / np.abs(true)


@final
@dataclass(frozen=True)
class Accuracy(_LibraryMetric):
    """Fraction of correctly predicted classes.

    - Targets 0 and 1 in the shape of the predictions (`Bernoulli`): a probability above 0.5
      predicts a 1. Outputs are counted separately.
    - Class labels 0, 1, ... and a probability for each class (`Categorical`): the class with the
      largest probability is the predicted one.

    Examples
    --------
    >>> Accuracy()([0.2, 0.7, 0.6], [0, 1, 0])
    0.6666666666666666
    >>> Accuracy()([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7]], [0, 1])
    0.5
    """

    name: ClassVar[str] = "accuracy"

    def _each(self, predicted: NDArray[Any], true: NDArray[Any]) -> NDArray[Any]:
        if true.shape[1] == 1 and predicted.shape[1] > 1:
            return predicted.argmax(axis=1) == true[:, 0]
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions {predicted.shape} and targets {true.shape} differ in shape: targets "
                "must be class labels, or 0 and 1 for each output"
            )
        return (predicted > 0.5) == (true > 0.5)


def named_metrics(metrics: Iterable[Metric] | None) -> dict[str, Metric]:
    """The user's metrics by name; a second one with the same name gets the suffix ``_2``."""
    if metrics is None:
        return {}
    if not isinstance(metrics, list | tuple):
        raise OptionTypeError("metrics", "a list such as [tb.MeanSquaredError()]", metrics)
    found: dict[str, Metric] = {}
    for metric in metrics:
        if isinstance(metric, type) or not callable(metric):
            raise TypeError(
                "`metrics` must hold metrics such as tb.MeanSquaredError() or functions "
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
    """Metrics by name for JSON: the class name of the library's metrics, ``None`` for others."""
    return {
        name: describe(metric) if isinstance(metric, _LibraryMetric) else None
        for name, metric in metrics.items()
    }


def restore_metrics(described: Mapping[str, Any]) -> dict[str, Metric]:
    """The library's metrics among those that `describe_metrics` described."""
    own = (MeanSquaredError, MeanAbsolutePercentageError, Accuracy)
    known = {each.__name__: each for each in own}
    return {
        name: restore(each, known, _LibraryMetric)
        for name, each in described.items()
        if each is not None
    }


def _name(metric: Metric) -> str:
    for name in (getattr(metric, "name", None), getattr(metric, "__name__", None)):
        if isinstance(name, str):
            return name
    return type(metric).__name__


def _columns(name: str, values: ArrayLike) -> NDArray[Any]:
    check_unmasked(name, values)
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:  # texts, or lists of different lengths
        raise type(error)(f"`{name}` must be an array of numbers: {error}") from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"`{name}` must be (rows, outputs), got {array.shape}")
    return array
