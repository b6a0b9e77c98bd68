"""Moving a number of the prior: the same as re-weighting value by value, and the exact best."""

import gc
import math
import weakref

import numpy as np
import pytest

import tensorbnn as tb
from tests.ensemble.made import coefficients, ensemble_of, linear
from tests.oracles import oracles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 2))
Y = X @ [0.4, -0.3] + 0.1 + 0.5 * RNG.normal(size=15)
GRID = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 1.5])


def network_with(scale):
    return linear(tb.Normal(0.0, scale), tb.Normal(0.0, 1.0), inputs=2)


def log_ratios(found, place):
    return found.ensembles[place]._weights.log_ratios


@pytest.fixture(scope="module")
def ensemble():
    posterior = tb.Posterior(network_with(1.0), tb.Gaussian(sd=0.5), X, Y, dtype="float64")
    exact = oracles.linreg(X, Y, 0.5, 1.0, 1.0).sample(np.random.default_rng(1), 8000)
    return ensemble_of(posterior, coefficients(exact), size=1500)


def test_a_sweep_is_re_weighting_value_by_value(ensemble):
    found = ensemble.sensitivity(X[:3], "dense_0.weights.scale", GRID)
    assert found.names == ("dense_0.weights.scale",)
    for place, value in enumerate(GRID[2:], start=2):
        w = ensemble.reweight(network=network_with(float(value)))
        np.testing.assert_allclose(log_ratios(found, place), w._weights.log_ratios, atol=1e-9)
        p = w.predict(X[:3])
        np.testing.assert_allclose(found.mean[place], p.mean, rtol=1e-7)
        np.testing.assert_allclose(found.sd[place], p.sd, rtol=1e-6)
        assert found.ess[place] == pytest.approx(w.ess, rel=1e-6)
    np.testing.assert_array_equal(found.x, X[:3])


def test_the_best_is_that_of_the_exact_evidence(ensemble):
    found = ensemble.sensitivity(X[:1], "dense_0.weights.scale", GRID)
    exact = [oracles.linreg(X, Y, 0.5, scale, 1.0).logZ for scale in GRID]
    good = found.trustworthy
    assert good.sum() >= 4
    error = np.sqrt((8000 / found.ess[good] - 1) / 8000)
    difference = found.log_evidence_ratio[good] - (np.array(exact) - exact[5])[good]
    assert np.all(np.abs(difference) < 4 * error)
    value, best = found.best()
    assert value == GRID[np.argmax(np.where(good, exact, -np.inf))]
    assert best is found.ensembles[list(GRID).index(value)]


def test_the_noise_is_moved_with_its_likelihood(ensemble):
    values = np.array([0.45, 0.5, 0.6])
    found = ensemble.sensitivity(X[:2], "likelihood.sd", values, validation=(X, Y))
    w = ensemble.reweight(likelihood=tb.Gaussian(sd=0.6))
    np.testing.assert_allclose(log_ratios(found, 2), w._weights.log_ratios, atol=1e-9)
    assert found.ensembles[2].likelihood == tb.Gaussian(sd=0.6)
    score = w.predict(X).log_score(Y)
    assert found.log_score[2] == pytest.approx(score, rel=1e-9)
    assert found.best("score").value == values[np.argmax(found.log_score)]
    np.testing.assert_array_equal(found.ensembles[1].weights, np.full((4, 2000), 1 / 8000))


def test_the_order_of_the_values_does_not_matter(ensemble):
    """The run's own value may come first: it must not make all others look the same."""
    values = np.array([0.5, 0.45, 0.6])
    found = ensemble.sensitivity(X[:2], "likelihood.sd", values)
    np.testing.assert_array_equal(found.ensembles[0].weights, np.full((4, 2000), 1 / 8000))
    for place in (1, 2):
        w = ensemble.reweight(likelihood=tb.Gaussian(sd=float(values[place])))
        np.testing.assert_allclose(log_ratios(found, place), w._weights.log_ratios, atol=1e-9)


def hierarchical_ensemble():
    rng = np.random.default_rng(5)
    shape = (4, 2500)
    scale = rng.normal(2.0, 0.2, size=shape)
    prior = tb.Normal(0.0, tb.Hyper(2.0, tb.Normal(2.0, 0.2)))
    named = {"dense_0.weights.scale": scale, "dense_0.biases.scale": scale[::-1]}
    named["dense_0.weights"] = (scale * rng.normal(size=shape))[..., None, None]
    named["dense_0.biases"] = (scale[::-1] * rng.normal(size=shape))[..., None]
    return ensemble_of(tb.Posterior(linear(prior, prior), tb.Gaussian()), named)


def test_a_hyper_parameter_is_moved_as_a_number_or_by_its_own_prior():
    ensemble = hierarchical_ensemble()
    number = tb.Normal(0.0, 1.8)
    w = ensemble.reweight(network=linear(number, number))
    both = ensemble.sensitivity([0.0], "*.*.scale", [1.8])
    assert both.names == ("dense_0.weights.scale", "dense_0.biases.scale")
    np.testing.assert_allclose(log_ratios(both, 0), w._weights.log_ratios, atol=1e-9)
    centered = tb.Normal(0.0, tb.Hyper(2.0, tb.Normal(1.9, 0.2)))
    w = ensemble.reweight(network=linear(centered, centered))
    found = ensemble.sensitivity(
        [0.0], ["dense_0.weights.scale.loc", "dense_0.biases.scale.loc"], [1.9]
    )
    np.testing.assert_allclose(log_ratios(found, 0), w._weights.log_ratios, atol=1e-9)
    with pytest.raises(ValueError, match=r"'dense_0.weights.scale.loc'.* belong to the prior"):
        ensemble.sensitivity([0.0], ["dense_0.weights.*", "*.weights.scale.loc"], [1.0])


def test_where_no_weights_are_trustworthy_there_is_no_best():
    ensemble = hierarchical_ensemble()
    found = ensemble.sensitivity([0.0], "*.*.scale", [20.0, 50.0])
    assert not found.trustworthy.any()
    assert np.all(found.pareto_k > 0.7)
    with pytest.raises(ValueError, match=r"at none of the values .*try values nearer"):
        found.best()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dense_0.weight.scale", [1.0]), r"`names` must be among .*, got 'dense_0.weight.scale'"),
        (("dense_0.weights.scale", [0.0, 1.0]), "must be positive, but `values` go down to 0"),
        (("dense_0.weights.loc", []), "`values` must be a list of finite numbers"),
        (("dense_0.weights.loc", [math.inf]), "`values` must be a list of finite numbers"),
    ],
)
def test_bad_input(ensemble, arguments, message):
    with pytest.raises(ValueError, match=message):
        ensemble.sensitivity(X[:1], *arguments)


def test_bad_criterion(ensemble):
    found = ensemble.sensitivity(X[:1], "dense_0.weights.loc", [0.0, 0.1])
    with pytest.raises(ValueError, match="`by` must be 'evidence' or 'score', got 'luck'"):
        found.best("luck")
    with pytest.raises(ValueError, match=r"no validation rows to choose by: give them as"):
        found.best("score")


@pytest.mark.slow
def test_a_sweep_keeps_one_prediction_at_a_time(ensemble, monkeypatch):
    """A prediction holds the outputs of all networks, which may be far larger than the result."""
    alive, most = weakref.WeakSet(), []
    predict = type(ensemble).predict

    def noted(*arguments, **options):
        gc.collect()
        most.append(len(alive))
        made = predict(*arguments, **options)
        alive.add(made)
        return made

    monkeypatch.setattr(type(ensemble), "predict", noted)
    ensemble.sensitivity(X[:3], "dense_0.weights.scale", GRID)
    assert len(most) == len(GRID)
    assert max(most) <= 1
