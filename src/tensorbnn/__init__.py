"""Bayesian neural networks, sampled: a network and an honest uncertainty."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from tensorbnn.data import Dataset
from tensorbnn.ensemble.approximation import Approximation
from tensorbnn.ensemble.class_scores import ClassScores
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Accuracy, MeanAbsolutePercentageError, MeanSquaredError
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.scores import Scores
from tensorbnn.ensemble.sensitivity import Sensitivity
from tensorbnn.errors import DamagedFileError, OptionError, RunError, SamplingError
from tensorbnn.findings import Verdict
from tensorbnn.inference.adaptive_hmc import AdaptiveHMC
from tensorbnn.inference.ghmc import GHMC
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.mclmc import MCLMC
from tensorbnn.inference.nuts import NUTS
from tensorbnn.inference.pretrain import Pretrained, pretrain
from tensorbnn.inference.sampler import Sampler, TransitionInfo
from tensorbnn.inference.sghmc import SGHMC
from tensorbnn.inference.target import TargetDensity
from tensorbnn.model.discrete import Bernoulli, Categorical, Poisson
from tensorbnn.model.hyper import Hyper, Number, Prior
from tensorbnn.model.layers import (
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
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.noise import HeteroscedasticGaussian, MeasuredGaussian, StudentTNoise
from tensorbnn.model.priors import (
    Cauchy,
    Exponential,
    Gamma,
    GammaPrecision,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
    Uniform,
)
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import load, resume, sample
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.variational import fit_variational
from tensorbnn.warning import ConvergenceWarning, ReweightingWarning, RunWarning

if _TYPE_CHECKING:
    from tensorbnn import plots as plots
    from tensorbnn.estimators import BNNClassifier, BNNRegressor
    from tensorbnn.interop.original import import_original, load_original

__version__ = _version("tensorbnn")

__all__ = [
    "ELU",
    "GELU",
    "GHMC",
    "HMC",
    "MCLMC",
    "NUTS",
    "SGHMC",
    "Accuracy",
    "AdaptiveHMC",
    "Approximation",
    "BNNClassifier",
    "BNNRegressor",
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "CauchyDense",
    "ClassScores",
    "Converged",
    "ConvergenceWarning",
    "DamagedFileError",
    "Dataset",
    "Dense",
    "Diagnosis",
    "Ensemble",
    "Exp",
    "Exponential",
    "Gamma",
    "GammaPrecision",
    "Gaussian",
    "HalfCauchy",
    "HalfNormal",
    "HeteroscedasticGaussian",
    "Hyper",
    "InverseGamma",
    "Laplace",
    "Layer",
    "LeakyReLU",
    "Likelihood",
    "LogNormal",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeasuredGaussian",
    "Network",
    "Normal",
    "Number",
    "OptionError",
    "PReLU",
    "Parameter",
    "Poisson",
    "Posterior",
    "Prediction",
    "Pretrained",
    "Prior",
    "ReLU",
    "Relevance",
    "ReweightingWarning",
    "RunError",
    "RunWarning",
    "Sampler",
    "SamplingError",
    "Scaling",
    "Scores",
    "Sensitivity",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SquarePReLU",
    "StudentT",
    "StudentTNoise",
    "Tanh",
    "TargetDensity",
    "TransitionInfo",
    "Uniform",
    "Verdict",
    "fit_variational",
    "import_original",
    "load",
    "load_original",
    "pretrain",
    "resume",
    "sample",
]


# Imported on first use: sampling needs none of them, and they need optional packages.
_LAZY = {
    "BNNClassifier": "tensorbnn.estimators",
    "BNNRegressor": "tensorbnn.estimators",
    "import_original": "tensorbnn.interop.original",
    "load_original": "tensorbnn.interop.original",
    "plots": "tensorbnn.plots",
}


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        module = _import_module(_LAZY[name])
        return module if name == "plots" else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "plots", *(name for name in globals() if name.startswith("__"))})
