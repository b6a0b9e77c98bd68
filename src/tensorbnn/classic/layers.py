"""Layers and activations under the paper's names.

Each describes a layer of the library (`describe`) and holds the values at which a chain starts. To
use your own priors, subclass a dense layer and give it a name and two priors:

    class Dense2(GaussianDenseLayer):
        name = "dense2"
        weightPrior = biasPrior = tb.Normal(0.0, tb.Hyper(1.0, tb.Normal(1.0, 0.3)))
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.classic.arguments import as_dtype, as_numbers
from tensorbnn.density import Model
from tensorbnn.model import layers
from tensorbnn.model.checks import DType
from tensorbnn.model.hyper import Prior
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision


class Layer:
    """A layer or an activation; your own has a `name` and a method `describe`.

    Parameters
    ----------
    inputDims, outputDims
        Numbers of inputs and outputs; activations don't need them.
    weights, biases
        Values at which a chain starts, ``(outputDims, inputDims)`` and ``(outputDims, 1)``; drawn
        by default.
    activation
        Starting values of the slopes of an activation.
    dtype
        Ignored: the network has a type of its own.
    alpha
        Starting value of all slopes.
    seed
        Seed of the starting values that are drawn.
    """

    name: str = "name"
    """The layer's name in ``architecture.txt``."""
    _library: ClassVar[type[layers.Layer] | None] = None

    def __init__(
        self,
        inputDims: int | None = None,
        outputDims: int | None = None,
        weights: ArrayLike | None = None,
        biases: ArrayLike | None = None,
        activation: ArrayLike | None = None,
        dtype: Any = np.float32,
        alpha: float | None = None,
        seed: int = 1,
    ) -> None:
        self.inputDims, self.outputDims = inputDims, outputDims
        self.dtype, self.seed = as_dtype(dtype), int(seed)
        self.weights, self.biases = weights, biases
        self.activation, self.alpha = activation, alpha

    def describe(self) -> layers.Layer:
        """The corresponding layer of the library."""
        if self._library is not None:
            return self._library()
        raise NotImplementedError(
            f"{type(self).__name__} has no method `describe`: define one that returns a tb.Layer"
        )

    def start(self, units: int) -> dict[str, NDArray[Any]]:
        """The starting values that were given, with the names and shapes of the library.

        `units` is the number of inputs.
        """
        shapes = {key: each.shape for key, each in self.describe().parameters(units).items()}
        given = {"weights": self.weights, "biases": self.biases, "slopes": self.activation}
        found = {
            key: as_library(f"{key} of {self.name!r}", value, shapes[key])
            for key, value in given.items()
            if value is not None and key in shapes
        }
        if "slopes" in shapes and "slopes" not in found and self.alpha is not None:
            found["slopes"] = np.full(shapes["slopes"], float(self.alpha))
        return found


def as_library(what: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array in the shape of the library; the paper's weights are ``(outputDims, inputDims)``."""
    array = as_numbers(what, value)
    wanted = shape[::-1] if len(shape) == 2 else (*shape, 1)
    if array.shape == wanted or (len(shape) == 1 and array.shape == shape):
        return array.T if len(shape) == 2 else array.reshape(shape)
    raise ValueError(f"{what} must have shape {wanted}, got {array.shape}")


def as_paper(values: NDArray[Any]) -> NDArray[Any]:
    """A parameter in the paper's shape: weights with the outputs first, other arrays as a column.

    Examples
    --------
    >>> as_paper(np.zeros((3, 5))).shape, as_paper(np.zeros(5)).shape
    ((5, 3), (5, 1))
    """
    return values.T if values.ndim == 2 else values[..., None]


def draw_start(
    key: Array, layer: layers.Layer, units: int, dtype: DType
) -> dict[str, NDArray[Any]]:
    """Starting values that the library draws for one of its layers with `units` inputs."""
    model = Model(Network(layer, inputs=units), Gaussian())
    with precision(dtype):
        hypers = {name: jnp.asarray(each, float) for name, each in model.start_hypers().items()}
        drawn = model.theta.draw_start(key, hypers)
        names = [entry.name for entry in model.theta.entries]
        return {name.partition(".")[2]: np.array(drawn[name]) for name in names}


class _Dense(Layer):
    weightPrior: Prior
    biasPrior: Prior

    def __init__(
        self,
        inputDims: int,
        outputDims: int,
        weights: ArrayLike | None = None,
        biases: ArrayLike | None = None,
        dtype: Any = np.float32,
        seed: int = 1,
    ) -> None:
        super().__init__(inputDims, outputDims, weights, biases, dtype=dtype, seed=seed)

    def describe(self) -> layers.Layer:
        return self._library(self.outputDims, self.weightPrior, self.biasPrior)  # type: ignore[misc, call-arg]


class GaussianDenseLayer(_Dense):
    """A dense layer with the paper's hierarchical Gaussian prior.

    Parameters
    ----------
    inputDims, outputDims, weights, biases, dtype, seed
        As for `Layer`.
    """

    name = "denseGaussian"
    weightPrior = biasPrior = layers.GAUSSIAN_PRIOR
    _library = layers.Dense


class CauchyDenseLayer(_Dense):
    """A dense layer with the paper's hierarchical Cauchy prior.

    Parameters
    ----------
    inputDims, outputDims, weights, biases, dtype, seed
        As for `Layer`.
    """

    name = "dense"
    weightPrior = biasPrior = layers.CAUCHY_PRIOR
    _library = layers.CauchyDense


# As in TensorBNN.
DenseLayer = CauchyDenseLayer


class _Activation(Layer):
    def __init__(self, inputDims: int | None = None, outputDims: int | None = None) -> None:
        super().__init__(inputDims, outputDims)


class Exp(_Activation):
    """``exp(x)``."""

    name, _library = "Exp", layers.Exp


class Relu(_Activation):
    """``max(x, 0)``."""

    name, _library = "relu", layers.ReLU


class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))``."""

    name, _library = "sigmoid", layers.Sigmoid


class Tanh(_Activation):
    """Hyperbolic tangent."""

    name, _library = "tanh", layers.Tanh


class Elu(_Activation):
    """``x`` if positive, otherwise ``exp(x) - 1``."""

    name, _library = "elu", layers.ELU


class Softmax(_Activation):
    """``exp(x_i) / sum_j exp(x_j)`` over the units of a row."""

    name, _library = "softmax", layers.Softmax


class Leaky_relu(Layer):
    """``x`` if positive, otherwise ``alpha * x``; `activation` is another name for `alpha`."""

    name = "leakyrelu"

    def __init__(
        self,
        alpha: float = 0.3,
        inputDims: int | None = None,
        outputDims: int | None = None,
        activation: float | None = None,
    ) -> None:
        slope = alpha if activation is None else activation
        super().__init__(inputDims, outputDims, alpha=slope)

    def describe(self) -> layers.Layer:
        return layers.LeakyReLU(float(self.alpha or 0.0))


class _Slopes(Layer):
    def __init__(
        self,
        inputDims: int | None = None,
        outputDims: int | None = None,
        dtype: Any = np.float32,
        alpha: float = 0.2,
        activation: ArrayLike | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(
            inputDims, outputDims, activation=activation, dtype=dtype, alpha=alpha, seed=seed
        )


class Prelu(_Slopes):
    """``x`` if positive, otherwise ``m x``, with a sampled slope ``m >= 0`` for each unit.

    Parameters
    ----------
    inputDims, outputDims, dtype, alpha, activation, seed
        As for `Layer`. All slopes start at `alpha`, or each at its value in `activation`,
        ``(units,)``; nothing is drawn.
    """

    name, _library = "prelu", layers.PReLU


class SquarePrelu(_Slopes):
    """``x`` if positive, otherwise ``a^2 x``, with a sampled ``a`` for each unit.

    Parameters
    ----------
    inputDims, outputDims, dtype, alpha, activation, seed
        As for `Prelu`; `alpha` and `activation` are values of ``a``.
    """

    name, _library = "squareprelu", layers.SquarePReLU


# The paper's spellings.
ReLU, leakyReLU, LeakyReLU, PReLU, SquarePReLU = Relu, Leaky_relu, Leaky_relu, Prelu, SquarePrelu
