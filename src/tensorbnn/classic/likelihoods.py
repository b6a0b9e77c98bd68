"""Likelihoods and metrics by the paper's names; wherever one is wanted, the library's will do too.

As a metric, so will a function ``(predictions, targets) -> float``.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from tensorbnn.ensemble import metrics
from tensorbnn.ensemble.metrics import Metric as LibraryMetric
from tensorbnn.model import likelihoods
from tensorbnn.model.discrete import Bernoulli
from tensorbnn.model.hyper import Hyper


class Likelihood:
    """A likelihood of the library's, `library`; for one of your own pass a ``tb.Likelihood``."""

    library: likelihoods.Likelihood


class GaussianLikelihood(Likelihood):
    """Gaussian noise that is learned; `sd` is the value at which it starts."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=Hyper(sd))


class FixedGaussianLikelihood(Likelihood):
    """Gaussian noise of known standard deviation `sd`."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=sd)


class BernoulliLikelihood(Likelihood):
    """Two classes, 0 and 1; the network ends in a sigmoid."""

    def __init__(self) -> None:
        self.library = Bernoulli()


def as_likelihood(likelihood: Any) -> likelihoods.Likelihood:
    """The library's likelihood, or an error."""
    found = likelihood.library if isinstance(likelihood, Likelihood) else likelihood
    if isinstance(found, likelihoods.Likelihood):
        return found
    raise TypeError(
        f"`likelihood` must be a likelihood such as FixedGaussianLikelihood(sd=0.1), got "
        f"{likelihood!r}"
    )


class Metric:
    """How far predictions are from targets.

    Parameters
    ----------
    scaleExp
        Whether targets are logarithms, whose exponentials are to be compared.
    mean, sd
        The normalization of the targets, which is undone first.
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


def as_metrics(given: Iterable[Any], *, exp: bool) -> list[LibraryMetric]:
    """The library's metrics; with `exp`, of exponentials."""
    found: list[LibraryMetric] = []
    for metric in given:
        library = metric.library if isinstance(metric, Metric) else metric
        if exp and dataclasses.is_dataclass(library):
            library = dataclasses.replace(library, exp=True)  # type: ignore[type-var]
        found.append(library)
    return found
