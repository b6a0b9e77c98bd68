import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from tensorbnn.engine import forward
from tensorbnn.model.discrete import Bernoulli, Categorical
from tensorbnn.model.hyper import Hyper
from tensorbnn.model.layers import Dense, PReLU, Tanh
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision

NETWORK = Network(Dense(8), PReLU(), Dense(3), inputs=2)
LIKELIHOODS = [Gaussian(sd=Hyper(0.5)), Bernoulli(), Categorical()]


def random_parameters():
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=parameter.shape) for name, parameter in NETWORK.parameters.items()
    }


def random_data(likelihood, rows):
    """Inputs, and targets as `Likelihood.targets` returns them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 2))
    if isinstance(likelihood, Gaussian):
        return x, rng.normal(size=(rows, 3))
    if isinstance(likelihood, Bernoulli):
        return x, rng.integers(0, 2, size=(rows, 3)).astype(float)
    return x, np.eye(3)[rng.integers(0, 3, size=rows)]


def hypers_of(likelihood):
    return {"sd": jnp.asarray(0.7)} if isinstance(likelihood, Gaussian) else {}


def row_major(values, x):
    h = x @ values["dense_0.weights"] + values["dense_0.biases"]
    h = np.where(h > 0, h, values["prelu_0.slopes"] * h)
    return h @ values["dense_1.weights"] + values["dense_1.biases"]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 100])
@precision("float64")
def test_gaussian_is_that_of_numpy(rows):
    values, likelihood = random_parameters(), LIKELIHOODS[0]
    x, y = random_data(likelihood, rows)
    expected = stats.norm.logpdf(y, row_major(values, x), 0.7).sum()
    data = forward.arrange(NETWORK, x, y)
    log_likelihood = jax.jit(forward.log_likelihood, static_argnums=(0, 1))
    total = log_likelihood(NETWORK, likelihood, values, hypers_of(likelihood), data)
    assert total.shape == ()
    assert total == pytest.approx(expected, rel=1e-13)


@precision("float64")
def test_bernoulli_is_that_of_numpy():
    values = random_parameters()
    x, y = random_data(Bernoulli(), 17)
    expected = stats.bernoulli.logpmf(y, special.expit(row_major(values, x))).sum()
    data = forward.arrange(NETWORK, x, y)
    log_likelihood = jax.jit(forward.log_likelihood, static_argnums=(0, 1))
    total = log_likelihood(NETWORK, Bernoulli(), values, {}, data)
    assert total == pytest.approx(expected, rel=1e-12)


@precision("float64")
def test_categorical_is_that_of_numpy():
    values = random_parameters()
    x, y = random_data(Categorical(), 17)
    expected = (y * special.log_softmax(row_major(values, x), axis=1)).sum()
    data = forward.arrange(NETWORK, x, y)
    log_likelihood = jax.jit(forward.log_likelihood, static_argnums=(0, 1))
    total = log_likelihood(NETWORK, Categorical(), values, {}, data)
    assert total == pytest.approx(expected, rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "rows"),
    [
        pytest.param(LIKELIHOODS[0], 96, id="Gaussian, whole tiles"),
        pytest.param(LIKELIHOODS[0], 100, id="Gaussian"),
        pytest.param(LIKELIHOODS[1], 100, id="Bernoulli"),
        pytest.param(LIKELIHOODS[2], 100, id="Categorical"),
    ],
)
@precision("float64")
def test_tiles_change_neither_value_nor_gradient(likelihood, rows, monkeypatch):
    parameters = jax.tree.map(jnp.asarray, random_parameters())
    hypers = hypers_of(likelihood)
    x, targets = random_data(likelihood, rows)

    @jax.jit
    def value_and_grad(parameters, hypers, data):
        def log_likelihood(parameters, hypers):
            # The factor ensures that the gradient is multiplied by that of later operations.
            return 3 * forward.log_likelihood(NETWORK, likelihood, parameters, hypers, data)

        return jax.value_and_grad(log_likelihood, argnums=(0, 1))(parameters, hypers)

    whole = forward.arrange(NETWORK, x, targets)
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 8 * 32)
    tiled = forward.arrange(NETWORK, x, targets)
    assert whole.tile_inputs.shape[0] == 0
    assert tiled.tile_inputs.shape == (3, 2, 32)
    assert tiled.tile_targets.shape == (3, 3, 32)
    assert tiled.targets.shape == (3, rows - 96)

    expected = value_and_grad(parameters, hypers, whole)
    result = value_and_grad(parameters, hypers, tiled)
    # A sum of a hundred rows in another order.
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@precision("float64")
def test_tiles_without_a_gradient_and_for_several_networks(monkeypatch):
    likelihood = Gaussian(sd=0.7)
    x, targets = random_data(likelihood, 40)
    values = random_parameters()
    expected = stats.norm.logpdf(targets, row_major(values, x), 0.7).sum()
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 8 * 16)
    data = forward.arrange(NETWORK, x, targets)

    def log_likelihood(parameters):
        return forward.log_likelihood(NETWORK, likelihood, parameters, {}, data)

    two = {name: np.stack([np.zeros(value.shape), value]) for name, value in values.items()}
    zero = stats.norm.logpdf(targets, 0, 0.7).sum()
    np.testing.assert_allclose(jax.jit(jax.vmap(log_likelihood))(two), [zero, expected], rtol=1e-13)

    @jax.jit
    def together_and_alone(two, values):
        return jax.vmap(jax.grad(log_likelihood))(two), jax.grad(log_likelihood)(values)

    together, alone = together_and_alone(two, values)
    for name, gradient in alone.items():
        np.testing.assert_allclose(together[name][1], gradient, rtol=1e-10, atol=1e-12)


@precision("float64")
def test_padding_has_no_influence():
    parameters = jax.tree.map(jnp.asarray, random_parameters())
    x, targets = random_data(Bernoulli(), 17)
    data = forward.arrange(NETWORK, x, targets)
    assert data.inputs.shape == (2, 32)
    assert data.targets.shape == (3, 17)

    @jax.jit
    @jax.value_and_grad
    def value_and_grad(parameters, data):
        return forward.log_likelihood(NETWORK, Bernoulli(), parameters, {}, data)

    other = data._replace(inputs=data.inputs.at[:, 17:].set(1e3))
    expected, result = value_and_grad(parameters, data), value_and_grad(parameters, other)
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert jnp.array_equal(ours, theirs)


@pytest.mark.parametrize(("rows", "padded"), [(1, 16), (15, 16), (16, 16), (17, 32)])
def test_padding_repeats_the_last_row(rows, padded):
    inputs = np.arange(2 * rows, dtype="float32").reshape(2, rows)
    result = forward.pad_rows(jnp.asarray(inputs))
    assert result.shape == (2, padded)
    np.testing.assert_array_equal(result[:, :rows], inputs)
    np.testing.assert_array_equal(result[:, rows:], np.tile(inputs[:, -1:], padded - rows))


def test_arranged_data_are_the_data(monkeypatch):
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 8 * 16)
    x, targets = (values.astype("float32") for values in random_data(LIKELIHOODS[0], 50))
    data = forward.arrange(NETWORK, x, targets)
    assert data.tile_inputs.shape == (3, 2, 16)
    back = np.concatenate([*data.tile_inputs, data.inputs[:, :2]], axis=1).T
    np.testing.assert_array_equal(back, x)
    back = np.concatenate([*data.tile_targets, data.targets], axis=1).T
    np.testing.assert_array_equal(back, targets)


def test_rows_are_tiled_where_the_widest_layer_does_not_fit():
    wide = Network(Dense(256), Tanh(), Dense(1), inputs=1)
    rows = forward.TILE_ABOVE // 256
    x = np.zeros((rows + 1, 1), "float32")
    assert forward.arrange(wide, x[:rows], x[:rows]).tile_inputs.shape[0] == 0
    data = forward.arrange(wide, x, x)
    assert data.tile_inputs.shape == (4, 1, forward.TILE_ELEMENTS // 256)
    assert data.targets.shape == (1, 1)


def test_a_tile_has_at_least_sixteen_rows():
    very_wide = Network(Dense(forward.TILE_ELEMENTS), inputs=1)
    x = np.zeros((20, 1), "float32")
    targets = np.zeros((20, 1), "float32")
    assert forward.arrange(very_wide, x, targets).tile_inputs.shape == (1, 1, 16)
    few = forward.arrange(very_wide, x[:5], targets[:5])
    assert few.tile_inputs.shape == (0, 1, 16)
    assert few.targets.shape == (1, 5)
