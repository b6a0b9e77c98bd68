"""`BNNClassifier`: classification with uncertainties, as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from tensorbnn.estimators.base import LEARNED_NOISE, AbstractBNN
from tensorbnn.posterior import Posterior


class BNNClassifier(ClassifierMixin, AbstractBNN):  # type: ignore[misc]
    """Bayesian neural network for classification, as a scikit-learn estimator.

    Probabilities are averages over networks sampled from the posterior, so that they are less
    certain far from the data. Two classes share one output (`Bernoulli`), more classes have one
    output each (`Categorical`). Inputs are standardized internally; `fit` samples and warns in the
    same way as `BNNRegressor`.

    Parameters
    ----------
    hidden_layer_sizes, activation, weight_prior, bias_prior, relevance
        The network, as for `BNNRegressor`.
    chains, burn_in, draws, sampler, max_minutes
        How long to sample, as for `BNNRegressor`.
    until
        When to stop, as for `BNNRegressor`; ``"converged"`` compares probabilities.
    dtype, random_state, verbose
        As for `BNNRegressor`.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of `predict_proba`.
    ensemble_ : Ensemble
        The sampled networks; its targets are indices into `classes_`.
    diagnosis_, feature_importances_, n_features_in_, feature_names_in_
        As for `BNNRegressor`.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> X = [[-2.0], [-1.5], [-1.0], [-0.5], [0.5], [1.0], [1.5], [2.0]]
    >>> y = ["low"] * 4 + ["high"] * 4
    >>> classifier = tb.BNNClassifier(hidden_layer_sizes=(3,), burn_in=200, random_state=0).fit(
    ...     X, y
    ... )
    >>> classifier.predict([[-3.0], [3.0]]).tolist(), classifier.classes_.tolist()
    (['low', 'high'], ['high', 'low'])
    >>> classifier.predict_proba([[0.0]]).shape
    (1, 2)
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Sample networks from the posterior.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        y
            Classes ``(rows,)``: numbers, strings, or other values that can be sorted.
        sample_weight
            Weights of the rows ``(rows,)``, or one number for all, as for `BNNRegressor`.
        """
        return self._fit(X, y, sample_weight)

    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = validate_data(self, X, y, dtype=np.float64)
        try:
            check_classification_targets(y)
        except TypeError as error:
            kinds = sorted({type(each).__name__ for each in np.ravel(y).tolist()})
            if len(kinds) == 1:
                raise
            raise TypeError(
                f"`y` must hold classes that can be sorted, but has values of the types {kinds}: "
                "fill or remove missing values, or convert all of them to strings"
            ) from error
        return x, column_or_1d(y, warn=True)

    def _posterior(
        self,
        x: NDArray[Any],
        targets: NDArray[Any],
        weights: NDArray[Any] | None,
        y_sd: NDArray[Any] | None,
    ) -> Posterior:
        self.classes_, places = np.unique(targets, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "a classifier needs at least two classes, but `y` has one class where weights are "
                f"above 0: {self.classes_.tolist()[0]!r}"
            )
        return self._model(LEARNED_NOISE).posterior(
            x,
            places[:, None],
            sample_weight=weights,
            classes=count,
            dtype=self.dtype,
            inputs_name="X",
        )

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class of each row, ``(rows,)``."""
        probabilities = self.predict_proba(X)  # first, since it checks that the estimator is fitted
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the probability of each class, ``(rows, classes)``: the mean over networks."""
        return self._shaped(self._predict(X).mean)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):  # a class with probability 0 in all networks
            return np.log(self.predict_proba(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[NDArray[Any], ...]:
        """Predict intervals that contain the class probabilities with probability `level`.

        They are wide where the networks disagree, for example because data are sparse.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        level
            Probability of each interval.

        Returns
        -------
        tuple of ndarray
            Lower and upper ends, each ``(rows, classes)``.
        """
        lower, upper = self._predict(X).interval(level)
        if len(self.classes_) == 2:
            return np.hstack([1 - upper, lower]), np.hstack([1 - lower, upper])
        return lower, upper

    def _shaped(self, values: NDArray[Any], *, are_targets: bool = False) -> NDArray[Any]:
        """New classes, or probabilities ``(..., classes)`` that sum to one."""
        if are_targets:
            return self.classes_[values[..., 0].astype(np.intp)]
        values = values.astype(np.float64)
        if len(self.classes_) == 2:
            return np.concatenate([1 - values, values], axis=-1)
        return values / values.sum(axis=-1, keepdims=True)
