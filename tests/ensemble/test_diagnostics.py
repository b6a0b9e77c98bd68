"""R-hat, ESS and the verdict on chains whose state is known."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.diagnostics import _verdict, diagnose

_spec = importlib.util.spec_from_file_location(
    "oracles", Path(__file__).parents[1] / "oracles" / "oracles.py"
)
oracles = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracles)
RNG = np.random.default_rng(0)


def info(chains, draws):
    return {
        "acceptance": np.linspace(0.8, 0.9, chains)[:, None] * np.ones(draws),
        "divergent": np.eye(chains, draws, dtype=int),
    }


def test_independent_chains_are_trustworthy():
    d = diagnose(RNG.normal(size=(4, 500, 3, 2)), info(4, 500))
    assert d.rhat.shape == d.ess.shape == (3, 2)
    assert np.all(d.rhat < 1.01)
    np.testing.assert_allclose(d.ess, 2000, rtol=0.2)
    assert d.verdict.startswith("trustworthy")
    np.testing.assert_allclose(d.acceptance, np.linspace(0.8, 0.9, 4))
    assert d.divergences.tolist() == [1, 1, 1, 1]


def test_ess_of_autocorrelated_chains():
    """AR(1) with correlation 0.9: 80,000 draws are worth 80,000 / 19."""
    values = np.stack([oracles.ar1(0.9, 20_000, RNG) for _ in range(4)])[..., None, None]
    d = diagnose(values, info(4, 20_000))
    np.testing.assert_allclose(d.ess, 80_000 / 19, rtol=0.15)


def test_chains_that_disagree_are_named():
    values = RNG.normal(size=(4, 500, 3, 1))
    values[0, :, 1] += 3
    d = diagnose(values, info(4, 500))
    assert d.rhat[1, 0] > 1.1
    assert "do not agree yet at 1 of 3 rows" in d.verdict


def test_verdict_says_how_much_longer_to_run():
    agreeing, few = np.array([[1.001], [1.005]]), np.array([[800.0], [100.0]])
    verdict = _verdict(agreeing, few, chains=4)
    assert "chains agree (R-hat at most 1.005)" in verdict
    assert "run about 4.0 times longer for 400" in verdict


def test_many_divergences_are_mentioned():
    numbers = info(4, 500)
    numbers["divergent"][:, ::10] = 7  # of the transitions that led to the draw
    verdict = diagnose(RNG.normal(size=(4, 500, 1, 1)), numbers).verdict
    assert verdict.startswith("trustworthy")
    assert "10.2% of the draws saw a divergent trajectory" in verdict


def test_chains_that_never_move_are_not_trusted():
    stuck = np.arange(4.0)[:, None, None, None] * np.ones((4, 100, 2, 1))
    d = diagnose(stuck, info(4, 100))
    assert "do not agree yet at 2 of 2 rows" in d.verdict
    same = diagnose(np.ones((4, 100, 2, 1)), info(4, 100))
    assert "they have not moved" in same.verdict


def test_one_chain_can_not_show_convergence():
    assert "one chain alone" in diagnose(RNG.normal(size=(1, 500, 2, 1)), info(1, 500)).verdict


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="at least 4 draws a chain, got 3"):
        diagnose(RNG.normal(size=(2, 3, 1, 1)), info(2, 3))


def test_of_an_ensemble():
    x = np.linspace(-1, 1, 5)
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.2), x, 2 * x)
    ensemble = tb.sample(posterior, chains=3, burn_in=300, draws=400, progress=False)
    d = ensemble.diagnose([-1.0, 0.0, 1.0])
    values = ensemble.predict([-1.0, 0.0, 1.0]).networks.reshape(3, 400, 3, 1)
    np.testing.assert_array_equal(d.rhat, diagnose(values, ensemble.info).rhat)
    assert np.all(d.rhat < 1.05)
