"""Simulation-based calibration: parameters from the prior, data from them, and their ranks.

If a posterior is sampled correctly, the rank of what made the data among draws given the data is
uniform (Talts et al. 2018). Everything enters at once: priors, hyper-priors, transforms, Jacobians,
likelihood, sampler and its adaptation. The networks that make the data are drawn and evaluated by
NumPy alone.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tests.oracles import oracles

pytestmark = pytest.mark.slow

REPLICATIONS, DRAWS = 640, 63
X = np.linspace(-1.5, 1.5, 10)
XS = np.array([0.4, 2.5])
UNITS = 3
LOC_SD, SCALE, SCALE_SD = 0.5, 1.0, 0.3
NOISE, LOG_NOISE_SD = 0.3, 0.5
QUANTITIES = ("f(0.4)", "f(2.5)", "noise", "scale of the first weights", "log-likelihood")

PRIOR = tb.Normal(
    tb.Hyper(0.0, tb.Normal(0.0, LOC_SD)), tb.Hyper(SCALE, tb.Normal(SCALE, SCALE_SD))
)
NETWORK = tb.Network(tb.Dense(UNITS, PRIOR, PRIOR), tb.Tanh(), tb.Dense(1, PRIOR, PRIOR), inputs=1)
LIKELIHOOD = tb.Gaussian(sd=tb.Hyper(NOISE, tb.LogNormal(float(np.log(NOISE)), LOG_NOISE_SD)))
ADAPTIVE = tb.AdaptiveHMC(
    step_size_start=0.1,
    step_size_min=0.02,
    step_size_max=0.3,
    step_size_options=20,
    num_steps_start=10,
    num_steps_min=5,
    num_steps_max=30,
    num_steps_increment=1,
    hyper_step_size=0.1,
)


class Weights(NamedTuple):
    """Networks of any leading shape: ``(..., inputs, units)`` and ``(..., units)``."""

    w0: np.ndarray
    b0: np.ndarray
    w1: np.ndarray
    b1: np.ndarray


def outputs(weights, x):
    """Output at each of `x`, ``(..., rows)``."""
    hidden = np.tanh(x[:, None] * weights.w0 + weights.b0[..., None, :])
    return (hidden @ weights.w1 + weights.b1[..., None, :])[..., 0]


def quantities(weights, noise, scale, y):
    """The quantities that are ranked, each of the leading shape; none depends on a symmetry."""
    log_likelihood = stats.norm.logpdf(y, outputs(weights, X), noise[..., None]).sum(-1)
    return np.stack([*np.moveaxis(outputs(weights, XS), -1, 0), noise, scale, log_likelihood])


def draw_prior(rng):
    """Weights, noise, and the scale of the first layer's weights."""
    lowest = -SCALE / SCALE_SD
    scales = stats.truncnorm.rvs(lowest, np.inf, SCALE, SCALE_SD, size=4, random_state=rng)
    shapes = (1, UNITS), (UNITS,), (UNITS, 1), (1,)
    parts = (
        rng.normal(rng.normal(0.0, LOC_SD), scale, size=shape)
        for scale, shape in zip(scales, shapes, strict=True)
    )
    return Weights(*parts), NOISE * np.exp(rng.normal(0.0, LOG_NOISE_SD)), scales[0]


def replicate(number, sampler, thin):
    """The quantities of what made the data, and of draws given the data ``(quantities, draws)``."""
    rng = np.random.default_rng([20, number])
    weights, noise, scale = draw_prior(rng)
    y = rng.normal(outputs(weights, X), noise)
    ensemble = tb.sample(
        tb.Posterior(NETWORK, LIKELIHOOD, X, y, dtype="float64"),
        sampler,
        chains=1,
        burn_in=500,
        draws=DRAWS,
        thin=thin,
        seed=number,
        progress=False,
    )
    drawn, hypers = ensemble.parameters, ensemble.hyperparameters
    sampled = Weights(
        *(drawn[f"dense_{layer}.{kind}"][0] for layer in (0, 1) for kind in ("weights", "biases"))
    )
    found = quantities(sampled, hypers["likelihood.sd"][0], hypers["dense_0.weights.scale"][0], y)
    return quantities(weights, np.asarray(noise), np.asarray(scale), y), found


def verdicts(truths, draws):
    """For each quantity, whether its ranks are uniform by the rule of CASES.md."""
    found = []
    for name, truth, each in zip(QUANTITIES, truths, draws, strict=True):
        ranks = [oracles.sbc_rank(one, own) for one, own in zip(truth, each, strict=True)]
        test = oracles.sbc_test(ranks, DRAWS)
        print(name, {key: f"{value:.3g}" for key, value in test.items()})
        likely = min(test["p_chi2"], test["p_ks"]) > 1e-3 / len(QUANTITIES)
        found.append(likely and abs(test["z_bias"]) < 4 and abs(test["z_disp"]) < 4)
    return found


def check(sampler, thin):
    pairs = [replicate(number, sampler, thin) for number in range(REPLICATIONS)]
    truths = np.stack([truth for truth, _ in pairs], 1)
    draws = np.stack([found for _, found in pairs], 1)
    assert all(verdicts(truths, draws))

    # The same with a bug planted: every posterior a fifth too narrow.
    center = draws.mean(-1, keepdims=True)
    assert not any(verdicts(truths, center + 0.8 * (draws - center)))


def test_ranks_under_the_default():
    check(tb.HMC(), thin=8)


@pytest.mark.soak
def test_ranks_under_adaptive_hmc():
    check(ADAPTIVE, thin=20)
