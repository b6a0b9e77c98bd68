import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tensorbnn.model.layers import (
    ACTIVATION_NAMES,
    GAUSSIAN_PRIOR,
    CauchyDense,
    Dense,
    Layer,
    LeakyReLU,
    PReLU,
    SquarePReLU,
    Tanh,
)
from tensorbnn.model.network import Network
from tensorbnn.model.priors import Normal
from tensorbnn.posterior import precision

PAPER = GAUSSIAN_PRIOR.bind({"scale": 2.0})


class Twice(Layer):
    def apply(self, parameters, h):
        return 2 * h


def test_dimensions_and_names():
    network = Network(
        Dense(4), PReLU(), CauchyDense(3), Tanh(), PReLU(), SquarePReLU(), Dense(2), inputs=5
    )
    assert (network.inputs, network.outputs) == (5, 2)
    assert network.names == (
        *("dense_0", "prelu_0", "dense_1", "tanh_0"),
        *("prelu_1", "squareprelu_0", "dense_2"),
    )
    assert {name: parameter.shape for name, parameter in network.parameters.items()} == {
        "dense_0.weights": (5, 4),
        "dense_0.biases": (4,),
        "prelu_0.slopes": (4,),
        "dense_1.weights": (4, 3),
        "dense_1.biases": (3,),
        "prelu_1.slopes": (3,),
        "squareprelu_0.slopes": (3,),
        "dense_2.weights": (3, 2),
        "dense_2.biases": (2,),
    }
    # The start of a layer goes with the units that come into it.
    assert network.parameters["dense_1.weights"].start == Normal(0.0, np.sqrt(2 / 4))


@precision("float64")
def test_forward_pass_is_that_of_numpy():
    network = Network(Dense(6), Tanh(), Dense(5), PReLU(), Dense(2), inputs=3)
    rng = np.random.default_rng(0)
    values = {
        name: rng.normal(size=parameter.shape) for name, parameter in network.parameters.items()
    }
    x = rng.normal(size=(11, 3))

    h = np.tanh(x @ values["dense_0.weights"] + values["dense_0.biases"])
    h = h @ values["dense_1.weights"] + values["dense_1.biases"]
    h = np.where(h > 0, h, values["prelu_0.slopes"] * h)
    expected = h @ values["dense_2.weights"] + values["dense_2.biases"]

    out = jax.jit(network.apply)(jax.tree.map(jnp.asarray, values), jnp.asarray(x.T))
    assert out.shape == (2, 11)
    np.testing.assert_allclose(out.T, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["tanh", "Tanh", "TANH"])
def test_activations_by_name(name):
    assert Network(Dense(2), name, inputs=1) == Network(Dense(2), Tanh(), inputs=1)


@pytest.mark.parametrize("name", ["leaky_relu", "leakyrelu", "LeakyReLU"])
def test_activations_by_name_of_two_words(name):
    assert Network(Dense(2), name, inputs=1).layers[1] == LeakyReLU()


def test_without_last():
    network = Network(Dense(2), Tanh(), Dense(1), inputs=3)
    assert network._without_last() == Network(Dense(2), Tanh(), inputs=3)
    assert network._without_last().outputs == 2


def test_network_is_a_value():
    network = Network(Dense(2), Tanh(), inputs=3)
    assert network == Network(Dense(2), "tanh", inputs=3)
    assert hash(network) == hash(Network(Dense(2), "tanh", inputs=3))
    assert network != Network(Dense(2), Tanh(), inputs=4)
    assert network != Network(Dense(2), inputs=3)
    assert network != Network(Dense(2, Normal()), Tanh(), inputs=3)
    assert network != (Dense(2), Tanh())


def test_repr_shows_the_layers_without_their_defaults():
    network = Network(Dense(2, Normal(), Normal()), Tanh(), LeakyReLU(0.1), Dense(1), inputs=3)
    assert repr(Network(Dense(2), "tanh", inputs=3)) == "Network(Dense(2), Tanh(), inputs=3)"
    assert " ".join(repr(network).split()) == (
        "Network(Dense(2, weight_prior=Normal(loc=0.0, scale=1.0), "
        "bias_prior=Normal(loc=0.0, scale=1.0)), Tanh(), LeakyReLU(negative_slope=0.1), "
        "Dense(1), inputs=3)"
    )
    assert eval(repr(network), globals()) == network


@pytest.mark.parametrize("layers", [1, 8, 30, 200])
@pytest.mark.parametrize("dense", [Dense(50), Dense(7, PAPER, PAPER)], ids=["default", "own"])
def test_repr_has_at_most_six_lines(layers, dense):
    network = Network(*[dense, "tanh"] * layers, Dense(1), inputs=3)
    lines = repr(network).split("\n")
    assert len(lines) <= 6
    assert max(map(len, lines)) <= 88
    assert lines[0].startswith("Network(Dense(")
    assert lines[-1].endswith("inputs=3)")
    if layers == 200:
        assert lines[-2] == "    ... 401 layers in all ..."
    elif layers == 8:
        assert lines[0].count("weight_prior=...") == (0 if dense.units == 50 else 1)


def test_repr_of_a_layer_that_is_not_a_dataclass():
    assert repr(Network(Twice(), inputs=1)).startswith("Network(<")


def test_layers_may_be_a_list():
    expected = Network(Dense(2), "tanh", Dense(1), inputs=3)
    assert Network([Dense(2), "tanh", Dense(1)], inputs=3) == expected
    assert Network((Dense(2), Tanh(), Dense(1)), inputs=3) == expected


def test_linear_is_not_a_layer():
    assert Network(Dense(2), "linear", Dense(1), "Linear", inputs=3) == Network(
        Dense(2), Dense(1), inputs=3
    )


# Errors.


@pytest.mark.parametrize(
    ("inputs", "shown"), [(0, "0"), (-2, "-2"), (1.5, "1.5"), ("2", "'2'"), (True, "True")]
)
def test_inputs_must_be_a_positive_whole_number(inputs, shown):
    message = rf"`inputs` must be a whole number of at least 1, got {shown}"
    with pytest.raises(ValueError, match=message):
        Network(Dense(1), inputs=inputs)


@pytest.mark.parametrize("layers", [(), ([],), ("linear",)])
def test_a_network_needs_a_layer(layers):
    with pytest.raises(ValueError, match=r"a network needs at least one layer, such as Dense\(1\)"):
        Network(*layers, inputs=1)


def test_a_class_is_not_a_layer():
    with pytest.raises(TypeError, match=r"layer 1 is a class: write Tanh\(\.\.\.\)"):
        Network(Dense(1), Tanh, inputs=1)


@pytest.mark.parametrize(
    ("name", "near"), [("tahn", "tanh"), ("sigmiod", "sigmoid"), ("Leaky-ReLU", "leakyrelu")]
)
def test_an_unknown_activation_with_a_near_one(name, near):
    message = (
        rf"layer 1 is an unknown activation '{name}': did you mean '{near}'\? choose from sigmoid, "
    )
    with pytest.raises(ValueError, match=message):
        Network(Dense(1), name, inputs=1)


def test_an_unknown_activation():
    names = ", ".join(ACTIVATION_NAMES)
    message = f"layer 0 is an unknown activation 'gaussian': choose from {names}$"
    with pytest.raises(ValueError, match=message):
        Network("gaussian", inputs=1)


@pytest.mark.parametrize(
    ("layer", "shown"), [(10, "10"), (None, "None"), ([Dense(1)], r"\[Dense\("), (Normal(), "Norm")]
)
def test_a_layer_must_be_a_layer(layer, shown):
    message = rf"layer 1 must be a layer such as Dense\(10\) or the name of an.*got {shown}"
    with pytest.raises(TypeError, match=message):
        Network(Dense(1), layer, inputs=1)
