"""Networks trained to start a chain from."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import tensorbnn as tb
from tensorbnn import classic
from tensorbnn.inference.pretrain import pretrain

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 320)
Y = np.where(X > 0, 2 * X, 0.5 * X)


def outputs(trained, alpha, x):
    """The network in NumPy."""
    h = x[None]
    for number, (weights, biases) in enumerate(
        zip(trained.weights, trained.biases, strict=True), start=1
    ):
        h = weights @ h + biases
        if number < len(trained.weights):
            h = np.where(h > 0, h, alpha * h)
    return h[0]


def test_regression(tmp_path):
    name = str(tmp_path / "backup")
    arguments = (2, 1, 1, 8, 3, 100, 0.25, X, Y, X, Y, name)
    trained = classic.trainBasicRegression(*arguments)
    assert np.sqrt(np.mean(np.square(outputs(trained, 0.25, X) - Y))) < 0.1
    saved = load_file(f"{name}.safetensors")
    assert np.array_equal(saved["dense_1.weights"].T, trained.weights[1])
    # It starts a chain.
    model = classic.network("float32", 1, X, Y, X, Y)
    for index, (weights, biases) in enumerate(zip(trained.weights, trained.biases, strict=True)):
        model.add(classic.GaussianDenseLayer(*weights.shape[::-1], weights=weights, biases=biases))
        if index < 2:
            model.add(classic.Leaky_relu(0.25))
    assert np.allclose(model.predict(train=True)[0], outputs(trained, 0.25, X), atol=1e-5)


def test_options(tmp_path, monkeypatch):
    seen = {}

    def spied(posterior, **options):
        seen.update(options, posterior=posterior)
        return pretrain(posterior, **(options | {"epochs": 1, "cycles": 1}))

    monkeypatch.setattr("tensorbnn.classic.pretraining.pretrain", spied)
    name = str(tmp_path / "backup")
    arguments = (1, 1, 1, 4, 2, 5, 0.25, X, Y, X[:5], Y[:5], name)
    trained = classic.trainBasicRegression(*arguments, activation="prelu", patience=3, seed=7)
    assert [each.shape for each in trained.activation] == [(4, 1)]
    assert seen["posterior"].network.layers[1] == tb.PReLU()
    expected = {
        "cycles": 2, "epochs": 5, "patience": 3, "learning_rate": 0.01, "batch_size": 32,
        "objective": "likelihood", "seed": 7, "chains": 1,
    }  # fmt: skip
    assert {key: seen[key] for key in expected} == expected
    assert np.array_equal(seen["validation"].x, X[:5, None])
    options = {"callbackMetric": "loss", "callbacks": False, "activation": "prelu"}
    classic.trainBasicRegression(*arguments, **options)
    assert seen["patience"] == 5
    assert np.array_equal(seen["validation"].x, X[:, None])
    with pytest.raises(
        ValueError, match="`callbackMetric` must be 'val_loss' or 'loss', got 'mse'"
    ):
        classic.trainBasicRegression(*arguments, callbackMetric="mse")
    with pytest.raises(ValueError, match="`activation` must be one of"):
        classic.trainBasicRegression(*arguments, activation="swish")


def test_classification(tmp_path):
    labels = (X > 0.2).astype(float)
    arguments = (1, 1, 1, 6, 2, 300, 0.1, X, labels, X, labels, str(tmp_path / "backup"))
    trained = classic.trainBasicClassification(*arguments)
    assert np.mean((outputs(trained, 0.1, X) > 0) == labels) > 0.95
