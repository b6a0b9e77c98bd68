"""Weights and error bars of rows, for every likelihood."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.model.rows import RowLikelihood
from tensorbnn.posterior import precision
from tensorbnn.report.context import read_context
from tensorbnn.storage.directory import DirectoryStore

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))
REAL = RNG.normal(size=(6, 1))
CASES = [
    (tb.Gaussian(sd=tb.Hyper(0.3)), REAL, 1),
    (tb.Gaussian(sd=0.3), RNG.normal(size=(6, 2)), 2),
    (tb.Bernoulli(), RNG.integers(0, 2, size=(6, 1)), 1),
    (tb.Categorical(), RNG.integers(0, 3, size=(6, 1)), 3),
]


def made(likelihood, y, outputs, x=X, **options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(outputs), inputs=2)
    return tb.Posterior(network, likelihood, x, y, dtype="float64", **options)


def vectors(posterior):
    rng = np.random.default_rng(1)
    return rng.normal(size=posterior.num_parameters), rng.normal(size=posterior.num_hyperparameters)


@pytest.mark.parametrize(("likelihood", "y", "outputs"), CASES, ids=lambda each: str(each)[:12])
@pytest.mark.parametrize("standardize", [False, True])
def test_whole_weights_are_repeated_rows(likelihood, y, outputs, standardize):
    weights = np.array([2, 1, 0, 3, 1, 0])
    weighted = made(likelihood, y, outputs, sample_weight=weights, standardize=standardize)
    again = np.repeat(np.arange(6), weights)
    repeated = made(likelihood, y[again], outputs, X[again], standardize=standardize)
    at = vectors(weighted)
    for name in ("x_shift", "x_scale", "y_shift", "y_scale"):
        ours, theirs = (getattr(each.scaling, name) for each in (weighted, repeated))
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-14)
    value, gradients = weighted.value_and_grad(*at)
    expected, expected_gradients = repeated.value_and_grad(*at)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_weights_are_powers_of_the_rows_densities():
    weights = np.array([0.5, 1.7, 0.0])
    outputs, targets = np.array([[0.3, -1.2, 2.0]]), np.array([[0.5, -1.0, 2.5]])
    likelihood = tb.Gaussian(sd=0.7)
    with precision("float64"):
        alone = likelihood.log_density(jnp.asarray(outputs), jnp.asarray(targets))
        both = jnp.asarray(np.vstack([targets, weights]))
        found = RowLikelihood(likelihood, 0, True).log_density(jnp.asarray(outputs), both)
    np.testing.assert_allclose(found, weights * np.asarray(alone), rtol=1e-14)


def test_a_row_of_weight_zero_may_be_impossible():
    # At the second row the rate of the counts, exp(800), is beyond all numbers.
    layer = tb.Dense(1, weight_prior=tb.Normal(), bias_prior=tb.Normal())
    x, y, theta = np.array([[1.0], [800.0]]), np.array([1.0, 3.0]), np.array([1.0, 0])
    network = tb.Network(layer, inputs=1)
    rows = {"sample_weight": [1.0, 0.0], "dtype": "float64"}
    weighted = tb.Posterior(network, tb.Poisson(), x, y, **rows)
    alone = tb.Posterior(network, tb.Poisson(), x[:1], y[:1], dtype="float64")
    value, (gradient, _) = weighted.value_and_grad(theta, [])
    expected, (expected_gradient, _) = alone.value_and_grad(theta, [])
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12)


@pytest.mark.parametrize("missing", [1e30, 3e38])
@pytest.mark.parametrize(
    "likelihood",
    [tb.Gaussian(sd=tb.Hyper(0.1)), tb.StudentTNoise(scale=tb.Hyper(0.1), df=tb.Hyper(4.0))],
)
def test_a_row_of_weight_zero_may_hold_a_code_for_missing_values(likelihood, missing):
    network = tb.Network(tb.Dense(1), inputs=1)
    x, y, weights = np.array([0.1, 0.2, 0.3]), np.array([missing, 0.5, 0.2]), [0.0, 1.0, 1.0]
    weighted = tb.Posterior(network, likelihood, x, y, sample_weight=weights)
    alone = tb.Posterior(network, likelihood, x[1:], y[1:], engine="jax")
    at = np.full(alone.num_parameters, 0.1), np.full(alone.num_hyperparameters, -2.0)
    for found, expected in zip(
        weighted.value_and_grad(*at)[1], alone.value_and_grad(*at)[1], strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("likelihood", "y", "outputs"), CASES, ids=lambda each: str(each)[:12])
def test_the_native_engine_leaves_weights_to_jax(likelihood, y, outputs):
    """Though it computes the likelihood itself."""
    assert made(likelihood, y, outputs, sample_weight=np.ones(6)).engine == "jax"
    with pytest.raises(ValueError, match="it does not compute `sample_weight`; use 'auto'"):
        made(likelihood, y, outputs, sample_weight=np.ones(6), engine="native")


def test_the_native_engine_leaves_scatter_on_top_of_error_bars_to_jax():
    with pytest.raises(ValueError, match="it does not compute `y_sd` with a Gaussian likelihood"):
        made(tb.Gaussian(), REAL, 1, y_sd=np.ones((6, 1)), engine="native")


def test_a_weighted_run_is_saved_and_scored(tmp_path):
    """Everything that uses targets: reports, scores, leave-one-out, other likelihoods, ArviZ."""
    likelihood, weights = tb.Gaussian(sd=0.5), np.array([2.0, 1.0, 0.5, 3.0, 0.0, 2.0])
    posterior = made(likelihood, REAL, 1, sample_weight=weights, standardize=True)
    ensemble = tb.sample(
        posterior,
        tb.HMC(step_size=0.1, num_steps=5),
        chains=2,
        burn_in=5,
        draws=20,
        path=tmp_path / "run",
        metrics=[tb.MeanSquaredError()],
        progress=False,
    )
    loaded = tb.load(tmp_path / "run")
    assert loaded.likelihood == likelihood
    assert list(loaded.hyperparameters) == list(ensemble.hyperparameters)
    prediction = loaded.predict(X, progress=False)
    error = np.sqrt(np.mean(np.square(prediction.mean - REAL)))
    scores = loaded.evaluate(X, REAL, progress=False)
    np.testing.assert_allclose(scores.rmse, [error])
    assert scores.log_score == prediction.log_score(REAL)
    errors = np.square(prediction.mean - REAL)[:, 0]
    scores = loaded.evaluate(X, REAL, sample_weight=weights, progress=False)
    np.testing.assert_allclose(scores.rmse, [np.sqrt(np.average(errors, weights=weights))])
    expected = np.average(prediction.log_predictive(REAL), weights=weights)
    np.testing.assert_allclose(scores.log_score, expected)
    np.testing.assert_array_equal(DirectoryStore(tmp_path / "run").data()["sample_weight"], weights)
    last = prediction.samples[19]  # of chain 0
    report = [each for each in loaded.reports if each["chain"] == 0][-1]
    squares = report["training.mean_squared_error"]
    np.testing.assert_allclose(squares, np.mean(np.square(last - REAL)), rtol=1e-6)
    context = read_context(tmp_path / "run", progress=False)
    assert context.encoding.targets == ("y",)
    np.testing.assert_array_equal(context.judged.y, REAL)
    unit = posterior.scaling.y_scale[0]

    def log_likelihood(sd):
        return weights * stats.norm.logpdf(REAL[:, 0], prediction.samples[..., 0], sd * unit)

    tree = loaded.to_arviz(progress=False)
    assert tree.observed_data["y"].shape == tree.posterior_predictive["y"].shape[2:] == (6,)
    found = tree.log_likelihood["y"].to_numpy().reshape(40, 6)
    np.testing.assert_allclose(found, log_likelihood(0.5), rtol=1e-9, atol=1e-12)
    other = loaded.reweight(likelihood=tb.Gaussian(sd=0.51), progress=False)
    expected = np.sum(log_likelihood(0.51) - log_likelihood(0.5), axis=1)
    np.testing.assert_allclose(other._weights.log_ratios.ravel(), expected, rtol=1e-9, atol=1e-12)
    again = other.predict(X, progress=False)
    mean = np.average(prediction.samples, axis=0, weights=other.weights.ravel())
    np.testing.assert_allclose(again.mean, mean, rtol=1e-9)


def test_numbers_are_those_of_the_likelihood():
    likelihood = RowLikelihood(tb.Gaussian(sd=tb.Hyper(0.1)), 1, True)
    assert likelihood.bind({"sd": 0.2}).likelihood == tb.Gaussian(sd=0.2)
    assert RowLikelihood(tb.Bernoulli(), 0, True).link is tb.Sigmoid
    assert list(likelihood.hypers()) == list(likelihood.numbers()) == ["sd"]
    assert likelihood._must_be_positive("sd")


SD = RNG.uniform(0.2, 3.0, size=(6, 1))


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    ("likelihood", "outputs"),
    [
        (tb.Gaussian(sd=tb.Hyper(0.7)), 1),
        (tb.MeasuredGaussian(tb.Hyper(1.3)), 1),
        (tb.HeteroscedasticGaussian(), 2),
    ],
    ids=lambda each: str(each)[:12],
)
def test_variances_of_error_bars_add(likelihood, outputs, standardize):
    """Row by row in the units of `y`, against SciPy."""
    posterior = made(likelihood, REAL, outputs, y_sd=SD, standardize=standardize)
    theta, phi = vectors(posterior)
    unit = np.array(posterior.scaling.y_scale or [1.0])
    own = posterior.unflatten(theta)
    hidden = np.tanh(
        posterior.scaling.inputs(X, "float64") @ own["dense_0.weights"] + own["dense_0.biases"]
    )
    found = hidden @ own["dense_1.weights"] + own["dense_1.biases"]
    mean, (number,) = posterior.scaling.natural(found[:, :1]), [*np.exp(phi), 0][:1]
    sd = {
        tb.Gaussian: np.hypot(number * unit, SD),
        tb.MeasuredGaussian: number * SD,
        tb.HeteroscedasticGaussian: np.hypot(np.log1p(np.exp(found[:, 1:])) * unit, SD),
    }[type(likelihood)]
    expected = stats.norm.logpdf(REAL, mean, sd).sum()
    value = posterior.log_likelihood(theta, phi) + 6 * posterior.scaling.log_jacobian
    np.testing.assert_allclose(value, expected, rtol=1e-11)


def test_error_bars_and_weights_against_generalized_least_squares():
    """The mode of a linear model with a flat prior, found where the gradient is zero."""
    x, y, sd, weights = X, REAL[:, 0], SD[:, 0], np.array([2.0, 1.0, 0.5, 3.0, 0.0, 2.0])
    prior = tb.Normal(0.0, 1e6)
    network = tb.Network(tb.Dense(1, prior, prior), inputs=2)
    rows = {"y_sd": sd, "sample_weight": weights, "dtype": "float64"}
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.6), x, y, **rows)
    design, power = np.column_stack([x, np.ones(6)]), weights / (0.6**2 + sd**2)
    best = np.linalg.solve(design.T @ (power[:, None] * design), design.T @ (power * y))
    named = {"dense_0.weights": best[:2, None], "dense_0.biases": best[2:]}
    _, (gradient, _) = posterior.value_and_grad(posterior.flatten(named), [])
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
    each = stats.norm.logpdf(y, design @ best, np.hypot(0.6, sd))
    found = posterior.log_likelihood(posterior.flatten(named), [])
    np.testing.assert_allclose(found, weights @ each, rtol=1e-12)


@pytest.mark.parametrize(
    "likelihood",
    [tb.Poisson(), tb.Bernoulli(), tb.Categorical(), tb.StudentTNoise()],
    ids=lambda each: type(each).__name__,
)
def test_likelihoods_without_a_standard_deviation_refuse_error_bars(likelihood):
    y, outputs = np.ones(6), 2 if isinstance(likelihood, tb.Categorical) else 1
    with pytest.raises(tb.OptionError, match=r"`y_sd` must be None for a .* which has") as caught:
        made(likelihood, y, outputs, y_sd=np.ones(6))
    assert caught.value.name == "y_sd"


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        ({"y_sd": np.ones(5)}, "y_sd", r"must have the shape of `y`, \(6, 1\), got \(5,\)"),
        ({"y_sd": np.zeros(6)}, "y_sd", r"must be finite and positive in row 0, got 0\.0"),
        ({"y_sd": [1, 1, -1, 1, 1, 1]}, "y_sd", r"must be finite and positive in row 2, got -1\.0"),
        (
            {"y_sd": [1, 1, 1, np.nan, 1, 1]},
            "y_sd",
            "finite and positive in row 3, got nan",
        ),
        ({"y_sd": np.full(6, 1e-60)}, "y_sd", r"positive in float32 in row 0, got 0\.0"),
        (
            {"sample_weight": np.ones(5)},
            "sample_weight",
            r"the shape \(6,\), a number for each",
        ),
        ({"sample_weight": -np.ones(6)}, "sample_weight", r"at least 0 in row 0, got -1\.0"),
        (
            {"sample_weight": [1, np.inf, 1, 1, 1, 1]},
            "sample_weight",
            "at least 0 in row 1, got",
        ),
        ({"sample_weight": np.zeros(6)}, "sample_weight", r"positive in some row, got 0\.0"),
    ],
)
@pytest.mark.parametrize("standardize", [False, True])
def test_bad_rows(rows, name, message, standardize):
    network, dtype = tb.Network(tb.Dense(1), inputs=2), "float32"
    with pytest.raises(tb.OptionError, match=message) as caught:
        tb.Posterior(network, tb.Gaussian(), X, REAL, **rows, standardize=standardize, dtype=dtype)
    assert caught.value.name == name


@pytest.mark.parametrize("name", ["y_sd", "sample_weight"])
def test_rows_need_data(name):
    with pytest.raises(tb.OptionError, match=f"`{name}` must be None without `x` and `y`"):
        tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(), **{name: [1.0]})


def test_validation_rows_may_have_other_error_bars_and_weights():
    """The validation loss is that of these rows, whatever the training rows have."""
    posterior = made(tb.Gaussian(sd=0.5), REAL, 1, sample_weight=np.full(6, 2.0))
    rows = tb.Dataset(X, REAL, y_sd=SD)
    options = {"epochs": 1, "cycles": 1, "learning_rate": 1e-30, "progress": False}
    trained = tb.pretrain(posterior, validation=rows, **options)
    theta = posterior.flatten({name: each[0] for name, each in trained.items()})
    other = made(tb.Gaussian(sd=0.5), REAL, 1, y_sd=SD)
    phi = np.zeros(other.num_hyperparameters)  # of priors, not of the likelihood
    expected = -other.log_likelihood(theta, phi) / 6
    np.testing.assert_allclose(trained.best_loss[0], expected, rtol=1e-12)
