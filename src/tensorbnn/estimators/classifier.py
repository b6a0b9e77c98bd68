"""`BNNClassifier`: classes with honest probabilities, the scikit-learn way."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from tensorbnn.estimators.base import LEARNED_NOISE, AbstractBNN
from tensorbnn.posterior import Posterior


class BNNClassifier(ClassifierMixin, AbstractBNN):  # type: ignore[misc]
    """Bayesian neural network for classes, as a scikit-learn estimator.

    Probabilities are averages over networks sampled from the posterior, so that they say less far
    from the data. Two classes have one output (`Bernoulli`), more have one each (`Categorical`).
    Inputs are standardized by themselves; `fit` samples and warns as that of `BNNRegressor`.

    Parameters
    ----------
    hidden, activation, weight_prior, bias_prior, relevance
        The network, as for `BNNRegressor`.
    chains, burn_in, draws, sampler, max_minutes
        How long chains are, as for `BNNRegressor`.
    until
        ``"converged"``: R-hat below 1.01 and an effective sample size of at least 400 of the
        probabilities at up to 100 rows of the training data. A `Converged` of your own, or
        ``None`` for exactly `draws`.
    dtype, random_state, verbose
        As for `BNNRegressor`.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of `predict_proba`.
    ensemble_ : Ensemble
        The sampled networks, with all that an `Ensemble` can do; its targets are places in
        `classes_`.
    diagnostics_, relevances_, n_features_in_, feature_names_in_
        As those of `BNNRegressor`.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> X = [[-2.0], [-1.5], [-1.0], [-0.5], [0.5], [1.0], [1.5], [2.0]]
    >>> y = ["low"] * 4 + ["high"] * 4
    >>> classifier = tb.BNNClassifier(hidden=(3,), burn_in=200, random_state=0).fit(X, y)
    >>> classifier.predict([[-3.0], [3.0]]).tolist(), classifier.classes_.tolist()
    (['low', 'high'], ['high', 'low'])
    >>> classifier.predict_proba([[0.0]]).shape
    (1, 2)
    """

    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = validate_data(self, X, y, dtype=np.float64)
        try:
            check_classification_targets(y)
        except TypeError as error:
            kinds = sorted({type(each).__name__ for each in np.ravel(y).tolist()})
            if len(kinds) == 1:
                raise
            raise TypeError(
                f"`y` must hold classes that can be sorted, but has values of the types {kinds}, "
                "which can't be compared: fill or remove those that are missing, or make all of "
                "them texts"
            ) from error
        return x, column_or_1d(y, warn=True)

    def _posterior(
        self, x: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None
    ) -> Posterior:
        self.classes_, places = np.unique(targets, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "a classifier needs at least two classes, but the rows that count have one class: "
                f"{self.classes_.tolist()[0]!r}"
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
        """The most probable class of each row, ``(rows,)``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probability of each class, ``(rows, classes)``: the mean over networks."""
        return self._shaped(self._predict(X).mean)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):  # a class that no network thinks of
            return np.log(self.predict_proba(X))

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[NDArray[Any], ...]:
        """Ends of the intervals that hold the probabilities of a row with probability `level`.

        Where networks differ, that is where there were too few data, they are wide.

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
        """Classes that were drawn, or probabilities ``(..., classes)`` that sum to one."""
        if are_targets:
            return self.classes_[values[..., 0].astype(np.intp)]
        values = values.astype(np.float64)
        if len(self.classes_) == 2:
            return np.concatenate([1 - values, values], axis=-1)
        return values / values.sum(axis=-1, keepdims=True)
