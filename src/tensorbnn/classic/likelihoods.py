"""Likelihoods by the paper's names; wherever one is wanted, one of the library's will do too."""

from typing import Any

from tensorbnn.model import likelihoods
from tensorbnn.model.discrete import Bernoulli
from tensorbnn.model.hyper import Hyper


class Likelihood:
    """A likelihood of the library's, `library`; for one of your own pass a ``tb.Likelihood``."""

    library: likelihoods.Likelihood


class GaussianLikelihood(Likelihood):
    """Gaussian noise that is learned; `sd` is the value at which it starts."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=Hyper(sd))


class FixedGaussianLikelihood(Likelihood):
    """Gaussian noise of known standard deviation `sd`."""

    def __init__(self, sd: float = 0.1) -> None:
        self.library = likelihoods.Gaussian(sd=sd)


class BernoulliLikelihood(Likelihood):
    """Two classes, 0 and 1; the network ends in a sigmoid."""

    def __init__(self) -> None:
        self.library = Bernoulli()


def as_likelihood(likelihood: Any) -> likelihoods.Likelihood:
    """The library's likelihood, or an error."""
    found = likelihood.library if isinstance(likelihood, Likelihood) else likelihood
    if isinstance(found, likelihoods.Likelihood):
        return found
    raise TypeError(
        f"`likelihood` must be a likelihood such as FixedGaussianLikelihood(sd=0.1), got "
        f"{likelihood!r}"
    )
