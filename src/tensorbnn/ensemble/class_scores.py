"""Scores of predicted class probabilities."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.data import Dataset
from tensorbnn.ensemble.metrics import Accuracy
from tensorbnn.ensemble.prediction import Prediction


class Reliability(NamedTuple):
    """Predicted probabilities and observed frequencies in bins, each ``(bins,)``.

    `predicted` are mean probabilities and `observed` frequencies (both NaN in an empty bin);
    `counts` are numbers of predictions.
    """

    predicted: NDArray[Any]
    observed: NDArray[Any]
    counts: NDArray[Any]


@final
@dataclass(frozen=True)
class ClassScores:
    """How well an ensemble predicts classes; made by `Ensemble.evaluate`.

    Attributes
    ----------
    log_score
        Mean over rows of the log probability of the true class; higher is better.
    accuracy
        Fraction of targets whose class had the highest probability.
    brier
        Mean squared distance between probabilities and outcomes; lower is better.
    ece
        Expected calibration error: the average difference between predicted probabilities and
        observed frequencies.
    reliability
        Predicted probabilities and observed frequencies in bins.
    """

    log_score: float
    accuracy: float
    brier: float
    ece: float
    reliability: Reliability

    def __repr__(self) -> str:
        return (
            f"ClassScores(log_score={self.log_score:.4g}, accuracy={self.accuracy:.4g}, "
            f"brier={self.brier:.4g}, ece={self.ece:.4g})"
        )


def score_classes(prediction: Prediction, known: Dataset) -> ClassScores:
    """Score labels ``(rows, 1)``, or 0 and 1 for each output; rows may have weights."""
    y, weights = known.targets, known.sample_weight
    # Rounding may lead beyond 0 and 1.
    probabilities = prediction.mean.reshape(prediction.num_rows, -1).clip(0.0, 1.0)
    return ClassScores(
        log_score=prediction.log_score(y, sample_weight=weights),
        accuracy=Accuracy()(probabilities, y, sample_weight=weights),
        brier=brier(probabilities, y, sample_weight=weights),
        ece=ece(probabilities, y, sample_weight=weights),
        reliability=reliability(probabilities, y, sample_weight=weights),
    )


def brier(
    probabilities: ArrayLike, y: ArrayLike, *, sample_weight: NDArray[Any] | None = None
) -> float:
    """Mean squared distance between probabilities and outcomes; lower is better.

    Parameters
    ----------
    probabilities
        ``(rows, outputs)``.
    y
        One column of labels 0, 1, ... if the outputs are the probabilities of classes; the squares
        are then summed over classes. Or 0 and 1 for each output; then they are averaged.
    sample_weight
        Weights of the rows ``(rows,)``.

    Examples
    --------
    >>> round(brier([[0.8], [0.4]], [[1], [0]]), 3)
    0.1
    >>> round(brier([[0.5, 0.3, 0.2]], [[0]]), 3)
    0.38
    """
    predicted, true = _class_columns(probabilities, y)
    if _are_labels(predicted, true):
        squares = np.square(predicted - (true == np.arange(predicted.shape[1])))
        return float(np.average(squares.sum(axis=1), weights=sample_weight))
    squares = np.square(predicted - true)
    if sample_weight is None:
        return float(squares.mean())
    return float(np.average(squares, axis=0, weights=sample_weight).mean())


def reliability(
    probabilities: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 10,
    sample_weight: NDArray[Any] | None = None,
) -> Reliability:
    """Predicted probabilities against observed frequencies.

    For labels of several classes, the probability of the most likely class and how often it was
    right; for targets of 0 and 1, the probability of a 1 and how often it occurred.

    Parameters
    ----------
    probabilities, y, sample_weight
        As for `brier`. With weights, counts are sums of weights.
    bins
        Number of bins of equal width between 0 and 1.

    Examples
    --------
    >>> reliability([[0.1], [0.15], [0.8]], [[0], [1], [1]], bins=2)
    Reliability(predicted=array([0.125, 0.8  ]), observed=array([0.5, 1. ]), counts=array([2, 1]))
    """
    bins = check_count("bins", bins, least=1)
    predicted, true = _class_columns(probabilities, y)
    if _are_labels(predicted, true):
        chance, happened = predicted.max(axis=1), predicted.argmax(axis=1) == true[:, 0]
    else:
        chance, happened = predicted.ravel(), true.ravel() > 0.5
    which = np.minimum((chance * bins).astype(int), bins - 1)
    weights = None
    if sample_weight is not None:
        weights = np.repeat(sample_weight, len(chance) // len(sample_weight))
    count = np.bincount(which, weights=weights, minlength=bins)
    each_weight = 1.0 if weights is None else weights
    sums = [
        np.bincount(which, weights=each * each_weight, minlength=bins)
        for each in (chance, happened)
    ]
    predicted, observed = (
        np.divide(each, count, out=np.full(bins, np.nan), where=count > 0) for each in sums
    )
    return Reliability(predicted, observed, count)


def ece(
    probabilities: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 10,
    sample_weight: NDArray[Any] | None = None,
) -> float:
    """Expected calibration error: the mean of ``|predicted - observed|`` of `reliability`.

    Examples
    --------
    >>> round(ece([[0.1], [0.15], [0.8]], [[0], [1], [1]], bins=2), 4)
    0.3167
    """
    found = reliability(probabilities, y, bins=bins, sample_weight=sample_weight)
    gaps = np.abs(found.predicted - found.observed)
    return float(np.nansum(gaps * found.counts) / found.counts.sum())


def _class_columns(probabilities: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    predicted, true = np.asarray(probabilities, np.float64), np.asarray(y, np.float64)
    true = true[:, None] if true.ndim == 1 else true
    if predicted.ndim != 2 or true.ndim != 2 or len(predicted) != len(true) or not len(true):
        raise ValueError(
            "probabilities must be (rows, outputs), with as many rows of targets: got "
            f"{predicted.shape} and {np.shape(y)}"
        )
    if not np.all((predicted >= 0) & (predicted <= 1)):
        raise ValueError("probabilities must lie between 0 and 1, but some do not")
    labels = _are_labels(predicted, true)
    if not labels and predicted.shape != true.shape:
        raise ValueError(
            f"probabilities {predicted.shape} and targets {true.shape} differ in shape: targets "
            "must be one column of class labels, or 0 and 1 for each output"
        )
    known = np.arange(predicted.shape[1] if labels else 2)
    if not np.all(np.isin(true, known)):
        raise ValueError(f"targets must be whole numbers from 0 to {known[-1]}, but some are not")
    return predicted, true


def _are_labels(predicted: NDArray[Any], true: NDArray[Any]) -> bool:
    return predicted.shape[1] > 1 and true.shape[1] == 1
