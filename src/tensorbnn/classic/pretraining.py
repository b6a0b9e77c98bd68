"""Train networks of equal width by AMSGrad; a chain can start from their weights."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike, NDArray

from tensorbnn.classic.arguments import as_inputs, as_targets
from tensorbnn.classic.layers import as_paper
from tensorbnn.data import Dataset
from tensorbnn.inference.pretrain import pretrain
from tensorbnn.model.discrete import Bernoulli
from tensorbnn.model.layers import ACTIVATIONS, Dense, Layer, LeakyReLU
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior
from tensorbnn.storage.files import write_file

BATCH_SIZE = 32


class Trained(NamedTuple):
    """Weights, biases and slopes of the layers, as `GaussianDenseLayer` and `Prelu` take them."""

    weights: list[NDArray[Any]]
    biases: list[NDArray[Any]]
    activation: list[NDArray[Any]]


def trainBasicRegression(
    hidden: int,
    inputDims: int,
    outputDims: int,
    width: int,
    cycles: int,
    epochs: int,
    alpha: float,
    trainIn: ArrayLike,
    trainOut: ArrayLike,
    valIn: ArrayLike,
    valOut: ArrayLike,
    name: str,
    callbacks: bool = True,
    callbackMetric: Literal["val_loss", "loss"] = "val_loss",
    patience: int = 10,
    *,
    activation: str = "leakyrelu",
    seed: int = 1000,
) -> Trained:
    """Train a network for regression, and return its parameters.

    AMSGrad minimizes the squared error in cycles. The learning rate is 0.01, and is divided by ten
    after each cycle. The network with the lowest loss is returned. This is ``tb.pretrain``.

    Parameters
    ----------
    hidden, inputDims, outputDims, width
        Numbers of hidden layers, inputs, outputs, and units of a hidden layer.
    cycles, epochs
        Number of cycles, and largest number of epochs in a cycle.
    alpha
        Slope of the leaky ReLU.
    trainIn, trainOut, valIn, valOut
        Training and validation data.
    name
        The network is also saved to ``<name>.safetensors``.
    callbacks
        Whether a cycle may end early.
    callbackMetric
        Which loss decides that, and which network is best: on validation or on training data.
    patience
        A cycle ends after this many epochs without a lower loss.
    activation
        Name of the activation.
    seed
        Seed of the random numbers.

    Returns
    -------
    list of ndarray
        Weights ``(outputs, inputs)`` and biases ``(outputs, 1)`` of each layer, and slopes if the
        activation has some.

    Examples
    --------
    >>> import os, tempfile
    >>> x = np.linspace(-1, 1, 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "backup")
    ...     weights, biases, activation = trainBasicRegression(
    ...         2, 1, 1, 5, 3, 20, 0.3, x, np.sin(x), x, np.sin(x), name
    ...     )
    >>> [each.shape for each in weights], [each.shape for each in biases]
    ([(5, 1), (5, 5), (1, 5)], [(5, 1), (5, 1), (1, 1)])
    """
    network = _make_network(hidden, inputDims, outputDims, width, alpha, activation)
    patience = patience if callbacks else epochs
    course = {"cycles": cycles, "epochs": epochs, "patience": patience, "seed": seed}
    data = trainIn, trainOut, valIn, valOut
    likelihood = Gaussian(sd=1.0)  # half the squared error, up to a constant
    return _train(network, likelihood, data, name, callbackMetric, learning_rate=0.01, **course)


def trainBasicClassification(
    hidden: int,
    inputDims: int,
    outputDims: int,
    width: int,
    cycles: int,
    epochs: int,
    alpha: float,
    trainIn: ArrayLike,
    trainOut: ArrayLike,
    valIn: ArrayLike,
    valOut: ArrayLike,
    name: str,
    callbacks: bool = True,
    callbackMetric: Literal["val_loss", "loss"] = "val_loss",
    patience: int = 10,
    *,
    activation: str = "leakyrelu",
    seed: int = 1000,
) -> Trained:
    """Train a network for two classes, 0 and 1, and return its parameters.

    As `trainBasicRegression`, but with the cross-entropy and an initial learning rate of 0.001. The
    network ends in a sigmoid.
    """
    network = _make_network(hidden, inputDims, outputDims, width, alpha, activation)
    patience = patience if callbacks else epochs
    course = {"cycles": cycles, "epochs": epochs, "patience": patience, "seed": seed}
    data = trainIn, trainOut, valIn, valOut
    return _train(network, Bernoulli(), data, name, callbackMetric, learning_rate=0.001, **course)


def _make_network(
    hidden: int, inputs: int, outputs: int, width: int, alpha: float, activation: str
) -> Network:
    kind = ACTIVATIONS.get(activation.lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"`activation` must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
    between = LeakyReLU(float(alpha)) if kind is LeakyReLU else kind()
    layers: list[Layer] = []
    for _ in range(hidden):
        layers += [Dense(width), between]
    return Network(*layers, Dense(outputs), inputs=inputs)


def _train(
    network: Network,
    likelihood: Likelihood,
    data: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    name: str,
    metric: str,
    **course: Any,
) -> Trained:
    """Train on the first two arrays of `data`, and save the best network according to `metric`."""
    x, y, x_held_out, y_held_out = data
    x = as_inputs("trainIn", x, network.inputs)
    rows = Dataset(x, as_targets("trainOut", y, len(x)))
    x = as_inputs("valIn", x_held_out, network.inputs)
    held_out = Dataset(x, as_targets("valOut", y_held_out, len(x)))
    if metric not in ("val_loss", "loss"):
        raise ValueError(f"`callbackMetric` must be 'val_loss' or 'loss', got {metric!r}")
    found = pretrain(
        Posterior(network, likelihood, rows.x, rows.y),
        validation=rows if metric == "loss" else held_out,
        chains=1,
        batch_size=min(BATCH_SIZE, len(rows)),
        objective="likelihood",
        **course,
    )
    named = {key: np.ascontiguousarray(each[0]) for key, each in found.items()}
    write_file(Path(f"{name}.safetensors"), safetensors.numpy.save(named))
    kinds = ("weights", "biases", "slopes")
    return Trained(
        *([as_paper(v) for key, v in named.items() if key.endswith(kind)] for kind in kinds)
    )
