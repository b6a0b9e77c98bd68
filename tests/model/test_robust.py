"""Student's t noise against SciPy, and its posterior against a sum over a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import tensorbnn as tb
from tensorbnn.ensemble.targets import Mixture, mixture_variance
from tensorbnn.posterior import precision

OUTPUTS = np.array([[0.3, -1.2, 2.0], [-0.4, 0.8, 1.5]])
REAL = np.array([[0.5, -1.0, 250.0], [0.0, 0.7, -1.5]])
WEIGHT = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1e-4)), inputs=1)
X = np.array([-1.0, -0.5, 0.5, 1.0, 1.5])
Y = np.array([-0.8, -0.3, 0.5, 0.9, 9.0])  # with an outlier


@pytest.mark.parametrize("df", [0.7, 2.0, 4.0, 60.0])
@precision("float64")
def test_density_and_cdf(df):
    noise, outputs, targets = tb.StudentTNoise(df, 0.7), jnp.asarray(OUTPUTS), jnp.asarray(REAL)
    expected = stats.t.logpdf(REAL, df, OUTPUTS, 0.7).sum(axis=0)
    np.testing.assert_allclose(noise.log_density(outputs, targets), expected, rtol=1e-12)
    share = noise.cdf(outputs, targets)
    np.testing.assert_allclose(share, stats.t.cdf(REAL, df, OUTPUTS, 0.7), rtol=1e-10)


@precision("float64")
def test_moments_and_extremes():
    noise, outputs = tb.StudentTNoise(5.0, 0.3), jnp.asarray([[1.7]])
    density = jax.jit(lambda y: jnp.exp(noise.log_density(outputs, y.reshape(1, 1)))[0])

    def moment(power):
        # Tails of t(5) beyond 300 scales hold less than 1e-8 of the variance times its size.
        inside = integrate.quad(
            lambda y: (y - 1.7) ** power * density(np.float64(y)), -88, 92, limit=500,
            points=[0, 1.7, 3],
        )  # fmt: skip
        return inside[0]

    assert moment(0) == pytest.approx(1, abs=1e-7)
    assert moment(1) == pytest.approx(0, abs=1e-7)
    assert moment(2) == pytest.approx(noise.variance(outputs).item(), abs=1e-6)
    assert noise.variance(outputs).item() == pytest.approx(stats.t.var(5.0, scale=0.3), rel=1e-14)
    for df in (0.5, 2.0):
        assert tb.StudentTNoise(df, 0.3).variance(outputs).item() == np.inf
    far = jnp.asarray([[1e6]])
    expected = stats.t.logpdf(-1e6, 5.0, 1e6, 0.3)
    np.testing.assert_allclose(noise.log_density(far, -far), expected, rtol=1e-12)


@pytest.mark.parametrize("standardize", [False, True])
def test_log_likelihood_is_in_the_users_units(standardize):
    likelihood = tb.StudentTNoise(tb.Hyper(3.0), tb.Hyper(0.4))
    network, y = tb.Network(tb.Dense(2), inputs=1), np.column_stack([Y, 100 * Y[::-1]])
    posterior = tb.Posterior(network, likelihood, X, y, standardize=standardize, dtype="float64")
    assert posterior.engine == "jax"
    rng = np.random.default_rng(0)
    theta, phi = rng.normal(size=posterior.num_parameters), rng.normal(size=6)
    own, hypers = posterior.unflatten(theta), posterior.unflatten_hyperparameters(phi)
    inside = posterior.scaling.inputs(X[:, None], "float64")
    f = posterior.scaling.natural(inside @ own["dense_0.weights"] + own["dense_0.biases"])
    scale = hypers["likelihood.scale"] * np.asarray(posterior.scaling.y_scale or 1.0)
    expected = stats.t.logpdf(y, hypers["likelihood.df"], f, scale).sum()
    found = posterior.log_likelihood(theta, phi) + 5 * posterior.scaling.log_jacobian
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    gradient = posterior.value_and_grad(theta, phi)[1][1]
    assert np.all(np.isfinite(gradient))


def test_posterior_of_one_weight_with_an_outlier(tmp_path):
    """Moments against a sum over a grid; variances that are infinite, quantiles that are not."""
    tb.sample(
        tb.Posterior(WEIGHT, tb.StudentTNoise(1.5, 0.3), X, Y), chains=4, burn_in=300, draws=1000,
        thin=2, path=tmp_path / "run", progress=False,
    )  # fmt: skip
    weight = np.linspace(-6, 6, 12_001)
    log_mass = stats.t.logpdf(Y, 1.5, weight[:, None] * X, 0.3).sum(axis=1)
    mass = np.exp(log_mass + stats.norm.logpdf(weight))
    mass /= mass.sum()
    mean = mass @ weight
    sd = np.sqrt(mass @ np.square(weight - mean))
    loaded = tb.load(tmp_path / "run")
    assert loaded.likelihood == tb.StudentTNoise(1.5, 0.3)
    prediction = loaded.predict([1.0], progress=False)
    ess = loaded.diagnose([1.0], progress=False).ess[0]
    assert ess > 500
    assert abs(prediction.mean[0] - mean) < 5 * sd / np.sqrt(ess)
    spread = np.sqrt((mass @ (weight - mean) ** 4 - sd**4) / ess)
    assert abs(prediction.sd[0] ** 2 - sd**2) < 5 * spread
    # Least squares would follow the outlier.
    assert abs(X @ Y / (X @ X + 0.09) - mean) > 20 * sd / np.sqrt(ess)

    assert prediction.sd_noise[0] == prediction.sd_total[0] == np.inf
    levels = [1e-3, 0.05, 0.5, 0.95]
    found = prediction.quantile(levels, noise=True)[:, 0]
    own = prediction.samples[:, 0].astype(float)
    share = [stats.t.cdf(each, 1.5, own, 0.3).mean() for each in found]
    np.testing.assert_allclose(share, levels, rtol=1e-3, atol=1e-6)
    assert np.isfinite(loaded.evaluate(X, Y, progress=False).crps)
    moved = loaded.sensitivity([1.0], "likelihood.df", [1.4, 1.5, 1.6], progress=False)
    assert moved.log_evidence_ratio[1] == pytest.approx(0, abs=1e-9)


@precision("float64")
def test_networks_without_weight_count_for_nothing():
    """Even where their variance is infinite."""
    outputs, hypers = jnp.zeros((2, 1, 1)), {"df": jnp.asarray([1.0, 4.0])}
    weights = jnp.asarray([-jnp.inf, 0.0])
    mixture = Mixture(outputs, hypers, weights)
    found = mixture_variance(tb.StudentTNoise(tb.Hyper(4.0), 1.0), mixture)
    assert found.item() == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0.0}, r"`scale` of StudentTNoise must be positive, got 0\.0"),
        ({"df": -1.0}, r"`df` of StudentTNoise must be positive, got -1\.0"),
        ({"df": np.inf}, "`df` of StudentTNoise must be finite, got inf"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        tb.StudentTNoise(**options)
