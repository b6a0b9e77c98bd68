"""All scores of an ensemble's predictions of some targets.

Metrics of single networks, for reports during a run, are in `metrics.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.metrics import Accuracy
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.scores import (
    Reliability,
    brier,
    calibration_error,
    crps,
    interval,
    pit,
    reliability,
    rmse,
)

# New targets that are scored at once: networks times rows times outputs.
VALUES_AT_ONCE = 2**22


@final
@dataclass(frozen=True)
class Scores:
    """How well an ensemble predicts numbers; made by `Ensemble.score`.

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
        shown = {name: _short(getattr(self, name)) for name in ("rmse", "crps", "sharpness")}
        numbers = "".join(f", {name}={value}" for name, value in shown.items())
        return (
            f"Scores(log_score={self.log_score:.4g}{numbers}, "
            f"coverage={_short(self.coverage)} of {self.level:g}, {len(self.pit)} rows)"
        )


@final
@dataclass(frozen=True)
class ClassScores:
    """How well an ensemble predicts classes; made by `Ensemble.score`.

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


def _short(values: NDArray[Any]) -> str:
    """The one value, or all of them in brackets."""
    texts = [f"{value:.4g}" for value in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def score_numbers(
    prediction: Prediction,
    y: NDArray[Any],
    draw: Callable[[slice], NDArray[Any]],
    log_score: float,
    *,
    level: float,
    seed: int,
) -> Scores:
    """Scores of targets ``(rows, outputs)``.

    `log_score` is theirs, which may need more than the targets. `draw` gives new targets
    ``(networks, rows, outputs)`` for some rows; rows are worked through in blocks, so that memory
    stays bounded.
    """
    step = max(VALUES_AT_ONCE // (prediction.num_networks * y.shape[1]), 1)
    parts = []
    for first in range(0, len(y), step):
        rows = slice(first, first + step)
        draws = draw(rows)
        inside, width = interval(draws, y[rows], level)
        rank = pit(draws, y[rows], seed=seed + first)
        parts.append((crps(draws, y[rows]), inside, width, rank))
    score, inside, width, rank = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Scores(
        log_score=log_score,
        rmse=rmse(prediction.mean, y),
        crps=score.mean(axis=0),
        coverage=inside.mean(axis=0),
        sharpness=width.mean(axis=0),
        level=level,
        pit=rank,
    )


def score_classes(prediction: Prediction, y: NDArray[Any]) -> ClassScores:
    """Scores of labels ``(rows, 1)``, or of 0 and 1 for each output."""
    probabilities = prediction.mean.clip(0.0, 1.0)  # rounding may go beyond
    found = reliability(probabilities, y)
    return ClassScores(
        log_score=prediction.log_score(y),
        accuracy=Accuracy()(probabilities, y),
        brier=brier(probabilities, y),
        ece=calibration_error(found),
        reliability=found,
    )
