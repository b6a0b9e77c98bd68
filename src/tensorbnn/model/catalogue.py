"""The classes of models that a saved run may name: those listed here, and no others."""

from tensorbnn.model.classes import Bernoulli, Categorical
from tensorbnn.model.counts import Poisson
from tensorbnn.model.heteroscedastic import HeteroscedasticGaussian
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import ACTIVATIONS, CauchyDense, Dense, GaussianDense, Layer
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.measured import MeasuredGaussian
from tensorbnn.model.priors import (
    Cauchy,
    Exponential,
    GammaPrecision,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
)
from tensorbnn.model.relevance import Relevance
from tensorbnn.model.robust import StudentTNoise
from tensorbnn.model.scaling import Scaling
from tensorbnn.model.weighted import Weighted

LAYERS: tuple[type[Layer], ...] = (
    *(Dense, GaussianDense, CauchyDense),
    *ACTIVATIONS.values(),
    Relevance,
)
PRIORS: tuple[type[Prior], ...] = (
    *(Normal, Cauchy, StudentT, Laplace),
    *(Exponential, LogNormal, HalfNormal, GammaPrecision),
)
LIKELIHOODS: tuple[type[Likelihood], ...] = (
    *(Gaussian, Bernoulli, Categorical, MeasuredGaussian),
    *(StudentTNoise, HeteroscedasticGaussian, Poisson, Weighted),
)
CLASSES: tuple[type, ...] = (*LAYERS, Hyper, *PRIORS, *LIKELIHOODS, Scaling)
