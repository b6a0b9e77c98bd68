"""Metrics by the paper's names; a function ``(predictions, targets) -> float`` will do too."""

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from tensorbnn.ensemble import metrics
from tensorbnn.ensemble.metrics import Metric as LibraryMetric


class Metric:
    """How far predictions are from targets.

    Parameters
    ----------
    scaleExp
        Whether targets are logarithms, whose exponentials are to be compared.
    mean, sd
        The normalisation of the targets, which is undone first.
    """

    _library: ClassVar[Any]

    def __init__(self, scaleExp: bool = False, mean: float = 0, sd: float = 1) -> None:
        self.scaleExp, self.mean, self.sd = bool(scaleExp), float(mean), float(sd)
        self.library: LibraryMetric = self._library(mean=self.mean, sd=self.sd, exp=self.scaleExp)

    def __call__(self, predictions: ArrayLike, targets: ArrayLike) -> float:
        """The metric of predictions ``(rows, outputs)`` for as many targets."""
        return self.library(predictions, targets)  # type: ignore[arg-type]


class SquaredError(Metric):
    """Mean squared error."""

    _library = metrics.SquaredError


class PercentError(Metric):
    """Mean relative error in percent."""

    _library = metrics.PercentError


class Accuracy(Metric):
    """Fraction of predictions that name the right class."""

    _library = metrics.Accuracy


def as_metrics(metrics: Iterable[Any], *, exp: bool) -> list[LibraryMetric]:
    """The library's metrics; with `exp`, of exponentials."""
    found: list[LibraryMetric] = []
    for metric in metrics:
        library = metric.library if isinstance(metric, Metric) else metric
        if exp and dataclasses.is_dataclass(library):
            library = dataclasses.replace(library, exp=True)  # type: ignore[type-var]
        found.append(library)
    return found
