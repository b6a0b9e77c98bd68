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
from tensorbnn.errors import (
    DamagedDrawsError,
    DamagedFileError,
    DamagedStateError,
    DataNotKeptError,
    DescriptionError,
    ExecutorError,
    FewerDrawsError,
    LockedError,
    MetricError,
    NoDrawsError,
    NotARunError,
    NotSharedError,
    OptionError,
    OptionTypeError,
    OtherModelError,
    PathTakenError,
    RunError,
    RunMismatchError,
    SamplingError,
    StateError,
    WriteError,
)
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
from tensorbnn.warning import (
    BurnInTooSlow,
    ChainRestarted,
    CoarsePrecision,
    ConvergenceWarning,
    DamageWarning,
    DataWarning,
    FilesLeftOut,
    Interrupted,
    LagWarning,
    MetricsLost,
    NoiseAssumed,
    OriginalRunWarning,
    OtherVersion,
    ReportsLeftOut,
    ReweightingWarning,
    RunWarning,
    StoppedByLimit,
    StoppedInBurnIn,
    StoppedUnconverged,
    StoppedUnsatisfied,
)

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
    "BurnInTooSlow",
    "Categorical",
    "Cauchy",
    "CauchyDense",
    "ChainRestarted",
    "ClassScores",
    "CoarsePrecision",
    "Converged",
    "ConvergenceWarning",
    "DamageWarning",
    "DamagedDrawsError",
    "DamagedFileError",
    "DamagedStateError",
    "DataNotKeptError",
    "DataWarning",
    "Dataset",
    "Dense",
    "DescriptionError",
    "Diagnosis",
    "Ensemble",
    "ExecutorError",
    "Exp",
    "Exponential",
    "FewerDrawsError",
    "FilesLeftOut",
    "Gamma",
    "GammaPrecision",
    "Gaussian",
    "HalfCauchy",
    "HalfNormal",
    "HeteroscedasticGaussian",
    "Hyper",
    "Interrupted",
    "InverseGamma",
    "LagWarning",
    "Laplace",
    "Layer",
    "LeakyReLU",
    "Likelihood",
    "LockedError",
    "LogNormal",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeasuredGaussian",
    "MetricError",
    "MetricsLost",
    "Network",
    "NoDrawsError",
    "NoiseAssumed",
    "Normal",
    "NotARunError",
    "NotSharedError",
    "Number",
    "OptionError",
    "OptionTypeError",
    "OriginalRunWarning",
    "OtherModelError",
    "OtherVersion",
    "PReLU",
    "Parameter",
    "PathTakenError",
    "Poisson",
    "Posterior",
    "Prediction",
    "Pretrained",
    "Prior",
    "ReLU",
    "Relevance",
    "ReportsLeftOut",
    "ReweightingWarning",
    "RunError",
    "RunMismatchError",
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
    "StateError",
    "StoppedByLimit",
    "StoppedInBurnIn",
    "StoppedUnconverged",
    "StoppedUnsatisfied",
    "StudentT",
    "StudentTNoise",
    "Tanh",
    "TargetDensity",
    "TransitionInfo",
    "Uniform",
    "Verdict",
    "WriteError",
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
