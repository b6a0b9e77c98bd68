"""Likelihoods of classes: two of them, or several."""

from dataclasses import dataclass
from typing import ClassVar, final

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.model.layers import Layer, Sigmoid, Softmax
from tensorbnn.model.likelihoods import Likelihood, some_of


@final
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Targets are 1 with probability ``sigmoid(output)`` and 0 otherwise, each output by itself."""

    link: ClassVar[type[Layer] | None] = Sigmoid

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        y = super().targets(y, outputs)
        bad = np.setdiff1d(y, [0, 1])
        if bad.size:
            raise ValueError(
                f"`y` must hold only 0 and 1 for a Bernoulli likelihood, but has {some_of(bad)}: "
                "encode the two classes as 0 and 1, or use Categorical for more classes"
            )
        return y

    def log_density(self, outputs: Array, targets: Array) -> Array:
        # log sigmoid(f) = f - softplus(f) and log(1 - sigmoid(f)) = -softplus(f)
        return (targets * outputs - jax.nn.softplus(outputs)).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Array) -> Array:
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        uniform = jax.random.uniform(key, outputs.shape, outputs.dtype)
        return (uniform < jax.nn.sigmoid(outputs)).astype(outputs.dtype)


@final
@dataclass(frozen=True)
class Categorical(Likelihood):
    """Targets are class labels ``0, 1, ...`` with probabilities ``softmax(outputs)``."""

    link: ClassVar[type[Layer] | None] = Softmax

    def targets(self, y: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
        if y.shape[1] != 1:
            raise ValueError(
                f"`y` must be one column of class labels for a Categorical likelihood, "
                f"got {y.shape[1]} columns: use `y.argmax(axis=1)` for one-hot targets"
            )
        if outputs < 2:
            raise ValueError(
                "a Categorical likelihood needs a network with one output per class, at least 2, "
                f"but this one has {outputs}: end it in Dense(classes), or use Bernoulli"
            )
        classes = np.arange(outputs)
        bad = np.setdiff1d(y, classes)
        if bad.size:
            raise ValueError(
                f"`y` must hold class labels 0 to {outputs - 1} for a network with {outputs} "
                f"outputs, but has {some_of(bad)}"
            )
        return (y == classes).astype(np.float64)

    def log_density(self, outputs: Array, targets: Array) -> Array:
        return (targets * jax.nn.log_softmax(outputs, axis=0)).sum(axis=0)

    def mean(self, outputs: Array) -> Array:
        return jax.nn.softmax(outputs, axis=0)

    def variance(self, outputs: Array) -> Array:
        probability = jax.nn.softmax(outputs, axis=0)
        return probability * (1 - probability)

    def sample(self, key: Array, outputs: Array) -> Array:
        return jax.random.categorical(key, outputs, axis=0)[None].astype(outputs.dtype)
