"""Custom samplers that violate the protocol get a clear error."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.inference.sampler import TransitionInfo, over_chains

X = np.linspace(-1, 1, 5)


class Still(NamedTuple):
    position: Any
    log_density: Any
    count: Any


class Bare(NamedTuple):
    position: Any


def info(state):
    one = jnp.ones_like(state.log_density)
    none, count = jnp.zeros(one.shape, bool), jnp.ones(one.shape, jnp.int32)
    return TransitionInfo(one, none, state.log_density, one, count, one)


def begin(target, positions):
    log_density = over_chains(target.log_density, positions)
    return Still(positions, log_density, jnp.zeros(len(positions), jnp.int32))


def stay(keys, state, target):
    return state, info(state)


def draw(step=stay, begin=begin):
    @dataclass(frozen=True)
    class Own(tb.Sampler):
        def init(self, target, positions, burn_in):
            return begin(target, positions)

        @property
        def step(self):
            return step

    network = tb.Network(tb.Dense(1, tb.Normal(), tb.Normal()), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(), X, X)
    return tb.sample(posterior, Own(), chains=1, burn_in=1, draws=2, progress=False)


@pytest.mark.slow
def test_samplers_that_keep_the_protocol():
    assert draw().parameters["dense_0.weights"].shape == (1, 2, 1, 1)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda keys, state, target: state, r"must return a pair, .*, but returned \(Still\)"),
        (
            lambda keys, state, target: (state, None),
            r"a TransitionInfo, but returned \(Still, NoneType\)",
        ),
        (
            lambda keys, state, target: (
                state._replace(count=state.count.astype(float)),
                info(state),
            ),
            r"must keep the shapes and types of the state, but count was int32\[1\] and became flo",
        ),
        (
            lambda keys, state, target: (state._replace(position=state.position[0]), info(state)),
            r"but position was float32\[1, 2\] and became float32\[2\]",
        ),
        (
            lambda keys, state, target: (state, info(state)._replace(energy=jnp.zeros(()))),
            r"`energy` of a TransitionInfo must have shape \(1,\), .*, but is float32\[\]",
        ),
    ],
    ids=["state", "none", "type", "shape", "info"],
)
def test_steps(step, message):
    with pytest.raises(TypeError, match=message):
        draw(step)


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (lambda target, positions: Bare(positions), "a Bare without log_density"),
        (lambda target, positions: positions.sum(), "without position and log_density"),
        (
            lambda target, positions: begin(target, positions)._replace(count=0.5),
            "with the chains, 1, as its first axis, but count is 0.5",
        ),
        (
            lambda target, positions: begin(target, positions)._replace(count=jnp.zeros(3)),
            r"but count is float32\[3\]",
        ),
    ],
    ids=["bare", "array", "number", "axis"],
)
def test_states(begin, message):
    with pytest.raises(TypeError, match=message):
        draw(begin=begin)
