"""Scores of predicted numbers against targets that the networks have not seen.

Predictions are scored by comparing targets with new targets drawn from the networks, noise
included. Class scores are in `class_scores.py`, metrics for reports during a run in `metrics.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_fraction
from tensorbnn.data import Dataset
from tensorbnn.ensemble import statistics
from tensorbnn.ensemble.prediction import Prediction

# Number of new targets scored at once: networks times rows times outputs.
VALUES_AT_ONCE = 2**22


@final
@dataclass(frozen=True)
class Scores:
    """How well an ensemble predicts numbers; made by `Ensemble.evaluate`.

    If the targets are ``(rows,)``, `rmse`, `crps`, `coverage` and `sharpness` are numbers.

    Attributes
    ----------
    log_score
        Mean over rows of the log predictive density of the mixture of all networks; higher is
        better.
    rmse
        Root of the mean squared error of the mean prediction, ``(outputs,)``.
    crps
        Continuous ranked probability score, ``(outputs,)``, in units of the target; lower is
        better. For an ensemble without spread, it is the absolute error.
    coverage
        Fraction of targets within the intervals that should hold `level` of them, ``(outputs,)``.
    sharpness
        Mean width of these intervals, ``(outputs,)``: at equal coverage, narrower intervals are
        better.
    level
        Nominal coverage.
    pit
        Probability integral transform of each target, in the shape of the targets. Uniform between
        0 and 1 if the ensemble is calibrated; concentrated at both ends if it is overconfident, in
        the middle if it is underconfident.
    """

    log_score: float
    rmse: NDArray[Any] | float
    crps: NDArray[Any] | float
    coverage: NDArray[Any] | float
    sharpness: NDArray[Any] | float
    level: float
    pit: NDArray[Any]

    def __repr__(self) -> str:
        return (
            f"Scores(log_score={self.log_score:.4g}, rmse={_short(self.rmse)}, "
            f"crps={_short(self.crps)}, sharpness={_short(self.sharpness)}, "
            f"coverage={_short(self.coverage)} of {self.level:g}, {len(self.pit)} rows)"
        )


def score_numbers(
    prediction: Prediction,
    known: Dataset,
    draw: Callable[[slice], NDArray[Any]],
    *,
    level: float,
    seed: int,
) -> Scores:
    """Score the targets of `known` rows, averaged with the weights of these rows.

    `draw` returns new targets ``(networks, rows, outputs)`` for a block of rows.
    """
    y, weights = known.targets, known.sample_weight
    step = max(VALUES_AT_ONCE // (prediction.num_samples * y.shape[1]), 1)
    parts = []
    for first in range(0, len(y), step):
        rows = slice(first, first + step)
        draws = draw(rows)
        options = {"weights": prediction.weights}
        inside, width = interval(draws, y[rows], level, **options)
        rank = pit(draws, y[rows], seed=seed + first, **options)
        parts.append((crps(draws, y[rows], **options), inside, width, rank))
    score, inside, width, rank = (np.concatenate(each) for each in zip(*parts, strict=True))

    one_column = known.y is not None and known.y.ndim == 1

    def follow(values: NDArray[Any]) -> NDArray[Any] | float:
        return float(values[0]) if one_column else values

    return Scores(
        log_score=prediction.log_score(y, y_sd=known.y_sd, sample_weight=weights),
        rmse=follow(rmse(prediction.mean.reshape(y.shape), y, sample_weight=weights)),
        crps=follow(np.average(score, axis=0, weights=weights)),
        coverage=follow(np.average(inside, axis=0, weights=weights)),
        sharpness=follow(np.average(width, axis=0, weights=weights)),
        level=level,
        pit=rank[:, 0] if one_column else rank,
    )


def rmse(
    mean: ArrayLike, y: ArrayLike, *, sample_weight: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Root of the mean squared error over rows of ``(rows, outputs)``, ``(outputs,)``."""
    predicted, true = np.asarray(mean, np.float64), np.asarray(y, np.float64)
    if predicted.shape != true.shape:
        raise ValueError(f"predictions {predicted.shape} and targets {true.shape} differ in shape")
    return np.sqrt(np.average(np.square(predicted - true), axis=0, weights=sample_weight))


def crps(draws: ArrayLike, y: ArrayLike, *, weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Continuous ranked probability score of each row, ``(rows, outputs)``; lower is better.

    ``E |X - y| - E |X - X'| / 2`` for independent new targets ``X``, ``X'`` of the ensemble. The
    second expectation excludes pairs of a draw with itself, so the score is unbiased even for few
    draws.

    Parameters
    ----------
    draws
        New targets ``(networks, rows, outputs)``, at least two networks.
    y
        Targets ``(rows, outputs)``.
    weights
        Weights of the networks, which sum to one; equal by default.

    Examples
    --------
    >>> crps(np.array([0.0, 2.0]).reshape(2, 1, 1), [[1.0]])
    array([[0.]])
    """
    ensemble, true = _checked(draws, y)
    # In its pairs, each sorted draw is above all earlier ones and below all later ones.
    if weights is None:
        count = len(ensemble)
        ordered = np.sort(ensemble, axis=0)
        shares = (2.0 * np.arange(count) - count + 1) / (count * (count - 1))
        spread = np.tensordot(shares, ordered, axes=(0, 0))
        return np.abs(ordered - true).mean(axis=0) - spread
    ordered, own = statistics.ordered(ensemble, weights)
    before = np.cumsum(own, axis=0) - own
    pairs = own * (2 * before + own - 1) / (1 - np.sum(np.square(weights)))
    return np.sum(own * np.abs(ordered - true), axis=0) - np.sum(pairs * ordered, axis=0)


def pit(
    draws: ArrayLike, y: ArrayLike, *, seed: int = 0, weights: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Probability integral transform of each target, ``(rows, outputs)``.

    The rank of the target among the new targets of the ensemble, divided by their number plus one;
    ties, as for counts, get random ranks. If target and new targets have the same distribution, it
    is uniform between 0 and 1 for any number of networks. With weights, ranks are sums of weights,
    and the number of new targets is the effective one.

    Parameters
    ----------
    draws, y, weights
        As for `crps`.
    seed
        Seed of the random ranks of equal targets.

    Examples
    --------
    >>> draws = np.linspace(0, 1, 999).reshape(-1, 1, 1)
    >>> pit(draws, [[0.25]]).round(2)
    array([[0.25]])
    """
    ensemble, true = _checked(draws, y)
    below, equal = ensemble < true, ensemble == true
    count: float = len(ensemble)
    if weights is None:
        lower, same = below.sum(axis=0), equal.sum(axis=0)
    else:
        count = float(1 / np.sum(np.square(weights)))
        lower, same = (count * np.tensordot(weights, each, axes=(0, 0)) for each in (below, equal))
    uniform = np.random.default_rng(seed).uniform(size=true.shape)
    return (lower + uniform * (same + 1)) / (count + 1)


def interval(
    draws: ArrayLike,
    y: ArrayLike,
    level: float = 0.95,
    *,
    weights: NDArray[Any] | None = None,
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Whether each target lies in the central `level` interval of the new targets, and its width.

    The mean of the first over rows is the coverage, which should be `level`; the mean of the second
    is the sharpness.

    Parameters
    ----------
    draws, y, weights
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
    check_fraction("level", level, such_as="0.95")
    # Weibull's quantiles: a new draw falls below the p-quantile with probability exactly p.
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    if weights is None:
        lower, upper = np.quantile(ensemble, ends, axis=0, method="weibull")
    else:
        lower, upper = statistics.weibull_quantile(ensemble, np.array(ends), weights)
    return np.asarray((lower <= true) & (true <= upper)), upper - lower


def _short(values: NDArray[Any] | float) -> str:
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
