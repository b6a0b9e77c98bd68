"""HMC over parameters and hyper-parameters jointly, against exact answers."""

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tests import oracle_cases as cases
from tests.oracle_cases import GIVEN, check
from tests.oracles import oracles

pytestmark = pytest.mark.slow

PAPER = {"location": (0.0, 0.1), "scale": (1.0, 0.1)}
# Under these a missing Jacobian or normalizer is seen at once.
WIDE = {"location": (0.0, 0.5), "scale": (0.5, 0.5)}


@pytest.mark.parametrize(
    "sampler",
    [
        tb.HMC(),
        tb.HMC(step_size=0.05, num_steps=6, step_size_jitter=0.3, num_steps_jitter=0.5),
    ],
    ids=["tuned", "given steps with jitter"],
)
def test_linear_network_with_known_noise(sampler):
    case = GIVEN["lin_fixed"]
    built = cases.linear_with_known_noise(case["X"], case["y"], case["xs"], sd=0.4)
    check(built, sampler)


def test_linear_network_with_learned_noise():
    case = GIVEN["lin_noise"]
    prior, exact = tb.HalfNormal(1.0), ("halfnormal", 1.0)
    check(cases.linear_with_learned_noise(case["X"], case["y"], prior, exact))


def test_columns_with_noises_of_their_own():
    """The second column scatters four times as widely as the first."""
    case = GIVEN["lin_noise"]
    x, y = np.asarray(case["X"]), np.asarray(case["y"])
    other = x @ np.linspace(-1, 1, x.shape[1]) + np.random.default_rng(0).normal(0, 1.6, len(y))
    prior, exact = tb.HalfNormal(1.0), ("halfnormal", 1.0)
    check(cases.linear_with_noises_of_columns(x, np.column_stack([y, other]), prior, exact))


def test_default_prior_of_learned_noise():
    """``Hyper(0.4)`` alone is log-normal around 0.4 with a log-sd of 1."""
    case = GIVEN["lin_noise"]
    exact = ("lognormal", np.log(0.4), 1.0)
    check(cases.linear_with_learned_noise(case["X"], case["y"], None, exact))


@pytest.mark.parametrize(
    ("engine", "prior"), [("jax", None), ("auto", tb.HalfNormal(2.0))], ids=["known", "learned"]
)
def test_linear_network_with_measured_noise(engine, prior):
    """Weighted least squares: rows with error bars from a tenth to twice the noise of the case."""
    case = GIVEN["lin_fixed"]
    x, y = np.asarray(case["X"]), np.asarray(case["y"])
    sds = 0.4 * np.geomspace(0.1, 2.0, len(y))
    built = cases.linear_with_measured_noise(x, y, sds, prior=prior)
    built.posterior.engine = engine
    check(built)


@pytest.mark.parametrize("prior", [PAPER, WIDE], ids=["paper", "wide"])
def test_linear_network_with_hierarchical_prior(prior):
    case = GIVEN["lin_hier"]
    check(cases.linear_with_hierarchical_prior(case["X"], case["y"], sd=0.5, **prior))


@pytest.mark.parametrize("units", [2, 50])
@pytest.mark.parametrize("prior", [PAPER, WIDE], ids=["paper", "wide"])
def test_gaussian_prior_is_recovered_without_data(units, prior):
    check(cases.gaussian_prior(units, **prior))


@pytest.mark.parametrize(("width", "df"), [(0.05, 0.5), (1.0, 4.0)], ids=str)
def test_gamma_precision_prior_is_recovered_without_data(width, df):
    check(cases.gamma_precision_prior(8, width, df))


@pytest.mark.parametrize(
    ("prior", "truth"),
    [
        (tb.HalfCauchy(0.3), stats.halfcauchy(scale=0.3)),
        (tb.Gamma(0.5, 2.0), stats.gamma(0.5, scale=0.5)),
        (tb.Gamma(20.0, 5.0), stats.gamma(20, scale=0.2)),
        (tb.InverseGamma(2.0, 3.0), stats.invgamma(2, scale=3)),
        (tb.Uniform(0.0, 3.0), stats.uniform(0, 3)),
    ],
    ids=["half-Cauchy", "gamma", "narrow gamma", "inverse gamma", "uniform"],
)
def test_prior_of_weights_and_of_a_scale_is_recovered_without_data(prior, truth):
    check(cases.independent_prior(prior, truth))


@pytest.mark.parametrize("units", [2, 50])
def test_cauchy_prior_is_recovered_without_data(units):
    check(cases.cauchy_prior(units))


@pytest.mark.parametrize("units", [2, 50])
def test_prelu_prior_is_recovered_without_data(units):
    check(cases.prelu_prior(units))


def test_square_prelu_prior_is_recovered_without_data():
    check(cases.square_prelu_prior(3))


def test_one_hidden_unit():
    case = GIVEN["one_unit"]
    check(cases.one_hidden_unit(case["x"], case["y"], case["xs"], sd=0.3), draws=5000)


def test_logistic_regression():
    case = GIVEN["logistic"]
    check(cases.logistic(case["x"], case["t"], case["xs"]))


def test_softmax_regression_is_logistic_regression():
    case = GIVEN["logistic"]
    check(cases.two_classes(case["x"], case["t"], case["xs"]))


def test_deep_network_against_importance_sampling():
    case, truth = GIVEN["deep_is"], GIVEN["deep_is"]["truth"]
    data = case["x"], case["y"], case["xs"]
    check(cases.deep(*data, truth["pred_mean"], truth["se"], sd=0.3, hidden=[5]))


@pytest.mark.parametrize("name", ["lin_fixed", "lin_hier", "one_unit", "logistic"])
def test_the_oracles_give_the_recorded_truths(name):
    """The functions behind the cases above and the numbers recorded beside them agree."""
    case, truth = GIVEN[name], GIVEN[name]["truth"]
    if name == "lin_fixed":
        pairs = [(oracles.linreg(case["X"], case["y"], 0.4).mean, truth["mean"])]
    elif name == "lin_hier":
        exact = oracles.linreg_hier(np.asarray(case["X"]), case["y"], 0.5)
        pairs = [
            (exact.mean[:4], truth["mean_w"]),
            (exact.aux_mean_sd("beta")[0], truth["beta_mean"]),
        ]
    elif name == "one_unit":
        exact = oracles.one_unit(case["x"], case["y"], 0.3, xs=case["xs"])
        pairs = [(exact["mean"], truth["pred_mean"]), (exact["E_uv"], truth["E_uv"])]
    else:
        exact = oracles.logistic_1d(case["x"], case["t"], xs=case["xs"])
        pairs = [(exact["prob"], truth["prob"]), (exact["E_w"], truth["E_w"])]
    for computed, recorded in pairs:
        np.testing.assert_allclose(computed, recorded, rtol=1e-9)


def test_proposals_conserve_probability():
    """Creutz: the mean of exp(-energy error) over all proposals is one."""
    case = GIVEN["lin_fixed"]
    built = cases.linear_with_known_noise(case["X"], case["y"], case["xs"], sd=0.4)
    sampler = tb.HMC(step_size=0.07, num_steps=5, step_size_jitter=0.2)
    ensemble = tb.sample(built.posterior, sampler, burn_in=500, draws=4000, seed=3, progress=False)
    errors = ensemble.sample_stats["energy_error"]
    assert 0.1 < np.abs(errors).mean() < 1  # large enough to be seen, small enough to be averaged
    assert abs(oracles.creutz_z(errors.ravel())) < 4


def test_the_rule_notices_a_wrong_answer():
    """A truth off by a tenth of an sd, too few draws, chains that disagree: each fails the rule."""
    draws = np.random.default_rng(0).standard_normal((4, 2000))
    assert cases.passes([cases.mean(draws, 0.0)], least_ess=1000)
    assert not cases.passes([cases.mean(draws, 0.1)], least_ess=1000)
    assert not cases.passes([cases.mean(draws, 0.0)], least_ess=1e5)
    assert not cases.passes([cases.mean(draws + np.arange(4)[:, None], 1.5)], least_ess=1)


RANDOM = np.random.default_rng(20).integers(1_000_000, size=6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", RANDOM.tolist())
class TestOtherNumbers:
    """Cases of the same kinds with random numbers in them."""

    def test_linear(self, seed):
        rng = np.random.default_rng(seed)
        inputs, rows, sd = rng.integers(1, 6), rng.integers(3, 40), rng.uniform(0.1, 1.0)
        x, xs = rng.normal(size=(rows, inputs)), rng.normal(size=(3, inputs))
        y = x @ rng.normal(size=inputs) + sd * rng.normal(size=rows)
        weight_sd, bias_sd = rng.uniform(0.3, 3.0, 2)
        built = cases.linear_with_known_noise(x, y, xs, sd=sd, weight_sd=weight_sd, bias_sd=bias_sd)
        check(built, seed=seed)
        for prior, exact in (
            (tb.HalfNormal(0.7), ("halfnormal", 0.7)),
            (tb.LogNormal(-1.0, 0.8), ("lognormal", -1.0, 0.8)),
            (tb.Normal(0.3, 0.4), ("normal_trunc", 0.3, 0.4)),
            (tb.Cauchy(0.0, 0.5), ("halfcauchy", 0.5)),
        ):
            check(cases.linear_with_learned_noise(x, y, prior, exact, start=sd), seed=seed)
        location, scale = (0.0, rng.uniform(0.1, 1)), (rng.uniform(0.2, 1), rng.uniform(0.1, 1))
        built = cases.linear_with_hierarchical_prior(x, y, sd=sd, location=location, scale=scale)
        check(built, seed=seed)

    def test_priors(self, seed):
        rng = np.random.default_rng(seed)
        for units in (2, 50):
            location = (0.0, rng.uniform(0.1, 1))
            scale = (rng.uniform(0.2, 1), rng.uniform(0.1, 1))
            check(cases.gaussian_prior(units, location, scale), seed=seed)
            check(cases.cauchy_prior(units, location, scale), seed=seed)
            check(cases.prelu_prior(units, rate=rng.uniform(0.1, 2)), seed=seed)

    def test_networks(self, seed):
        rng = np.random.default_rng(seed)
        x, sd = np.sort(rng.uniform(-2, 2, 8)), rng.uniform(0.2, 0.5)
        xs = np.array([-3.0, 0.0, 1.0])
        # Tanh only: the two modes of a single tanh unit are equal, those of a single ReLU or
        # sigmoid unit do not, and no sampler of one trajectory crosses between them.
        for sds in ((1.0, 1.0, 1.0, 1.0), tuple(rng.uniform(0.5, 2.0, 4).tolist())):
            y = np.tanh(1.5 * x + 0.3) + sd * rng.normal(size=8)
            check(cases.one_hidden_unit(x, y, xs, sd=sd, sds=sds), draws=5000, seed=seed)
        labels = (x + rng.normal(size=8) > 0).astype(int)
        check(cases.logistic(x, labels, xs, weight_sd=2.0, bias_sd=0.7), seed=seed)
        few = np.array([-1.2, 0.1, 1.3])
        targets = np.tanh(few) + 0.3 * rng.normal(size=3)
        for hidden in ([5], [4, 3]):
            truth = oracles.rb_importance(
                few, targets, xs, 0.3, hidden, v_sd=0.5, n=200_000, seed=seed
            )
            assert truth["ess"] > 500
            answers = truth["mean"], truth["se_mean"]
            check(cases.deep(few, targets, xs, *answers, sd=0.3, hidden=hidden), seed=seed)
