"""Scores against closed forms, and by simulation of ensembles that are calibrated or not."""

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.ensemble import class_scores, scores

RNG = np.random.default_rng(0)


def gaussian_crps(y, mean, sd):
    """Gneiting and Raftery 2007, Eq. 21."""
    z = (y - mean) / sd
    return sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - np.pi**-0.5)


def test_crps_of_a_gaussian():
    """A hundred thousand draws: the closed form within five standard errors, about sd / sqrt(n)."""
    y = np.array([[0.0, 3.0], [-1.0, 0.5], [10.0, 0.2]])
    mean, sd = np.array([1.0, 2.0]), np.array([2.0, 0.3])
    draws = RNG.normal(mean, sd, (100_000, 3, 2))
    expected = gaussian_crps(y, mean, sd)
    assert np.all(np.abs(scores.crps(draws, y) - expected) < 5 * sd / 100_000**0.5)


def test_crps_of_few_draws_has_no_bias():
    draws = RNG.normal(size=(3, 50_000, 1))
    found = scores.crps(draws, np.full((50_000, 1), 0.7)).ravel()
    error = found.std() / np.sqrt(found.size)
    assert abs(found.mean() - gaussian_crps(0.7, 0.0, 1.0)) < 4 * error


def test_crps_by_all_pairs():
    draws, y = RNG.normal(size=(7, 4, 2)), RNG.normal(size=(4, 2))
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (7 * 6)
    expected = np.abs(draws - y).mean(axis=0) - pairs / 2
    np.testing.assert_allclose(scores.crps(draws, y), expected, atol=1e-13)
    weights = np.array([1, 2, 1, 3, 1, 1, 1]) / 10
    product = np.outer(weights, weights)[..., None, None]
    pairs = (product * np.abs(draws[:, None] - draws[None])).sum(axis=(0, 1))
    expected = np.tensordot(weights, np.abs(draws - y), 1) - pairs / 2 / (1 - weights @ weights)
    np.testing.assert_allclose(scores.crps(draws, y, weights=weights), expected, atol=1e-13)


def test_equal_weights_are_as_good_as_none():
    draws, y, equal = RNG.normal(size=(9, 4, 2)), RNG.normal(size=(4, 2)), np.full(9, 1 / 9)
    for function in (scores.crps, scores.pit, scores.interval):
        found, expected = function(draws, y, weights=equal), function(draws, y)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_network_without_weight_counts_for_nothing():
    draws, y = RNG.normal(size=(50, 30, 1)), RNG.normal(size=(30, 1))
    weights = np.r_[np.full(40, 1 / 40), np.zeros(10)]
    for function in (scores.crps, scores.pit, scores.interval):
        found, expected = function(draws, y, weights=weights), function(draws[:40], y)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def simulated(rows, networks=99, width=1.0):
    """Targets from the middle of a mixture, and an ensemble `width` times as wide as they are."""
    center = RNG.normal(size=(rows, 1))
    y = center + RNG.normal(size=(rows, 1))
    return center + width * RNG.normal(size=(networks, rows, 1)), y


def test_pit_of_a_calibrated_ensemble_is_uniform():
    draws, y = simulated(5000)
    assert stats.kstest(scores.pit(draws, y).ravel(), "uniform").pvalue > 1e-3


def test_pit_of_counts_is_uniform_too():
    y = RNG.poisson(2.0, size=(5000, 1))
    draws = RNG.poisson(2.0, size=(50, 5000, 1))
    assert stats.kstest(scores.pit(draws, y).ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("width", "ends_are_heaped"), [(0.5, True), (2.0, False)])
def test_pit_shows_what_is_wrong(width, ends_are_heaped):
    pit = scores.pit(*simulated(5000, width=width))
    outer = np.mean(np.abs(pit - 0.5) > 0.4)  # 0.2 if calibrated
    assert outer > 0.3 if ends_are_heaped else outer < 0.1


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("networks", [39, 999])
def test_coverage_of_a_calibrated_ensemble(level, networks):
    """Within four standard errors of a binomial, with few networks too."""
    inside, width = scores.interval(*simulated(4000, networks), level)
    error = np.sqrt(level * (1 - level) / 4000)
    assert abs(inside.mean() - level) < 4 * error
    if networks > 500:
        expected = 2 * stats.norm.ppf(0.5 + level / 2)
        np.testing.assert_allclose(width.mean(), expected, rtol=0.02)


def test_rmse():
    np.testing.assert_allclose(scores.rmse([[1, 2], [3, 4]], [[1, 0], [3, 0]]), [0, 10**0.5])


def test_brier_of_labels_and_of_outputs():
    probabilities, labels = RNG.dirichlet(np.ones(3), 50), RNG.integers(3, size=50)
    by_hand = sum(
        (p - (k == label)) ** 2
        for row, label in zip(probabilities, labels, strict=True)
        for k, p in enumerate(row)
    )
    assert class_scores.brier(probabilities, labels) == pytest.approx(by_hand / 50)
    binary = RNG.integers(2, size=(50, 3))
    assert class_scores.brier(probabilities, binary) == pytest.approx(
        np.mean((probabilities - binary) ** 2)
    )


def test_calibrated_classes_have_no_calibration_error():
    """What is left is noise: for 100,000 predictions in ten bins about a hundredth at most."""
    probabilities = RNG.dirichlet(np.ones(3), 100_000)
    labels = (RNG.uniform(size=(100_000, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    assert class_scores.ece(probabilities, labels) < 0.01
    binary = RNG.uniform(size=(100_000, 1)) < probabilities[:, :1]
    found = class_scores.reliability(probabilities[:, :1], binary)
    np.testing.assert_allclose(found.predicted, found.observed, atol=0.05)
    assert found.counts.sum() == 100_000


def test_classes_that_are_too_sure():
    """Probabilities of 0.95 that come true in 0.7 of the cases."""
    y = (np.arange(1000) % 10 < 7).astype(int)
    assert class_scores.ece(np.full((1000, 1), 0.95), y) == pytest.approx(0.25)
    both = np.tile([0.05, 0.95], (1000, 1))
    assert class_scores.ece(both, y) == pytest.approx(0.25)
    found = class_scores.reliability(both, y, bins=4)
    assert found.counts.tolist() == [0, 0, 0, 1000]
    assert np.isnan(found.predicted[0])


D, T = np.ones((5, 3, 1)), np.ones((3, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scores.crps(D[:1], T), "at least two networks"),
        (lambda: scores.crps(D[0], T), r"\(networks, rows, outputs\).*got shape \(3, 1\)"),
        (lambda: scores.pit(D, T[:2]), r"targets must be \(rows, outputs\) \(3, 1\), got \(2, 1\)"),
        (lambda: scores.pit(D, T * np.nan), "targets must be finite"),
        (lambda: scores.interval(D, T, 90), "`level` must lie between 0 and 1.*got 90"),
        (lambda: scores.rmse(T, T[:2]), "differ in shape"),
        (lambda: class_scores.brier(T, T[:2]), "as many rows of targets"),
        (lambda: class_scores.brier(T * 2, T), "probabilities must lie between 0 and 1"),
        (lambda: class_scores.brier(T, T * 0.5), "whole numbers from 0 to 1"),
        (lambda: class_scores.brier(np.full((3, 4), 0.25), np.ones((3, 2))), "differ in shape"),
        (lambda: class_scores.brier(np.full((3, 4), 0.25), T * 4), "whole numbers from 0 to 3"),
        (lambda: class_scores.reliability(T, T, bins=0), "`bins` must be a whole number"),
        (lambda: class_scores.ece(T, T, bins=2.5), "`bins` must be a whole number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def prior():
    """Independent networks of the prior, each with its own noise."""
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(2), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.3)), dtype="float64")
    return tb.sample(posterior, chains=2, burn_in=200, draws=1000, progress=False)


@pytest.mark.slow
def test_an_ensemble_is_calibrated_for_targets_of_its_own(prior, monkeypatch):
    """The target of each row comes from another network of the same distribution."""
    monkeypatch.setattr(scores, "VALUES_AT_ONCE", 400_000)  # several blocks of rows
    x = np.linspace(-2, 2, 250)
    chosen = prior.predict(x).samples[::8][np.arange(250), np.arange(250)]
    noise = prior.hyperparameters["likelihood.sd"].ravel()[::8, None]
    y = chosen + noise * RNG.normal(size=(250, 2))
    found = prior.evaluate(x, y, level=0.8)
    assert found.pit.shape == (250, 2)
    for column in range(2):
        assert stats.kstest(found.pit[:, column], "uniform").pvalue > 1e-3
    np.testing.assert_allclose(found.coverage, 0.8, atol=4 * np.sqrt(0.16 / 250))
    prediction = prior.predict(x)
    np.testing.assert_allclose(found.rmse, scores.rmse(prediction.mean, y))
    assert found.log_score == pytest.approx(prediction.log_score(y))
    assert np.all(found.crps < found.rmse)
    assert np.all(found.sharpness > 0)
    np.testing.assert_array_equal(found.pit, prior.evaluate(x, y, level=0.8).pit)


@pytest.mark.slow
def test_classes_of_an_ensemble():
    x, labels = np.linspace(-1, 1, 30), np.arange(30) // 10
    network = tb.Network(tb.Dense(3), inputs=1)
    posterior = tb.Posterior(network, tb.Categorical(), x, labels)
    ensemble = tb.sample(posterior, chains=2, burn_in=50, draws=30, progress=False)
    found, mean = ensemble.evaluate(x, labels), ensemble.predict(x).mean
    assert isinstance(found, tb.ClassScores)
    assert found.accuracy == np.mean(mean.argmax(axis=1) == labels)
    assert found.brier == pytest.approx(class_scores.brier(mean, labels))
    assert found.ece == pytest.approx(class_scores.ece(mean, labels))
    assert found.log_score == pytest.approx(ensemble.predict(x).log_score(labels))


def test_bad_input_to_score(prior):
    with pytest.raises(ValueError, match="`y` must be finite"):
        prior.evaluate([0.0], [[np.nan, 1.0]])
    with pytest.raises(ValueError, match="`x` has 2 rows but `y` has 1"):
        prior.evaluate([0.0, 1.0], [[0.0, 1.0]])
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1"):
        prior.evaluate([0.0], [[0.0, 1.0]], level=2)
