"""ArviZ's container holds the results of the ensemble, and ArviZ can work with it."""

import warnings

import arviz_stats
import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.ensemble.arviz import loo, waic
from tests.sampled import sample_run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
Y = np.stack([X[:, 0], X[:, 1] ** 2], axis=1) + RNG.normal(0, 0.3, (12, 2))


def sampled(outputs, likelihood, y, sample_weight=None, **options):
    network = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(outputs), inputs=2)
    rows = {"sample_weight": sample_weight, "dtype": "float64"}
    posterior = tb.Posterior(network, likelihood, X, y, **rows)
    return sample_run(
        posterior, chains=2, burn_in=60, draws=40, networks_per_file=17, progress=False, **options
    )


@pytest.fixture(scope="module")
def gaussian():
    return sampled(2, tb.Gaussian(sd=tb.Hyper(0.3)), Y)


@pytest.fixture(scope="module")
def single():
    return sampled(1, tb.Gaussian(sd=0.3), Y[:, 0])


def test_groups_and_values(gaussian):
    tree = gaussian.to_arviz()
    assert set(tree.children) == {
        *("posterior", "sample_stats", "log_likelihood", "posterior_predictive"),
        *("observed_data", "constant_data", "predictions", "predictions_constant_data"),
    }
    named = {**gaussian.parameters, **gaussian.hyperparameters}
    assert set(tree.posterior.data_vars) == set(named)
    for name, values in named.items():
        np.testing.assert_array_equal(tree.posterior[name], values)
    np.testing.assert_array_equal(tree.sample_stats["energy"], gaussian.sample_stats["energy"])
    np.testing.assert_array_equal(tree.sample_stats["lp"], gaussian.sample_stats["lp"])
    np.testing.assert_array_equal(
        tree.sample_stats["num_gradients"], gaussian.sample_stats["num_gradients"]
    )
    assert tree.sample_stats["diverging"].dtype == bool
    np.testing.assert_array_equal(tree.observed_data["y"], Y)
    np.testing.assert_array_equal(tree.constant_data["x"], X)
    f = gaussian.predict(X).samples.reshape(2, 40, 12, 2)
    np.testing.assert_array_equal(tree.predictions["f"], f)
    np.testing.assert_array_equal(tree.predictions_constant_data["x"], X)
    assert tree.attrs["inference_library"] == "tensorbnn"


def test_log_likelihood_is_the_likelihoods(gaussian):
    found = gaussian.to_arviz().log_likelihood["y"]
    assert found.dims == ("chain", "draw", "row")
    f = gaussian.predict(X).samples.reshape(2, 40, 12, 2)
    sd = gaussian.hyperparameters["likelihood.sd"][..., None, None]
    np.testing.assert_allclose(found, stats.norm.logpdf(Y, f, sd).sum(axis=-1), rtol=1e-9)
    # The mixture of the networks is what the log score is made of.
    mixture = special.logsumexp(found.values, axis=(0, 1)) - np.log(80)
    np.testing.assert_allclose(mixture, gaussian.predict(X).log_predictive(Y), rtol=1e-9)


def test_new_targets_scatter_around_the_networks(gaussian):
    drawn = gaussian.to_arviz(seed=3).posterior_predictive["y"]
    f = gaussian.predict(X).samples.reshape(2, 40, 12, 2)
    sd = gaussian.hyperparameters["likelihood.sd"][..., None, None]
    scaled = (drawn.values - f) / sd
    assert stats.kstest(scaled.ravel(), "norm").pvalue > 1e-3
    assert len(np.unique(scaled.round(6))) == scaled.size  # no noise is used twice
    again = gaussian.to_arviz(seed=3).posterior_predictive["y"]
    np.testing.assert_array_equal(drawn, again)
    for other in (4, 3 + 2**32):  # all bits of a seed count
        assert not np.array_equal(drawn, gaussian.to_arviz(seed=other).posterior_predictive["y"])


@pytest.mark.slow
def test_other_inputs_and_a_view(single):
    tree = single.thin(3).to_arviz(X[:3])
    assert dict(tree.predictions["f"].sizes) == {"chain": 2, "draw": 14, "row": 3}
    assert dict(tree.log_likelihood["y"].sizes) == {"chain": 2, "draw": 14, "row": 12}
    assert tree.observed_data["y"].dims == ("row",)
    energy = single.sample_stats["energy"][:, ::3]
    np.testing.assert_array_equal(tree.sample_stats["energy"], energy)


@pytest.mark.slow
def test_classes():
    ensemble = sampled(3, tb.Categorical(), np.arange(12) % 3)
    tree = ensemble.to_arviz()
    assert set(np.unique(tree.posterior_predictive["y"])) <= {0, 1, 2}
    chosen = np.log(tree.predictions["f"].values[:, :, np.arange(12), np.arange(12) % 3])
    np.testing.assert_allclose(tree.log_likelihood["y"], chosen, rtol=1e-9)


@pytest.mark.slow
def test_the_prior_has_no_data():
    network = tb.Network(tb.Dense(1), inputs=1)
    ensemble = tb.sample(
        tb.Posterior(network, tb.Gaussian()), chains=2, burn_in=5, draws=9, progress=False
    )
    assert set(ensemble.to_arviz().children) == {"posterior", "sample_stats"}
    assert "predictions" in ensemble.to_arviz([0.0]).children
    with pytest.raises(ValueError, match="`loo` needs training data, but these networks were"):
        ensemble.loo()


def test_data_that_were_not_kept_are_asked_for(tmp_path, single):
    sampled(1, tb.Gaussian(sd=0.3), Y[:, 0], path=tmp_path / "run", store_data=False)
    loaded = tb.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"did not keep its training data .* give them"):
        loaded.to_arviz()
    assert loaded.diagnose(X[:2]).rhat.shape == (2,)
    found = tb.load(tmp_path / "run", data=(X, Y[:, 0])).to_arviz().log_likelihood["y"]
    np.testing.assert_array_equal(found, single.to_arviz().log_likelihood["y"])
    for data, error, message in (
        ((X, Y[:3, 0]), ValueError, "`x` has 12 rows but `y` has 3"),
        ((X, Y), ValueError, "`y` has 2 columns but the network has 1"),
        ((X, Y[:, 0] * np.nan), ValueError, "`y` must be finite"),
        (X, TypeError, r"`data` must be a pair .* got ndarray"),
        ((X, Y[:, 0] + 1), ValueError, "`data` are not the training data of this run"),
        ((X, Y[:, :1]), ValueError, "`data` are not the training data of this run"),
    ):
        with pytest.raises(error, match=message):
            tb.load(tmp_path / "run", data=data)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"x": X[:, :1]}, ValueError, "`x` has 1 columns but the network has 2 inputs"),
        ({"seed": -1}, ValueError, "`seed` must be a whole number of at least 0, got -1"),
        (
            {"seed": 2**64},
            ValueError,
            "`seed` must be a whole number of at most 18446744073709551615",
        ),
    ],
)
def test_bad_input(gaussian, options, error, message):
    with pytest.raises(error, match=message):
        gaussian.to_arviz(**options)


def test_loo_and_waic_of_a_gaussian_model():
    """A model without unknowns: both are the sum of log-densities."""
    certain = np.broadcast_to(stats.norm.logpdf(Y[:, 0]), (2, 50, 12))
    assert waic(certain).elpd == pytest.approx(certain[0, 0].sum())
    assert waic(certain).p == pytest.approx(0, abs=1e-12)
    assert loo(certain).elpd == pytest.approx(certain[0, 0].sum())
    assert not loo(certain).warning


def test_loo_of_rows_that_have_no_tail():
    """A row of weight 0, and one for which a stuck chain repeats a single value."""
    rng = np.random.default_rng(2)
    plain = rng.normal(-1, 0.2, (4, 500, 6))
    some = plain.copy()
    some[:, :, 2], some[0, :, 4] = 0.0, -9.0
    found, expected = loo(some), loo(plain)
    others = [0, 1, 3, 5]
    assert found.elpd_i[2] == 0.0
    np.testing.assert_allclose(found.elpd_i[4], -special.logsumexp(-some[:, :, 4]) + np.log(2000))
    np.testing.assert_allclose(found.elpd_i[others], expected.elpd_i[others], atol=0.01)
    assert np.all(found.pareto_k[[2, 4]] == -np.inf)
    assert np.all(np.isfinite(found.pareto_k[others]))


@pytest.mark.slow
def test_loo_and_waic_of_a_weight_of_zero():
    weights = np.r_[0.0, np.ones(11)]
    ensemble = sampled(1, tb.Gaussian(sd=0.3), Y[:, 0], sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 80 draws are too few, which gives a warning
        assert ensemble.loo().elpd_i[0] == 0.0
    assert ensemble.waic().elpd_i[0] == 0.0


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (loo, (1, 24), "LOO needs at least 25 networks, 4 of each chain, got 24, 24 of each"),
        (loo, (10, 3), "LOO needs at least 25 networks, 4 of each chain, got 30, 3 of each"),
        (waic, (1, 1), "WAIC needs at least 2 networks, got 1"),
    ],
)
def test_too_few_networks(function, shape, message):
    with pytest.raises(ValueError, match=message):
        function(np.random.default_rng(0).normal(size=(*shape, 5)))


def test_waic_and_loo_agree_with_exact_leave_one_out():
    """A normal mean with known noise, for which the predictive density without a row is known."""
    rng = np.random.default_rng(1)
    n, draws = 40, 4000
    y = rng.normal(0.4, 1, n)
    mean = rng.normal(y.mean(), n**-0.5, (4, draws))
    log_likelihood = stats.norm.logpdf(y, mean[..., None], 1)
    others = (y.sum() - y) / (n - 1)
    exact = stats.norm.logpdf(y, others, np.sqrt(1 + 1 / (n - 1))).sum()
    found = loo(log_likelihood)
    assert found.elpd == pytest.approx(exact, abs=0.05)
    assert found.p == pytest.approx(1, abs=0.3)
    assert not found.warning
    also = waic(log_likelihood)
    assert also.elpd == pytest.approx(found.elpd, abs=0.05)
    # The variance over rows is divided by their number less one, that of LOO only since ArviZ 1.
    assert also.se == pytest.approx(np.sqrt(n * also.elpd_i.values.var(ddof=1)), rel=1e-12)
    assert also.se == pytest.approx(found.se, rel=0.01 + 0.5 / n)
    assert not also.warning
    assert "elpd_waic" in str(also)


def test_arviz_works_on_it(single):
    tree = single.to_arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 80 draws are too few, which gives a warning
        found, own = arviz_stats.loo(tree), single.loo()
        assert found.elpd == pytest.approx(own.elpd, abs=0.5)
        assert single.waic().n_data_points == own.n_data_points == 12
        table = arviz_stats.compare({"a": own, "b": found})
    assert len(table) == 2
    assert len(arviz_stats.summary(tree, var_names=["dense_0.biases"])) == 2


def test_arviz_plots_it(single):
    import arviz_plots
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    arviz_plots.plot_trace(single.to_arviz(), var_names=["dense_0.biases"], backend="matplotlib")
    plt.close("all")
