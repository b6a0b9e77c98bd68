"""Counts: `Poisson` against SciPy, and its posterior against a sum over a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.posterior import precision

POISSON = tb.Poisson()
# One weight and a negligible bias, so that the posterior is a curve over one number.
WEIGHT = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1e-4)), inputs=1)
X = np.array([-1.0, 0.5, 1.0, 1.5, 2.0])
Y = np.array([0, 1, 3, 2, 6])


def arrays(dtype, *values):
    return tuple(jnp.asarray(np.atleast_2d(each), dtype) for each in values)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "digits"), [("float32", 1e-5), ("float64", 1e-9)])
def test_density_and_cdf(dtype, digits):
    """Also where a sum of terms as large as the counts would have lost its digits."""
    rates = np.repeat([1e-3, 0.7, 15.0, 49.0, 51.0, 3e3, 1e5], 25)
    f = np.log(rates).astype(dtype)
    own = np.exp(f.astype(np.float64))  # of the rounded output
    counts = np.maximum(np.floor(own + np.tile(np.linspace(-6, 6, 25), 7) * np.sqrt(own)), 0)
    with precision(dtype):
        outputs, targets = arrays(dtype, f, counts)
        found = np.asarray(jax.jit(POISSON.log_density)(outputs, targets), np.float64)
        share = np.asarray(jax.jit(POISSON.cdf)(outputs, targets))
        between = np.asarray(jax.jit(POISSON.cdf)(outputs, targets + 0.5))
    expected = stats.poisson.logpmf(counts, own)
    # What rounding of the output and of the logarithm of a count does to the density.
    rounding = 4 * np.finfo(dtype).eps * (1 + np.abs(f)) * np.abs(counts - own)
    assert np.all(np.abs(found - expected) <= rounding + digits * np.maximum(1, np.abs(expected)))
    np.testing.assert_allclose(share[0], stats.poisson.cdf(counts, own), rtol=0, atol=digits)
    np.testing.assert_array_equal(between, share)  # no target lies between counts


@precision("float64")
def test_mass_and_moments():
    counts = np.arange(200.0)
    outputs, targets = arrays("float64", np.full(200, 2.3), counts)
    mass = np.exp(POISSON.log_density(outputs, targets))
    mean, variance = POISSON.mean(outputs)[0, 0], POISSON.variance(outputs)[0, 0]
    np.testing.assert_allclose(mass.sum(), 1, rtol=1e-13)
    np.testing.assert_allclose(mass @ counts, mean, rtol=1e-12)
    np.testing.assert_allclose(mass @ (counts - mean) ** 2, variance, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_outputs(dtype):
    """No NaN; what is beyond the type is infinite, on the right side."""
    with precision(dtype):
        outputs, counts = arrays(dtype, [-200.0, -200.0, 200.0, 200.0], [0.0, 5.0, 0.0, 5.0])

        @jax.jit
        def everything(outputs):
            value, pull_back = jax.vjp(lambda f: POISSON.log_density(f, counts), outputs)
            gradient = pull_back(jnp.ones_like(value))[0][0]
            drawn = POISSON.sample(jax.random.key(0), outputs)
            return value, gradient, POISSON.cdf(outputs, counts), drawn

        value, gradient, share, drawn = everything(outputs)
    np.testing.assert_allclose(
        value[:2], [0, stats.poisson.logpmf(5, 1) + 1 - 1000], rtol=1e-6, atol=1e-30
    )
    np.testing.assert_allclose(gradient[:2], [0, 5], atol=1e-30)
    assert np.all(np.asarray(value[2:]) < -1e38)
    assert np.all(np.asarray(gradient[2:]) < -1e38)
    np.testing.assert_array_equal(share, [[1, 1, 0, 0]])
    np.testing.assert_array_equal(drawn[0, :2], [0, 0])
    assert np.all(np.isfinite(drawn))
    assert np.all(np.asarray(drawn[0, 2:]) > 1e38)


@pytest.mark.slow
def test_large_counts_are_drawn():
    """Also those that JAX draws no more, above 2^31: means within five standard errors."""
    outputs = jnp.broadcast_to(jnp.log(jnp.asarray([[300.0], [1e8], [1e11]])), (3, 4000))
    rates = np.exp(np.asarray(outputs[:, 0], np.float64))
    drawn = np.asarray(POISSON.sample(jax.random.key(0), outputs), np.float64)
    assert np.all(np.abs(drawn.mean(axis=1) - rates) < 5 * np.sqrt(rates / 4000) + 1e-6 * rates)
    np.testing.assert_allclose(drawn.std(axis=1), np.sqrt(rates), rtol=5 / np.sqrt(2 * 4000))


@pytest.mark.parametrize("standardize", [False, True])
def test_log_likelihood_and_scaling(standardize):
    """Inputs alone are scaled; a last exponential is the link; JAX computes it."""
    network = tb.Network(tb.Dense(2), tb.Exp(), inputs=1)
    counts = np.column_stack([Y, Y[::-1]])
    options = {"standardize": standardize, "dtype": "float64"}
    posterior = tb.Posterior(network, POISSON, X, counts, **options)
    assert posterior.engine == "jax"
    assert posterior.network.layers == (tb.Dense(2),)
    assert posterior.scaling.y_scale == ()
    assert bool(posterior.scaling.x_scale) == standardize
    weights, biases = np.array([[0.4, -0.3]]), np.array([0.5, 0.2])
    theta = posterior.flatten({"dense_0.weights": weights, "dense_0.biases": biases})
    inside = (X - X.mean()) / X.std() if standardize else X
    expected = stats.poisson.logpmf(counts, np.exp(inside[:, None] @ weights + biases)).sum()
    found = posterior.log_likelihood(theta, np.zeros(posterior.num_hyperparameters))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_posterior_of_one_weight(tmp_path):
    """Moments, quantiles of new counts and scores against a sum over a grid."""
    ensemble = tb.sample(
        tb.Posterior(WEIGHT, POISSON, X, Y), chains=4, burn_in=300, draws=1000, thin=2,
        path=tmp_path / "run", progress=False,
    )  # fmt: skip
    weight = np.linspace(-4, 4, 8001)
    rates = np.exp(weight[:, None] * X)
    mass = np.exp(stats.poisson.logpmf(Y, rates).sum(axis=1)) * stats.norm.pdf(weight)
    mass /= mass.sum()
    new = np.exp(weight * 1.2)
    mean = mass @ new
    sd = np.sqrt(mass @ np.square(new - mean))
    prediction = ensemble.predict([1.2], progress=False)
    ess = ensemble.diagnose([1.2], progress=False).ess[0]
    assert ess > 500
    assert abs(prediction.mean[0] - mean) < 5 * sd / np.sqrt(ess)
    # The fourth moment gives the error of a variance.
    spread = np.sqrt((mass @ (new - mean) ** 4 - sd**4) / ess)
    assert abs(prediction.sd[0] ** 2 - sd**2) < 5 * spread
    np.testing.assert_allclose(
        prediction.sd_total**2, prediction.sd**2 + prediction.mean, rtol=1e-5
    )
    # Quantiles are those of the mixture of the networks' Poissons: the first counts to reach them.
    own = prediction.samples[:, 0].astype(float)
    share = np.array([stats.poisson.cdf(count, own).mean() for count in range(30)])
    levels = [0.05, 0.5, 0.95]
    found = prediction.quantile(levels, noise=True)[:, 0]
    np.testing.assert_array_equal(found, [np.argmax(share >= level) for level in levels])
    bins = prediction.density([-0.5, 0.5, 1.5], noise=True)[0]
    np.testing.assert_allclose(bins, np.diff(share, prepend=0)[:2], rtol=1e-4)
    scores = ensemble.evaluate(X, Y, progress=False)
    assert isinstance(scores, tb.Scores)
    each = stats.poisson.pmf(Y, rates)  # (grid, rows)
    exact = mass @ each
    error = np.sqrt(mass @ np.square(each - exact)) / exact / np.sqrt(ess)
    assert abs(scores.log_score - np.log(exact).mean()) < 5 * error.mean()
    assert dict(ensemble.to_arviz(progress=False).posterior_predictive["y"].sizes)["row"] == 5

    again = tb.resume(tmp_path / "run", draws=1010, progress=False)
    assert again.likelihood == POISSON
    np.testing.assert_array_equal(
        again.parameters["dense_0.weights"][:, :1000], ensemble.parameters["dense_0.weights"]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: POISSON.targets(np.array([[0.5], [-1.0], [2.0]]), 1),
         r"whole numbers of at least 0 for a Poisson likelihood, but has -1, 0\.5: give counts"),
        (lambda: tb.Posterior(WEIGHT, POISSON, X, Y + 0.1, sample_weight=Y),
         r"but has 0\.1, 1\.1, 2\.1, \.\.\.: give counts, not rates"),
        (lambda: tb.Posterior(WEIGHT, POISSON, standardize=tb.Scaling((), (), (0.0,), (1.0,))),
         "those of a Poisson likelihood are no real numbers in some unit"),
        (lambda: tb.Posterior(tb.Network(tb.Dense(1), tb.Sigmoid(), inputs=1), POISSON),
         "a Poisson likelihood applies Exp to its outputs: leave the last activation out"),
        (lambda: tb.Posterior(WEIGHT, POISSON, X, Y, engine="native"),
         "it does not compute a Poisson likelihood"),
    ],
)  # fmt: skip
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
