"""What a user's own class computes in a wrong shape is an error, not another posterior."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb

X = np.linspace(-1, 1, 5)


def made(kind, base, **members):
    return dataclass(frozen=True)(type(kind, (base,), members))


def layer(**members):
    return made("Own", tb.Layer, **{"apply": lambda self, parameters, h: h, **members})()


def prior(**members):
    plain = {
        "log_density": lambda self, value: -0.5 * value**2,
        "sample": lambda self, key, shape: jax.random.normal(key, shape),
    }
    return made("Own", tb.Prior, **plain | members)()


def likelihood(**members):
    plain = {
        "log_density": lambda self, outputs, targets: -((outputs - targets) ** 2).sum(axis=0),
        "mean": lambda self, outputs: outputs,
        "variance": jnp.ones_like,
    }
    return made("Own", tb.Likelihood, **plain | members)()


def posterior(*layers, likelihood=None, **rows):
    network = tb.Network(*layers, tb.Dense(1, tb.Normal(), tb.Normal()), inputs=1)
    return tb.Posterior(network, likelihood or tb.Gaussian(), X, X, **rows)


def test_correct_classes_are_accepted():
    network = tb.Network(layer(), tb.Dense(3, prior()), layer(), tb.Dense(1), inputs=1)
    tb.Posterior(network, likelihood(), X, X)
    tb.Posterior(network, likelihood(), X, X, sample_weight=np.ravel(X) ** 2)
    tb.Posterior(network, likelihood())


@pytest.mark.parametrize(
    ("apply", "error", "message"),
    [
        (
            lambda self, parameters, h: h.T,
            ValueError,
            r"`apply` of Own \(own_0\) must return an array of shape \(1, 37\) for inputs of shape "
            r"\(1, 37\), as its `outputs\(1\)` is 1, but its shape is \(37, 1\)",
        ),
        (lambda self, parameters, h: h[0], ValueError, r"but its shape is \(37,\)"),
        (lambda self, parameters, h: jnp.concatenate([h, h]), ValueError, r"is \(2, 37\)"),
        (lambda self, parameters, h: None, TypeError, r"\(1, 37\), but returned None"),
        (lambda self, parameters, h: h > 0, TypeError, "floating-point numbers, but returned bool"),
    ],
    ids=["transposed", "row", "twice", "nothing", "bool"],
)
def test_layers(apply, error, message):
    with pytest.raises(error, match=message):
        posterior(layer(apply=apply))


def test_a_layer_whose_number_of_outputs_is_another():
    with pytest.raises(ValueError, match=r"as its `outputs\(1\)` is 3, but its shape is \(1, 37"):
        posterior(layer(outputs=lambda self, inputs: 3))


@pytest.mark.parametrize("found", [None, 0, 2.0, True])
def test_numbers_of_outputs(found):
    with pytest.raises(ValueError, match=r"`outputs` of Own \(own_0\) must return a whole number"):
        tb.Network(layer(outputs=lambda self, inputs: found), inputs=4)


@pytest.mark.parametrize("found", [[tb.Normal()], {"a": tb.Normal()}, None])
def test_parameters_of_a_layer(found):
    with pytest.raises(TypeError, match=r"`parameters` of Own \(own_0\) must return a dictionary"):
        tb.Network(layer(parameters=lambda self, inputs: found), inputs=1)


@pytest.mark.parametrize("shape", [3, (-1,), (2.0,), "ab", None])
def test_the_shape_of_a_parameter(shape):
    with pytest.raises(ValueError, match="`shape` of a Parameter must be a tuple of whole numbers"):
        tb.Parameter(shape, tb.Normal())


def test_the_shape_of_a_parameter_may_be_a_list():
    assert tb.Parameter([2, np.int64(3)], tb.Normal()) == tb.Parameter((2, 3), tb.Normal())


@pytest.mark.parametrize(
    ("log_density", "error", "message"),
    [
        (
            lambda self, value: jnp.sum(-(value**2)),
            ValueError,
            r"`log_density` of Own, the prior of dense_0.weights, must return an array of shape "
            r"\(3,\) for values of shape \(3,\), one number for each, but its shape is \(\)",
        ),
        (lambda self, value: jnp.zeros(7), ValueError, r"but its shape is \(7,\)"),
        (lambda self, value: None, TypeError, r"\(3,\), but returned None"),
        (lambda self, value: 0.0, TypeError, r"\(3,\), but returned 0.0"),
    ],
    ids=["sum", "another", "nothing", "number"],
)
def test_densities_of_priors(log_density, error, message):
    with pytest.raises(error, match=message):
        posterior(tb.Dense(2, prior(log_density=log_density)))


def test_densities_of_hyper_priors():
    summed = prior(log_density=lambda self, value: jnp.sum(-(value**2)))
    with pytest.raises(ValueError, match=r"of Own, the prior of dense_0.weights.loc, must return"):
        posterior(tb.Dense(2, tb.Normal(tb.Hyper(0.0, summed))))


def test_other_members_of_priors():
    with pytest.raises(TypeError, match=r"`location_scale` of Own, the prior of dense_0.weights,"):
        posterior(tb.Dense(2, prior(location_scale=lambda self: 1.0)))
    with pytest.raises(ValueError, match="`support` of Own must be 'real' or 'positive', got 'pos"):
        prior(support="postive")
    one = prior(sample=lambda self, key, shape: jax.random.normal(key))
    starts = layer(parameters=lambda self, inputs: {"a": tb.Parameter((3,), one)})
    with pytest.raises(
        ValueError, match=r"`sample` of Own must return .*, \(3,\), but its shape i"
    ):
        tb.sample(posterior(starts), burn_in=0, draws=1, progress=False)


@pytest.mark.parametrize("rows", [{}, {"sample_weight": np.ones(5)}], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("log_density", "error", "message"),
    [
        (
            lambda self, outputs, targets: -((outputs - targets) ** 2).sum(),
            ValueError,
            r"`log_density` of Own must return an array of shape \(37,\) for outputs of shape "
            r"\(1, 37\) and targets of shape \(1, 37\), one number for each row, but .* is \(\)",
        ),
        (lambda self, outputs, targets: -((outputs - targets) ** 2), ValueError, r"is \(1, 37\)"),
        (lambda self, outputs, targets: None, TypeError, "but returned None"),
    ],
    ids=["sum", "each", "nothing"],
)
def test_densities_of_likelihoods(log_density, error, message, rows):
    with pytest.raises(error, match=message):
        posterior(likelihood=likelihood(log_density=log_density), **rows)


def test_standard_deviations_of_rows():
    own = likelihood(sd_of_rows=lambda self, outputs, y_sd: y_sd[0])
    message = r"`sd_of_rows` of Own must return an array of shape \(1, 37\) .* shape is \(37,\)"
    with pytest.raises(ValueError, match=message):
        posterior(likelihood=own, y_sd=np.ones((5, 1)))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (lambda self, y, outputs: None, r"of shape \(5, n\), with .*, but returned None"),
        (lambda self, y, outputs: y[:, 0], r"but returned one of shape \(5,\)"),
        (lambda self, y, outputs: y[:3], r"but returned one of shape \(3, 1\)"),
    ],
    ids=["nothing", "column", "fewer"],
)
def test_targets_of_likelihoods(targets, message):
    with pytest.raises(TypeError, match="`targets` of Own must return an array .*" + message):
        posterior(likelihood=likelihood(targets=targets))
