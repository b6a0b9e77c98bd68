"""`BNNRegressor`: numbers with an uncertainty, the scikit-learn way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import validate_data

from tensorbnn.checks import is_number
from tensorbnn.estimators.base import LEARNED_NOISE, AbstractBNN
from tensorbnn.posterior import Posterior


@dataclass(eq=False, repr=False)
class BNNRegressor(RegressorMixin, AbstractBNN):  # type: ignore[misc]
    """Bayesian neural network for numbers, as a scikit-learn estimator.

    Inputs and targets are standardized by themselves. `fit` samples networks from the posterior
    with several chains until their predictions for the training data (up to 100 rows) are known
    well, and warns with the verdict (`ConvergenceWarning`) where they are not. Weights of a layer
    with ``n`` inputs are ``N(0, s)`` with ``s ~ HalfNormal(2 / sqrt(n))``, biases ``N(0, 1)``.

    Parameters
    ----------
    hidden
        Units of each hidden layer.
    activation
        Activation after each hidden layer, by name in lower case or as a layer.
    noise
        Standard deviation of the noise in units of `y`, where it is known: one number, or one for
        each output. Left out, it is learned, that of each output by itself.
    weight_prior, bias_prior
        Priors of all weights and biases, in place of the above.
    relevance
        Learn a scale for each input (`Relevance`): that of one that tells nothing becomes small.
    chains, burn_in, draws, sampler
        As in `sample`. With `until`, `draws` is the least number of networks of a chain.
    until
        ``"converged"``: R-hat below 1.01 and an effective sample size of at least 400 at these rows
        of the training data. A `Converged` of your own, or ``None`` for exactly `draws`.
    max_minutes
        When `fit` ends at the latest, whether predictions are known well or not. Results depend on
        the clock where this is what ends it, and on `random_state` alone otherwise.
    dtype
        ``"float32"`` or ``"float64"``.
    random_state
        Seed of the chains, as everywhere in scikit-learn: the same number gives the same networks.
    verbose
        Show progress.

    Attributes
    ----------
    ensemble_ : Ensemble
        The sampled networks, with all that an `Ensemble` can do.
    diagnostics_ : Diagnosis
        R-hat, effective sample sizes and a verdict, at up to 100 rows of the training data.
    relevances_ : array
        With `relevance`: the scale of each input, its median, as a part of the largest.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : array
        Their names, where `X` had any.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> y = 100 + 20 * X[:, 0] + np.random.default_rng(0).normal(size=30)
    >>> regressor = tb.BNNRegressor(hidden=(5,), burn_in=200, random_state=0).fit(X, y)
    >>> mean, sd = regressor.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 110) < 1), bool(0.7 < sd[0] < 1.5)
    (True, True)
    """

    noise: float | Sequence[float] | None = field(default=None, kw_only=True)

    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        x, targets = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        if targets.dtype.kind not in "fiub":
            raise ValueError(
                f"`y` must hold numbers, got an array of type {targets.dtype}: for classes, there "
                "is BNNClassifier"
            )
        assert_all_finite(targets, input_name="y")  # None became NaN just now
        return x, targets

    def _posterior(
        self, x: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None
    ) -> Posterior:
        self._flat = targets.ndim == 1
        columns = targets[:, None] if self._flat else targets
        noise = LEARNED_NOISE if self.noise is None else self._noises(columns.shape[1])
        return self._model(noise).posterior(
            x, columns, sample_weight=weights, dtype=self.dtype, inputs_name="X"
        )

    def predict(
        self, X: ArrayLike, return_std: bool = False, *, noise: bool = True
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Mean of the targets of new rows, and how far they scatter around it.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        return_std
            Return standard deviations, too.
        noise
            Whether these are of a new target, networks and noise together (as those of
            `BayesianRidge`), or of its expected value: the part that more data would teach.

        Returns
        -------
        ndarray, or a tuple of two
            Means, or means and standard deviations, each of the shape of `y`.
        """
        prediction = self._predict(X)
        mean = self._shaped(prediction.mean)
        if not return_std:
            return mean
        return mean, self._shaped(prediction.sd_total if noise else prediction.sd)

    def predict_interval(
        self, X: ArrayLike, level: float = 0.95, *, noise: bool = True
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ends of the interval that holds a new target with probability `level`.

        Quantiles of the mixture of all networks, exact to rounding, with as much probability below
        as above.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        level
            Probability of the interval.
        noise
            Whether it is to hold a new target, or its expected value.

        Returns
        -------
        tuple of ndarray
            Lower and upper ends, each of the shape of `y`.
        """
        lower, upper = self._predict(X).interval(level, noise=noise)
        return self._shaped(lower), self._shaped(upper)

    def _noises(self, outputs: int) -> tuple[float, ...]:
        """The known noise of each output, in the units of `y`."""
        given = np.ravel(np.asarray(self.noise, object)).tolist()
        if not all(is_number(each) and each > 0 for each in given):
            raise ValueError(
                "`noise` must be a positive number, such numbers for each output, or None, got "
                f"{self.noise!r}"
            )
        if len(given) not in (1, outputs):
            raise ValueError(
                f"`noise` has {len(given)} numbers, but `y` has {outputs} columns: give one for "
                "each, or one number for all"
            )
        return tuple(map(float, given)) * (1 if len(given) == outputs else outputs)

    def _shaped(self, values: NDArray[Any], *, are_targets: bool = False) -> NDArray[Any]:
        return values[..., 0] if self._flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
