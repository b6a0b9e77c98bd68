"""`BNNRegressor`: regression with uncertainties, as a scikit-learn estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

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
    """Bayesian neural network for regression, as a scikit-learn estimator.

    Inputs and targets are standardized internally. `fit` samples networks from the posterior with
    several chains until their predictions for the training data are precise enough, and warns if
    they are not. The weights of a layer with ``n`` inputs have the prior ``N(0, s)`` with
    ``s ~ HalfNormal(2 / sqrt(n))``, biases have ``N(0, 1)``.

    Parameters
    ----------
    hidden_layer_sizes
        Number of units in each hidden layer.
    activation
        Activation after each hidden layer: a lower-case name such as ``"tanh"`` or ``"relu"``, or a
        layer.
    noise_sd
        Known standard deviation of the noise in units of `y`: one number, or one for each output.
        If ``None``, it is learned, for each output separately.
    weight_prior, bias_prior
        Priors of all weights and biases, instead of those above.
    relevance
        Learn a scale for each input (`Relevance`); see `feature_importances_`.
    chains, burn_in, draws, sampler
        As in `sample`. With `until`, `draws` is the minimum number of draws per chain.
    until
        When to stop. ``"converged"``: as soon as R-hat is below 1.01 and the effective sample size
        at least 400 for the predictions at up to 100 rows of the training data. Or pass a
        `Converged`, another object with ``estimate(ensemble)``, or ``None`` to stop at `draws`.
    max_minutes
        Stop after this many minutes, converged or not. If this limit ends the fit, the result
        depends on the speed of the machine; otherwise only on `random_state`.
    dtype
        ``"float32"`` or ``"float64"``.
    random_state
        Seed of the chains. The same integer gives the same networks.
    verbose
        Show progress.

    Attributes
    ----------
    ensemble_ : Ensemble
        The sampled networks.
    diagnosis_ : Diagnosis
        R-hat, effective sample sizes and a verdict, at up to 100 rows of the training data.
    feature_importances_ : array
        With `relevance`: how much each input matters, as the median of its scale. They sum to one.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : array
        Names of the inputs, if `X` has column names.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> y = 100 + 20 * X[:, 0] + np.random.default_rng(0).normal(size=30)
    >>> regressor = tb.BNNRegressor(hidden_layer_sizes=(5,), burn_in=200, random_state=0).fit(X, y)
    >>> mean, sd = regressor.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 110) < 1), bool(0.7 < sd[0] < 1.5)
    (True, True)
    """

    noise_sd: float | Sequence[float] | None = field(default=None, kw_only=True)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        y_sd: ArrayLike | None = None,
    ) -> Self:
        """Sample networks from the posterior.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        y
            Targets ``(rows,)`` or ``(rows, outputs)``.
        sample_weight
            Weights of the rows ``(rows,)``, or one number for all: the likelihood of a row is
            raised to the power of its weight. A row with weight 2 counts as two rows.
        y_sd
            Known standard deviations of the targets (error bars), of the shape of `y`. They are
            used instead of a learned noise; with `noise_sd`, the variances add.
        """
        return self._fit(X, y, sample_weight, y_sd)

    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        x, targets = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        if targets.dtype.kind not in "fiub":
            raise ValueError(
                f"`y` must hold numbers, got an array of type {targets.dtype}: use BNNClassifier "
                "for classes"
            )
        assert_all_finite(targets, input_name="y")  # None became NaN just now
        return x, targets

    def _posterior(
        self,
        x: NDArray[Any],
        targets: NDArray[Any],
        weights: NDArray[Any] | None,
        y_sd: NDArray[Any] | None,
    ) -> Posterior:
        self._flat = targets.ndim == 1
        columns = targets[:, None] if self._flat else targets
        if y_sd is not None:
            y_sd = y_sd.reshape(columns.shape)
        noise_sd = LEARNED_NOISE if self.noise_sd is None else self._known_sds(columns.shape[1])
        return self._model(noise_sd).posterior(
            x, columns, y_sd=y_sd, sample_weight=weights, dtype=self.dtype, inputs_name="X"
        )

    def predict(
        self, X: ArrayLike, return_std: bool = False, *, noise: bool = True
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Predict the mean of the targets, and its standard deviation.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        return_std
            Whether to return standard deviations too.
        noise
            Whether they are for a new target and include both network uncertainty and noise (as in
            `BayesianRidge`). If false, they are for its expected value and shrink with more data.

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
        """Predict an interval that contains a new target with probability `level`.

        Its ends are quantiles of the mixture of all networks, exact up to rounding. The
        probabilities below and above it are equal.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        level
            Probability of the interval.
        noise
            Whether the interval is for a new target, or for its expected value.

        Returns
        -------
        tuple of ndarray
            Lower and upper ends, each of the shape of `y`.
        """
        lower, upper = self._predict(X).interval(level, noise=noise)
        return self._shaped(lower), self._shaped(upper)

    def _known_sds(self, outputs: int) -> tuple[float, ...]:
        """The known noise of each output, in units of `y`."""
        given = np.ravel(np.asarray(self.noise_sd, object)).tolist()
        if not all(is_number(each) and each > 0 for each in given):
            raise ValueError(
                "`noise_sd` must be a positive number, one for each output, or None, got "
                f"{self.noise_sd!r}"
            )
        if len(given) not in (1, outputs):
            raise ValueError(
                f"`noise_sd` has {len(given)} numbers, but `y` has {outputs} columns: give one "
                "for each, or one for all"
            )
        return tuple(map(float, given)) * (1 if len(given) == outputs else outputs)

    def _shaped(self, values: NDArray[Any], *, are_targets: bool = False) -> NDArray[Any]:
        return values[..., 0] if self._flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
