"""The plots show the right values, on the given axes."""

import builtins
import sys

import matplotlib
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X = np.array([0.3, -1.0, 2.0, 0.0])


@pytest.fixture(scope="module")
def prediction():
    posterior = tb.Posterior(tb.Network(tb.Dense(2), inputs=1), tb.Gaussian(sd=0.5))
    ensemble = tb.sample(posterior, chains=1, burn_in=10, draws=20, progress=False)
    return ensemble.predict(X)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def polygon(ax, index):
    """Corners of a band, as (x, y) pairs."""
    return ax.collections[index].get_paths()[0].vertices


def test_bands_mean_data_and_truth(prediction, ax):
    assert plots.bands(prediction, data=(X, X**2), truth=np.cos, ax=ax) is ax
    order = np.argsort(X)
    mean, truth, data = ax.lines
    np.testing.assert_allclose(mean.get_xydata()[:, 1], prediction.mean[order, 0])
    np.testing.assert_allclose(truth.get_xydata()[:, 1], np.cos(X[order]))
    np.testing.assert_allclose(data.get_xydata(), np.stack([X, X**2], axis=1))
    for index, width in ((0, 2), (1, 1)):
        upper = prediction.mean[:, 0] + width * prediction.sd[:, 0]
        lower = prediction.mean[:, 0] - width * prediction.sd[:, 0]
        corners = polygon(ax, index)
        np.testing.assert_allclose(corners[:, 1].max(), upper.max())
        np.testing.assert_allclose(corners[:, 1].min(), lower.min())
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["two sd", "one sd", "mean", "truth", "data"]
    assert ax.get_xlim() == (-1.0, 2.0)


def test_noise_and_output_are_chosen(prediction, ax):
    plots.bands(prediction, output=1, noise=True, ax=ax)
    upper = prediction.mean[:, 1] + 2 * prediction.sd_total[:, 1]
    np.testing.assert_allclose(polygon(ax, 0)[:, 1].max(), upper.max())


def test_error_bars_of_data_and_one_of_several_inputs(ax):
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(sd=0.5))
    ensemble = tb.sample(posterior, chains=1, burn_in=5, draws=5, progress=False)
    rows, y = np.stack([X, X**2], axis=1), np.array([1.0, 2.0, 3.0, 4.0])
    data = tb.Dataset(rows, y, y_sd=[0.1, 0.2, 0.3, 0.4])
    plots.bands(ensemble.predict(rows), data=data, column=1, ax=ax)
    assert ax.get_xlabel() == "x1"
    bars = np.array(ax.containers[0].lines[2][0].get_segments())
    np.testing.assert_allclose(bars[:, :, 0], np.stack([X**2, X**2], axis=1))
    np.testing.assert_allclose(bars[:, 1, 1] - bars[:, 0, 1], 2 * data.y_sd)


def test_new_axes_are_made_where_none_are_given(prediction):
    ax = plots.bands(prediction)
    assert len(ax.lines) == 1
    plt.close(ax.figure)


def test_a_single_row_is_shown_without_a_warning(ax):
    """Warnings are errors here; Matplotlib warns of an axis from a number to itself."""
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.5))
    ensemble = tb.sample(posterior, chains=1, burn_in=5, draws=5, progress=False)
    plots.bands(ensemble.predict([0.3]), ax=ax)
    lower, upper = ax.get_xlim()
    assert lower < 0.3 < upper


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": 1}, "`column` must be a whole number of at most 0, got 1"),
        ({"output": 2}, "`output` must be a whole number of at most 1, got 2"),
        ({"data": (X, X[:2])}, "`x` has 4 rows but `y` has 2"),
    ],
)
def test_bad_input(prediction, ax, options, message):
    with pytest.raises(ValueError, match=message):
        plots.bands(prediction, ax=ax, **options)


def pretrained(sign=1.0):
    """Two chains and two cycles, of 3 and 2 epochs for the first chain, 1 and 4 for the second."""
    epochs = np.array([[3, 2], [1, 4]])
    training = 1.0 + np.arange(20.0).reshape(2, 2, 5)
    training[np.arange(5) >= epochs[..., None]] = np.nan
    return tb.Pretrained(
        {},
        training_loss=sign * training,
        validation_loss=sign * (training + 0.5),
        epochs=epochs,
        best_loss=np.ones(2),
    )


def test_losses_of_all_chains(ax):
    assert plots.losses(pretrained(), ax=ax) is ax
    # The second cycle begins after the third epoch, the longest of the first.
    first, second = [1, 2, 3, 6, 7, np.nan, np.nan], [11, *[np.nan] * 2, 16, 17, 18, 19]
    *curves, between = ax.lines
    for line, expected in zip(curves[:2], (first, second), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 8))
        np.testing.assert_array_equal(line.get_ydata(), expected)
    for line, expected in zip(curves[2:], (first, second), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), np.add(expected, 0.5))
    assert list(between.get_xdata()) == [3.5, 3.5]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["training", "validation"]
    assert ax.get_yscale() == "log"


def test_losses_of_one_chain(ax):
    plots.losses(pretrained(sign=-1.0), chain=1, ax=ax)
    training, validation, between = ax.lines
    np.testing.assert_array_equal(training.get_ydata(), [-11, -16, -17, -18, -19])
    np.testing.assert_array_equal(validation.get_ydata(), training.get_ydata() - 0.5)
    assert list(between.get_xdata()) == [1.5, 1.5]
    assert ax.get_yscale() == "linear"
    with pytest.raises(ValueError, match="`chain` must be a whole number of at most 1, got 2"):
        plots.losses(pretrained(), chain=2, ax=ax)


def test_losses_of_a_real_training_in_new_axes():
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.5), X, X)
    result = tb.pretrain(posterior, chains=1, cycles=1, epochs=1, progress=False)
    ax = plots.losses(result)
    assert len(ax.lines) == 2
    plt.close(ax.figure)


def test_without_matplotlib_the_message_says_what_to_install(prediction, monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'tensorbnn\[plots\]'"):
        plots.bands(prediction)
