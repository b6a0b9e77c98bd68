"""Weights for another prior or likelihood: closed forms, exact draws, and what must be refused."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.data import fingerprint
from tensorbnn.ensemble.reweight import (
    pareto_smooth,
    relative_efficiency,
    warn_where_untrustworthy,
    weigh,
)
from tensorbnn.findings import Agree, WeightsUntrusted
from tests.ensemble.made import coefficients, ensemble_of, linear
from tests.oracles import oracles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
Y = X @ [0.7, -0.4] + 0.2 + 0.4 * RNG.normal(size=12)
NOISE = 0.4
DRAWS = 8000


def posterior_under(w_sd, b_sd, noise=NOISE, **options):
    network = linear(tb.Normal(0.0, w_sd), tb.Normal(0.0, b_sd), inputs=2)
    options = {"dtype": "float64"} | options
    return tb.Posterior(network, tb.Gaussian(sd=noise), X, Y, **options)


def exact_ensemble(w_sd=1.0, b_sd=1.0, noise=NOISE, draws=DRAWS, seed=1):
    exact = oracles.linreg(X, Y, noise, w_sd, b_sd)
    sample = exact.sample(np.random.default_rng(seed), draws)
    return ensemble_of(posterior_under(w_sd, b_sd, noise), coefficients(sample), size=700)


@pytest.fixture(scope="module")
def ensemble():
    return exact_ensemble()


def weighted_means(ensemble, weights):
    flat = np.concatenate(
        [
            ensemble.parameters["dense_0.weights"].reshape(-1, 2),
            ensemble.parameters["dense_0.biases"].reshape(-1, 1),
        ],
        axis=1,
    )
    return weights.ravel() @ flat


@pytest.mark.parametrize(("w_sd", "b_sd"), [(0.5, 0.7), (1.5, 1.2), (0.3, 1.0)])
def test_another_prior_against_the_closed_form(ensemble, w_sd, b_sd):
    truth = oracles.reweight_linear(
        X, Y, NOISE, {"w_sd": 1.0, "b_sd": 1.0}, {"w_sd": w_sd, "b_sd": b_sd}
    )
    w = ensemble.reweight(network=posterior_under(w_sd, b_sd).network)
    fraction = truth["ess_fraction"]
    assert w.weights.sum() == pytest.approx(1)
    assert w.ess / DRAWS == pytest.approx(fraction, rel=0.1)
    # The log of a mean of ratios whose relative variance is 1 / fraction - 1.
    error = math.sqrt((1 / fraction - 1) / DRAWS)
    assert abs(w.log_evidence_ratio - truth["log_mean_weight"]) < 4 * error
    exact = truth["postB"]
    sd = np.sqrt(np.diag(exact.cov))
    means = weighted_means(ensemble, w.weights)
    assert np.all(np.abs(means - exact.mean) < 4 * sd / math.sqrt(fraction * DRAWS))


def test_another_likelihood_against_the_closed_form(ensemble):
    other = oracles.linreg(X, Y, 0.5)
    run = oracles.linreg(X, Y, NOISE)
    w = ensemble.reweight(likelihood=tb.Gaussian(sd=0.5))
    assert w._weights.trustworthy
    error = math.sqrt((DRAWS / w.ess - 1) / DRAWS)
    assert abs(w.log_evidence_ratio - (other.logZ - run.logZ)) < 4 * error
    sd = np.sqrt(np.diag(other.cov))
    means = weighted_means(ensemble, w.weights)
    assert np.all(np.abs(means - other.mean) < 4 * sd / math.sqrt(w.ess))


def test_both_at_once(ensemble):
    other, run = oracles.linreg(X, Y, 0.5, 0.6, 0.8), oracles.linreg(X, Y, NOISE)
    w = ensemble.reweight(network=posterior_under(0.6, 0.8).network, likelihood=tb.Gaussian(sd=0.5))
    error = math.sqrt((DRAWS / w.ess - 1) / DRAWS)
    assert abs(w.log_evidence_ratio - (other.logZ - run.logZ)) < 4 * error


def test_the_same_model_gives_equal_weights_exactly(ensemble):
    w = ensemble.reweight(network=ensemble.network, likelihood=tb.Gaussian(sd=NOISE))
    np.testing.assert_array_equal(w.weights, np.full((4, DRAWS // 4), 1 / DRAWS))
    assert w.ess == pytest.approx(DRAWS, rel=1e-12)
    assert (w.pareto_k, w.log_evidence_ratio) == (-math.inf, 0.0)
    p, plain = w.predict(X), ensemble.predict(X)
    np.testing.assert_allclose(p.mean, plain.mean, rtol=1e-12)
    np.testing.assert_allclose(p.sd, plain.sd, rtol=1e-10)


@pytest.mark.slow
def test_against_a_fresh_run_under_the_other_prior(ensemble):
    w = ensemble.reweight(network=posterior_under(0.5, 0.7).network)
    fresh = tb.sample(
        posterior_under(0.5, 0.7), chains=4, burn_in=500, draws=1000, start=ensemble, progress=False
    )
    ours, theirs = w.diagnose(X), fresh.diagnose(X)
    p, q = w.predict(X), fresh.predict(X)
    error = np.hypot(ours.mcse_mean, theirs.mcse_mean)
    assert np.all(np.abs(p.mean - q.mean) < oracles.z_crit(12) * error)
    error = np.hypot(ours.mcse_sd, theirs.mcse_sd)
    assert np.all(np.abs(p.sd - q.sd) < oracles.z_crit(12) * error)


@pytest.mark.soak
def test_a_network_against_fresh_runs_under_other_priors():
    x = np.linspace(-1, 1, 25)
    y = np.sin(3 * x) + 0.1 * np.random.default_rng(9).normal(size=25)

    def posterior(scale, noise):
        priors = tb.Normal(0.0, tb.Hyper(scale, tb.LogNormal(math.log(scale), 0.3))), tb.Normal()
        network = tb.Network(tb.Dense(6, *priors), "tanh", tb.Dense(1, *priors), inputs=1)
        return tb.Posterior(network, tb.Gaussian(sd=noise), x, y)

    options = {"chains": 4, "burn_in": 1000, "progress": False}
    sampler = tb.HMC(trajectory_length=1.0)
    run = tb.sample(posterior(1.0, 0.12), sampler, draws=5000, **options)
    at = np.linspace(-1.5, 1.5, 7)
    for scale, noise in ((0.9, 0.12), (1.1, 0.12), (1.0, 0.125), (0.9, 0.125)):
        other = posterior(scale, noise)
        w = run.reweight(network=other.network, likelihood=other.likelihood)
        fresh = tb.sample(other, sampler, draws=5000, start=run, seed=1, **options)
        p, q = w.predict(at), fresh.predict(at)
        ours, theirs = w.diagnose(at), fresh.diagnose(at)
        for found, expected, errors in (
            (p.mean, q.mean, (ours.mcse_mean, theirs.mcse_mean)),
            (p.sd, q.sd, (ours.mcse_sd, theirs.mcse_sd)),
        ):
            assert np.all(np.abs(found - expected) < oracles.z_crit(56) * np.hypot(*errors))


@pytest.fixture(scope="module")
def prior_draws():
    """Exact draws of the prior N(0, 1) of a weight and a bias, without data."""
    unit = tb.Normal(0.0, 1.0)
    posterior = tb.Posterior(linear(unit, unit), tb.Gaussian(), dtype="float64")
    return ensemble_of(posterior, coefficients(np.random.default_rng(2).normal(size=(4000, 2))))


@pytest.mark.filterwarnings("default")
def test_weights_of_infinite_variance_give_a_warning_with_advice(prior_draws):
    truth = oracles.reweight_linear(
        np.zeros((0, 1)), [], 0.1, {"w_sd": 1.0, "b_sd": 1.0}, {"w_sd": 4.0, "b_sd": 4.0}
    )
    assert truth["ess_fraction"] == 0
    wide = tb.Normal(0.0, 4.0)
    with pytest.warns(UserWarning, match=r"k-hat is .*start=ensemble") as caught:
        w = prior_draws.reweight(network=linear(wide, wide))
    assert caught[0].filename == __file__
    assert not w._weights.trustworthy
    kinds = [type(each) for each in w.diagnose([0.5]).verdict.findings]
    assert WeightsUntrusted in kinds


def test_k_hat_is_the_index_of_the_tail():
    """For N(0, 1) draws, weights for N(0, s) have a tail index of 1 - 1 / s**2."""
    for scale in (1.2, 1.5, 2.0):
        z = np.random.default_rng(3).normal(size=(4, 50_000))
        _, pareto_k = pareto_smooth(0.5 * z**2 * (1 - 1 / scale**2))
        assert pareto_k == pytest.approx(1 - scale**-2, abs=0.15)


def test_the_limit_of_k_hat_depends_on_the_number_of_networks():
    """1 - 1 / log10(100) is 0.5: what 4000 networks can bear is too much for 100."""
    w = weigh(np.random.default_rng(3).normal(size=(4, 1000)))
    many = dataclasses.replace(w, pareto_k=0.6)
    few = dataclasses.replace(many, weights=many.weights[:, :25])
    assert (many.pareto_k_limit, many.trustworthy) == (0.7, True)
    assert (few.pareto_k_limit, few.trustworthy) == (pytest.approx(0.5), False)
    with pytest.warns(UserWarning, match=r"Pareto k-hat is 0\.60, above 0\.5, and the 100"):
        warn_where_untrustworthy(few)


@pytest.mark.parametrize(
    ("networks", "pareto_k", "worth", "says"),
    [
        (
            *(60, 0.9, 57.0),
            r"k-hat is 0\.90, above 0\.44, and the 60 networks, though worth 57, are too few to "
            "tell: more draws may settle it; if they don't, the other model is too far",
        ),
        (60, 0.9, 7.0, "and the 60 networks are worth only 7: the other model is too far"),
        (4000, 0.9, 3800.0, "and the 4000 networks are worth only 3800: the other model is too"),
        (10, math.nan, 9.0, "10 networks are too few to tell, 25 are needed: more draws may"),
    ],
)
def test_few_networks_are_not_mistaken_for_a_distant_model(networks, pareto_k, worth, says):
    w = dataclasses.replace(weigh(np.zeros((1, networks))), pareto_k=pareto_k, ess=worth)
    with pytest.warns(UserWarning, match=f"{says}.*: sample it, starting from here, by tb.sample"):
        warn_where_untrustworthy(w)


def test_smoothing_touches_only_the_tail_and_keeps_its_order():
    ratios = np.random.default_rng(4).normal(size=(4, 1000))
    smoothed, pareto_k = pareto_smooth(ratios)
    flat = ratios.ravel()
    tail = np.argsort(flat)[-190:]  # 3 sqrt(4000) for independent draws
    changed = np.abs(smoothed - flat) > 1e-9
    assert 150 < changed.sum() < 250
    assert set(np.flatnonzero(changed)) >= set(tail[:100])
    np.testing.assert_array_equal(np.argsort(smoothed[tail], kind="stable"), np.arange(190))
    assert smoothed.max() <= flat.max() + 1e-9
    assert pareto_k < 0.7


def test_ratios_that_can_not_be_fitted():
    few = weigh(np.linspace(-1, 0, 10).reshape(2, 5))
    assert math.isnan(few.pareto_k)
    assert not few.trustworthy
    lonely = np.full((4, 100), -np.inf)
    lonely[0, 0] = 0.0
    w = weigh(lonely)
    assert (w.pareto_k, w.ess) == (math.inf, 1.0)
    with pytest.raises(ValueError, match="no network of this run is possible"):
        weigh(np.full((2, 50), -np.inf))
    with pytest.raises(ValueError, match="not a finite number for 1 of 100"):
        weigh(np.where(np.arange(100) == 3, np.nan, 0.0).reshape(2, 50))


# Hyper-parameters: exact draws of the prior (a, b) -> weights, without data.
LOCATION, SCALE = (0.0, 0.5), (1.0, 0.3)


def hierarchical(location=LOCATION, scale=SCALE):
    return tb.Normal(
        tb.Hyper(location[0], tb.Normal(*location)), tb.Hyper(scale[0], tb.Normal(*scale))
    )


@pytest.fixture(scope="module")
def hyper_ensemble():
    rng = np.random.default_rng(5)
    shape = (4, 10_000)
    loc = rng.normal(*LOCATION, size=shape)
    scale = stats.truncnorm(-SCALE[0] / SCALE[1], np.inf, *SCALE).rvs(shape, random_state=rng)
    named = {
        "dense_0.weights.loc": loc,
        "dense_0.weights.scale": scale,
        "dense_0.weights": (loc + scale * rng.normal(size=shape))[..., None, None],
        "dense_0.biases": rng.normal(size=(*shape, 1)),
    }
    network = linear(hierarchical(), tb.Normal(0.0, 1.0))
    return ensemble_of(tb.Posterior(network, tb.Gaussian()), named, size=3000)


def test_another_hyper_prior(hyper_ensemble):
    """Both hyper-priors are normalized: the evidence ratio of the prior with itself is one."""
    network = linear(hierarchical((0.2, 0.4), (0.9, 0.25)), tb.Normal(0.0, 1.0))
    w = hyper_ensemble.reweight(network=network)
    assert w._weights.trustworthy
    tolerance = 4 / math.sqrt(w.ess)
    assert abs(w.log_evidence_ratio) < tolerance
    loc = hyper_ensemble.hyperparameters["dense_0.weights.loc"].ravel()
    assert abs(w.weights.ravel() @ loc - 0.2) < 0.4 * tolerance
    weights = hyper_ensemble.parameters["dense_0.weights"].ravel()
    assert abs(w.weights.ravel() @ weights - 0.2) < 1.1 * tolerance


def test_numbers_in_place_of_hyper_parameters(hyper_ensemble):
    """Weights p2(theta) / p1(theta | phi): under N(0.1, 0.6) in place of the hierarchy."""
    network = linear(tb.Normal(0.1, 0.6), tb.Normal(0.0, 1.0))
    w = hyper_ensemble.reweight(network=network)
    tolerance = 4 / math.sqrt(w.ess)
    assert abs(w.log_evidence_ratio) < tolerance
    weights = hyper_ensemble.parameters["dense_0.weights"].ravel()
    assert abs(w.weights.ravel() @ weights - 0.1) < 0.6 * tolerance
    assert abs(w.weights.ravel() @ (weights - 0.1) ** 2 - 0.36) < 0.36 * math.sqrt(2) * tolerance


def test_one_hyper_parameter_stays(hyper_ensemble):
    prior = tb.Normal(0.0, tb.Hyper(1.0, tb.Normal(*SCALE)))
    w = hyper_ensemble.reweight(network=linear(prior, tb.Normal(0.0, 1.0)))
    scale = hyper_ensemble.hyperparameters["dense_0.weights.scale"].ravel()
    tolerance = 4 / math.sqrt(w.ess)
    assert abs(w.log_evidence_ratio) < tolerance
    expected = stats.truncnorm(-10 / 3, np.inf, *SCALE).mean()
    assert abs(w.weights.ravel() @ scale - expected) < tolerance


def test_hyper_parameters_that_were_held_have_no_prior(hyper_ensemble):
    rng = np.random.default_rng(6)
    ones = np.ones((2, 2000))
    named = {
        "dense_0.weights.loc": 0 * ones,
        "dense_0.weights.scale": ones,
        "dense_0.weights": rng.normal(size=(2, 2000, 1, 1)),
        "dense_0.biases": rng.normal(size=(2, 2000, 1)),
    }
    unit = tb.Normal(0.0, 1.0)
    posterior = tb.Posterior(linear(hierarchical(), unit), tb.Gaussian())
    ensemble = ensemble_of(posterior, named, held=True)
    w = ensemble.reweight(network=linear(unit, unit))
    np.testing.assert_allclose(w._weights.log_ratios, 0.0, atol=1e-12)


def test_predictions_with_weights_against_numpy(ensemble):
    w = ensemble.reweight(
        network=posterior_under(0.5, 0.7).network, likelihood=tb.Gaussian(sd=0.45)
    )
    new = RNG.normal(size=(7, 2))
    p, f, weights = w.predict(new), ensemble.predict(new).samples, w.weights.ravel()
    np.testing.assert_array_equal(p.samples, f)
    np.testing.assert_array_equal(p.weights, weights)
    mean = weights @ f
    np.testing.assert_allclose(p.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(p.sd, np.sqrt(weights @ (f - mean) ** 2), rtol=1e-10)
    np.testing.assert_allclose(p.sd_noise, 0.45, rtol=1e-10)  # of the other likelihood
    wanted = np.quantile(f, [0.1, 0.5, 0.9], axis=0, weights=weights, method="inverted_cdf")
    np.testing.assert_allclose(p.quantile([0.1, 0.5, 0.9], noise=False), wanted, rtol=1e-12)
    np.testing.assert_allclose(p.median, wanted[1], rtol=1e-12)
    edges = np.linspace(-3, 3, 9)
    expected = np.histogram(f[:, 3], edges, weights=weights)[0] / np.diff(edges)
    np.testing.assert_allclose(p.density(edges, noise=False)[3], expected, rtol=1e-10)
    y = RNG.normal(size=7)
    expected = special.logsumexp(stats.norm.logpdf(y, f, 0.45), axis=0, b=weights[:, None])
    np.testing.assert_allclose(p.log_predictive(y), expected, rtol=1e-9)


def test_a_view_of_a_reweighted_ensemble_is_the_reweighted_view(ensemble):
    other = posterior_under(0.5, 0.7).network
    w, view = ensemble.reweight(network=other), ensemble.discard(50).thin(3).sel(chain=[3, 1])
    ours, theirs = w.discard(50).thin(3).sel(chain=[3, 1]), view.reweight(network=other)
    assert ours.weights.shape == (2, 650)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-12)
    assert (ours.pareto_k, ours.ess) == pytest.approx((theirs.pareto_k, theirs.ess))
    expected = ours.weights.ravel() @ view.predict(X).samples
    np.testing.assert_allclose(ours.predict(X).mean, expected, rtol=1e-10)


def test_reweighting_twice_is_reweighting_to_both(ensemble):
    network, likelihood = posterior_under(0.6, 0.8).network, tb.Gaussian(sd=0.45)
    once = ensemble.reweight(network=network, likelihood=likelihood)
    twice = ensemble.reweight(network=network).reweight(likelihood=likelihood)
    np.testing.assert_array_equal(twice.weights, once.weights)
    assert twice.log_evidence_ratio == once.log_evidence_ratio
    found = ensemble.reweight(likelihood=likelihood).sensitivity(
        X[:2], "dense_0.*.scale", [0.6, 0.7]
    )
    both = linear(tb.Normal(0.0, 0.7), tb.Normal(0.0, 0.7), inputs=2)
    expected = ensemble.reweight(network=both, likelihood=likelihood)
    np.testing.assert_allclose(found.ensembles[1].weights, expected.weights, rtol=1e-9)
    np.testing.assert_allclose(found.mean[1], expected.predict(X[:2]).mean, rtol=1e-9)


def test_weighted_scores_against_the_closed_form(ensemble):
    """Those of the exact posterior under the other model, of which 8000 draws are known."""
    w = ensemble.reweight(network=posterior_under(0.6, 0.8).network)
    fresh = exact_ensemble(0.6, 0.8, seed=11)
    new = np.random.default_rng(12).normal(size=(40, 2))
    y = new @ [0.7, -0.4] + 0.2 + NOISE * np.random.default_rng(13).normal(size=40)
    ours, theirs = w.evaluate(new, y), fresh.evaluate(new, y)
    # Errors of a mean over so many independent networks, as shares of the noise.
    error = 4 * NOISE / math.sqrt(w.ess)
    for name in ("rmse", "crps", "log_score"):
        assert abs(getattr(ours, name) - getattr(theirs, name)) < error
    # A quantile at 5 % of a normal errs by 2.1 sds over the root of the number.
    assert abs(ours.sharpness - theirs.sharpness) < 2 * 2.1 * error / math.sqrt(40)
    np.testing.assert_allclose(ours.pit, theirs.pit, atol=5 * 0.5 / math.sqrt(w.ess))


def test_equal_weights_score_as_none(ensemble):
    w, plain = ensemble.reweight(network=ensemble.network), ensemble
    ours, theirs = w.evaluate(X, Y), plain.evaluate(X, Y)
    for name in ("log_score", "rmse", "crps", "coverage", "sharpness", "pit"):
        found, expected = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(w.posterior_predictive(X), plain.posterior_predictive(X))


def test_new_targets_come_from_networks_in_proportion_to_their_weights(ensemble):
    other = posterior_under(0.5, 0.7, 0.45)
    w = ensemble.reweight(network=other.network, likelihood=other.likelihood)
    places = w._weights.resample(3)
    times = np.bincount(places, minlength=DRAWS)
    assert np.all(np.abs(times - DRAWS * w.weights.ravel()) < 1)
    drawn, p = w.posterior_predictive(X, seed=3), w.predict(X)
    assert drawn.shape == (DRAWS, 12)
    # Systematic resampling adds less than the noise of new targets does.
    assert np.all(np.abs(drawn.mean(axis=0) - p.mean) < 5 * p.sd_total / math.sqrt(w.ess))
    noise = drawn - ensemble.predict(X).samples[places]
    assert stats.kstest(noise.ravel() / 0.45, "norm").pvalue > 1e-3
    assert len(np.unique(noise)) == noise.size  # also of a network that is drawn again


def test_weighted_diagnosis(ensemble):
    w = ensemble.reweight(network=posterior_under(0.5, 0.7).network)
    d = w.diagnose(X)
    # Exact draws are independent: what is left is what the weights take.
    np.testing.assert_allclose(d.ess, w.ess, rtol=0.25)
    assert np.all(d.ess_tail > 0.4 * w.ess)
    sd = w.predict(X).sd
    np.testing.assert_allclose(d.mcse_mean, sd / np.sqrt(d.ess), rtol=1e-9)
    np.testing.assert_allclose(d.mcse_sd, sd / np.sqrt(2 * w.ess), rtol=0.3)
    assert isinstance(d.verdict.findings[0], Agree)
    equal, plain = ensemble.reweight(network=ensemble.network).diagnose(X), ensemble.diagnose(X)
    np.testing.assert_allclose(equal.rhat, plain.rhat, rtol=1e-5)
    np.testing.assert_allclose(equal.mcse_mean, plain.mcse_mean, rtol=1e-3)
    np.testing.assert_allclose(equal.mcse_sd, plain.mcse_sd, rtol=0.1)
    np.testing.assert_allclose(equal.ess_tail, plain.ess_tail, rtol=0.1)


def test_what_weights_can_not_be_used_for_is_refused(ensemble):
    w = ensemble.reweight(network=posterior_under(0.5, 0.7).network)
    for call in (w.autocorrelation, w.autocorrelation_time, w.to_arviz, w.loo, w.waic):
        with pytest.raises(ValueError, match=f"`{call.__name__}` can't be used after `reweight`"):
            call()
    with pytest.raises(ValueError, match="weights belong to the draws they were computed for"):
        w.refresh()
    value = ensemble.sensitivity(X[:1], "dense_0.weights.scale", [0.9]).best().ensemble
    with pytest.raises(ValueError, match="`reweight` can't start from a value of `sensitivity`"):
        value.reweight(likelihood=tb.Gaussian(sd=0.5))


def networks(*changed, inputs=2):
    unit = tb.Normal(0.0, 1.0)
    layers = [tb.Dense(3, unit, unit), tb.LeakyReLU(0.1), tb.Dense(1, unit, unit)]
    for place, layer in changed:
        layers[place] = layer
    return tb.Network(*layers, inputs=inputs)


def test_errors_name_what_does_not_fit():
    rng = np.random.default_rng(7)
    posterior = tb.Posterior(networks(), tb.Gaussian(), X, Y)
    shapes = {name: each.shape for name, each in networks().parameters.items()}
    ensemble = ensemble_of(posterior, {n: rng.normal(size=(2, 50, *s)) for n, s in shapes.items()})
    unit = tb.Normal(0.0, 1.0)
    for other, message in [
        (networks(inputs=3), "has 3 inputs, that of the run 2: only priors may differ"),
        (networks((1, tb.Tanh())), "the layers .*'tanh_0'.*that of the run .*'leakyrelu_0'"),
        (networks((0, tb.Dense(4, unit, unit))), "`units` of dense_0 is 4 in the other network, 3"),
        (networks((1, tb.LeakyReLU(0.2))), "of leakyrelu_0 is 0.2 in the other network, 0.1"),
        (networks((0, tb.Dense(3))), r"hyper-parameters that were not sampled.*put numbers"),
        (
            networks((0, tb.Dense(3, tb.Exponential(1.0), unit))),
            "dense_0.weights is positive .* real",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            ensemble.reweight(network=other)
    with pytest.raises(ValueError, match="give another `network`, another `likelihood`, or both"):
        ensemble.reweight()
    with pytest.raises(ValueError, match=r"hyper-parameters that were not sampled.*likelihood.sd"):
        ensemble.reweight(likelihood=tb.Gaussian(sd=tb.Hyper(0.1)))
    cauchy = networks((0, tb.CauchyDense(3, unit, unit)))
    assert ensemble.reweight(network=cauchy).ess == pytest.approx(100)


def test_data_may_be_given_to_load(ensemble):
    posterior = posterior_under(1.0, 1.0)
    made = ensemble_of(posterior, ensemble.parameters)
    made._store._data = None
    made._store.manifest["data"] = fingerprint(posterior.data)
    without = made._with(_given=None)
    with pytest.raises(ValueError, match=r"did not keep .*`tb\.load\(path, data=\(x, y\)\)`"):
        without.reweight(likelihood=tb.Gaussian(sd=0.5))
    w = without._with_data((X, Y)).reweight(likelihood=tb.Gaussian(sd=0.5))
    expected = ensemble.reweight(likelihood=tb.Gaussian(sd=0.5))
    np.testing.assert_allclose(w._weights.log_ratios, expected._weights.log_ratios)
    # Another prior needs no data.
    assert without.reweight(network=posterior_under(0.9, 0.9).network).pareto_k < 0.7
    with pytest.raises(ValueError, match="`data` are not the training data of this run"):
        without._with_data((X, Y + 1e-9))


def test_networks_of_the_prior_take_no_data(prior_draws):
    with pytest.raises(ValueError, match="were sampled from the prior, without data: leave `data`"):
        prior_draws._with_data(([0.0], [0.0]))
    # Without data the likelihood counts for nothing.
    w = prior_draws.reweight(likelihood=tb.Gaussian(sd=0.5))
    np.testing.assert_array_equal(w.weights, np.full((4, 1000), 1 / 4000))


def test_correlated_draws_make_the_tail_longer():
    ratios = np.random.default_rng(8).normal(size=(4, 500))
    assert relative_efficiency(ratios) == pytest.approx(1, abs=0.25)
    repeated = np.repeat(ratios, 10, axis=1)
    assert relative_efficiency(repeated) == pytest.approx(0.1, rel=0.3)
    # Each ratio ten times: the distribution, and hence its tail, is the same.
    assert pareto_smooth(repeated)[1] == pytest.approx(pareto_smooth(ratios)[1], abs=0.2)
    assert weigh(repeated).log_evidence_ratio == pytest.approx(0.5, abs=0.15)


def test_repr(ensemble):
    assert repr(ensemble.reweight(network=ensemble.network)) == (
        "Ensemble(8000 networks: 4 chains of 2000 draws, worth 8000.0, k-hat -inf)"
    )
