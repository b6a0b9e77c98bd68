"""What regressor and classifier share: the network that their options describe, and its chains."""

import numbers
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tensorbnn.checks import check_count, is_whole
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.errors import LimitBeforeDrawsError, RunError, SamplingError
from tensorbnn.estimators.state import pack, unpack
from tensorbnn.findings import Agree
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import DType, check_unmasked
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import ACTIVATION_NAMES, Layer
from tensorbnn.model.priors import Normal
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import sample
from tensorbnn.sampling.converged import TRAINING_POINTS, Converged
from tensorbnn.tabular import TabularModel
from tensorbnn.warning import StoppedByLimit, warn

# Where learned noise starts, in units of the targets' standard deviation.
LEARNED_NOISE = Hyper(0.5)
# Draws of a chain that a diagnosis looks at: more say the same and take minutes.
MOST_DIAGNOSED = 5000
# Values of all networks that are kept at a time where some of the networks are asked for.
MOST_VALUES = 2**24


@dataclass(eq=False, repr=False)
class AbstractBNN(BaseEstimator):  # type: ignore[misc]
    """Options, chains and pickles of an estimator; subclasses know what targets are."""

    hidden: Sequence[int] | int = (20,)
    _: KW_ONLY
    activation: str | Layer = "tanh"
    weight_prior: Prior | None = None
    bias_prior: Prior | None = None
    relevance: bool = False
    chains: int = 4
    burn_in: int = 500
    draws: int = 500
    until: Converged | Literal["converged"] | None = "converged"
    max_minutes: float | None = 5.0
    sampler: Sampler | None = None
    dtype: DType = "float32"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def __sklearn_is_fitted__(self) -> bool:
        # Names of features are set before anything is sampled: they alone predict nothing.
        return hasattr(self, "ensemble_")

    @property
    def relevances_(self) -> NDArray[Any]:
        """How much each input matters, of an estimator with `relevance`."""
        check_is_fitted(self)
        found = self.ensemble_.relevances
        if found is None:
            raise AttributeError("`relevances_` are there after a fit with relevance=True")
        return found

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Sample networks from the posterior.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        y
            Targets ``(rows,)`` or ``(rows, outputs)``; for a classifier classes ``(rows,)``:
            numbers, texts, or whatever can be sorted.
        sample_weight
            How often each row counts, ``(rows,)``: the power of its likelihood. One number for all.
        """
        # Nothing is left of an earlier fit, so that one that fails can't mix with it.
        for name in ("ensemble_", "diagnostics_"):
            self.__dict__.pop(name, None)
        check_unmasked("X", X)  # scikit-learn would take what is beneath the mask
        check_unmasked("y", y)
        x, targets = self._rows(X, y)
        weights = self._weights(x, sample_weight)
        if weights is not None:
            x, targets, weights = (each[weights > 0] for each in (x, targets, weights))
        at = x[:: -(-len(x) // TRAINING_POINTS)]
        self.ensemble_ = self._sample(self._posterior(x, targets, weights), at)
        every = -(-self.ensemble_.num_draws // MOST_DIAGNOSED)
        self.diagnostics_ = self.ensemble_.diagnose(at, every=every, progress=False)
        if not self.diagnostics_.trustworthy:
            # Chains may agree, but have seen divergences, say.
            findings = self.diagnostics_.verdict.findings
            found = [each.facts if isinstance(each, Agree) else str(each) for each in findings]
            said = (
                f"don't trust the predictions yet: {'; '.join(found)}; more `max_minutes`, "
                "`burn_in` or `draws`, or a smaller `hidden`, are options of this estimator"
            )
            warn(ConvergenceWarning(said))
        return self

    def sample_predictions(
        self,
        X: ArrayLike,
        samples: int | None = None,
        *,
        noise: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> NDArray[Any]:
        """What single networks say about new rows.

        For a regressor draws of the function, or of new targets; for a classifier probabilities, or
        classes drawn by them.

        Parameters
        ----------
        X
            Inputs ``(rows, inputs)``.
        samples
            Number of networks, chosen at random. Left out, all, chain after chain.
        noise
            Add noise, to have new targets, or draw classes.
        random_state
            Seed of the choice, and of the noise or the classes.

        Returns
        -------
        ndarray
            ``(samples, rows)``, or ``(samples, rows, outputs)``; of a classifier probabilities
            ``(samples, rows, classes)``, or with `noise` classes ``(samples, rows)``.
        """
        rows, state = self._inputs(X), check_random_state(random_state)
        ensemble, show, chosen = self.ensemble_, bool(self.verbose), None
        count = len(ensemble)
        if samples is not None:
            wanted = check_count("samples", samples, least=1)
            chosen = state.choice(count, wanted, replace=wanted > count)
        parts = -(-rows.shape[0] * count * ensemble.network.outputs // MOST_VALUES)
        found = []
        for part in np.array_split(rows, parts):
            seed = int(state.randint(2**31 - 1)) if noise else None
            if chosen is not None:
                found.append(ensemble._predict_networks(part, chosen, seed=seed, progress=show))
            elif seed is not None:
                found.append(ensemble.new_targets(part, seed=seed))
            else:
                found.append(ensemble.predict(part, progress=show).networks)
        return self._shaped(np.concatenate(found, axis=1), are_targets=noise)

    @abstractmethod
    def _rows(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Inputs and targets, checked."""

    @abstractmethod
    def _posterior(
        self, x: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None
    ) -> Posterior:
        """The posterior of rows that count."""

    @abstractmethod
    def _shaped(self, values: NDArray[Any], *, are_targets: bool = False) -> NDArray[Any]:
        """Outputs, or targets that were drawn, ``(..., columns)`` as a user sees them."""

    def _sample(self, posterior: Posterior, at: NDArray[Any]) -> Ensemble:
        try:
            with warnings.catch_warnings():
                # What they fall short of is in the verdict.
                warnings.simplefilter("ignore", StoppedByLimit)
                ensemble = sample(
                    posterior,
                    self.sampler,
                    chains=self.chains,
                    burn_in=self.burn_in,
                    draws=check_count("draws", self.draws, least=LEAST_DRAWS),
                    until=self._until(at),
                    max_minutes=self.max_minutes,
                    seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
                    progress=bool(self.verbose),
                )
        except LimitBeforeDrawsError as error:
            raise self._too_short() from error
        if ensemble.num_draws < LEAST_DRAWS:
            if ensemble._store.manifest["status"] == "interrupted":  # Ctrl-C has kept too little
                raise KeyboardInterrupt
            raise self._too_short()
        return ensemble

    def _too_short(self) -> RunError:
        return SamplingError(
            f"`max_minutes` ({self.max_minutes:g}) were over before chains had {LEAST_DRAWS} draws "
            "each, so that there is nothing to predict with: give more, or a smaller `hidden`, "
            "a shorter `burn_in` or fewer rows"
        )

    def _until(self, at: NDArray[Any]) -> Converged | None:
        """When chains end, besides their number of draws; one alone can't be compared."""
        if isinstance(self.until, str) and self.until == "converged":
            return None if self.chains == 1 else Converged(at=at, fraction=1.0)
        if self.until is not None and not isinstance(self.until, Converged):
            raise ValueError(
                f"`until` must be 'converged', None or a tb.Converged, got {self.until!r}"
            )
        return self.until

    def _model(self, noise: Hyper | tuple[float, ...]) -> TabularModel:
        given: Any = self.hidden
        hidden = (given,) if isinstance(given, numbers.Integral) else given
        # Something that ends, and has the same order each time: no generator, no set.
        known = isinstance(hidden, Sequence | np.ndarray) and not isinstance(hidden, str)
        if not known or not all(is_whole(units) for units in hidden):
            raise ValueError(f"`hidden` must be numbers of units such as (50, 50), got {given!r}")
        if not isinstance(self.relevance, bool | np.bool_):
            raise ValueError(f"`relevance` must be True or False, got {self.relevance!r}")
        activation = self.activation
        is_name = isinstance(activation, str) and activation in ACTIVATION_NAMES
        if not isinstance(activation, Layer) and not is_name:
            names = sorted(ACTIVATION_NAMES)
            raise ValueError(f"`activation` must be a layer or one of {names}, got {activation!r}")
        return TabularModel(
            hidden=tuple(int(units) for units in hidden),
            activation=activation,
            weight_prior=self.weight_prior,
            bias_prior=Normal(0.0, 1.0) if self.bias_prior is None else self.bias_prior,
            noise=noise,
            relevance=bool(self.relevance),
        )

    def _weights(self, x: NDArray[Any], sample_weight: ArrayLike | None) -> NDArray[Any] | None:
        """Weights of rows, checked; ``None`` where all count once."""
        if sample_weight is None:
            return None
        # The same for all, as in scikit-learn.
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
            raise ValueError("all of `sample_weight` are zero: there is no row to learn from")
        return weights.ravel()

    def _predict(self, X: ArrayLike) -> Prediction:
        return self.ensemble_.predict(self._inputs(X), progress=bool(self.verbose))

    def _inputs(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        check_unmasked("X", X)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {name: pack(each) for name, each in super().__getstate__().items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: unpack(each) for name, each in state.items()})
