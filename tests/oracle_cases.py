"""Posteriors whose exact answers are known, and the rule that a sample of them must pass.

The rule is that of tests/oracles/CASES.md. Draws come from several chains, in float64. A case
passes if every statistic lies within its Monte Carlo error of the truth (at a false-alarm rate of
1e-3 for the whole case), the effective sample size is large enough for that to mean something, and
R-hat is below 1.01. A case that fails is run once more with a new seed and four times the draws: a
bias doubles in units of its error, an accident does not.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

import tensorbnn as tb
from tests.oracles import oracles

GIVEN = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "oracles" / "cases.json").read_text())
}
CHAINS = 4


class Statistic(NamedTuple):
    """A quantity's draws ``(chains, draws)``, and how far a mean of it is from the truth."""

    draws: np.ndarray
    ess: float
    z: float


class Case(NamedTuple):
    """A posterior, and the statistics of a sample of it that are known exactly."""

    posterior: tb.Posterior
    statistics: Callable[[tb.Ensemble], list[Statistic]]
    least_ess: float = 400


def mean(draws, truth):
    return Statistic(draws, oracles.ess(draws), oracles.z_mean(draws, truth))


def probability(draws, threshold, truth):
    ess = oracles.ess((draws <= threshold).astype(float))
    return Statistic(draws, ess, oracles.z_prob(draws, threshold, truth))


def means(draws, truths):
    return [mean(each, truth) for each, truth in zip(draws, truths, strict=True)]


def passes(statistics: list[Statistic], least_ess: float) -> bool:
    ess = min(statistic.ess for statistic in statistics)
    rhat = max(float(array_stats.rhat(each.draws)) for each in statistics)
    z = max(abs(statistic.z) for statistic in statistics)
    print(f"{len(statistics)} statistics: |z| <= {z:.2f}, ESS >= {ess:.0f}, R-hat <= {rhat:.4f}")
    return z < oracles.z_crit(len(statistics)) and ess >= least_ess and rhat < 1.01


def check(case: Case, sampler=None, *, draws: int = 2000, thin: int = 1, seed: int = 1) -> None:
    def run(seed: int, draws: int) -> bool:
        ensemble = tb.sample(
            case.posterior,
            sampler,
            chains=CHAINS,
            burn_in=1000,
            draws=draws,
            thin=thin,
            seed=seed,
            progress=False,
        )
        return passes(case.statistics(ensemble), case.least_ess)

    assert run(seed, draws) or run(seed + 1, 4 * draws)


def outputs(ensemble: tb.Ensemble, x) -> np.ndarray:
    """Outputs of the networks at the rows of `x`: ``(rows, chains, draws)``, last output."""
    values = ensemble.predict(x, progress=False)._samples[..., -1]
    return np.moveaxis(values.reshape(CHAINS, -1, values.shape[-1]), -1, 0)


def coefficients(ensemble: tb.Ensemble) -> np.ndarray:
    """Weights, then the bias, of a linear network: ``(inputs + 1, chains, draws)``."""
    weights = ensemble.parameters["dense_0.weights"][..., 0]
    return np.moveaxis(np.concatenate([weights, ensemble.parameters["dense_0.biases"]], -1), -1, 0)


def linear_posterior(x, y, likelihood, weight_prior, bias_prior, **rows):
    network = tb.Network(tb.Dense(1, weight_prior, bias_prior), inputs=np.shape(x)[1])
    return tb.Posterior(network, likelihood, x, y, **rows, dtype="float64")


def linear_with_known_noise(x, y, xs, *, sd, weight_sd=1.0, bias_sd=1.0) -> Case:
    exact = oracles.linreg(x, y, sd, weight_sd, bias_sd)
    predicted = exact.predict(oracles.add_bias(xs), sd)
    first = np.eye(len(exact.mean))[0]
    quantiles = [(p, exact.quantile(first, p)) for p in (0.05, 0.95)]

    def statistics(ensemble):
        values = coefficients(ensemble)
        return [
            *means(values, exact.mean),
            *means(values**2, exact.mean**2 + np.diag(exact.cov)),
            *(probability(values[0], t, p) for p, t in quantiles),
            *means(outputs(ensemble, xs), predicted["mean"]),
            *means(outputs(ensemble, xs) ** 2, predicted["mean"] ** 2 + predicted["sd_f"] ** 2),
        ]

    posterior = linear_posterior(
        x, y, tb.Gaussian(sd=sd), tb.Normal(0.0, weight_sd), tb.Normal(0.0, bias_sd)
    )
    return Case(posterior, statistics, least_ess=1000)


def linear_with_learned_noise(x, y, noise_prior: tb.Prior, exact_prior, *, start=0.4) -> Case:
    """`exact_prior` is the same prior in the oracle's words, such as ``("halfnormal", 1.0)``."""
    exact = oracles.linreg_noise(x, y, oracles.noise_logpdf(*exact_prior))
    sd_mean, sd_sd = exact.aux_mean_sd("sigma")
    median = exact.aux_quantile("sigma", 0.5)

    def statistics(ensemble):
        sd = ensemble.hyperparameters["likelihood.sd"]
        return [
            *means(coefficients(ensemble), exact.mean),
            mean(sd, sd_mean),
            mean(sd**2, sd_mean**2 + sd_sd**2),
            probability(sd, median, 0.5),
        ]

    likelihood = tb.Gaussian(sd=tb.Hyper(start, noise_prior))
    posterior = linear_posterior(x, y, likelihood, tb.Normal(0.0, 1.0), tb.Normal(0.0, 1.0))
    return Case(posterior, statistics)


def linear_with_noises_of_columns(x, ys, noise_prior: tb.Prior, exact_prior) -> Case:
    """Columns with their own weights and noise: the exact answer of each alone."""
    log_prior = oracles.noise_logpdf(*exact_prior)
    exact = [oracles.linreg_noise(x, y, log_prior) for y in np.transpose(ys)]

    def statistics(ensemble):
        found = []
        weights, biases = (ensemble.parameters[f"dense_0.{name}"] for name in ("weights", "biases"))
        for column, each in enumerate(exact):
            own = np.concatenate([weights[..., column], biases[..., column, None]], axis=-1)
            sd = ensemble.hyperparameters[f"likelihood.sd.{column}"]
            sd_mean, sd_sd = each.aux_mean_sd("sigma")
            found += [*means(np.moveaxis(own, -1, 0), each.mean), mean(sd, sd_mean)]
            found += [mean(sd**2, sd_mean**2 + sd_sd**2)]
        return found

    prior = tb.Normal(0.0, 1.0)
    network = tb.Network(tb.Dense(len(exact), prior, prior), inputs=np.shape(x)[1])
    likelihood = tb.Gaussian(sd=[tb.Hyper(0.4, noise_prior)] * len(exact))
    return Case(tb.Posterior(network, likelihood, x, ys, dtype="float64"), statistics)


def linear_with_measured_noise(x, y, sds, *, prior: tb.Prior | None = None) -> Case:
    """A known sd for each row, times a factor of 1, or one that is learned under `prior`.

    Divided by their sds, rows are a regression with one noise, the factor: exact for each factor,
    and integrated over it on a grid.
    """
    phi, target = oracles.add_bias(x) / sds[:, None], y / sds
    factors, log_weights = np.ones(1), np.zeros(1)
    if prior is not None:
        factors = np.geomspace(0.05, 20, 2001)
        log_weights = np.log(factors) + stats.halfnorm.logpdf(factors, scale=prior.scale)
    size = phi.shape[1]
    found = [oracles._gauss_post(phi, target, f, np.zeros(size), np.eye(size)) for f in factors]
    evidences = [each[2] for each in found] + log_weights
    locations, covariances = zip(*(each[:2] for each in found), strict=True)
    exact = oracles.Mix(evidences, locations, covariances, {"factor": factors})

    def statistics(ensemble):
        values = coefficients(ensemble)
        known = [
            *means(values, exact.mean),
            *means(values**2, exact.mean**2 + np.diag(exact.cov)),
        ]
        if prior is not None:
            factor = ensemble.hyperparameters["likelihood.factor"]
            factor_mean, factor_sd = exact.aux_mean_sd("factor")
            known += [mean(factor, factor_mean), mean(factor**2, factor_mean**2 + factor_sd**2)]
        return known

    likelihood = tb.MeasuredGaussian(1.0 if prior is None else tb.Hyper(1.0, prior))
    normal = tb.Normal(0.0, 1.0)
    posterior = linear_posterior(x, y, likelihood, normal, normal, y_sd=sds)
    return Case(posterior, statistics, least_ess=1000)


def hierarchical(family, location, scale):
    """The paper's prior with ``a ~ N(*location)`` and ``b ~ N(*scale)`` truncated to b > 0."""
    return family(tb.Hyper(location[0], tb.Normal(*location)), tb.Hyper(1.0, tb.Normal(*scale)))


def linear_with_hierarchical_prior(x, y, *, sd, location, scale, bias_sd=1.0) -> Case:
    exact = oracles.linreg_hier(np.asarray(x), y, sd, *location, *scale, bias_sd=bias_sd)
    scale_mean, scale_sd = exact.aux_mean_sd("beta")

    def statistics(ensemble):
        hypers = ensemble.hyperparameters
        values = np.stack([*coefficients(ensemble), hypers["dense_0.weights.loc"]])
        scales = hypers["dense_0.weights.scale"]
        return [
            *means(values, exact.mean),
            *means(values**2, exact.mean**2 + np.diag(exact.cov)),
            mean(scales, scale_mean),
            mean(scales**2, scale_mean**2 + scale_sd**2),
        ]

    prior = hierarchical(tb.Normal, location, scale)
    posterior = linear_posterior(x, y, tb.Gaussian(sd=sd), prior, tb.Normal(0.0, bias_sd))
    return Case(posterior, statistics)


def prior_only(*layers: tb.Layer) -> tb.Posterior:
    return tb.Posterior(tb.Network(*layers, inputs=1), tb.Gaussian(sd=0.1), dtype="float64")


def first_and_last(values) -> tuple[np.ndarray, np.ndarray]:
    flat = values.reshape(*values.shape[:2], -1)
    return flat[..., 0], flat[..., -1]


def gaussian_prior(units, location, scale, thresholds=(-2.0, 0.5, 1.0)) -> Case:
    """Without data; the location's hyper-prior must be centered at zero."""
    exact = oracles.hier_gauss_prior(*location, *scale)
    prior = hierarchical(tb.Normal, location, scale)

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["dense_0.weights"])
        scales = ensemble.hyperparameters["dense_0.weights.scale"]
        squares = (first**2 - exact["var"]) * (last**2 - exact["var"])
        return [
            mean(first, exact["mean"]),
            mean(first**2, exact["var"]),
            mean(first * last, exact["cov_pair"]),
            mean(squares, exact["cov_sq_pair"]),
            mean(scales, exact["beta_mean"]),
            mean(scales**2, exact["beta_mean"] ** 2 + exact["beta_sd"] ** 2),
            *(probability(last, t, exact["cdf"](t)) for t in thresholds),
        ]

    return Case(prior_only(tb.Dense(units, prior, prior)), statistics)


def gamma_precision_prior(units, width, df) -> Case:
    """Neal's prior: each weight by itself is `width` times a Student-t with `df`."""
    exact = oracles.fbm_group_prior(width, df)
    prior = tb.Normal(0.0, tb.Hyper(width, tb.GammaPrecision(width, df)))
    thresholds = [exact.ppf(p) for p in (0.05, 0.3, 0.5, 0.9)]

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["dense_0.weights"])
        return [
            *(probability(first, t, exact.cdf(t)) for t in thresholds),
            *(probability(last, t, exact.cdf(t)) for t in thresholds),
        ]

    return Case(prior_only(tb.Dense(units, prior, prior)), statistics)


def independent_prior(prior, truth) -> Case:
    """Weights under `prior` and a scale under it, each separately, against `truth` of SciPy."""
    wanted = (0.05, 0.3, 0.5, 0.9)
    scale = tb.Normal(0.0, prior)

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["dense_0.weights"])
        draws = (first, last, ensemble.hyperparameters["dense_1.weights.scale"])
        return [probability(each, truth.ppf(p), p) for each in draws for p in wanted]

    unit = tb.Normal(0.0, 1.0)
    return Case(prior_only(tb.Dense(2, prior, unit), tb.Dense(1, scale, unit)), statistics)


def cauchy_prior(units, location=(0.0, 0.2), scale=(0.5, 0.5), thresholds=(-5.0, 0.3, 2.0)) -> Case:
    """Without data; the location's hyper-prior must be centered at zero."""
    exact = oracles.hier_cauchy_prior(*location, *scale)
    scale_mean = oracles.hier_gauss_prior(*location, *scale)["beta_mean"]
    prior = hierarchical(tb.Cauchy, location, scale)

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["dense_0.weights"])
        return [
            mean(ensemble.hyperparameters["dense_0.weights.loc"], 0.0),
            mean(ensemble.hyperparameters["dense_0.weights.scale"], scale_mean),
            *(probability(first, t, exact["cdf"](t)) for t in thresholds),
            *(probability(last, exact["quantile"](p), p) for p in (0.1, 0.9, 0.99)),
        ]

    return Case(prior_only(tb.Dense(units, prior, prior)), statistics)


def prelu_prior(units, rate=0.3) -> Case:
    exact = oracles.prelu_slope_prior(rate)
    prior = tb.Exponential(tb.Hyper(rate, tb.Exponential(rate)))
    unit = tb.Normal(0.0, 1.0)

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["prelu_0.slopes"])
        thresholds = np.array([0.15, 1.0, 7.0]) * exact["median"]
        return [
            *(probability(first, m, exact["cdf"](m)) for m in thresholds),
            *(probability(last, m, exact["cdf"](m)) for m in thresholds),
            mean(ensemble.hyperparameters["prelu_0.slopes.rate"], 1 / rate),
        ]

    return Case(prior_only(tb.Dense(units, unit, unit), tb.PReLU(prior)), statistics)


def square_prelu_prior(units) -> Case:
    exact = oracles.hier_gauss_prior(0.0, 0.1, 0.3, 0.3)
    unit = tb.Normal(0.0, 1.0)

    def statistics(ensemble):
        first, last = first_and_last(ensemble.parameters["squareprelu_0.slopes"])
        return [
            mean(first, 0.0),
            mean(first**2, exact["var"]),
            mean(ensemble.hyperparameters["squareprelu_0.slopes.scale"], exact["beta_mean"]),
            *(probability(last, t, exact["cdf"](t)) for t in (-0.3, 0.1, 0.6)),
        ]

    return Case(prior_only(tb.Dense(units, unit, unit), tb.SquarePReLU()), statistics)


def one_hidden_unit(x, y, xs, *, sd, activation="tanh", sds=(1.0, 1.0, 1.0, 1.0)) -> Case:
    """`sds` are the prior sds of ``u, a, v, c`` in ``v act(u x + a) + c``."""
    exact = oracles.one_unit(x, y, sd, activation, *sds, xs=xs)
    u_sd, a_sd, v_sd, c_sd = (tb.Normal(0.0, each) for each in sds)
    network = tb.Network(tb.Dense(1, u_sd, a_sd), activation, tb.Dense(1, v_sd, c_sd), inputs=1)

    def statistics(ensemble):
        u = ensemble.parameters["dense_0.weights"][..., 0, 0]
        v = ensemble.parameters["dense_1.weights"][..., 0, 0]
        c = ensemble.parameters["dense_1.biases"][..., 0]
        values = outputs(ensemble, xs)
        return [
            *means(values, exact["mean"]),
            *means(values**2, exact["mean"] ** 2 + exact["sd_f"] ** 2),
            mean(u * v, exact["E_uv"]),
            mean(np.abs(v), exact["E_absv"]),
            mean(c, exact["E_c"]),
        ]

    posterior = tb.Posterior(network, tb.Gaussian(sd=sd), x, y, dtype="float64")
    return Case(posterior, statistics, least_ess=1000)


def logistic(x, labels, xs, *, weight_sd=1.0, bias_sd=1.0) -> Case:
    exact = oracles.logistic_1d(x, labels, weight_sd, bias_sd, xs=xs)

    def statistics(ensemble):
        weight, bias = coefficients(ensemble)
        return [
            mean(weight, exact["E_w"]),
            mean(bias, exact["E_b"]),
            mean(weight**2, exact["E_w"] ** 2 + exact["sd_w"] ** 2),
            mean(weight * bias, exact["cov_wb"] + exact["E_w"] * exact["E_b"]),
            *means(outputs(ensemble, xs), exact["prob"]),
        ]

    priors = tb.Normal(0.0, weight_sd), tb.Normal(0.0, bias_sd)
    posterior = linear_posterior(np.reshape(x, (-1, 1)), labels, tb.Bernoulli(), *priors)
    return Case(posterior, statistics)


def two_classes(x, labels, xs) -> Case:
    """Softmax over two classes: the difference of the logits has the prior N(0, sqrt 2)."""
    sd = math.sqrt(2.0)
    exact = oracles.logistic_1d(x, labels, w_sd=sd, b_sd=sd, xs=xs)
    unit = tb.Normal(0.0, 1.0)
    network = tb.Network(tb.Dense(2, unit, unit), tb.Softmax(), inputs=1)

    def statistics(ensemble):
        weights = ensemble.parameters["dense_0.weights"][..., 0, :]
        biases = ensemble.parameters["dense_0.biases"]
        return [
            mean(weights[..., 1] - weights[..., 0], exact["E_w"]),
            mean(biases[..., 1] - biases[..., 0], exact["E_b"]),
            *means(outputs(ensemble, xs), exact["prob"]),
        ]

    return Case(tb.Posterior(network, tb.Categorical(), x, labels, dtype="float64"), statistics)


def deep(x, y, xs, truths, errors, *, sd, hidden, activation="tanh", last_sd=0.5) -> Case:
    """`truths` and their standard `errors` at `xs` come from importance sampling."""
    unit = tb.Normal(0.0, 1.0)
    layers = [layer for units in hidden for layer in (tb.Dense(units, unit, unit), activation)]
    last = tb.Dense(1, tb.Normal(0.0, last_sd), unit)
    network = tb.Network(*layers, last, inputs=1)

    def statistics(ensemble):
        result = []
        for draws, truth, error in zip(outputs(ensemble, xs), truths, errors, strict=True):
            ess = oracles.ess(draws)
            z = (draws.mean() - truth) / math.hypot(draws.std() / math.sqrt(ess), error)
            result.append(Statistic(draws, ess, z))
        return result

    return Case(tb.Posterior(network, tb.Gaussian(sd=sd), x, y, dtype="float64"), statistics)


PAPER = {"location": (0.0, 0.1), "scale": (1.0, 0.1)}
# Under these a missing Jacobian or normalizer is seen at once.
WIDE = {"location": (0.0, 0.5), "scale": (0.5, 0.5)}


def _given(name, *fields):
    return [GIVEN[name][field] for field in fields]


def _deep():
    truth = GIVEN["deep_is"]["truth"]
    data = _given("deep_is", "x", "y", "xs")
    return deep(*data, truth["pred_mean"], truth["se"], sd=0.3, hidden=[5])


def _learned_noise(prior, exact):
    return linear_with_learned_noise(*_given("lin_noise", "X", "y"), prior, exact)


def _hierarchical(numbers):
    return linear_with_hierarchical_prior(*_given("lin_hier", "X", "y"), sd=0.5, **numbers)


# Every case, by model and data, for samplers that must pass all of them.
CASES: dict[str, Callable[[], Case]] = {
    "linear": lambda: linear_with_known_noise(*_given("lin_fixed", "X", "y", "xs"), sd=0.4),
    "linear, noise learned": lambda: _learned_noise(tb.HalfNormal(1.0), ("halfnormal", 1.0)),
    "linear, default noise": lambda: _learned_noise(None, ("lognormal", math.log(0.4), 1.0)),
    "linear, the paper's prior": lambda: _hierarchical(PAPER),
    "linear, wide prior": lambda: _hierarchical(WIDE),
    "prior, normal": lambda: gaussian_prior(2, **PAPER),
    "prior, wide normal": lambda: gaussian_prior(2, **WIDE),
    "prior, normal, 50 units": lambda: gaussian_prior(50, **PAPER),
    "prior, wide normal, 50 units": lambda: gaussian_prior(50, **WIDE),
    "prior, gamma precision, narrow": lambda: gamma_precision_prior(8, 0.05, 0.5),
    "prior, gamma precision": lambda: gamma_precision_prior(8, 1.0, 4.0),
    "prior, Cauchy": lambda: cauchy_prior(2),
    "prior, Cauchy, 50 units": lambda: cauchy_prior(50),
    "prior, PReLU": lambda: prelu_prior(2),
    "prior, PReLU, 50 units": lambda: prelu_prior(50),
    "prior, SquarePReLU": lambda: square_prelu_prior(3),
    "one hidden unit": lambda: one_hidden_unit(*_given("one_unit", "x", "y", "xs"), sd=0.3),
    "logistic": lambda: logistic(*_given("logistic", "x", "t", "xs")),
    "softmax": lambda: two_classes(*_given("logistic", "x", "t", "xs")),
    "five hidden units": _deep,
}
