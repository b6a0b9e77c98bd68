import math
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import (
    ACTIVATIONS,
    ELU,
    GELU,
    CauchyDense,
    Dense,
    Exp,
    Layer,
    LeakyReLU,
    Parameter,
    PReLU,
    Relevance,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    SquarePReLU,
    Tanh,
)
from tensorbnn.model.priors import Cauchy, Exponential, HalfNormal, Laplace, Normal, Uniform
from tensorbnn.posterior import precision


@dataclass(frozen=True)
class Shift(Layer):
    """A user's own layer."""

    def parameters(self, inputs):
        return {"shifts": Parameter((inputs,), Normal(0.0, 1.0))}

    def apply(self, parameters, h):
        return h + parameters["shifts"][:, None]


# Three units and four rows, from the smallest to the largest a network may meet.
H = np.array([[-1e3, -2.5, -1e-4, 0.0], [1e3, 2.5, 1e-4, 0.3], [1.0, 2.0, -0.7, -30.0]])
SLOPES = np.array([0.2, 0.0, 1.5])


def sigmoid(h):
    return special.expit(h)


def elu(h):
    return np.where(h > 0, h, np.expm1(np.minimum(h, 0.0)))


def softmax(h):
    return special.softmax(h, axis=0)


def leaky(h):
    return np.where(h > 0, h, 0.3 * h)


def prelu(h):
    return np.where(h > 0, h, SLOPES[:, None] * h)


def square_prelu(h):
    return np.where(h > 0, h, SLOPES[:, None] ** 2 * h)


# Each activation with the same in NumPy.
REFERENCES = [
    (Sigmoid(), sigmoid),
    (Tanh(), np.tanh),
    (Softmax(), softmax),
    (Exp(), np.exp),
    (ReLU(), lambda h: np.maximum(h, 0.0)),
    (LeakyReLU(), leaky),
    (LeakyReLU(-0.5), lambda h: np.where(h > 0, h, -0.5 * h)),
    (ELU(), elu),
    (Softplus(), lambda h: np.logaddexp(h, 0.0)),
    (GELU(), lambda h: h * special.ndtr(h)),
    (SiLU(), lambda h: h * sigmoid(h)),
    (PReLU(), prelu),
    (SquarePReLU(), square_prelu),
]
LAYERS = [
    Dense(4),
    Dense(2, weight_prior=Laplace(0.0, 0.5), bias_prior=Exponential(1.0)),
    CauchyDense(4),
    *(layer for layer, _ in REFERENCES),
    Shift(),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("layer", "reference"), REFERENCES)
def test_activation_is_that_of_numpy(layer, reference, dtype):
    h = H.astype(dtype)
    with precision(dtype):
        parameters = {"slopes": jnp.asarray(SLOPES, dtype)} if layer.parameters(3) else {}
        out = layer.apply(parameters, jnp.asarray(h))
    assert out.dtype == dtype
    with np.errstate(over="ignore", under="ignore"):
        expected = reference(np.float64(h)).astype(dtype)
    tiny = np.finfo(dtype).tiny  # what is smaller may be rounded to zero
    np.testing.assert_allclose(out, expected, rtol=16 * np.finfo(dtype).eps, atol=tiny)


def test_only_the_exponential_overflows():
    for layer, _ in REFERENCES:
        parameters = {"slopes": jnp.asarray(SLOPES, "float32")} if layer.parameters(3) else {}
        out = np.asarray(layer.apply(parameters, jnp.asarray(H, "float32")))
        assert not np.any(np.isnan(out))
        assert np.array_equal(np.isinf(out), (H == 1e3) & isinstance(layer, Exp))


@pytest.mark.parametrize(("layer", "reference"), REFERENCES)
@precision("float64")
def test_gradient_of_an_activation(layer, reference):
    # Away from the kink at zero and from overflow.
    h = np.array([[-300.0, -2.5, -1e-2, 20.0], [9.0, 2.5, 1e-2, 0.3], [1.0, 2.0, -0.7, -30.0]])
    parameters = {"slopes": jnp.asarray(SLOPES)} if layer.parameters(3) else {}
    weights = np.array([[0.3, -1.0, 2.0, 1.1], [0.7, 0.4, -0.6, 1.0], [1.3, 0.2, -0.9, 0.5]])

    @jax.jit
    @jax.grad
    def gradient_of(h):
        return jnp.sum(layer.apply(parameters, h) * weights)

    gradient = gradient_of(jnp.asarray(h))
    step = 1e-5
    for unit in range(3):
        shift = np.zeros((3, 4))
        shift[unit] = step  # rows do not touch one another
        change = (reference(h + shift) - reference(h - shift)) * weights
        # Truncation is step^2 / 6 of the value, rounding eps / step of it.
        np.testing.assert_allclose(
            gradient[unit], change.sum(axis=0) / (2 * step), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize("layer", [layer for layer, _ in REFERENCES if layer != Exp()])
def test_gradients_stay_finite_at_extreme_inputs(layer):
    parameters = {"slopes": jnp.asarray(SLOPES, "float32")} if layer.parameters(3) else {}

    def total(parameters, h):
        return jnp.sum(layer.apply(parameters, h))

    gradients = jax.jit(jax.grad(total, argnums=(0, 1)))(parameters, jnp.asarray(H, "float32"))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))


def test_softmax_normalizes_over_units():
    out = Softmax().apply({}, jnp.asarray(H, "float32"))
    np.testing.assert_allclose(out.sum(axis=0), np.ones(4), rtol=1e-6)
    # A row's outputs do not depend on the other rows.
    alone = Softmax().apply({}, jnp.asarray(H[:, 1:2], "float32"))
    np.testing.assert_allclose(out[:, 1:2], alone, rtol=1e-6)


@pytest.mark.parametrize("cls", [Dense, CauchyDense])
@precision("float64")
def test_dense_is_that_of_numpy(cls):
    rng = np.random.default_rng(0)
    x, weights, biases = rng.normal(size=(7, 3)), rng.normal(size=(3, 5)), rng.normal(size=5)
    parameters = {"weights": jnp.asarray(weights), "biases": jnp.asarray(biases)}
    out = cls(5).apply(parameters, jnp.asarray(x.T))
    np.testing.assert_allclose(out.T, x @ weights + biases, rtol=1e-13, atol=1e-14)


# Parameters, their starts and their priors.


@pytest.mark.parametrize("cls", [Dense, CauchyDense])
def test_dense_starts_from_he(cls):
    parameters = cls(5).parameters(3)
    assert list(parameters) == ["weights", "biases"]
    assert parameters["weights"].shape == (3, 5)
    assert parameters["biases"].shape == (5,)
    he = Normal(0.0, math.sqrt(2 / 3))
    assert parameters["weights"].start == he
    assert parameters["biases"].start == he
    assert cls(5).outputs(3) == 5


@pytest.mark.parametrize("cls", [PReLU, SquarePReLU])
def test_slopes_start_at_a_fifth(cls):
    parameters = cls().parameters(6)
    assert list(parameters) == ["slopes"]
    assert parameters["slopes"].shape == (6,)
    assert parameters["slopes"].start == 0.2


def test_the_slope_of_leaky_relu_is_a_plain_number():
    assert LeakyReLU(Fraction(1, 4)) == LeakyReLU(np.float32(0.25)) == LeakyReLU(0.25)
    assert type(LeakyReLU(Fraction(1, 4)).negative_slope) is float


def test_the_slope_of_leaky_relu():
    assert LeakyReLU().negative_slope == 0.3
    assert LeakyReLU().parameters(2) == {}


# The table of the paper: a starts at, its mean and sd; b starts at, its mean and sd.
GAUSSIAN = Normal(Hyper(0.0, Normal(0.0, 0.1)), Hyper(1.0, Normal(1.0, 0.1)))
CAUCHY = Cauchy(Hyper(0.0, Normal(0.0, 0.2)), Hyper(0.5, Normal(0.5, 0.5)))


@pytest.mark.parametrize(
    ("layer", "prior"),
    [(Dense(2), GAUSSIAN), (CauchyDense(2), CAUCHY)],
)
def test_dense_has_the_priors_of_the_paper(layer, prior):
    assert layer.parameters(3)["weights"].prior == prior
    assert layer.parameters(3)["biases"].prior == prior


def test_slopes_have_the_priors_of_the_paper():
    rate = Hyper(0.3, Exponential(0.3))
    assert PReLU().parameters(3)["slopes"].prior == Exponential(rate)
    xi, kappa = Hyper(0.3, Normal(0.0, 0.1)), Hyper(0.3, Normal(0.3, 0.3))
    assert SquarePReLU().parameters(3)["slopes"].prior == Normal(xi, kappa)


def test_priors_may_be_set():
    layer = CauchyDense(2, weight_prior=Laplace(0.0, 0.5), bias_prior=Normal(0.0, 2.0))
    assert layer.parameters(3)["weights"].prior == Laplace(0.0, 0.5)
    assert layer.parameters(3)["biases"].prior == Normal(0.0, 2.0)
    assert PReLU(Exponential(2.0)).parameters(1)["slopes"].prior == Exponential(2.0)
    assert SquarePReLU(Laplace()).parameters(1)["slopes"].prior == Laplace()


def test_layers_accept_priors_between_two_numbers():
    """Where a prior excludes the usual start, chains start from a draw of it."""
    dense = Dense(2, Uniform(-1.0, 1.0), Uniform(0.0, 0.1)).parameters(3)
    assert [each.start for each in dense.values()] == [None, None]
    assert PReLU(Uniform(0.0, 0.5)).parameters(1)["slopes"].start == 0.2
    assert PReLU(Uniform(0.3, 0.5)).parameters(1)["slopes"].start is None
    assert SquarePReLU(Uniform(-0.1, 0.1)).parameters(1)["slopes"].start is None
    assert Relevance(Uniform(0.0, 1.0)).parameters(1)["scales"].start is None
    assert Relevance(Uniform(0.0, 2.0)).parameters(1)["scales"].start == 1.0


@pytest.mark.parametrize("cls", [PReLU, Relevance])
def test_a_positive_parameter_needs_a_positive_prior(cls):
    with pytest.raises(ValueError, match=r"must be a prior over positive numbers.*Uniform"):
        cls(Uniform(-1.0, 1.0))


@pytest.mark.parametrize(
    ("prior", "start", "message"),
    [
        (Uniform(0.0, 1.0), 2.0, "`start` must be between 0 and 1 under Uniform.*got 2.0"),
        (HalfNormal(), -1.0, "`start` must be positive under HalfNormal.*got -1.0"),
        (Normal(), math.inf, "`start` must be finite under Normal.*got inf"),
    ],
)
def test_a_parameter_starts_inside_its_prior(prior, start, message):
    with pytest.raises(ValueError, match=message):
        Parameter((2,), prior, start)


def test_names_of_the_activations():
    classes = [
        *(Sigmoid, Tanh, Softmax, Exp, Softplus, ReLU, LeakyReLU, ELU, GELU, SiLU),
        *(PReLU, SquarePReLU),
    ]
    assert {name: cls.__name__ for name, cls in ACTIVATIONS.items()} == {
        cls.__name__.lower(): cls.__name__ for cls in classes
    }


# One protocol, for every layer.


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_layer_keeps_shapes_and_types(layer):
    declared = layer.parameters(3)
    assert all(isinstance(parameter, Parameter) for parameter in declared.values())
    assert all(isinstance(parameter.prior, Prior) for parameter in declared.values())

    def outputs_and_gradients(parameters, h):
        outputs, pull_back = jax.vjp(layer.apply, parameters, h)
        return outputs, pull_back(outputs)

    for dtype in ("float32", "float64"):
        with precision(dtype):
            # Two networks at once, five rows.
            parameters = {
                name: jax.ShapeDtypeStruct((2, *parameter.shape), dtype)
                for name, parameter in declared.items()
            }
            h = jax.ShapeDtypeStruct((2, 3, 5), dtype)
            outputs, gradients = jax.eval_shape(
                jax.vmap(outputs_and_gradients), {**parameters, "unused": h}, h
            )
        assert (outputs.shape, outputs.dtype) == ((2, layer.outputs(3), 5), dtype)
        assert gradients == ({**parameters, "unused": h}, h)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_compiled_layer_is_the_layer(layer):
    rng = np.random.default_rng(1)
    parameters = {
        name: jnp.asarray(rng.uniform(0.1, 1.0, parameter.shape), "float32")
        for name, parameter in layer.parameters(3).items()
    }
    h = jnp.asarray(rng.normal(size=(3, 4)), "float32")
    np.testing.assert_allclose(
        jax.jit(layer.apply)(parameters, h), layer.apply(parameters, h), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_layer_is_a_value(layer):
    rebuilt = type(layer)(**vars(layer))
    assert rebuilt == layer
    assert hash(rebuilt) == hash(layer)


def test_layers_that_differ_are_not_equal():
    assert len({*LAYERS, Dense(3), Dense(3, Normal())}) == len(LAYERS) + 2


def test_kinds():
    assert {layer.kind for layer in (Dense(1), CauchyDense(1))} == {"dense"}
    assert (PReLU().kind, SquarePReLU().kind, Shift().kind) == ("prelu", "squareprelu", "shift")


# Errors.


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        (2.5, "2.5"),
        (3.0, "3.0"),
        ("3", "'3'"),
        (None, "None"),
        (True, "True"),
    ],
)
@pytest.mark.parametrize("cls", [Dense, CauchyDense])
def test_units_must_be_a_positive_whole_number(cls, units, shown):
    message = rf"`units` of {cls.__name__} must be a whole number of at least 1, got {shown}"
    with pytest.raises(ValueError, match=message):
        cls(units)


def test_units_may_be_a_number_of_numpy():
    assert Dense(np.int64(3)) == Dense(3)


@pytest.mark.parametrize("prior", [0.1, "normal", None, Normal])
@pytest.mark.parametrize("name", ["weight_prior", "bias_prior"])
@pytest.mark.parametrize("cls", [Dense, CauchyDense])
def test_the_priors_of_dense_must_be_priors(cls, name, prior):
    message = rf"`{name}` of {cls.__name__} must be a prior such as Normal\(0\.0, 1\.0\), got "
    with pytest.raises(TypeError, match=message):
        cls(2, **{name: prior})


@pytest.mark.parametrize("cls", [PReLU, SquarePReLU])
def test_the_prior_of_slopes_must_be_a_prior(cls):
    with pytest.raises(TypeError, match=r"prior` .*must be a prior such as Normal.*got 0\.1"):
        cls(0.1).parameters(2)


def test_the_prior_of_a_parameter_must_be_a_prior():
    with pytest.raises(TypeError, match=r"`prior` must be a prior such as Normal.*got 'normal'"):
        Parameter((2,), "normal")


@pytest.mark.parametrize("slope", [math.nan, math.inf, "steep", None])
def test_the_slope_of_leaky_relu_must_be_finite(slope):
    with pytest.raises(
        ValueError, match=rf"`negative_slope` of LeakyReLU must be a finite.*{slope}"
    ):
        LeakyReLU(slope)
