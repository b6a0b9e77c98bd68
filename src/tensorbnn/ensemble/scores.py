"""Scores of predictions against targets that the networks have not seen.

Numbers are scored by new targets that the networks draw, noise included; classes by their
probabilities. Metrics of single networks, for reports during a run, are in `metrics.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, check_fraction
from tensorbnn.data import Dataset
from tensorbnn.ensemble.metrics import Accuracy
from tensorbnn.ensemble.prediction import Prediction

# New targets that are scored at once: networks times rows times outputs.
VALUES_AT_ONCE = 2**22


class Reliability(NamedTuple):
    """Predicted probabilities in bins, and how often what they say was so, each ``(bins,)``.

    Means of what was `predicted` and fractions of what was `observed`, NaN where a bin is empty,
    and `counts` of predictions.
    """

    predicted: NDArray[Any]
    observed: NDArray[Any]
    counts: NDArray[Any]


@final
@dataclass(frozen=True)
class Scores:
    """How well an ensemble predicts numbers; made by `Ensemble.evaluate`.

    Attributes
    ----------
    log_score
        Mean over rows of the log predictive density, that of the mixture of all networks; higher is
        better.
    rmse
        Root of the mean squared error of the mean prediction, ``(outputs,)``.
    crps
        Continuous ranked probability score, ``(outputs,)``, in units of the target; lower is
        better. The absolute error, for an ensemble without any spread.
    coverage
        Fraction of targets within the intervals that should hold `level` of them, ``(outputs,)``.
    sharpness
        Mean width of these intervals, ``(outputs,)``: of two with the right coverage, the narrower
        is better.
    level
        What the coverage should be.
    pit
        Probability integral transform of each target, ``(rows, outputs)``: uniform between 0 and 1
        if the ensemble is calibrated; heaped at both ends if it is too sure, in the middle if it is
        not sure enough.
    """

    log_score: float
    rmse: NDArray[Any]
    crps: NDArray[Any]
    coverage: NDArray[Any]
    sharpness: NDArray[Any]
    level: float
    pit: NDArray[Any]

    def __repr__(self) -> str:
        return (
            f"Scores(log_score={self.log_score:.4g}, rmse={_short(self.rmse)}, "
            f"crps={_short(self.crps)}, sharpness={_short(self.sharpness)}, "
            f"coverage={_short(self.coverage)} of {self.level:g}, {len(self.pit)} rows)"
        )


@final
@dataclass(frozen=True)
class ClassScores:
    """How well an ensemble predicts classes; made by `Ensemble.evaluate`.

    Attributes
    ----------
    log_score
        Mean over rows of the log probability of what came true; higher is better.
    accuracy
        Fraction of targets whose class had the highest probability.
    brier
        Mean squared distance of the probabilities from what came true; lower is better.
    ece
        Expected calibration error: by how much, on average, predicted probabilities differ from
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


def score_numbers(
    prediction: Prediction,
    known: Dataset,
    draw: Callable[[slice], NDArray[Any]],
    *,
    level: float,
    seed: int,
) -> Scores:
    """Scores of the targets of `known` rows, averaged with the weights of these rows.

    `draw` gives new targets ``(networks, rows, outputs)`` for some rows, block by block.
    """
    y, weights = known.targets, known.sample_weight
    step = max(VALUES_AT_ONCE // (prediction.num_samples * y.shape[1]), 1)
    parts = []
    for first in range(0, len(y), step):
        rows = slice(first, first + step)
        draws = draw(rows)
        inside, width = interval(draws, y[rows], level)
        rank = pit(draws, y[rows], seed=seed + first)
        parts.append((crps(draws, y[rows]), inside, width, rank))
    score, inside, width, rank = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Scores(
        log_score=prediction.log_score(y, y_sd=known.y_sd, sample_weight=weights),
        rmse=rmse(prediction.mean, y, sample_weight=weights),
        crps=np.average(score, axis=0, weights=weights),
        coverage=np.average(inside, axis=0, weights=weights),
        sharpness=np.average(width, axis=0, weights=weights),
        level=level,
        pit=rank,
    )


def score_classes(prediction: Prediction, known: Dataset) -> ClassScores:
    """Scores of labels ``(rows, 1)``, or of 0 and 1 for each output, with weights of rows."""
    y, weights = known.targets, known.sample_weight
    probabilities = prediction.mean.clip(0.0, 1.0)  # rounding may go beyond
    return ClassScores(
        log_score=prediction.log_score(y, sample_weight=weights),
        accuracy=Accuracy()(probabilities, y, sample_weight=weights),
        brier=brier(probabilities, y, sample_weight=weights),
        ece=ece(probabilities, y, sample_weight=weights),
        reliability=reliability(probabilities, y, sample_weight=weights),
    )


def rmse(
    mean: ArrayLike, y: ArrayLike, *, sample_weight: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Root of the mean squared error over rows, ``(outputs,)``, of predictions ``(rows, outputs)``.

    With `sample_weight` ``(rows,)`` it is the weighted mean.

    Examples
    --------
    >>> rmse([[1.0], [2.0]], [[1.0], [4.0]]).round(3)
    array([1.414])
    """
    predicted, true = np.asarray(mean, np.float64), np.asarray(y, np.float64)
    if predicted.shape != true.shape:
        raise ValueError(f"predictions {predicted.shape} and targets {true.shape} differ in shape")
    return np.sqrt(np.average(np.square(predicted - true), axis=0, weights=sample_weight))


def crps(draws: ArrayLike, y: ArrayLike) -> NDArray[Any]:
    """Continuous ranked probability score of each row, ``(rows, outputs)``; lower is better.

    ``E |X - y| - E |X - X'| / 2`` for independent new targets ``X``, ``X'`` of the ensemble, the
    second expectation without pairs of a draw with itself, so that the score of few draws has no
    bias.

    Parameters
    ----------
    draws
        New targets ``(networks, rows, outputs)``, at least two networks.
    y
        Targets ``(rows, outputs)``.

    Examples
    --------
    >>> crps(np.array([0.0, 2.0]).reshape(2, 1, 1), [[1.0]])
    array([[0.]])
    """
    ensemble, true = _checked(draws, y)
    count = len(ensemble)
    ordered = np.sort(ensemble, axis=0)
    # Each draw is above those before it and below those after it, in all pairs it is part of.
    weights = (2.0 * np.arange(count) - count + 1) / (count * (count - 1))
    spread = np.tensordot(weights, ordered, axes=(0, 0))
    return np.abs(ordered - true).mean(axis=0) - spread


def pit(draws: ArrayLike, y: ArrayLike, *, seed: int = 0) -> NDArray[Any]:
    """Probability integral transform of each target, ``(rows, outputs)``.

    The rank of the target among the new targets of the ensemble, over their number plus one; where
    they are equal, as counts can be, at random between the ranks. If target and new targets come
    from one distribution it is uniform between 0 and 1, whatever the number of networks.

    Parameters
    ----------
    draws, y
        As for `crps`.
    seed
        Seed of what is random in it.

    Examples
    --------
    >>> draws = np.linspace(0, 1, 999).reshape(-1, 1, 1)
    >>> pit(draws, [[0.25]]).round(2)
    array([[0.25]])
    """
    ensemble, true = _checked(draws, y)
    below, equal = (ensemble < true).sum(axis=0), (ensemble == true).sum(axis=0)
    uniform = np.random.default_rng(seed).uniform(size=true.shape)
    return (below + uniform * (equal + 1)) / (len(ensemble) + 1)


def interval(
    draws: ArrayLike, y: ArrayLike, level: float = 0.9
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Whether each target lies in the middle `level` of the new targets, and how wide that is.

    The mean of the first over rows is the coverage, which should be `level`; of the second, the
    sharpness.

    Parameters
    ----------
    draws, y
        As for `crps`.
    level
        The fraction of new targets within the interval.

    Returns
    -------
    tuple of ndarray
        Two arrays ``(rows, outputs)``.

    Examples
    --------
    >>> inside, width = interval(np.arange(9.0).reshape(9, 1, 1), [[1.5]], level=0.6)
    >>> inside, width
    (array([[ True]]), array([[6.]]))
    """
    ensemble, true = _checked(draws, y)
    check_fraction("level", level, such_as="0.9")
    # Weibull's quantiles: a new draw falls below the p-quantile with probability p exactly.
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    lower, upper = np.quantile(ensemble, ends, axis=0, method="weibull")
    return np.asarray((lower <= true) & (true <= upper)), upper - lower


def brier(
    probabilities: ArrayLike, y: ArrayLike, *, sample_weight: NDArray[Any] | None = None
) -> float:
    """Mean squared distance of probabilities from what came true; lower is better.

    Parameters
    ----------
    probabilities
        ``(rows, outputs)``.
    y
        One column of labels 0, 1, ... where a row's probabilities are those of its classes: the
        squares are summed over them. Or 0 and 1 for each output: the mean over all.
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

    For labels of several classes, the probability of the likeliest class and how often it was
    right; for targets of 0 and 1, the probability of 1 and how often it came.

    Parameters
    ----------
    probabilities, y, sample_weight
        As for `brier`. Counts are of predictions, or the sums of their weights.
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


def _short(values: NDArray[Any]) -> str:
    texts = [f"{value:.4g}" for value in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _checked(draws: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    ensemble, true = np.asarray(draws, np.float64), np.asarray(y, np.float64)
    if ensemble.ndim != 3 or len(ensemble) < 2 or 0 in ensemble.shape:
        raise ValueError(
            "new targets must be (networks, rows, outputs) with at least two networks, "
            f"got shape {ensemble.shape}"
        )
    if true.shape != ensemble.shape[1:]:
        raise ValueError(f"targets must be (rows, outputs) {ensemble.shape[1:]}, got {true.shape}")
    if not (np.all(np.isfinite(ensemble)) and np.all(np.isfinite(true))):
        raise ValueError("targets must be finite, but some are not: remove these rows")
    return ensemble, true


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
