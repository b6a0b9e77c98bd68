"""Pictures of chains in function space, of their diagnosis, and of hyper-parameters."""

import dataclasses
import warnings

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
    assert ax.get_ylabel() == "prediction of y1 at x = 2"


def test_trace_marks_divergences(ensemble, ax, monkeypatch):
    diverging = np.zeros((3, 60), bool)
    diverging[1, 7] = diverging[2, 40] = True
    monkeypatch.setattr(ensemble, "sample_stats", {**ensemble.sample_stats, "diverging": diverging})
    plots.trace(ensemble, 0.0, ax=ax)
    assert labels(ax)[-1] == "divergence"
    assert ax.lines[-1].get_xdata().tolist() == [8, 41]


def test_trace_at_several_inputs_of_one_row(alone, ax):
    plots.trace(alone, [0.5, -1.0], ax=ax)
    assert ax.get_ylabel() == "prediction of y at x0 = 0.5, x1 = -1"


def test_ranks(ensemble, ax):
    assert plots.ranks(ensemble, 2.0, bins=4, ax=ax) is ax
    values = ensemble.predict([2.0]).samples[:, 0, 0]
    ranks = np.argsort(np.argsort(values)).reshape(3, 60) // 45  # a bin holds 45 of 180
    heights = [each.get_data().values for each in ax.patches if hasattr(each, "get_data")]
    assert len(heights) == 3
    for height, own in zip(heights, ranks, strict=True):
        np.testing.assert_allclose(height, np.bincount(own, minlength=4) * 4 / 60)
    np.testing.assert_allclose(np.mean(heights, axis=0), 1)


def test_equal_draws_favor_no_chain(ax):
    """For example where a probability is so near to one that it is rounded to it."""
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
    assert labels(ax) == ["y0", "y1"]


def test_autocorrelation_of_few_draws(alone, ax):
    plots.autocorrelation(alone, [[0.5, -1.0]], ax=ax)
    assert ax.get_xlim() == (0, 9)
    assert ax.get_legend() is None


def test_rhat_and_ess_against_x(ensemble, ax):
    diagnosis, order = ensemble.diagnose(X), np.argsort(X)
    assert plots.rhat(diagnosis, ax=ax) is ax
    for line, own in zip(ax.lines, diagnosis.rhat.T, strict=False):
        np.testing.assert_allclose(line.get_xydata(), np.stack([X, own], axis=1)[order], rtol=1e-6)
    assert labels(ax) == ["R-hat, y0", "R-hat, y1", "limit 1.01"]
    ax.clear()
    assert plots.ess(diagnosis, ax=ax) is ax
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


@pytest.mark.filterwarnings("ignore:these weights can.t be trusted")
def test_hyperparameters_have_weights_after_reweighting(ensemble, ax):
    likelihood = tb.Gaussian(sd=tb.Hyper(0.5, tb.HalfNormal(0.4)))
    w = ensemble.reweight(likelihood=likelihood, progress=False)
    assert np.ptp(w.weights) > 1e-3
    plots.hyperparameters(w, var_names=["likelihood.sd"], ax=ax)
    own, weights = w.hyperparameters["likelihood.sd"][1], w.weights[1]
    wanted = np.quantile(own, [0.05, 0.95], weights=weights, method="inverted_cdf")
    np.testing.assert_allclose(ax.lines[3].get_xdata(), wanted)
    ax.clear()
    plots.hyperparameter(w, "likelihood.sd", bins=5, ax=ax)
    together, edges = ax.patches[0].get_data().values, ax.patches[0].get_data().edges
    values = w.hyperparameters["likelihood.sd"]
    expected = np.histogram(values, edges, density=True, weights=w.weights)[0]
    np.testing.assert_allclose(together, expected)
    for plot in (plots.trace, plots.ranks):
        name = f"`plots.{plot.__name__}`"
        with pytest.raises(ValueError, match=f"{name} can't be used after `reweight`"):
            plot(w, 0.5)


def test_relevances(ensemble, ax):
    network = tb.Network(tb.Relevance(), tb.Dense(1), inputs=3)
    posterior = tb.Posterior(network, tb.Gaussian())
    scaled = tb.sample(posterior, chains=2, burn_in=5, draws=20, progress=False)
    assert (
        plots.relevances(scaled, labels={"x0": "mass", "x1": "charge", "x2": "spin"}, ax=ax) is ax
    )
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
    with pytest.raises(ValueError, match=r"`var_names` must be .*, got 'mass'"):
        plots.relevances(scaled, var_names=["mass"])
    some = plots.relevances(scaled, var_names=["x2", "x0"])
    assert {text.get_text() for text in some.get_yticklabels()} == {"x0", "x2"}
    plt.close(some.figure)


def test_some_hyperparameters_in_new_axes(ensemble):
    ax = plots.hyperparameters(
        ensemble, var_names=["likelihood.sd"], labels={"likelihood.sd": "noise"}
    )
    assert [text.get_text() for text in ax.get_yticklabels()] == ["noise"]
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


def test_labels_name_columns_and_units(ensemble, ax):
    names = {"x": "depth (m)", "y0": "flow (l/s)", "y1": "level (m)"}
    plots.trace(ensemble, 2.0, output=1, labels=names, ax=ax)
    assert ax.get_ylabel() == "prediction of level (m) at depth (m) = 2"
    plots.ranks(ensemble, 2.0, labels=names, ax=ax)
    assert ax.get_xlabel() == "rank of the prediction of flow (l/s) at depth (m) = 2"
    ax.clear()
    plots.rhat(ensemble.diagnose(X), labels=names, ax=ax)
    assert ax.get_xlabel() == "depth (m)"
    assert labels(ax)[0] == "R-hat, flow (l/s)"
    ax.clear()
    plots.bands(ensemble.predict(X), output=1, labels=names, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth (m)", "level (m)")


def test_weights_are_respected_or_refused(ax):
    x = np.linspace(-1, 1, 8)
    layer = tb.Dense(1, tb.Normal(), tb.Normal())
    posterior = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=tb.Hyper(0.5)), x, x)
    plain = tb.sample(posterior, chains=2, burn_in=50, draws=50, progress=False)
    with warnings.catch_warnings(action="ignore"):
        other = plain.reweight(likelihood=tb.Gaussian(sd=tb.Hyper(1.0)), progress=False)
    values = other.hyperparameters["likelihood.sd"]
    plots.hyperparameter(other, "likelihood.sd", bins=6, ax=ax)
    overall, first, _ = [patch.get_data().values for patch in ax.patches]
    expected = np.histogram(values, 6, weights=other.weights, density=True)
    np.testing.assert_allclose(overall, expected[0])
    own = np.histogram(values[0], expected[1], weights=other.weights[0], density=True)[0]
    np.testing.assert_allclose(first, own)
    ax.clear()
    plots.hyperparameters(other, ax=ax)
    dot, order = ax.lines[2], np.argsort(values[0])
    shares = np.cumsum(other.weights[0][order]) / other.weights[0].sum()
    assert dot.get_xdata()[0] == pytest.approx(values[0][order][np.searchsorted(shares, 0.5)])
    for plot in (plots.trace, plots.ranks):
        with pytest.raises(ValueError, match="can't be used after `reweight`"):
            plot(other, 0.0, ax=ax)


def test_new_axes_are_made_where_none_are_given(ensemble):
    diagnosis = ensemble.diagnose(X)
    made = [
        plots.trace(ensemble, 0.0),
        plots.ranks(ensemble, 0.0),
        plots.autocorrelation(ensemble, X),
        plots.rhat(diagnosis),
        plots.ess(diagnosis),
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
        (
            lambda e: plots.trace(e, 0.0, output=2),
            "`output` must be a whole number of at most 1, got 2",
        ),
        (lambda e: plots.ranks(e, 0.0, bins=2.5), "`bins` must be a whole number"),
        (lambda e: plots.ranks(e, 0.0, bins=61), "`bins` must be 1 to the number of draws, 60"),
        (lambda e: plots.autocorrelation(e, X, max_lag=60), "must be below the number of draws"),
        (
            lambda e: plots.rhat(e.diagnose(X), column=1),
            "`column` must be a whole number of at most 0, got 1",
        ),
        (lambda e: plots.hyperparameter(e, "sd"), "`name` must be .*hood.sd', got 'sd'"),
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
    with pytest.raises(TypeError, match="`var_names` must be a list of names, got 'likelihood"):
        plots.hyperparameters(ensemble, var_names="likelihood.sd")


def test_rhat_that_is_not_a_number_leaves_a_gap(ensemble, ax):
    diagnosis = ensemble.diagnose(X)
    gap = dataclasses.replace(diagnosis, rhat=np.full_like(diagnosis.rhat, np.nan))
    plots.rhat(gap, ax=ax)
    ax.figure.canvas.draw()
