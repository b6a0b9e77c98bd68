"""Likelihoods and metrics under the paper's names.

Arguments also accept those of the library, and as a metric any function
``(predictions, targets) -> float``.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_number, check_positive
from tensorbnn.classic.arguments import as_numbers
from tensorbnn.ensemble import metrics
from tensorbnn.ensemble.metrics import Metric as LibraryMetric
from tensorbnn.model import likelihoods
from tensorbnn.model.discrete import Bernoulli
from tensorbnn.model.hyper import Hyper


class Likelihood:
    """Wraps a likelihood of the library; to use your own, pass a ``tb.Likelihood``."""

    library: likelihoods.Likelihood


class GaussianLikelihood(Likelihood):
    """Gaussian noise whose standard deviation is learned; it starts at `sd`."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=Hyper(sd))


class FixedGaussianLikelihood(Likelihood):
    """Gaussian noise with a known standard deviation `sd`."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=sd)


class BernoulliLikelihood(Likelihood):
    """Two classes, 0 and 1; the network must end in a sigmoid."""

    def __init__(self) -> None:
        self.library = Bernoulli()


def as_likelihood(likelihood: Any) -> likelihoods.Likelihood:
    """The likelihood of the library, or an error."""
    found = likelihood.library if isinstance(likelihood, Likelihood) else likelihood
    if isinstance(found, likelihoods.Likelihood):
        return found
    raise TypeError(
        f"`likelihood` must be a likelihood such as FixedGaussianLikelihood(sd=0.1), got "
        f"{likelihood!r}"
    )


class Metric:
    """Compares predictions with targets.

    Parameters
    ----------
    scaleExp
        Whether targets are logarithms, whose exponentials should be compared.
    mean, sd
        The normalization of the targets. It is undone first: ``y * sd + mean``.
    """

    name: ClassVar[str]
    _library: ClassVar[Any]

    def __init__(self, scaleExp: bool = False, mean: float = 0, sd: float = 1) -> None:
        check_number("mean", mean)
        check_positive("sd", sd)
        self.scaleExp, self.mean, self.sd = bool(scaleExp), float(mean), float(sd)

    def __call__(self, predictions: ArrayLike, targets: ArrayLike) -> float:
        """The metric of predictions ``(rows, outputs)`` for as many targets."""
        natural = self._natural("predictions", predictions), self._natural("targets", targets)
        value: float = self._library(*natural)
        return value

    def _natural(self, name: str, values: ArrayLike) -> NDArray[Any]:
        scaled = as_numbers(name, values).astype(np.float64) * self.sd + self.mean
        with np.errstate(over="ignore"):
            return np.exp(scaled) if self.scaleExp else scaled


class SquaredError(Metric):
    """Mean squared error.

    Examples
    --------
    >>> SquaredError(mean=5, sd=10)([[1.0], [2.0]], [[1.0], [4.0]])
    200.0
    """

    name, _library = "squared_error", metrics.MeanSquaredError()


class PercentError(Metric):
    """Mean relative error in percent.

    The error is relative to the absolute value of the target, so errors of negative targets don't
    cancel those of positive ones, as they do in the paper.
    """

    name, _library = "percent_error", metrics.MeanAbsolutePercentageError()


class Accuracy(Metric):
    """Fraction of predictions of the right class.

    The normalization is undone for targets 0 and 1. Class labels are compared as they are.
    """

    name, _library = "accuracy", metrics.Accuracy()

    def __call__(self, predictions: ArrayLike, targets: ArrayLike) -> float:
        """The fraction for predictions ``(rows, outputs)`` and targets or labels ``(rows, 1)``."""
        predicted, true = as_numbers("predictions", predictions), as_numbers("targets", targets)
        if predicted.shape != true.shape:
            return metrics.Accuracy()(predicted, true)
        return super().__call__(predicted, true)


def as_metrics(given: Iterable[Any], *, exp: bool) -> list[LibraryMetric]:
    """The metrics; with `exp`, those of this interface compare exponentials."""
    if not exp:
        return list(given)
    return [type(m)(True, m.mean, m.sd) if isinstance(m, Metric) else m for m in given]
