"""Pictures of chains in function space, of their diagnosis, and of hyper-parameters."""

import dataclasses

import matplotlib
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots
from tests.ensemble.made import coefficients, ensemble_of, linear

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X = np.array([0.3, -1.0, 2.0, 0.0])


@pytest.fixture(scope="module")
def ensemble():
    network = tb.Network(tb.Dense(2), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.5)))
    return tb.sample(posterior, chains=3, burn_in=10, draws=60, progress=False)


@pytest.fixture(scope="module")
def alone():
    network = tb.Network(tb.Dense(1, tb.Normal(), tb.Normal()), inputs=2)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.5))
    return tb.sample(posterior, chains=1, burn_in=5, draws=10, progress=False)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_trace(ensemble, ax):
    assert plots.trace(ensemble, 2.0, output=1, ax=ax) is ax
    expected = ensemble.predict([2.0]).samples[:, 0, 1].reshape(3, 60)
    for line, own in zip(ax.lines, expected, strict=False):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 61))
        np.testing.assert_array_equal(line.get_ydata(), own)
    assert labels(ax)[:3] == ["chain 0", "chain 1", "chain 2"]
    assert ax.get_ylabel() == "prediction at 2"


def test_trace_marks_divergences(ensemble, ax, monkeypatch):
    diverging = np.zeros((3, 60), bool)
    diverging[1, 7] = diverging[2, 40] = True
    monkeypatch.setattr(ensemble, "sample_stats", {**ensemble.sample_stats, "diverging": diverging})
    plots.trace(ensemble, 0.0, ax=ax)
    assert labels(ax)[-1] == "divergence"
    assert ax.lines[-1].get_xdata().tolist() == [8, 41]


def test_trace_at_several_inputs_of_one_row(alone, ax):
    plots.trace(alone, [0.5, -1.0], ax=ax)
    assert ax.get_ylabel() == "prediction at 0.5, -1"


def test_ranks(ensemble, ax):
    assert plots.ranks(ensemble, 2.0, bins=4, ax=ax) is ax
    values = ensemble.predict([2.0]).samples[:, 0, 0]
    ranks = np.argsort(np.argsort(values)).reshape(3, 60) // 45  # a bin holds 45 of 180
    heights = [each.get_data().values for each in ax.patches if hasattr(each, "get_data")]
    assert len(heights) == 3
    for height, own in zip(heights, ranks, strict=True):
        np.testing.assert_allclose(height, np.bincount(own, minlength=4) * 4 / 60)
    np.testing.assert_allclose(np.mean(heights, axis=0), 1)


def test_draws_that_say_the_same_favor_no_chain(ax):
    """As where a probability is so near to one that it is rounded to it."""
    posterior = tb.Posterior(linear(tb.Normal(), tb.Normal()), tb.Gaussian(sd=0.5))
    plots.ranks(ensemble_of(posterior, coefficients(np.ones((4000, 2)))), 0.5, bins=5, ax=ax)
    heights = [each.get_data().values for each in ax.patches if hasattr(each, "get_data")]
    sd = np.sqrt(5 * (1 - 1 / 4) * (1 - 1 / 5) / 1000)  # of 200 of 1000 draws in each of 5 bins
    np.testing.assert_allclose(heights, 1, atol=5 * sd)


def test_autocorrelation(ensemble, ax):
    assert plots.autocorrelation(ensemble, X, max_lag=7, ax=ax) is ax
    rho = ensemble.autocorrelation(X, 7)
    for line, own in zip(ax.lines[1:], rho.T, strict=True):
        np.testing.assert_allclose(line.get_ydata(), own)
    assert labels(ax) == ["output 0", "output 1"]


def test_autocorrelation_of_few_draws(alone, ax):
    plots.autocorrelation(alone, [[0.5, -1.0]], ax=ax)
    assert ax.get_xlim() == (0, 9)
    assert ax.get_legend() is None


def test_rhat_and_ess_against_x(ensemble, ax):
    diagnosis, order = ensemble.diagnose(X), np.argsort(X)
    assert plots.rhat(diagnosis, ax=ax) is ax
    for line, own in zip(ax.lines, diagnosis.rhat.T, strict=False):
        np.testing.assert_allclose(line.get_xydata(), np.stack([X, own], axis=1)[order], rtol=1e-6)
    assert labels(ax) == ["R-hat, output 0", "R-hat, output 1", "limit 1.01"]
    ax.clear()
    assert plots.ess(diagnosis, X[:, None], ax=ax) is ax
    shown = [line.get_ydata() for line in ax.lines[:4]]
    np.testing.assert_array_equal(shown[1], diagnosis.ess[order, 1])
    np.testing.assert_array_equal(shown[2], diagnosis.ess_tail[order, 0])
    assert labels(ax)[-1] == "limit 400"


def test_hyperparameters(ensemble, ax):
    assert plots.hyperparameters(ensemble, ax=ax) is ax
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == list(ensemble.hyperparameters)
    thin, thick, dot = ax.lines[:3]
    own = ensemble.hyperparameters[names[0]][0]
    np.testing.assert_allclose(thin.get_xdata(), np.quantile(own, [0.05, 0.95]))
    np.testing.assert_allclose(thick.get_xdata(), np.quantile(own, [0.25, 0.75]))
    np.testing.assert_allclose(dot.get_xdata(), np.median(own))
    assert labels(ax) == ["chain 0", "chain 1", "chain 2"]


def test_relevances(ensemble, ax):
    network = tb.Network(tb.Relevance(), tb.Dense(1), inputs=3)
    posterior = tb.Posterior(network, tb.Gaussian())
    scaled = tb.sample(posterior, chains=2, burn_in=5, draws=20, progress=False)
    assert plots.relevances(scaled, names=["mass", "charge", "spin"], ax=ax) is ax
    scales = scaled.parameters["relevance_0.scales"]
    medians = np.median(scales, axis=(0, 1))
    order = np.argsort(-medians)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [["mass", "charge", "spin"][each] for each in order]
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    expected = [np.median(scales[chain, :, each]) for each in order for chain in range(2)]
    np.testing.assert_allclose(dots, expected)
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(scaled.relevances, medians / medians.max())
    assert ensemble.relevances is None
    with pytest.raises(ValueError, match="does not begin with Relevance"):
        plots.relevances(ensemble)
    with pytest.raises(ValueError, match="`names` must be a list of 3 names"):
        plots.relevances(scaled, names=["mass"])


def test_some_hyperparameters_in_new_axes(ensemble):
    ax = plots.hyperparameters(ensemble, names=["likelihood.sd"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["likelihood.sd"]
    plt.close(ax.figure)


def test_one_hyperparameter(ensemble, ax):
    assert plots.hyperparameter(ensemble, "likelihood.sd", bins=6, ax=ax) is ax
    together, *each = [patch.get_data() for patch in ax.patches]
    values = ensemble.hyperparameters["likelihood.sd"]
    height, edges = np.histogram(values, 6, density=True)
    np.testing.assert_allclose(together.values, height)
    np.testing.assert_allclose(together.edges, edges)
    assert len(each) == 3
    np.testing.assert_allclose(np.mean([own.values for own in each], axis=0), height)


def test_new_axes_are_made_where_none_are_given(ensemble):
    diagnosis = ensemble.diagnose(X)
    made = [
        plots.trace(ensemble, 0.0),
        plots.ranks(ensemble, 0.0),
        plots.autocorrelation(ensemble, X),
        plots.rhat(diagnosis, X),
        plots.ess(diagnosis, X),
        plots.hyperparameter(ensemble, "likelihood.sd"),
    ]
    assert len({ax.figure for ax in made}) == 6
    for ax in made:
        plt.close(ax.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: plots.trace(e, X[:, None]), r"one row of inputs, \(1,\), got shape \(4, 1\)"),
        (lambda e: plots.trace(e, X), "`x` has 4 columns but the network has 1 inputs"),
        (lambda e: plots.trace(e, 0.0, output=2), "`output` must be 0 to 1, got 2"),
        (lambda e: plots.ranks(e, 0.0, bins=2.5), "`bins` must be a whole number"),
        (lambda e: plots.ranks(e, 0.0, bins=61), "`bins` must be 1 to the number of draws, 60"),
        (lambda e: plots.autocorrelation(e, X, max_lag=60), "must be below the number of draws"),
        (lambda e: plots.rhat(e.diagnose(X), X[:2]), "has 2 rows but the diagnosis has 4"),
        (lambda e: plots.hyperparameter(e, "sd"), "no hyper-parameter 'sd': there are .*hood.sd"),
        (lambda e: plots.hyperparameter(e, "likelihood.sd", bins=2.5), "`bins` must be a whole"),
    ],
)
def test_bad_input(ensemble, call, message):
    with pytest.raises(ValueError, match=message):
        call(ensemble)


def test_what_can_not_be_shown(ensemble, alone):
    with pytest.raises(ValueError, match="ranks compare chains, but this ensemble has only one"):
        plots.ranks(alone, [0.0, 0.0])
    with pytest.raises(ValueError, match="has no hyper-parameters to show"):
        plots.hyperparameters(alone)
    with pytest.raises(TypeError, match="`names` must be a list of names, got 'likelihood"):
        plots.hyperparameters(ensemble, names="likelihood.sd")


def test_rhat_that_is_not_a_number_leaves_a_gap(ensemble, ax):
    diagnosis = ensemble.diagnose(X)
    gap = dataclasses.replace(diagnosis, rhat=np.full_like(diagnosis.rhat, np.nan))
    plots.rhat(gap, X, ax=ax)
    ax.figure.canvas.draw()
