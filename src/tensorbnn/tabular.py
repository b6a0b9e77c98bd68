"""From the columns of a table to a posterior, for the command line and the estimators.

Dense layers with one activation between them, standardized inputs and real targets, and a
likelihood that suits the targets. The two front-ends differ only in the values of a `TabularModel`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.model.checks import DType
from tensorbnn.model.discrete import Bernoulli, Categorical
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import Dense, Layer, Relevance
from tensorbnn.model.likelihoods import Gaussian, Likelihood, for_each_column
from tensorbnn.model.network import Network
from tensorbnn.model.noise import MeasuredGaussian
from tensorbnn.model.priors import HalfNormal, Normal
from tensorbnn.model.scaling import standardization
from tensorbnn.posterior import Posterior


@dataclass(frozen=True, kw_only=True)
class TabularModel:
    """A model of the columns of a table.

    Without a `weight_prior`, each layer has its `scaled_prior`. `noise_sd` is the start of learned
    noise, in units of the targets' standard deviations, or known noise in the targets' units, one
    number for each target. A `likelihood` replaces the one that is chosen by the targets.
    """

    hidden_layer_sizes: tuple[int, ...]
    activation: Layer | str
    weight_prior: Prior | None
    bias_prior: Prior
    noise_sd: Hyper | tuple[float, ...]
    relevance: bool = False
    likelihood: Likelihood | None = None

    def posterior(
        self,
        x: NDArray[np.float64],
        y: NDArray[Any],
        *,
        y_sd: NDArray[np.float64] | None = None,
        sample_weight: NDArray[np.float64] | None = None,
        classes: int | None = None,
        dtype: DType = "float32",
        inputs_name: str = "x",
    ) -> Posterior:
        """The posterior of rows ``x`` and targets ``y``, each ``(rows, columns)``.

        All in the user's units. `y_sd` are standard deviations of the targets; `classes` is the
        number of classes, which are numbered from 0, or ``None`` for regression. Errors call the
        inputs `inputs_name`.
        """
        targets = y.shape[1]
        likelihood = self.likelihood
        if likelihood is None:
            start = self.noise_sd if isinstance(self.noise_sd, Hyper) else 1.0
            likelihood = Gaussian(sd=for_each_column(start, targets))
            if y_sd is not None and isinstance(self.noise_sd, Hyper):
                likelihood = MeasuredGaussian()
            elif classes is not None:
                likelihood = Bernoulli() if classes == 2 else Categorical()
        scaling = standardization(
            x, y, targets=likelihood.real_targets, weights=sample_weight, inputs_name=inputs_name
        )
        if isinstance(likelihood, Gaussian) and isinstance(self.noise_sd, tuple):
            known = [sd / unit for sd, unit in zip(self.noise_sd, scaling.y_scale, strict=True)]
            likelihood = Gaussian(sd=known[0] if targets == 1 else known)
        outputs = likelihood.outputs_per_column * targets
        if isinstance(likelihood, Categorical) and classes is not None:
            outputs = classes
        layers: list[Layer | str] = [Relevance()] if self.relevance else []
        before = x.shape[1]
        for units in (*self.hidden_layer_sizes, outputs):
            prior = scaled_prior(before) if self.weight_prior is None else self.weight_prior
            layers += [Dense(units, prior, self.bias_prior), self.activation]
            before = units
        network = Network(*layers[:-1], inputs=x.shape[1])
        return Posterior(
            network,
            likelihood,
            x,
            y,
            y_sd=y_sd,
            sample_weight=sample_weight,
            standardize=scaling,
            dtype=dtype,
        )


def scaled_prior(inputs: int) -> Normal:
    """A prior under which units are of order one if their inputs are, whatever their number.

    Examples
    --------
    >>> scaled_prior(4)
    Normal(loc=0.0, scale=Hyper(start=0.5, prior=HalfNormal(scale=1.0)))
    """
    scale = 1 / math.sqrt(inputs)
    return Normal(0.0, Hyper(scale, HalfNormal(2 * scale)))
