"""Estimates of a mean log-likelihood: unbiased, as are their gradients, and less noisy by row."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import forward, perturbed
from tensorbnn.posterior import precision
from tests.oracles import oracles

pytestmark = pytest.mark.slow

ESTIMATORS = ("flipout", "local", "shared")
ROWS, SD = 40, 0.5
X = np.random.default_rng(0).normal(size=(ROWS, 2))
Y = X @ [1.5, -0.7] + 0.4 + SD * np.random.default_rng(1).normal(size=ROWS)
DESIGN = np.column_stack([X, np.ones(ROWS)])
UNIT = tb.Normal()


def linear():
    network = tb.Network(tb.Dense(1, UNIT, UNIT), inputs=2)
    return tb.Posterior(network, tb.Gaussian(sd=SD), X, Y, dtype="float64")


def deep(likelihood, y, first=UNIT):
    """A layer whose weights must be positive, and slopes, have one draw for all rows."""
    positive = tb.Dense(2, tb.LogNormal(0.0, 0.5), UNIT)
    slopes = tb.PReLU(tb.Exponential(2.0))
    layers = (tb.Dense(3, first, first), slopes, positive, tb.Tanh(), tb.Dense(1, UNIT, UNIT))
    return tb.Posterior(tb.Network(*layers, inputs=2), likelihood, X, y, dtype="float64")


def point(posterior):
    """Means and log-sds, and phi."""
    rng = np.random.default_rng(2)
    size = posterior.num_parameters
    return rng.normal(0, 0.7, size), rng.normal(-1.0, 0.3, size), np.zeros(0)


def estimates(posterior, estimator, count, *, seed=0, side=1.0):
    """Values and gradients of so many estimates: ``(count, 1 + 2 * parameters)``."""
    with precision("float64"):
        mean, log_sd, phi = (jnp.asarray(each) for each in point(posterior))
        keys = jax.random.split(jax.random.key(seed), count)
        return np.asarray(
            _estimates(posterior.model, estimator, posterior._arrays, keys, mean, log_sd, phi, side)
        )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _estimates(model, estimator, data, keys, mean, log_sd, phi, side):
    def value(mean, log_sd, key):
        key_draw, key_rows = jax.random.split(key)
        draw = mean + side * jnp.exp(log_sd) * jax.random.normal(key_draw, mean.shape)
        thetas, on_side = (mean, jnp.exp(log_sd), draw), jnp.asarray(side)
        return model.mean_log_likelihood(key_rows, thetas, on_side, phi, data, estimator)

    def one(key):
        found, gradients = jax.value_and_grad(value, argnums=(0, 1))(mean, log_sd, key)
        return jnp.concatenate([found[None], *gradients])

    return jax.lax.map(one, keys, batch_size=100)


def agree(draws, truth, error=0.0):
    """Whether means lie within their Monte Carlo errors of the truth, which may have one too."""
    z = (draws.mean(axis=0) - truth) / np.hypot(draws.std(axis=0) / len(draws) ** 0.5, error)
    return np.abs(z).max() < oracles.z_crit(len(z))


def exact_linear():
    """Closed form of the mean log-likelihood and its gradients."""
    mean, log_sd, _ = point(linear())
    residual = Y - DESIGN @ mean
    squares = np.exp(2 * log_sd) * np.square(DESIGN).sum(axis=0)
    value = -0.5 * (residual @ residual + squares.sum()) / SD**2
    value -= ROWS * np.log(SD * np.sqrt(2 * np.pi))
    return np.concatenate([[value], DESIGN.T @ residual / SD**2, -squares / SD**2])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_values_and_gradients_are_unbiased(estimator):
    assert agree(estimates(linear(), estimator, 8000), exact_linear())


@pytest.mark.parametrize("estimator", ["flipout", "local"])
def test_rows_in_tiles_too(estimator, monkeypatch):
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 32)
    posterior = linear()
    assert posterior._arrays.tile_targets.shape == (2, 1, 16)  # and eight rows more
    found = estimates(posterior, estimator, 8000)
    assert agree(found, exact_linear())
    # Tiles have independent noise: together, their errors are no larger than those of one tile.
    monkeypatch.undo()
    assert found[:, 0].var() < 1.2 * estimates(linear(), estimator, 8000)[:, 0].var()


@pytest.mark.parametrize("estimator", ["flipout", "local"])
@pytest.mark.parametrize(
    "posterior",
    [
        deep(tb.Gaussian(sd=SD), Y),
        deep(tb.Bernoulli(), (Y > 0).astype(int), first=tb.Cauchy()),
    ],
    ids=["regression", "classes"],
)
def test_all_estimators_have_the_same_mean(posterior, estimator):
    shared = estimates(posterior, "shared", 6000)
    found = estimates(posterior, estimator, 6000, seed=1)
    assert agree(found, shared.mean(axis=0), shared.std(axis=0) / len(shared) ** 0.5)


@pytest.mark.parametrize("estimator", ["flipout", "local"])
@pytest.mark.parametrize("posterior", [linear(), deep(tb.Gaussian(sd=SD), Y)], ids=["line", "deep"])
def test_noise_by_row_scatters_less(posterior, estimator):
    variances = [
        estimates(posterior, each, 4000)[:, 1:].var(axis=0).sum() for each in ("shared", estimator)
    ]
    assert variances[1] < 0.6 * variances[0]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_mirror_image_has_all_noise_reflected(estimator):
    """The log-likelihood of a line is quadratic: terms odd in the noise cancel in a pair."""
    pair = [estimates(linear(), estimator, 50, side=side) for side in (1.0, -1.0)]
    of_means = slice(1, 4)
    mean = (pair[0] + pair[1])[:, of_means] / 2
    np.testing.assert_allclose(mean, np.tile(exact_linear()[of_means], (50, 1)), rtol=1e-10)
    assert pair[0][:, of_means].std() > 1


@precision("float64")
def test_signs_are_independent_and_even():
    signs = np.asarray(perturbed._signs(jax.random.key(0), 70, 3000))
    assert signs.shape == (70, 3000)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    count = signs.size
    assert abs(signs.sum()) < 4 * count**0.5
    # Every pair of rows of the array, neighbors of one word included: sums of 3000 signs.
    products = (signs @ signs.T)[np.triu_indices(70, 1)] / 3000**0.5
    assert np.abs(products).max() < oracles.z_crit(len(products))


def test_which_layers_have_rows_of_their_own():
    class Mine(tb.Layer):
        def apply(self, parameters, h):
            return h

    assert perturbed.has_own_rows(tb.Dense(2))
    assert perturbed.has_own_rows(tb.CauchyDense(2))
    assert not perturbed.has_own_rows(tb.Dense(2, tb.Exponential(1.0)))
    assert not perturbed.has_own_rows(tb.PReLU())
    assert not perturbed.has_own_rows(Mine())
