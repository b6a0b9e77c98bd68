"""What the regressor and the classifier share: the network and its chains."""

import numbers
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tensorbnn.checks import LARGEST_COUNT, check_count, is_whole
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS, TRAINING_POINTS
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.errors import OptionError
from tensorbnn.estimators.state import pack_state, unpack_state
from tensorbnn.findings import Agree, Verdict
from tensorbnn.inference.sampler import Sampler
from tensorbnn.messages import PYTHON, Raised, Words, listed, use_words
from tensorbnn.model.checks import DType, check_unmasked
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import ACTIVATION_NAMES, Layer
from tensorbnn.model.priors import Normal
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import begin_run
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.stopping import Until
from tensorbnn.tabular import TabularModel
from tensorbnn.warning import ConvergenceWarning, StoppedByLimit, StoppedInBurnIn, warn

# Initial value of learned noise, in units of the targets' standard deviation.
LEARNED_NOISE = Hyper(0.5)
# Maximum number of values that `sample_y` computes at a time.
MOST_VALUES = 2**24


@dataclass(frozen=True)
class FeatureWords(Words):
    """How a user of scikit-learn names columns."""

    features: Sequence[str]
    """Names of the columns of ``X``; empty if it has none."""

    def columns(self, argument: str, columns: Sequence[int], of: int) -> str:
        if argument == "x" and len(self.features):
            return listed([repr(str(self.features[column])) for column in columns])
        return super().columns("X" if argument == "x" else argument, columns, of)


class EstimatorConvergenceWarning(Raised, ConvergenceWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """The predictions of an estimator can't be trusted yet."""

    verdict: Verdict

    def message(self, words: Words = PYTHON) -> str:
        # Chains may agree and still have divergences, for example.
        found = [
            each.facts if isinstance(each, Agree) else each.message(words)
            for each in self.verdict.findings
        ]
        return (
            f"don't trust the predictions yet: {'; '.join(found)}. Give more `max_minutes`, "
            "`burn_in` or `draws`, or use a smaller network (`hidden_layer_sizes`)"
        )


@dataclass(eq=False, repr=False)
class AbstractBNN(BaseEstimator):  # type: ignore[misc]
    """Options, chains and pickling of an estimator; subclasses handle the targets."""

    hidden_layer_sizes: Sequence[int] | int = (20,)
    _: KW_ONLY
    activation: str | Layer = "tanh"
    weight_prior: Prior | None = None
    bias_prior: Prior | None = None
    relevance: bool = False
    chains: int = 4
    burn_in: int = 500
    draws: int = 500
    until: Until | Literal["converged"] | None = "converged"
    max_minutes: float | None = 5.0
    sampler: Sampler | None = None
    dtype: DType = "float32"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def __sklearn_is_fitted__(self) -> bool:
        # Feature names are set before sampling, so they don't mean that the estimator can predict.
        return hasattr(self, "ensemble_")

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """How much each input matters, for an estimator with `relevance`."""
        check_is_fitted(self)
        found = self.ensemble_.relevances
        if found is None:
            raise AttributeError(
                "`feature_importances_` is available after fit with relevance=True"
            )
        return np.asarray(found / found.sum())

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        y_sd: ArrayLike | None = None,
    ) -> Self:
        # Remove all results of an earlier fit, so that a failing fit can't mix with them.
        for name in ("ensemble_", "diagnosis_"):
            self.__dict__.pop(name, None)
        check_unmasked("X", X)  # scikit-learn would use the values beneath the mask
        check_unmasked("y", y)
        x, targets = self._rows(X, y)
        weights, sds = self._weights(x, sample_weight), self._deviations(targets, y_sd)
        if weights is not None:
            counts = weights > 0
            x, targets, weights = x[counts], targets[counts], weights[counts]
            sds = None if sds is None else sds[counts]
        at = x[:: -(-len(x) // TRAINING_POINTS)]
        self.ensemble_ = self._sample(self._posterior(x, targets, weights, sds), at)
        self.diagnosis_ = self.ensemble_.diagnose(at, progress=False)
        if not self.diagnosis_.verdict.converged:
            warn(EstimatorConvergenceWarning(self.diagnosis_.verdict))
        return self

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        noise: bool = True,
    ) -> NDArray[Any]:
        """Draw targets for new rows from the posterior.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        n_samples
            Number of samples. Each comes from a different network, chosen at random, as long as
            there are enough networks.
        random_state
            Seed of the choice, and of the noise or the classes.
        noise
            Whether to draw new targets, noise included. If false, you get predictions of networks:
            samples of the function for a regressor, of the probabilities for a classifier.

        Returns
        -------
        ndarray
            ``(rows, n_samples)``, or ``(rows, outputs, n_samples)`` for several outputs. A
            classifier returns classes ``(rows, n_samples)``, or without `noise` probabilities
            ``(rows, classes, n_samples)``.
        """
        rows, state = self._inputs(X), _generator(random_state)
        ensemble, wanted = self.ensemble_, check_count("n_samples", n_samples, least=1)
        chosen = state.choice(len(ensemble), wanted, replace=wanted > len(ensemble))
        parts = -(-rows.shape[0] * wanted * ensemble.network.outputs // MOST_VALUES)
        found = []
        for part in np.array_split(rows, parts):
            seed = int(state.randint(2**31 - 1)) if noise else None
            show = bool(self.verbose)
            found.append(ensemble._predict_networks(part, chosen, seed=seed, progress=show))
        samples = self._shaped(np.concatenate(found, axis=1), are_targets=noise)
        return np.moveaxis(samples, 0, -1)

    @abstractmethod
    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check the inputs and targets."""

    @abstractmethod
    def _posterior(
        self,
        x: NDArray[Any],
        targets: NDArray[Any],
        weights: NDArray[Any] | None,
        y_sd: NDArray[Any] | None,
    ) -> Posterior:
        """The posterior of the rows with nonzero weight."""

    @abstractmethod
    def _shaped(self, values: NDArray[Any], *, are_targets: bool = False) -> NDArray[Any]:
        """Outputs, or new targets, ``(..., columns)`` in the shape that the user expects."""

    def _sample(self, posterior: Posterior, at: NDArray[Any]) -> Ensemble:
        words = FeatureWords(getattr(self, "feature_names_in_", ()))
        with warnings.catch_warnings(), use_words(words):
            # The verdict already reports these.
            for kind in (StoppedByLimit, StoppedInBurnIn):
                warnings.simplefilter("ignore", kind)
            run, backend = begin_run(
                posterior,
                self.sampler,
                chains=self.chains,
                burn_in=self.burn_in,
                draws=check_count("draws", self.draws, least=LEAST_DRAWS),
                until=self._until(at),
                max_minutes=self.max_minutes,
                seed=int(_generator(self.random_state).randint(2**31 - 1)),
                diagnoses=1,
            )
            ensemble = run.run(backend, progress=bool(self.verbose))
        is_interrupted = run.store.manifest["status"] == "interrupted"
        if is_interrupted and ensemble.num_draws < LEAST_DRAWS:  # Ctrl-C came too early
            raise KeyboardInterrupt
        return ensemble

    def _until(self, at: NDArray[Any]) -> Until | None:
        """The stopping rule; none for a single chain with ``"converged"``."""
        if isinstance(self.until, str) and self.until == "converged":
            return None if self.chains == 1 else Converged(x=at, fraction=1.0)
        if isinstance(self.until, str) or not (
            self.until is None or callable(getattr(self.until, "estimate", None))
        ):
            raise ValueError(
                "`until` must be 'converged', None, or an object with `estimate(ensemble)` such as "
                f"tb.Converged(), got {self.until!r}"
            )
        return self.until

    def _model(self, noise_sd: Hyper | tuple[float, ...]) -> TabularModel:
        given: Any = self.hidden_layer_sizes
        sizes = (given,) if isinstance(given, numbers.Integral) else given
        # Not a generator or a set: it must end, and have the same order each time.
        known = isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str)
        if not known or not all(is_whole(u) and 1 <= u <= LARGEST_COUNT for u in sizes):
            raise ValueError(
                f"`hidden_layer_sizes` must be numbers of units such as (50, 50), got {given!r}"
            )
        if not isinstance(self.relevance, bool | np.bool_):
            raise ValueError(f"`relevance` must be True or False, got {self.relevance!r}")
        activation = self.activation
        is_name = isinstance(activation, str) and activation in ACTIVATION_NAMES
        if not isinstance(activation, Layer) and not is_name:
            names = sorted(ACTIVATION_NAMES)
            raise ValueError(f"`activation` must be a layer or one of {names}, got {activation!r}")
        return TabularModel(
            hidden_layer_sizes=tuple(int(units) for units in sizes),
            activation=activation,
            weight_prior=self.weight_prior,
            bias_prior=Normal(0.0, 1.0) if self.bias_prior is None else self.bias_prior,
            noise_sd=noise_sd,
            relevance=bool(self.relevance),
        )

    def _weights(self, x: NDArray[Any], sample_weight: ArrayLike | None) -> NDArray[Any] | None:
        """Check the weights of the rows; ``None`` if there are none."""
        if sample_weight is None:
            return None
        # One number for all rows, as in scikit-learn.
        if isinstance(sample_weight, numbers.Real) or getattr(sample_weight, "shape", None) == ():
            sample_weight = np.full(len(x), sample_weight)
        weights: NDArray[Any] = check_array(
            sample_weight,
            ensure_2d=False,
            dtype=np.float64,
            ensure_non_negative=True,
            input_name="sample_weight",
        )
        if weights.shape not in ((len(x),), (len(x), 1)):
            raise ValueError(
                f"`sample_weight` must be a number for each of the {len(x)} rows of `X`, or one "
                f"for all, got shape {weights.shape}"
            )
        if not np.any(weights):
            raise ValueError("all of `sample_weight` are zero: no row is left to learn from")
        return weights.ravel()

    def _deviations(
        self, targets: NDArray[Any], y_sd: ArrayLike | None
    ) -> NDArray[np.float64] | None:
        """Check the standard deviations of the targets, and return them in the targets' shape."""
        if y_sd is None:
            return None
        check_unmasked("y_sd", y_sd)
        sds: NDArray[Any] = check_array(y_sd, ensure_2d=False, dtype=np.float64, input_name="y_sd")
        if sds.size == targets.size and sds.shape[:1] == targets.shape[:1]:
            sds = sds.reshape(targets.shape)
        if sds.shape != targets.shape or not np.all(sds > 0):
            got = "values of 0 or below" if sds.shape == targets.shape else f"shape {sds.shape}"
            raise ValueError(
                "`y_sd` must be a positive standard deviation for each value of `y`, of shape "
                f"{targets.shape}, got {got}"
            )
        return sds

    def _predict(self, X: ArrayLike) -> Prediction:
        rows = self._inputs(X)  # first, since it checks that there is an ensemble
        return self.ensemble_.predict(rows, progress=bool(self.verbose))

    def _inputs(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        check_unmasked("X", X)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return pack_state(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(unpack_state(state))


def _generator(random_state: int | np.random.RandomState | None) -> np.random.RandomState:
    """The generator that scikit-learn makes from a `random_state`; an error names the option."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        wanted = "a whole number from 0 to 2**32 - 1, a RandomState or None"
        raise OptionError("random_state", wanted, random_state) from error
