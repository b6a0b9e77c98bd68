"""Pictures of calibration show the frequencies they are given."""

import matplotlib
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots
from tensorbnn.ensemble.class_scores import reliability

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(0)


def numbers(pit):
    one = np.ones(pit.shape[1])
    return tb.Scores(
        log_score=0.0, rmse=one, crps=one, coverage=one, sharpness=one, level=0.9, pit=pit
    )


def classes():
    probability = RNG.uniform(size=(200, 1))
    found = reliability(probability, RNG.uniform(size=(200, 1)) < probability, bins=5)
    return tb.ClassScores(log_score=0.0, accuracy=0.5, brier=0.2, ece=0.1, reliability=found)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_coverage_of_every_level(ax):
    pit = RNG.uniform(size=(50, 2))
    assert plots.calibration(numbers(pit), ax=ax) is ax
    for column, line in enumerate(ax.lines[1:]):
        level, observed = line.get_xydata().T
        inside = np.abs(pit[:, column, None] - 0.5) <= level / 2
        np.testing.assert_allclose(observed, inside.mean(axis=0))
    assert len(ax.get_legend().get_texts()) == 2


def test_reliability_of_classes(ax):
    scores = classes()
    assert plots.calibration(scores, ax=ax) is ax
    expected = np.stack([scores.reliability.predicted, scores.reliability.observed], axis=1)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), expected)
    assert ax.get_ylabel() == "observed frequency"


@pytest.mark.parametrize("outputs", [1, 2])
def test_pit(ax, outputs):
    pit = RNG.uniform(size=(80, outputs))
    assert plots.pit(numbers(pit), bins=8, ax=ax) is ax
    shown = [each.get_data().values for each in ax.patches if hasattr(each, "get_data")]
    for column, height in enumerate(shown):
        np.testing.assert_allclose(height, np.histogram(pit[:, column], 8, (0, 1))[0] / 10)
    assert len(shown) == outputs


def test_new_axes_are_made_where_none_are_given():
    scores = numbers(RNG.uniform(size=(9, 1)))
    made = [plots.calibration(scores), plots.calibration(classes()), plots.pit(scores)]
    assert len({ax.figure for ax in made}) == 3
    for ax in made:
        plt.close(ax.figure)


def test_bad_input(ax):
    with pytest.raises(TypeError, match="`pit` shows scores of numbers; for classes use"):
        plots.pit(classes(), ax=ax)
    with pytest.raises(ValueError, match=r"`bins` must be a whole number of at least 1, got 2.5"):
        plots.pit(numbers(RNG.uniform(size=(9, 1))), bins=2.5, ax=ax)
