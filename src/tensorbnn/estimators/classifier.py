"""`BNNClassifier`: classes with honest probabilities, the scikit-learn way."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from tensorbnn.estimators.base import LEARNED_NOISE, AbstractBNN


class BNNClassifier(ClassifierMixin, AbstractBNN):  # type: ignore[misc]
    """Bayesian neural network for classes, as a scikit-learn estimator.

    Probabilities are averages over networks sampled from the posterior, so that they say less far
    from the data. Two classes have one output (`Bernoulli`), more have one each (`Categorical`).
    Inputs are standardised by themselves; `fit` samples and warns as that of `BNNRegressor`.

    Parameters
    ----------
    hidden
        Units of each hidden layer.
    activation
        Activation after each hidden layer, by name in lower case or as a layer.
    weight_prior, bias_prior
        Priors of all weights and biases, in place of those of `BNNRegressor`.
    relevance
        Learn a scale for each input (`Relevance`): that of one that tells nothing becomes small.
    chains, burn_in, draws, sampler
        As in `sample`. With `until`, `draws` is the least number of networks of a chain.
    until
        ``"converged"``: R-hat below 1.01 and an effective sample size of at least 400 of the
        probabilities at up to 100 rows of the training data. A `Converged` of your own, or
        ``None`` for exactly `draws`.
    max_minutes
        When `fit` ends at the latest, whether probabilities are known well or not. Results depend
        on the clock where this is what ends it, and on `random_state` alone otherwise.
    dtype
        ``"float32"`` or ``"float64"``.
    random_state
        Seed of the chains, as everywhere in scikit-learn: the same number gives the same networks.
    verbose
        Show progress.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of `predict_proba`.
    ensemble_ : Ensemble
        The sampled networks, with all that an `Ensemble` can do; its targets are places in
        `classes_`.
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
    >>> import tensorbnn as tb
    >>> X = [[-2.0], [-1.5], [-1.0], [-0.5], [0.5], [1.0], [1.5], [2.0]]
    >>> y = ["low"] * 4 + ["high"] * 4
    >>> classifier = tb.BNNClassifier(hidden=(3,), burn_in=200, random_state=0).fit(X, y)
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
            Classes ``(rows,)``: numbers, texts, or whatever can be sorted.
        sample_weight
            How often each row counts, ``(rows,)``: the power of its likelihood. One number for all.
        """
        self._begin(X, y)
        x, y = validate_data(self, X, y, dtype=np.float64)
        _check_classes(y)
        labels = column_or_1d(y, warn=True)
        weights = self._weights(x, sample_weight)
        if weights is not None:
            x, labels, weights = (each[weights > 0] for each in (x, labels, weights))
        self.classes_, places = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "a classifier needs at least two classes, but the rows that count have one class: "
                f"{self.classes_.tolist()[0]!r}"
            )
        posterior = self._model(LEARNED_NOISE).posterior(
            x,
            places[:, None],
            sample_weight=weights,
            classes=count,
            dtype=self.dtype,
            inputs_name="X",
        )
        return self._fit(posterior, x)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, ``(rows,)``."""
        places = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[places]
        return chosen

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probability of each class, ``(rows, classes)``: the mean over networks."""
        return self._probabilities(self._predict(X).mean)

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

    def sample_predictions(
        self,
        X: ArrayLike,
        samples: int | None = None,
        *,
        noise: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> NDArray[Any]:
        """What single networks say about new rows: their probabilities, or classes drawn by them.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        samples
            Number of networks, chosen at random. Left out, all, chain after chain.
        noise
            Draw classes.
        random_state
            Seed of the choice and of the classes.

        Returns
        -------
        ndarray
            Probabilities ``(samples, rows, classes)``, or with `noise` classes ``(samples, rows)``.
        """
        found = self._from_networks(X, samples, noise=noise, random_state=random_state)
        if not noise:
            return self._probabilities(found)
        classes: NDArray[Any] = self.classes_[found[:, :, 0].astype(np.intp)]
        return classes

    def _probabilities(self, values: NDArray[Any]) -> NDArray[Any]:
        """Predictions ``(..., outputs)`` as probabilities ``(..., classes)`` that sum to one."""
        values = values.astype(np.float64)
        if len(self.classes_) == 2:
            return np.concatenate([1 - values, values], axis=-1)
        return values / values.sum(axis=-1, keepdims=True)


def _check_classes(y: ArrayLike) -> None:
    try:
        check_classification_targets(y)
    except TypeError as error:
        kinds = sorted({type(each).__name__ for each in np.ravel(y).tolist()})
        if len(kinds) == 1:
            raise
        raise TypeError(
            f"`y` must hold classes that can be sorted, but has values of the types {kinds}, which "
            "can't be compared: fill or remove those that are missing, or make all of them texts"
        ) from error
