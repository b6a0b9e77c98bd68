"""Build a posterior from the columns of a table, for the command line and the estimators.

The network has dense layers with one activation between them. Inputs and real targets are
standardized, and the likelihood suits the targets. The two front-ends share a `TabularModel`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Default(NamedTuple):
    """The default of an option in Python, the estimators and the command line, and its names.

    The name is an argument of `sample`, `Posterior`, `Converged` or `HMC`. A value is ``ABSENT`` if
    a front-end lacks the option.
    """

    python: Any
    estimator: Any
    command_line: Any
    estimator_name: str = ""
    command_line_name: str = ""
    why: str = ""
    """Why the values differ."""


ABSENT = "absent"
ONE_TABLE = "the front-ends build the model from the columns of one table"
DEFAULTS: dict[str, Default] = {
    # Model
    "hidden_layer_sizes": Default(
        ABSENT, (20,), (50,), why="estimators are fitted again and again"
    ),
    "activation": Default(ABSENT, "tanh", "tanh"),
    "weight_prior": Default(ABSENT, None, ABSENT),
    "bias_prior": Default(ABSENT, None, ABSENT),
    "prior": Default(
        ABSENT, ABSENT, "gaussian", why="one option for the priors of a whole network"
    ),
    "noise_sd": Default(ABSENT, None, ABSENT),
    "likelihood": Default(ABSENT, ABSENT, None, why=ONE_TABLE),
    "relevance": Default(ABSENT, False, False),
    "standardize": Default(False, ABSENT, ABSENT, why=ONE_TABLE),
    "dtype": Default("float32", "float32", ABSENT),
    # Sampling
    "chains": Default(4, 4, 4),
    "burn_in": Default(1000, 500, 500, why="standardized data need less"),
    "draws": Default(1000, 500, None, why="the command line continues until convergence"),
    "until": Default(None, "converged", ABSENT, why="Python gives exactly what you ask for"),
    "max_minutes": Default(None, 5.0, 10.0, why="a fit until convergence needs a limit"),
    "max_gradients": Default(None, ABSENT, None),
    "rhat": Default(1.01, ABSENT, None, why="the command line has those of `Converged`"),
    "ess": Default(400.0, ABSENT, None, why="the command line has those of `Converged`"),
    "sampler": Default(None, None, ABSENT),
    "target_acceptance": Default(0.9, ABSENT, 0.9),
    "validation": Default(None, ABSENT, 0.0, why="a share of the rows of the table"),
    "seed": Default(0, None, 0, "random_state", why="as all estimators of scikit-learn"),
    "path": Default(None, ABSENT, None, command_line_name="out"),
    "overwrite": Default(False, ABSENT, False),
    "progress": Default(True, False, False, "verbose", "quiet", "named by what they turn on"),
}
"""All defaults by name; a test compares them with the signatures and the flags."""


@dataclass(frozen=True, kw_only=True)
class TabularModel:
    """A model of the columns of a table.

    Without a `weight_prior`, each layer uses a `scaled_prior`. `noise_sd` is either the initial
    value of learned noise, in units of the targets' standard deviations, or known noise in the
    targets' units, one number for each target. A `likelihood` replaces the default one.
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

        All values are in the user's units. `y_sd` are standard deviations of the targets; `classes`
        is the number of classes, which are numbered from 0, or ``None`` for regression. Error
        messages call the inputs `inputs_name`.
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
    """A prior that keeps units of order one if their inputs are, for any number of inputs.

    Examples
    --------
    >>> scaled_prior(4)
    Normal(loc=0.0, scale=Hyper(start=0.5, prior=HalfNormal(scale=1.0)))
    """
    scale = 1 / math.sqrt(inputs)
    return Normal(0.0, Hyper(scale, HalfNormal(2 * scale)))
