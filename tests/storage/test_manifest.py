"""Descriptions survive JSON, and nothing but known classes can be named."""

import json
from dataclasses import dataclass

import jax.numpy as jnp
import pytest

import tensorbnn as tb
from tensorbnn.model.layers import ACTIVATIONS
from tensorbnn.storage.manifest import KNOWN, describe, restore

EVERYTHING = [
    tb.Dense(3),
    tb.Dense(2, bias_prior=tb.StudentT(4.0, 0.0, tb.Hyper(0.5, tb.HalfNormal(1.0)))),
    tb.CauchyDense(4),
    *(activation() for activation in ACTIVATIONS.values()),
    tb.LeakyReLU(0.1),
    tb.Normal(0.0, 0.1),
    tb.Laplace(1.0, 2.0),
    tb.LogNormal(0.1, 0.2),
    tb.Exponential(tb.Hyper(1.0, tb.LogNormal(0.0, 1.0))),
    tb.Gaussian(sd=tb.Hyper(0.1)),
    tb.Bernoulli(),
    tb.Categorical(),
    tb.HMC(step_size=0.1, num_steps=7),
    tb.Network(tb.Dense(3), "tanh", tb.Dense(1), inputs=2),
]


@pytest.mark.parametrize("value", EVERYTHING, ids=str)
def test_round_trip_through_json(value):
    assert restore(json.loads(json.dumps(describe(value))), {}) == value


def test_every_public_class_is_known():
    kinds = (tb.Layer, tb.Prior, tb.Likelihood)
    public = [getattr(tb, name) for name in tb.__all__]
    concrete = [
        c for c in public if isinstance(c, type) and issubclass(c, kinds) and c not in kinds
    ]
    assert {tb.Dense, tb.Tanh, tb.Normal, tb.Gaussian} <= set(concrete)
    assert all(KNOWN[each.__name__] is each for each in concrete)


@dataclass(frozen=True)
class Sine(tb.Layer):
    frequency: float = 1.0

    def apply(self, parameters, h):
        return jnp.sin(self.frequency * h)


def test_custom_classes_must_be_given():
    description = json.loads(json.dumps(describe(Sine(2.0))))
    assert restore(description, {"Sine": Sine}) == Sine(2.0)
    with pytest.raises(
        ValueError, match=r"are not part of the library, Sine: .*custom_objects=\{\"Sine\": Sine\}"
    ):
        restore(description, {})


def test_a_custom_class_named_like_one_of_the_library_is_refused():
    """Reading it would give the class of the library, which predicts something else."""
    for name in ("Tanh", "Network"):
        own = dataclass(frozen=True)(type(name, (Sine,), {}))
        with pytest.raises(TypeError, match=f"the library also has a class {name}: .*another name"):
            describe([own()])


def test_unknown_fields_are_refused():
    with pytest.raises(ValueError, match=r"describes an invalid Tanh: .*temperature"):
        restore({"type": "Tanh", "temperature": 1.0}, {})


@pytest.mark.parametrize("name", ["os.system", "eval", "Posterior", "__import__", None, 3])
def test_no_other_class_can_be_named(name):
    with pytest.raises(ValueError, match="not part of the library"):
        restore({"type": name, "command": "true"}, {})


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, float("inf"), jnp.ones(2)],
    ids=["object", "set", "inf", "array"],
)
def test_values_that_json_cannot_hold_are_refused(value):
    with pytest.raises(TypeError, match="can't be saved with a run"):
        describe(value)
