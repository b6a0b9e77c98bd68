"""The interface of the paper and of TensorBNN, its authors' code, on top of this library.

It has every class, method and keyword of TensorBNN, under the same names; the library does the
computations. Use the library itself for new programs.
"""

from tensorbnn.classic.layers import (
    CauchyDenseLayer,
    DenseLayer,
    Elu,
    Exp,
    GaussianDenseLayer,
    Layer,
    Leaky_relu,
    LeakyReLU,
    PReLU,
    Prelu,
    ReLU,
    Relu,
    Sigmoid,
    Softmax,
    SquarePReLU,
    SquarePrelu,
    Tanh,
    leakyReLU,
)
from tensorbnn.classic.likelihoods import (
    Accuracy,
    BernoulliLikelihood,
    FixedGaussianLikelihood,
    GaussianLikelihood,
    Likelihood,
    Metric,
    PercentError,
    SquaredError,
)
from tensorbnn.classic.predicting import predictor
from tensorbnn.classic.pretraining import trainBasicClassification, trainBasicRegression
from tensorbnn.classic.training import network

__all__ = [
    "Accuracy",
    "BernoulliLikelihood",
    "CauchyDenseLayer",
    "DenseLayer",
    "Elu",
    "Exp",
    "FixedGaussianLikelihood",
    "GaussianDenseLayer",
    "GaussianLikelihood",
    "Layer",
    "LeakyReLU",
    "Leaky_relu",
    "Likelihood",
    "Metric",
    "PReLU",
    "PercentError",
    "Prelu",
    "ReLU",
    "Relu",
    "Sigmoid",
    "Softmax",
    "SquarePReLU",
    "SquarePrelu",
    "SquaredError",
    "Tanh",
    "leakyReLU",
    "network",
    "predictor",
    "trainBasicClassification",
    "trainBasicRegression",
]
