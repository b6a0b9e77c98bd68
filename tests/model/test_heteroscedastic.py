"""Noise that the network predicts: against SciPy, in the user's units, and from a sample."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.posterior import precision
from tensorbnn.sampling.monitor import GrowingPredictions
from tensorbnn.storage.directory import DirectoryStore

LIKELIHOOD = tb.HeteroscedasticGaussian()
NETWORK = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(4), inputs=2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 2))
Y = np.array([500.0, -3.0]) + RNG.normal(size=(7, 2)) * [40.0, 0.1]


def softplus(values):
    return np.logaddexp(values, 0)


@precision("float64")
def test_density_moments_and_cdf():
    outputs, targets = RNG.normal(size=(4, 5)) * 3, RNG.normal(size=(2, 5))
    mean, sd = outputs[:2], softplus(outputs[2:])
    own = jnp.asarray(outputs), jnp.asarray(targets)
    expected = stats.norm.logpdf(targets, mean, sd).sum(axis=0)
    np.testing.assert_allclose(LIKELIHOOD.log_density(*own), expected, rtol=1e-12)
    np.testing.assert_allclose(LIKELIHOOD.cdf(*own), stats.norm.cdf(targets, mean, sd), rtol=1e-10)
    np.testing.assert_array_equal(LIKELIHOOD.mean(own[0]), mean)
    np.testing.assert_allclose(LIKELIHOOD.variance(own[0]), sd**2, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_outputs(dtype):
    """Neither NaN nor infinite, where a mean is hit exactly, too."""
    with precision(dtype):
        outputs = jnp.asarray([[0.0, 1.0, 0.0, 1.0], [-200.0, -200.0, 1e4, 1e4]], dtype)
        targets = jnp.asarray([[0.0, 1.5, 0.0, 1.5]], dtype)
        value, pull_back = jax.vjp(lambda f: LIKELIHOOD.log_density(f, targets), outputs)
        gradient = pull_back(jnp.ones_like(value))[0]
        variance = LIKELIHOOD.variance(outputs)
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(gradient))
    np.testing.assert_allclose(value[2:], stats.norm.logpdf([0, 0.5], 0, 1e4), rtol=1e-6)
    np.testing.assert_allclose(variance[0], [np.exp(-40)] * 2 + [1e8] * 2, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:column 0 of `y` is far from unit scale")
@pytest.mark.slow
@pytest.mark.parametrize(("standardize", "weighted"), [(False, False), (True, True)])
def test_everything_is_in_the_users_units(tmp_path, standardize, weighted):
    """Shapes ``(rows, targets)``, noise in units of `y`; a run is saved, loaded and resumed."""
    given = np.array([2.0, 1, 0.5, 3, 1, 2, 1]) if weighted else None
    options = {"sample_weight": given, "standardize": standardize, "dtype": "float64"}
    posterior = tb.Posterior(NETWORK, LIKELIHOOD, X, Y, **options)
    assert posterior.engine == "jax"
    assert len(posterior.scaling.y_scale) == 2 * standardize
    sampler = tb.HMC(step_size=0.05, num_steps=5)
    tb.sample(
        posterior, sampler, chains=2, burn_in=5, draws=20, path=tmp_path / "run",
        metrics=[tb.MeanSquaredError()], progress=False,
    )  # fmt: skip
    ensemble = tb.resume(tmp_path / "run", draws=30, progress=False)
    assert ensemble.likelihood == LIKELIHOOD
    own = {name: each.reshape(-1, *each.shape[2:]) for name, each in ensemble.parameters.items()}
    inside = posterior.scaling.inputs(X, "float64")
    hidden = np.tanh(inside @ own["dense_0.weights"] + own["dense_0.biases"][:, None])
    outputs = hidden @ own["dense_1.weights"] + own["dense_1.biases"][:, None]
    scale = np.asarray(posterior.scaling.y_scale or (1.0, 1.0))
    mean = posterior.scaling.natural(outputs[..., :2])
    sd = softplus(outputs[..., 2:]) * scale

    p = ensemble.predict(X, progress=False)
    np.testing.assert_allclose(p.samples, mean, rtol=1e-9)
    np.testing.assert_allclose(p.sd_noise, np.sqrt((sd**2).mean(axis=0)), rtol=1e-9)
    np.testing.assert_allclose(p.sd_total, np.sqrt(p.sd**2 + p.sd_noise**2), rtol=1e-12)
    level = p.quantile(0.9, noise=True)
    assert level.shape == p.mean.shape == (7, 2)
    np.testing.assert_allclose(stats.norm.cdf(level, mean, sd).mean(axis=0), 0.9, rtol=1e-9)
    each = stats.norm.logpdf(Y, mean, sd).sum(axis=-1)
    expected = special.logsumexp(each, axis=0) - np.log(60)
    np.testing.assert_allclose(p.log_predictive(Y), expected, rtol=1e-8)

    weights = given if weighted else np.ones(7)
    error = np.square(mean[29] - Y).mean()
    last = [report for report in ensemble.reports if report["chain"] == 0][-1]
    np.testing.assert_allclose(last["training.mean_squared_error"], error, rtol=1e-6)
    assert ensemble.evaluate(X, Y, progress=False).crps.shape == (2,)
    assert ensemble.posterior_predictive(X).shape == (60, 7, 2)
    tree = ensemble.to_arviz(progress=False)
    found = tree.log_likelihood["y"].values.reshape(60, 7)
    np.testing.assert_allclose(found, weights * each, rtol=1e-8)
    store = DirectoryStore(tmp_path / "run")
    grown = GrowingPredictions(store, posterior, X).update()
    np.testing.assert_allclose(grown.reshape(60, 7, 2), mean, rtol=1e-9)
    with pytest.raises(ValueError, match="likelihood takes other columns of `y` than the "):
        ensemble.reweight(likelihood=tb.Gaussian())


@pytest.mark.slow
def test_noise_of_two_groups():
    """A bias and a slope for each head: the noise at two inputs, against a sum over a grid.

    With inputs 0 and 1 the groups have nothing in common but the prior, under which the outputs at
    1 are those at 0 plus an independent change.
    """
    rng = np.random.default_rng(3)
    x = np.repeat([0.0, 1.0], 40)
    y = np.where(x == 0, 0.3, 2.5) * rng.normal(size=80)
    prior = tb.Normal(0, 3)
    posterior = tb.Posterior(tb.Network(tb.Dense(2, prior, prior), inputs=1), LIKELIHOOD, x, y)
    ensemble = tb.sample(posterior, chains=4, burn_in=500, draws=1000, thin=2, progress=False)
    parameters = ensemble.parameters
    at = parameters["dense_0.biases"][..., 1]
    heads = np.stack([at, at + parameters["dense_0.weights"][..., 0, 1]])
    found = softplus(heads.astype(float))  # (groups, chains, draws)
    exact = _exact_noise(y.reshape(2, 40))
    for own, (mean, sd) in zip(found, exact, strict=True):
        ess = _ess(own)
        assert ess > 500
        assert abs(own.mean() - mean) < 5 * sd / np.sqrt(ess)
        assert own.std() == pytest.approx(sd, rel=5 * 1.5 / np.sqrt(2 * ess))
    noise = ensemble.predict([0.0, 1.0], progress=False).sd_noise
    np.testing.assert_allclose(noise, np.sqrt((found**2).mean(axis=(1, 2))), rtol=1e-4)


def _ess(draws):
    from arviz_stats.base import array_stats

    return float(array_stats.ess(draws, method="mean"))


def _exact_noise(groups):
    """Posterior mean and sd of each group's noise, by a grid over the outputs of both heads."""
    mean, head = np.linspace(-4, 4, 161), np.linspace(-8, 12, 201)
    own = [
        stats.norm.logpdf(group[:, None, None], mean[:, None], softplus(head)).sum(axis=0)
        for group in groups
    ]
    first, second = (np.exp(each - each.max()) for each in own)
    steps = [stats.norm.pdf(axis[:, None], axis, 3) for axis in (mean, head)]
    prior = stats.norm.pdf(mean, 0, 3)[:, None] * stats.norm.pdf(head, 0, 3)
    # For each group: its likelihood and prior, and what follows about it from the other one.
    mass = (
        prior * first * (steps[0] @ second @ steps[1]),
        second * (steps[0].T @ (prior * first) @ steps[1]),
    )
    found = []
    for each in mass:
        share = each.sum(axis=0) / each.sum()
        expected = share @ softplus(head)
        found.append((expected, np.sqrt(share @ np.square(softplus(head) - expected))))
    return found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Posterior(tb.Network(tb.Dense(3), inputs=1), LIKELIHOOD),
         r"takes 2 outputs of the network for each column of `y`, but it has 3: end it in "
         r"Dense\(2\), or a multiple"),
        (lambda: tb.Posterior(NETWORK, LIKELIHOOD, X, Y[:, :1]),
         r"`y` has 1 columns but the network has 4 outputs, 2 for each column: end the network in "
         r"Dense\(2\), or give `y` with 2 columns"),
        (lambda: tb.Posterior(NETWORK, LIKELIHOOD,
                              standardize=tb.Scaling((), (), (0,) * 4, (1,) * 4)),
         "`standardize` scales 4 columns of `y`, but the network has 2"),
    ],
)  # fmt: skip
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
