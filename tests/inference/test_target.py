import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 2))
Y = RNG.normal(size=(9, 2))
FIXED = tb.Normal(0.0, 1.0)


def dense(prior):
    return tb.Network(tb.Dense(2, prior, FIXED), inputs=2)


# Networks of two inputs and two outputs.
NETWORKS = {
    "the paper's Gaussian and PReLU": tb.Network(tb.Dense(2), tb.PReLU(), inputs=2),
    "the paper's Cauchy and SquarePReLU": tb.Network(tb.CauchyDense(2), tb.SquarePReLU(), inputs=2),
    "no hyper-parameters": dense(tb.StudentT(3.0, 0.5, 2.0)),
    "truncated Cauchy": dense(tb.Laplace(0.0, tb.Hyper(1.0, tb.Cauchy(0.5, 1.0)))),
    "truncated Student-t": dense(tb.LogNormal(0.0, tb.Hyper(1.0, tb.StudentT(3.0, 0.5, 4.0)))),
    "three levels": dense(
        tb.Normal(
            tb.Hyper(0.1, tb.Laplace(0.0, tb.Hyper(0.3))),
            tb.Hyper(1.0, tb.Normal(tb.Hyper(0.5, FIXED), tb.Hyper(2.0, tb.Exponential(0.5)))),
        )
    ),
    "positive weights": dense(tb.HalfNormal(tb.Hyper(0.5, tb.LogNormal(0.0, tb.Hyper(0.5))))),
}
every_network = pytest.mark.parametrize(
    "network", [pytest.param(network, id=name) for name, network in NETWORKS.items()]
)


@every_network
@precision("float64")
def test_log_density_is_that_of_the_posterior_in_other_coordinates(network):
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.5)), X, Y, dtype="float64")
    target = TargetDensity(posterior.model, posterior._arrays, None)
    assert target.dimension == posterior.num_parameters + posterior.num_hyperparameters

    @jax.jit
    @jax.vmap
    def everything(position):
        def flat(position):
            return jnp.concatenate(target.vectors(position))

        log_determinant = jnp.linalg.slogdet(jax.jacfwd(flat)(position))[1]
        theta, phi = target.vectors(position)
        expected = target.model.log_density(theta, phi, target.data) + log_determinant
        return target.log_density(position), expected, target.position(theta, phi)

    positions = np.random.default_rng(1).normal(size=(5, target.dimension))
    log_density, expected, back = everything(jnp.asarray(positions))
    assert np.ptp(log_density) > 1  # the points do differ
    # Both are sums of some ten terms of up to the size of the largest value.
    tolerance = 1e-13 * np.max(np.abs(expected))
    np.testing.assert_allclose(log_density, expected, rtol=1e-12, atol=tolerance)
    # A location is within a hundred scales of zero: two digits are lost.
    np.testing.assert_allclose(back, positions, rtol=1e-12, atol=1e-12)


@every_network
@precision("float64")
def test_held_hyper_parameters(network):
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.5)), X, Y, dtype="float64")
    held = posterior.flatten_hyperparameters(posterior.model.start_hypers())
    target = TargetDensity(posterior.model, posterior._arrays, held)
    assert target.dimension == posterior.num_parameters

    @jax.jit
    def everything(target, position):
        theta, phi = target.vectors(position)
        jacobian = jax.jacfwd(lambda position: target.vectors(position)[0])(position)
        expected = (
            target.model.log_likelihood(theta, phi, target.data)
            + target.model.log_prior(theta, phi)
            + jnp.linalg.slogdet(jacobian)[1]
        )
        return target.log_density(position), expected, target.position(theta, phi), phi

    position = np.random.default_rng(2).normal(size=target.dimension)
    log_density, expected, back, phi = everything(target, jnp.asarray(position))
    np.testing.assert_allclose(log_density, expected, rtol=1e-12)
    np.testing.assert_allclose(back, position, rtol=1e-12, atol=1e-12)
    assert jnp.array_equal(phi, held)


@precision("float64")
def test_without_data_it_is_the_prior():
    # Standard coordinates of a Gaussian prior are standard Gaussian, whatever its numbers.
    network = tb.Network(tb.Dense(2, tb.Normal(5.0, 0.1), tb.Normal(-3.0, 7.0)), inputs=2)
    target = TargetDensity(tb.Posterior(network, tb.Gaussian()).model, None, None)
    position = np.random.default_rng(3).normal(size=6)
    expected = -0.5 * np.sum(position**2) - 3 * np.log(2 * np.pi)
    log_density = jax.jit(target.log_density)(jnp.asarray(position))
    assert float(log_density) == pytest.approx(expected, rel=1e-14)


@precision("float64")
def test_named_values_are_natural():
    network = NETWORKS["the paper's Gaussian and PReLU"]
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.5)), X, Y, dtype="float64")
    target = TargetDensity(posterior.model, posterior._arrays, None)
    parameters = {
        "dense_0.weights": np.array([[0.1, -0.2], [0.3, 0.4]]),
        "dense_0.biases": np.array([0.5, -0.6]),
        "prelu_0.slopes": np.array([0.7, 0.8]),
    }
    hypers = dict.fromkeys(posterior.model.start_hypers(), 0.9)
    theta, phi = posterior.flatten(parameters), posterior.flatten_hyperparameters(hypers)
    position = jax.jit(target.position)(theta, phi)
    named, named_hypers = jax.jit(target.named)(position)
    for name, value in parameters.items():
        np.testing.assert_allclose(named[name], value, rtol=1e-13)
    for name, value in hypers.items():
        assert float(named_hypers[name]) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_are_kept(dtype):
    network = NETWORKS["the paper's Gaussian and PReLU"]
    posterior = tb.Posterior(network, tb.Gaussian(), X, Y, dtype=dtype)
    with precision(dtype):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        position = jax.ShapeDtypeStruct((target.dimension,), dtype)
        value, gradient = jax.eval_shape(
            jax.value_and_grad(TargetDensity.log_density, 1), target, position
        )
        back = jax.eval_shape(
            TargetDensity.position, target, *jax.eval_shape(TargetDensity.vectors, target, position)
        )
    assert (value.shape, value.dtype) == ((), dtype)
    assert (gradient.shape, gradient.dtype) == (position.shape, dtype)
    assert (back.shape, back.dtype) == (position.shape, dtype)


def test_target_is_compiled_once_for_other_data():
    network = tb.Network(tb.Dense(2, FIXED, FIXED), inputs=2)
    traced = []

    @jax.jit
    def log_density(target, position):
        traced.append(1)
        return target.log_density(position)

    values = []
    for y in (Y, Y + 1):
        posterior = tb.Posterior(network, tb.Gaussian(), X, y)
        target = TargetDensity(posterior.model, posterior._arrays, None)
        values.append(log_density(target, jnp.zeros(6)))
    assert len(traced) == 1
    assert values[0] != values[1]
