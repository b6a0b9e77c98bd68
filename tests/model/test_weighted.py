import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.engine import native
from tensorbnn.posterior import precision
from tensorbnn.report.context import read_context
from tensorbnn.storage.manifest import describe, restore

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
    columns = np.column_stack([y, weights])
    weighted = made(tb.Weighted(likelihood), columns, outputs, standardize=standardize)
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
        found = tb.Weighted(likelihood).log_density(jnp.asarray(outputs), both)
    np.testing.assert_allclose(found, weights * np.asarray(alone), rtol=1e-14)


def test_a_row_of_weight_zero_may_be_impossible():
    # At the second row the rate of the counts, exp(800), is beyond all numbers.
    layer = tb.Dense(1, weight_prior=tb.Normal(), bias_prior=tb.Normal())
    x, y, theta = np.array([[1.0], [800.0]]), np.array([[1.0, 1.0], [3.0, 0.0]]), np.array([1.0, 0])
    network = tb.Network(layer, inputs=1)
    weighted = tb.Posterior(network, tb.Weighted(tb.Poisson()), x, y, dtype="float64")
    alone = tb.Posterior(network, tb.Poisson(), x[:1], y[:1, :1], dtype="float64")
    value, (gradient, _) = weighted.value_and_grad(theta, [])
    expected, (expected_gradient, _) = alone.value_and_grad(theta, [])
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12)


@pytest.mark.parametrize("missing", [1e30, 3e38])
@pytest.mark.parametrize(
    "likelihood",
    [tb.Gaussian(sd=tb.Hyper(0.1)), tb.StudentTNoise(scale=tb.Hyper(0.1), df=tb.Hyper(4.0))],
)
def test_a_row_of_weight_zero_may_hold_what_stands_for_missing(likelihood, missing):
    network = tb.Network(tb.Dense(1), inputs=1)
    x, y, weights = np.array([0.1, 0.2, 0.3]), np.array([missing, 0.5, 0.2]), [0.0, 1.0, 1.0]
    weighted = tb.Posterior(network, tb.Weighted(likelihood), x, np.column_stack([y, weights]))
    alone = tb.Posterior(network, likelihood, x[1:], y[1:], engine="jax")
    at = np.full(alone.num_parameters, 0.1), np.full(alone.num_hyperparameters, -2.0)
    for found, expected in zip(
        weighted.value_and_grad(*at)[1], alone.value_and_grad(*at)[1], strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("likelihood", "y", "outputs"), CASES, ids=lambda each: str(each)[:12])
def test_the_native_engine_leaves_weights_to_jax(likelihood, y, outputs):
    """Though it computes the likelihood inside: it would leave the weights out."""
    weighted, columns = tb.Weighted(likelihood), np.column_stack([y, np.ones(6)])
    posterior = made(weighted, columns, outputs)
    assert posterior.engine == "jax"
    assert native.unsupported(posterior.network, likelihood) is None
    with pytest.raises(ValueError, match="it does not compute a Weighted likelihood; use 'auto'"):
        made(weighted, columns, outputs, engine="native")


def test_a_weighted_run_is_saved_and_scored(tmp_path):
    """With all that looks at targets: reports, scores, leave-one-out, other likelihoods, ArviZ."""
    likelihood, weights = tb.Weighted(tb.Gaussian(sd=0.5)), np.array([2.0, 1.0, 0.5, 3.0, 0.0, 2.0])
    posterior = made(likelihood, np.column_stack([REAL, weights]), 1, standardize=True)
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
    other = loaded.reweight(likelihood=tb.Weighted(tb.Gaussian(sd=0.51)), progress=False)
    expected = np.sum(log_likelihood(0.51) - log_likelihood(0.5), axis=1)
    np.testing.assert_allclose(other._weights.log_ratios.ravel(), expected, rtol=1e-9, atol=1e-12)
    again = other.predict(X, progress=False)
    mean = np.average(prediction.samples, axis=0, weights=other.weights.ravel())
    np.testing.assert_allclose(again.mean, mean, rtol=1e-9)


def test_description():
    likelihood = tb.Weighted(tb.Gaussian(sd=tb.Hyper(0.1)))
    assert restore(describe(likelihood), {}) == likelihood
    assert likelihood.bind({"sd": 0.2}) == tb.Weighted(tb.Gaussian(sd=0.2))
    assert tb.Weighted(tb.Bernoulli()).link is tb.Sigmoid
    assert list(likelihood.hypers()) == list(likelihood.numbers()) == ["sd"]
    assert likelihood.must_be_positive("sd")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (REAL, r"which has only one column: give np.column_stack\(\[y, weights\]\)"),
        (np.column_stack([REAL, [1, 1, -1, 1, 1, 1]]), "at least 0 and not all 0, but go from -1"),
        (np.column_stack([REAL, np.zeros(6)]), "not all 0, but go from 0 to 0"),
        (np.column_stack([REAL, REAL, np.ones(6)]), "`y` has 2 columns but the network has 1"),
    ],
)
@pytest.mark.parametrize("standardize", [False, True])
def test_bad_weights(y, message, standardize):
    with pytest.raises(ValueError, match=message):
        made(tb.Weighted(tb.Gaussian()), y, 1, standardize=standardize)


@pytest.mark.parametrize("inside", [0.1, tb.Weighted(tb.Gaussian())])
def test_what_is_weighted_is_a_likelihood(inside):
    with pytest.raises(TypeError, match="must be a likelihood without weights, such as"):
        tb.Weighted(inside)
