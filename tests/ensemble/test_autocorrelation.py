"""Autocorrelation against its definition, against AR(1), and against emcee."""

import importlib.util
from pathlib import Path

import emcee.autocorr
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.statistics import autocorrelation, autocorrelation_time

_spec = importlib.util.spec_from_file_location(
    "oracles", Path(__file__).parents[1] / "oracles" / "oracles.py"
)
oracles = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracles)


def ar1(rho, chains, draws, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([oracles.ar1(rho, draws, rng) for _ in range(chains)])


def by_definition(values, max_lag):
    """The formula of the paper, term by term."""
    chains, draws, rows, outputs = values.shape
    mean = values.mean(axis=(0, 1))
    found = np.zeros((max_lag + 1, rows, outputs))
    for n in range(max_lag + 1):
        for chain in range(chains):
            for i in range(draws - n):
                pair = (values[chain, i] - mean) * (values[chain, i + n] - mean)
                found[n] += pair / (draws - n) / chains
    return (found / found[0]).mean(axis=1)


@pytest.mark.parametrize("shape", [(1, 20, 1, 1), (1, 21, 3, 2), (3, 16, 1, 2), (4, 33, 2, 1)])
def test_is_the_definition(shape):
    values = np.random.default_rng(0).normal(size=shape).cumsum(axis=1)
    for max_lag in (1, 7, shape[1] - 1):
        found = autocorrelation(values, max_lag)
        assert found.shape == (max_lag + 1, shape[3])
        np.testing.assert_allclose(found, by_definition(values, max_lag), atol=1e-10)


def test_of_ar1():
    """``rho(n) = 0.9^n``, length 19: within four standard errors (Bartlett's formula)."""
    chains, draws = 8, 20_000
    values = ar1(0.9, chains, draws)[..., None, None]
    found = autocorrelation(values, 30)[:, 0]
    # The variance of each estimate is below (1 + rho^2) / (1 - rho^2) / N.
    error = np.sqrt(1.81 / 0.19 / (chains * draws))
    np.testing.assert_allclose(found, 0.9 ** np.arange(31), atol=4 * error)
    # Sokal: the relative variance of the length is 2 (2 M + 1) / N for a window of M draws.
    spread = np.sqrt(2 * (2 * 95 + 1) / (chains * draws))
    np.testing.assert_allclose(autocorrelation_time(values), 19, rtol=4 * spread)


@pytest.mark.parametrize("rho", [-0.3, -0.6, -0.95])
def test_an_alternating_chain_has_a_positive_length(rho):
    """It is worth more than independent draws; the window ends somewhere within a period."""
    assert 0 < autocorrelation_time(ar1(rho, 4, 5000)[..., None, None]).item() < 1


def test_agrees_with_emcee_within_its_bias():
    """For one chain emcee's function is ours times ``(N - n) / N``; lengths differ by that too."""
    draws, values = 3000, ar1(0.8, 6, 3000)
    shaped = values.reshape(1, 6, draws).transpose(0, 2, 1)[..., None]  # six rows of one chain
    theirs = np.mean([emcee.autocorr.function_1d(each) for each in values], axis=0)
    lags = np.arange(201)
    ours = autocorrelation(shaped, 200)[:, 0]
    np.testing.assert_allclose(ours * (draws - lags) / draws, theirs[:201], atol=1e-10)

    for grouped in (shaped, values[..., None, None]):  # rows of one chain, or chains of one row
        walkers = grouped.transpose(1, 0, 2, 3).reshape(draws, grouped.shape[0], -1)
        length = np.mean(emcee.autocorr.integrated_time(walkers, tol=5))
        # Within the window of five lengths the bias is at most 5 * 9 / 3000 of each term, and
        # chains with their own means lack about 9 / 3000 of the variance.
        np.testing.assert_allclose(autocorrelation_time(grouped), length, rtol=0.03)


def test_chains_that_disagree_stay_correlated():
    values = np.random.default_rng(1).normal(size=(2, 500, 1, 1))
    values[1] += 10
    assert np.all(autocorrelation(values, 50) > 0.9)
    with pytest.warns(UserWarning, match="has not died down within 250 draws at 1 of 1 rows"):
        autocorrelation_time(values)


def test_rows_that_never_change_are_left_out():
    values = ar1(0.5, 2, 400).reshape(2, 400, 1, 1) * np.array([[1.0, 1.0], [0.0, 1.0]])
    moving = values[:, :, :1]
    np.testing.assert_allclose(autocorrelation(values, 10), autocorrelation(moving, 10))
    np.testing.assert_allclose(autocorrelation_time(values), autocorrelation_time(moving))
    assert np.isnan(autocorrelation(np.ones((2, 9, 1, 1)), 3)).all()
    assert np.isnan(autocorrelation_time(np.ones((2, 9, 1, 1)))).all()


def test_of_an_ensemble():
    x = np.linspace(-1, 1, 5)
    posterior = tb.Posterior(tb.Network(tb.Dense(2), inputs=1), tb.Gaussian(sd=0.2))
    # Long trajectories, so that 80 draws are enough for lengths to be measured.
    sampler = tb.HMC(step_size=0.2, num_steps=8, num_steps_jitter=0.5)
    ensemble = tb.sample(posterior, sampler, chains=2, burn_in=20, draws=80, progress=False)
    values = ensemble.predict(x).samples.reshape(2, 80, 5, 2)
    np.testing.assert_array_equal(ensemble.autocorrelation(x), autocorrelation(values, 75))
    np.testing.assert_array_equal(
        ensemble.autocorrelation_time(x, 40), autocorrelation_time(values, 40)
    )
    thinned = autocorrelation(values[:, ::2], 5)
    np.testing.assert_array_equal(ensemble.thin(2).autocorrelation(x, 5), thinned)
    with pytest.raises(ValueError, match=r"`max_lag` must be below .* which is 80, got 80"):
        ensemble.autocorrelation(x, 80)
    with pytest.raises(ValueError, match="`max_lag` must be a whole number of at least 1, got 0"):
        ensemble.autocorrelation(x, 0)
    with pytest.raises(ValueError, match=r"`max_lag` must be a whole number .* got 2\.5"):
        ensemble.autocorrelation_time(x, 2.5)
