"""What `fit` samples: a network with its priors, and the likelihood that goes with the targets."""

import argparse
from typing import Any

from numpy.typing import NDArray

from tensorbnn.cli.expressions import learned_noise, read_likelihood, read_prior
from tensorbnn.model.classes import Bernoulli, Categorical
from tensorbnn.model.layers import ACTIVATIONS, Dense
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.measured import MeasuredGaussian
from tensorbnn.model.network import Network
from tensorbnn.model.relevance import Relevance
from tensorbnn.model.weighted import Weighted
from tensorbnn.posterior import Posterior
from tensorbnn.tables.encoding import Encoding


def make_posterior(
    options: argparse.Namespace, encoding: Encoding, x: NDArray[Any], y: NDArray[Any]
) -> Posterior:
    """The network and the likelihood that the options ask for, with training data."""
    prior = read_prior(options.prior)
    first = [Relevance()] if options.relevance else []
    hidden = [
        layer
        for units in options.hidden
        for layer in (Dense(units, prior, prior), ACTIVATIONS[options.activation]())
    ]
    likelihood = _likelihood(options.likelihood, encoding)
    outputs = likelihood.outputs_per_column * len(encoding.targets)
    if isinstance(likelihood, Categorical) and encoding.classes is not None:
        outputs = len(encoding.classes)
    network = Network(*first, *hidden, Dense(outputs, prior, prior), inputs=x.shape[1])
    return Posterior(network, likelihood, x, y, standardise=True)


def _likelihood(text: str | None, encoding: Encoding) -> Likelihood:
    if encoding.target_sds:
        return _measured(text)
    if text is not None:
        likelihood = read_likelihood(text, len(encoding.targets))
        if isinstance(likelihood, Weighted):
            raise ValueError(f"{text} needs a weight for each row, which only Python can give it")
        if encoding.classes is not None and not likelihood.predicts_classes:
            raise ValueError(f"{text} is a likelihood of numbers, but the target has classes")
        if isinstance(likelihood, MeasuredGaussian):
            raise ValueError(
                f"{text} takes the standard deviation of each target from the table: name its "
                "column with --target-sd, one for each --target"
            )
        if encoding.classes is None and likelihood.predicts_classes:
            raise ValueError(
                f"{text} is a likelihood of classes, but the target is a number: use --task "
                "classification"
            )
        if isinstance(likelihood, Bernoulli) and encoding.classes and len(encoding.classes) > 2:
            raise ValueError(
                f"{text} is a likelihood of two classes, but {encoding.targets[0]!r} has "
                f"{len(encoding.classes)}: use --likelihood categorical, or leave it out"
            )
        return likelihood
    if encoding.classes is None:
        return learned_noise(len(encoding.targets))
    return Bernoulli() if len(encoding.classes) == 2 else Categorical()


def _measured(text: str | None) -> MeasuredGaussian:
    likelihood = MeasuredGaussian() if text is None else read_likelihood(text)
    if not isinstance(likelihood, MeasuredGaussian):
        raise ValueError(
            f"--likelihood {text} does not go with --target-sd, which says how targets scatter: "
            "leave one of them out, or use --likelihood 'MeasuredGaussian(factor=Hyper(1))' to "
            "learn whether the standard deviations are too small or too large"
        )
    return likelihood
