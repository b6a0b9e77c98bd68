"""`fit_variational` returns an ensemble like any other, whose verdict calls it approximate."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots
from tensorbnn.findings import VerdictKind

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 12)
Y = 0.7 * X - 0.2
QUICK = {
    "estimator": "shared",
    "cycles": 1,
    "epochs": 510,
    "learning_rate": 0.05,
    "progress": False,
}


def posterior(**options):
    layer = tb.Dense(1, tb.Normal(0.0, tb.Hyper(1.0)), tb.Normal(0.0, 1.0))
    return tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.3), X, Y, **options)


def fit(model=None, **options):
    return tb.fit_variational(posterior() if model is None else model, **QUICK | options)


def same(first, second):
    groups = ("parameters", "hyperparameters", "sample_stats")
    return all(
        np.array_equal(values, getattr(second, group)[name])
        for group in groups
        for name, values in getattr(first, group).items()
    )


@pytest.fixture(scope="module")
def ensemble():
    return fit(draws=400)


def test_draws_have_the_fitted_moments(ensemble):
    found = ensemble.approximation
    assert (ensemble.num_chains, ensemble.num_draws) == (1, 400)
    drawn = {**ensemble.parameters, **ensemble.hyperparameters}
    drawn["dense_0.weights.scale"] = np.log(drawn["dense_0.weights.scale"])
    assert set(found.mean) == set(found.sd) == set(drawn)
    for name, values in drawn.items():
        mean, sd = found.mean[name], found.sd[name]
        assert mean.shape == values.shape[2:]
        flat = values[0].reshape(400, -1)
        z = (flat.mean(axis=0) - mean.ravel()) / sd.ravel() * 400**0.5
        spread = (flat.std(axis=0) / sd.ravel() - 1) * 800**0.5
        assert np.abs([z, spread]).max() < 4


def test_draws_are_independent(ensemble):
    weights = ensemble.parameters["dense_0.weights"][0, :, 0, 0]
    assert abs(np.corrcoef(weights[:-1], weights[1:])[0, 1]) < 4 / 400**0.5


def test_the_verdict_reports_the_approximation(ensemble):
    found, d = ensemble.approximation, ensemble.diagnose(X)
    assert d.verdict == found.verdict
    assert d.verdict.kind is VerdictKind.APPROXIMATION
    assert repr(found).startswith("Approximation(ELBO ")
    assert np.all(d.ess > 200)  # of 400 independent draws


@pytest.mark.parametrize(
    ("k", "end"),
    [
        (0.3, ": k-hat is 0.30, so the two are close"),
        (-np.inf, ": k-hat is -inf, so the two are close"),
        (0.66, ": k-hat is 0.66, so the two are close"),
        (
            5.0,
            ": k-hat is 5.00, above 0.67, so the two differ, and means and sds may be wrong: "
            "compare them with those of tb.sample",
        ),
    ],
)
def test_how_close_it_is(k, end):
    found = tb.Approximation(-1.0, 0.1, k, 900.0, np.zeros(1), np.zeros((1, 1)), {}, {})
    assert found.trustworthy == (k < 2 / 3)  # 1 - 1 / log10(1000 draws)
    assert str(found.verdict).endswith(f"(ELBO -1.00 ± 0.10){end}")


def test_ess_is_that_of_the_weighted_draws():
    """All of them where the two densities are the same; few where they are not."""
    x = np.linspace(-1, 1, 12)  # symmetric, so that weight and bias are independent
    layer = tb.Dense(1, tb.Normal(0.0, 1.0), tb.Normal(0.0, 1.0))
    model = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.3), x, 0.5 * x)
    found = fit(model, estimator="flipout", cycles=3).approximation
    assert found.trustworthy
    assert 950 < found.ess <= 1000
    shifted = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.3), x + 5, 0.5 * x)
    assert fit(shifted).approximation.ess < 500


def test_everything_downstream_works(ensemble):
    prediction = ensemble.predict(X)
    assert prediction.samples.shape == (400, 12)
    assert np.all(prediction.quantile(0.9, noise=False) > prediction.quantile(0.1, noise=False))
    assert ensemble.evaluate(X, Y).rmse < 0.3
    assert np.isfinite(ensemble.loo().elpd)
    assert np.isfinite(ensemble.waic().elpd)
    assert dict(ensemble.to_arviz().log_likelihood["y"].sizes)["draw"] == 400
    assert ensemble.autocorrelation(X, max_lag=5).shape == (6,)
    other = tb.Network(tb.Dense(1, tb.Normal(0.0, 0.9), tb.Normal(0.0, 1.0)), inputs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert len(ensemble.reweight(network=other)) == 400
    plots.bands(prediction)
    plots.trace(ensemble, 0.5)
    plots.hyperparameters(ensemble)
    plt.close("all")
    chains = tb.sample(posterior(), start=ensemble, chains=2, burn_in=20, draws=20, progress=False)
    assert chains.approximation is None
    assert chains.diagnose(X).verdict.kind is not VerdictKind.APPROXIMATION


def test_a_run_on_disk(ensemble, tmp_path):
    path = tmp_path / "fit"
    kept = fit(draws=400, path=path)
    assert same(kept, ensemble)
    loaded = tb.load(path)
    assert same(loaded, ensemble)
    for name in ("elbo", "elbo_error", "pareto_k", "elbos", "history"):
        values = (getattr(each.approximation, name) for each in (loaded, ensemble))
        np.testing.assert_array_equal(*values)
    for name, mean in ensemble.approximation.mean.items():
        np.testing.assert_array_equal(loaded.approximation.mean[name], mean)
    assert loaded.diagnose(X).verdict == ensemble.diagnose(X).verdict
    longer = tb.resume(path, draws=500, progress=False)
    assert longer.num_draws == 500
    assert same(longer, fit(draws=500))
    with pytest.raises(FileExistsError, match="already holds a run"):
        fit(path=path)


def test_hyperparameters_can_be_held():
    held = fit(draws=50, sample_hyperparameters=False, start={"dense_0.weights.scale": 0.5})
    assert set(held.approximation.mean) == {"dense_0.weights", "dense_0.biases"}
    np.testing.assert_allclose(held.hyperparameters["dense_0.weights.scale"], 0.5, rtol=1e-6)
    # A prior of half the width, known: less is left to learn about.
    assert held.approximation.elbo != fit(draws=50).approximation.elbo


def test_batches_starts_and_several_gradients(ensemble):
    found = fit(draws=20, batch_size=4, gradient_draws=3, num_starts=2).approximation
    assert found.elbos.shape == (2,)
    assert len(set(found.elbos)) == 2
    assert found.elbo == pytest.approx(found.elbos.max())
    # One has three steps an epoch and gradients of less noise; both are near the best.
    assert abs(found.elbo - ensemble.approximation.elbo) < 1


def test_epochs_are_checked_regularly_and_at_the_end(ensemble):
    seen = np.flatnonzero(np.isfinite(ensemble.approximation.history[0])) + 1
    stopped = seen[-1]
    assert ensemble.approximation.history.shape == (1, 510)
    assert seen.tolist() == [*range(25, stopped + 1, 25), *([510] if stopped == 510 else [])]
    highest = np.nanmax(ensemble.approximation.history)
    # With 32 pairs of estimates, each as uncertain as a draw at most.
    error = ensemble.approximation.elbo_error * 1000**0.5 / 32**0.5
    assert abs(highest - ensemble.approximation.elbo) < 4 * error


def test_patience_may_end_before_the_first_check():
    found = fit(draws=5, patience=3).approximation
    seen = np.flatnonzero(np.isfinite(found.history[0])) + 1
    assert seen[0] == 3
    assert np.isfinite(found.elbo)


def test_what_never_has_a_bound_is_an_error():
    with pytest.raises(ValueError, match="the ELBO was never finite: standardize the data"):
        fit(start_sd=1e30, patience=1)


def test_batches_need_data():
    prior = tb.Posterior(posterior().network, tb.Gaussian())
    with pytest.raises(ValueError, match="`batch_size` is given, but `posterior` has no data"):
        fit(prior, batch_size=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "reparam"}, "`estimator` must be 'flipout', 'local' or 'shared', got"),
        ({"draws": 0}, "`draws` must be a whole number of at least 1, got 0"),
        ({"num_starts": 0}, "`num_starts` must be a whole number of at least 1, got 0"),
        ({"gradient_draws": 1.5}, "`gradient_draws` must be a whole number of at least 1"),
        ({"start_sd": 0.0}, "`start_sd` must be a positive number, got 0.0"),
        ({"epochs": -1}, "`epochs` must be a whole number of at least 1, got -1"),
        ({"learning_rate": "fast"}, "`learning_rate` must be a positive number, got 'fast'"),
        ({"batch_size": 13}, r"`batch_size` \(13\) must not be above the number of training rows"),
        ({"start": {"dense_1.weights": 0}}, "`start` names unknown parameters"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


def test_a_posterior_is_required():
    with pytest.raises(TypeError, match=r"`posterior` must be a tb.Posterior, got 3"):
        tb.fit_variational(3)
