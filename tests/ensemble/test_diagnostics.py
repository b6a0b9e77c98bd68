"""R-hat, effective sample sizes and errors on chains whose state is known; equal to ArviZ's."""

import importlib.util
from pathlib import Path

import arviz_stats
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble import diagnostics
from tensorbnn.ensemble.diagnostics import convergence, diagnose
from tensorbnn.findings import TooFewDraws, VerdictKind

_spec = importlib.util.spec_from_file_location(
    "oracles", Path(__file__).parents[1] / "oracles" / "oracles.py"
)
oracles = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracles)
RNG = np.random.default_rng(0)


def info(chains, draws):
    return {
        "acceptance_rate": np.linspace(0.8, 0.9, chains)[:, None] * np.ones(draws),
        "diverging": np.eye(chains, draws, dtype=int),
        "energy": np.random.default_rng(1).normal(size=(chains, draws)),
    }


def test_independent_chains():
    d = diagnose(RNG.normal(size=(4, 500, 3, 2)), info(4, 500))
    shapes = {each.shape for each in (d.rhat, d.ess, d.ess_tail, d.mcse_mean, d.mcse_sd)}
    assert shapes == {(3, 2)}
    assert np.all(d.rhat < 1.01)
    np.testing.assert_allclose(d.ess, 2000, rtol=0.2)
    # For independent draws of sd 1 the errors are 1 / sqrt(n) and 1 / sqrt(2 n).
    np.testing.assert_allclose(d.mcse_mean, 2000**-0.5, rtol=0.15)
    np.testing.assert_allclose(d.mcse_sd, 4000**-0.5, rtol=0.15)
    assert d.verdict.trustworthy
    np.testing.assert_allclose(d.acceptance_rate, np.linspace(0.8, 0.9, 4))
    assert d.divergences.tolist() == [1, 1, 1, 1]
    # Uncorrelated energies: the mean squared step is twice the variance.
    np.testing.assert_allclose(d.ebfmi, 2, rtol=0.25)


def test_divergences_and_disagreement_are_not_trustworthy():
    values, told = np.random.default_rng(2).normal(size=(4, 500, 1, 1)), info(4, 500)
    assert diagnose(values, told).trustworthy
    astray = diagnose(values, told | {"diverging": np.ones((4, 500), int)})
    assert astray.verdict.findings[0].rhat < 1.01
    assert not astray.trustworthy
    assert not diagnose(values + np.arange(4.0)[:, None, None, None], told).trustworthy


def test_ess_of_autocorrelated_chains():
    """AR(1) with correlation 0.9: 80,000 draws are worth 80,000 / 19."""
    values = np.stack([oracles.ar1(0.9, 20_000, RNG) for _ in range(4)])[..., None, None]
    d = diagnose(values, info(4, 20_000))
    np.testing.assert_allclose(d.ess, 80_000 / 19, rtol=0.15)
    np.testing.assert_allclose(d.ess, oracles.ess(values[..., 0, 0]), rtol=0.1)
    np.testing.assert_allclose(d.mcse_mean, np.sqrt(19 / 80_000), rtol=0.1)
    # The indicator of a tail is less correlated than the value itself.
    assert np.all(d.ess_tail > d.ess)


def test_equal_to_arviz():
    from arviz_base import from_dict

    values = RNG.normal(size=(3, 200, 4, 2)).cumsum(axis=1)
    d = diagnose(values, info(3, 200))
    tree = from_dict({"posterior": {"f": values}})
    theirs = {
        "rhat": arviz_stats.rhat(tree),
        "ess": arviz_stats.ess(tree),
        "ess_tail": arviz_stats.ess(tree, method="tail", prob=(0.05, 0.95)),
        "mcse_mean": arviz_stats.mcse(tree),
        "mcse_sd": arviz_stats.mcse(tree, method="sd"),
    }
    for name, found in theirs.items():
        np.testing.assert_allclose(getattr(d, name), found["f"], err_msg=name)


def test_ebfmi_of_autocorrelated_energies():
    """AR(1) with correlation 0.8: the mean squared step is ``2 (1 - 0.8)`` of the variance."""
    energy = np.stack([oracles.ar1(0.8, 50_000, RNG) for _ in range(2)])
    d = diagnose(RNG.normal(size=(2, 10, 1, 1)), {**info(2, 50_000), "energy": energy})
    np.testing.assert_allclose(d.ebfmi, 0.4, rtol=0.05)


def test_hyperparameters_are_diagnosed_too():
    sd = RNG.normal(size=(4, 300))
    d = diagnose(RNG.normal(size=(4, 300, 1, 1)), info(4, 300), hyperparameters={"sd": sd})
    np.testing.assert_array_equal(d.hyperparameters["sd"], convergence(sd))
    assert d.hyperparameters["sd"].rhat.shape == ()


def test_weighted_predictions_that_are_rounded_or_never_change():
    """Nothing lies above a quantile of the first, and the second is certain."""
    rng = np.random.default_rng(4)
    values = np.full((4, 1000, 2, 1), 494.123)
    values[:, :, 0, 0] = np.minimum(rng.normal(1, 1, (4, 1000)), 1.0)
    weights = rng.uniform(0.9, 1.1, (4, 1000))
    weights /= weights.sum()
    found = diagnose(values, info(4, 1000), weights=weights)
    plain = diagnose(values, info(4, 1000))
    assert found.verdict.trustworthy
    # Weights that differ by a tenth change errors by less than that.
    np.testing.assert_allclose(found.ess[0], plain.ess[0], rtol=0.1)
    np.testing.assert_allclose(found.ess_tail[0], plain.ess_tail[0], rtol=0.1)
    np.testing.assert_array_equal([found.mcse_mean[1], found.mcse_sd[1]], [[0.0], [0.0]])
    rounded = np.where(rng.uniform(size=(4, 1000, 1)) < 0.97, 1.0, values[:, :, 0])
    both = convergence(rounded, weights)
    np.testing.assert_array_equal(both.ess_tail, both.ess)


@pytest.mark.parametrize("has_weights", [False, True])
def test_many_rows_are_diagnosed_in_blocks(monkeypatch, has_weights):
    # Sums of such numbers have no rounding, which would decide between equal ranks.
    values = np.random.default_rng(3).integers(-(2**15), 2**15, size=(2, 50, 7, 3)) / 2**10
    weights = np.random.default_rng(4).multinomial(2**10, np.full(100, 0.01)) / 2**10
    weights = weights.reshape(2, 50) if has_weights else None
    whole, sizes, series = diagnose(values, info(2, 50), weights=weights), [], diagnostics._series

    def noted(part):
        sizes.append(part.size)
        return series(part)

    monkeypatch.setattr(diagnostics, "VALUES_AT_ONCE", 450)
    monkeypatch.setattr(diagnostics, "_series", noted)
    parts = diagnose(values, info(2, 50), weights=weights)
    assert max(sizes) == 400
    for name in ("rhat", "ess", "ess_tail", "mcse_mean", "mcse_sd"):
        assert getattr(parts, name).shape == (7, 3)
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9)
    assert parts.verdict == whole.verdict


def test_too_few_draws_are_a_finding():
    found = diagnose(RNG.normal(size=(2, 3, 1, 1)), info(2, 3))
    assert found.verdict.kind is VerdictKind.NOT_YET
    assert TooFewDraws in map(type, found.verdict.findings)


def test_of_an_ensemble():
    x = np.linspace(-1, 1, 5)
    network = tb.Network(tb.Dense(1), inputs=1)
    # Noise of 0.2, as its prior expects: a posterior without sharp corners.
    y = 2 * x + 0.2 * np.sqrt(5 / 4) * np.array([1, -1, 0, -1, 1])
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.2)), x, y)
    ensemble = tb.sample(posterior, chains=3, burn_in=300, draws=400, progress=False)
    d = ensemble.diagnose([-1.0, 0.0, 1.0])
    values = ensemble.predict([-1.0, 0.0, 1.0]).samples_by_chain[..., None]
    expected = diagnose(values, ensemble.sample_stats)
    np.testing.assert_array_equal(d.rhat, expected.rhat[:, 0])
    assert np.all(d.rhat < 1.02)
    assert set(d.hyperparameters) == set(ensemble.hyperparameters)
    assert d.ebfmi.shape == (3,)
    with pytest.raises(ValueError, match="`names` must be one name for each of the 1 rows"):
        ensemble.diagnose([0.0], names=["a", "b"])
    thinned = ensemble.thin(2).diagnose([0.0])
    np.testing.assert_array_equal(thinned.ess, convergence(values[:, ::2, 1]).ess)
    # By default, the training rows.
    np.testing.assert_array_equal(ensemble.diagnose().rhat, ensemble.diagnose(x).rhat)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unit", [2.0**-100, 2.0**100])
def test_errors_are_in_the_unit_of_the_predictions(unit, weighted):
    """Charges in coulombs, such as 1e-19, are no constants."""
    rng = np.random.default_rng(0)
    # Correlated draws, whose error is not that of independent ones.
    steps = rng.normal(size=(4, 400, 2, 1))
    values = np.cumsum(steps, axis=1) * 0.1 + rng.normal(size=steps.shape)
    weights = rng.exponential(size=(4, 400)) if weighted else None
    weights = weights if weights is None else weights / weights.sum()
    own, small = (diagnose(each, info(4, 400), weights=weights) for each in (values, values * unit))
    np.testing.assert_array_equal(small.ess, own.ess)
    np.testing.assert_allclose(small.mcse_mean, own.mcse_mean * unit, rtol=1e-12)
    np.testing.assert_allclose(small.mcse_sd, own.mcse_sd * unit, rtol=1e-12)


def test_long_chains_are_thinned(monkeypatch):
    """Their predictions are, not what the sampler has recorded."""
    x = np.linspace(-1, 1, 20)
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.3), x, x)
    ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=300, progress=False)
    whole = ensemble.diagnose([0.5], progress=False)
    monkeypatch.setattr("tensorbnn.ensemble.ensemble.MOST_DIAGNOSED", 100)
    found, thinned = ensemble.diagnose([0.5], progress=False), ensemble.thin(3).diagnose([0.5])
    assert (found.rhat, found.ess) == (thinned.rhat, thinned.ess)
    assert found.ess != whole.ess
    np.testing.assert_array_equal(found.ebfmi, whole.ebfmi)
    np.testing.assert_array_equal(found.acceptance_rate, whole.acceptance_rate)
