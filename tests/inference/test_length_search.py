"""Probe inputs: training rows, points around them, and nothing that depends on chance."""

import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import forward
from tensorbnn.inference import length_search
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision


def target(rows, inputs=2, outputs=1):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(outputs), inputs=inputs)
    x = np.random.default_rng(0).normal(size=(rows, inputs))
    posterior = tb.Posterior(network, tb.Gaussian(sd=1.0), x, np.zeros((rows, outputs)))
    return TargetDensity(posterior.model, posterior._arrays, None), x


@pytest.mark.parametrize("rows", [1, 2, 11, 300])
def test_half_are_training_rows_and_half_lie_around_them(rows):
    own, x = target(rows)
    found = np.asarray(length_search.probe_inputs(own)).T
    assert found.shape == (32, 2)
    distance = np.abs(found[:, None] - x.astype(np.float32)[None]).max(axis=2).min(axis=1)
    assert np.all(distance[:16] == 0)
    if rows > 2:
        assert np.mean(distance[16:] > 0) > 0.5
        assert np.abs(found).max() <= 2 * np.abs(x).max()
    if rows == 300:  # all of them different
        assert len(np.unique(found, axis=0)) == 32


def test_rows_in_tiles_are_the_rows(monkeypatch):
    plain, _ = target(100)
    monkeypatch.setattr(forward, "TILE_ABOVE", 64)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 64)
    tiled, _ = target(100)
    assert tiled.data.tile_inputs.shape[0] > 1
    np.testing.assert_array_equal(
        length_search.probe_inputs(tiled), length_search.probe_inputs(plain)
    )


def test_features_are_the_outputs_of_the_network():
    own, _ = target(20, outputs=3)
    assert length_search.num_features(own) == 10 * 3
    theta = jnp.linspace(-1, 1, own.model.theta.size)
    named = own.model.theta.unflatten(theta)
    x = np.asarray(length_search.probe_inputs(own)).T
    hidden = np.tanh(x @ named["dense_0.weights"] + named["dense_0.biases"][None])
    expected = hidden @ named["dense_1.weights"] + named["dense_1.biases"][None]
    np.testing.assert_allclose(
        length_search.features(own, theta), expected.T.reshape(-1), rtol=1e-5
    )


def test_many_outputs_still_have_several_probes():
    own, _ = target(20, outputs=10)
    assert length_search.num_features(own) == length_search.LEAST_PROBES * 10


def test_without_data_probes_are_standard_normal():
    with precision("float64"):
        network = tb.Network(tb.Dense(1), inputs=4)
        own = TargetDensity(tb.Posterior(network, tb.Gaussian(), dtype="float64").model, None, None)
        found = np.asarray(length_search.probe_inputs(own))
    assert found.shape == (4, 32)
    assert abs(found.mean()) < 4 / np.sqrt(128)
    assert abs(found.std() - 1) < 4 / np.sqrt(2 * 128)
