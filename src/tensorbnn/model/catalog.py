"""The classes of models that a saved run may name: those listed here, and no others."""

from tensorbnn.model import layers, priors
from tensorbnn.model.discrete import Bernoulli, Categorical, Poisson
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.noise import HeteroscedasticGaussian, MeasuredGaussian, StudentTNoise
from tensorbnn.model.scaling import Scaling

LAYERS: tuple[type[layers.Layer], ...] = (
    *(layers.Dense, layers.CauchyDense, layers.Relevance),
    *layers.ACTIVATIONS.values(),
)
PRIORS: tuple[type[Prior], ...] = (
    *(priors.Normal, priors.Cauchy, priors.StudentT, priors.Laplace),
    *(priors.Exponential, priors.LogNormal, priors.HalfNormal, priors.HalfCauchy),
    *(priors.Gamma, priors.InverseGamma, priors.GammaPrecision, priors.Uniform),
)
LIKELIHOODS: tuple[type[Likelihood], ...] = (
    *(Gaussian, Bernoulli, Categorical, MeasuredGaussian),
    *(StudentTNoise, HeteroscedasticGaussian, Poisson),
)
CLASSES: tuple[type, ...] = (*LAYERS, Hyper, *PRIORS, *LIKELIHOODS, Scaling)
