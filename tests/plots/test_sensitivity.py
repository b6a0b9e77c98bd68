"""The picture of a sweep shows its numbers, and where they can't be trusted."""

import matplotlib
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots
from tests.ensemble.made import coefficients, ensemble_of, linear

matplotlib.use("Agg")
import matplotlib.pyplot as plt

VALUES = np.array([8.0, 1.0, 0.7, 4.0, 1.3])


@pytest.fixture(scope="module")
def found():
    unit = tb.Normal(0.0, 1.0)
    posterior = tb.Posterior(linear(unit, unit), tb.Gaussian(sd=0.5), dtype="float64")
    draws = np.random.default_rng(0).normal(size=(4000, 2))
    ensemble = ensemble_of(posterior, coefficients(draws))
    return ensemble.sensitivity(np.linspace(-1, 1, 9), "*.*.scale", VALUES)


@pytest.fixture
def axes(found):
    panels = plots.sensitivity(found)
    yield panels
    plt.close(panels[0].figure)


def test_curves_are_in_order_and_dotted_where_not_trusted(found, axes):
    order = np.argsort(VALUES)
    for ax, curves in zip(axes, (found.mean, found.sd), strict=False):
        whole, trusted = ax.lines[:2]
        np.testing.assert_allclose(whole.get_xdata(), VALUES[order])
        np.testing.assert_allclose(whole.get_ydata(), curves[order, 0, 0])
        assert whole.get_linestyle() == ":"
        shown = np.isfinite(trusted.get_ydata())
        np.testing.assert_array_equal(shown, found.trustworthy[order])
    assert found.trustworthy[order].tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(axes[2].lines[0].get_ydata(), found.ess[order])


def test_what_is_marked(found, axes):
    labels = [[text.get_text() for text in ax.get_legend().get_texts()] for ax in axes[::2]]
    assert labels == [
        [f"x = {each:.3g}" for each in (-1.0, -0.5, 0.0, 0.5, 1.0)],
        ["weights can't be trusted", "highest evidence"],
    ]
    assert len(axes[0].patches) == 2
    assert axes[2].get_xlabel() == "dense_0.weights.scale and 1 more"
    assert axes[2].get_xscale() == "log"
    assert axes[2].lines[-1].get_xdata()[0] == found.best().value


def test_values_that_are_not_positive_and_axes_of_the_user(found):
    unit = tb.Normal(0.0, 1.0)
    posterior = tb.Posterior(linear(unit, unit), tb.Gaussian(sd=0.5), dtype="float64")
    draws = np.random.default_rng(0).normal(size=(400, 2))
    moved = ensemble_of(posterior, coefficients(draws)).sensitivity(
        [1.0], "dense_0.weights.loc", [-0.2, 0.0, 0.2]
    )
    figure, panels = plt.subplots(3)
    assert plots.sensitivity(moved, axes=panels)[0] is panels[0]
    assert panels[2].get_xscale() == "linear"
    assert panels[2].get_xlabel() == "dense_0.weights.loc"
    with pytest.raises(ValueError, match="`axes` must be three Axes, got 2"):
        plots.sensitivity(moved, axes=panels[:2])
    with pytest.raises(ValueError, match="`output` must be a whole number of at most 0, got 1"):
        plots.sensitivity(moved, output=1)
    plt.close(figure)
