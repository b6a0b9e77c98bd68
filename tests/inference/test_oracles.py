"""Sampled posteriors against exact answers, by the rule of tests/oracles/CASES.md.

Parameters and hyper-parameters are sampled jointly by HMC, in float64, from several chains. A case
passes if every statistic lies within its Monte Carlo error of the truth (at a false-alarm rate of
1e-3 for the whole case), the effective sample size is large enough for that to mean something, and
R-hat is below 1.01. A case that fails is run once more with a new seed and four times the draws: a
bias doubles in units of its error, an accident does not.
"""

import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import expit

import tensorbnn as tb

ORACLES = Path(__file__).parents[1] / "oracles"
_spec = importlib.util.spec_from_file_location("oracles", ORACLES / "oracles.py")
oracles = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracles)
CASES = {case["id"]: case for case in json.loads((ORACLES / "cases.json").read_text())}

UNIT = tb.Normal(0.0, 1.0)


class Statistic(NamedTuple):
    """Draws ``(chains, draws)``, and the distance of their mean from the truth in errors."""

    draws: np.ndarray
    z: float


def mean(draws, truth):
    return Statistic(draws, oracles.z_mean(draws, truth))


def probability(draws, threshold, truth):
    return Statistic((draws <= threshold).astype(float), oracles.z_prob(draws, threshold, truth))


def passes(statistics: list[Statistic], least_ess: float) -> bool:
    ess = min(oracles.ess(statistic.draws) for statistic in statistics)
    rhat = max(float(array_stats.rhat(each.draws)) for each in statistics)
    z = max(abs(statistic.z) for statistic in statistics)
    print(f"{len(statistics)} statistics: |z| <= {z:.2f}, ESS >= {ess:.0f}, R-hat <= {rhat:.4f}")
    return z < oracles.z_crit(len(statistics)) and ess >= least_ess and rhat < 1.01


def check(
    posterior: tb.Posterior,
    statistics: Callable[[tb.Ensemble], list[Statistic]],
    *,
    sampler: tb.HMC | None = None,
    draws: int = 2000,
    least_ess: float = 400,
) -> None:
    def run(seed: int, draws: int) -> bool:
        ensemble = tb.sample(
            posterior, sampler, chains=4, burn_in=1000, draws=draws, seed=seed, progress=False
        )
        return passes(statistics(ensemble), least_ess)

    assert run(seed=1, draws=draws) or run(seed=2, draws=4 * draws)


def linear(inputs: int, weight_prior: tb.Prior = UNIT, bias_prior: tb.Prior = UNIT) -> tb.Network:
    return tb.Network(tb.Dense(1, weight_prior, bias_prior), inputs=inputs)


def coefficients(ensemble: tb.Ensemble) -> np.ndarray:
    """Weights, then the bias, of a linear network: ``(inputs + 1, chains, draws)``."""
    weights = ensemble.parameters["dense_0.weights"][..., 0]
    return np.moveaxis(np.concatenate([weights, ensemble.parameters["dense_0.biases"]], -1), -1, 0)


def test_linear_network_with_known_noise():
    case, truth = CASES["lin_fixed"], CASES["lin_fixed"]["truth"]
    posterior = tb.Posterior(linear(3), tb.Gaussian(sd=0.4), case["X"], case["y"], dtype="float64")
    prediction = oracles.linreg(case["X"], case["y"], 0.4).predict(
        oracles.add_bias(case["xs"]), 0.4
    )

    def statistics(ensemble):
        means, variances = np.asarray(truth["mean"]), np.diag(truth["cov"])
        values = coefficients(ensemble)
        outputs = np.moveaxis(
            ensemble.predict(case["xs"]).networks.reshape(4, -1, len(case["xs"])), -1, 0
        )
        return [
            *(mean(v, t) for v, t in zip(values, means, strict=True)),
            *(mean(v**2, t) for v, t in zip(values, means**2 + variances, strict=True)),
            probability(values[0], truth["q05_w0"], 0.05),
            probability(values[0], truth["q95_w0"], 0.95),
            *(mean(v, t) for v, t in zip(outputs, prediction["mean"], strict=True)),
        ]

    check(posterior, statistics, least_ess=1000)


def test_linear_network_with_learned_noise():
    case, truth = CASES["lin_noise"], CASES["lin_noise"]["truth"]
    likelihood = tb.Gaussian(sd=tb.Hyper(0.4, tb.HalfNormal(1.0)))
    posterior = tb.Posterior(linear(3), likelihood, case["X"], case["y"], dtype="float64")

    def statistics(ensemble):
        sd = ensemble.hyperparameters["likelihood.sd"]
        values = coefficients(ensemble)
        return [
            *(mean(v, t) for v, t in zip(values, truth["mean"], strict=True)),
            mean(sd, truth["sigma_mean"]),
            mean(sd**2, truth["sigma_mean"] ** 2 + truth["sigma_sd"] ** 2),
            probability(sd, truth["sigma_median"], 0.5),
        ]

    check(posterior, statistics)


@pytest.mark.parametrize(
    ("location", "scale"), [((0.0, 0.1), (1.0, 0.1)), ((0.0, 0.5), (0.5, 0.5))], ids=str
)
def test_linear_network_with_hierarchical_prior(location, scale):
    """The paper's hyper-priors, and wide ones under which a missing Jacobian would be seen."""
    case = CASES["lin_hier"]
    prior = tb.Normal(tb.Hyper(0.0, tb.Normal(*location)), tb.Hyper(1.0, tb.Normal(*scale)))
    posterior = tb.Posterior(
        linear(4, prior), tb.Gaussian(sd=0.5), case["X"], case["y"], dtype="float64"
    )
    exact = oracles.linreg_hier(
        np.asarray(case["X"]), case["y"], 0.5, *location, *scale, bias_sd=1.0
    )
    scale_mean, scale_sd = exact.aux_mean_sd("beta")

    def statistics(ensemble):
        hypers = ensemble.hyperparameters
        values = [*coefficients(ensemble), hypers["dense_0.weights.loc"]]
        scale = hypers["dense_0.weights.scale"]
        return [
            *(mean(v, t) for v, t in zip(values, exact.mean, strict=True)),
            *(
                mean(v**2, t)
                for v, t in zip(values, exact.mean**2 + np.diag(exact.cov), strict=True)
            ),
            mean(scale, scale_mean),
            mean(scale**2, scale_mean**2 + scale_sd**2),
        ]

    check(posterior, statistics)


def pairs(ensemble: tb.Ensemble) -> tuple[np.ndarray, np.ndarray]:
    weights = ensemble.parameters["dense_0.weights"].reshape(4, ensemble.num_draws, -1)
    return weights[..., 0], weights[..., -1]


@pytest.mark.parametrize("units", [2, 50])
@pytest.mark.parametrize("hyper_prior", [(0.0, 0.1, 1.0, 0.1), (0.0, 0.5, 0.5, 0.5)], ids=str)
def test_gaussian_prior_is_recovered_without_data(units, hyper_prior):
    mu_a, s_a, mu_b, s_b = hyper_prior
    prior = tb.Normal(tb.Hyper(0.0, tb.Normal(mu_a, s_a)), tb.Hyper(1.0, tb.Normal(mu_b, s_b)))
    network = tb.Network(tb.Dense(units, prior, prior), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), dtype="float64")
    exact = oracles.hier_gauss_prior(*hyper_prior)

    def statistics(ensemble):
        first, last = pairs(ensemble)
        scale = ensemble.hyperparameters["dense_0.weights.scale"]
        squares = (first**2 - exact["var"]) * (last**2 - exact["var"])
        return [
            mean(first, mu_a),
            mean(first**2, exact["var"]),
            mean(first * last, exact["cov_pair"]),
            mean(squares, exact["cov_sq_pair"]),
            mean(scale, exact["beta_mean"]),
            mean(scale**2, exact["beta_mean"] ** 2 + exact["beta_sd"] ** 2),
            *(probability(last, t, exact["cdf"](t)) for t in (-2.0, 0.5, 1.0)),
        ]

    check(posterior, statistics)


@pytest.mark.parametrize("units", [2, 50])
def test_cauchy_prior_is_recovered_without_data(units):
    posterior = tb.Posterior(
        tb.Network(tb.CauchyDense(units), inputs=1), tb.Gaussian(sd=0.1), dtype="float64"
    )
    exact, truth = oracles.hier_cauchy_prior(), CASES["prior_cauchy"]["truth"]

    def statistics(ensemble):
        first, last = pairs(ensemble)
        return [
            *(probability(first, t, exact["cdf"](t)) for t in (-5.0, 0.3, 2.0)),
            probability(last, truth["q90"], 0.9),
            probability(last, truth["q99"], 0.99),
        ]

    check(posterior, statistics)


@pytest.mark.parametrize("units", [2, 50])
def test_prelu_prior_is_recovered_without_data(units):
    network = tb.Network(tb.Dense(units, UNIT, UNIT), tb.PReLU(), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), dtype="float64")
    cdf = oracles.prelu_slope_prior(0.3)["cdf"]

    def statistics(ensemble):
        slopes = ensemble.parameters["prelu_0.slopes"]
        rate = ensemble.hyperparameters["prelu_0.slopes.rate"]
        return [
            *(probability(slopes[..., 0], m, cdf(m)) for m in (0.05, 0.3, 2.0)),
            *(probability(slopes[..., -1], m, cdf(m)) for m in (0.05, 0.3, 2.0)),
            mean(rate, 1 / 0.3),
        ]

    check(posterior, statistics)


def test_square_prelu_prior_is_recovered_without_data():
    network = tb.Network(tb.Dense(3, UNIT, UNIT), tb.SquarePReLU(), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), dtype="float64")
    exact = oracles.hier_gauss_prior(0.0, 0.1, 0.3, 0.3)

    def statistics(ensemble):
        slopes = ensemble.parameters["squareprelu_0.slopes"]
        scale = ensemble.hyperparameters["squareprelu_0.slopes.scale"]
        return [
            mean(slopes[..., 0], 0.0),
            mean(slopes[..., 1] ** 2, exact["var"]),
            mean(scale, exact["beta_mean"]),
            *(probability(slopes[..., 2], t, exact["cdf"](t)) for t in (-0.3, 0.1, 0.6)),
        ]

    check(posterior, statistics)


def test_one_hidden_unit():
    case = CASES["one_unit"]
    x, y, xs = (np.asarray(case[name]) for name in ("x", "y", "xs"))
    network = tb.Network(tb.Dense(1, UNIT, UNIT), tb.Tanh(), tb.Dense(1, UNIT, UNIT), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.3), x, y, dtype="float64")
    exact = oracles.one_unit(x, y, 0.3, xs=xs)

    def statistics(ensemble):
        u = ensemble.parameters["dense_0.weights"][..., 0, 0]
        v = ensemble.parameters["dense_1.weights"][..., 0, 0]
        c = ensemble.parameters["dense_1.biases"][..., 0]
        outputs = np.moveaxis(ensemble.predict(xs).networks.reshape(4, -1, len(xs)), -1, 0)
        squares = exact["mean"] ** 2 + exact["sd_f"] ** 2
        return [
            *(mean(f, t) for f, t in zip(outputs, exact["mean"], strict=True)),
            *(mean(f**2, t) for f, t in zip(outputs, squares, strict=True)),
            mean(u * v, exact["E_uv"]),
            mean(np.abs(v), exact["E_absv"]),
            mean(c, exact["E_c"]),
        ]

    check(posterior, statistics, least_ess=1000)


def test_logistic_regression():
    case = CASES["logistic"]
    posterior = tb.Posterior(linear(1), tb.Bernoulli(), case["x"], case["t"], dtype="float64")
    exact = oracles.logistic_1d(case["x"], case["t"], xs=case["xs"])

    def statistics(ensemble):
        weight, bias = coefficients(ensemble)
        outputs = ensemble.predict(case["xs"]).networks.reshape(4, -1, len(case["xs"]))
        return [
            mean(weight, exact["E_w"]),
            mean(bias, exact["E_b"]),
            mean(weight**2, exact["E_w"] ** 2 + exact["sd_w"] ** 2),
            *(mean(outputs[..., i], p) for i, p in enumerate(exact["prob"])),
        ]

    check(posterior, statistics)


def test_softmax_regression_is_logistic_regression():
    """Two classes under softmax: the difference of the logits has the prior N(0, sqrt 2)."""
    case = CASES["logistic"]
    network = tb.Network(tb.Dense(2, UNIT, UNIT), tb.Softmax(), inputs=1)
    posterior = tb.Posterior(network, tb.Categorical(), case["x"], case["t"], dtype="float64")
    sd = math.sqrt(2.0)
    exact = oracles.logistic_1d(case["x"], case["t"], w_sd=sd, b_sd=sd, xs=case["xs"])

    def statistics(ensemble):
        weights = ensemble.parameters["dense_0.weights"][..., 0, :]
        biases = ensemble.parameters["dense_0.biases"]
        weight, bias = weights[..., 1] - weights[..., 0], biases[..., 1] - biases[..., 0]
        outputs = ensemble.predict(case["xs"]).networks[..., 1].reshape(4, -1, len(case["xs"]))
        np.testing.assert_allclose(outputs[..., 1], expit(bias), atol=1e-12)
        return [
            mean(weight, exact["E_w"]),
            mean(bias, exact["E_b"]),
            *(mean(outputs[..., i], p) for i, p in enumerate(exact["prob"])),
        ]

    check(posterior, statistics)


def test_deep_network_against_importance_sampling():
    case, truth = CASES["deep_is"], CASES["deep_is"]["truth"]
    network = tb.Network(
        tb.Dense(5, UNIT, UNIT), tb.Tanh(), tb.Dense(1, tb.Normal(0.0, 0.5), UNIT), inputs=1
    )
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.3), case["x"], case["y"], dtype="float64")

    def statistics(ensemble):
        outputs = ensemble.predict(case["xs"]).networks.reshape(4, -1, len(case["xs"]))
        result = []
        for index, (expected, error) in enumerate(
            zip(truth["pred_mean"], truth["se"], strict=True)
        ):
            draws = outputs[..., index]
            mcse = draws.std() / math.sqrt(oracles.ess(draws))
            result.append(Statistic(draws, (draws.mean() - expected) / math.hypot(mcse, error)))
        return result

    check(posterior, statistics)


def test_proposals_conserve_probability():
    """Creutz: the mean of exp(-energy error) over all proposals is one."""
    case = CASES["lin_fixed"]
    posterior = tb.Posterior(linear(3), tb.Gaussian(sd=0.4), case["X"], case["y"], dtype="float64")
    sampler = tb.HMC(step_size=0.07, num_leapfrog=5, step_size_jitter=0.2)
    ensemble = tb.sample(posterior, sampler, burn_in=500, draws=4000, seed=3, progress=False)
    errors = ensemble.info["energy_error"]
    assert 0.1 < np.abs(errors).mean() < 1  # large enough to be seen, small enough to be averaged
    assert abs(oracles.creutz_z(errors.ravel())) < 4


def test_given_steps_with_jitter_sample_the_same_posterior():
    case, truth = CASES["lin_fixed"], CASES["lin_fixed"]["truth"]
    posterior = tb.Posterior(linear(3), tb.Gaussian(sd=0.4), case["X"], case["y"], dtype="float64")
    sampler = tb.HMC(step_size=0.05, num_leapfrog=6, step_size_jitter=0.3, num_leapfrog_jitter=0.5)
    check(
        posterior,
        lambda e: [mean(v, t) for v, t in zip(coefficients(e), truth["mean"], strict=True)],
        sampler=sampler,
        least_ess=1000,
    )


def test_rule_notices_a_wrong_answer():
    """The rule itself fails where it should: a truth that is off by a tenth of an sd."""
    draws = np.random.default_rng(0).standard_normal((4, 2000))
    assert passes([mean(draws, 0.0)], least_ess=1000)
    assert not passes([mean(draws, 0.1)], least_ess=1000)
    assert not passes([mean(draws, 0.0)], least_ess=1e5)
    assert not passes([mean(draws + np.arange(4)[:, None], 1.5)], least_ess=1)
