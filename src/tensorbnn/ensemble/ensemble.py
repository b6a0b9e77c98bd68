"""The sampled networks: a point cloud that stands for the posterior."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.data import Dataset, Prepared, as_dataset, prepare
from tensorbnn.density import Model
from tensorbnn.ensemble.approximation import Approximation, read_approximation
from tensorbnn.ensemble.arviz import Groups, loo, to_datatree, waic
from tensorbnn.ensemble.diagnostics import Diagnosis, diagnose
from tensorbnn.ensemble.draws import find_data, find_draws, in_order, thinned
from tensorbnn.ensemble.fit_checks import MOST_NETWORKS, Fit
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.ratios import Side, both_sides, log_ratios
from tensorbnn.ensemble.reweight import Weights, other_posterior, warn_where_untrustworthy, weigh
from tensorbnn.ensemble.scores import ClassScores, Scores, score_classes, score_numbers
from tensorbnn.ensemble.sensitivity import Sensitivity, prepare_sweep
from tensorbnn.ensemble.statistics import autocorrelation, autocorrelation_time
from tensorbnn.ensemble.targets import log_likelihood, new_targets, noise_numbers
from tensorbnn.findings import WeightsUntrusted
from tensorbnn.inference.sampler import MAX_SEED, Sampler
from tensorbnn.model.checks import DType
from tensorbnn.model.layers import Relevance
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior
from tensorbnn.storage.manifest import restore_model, sampler_class
from tensorbnn.storage.store import Store

Pair = Dataset | tuple[ArrayLike, ArrayLike]

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData
    from xarray import DataTree


@final
class Ensemble:
    """Networks sampled from a posterior.

    Made by `sample`, `resume`, `load`, `load_original` and `fit_variational`.

    Methods that compute something take inputs `x` ``(rows, inputs)``, or ``(rows,)`` for a network
    with one input; ``thin=n``, to use only every n-th draw of each chain; ``progress=False``, to
    show no bar where they take longer than a second; the `seed` of the noise in new targets; and
    the training `data` ``(x, y)``, for a run that did not keep them.

    Attributes
    ----------
    network : Network
        The network that was sampled.
    likelihood : Likelihood
        Its likelihood.
    scaling : Scaling
        The shifts and scales by which data were standardized; none by default.
    dtype : str
        ``"float32"`` or ``"float64"``.
    num_chains, num_draws : int
        Number of chains, and of draws of each that all chains have.
    """

    def __init__(
        self,
        store: Store,
        network: Network,
        likelihood: Likelihood,
        dtype: DType,
        *,
        scaling: Scaling | None = None,
        sampler: type[Sampler] | None = None,
        skip_damaged: bool = False,
    ) -> None:
        self.network, self.likelihood = network, likelihood
        self.scaling = scaling or Scaling()
        self.dtype: DType = dtype
        self._store, self._sampler, self._skip_damaged = store, sampler, skip_damaged
        self._draws = find_draws(store, skip_damaged=skip_damaged)
        self._draws.check_shapes(network)
        self.num_chains = self._draws.chains

    @classmethod
    def _from_posterior(
        cls, store: Store, posterior: Posterior, sampler: Sampler | None = None
    ) -> "Ensemble":
        model = posterior.network, posterior.likelihood, posterior.dtype
        kind = sampler_class(store.manifest, {}) if sampler is None else type(sampler)
        return cls(store, *model, scaling=posterior.scaling, sampler=kind)

    @classmethod
    def _from_store(
        cls, store: Store, custom: Mapping[str, type], *, skip_damaged: bool = False
    ) -> "Ensemble":
        """Read the description of a run; `custom` holds the user's own classes by name."""
        manifest = store.manifest
        network, likelihood, scaling = restore_model(manifest, custom)
        model, sampler = (network, likelihood, manifest["dtype"]), sampler_class(manifest, custom)
        return cls(store, *model, scaling=scaling, sampler=sampler, skip_damaged=skip_damaged)

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        return self._draws.num_draws

    def refresh(self) -> "Ensemble":
        """See what a run that goes on has drawn meanwhile; returns the ensemble itself."""
        self._store.refresh()
        self._draws = find_draws(self._store, skip_damaged=self._skip_damaged)
        for name in ("parameters", "hyperparameters", "sample_stats"):
            self.__dict__.pop(name, None)
        return self

    @functools.cached_property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Network parameters by name, each ``(chains, draws, ...)``, in natural values."""
        return in_order(self._draws.read("parameters/"), self.network, self.likelihood)

    @functools.cached_property
    def hyperparameters(self) -> dict[str, NDArray[Any]]:
        """Hyper-parameters by name, each ``(chains, draws)``, in natural values."""
        return in_order(self._draws.read("hyperparameters/"), self.network, self.likelihood)

    @property
    def relevances(self) -> NDArray[Any] | None:
        """Median scales of the inputs over the largest, if the network begins with `Relevance`."""
        if not isinstance(self.network.layers[0], Relevance):
            return None
        medians = np.median(self.parameters["relevance_0.scales"], axis=(0, 1))
        return np.asarray(medians / medians.max())

    @functools.cached_property
    def sample_stats(self) -> dict[str, NDArray[Any]]:
        """What the sampler did for each draw, each ``(chains, draws)``.

        ``acceptance_rate`` (mean over the draw's transitions), ``diverging`` (whether one of them
        diverged), ``num_gradients`` (their sum); of the last of them ``lp``, ``energy``,
        ``step_size`` and ``energy_error``, ``energy_error_rms`` or ``kinetic_temperature``, as in
        `TransitionInfo`. Empty for an imported run.
        """
        found = self._statistics
        return found | {name: found[name] > 0 for name in {"diverging"} & set(found)}

    @functools.cached_property
    def _statistics(self) -> dict[str, NDArray[Any]]:
        """The statistics as they were saved, ``diverging`` as a number of transitions."""
        return self._draws.read("sample_stats/")

    @functools.cached_property
    def approximation(self) -> Approximation | None:
        """The density fitted by `fit_variational`; ``None`` for a sample of the posterior."""
        return read_approximation(self._store, self._model)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Reports of the run by chain and transition, burn-in included; read anew at each use.

        ``chain``, ``transition``, ``phase``; ``acceptance_rate``, ``divergences`` and
        ``num_gradients`` (a transition) since the report before; ``step_size``, ``lp``; each metric
        as ``training.<name>`` and ``validation.<name>``; ``seconds`` since the start. ``None``
        stands for what is not finite.
        """
        return self._store.reports(skip_damaged=self._skip_damaged)

    def predict(
        self, x: ArrayLike, *, weights: Weights | None = None, thin: int = 1, progress: bool = True
    ) -> Prediction:
        """Predict the rows of `x` with every network, or with every n-th of each chain.

        With the `weights` that `reweight` returned, those of the other model.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 5)
        >>> network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=50, draws=20, progress=False)
        >>> p = ensemble.predict(x)
        >>> p.mean.shape, p.samples.shape
        ((5, 1), (40, 5, 1))
        """
        rows = self._prepare(Dataset(x))
        thin = check_count("thin", thin, least=1)
        shares, likelihood = None, self.likelihood
        if weights is not None:
            shares, likelihood = self._thinned(weights, thin).ravel(), weights.likelihood
        return Prediction(
            self.network,
            likelihood,
            self.dtype,
            rows.inputs,
            functools.partial(self._draws.batches, thin),
            self.num_chains * len(range(0, self.num_draws, thin)),
            progress=progress,
            scaling=self.scaling,
            weights=shares,
        )

    def reweight(
        self,
        *,
        network: Network | None = None,
        likelihood: Likelihood | None = None,
        data: Pair | None = None,
        progress: bool = True,
    ) -> Weights:
        """Weights with which these networks stand for another prior, likelihood, or both.

        Parameters
        ----------
        network
            The same network with other priors or hyper-priors. A number may stand where the run
            has a `Hyper`, but not the other way round: a hyper-parameter that was not sampled can't
            be made up.
        likelihood
            Another likelihood of the same data, in the units of the model (standardized, where data
            were standardized).

        Returns
        -------
        Weights
            The weights, for `predict` and `diagnose`. A warning says where they can't be trusted
            (k-hat above ``min(1 - 1 / log10(networks), 0.7)``), and what to do.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 20)
        >>> network = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.5), x, x)
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=500, progress=False)
        >>> w = ensemble.reweight(likelihood=tb.Gaussian(sd=0.48))
        >>> w.trustworthy, bool(w.effective_size > 900)
        (True, True)
        >>> ensemble.predict(x, weights=w).mean.shape
        (20, 1)
        """
        other = other_posterior(self._model, self.scaling, network, likelihood).model
        sides = both_sides(self._model, other, held=self._held)
        ratios = self._log_ratios(sides, other.likelihood, data, progress=progress)
        weights = weigh(self._by_draw(ratios), other.likelihood)
        warn_where_untrustworthy(weights)
        return weights

    def sensitivity(
        self,
        x: ArrayLike,
        names: str | Sequence[str],
        values: ArrayLike,
        *,
        validation: Pair | None = None,
        data: Pair | None = None,
        thin: int = 1,
        progress: bool = True,
    ) -> Sensitivity:
        """How predictions at `x` move with a number of the prior or likelihood, by re-weighting.

        Parameters
        ----------
        names
            The number to move, such as ``"dense_0.weights.scale"``; several, or a pattern such as
            ``"*.weights.scale"``, are moved together. A hyper-parameter is moved as if it were a
            number; ``"dense_0.weights.scale.loc"`` is the center of its own prior.
        values
            The values to give it, ``(n,)``.
        validation
            Rows ``(x, y)`` that the run has not seen, to score each value by.

        Returns
        -------
        Sensitivity
            Means, sds, weights and evidences for each value, and the best of them; values at which
            the weights can't be trusted are marked. `plots.sensitivity` draws it.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 20)
        >>> layer = tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1))
        >>> posterior = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.5), x, 0.3 * x)
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=500, progress=False)
        >>> found = ensemble.sensitivity([1.0], "dense_0.weights.scale", [0.1, 0.3, 1.0, 3.0])
        >>> found.mean.shape, found.best().value
        ((4, 1, 1), 0.3)
        """
        sweep = prepare_sweep(self._model, names, values, held=self._held)
        moved = dict.fromkeys(sweep.names, sweep.values)
        # One that is not the run's own, where the likelihood is moved.
        others = (each for each in sweep.likelihoods if each != self.likelihood)
        other = next(others, self.likelihood)
        ratios = self._log_ratios(sweep.sides, other, data, progress=progress, moved=moved)
        weights = tuple(
            weigh(self._by_draw(own), likelihood)
            for own, likelihood in zip(ratios, sweep.likelihoods, strict=True)
        )

        def predictions(at: ArrayLike) -> Iterator[Prediction]:
            for own in weights:
                yield self.predict(at, weights=own, thin=thin, progress=progress)

        # One after the other: each prediction keeps what all networks say.
        moments, scores = [(each.mean, each.sd) for each in predictions(x)], None
        if validation is not None:
            rows = self._prepare(as_dataset("validation", validation)).dataset
            known = {"y_sd": rows.y_sd, "sample_weight": rows.sample_weight}
            each = predictions(rows.x)
            scores = np.array([own.log_score(rows.targets, **known) for own in each])
        mean, sd = (np.stack(each) for each in zip(*moments, strict=True))
        inputs = self._prepare(Dataset(x)).dataset.x
        return Sensitivity(sweep.names, sweep.values, inputs, mean, sd, weights, scores)

    def diagnose(
        self,
        x: ArrayLike,
        *,
        weights: Weights | None = None,
        thin: int = 1,
        names: Sequence[str] | None = None,
        progress: bool = True,
    ) -> Diagnosis:
        """Can the predictions at the rows of `x` be trusted? Numbers, and a verdict in words.

        With the `weights` that `reweight` returned, R-hat, effective sizes and errors are those of
        weighted means, quantiles and sds. The verdict calls each row of `x` by its name in `names`;
        by default by its inputs where these are three at most, by its number from 0 otherwise.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> prior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian())
        >>> ensemble = tb.sample(prior, chains=2, burn_in=200, draws=1000, progress=False)
        >>> d = ensemble.diagnose([-1.0, 0.0, 1.0])
        >>> d.rhat.shape, d.ess.shape, d.mcse_mean.shape
        ((3, 1), (3, 1), (3, 1))
        """
        points = self._prepare(Dataset(x, names=names)).dataset
        fit = self._fit()
        return diagnose(
            self._by_chain(x, thin=thin, progress=progress),
            self._statistics,
            points=points,
            hyperparameters=thinned(self.hyperparameters, thin),
            weights=None if weights is None else self._thinned(weights, thin),
            untrusted=None
            if weights is None or weights.trustworthy
            else WeightsUntrusted(weights.pareto_k, weights.pareto_k_limit),
            sampler=self._sampler,
            approximation=None if self.approximation is None else self.approximation.finding,
            about_data=fit.about_data(),
            about_fit=fit.about_fit,
        )

    def autocorrelation(
        self, x: ArrayLike, max_lag: int = 75, *, thin: int = 1, progress: bool = True
    ) -> NDArray[Any]:
        """Normalized autocorrelation of the predictions, averaged over the rows of `x`.

        ``rho(n) = C(n) / C(0)``, ``C(n) = 1 / (N - n) sum_i (f_i - fbar) (f_{i+n} - fbar)`` over
        the draws of a chain, averaged over chains; ``fbar`` is the mean over all networks.

        Returns
        -------
        ndarray
            ``rho(n)`` for lags ``n`` of 0 to `max_lag`, ``(max_lag + 1, outputs)``. Rows whose
            prediction never changes have none and are left out.
        """
        max_lag = check_count("max_lag", max_lag, least=1)
        return autocorrelation(self._by_chain(x, thin=thin, progress=progress), max_lag)

    def autocorrelation_time(
        self, x: ArrayLike, max_lag: int | None = None, *, thin: int = 1, progress: bool = True
    ) -> NDArray[Any]:
        """Integrated autocorrelation length of the predictions, averaged over the rows of `x`.

        ``1 + 2 sum_n rho(n)`` over lags up to the first that is at least five times the sum so far;
        ``predict(x, thin=n)`` with ``n`` of about this length gives nearly independent networks.

        Lags are looked at up to `max_lag`, half the number of draws by default; a warning says so
        where the correlation had not died down by then. Returns draws for each output,
        ``(outputs,)``.
        """
        max_lag = None if max_lag is None else check_count("max_lag", max_lag, least=1)
        return autocorrelation_time(self._by_chain(x, thin=thin, progress=progress), max_lag)

    def evaluate(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        y_sd: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        level: float = 0.9,
        thin: int = 1,
        seed: int = 0,
        progress: bool = True,
    ) -> Scores | ClassScores:
        """How well the ensemble predicts targets that it has not seen.

        `Scores` for numbers, `ClassScores` for a likelihood of probabilities (with a sigmoid or
        softmax as its link, such as `Bernoulli` and `Categorical`).

        Parameters
        ----------
        y
            Their targets, as for `Posterior`.
        y_sd
            Error bars of the targets, as for `Posterior`. New targets then scatter by them, too.
        sample_weight
            Weights of the rows ``(rows,)``, by which all scores are averaged.
        level
            What fraction of targets the intervals should hold whose coverage is computed.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 11)
        >>> posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.1), x, x)
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=200, progress=False)
        >>> scores = ensemble.evaluate([-0.5, 0.5], [-0.5, 0.5])
        >>> bool(scores.rmse[0] < 0.1), scores.coverage
        (True, array([1.]))
        """
        rows = self._prepare(Dataset(x, y, y_sd=y_sd, sample_weight=sample_weight))
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        known = rows.dataset
        prediction = self.predict(known.x, thin=thin, progress=progress)
        if self.likelihood.predicts_classes:
            return score_classes(prediction, known)

        def draw(own: slice) -> NDArray[Any]:
            return self._new_targets(rows.take(own), thin=thin, seed=seed, first_row=own.start)

        return score_numbers(prediction, known, draw, level=level, seed=seed)

    def posterior_predictive(self, x: ArrayLike, *, thin: int = 1, seed: int = 0) -> NDArray[Any]:
        """A new target from each network for each row of `x`, each with noise of its own.

        Returns
        -------
        ndarray
            Targets ``(networks, rows, columns)`` as they are given to `Posterior`: numbers in your
            units, class labels for `Categorical`; networks in the order of `Prediction.samples`.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> prior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Bernoulli())
        >>> ensemble = tb.sample(prior, chains=2, burn_in=20, draws=50, progress=False)
        >>> ensemble.posterior_predictive([-1.0, 0.0, 1.0]).shape
        (100, 3, 1)
        """
        rows = self._prepare(Dataset(x))
        thin = check_count("thin", thin, least=1)
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        return self._new_targets(rows, thin=thin, seed=seed)

    def _predict_networks(
        self, x: ArrayLike, places: NDArray[np.intp], *, seed: int | None, progress: bool
    ) -> NDArray[Any]:
        """What the networks at `places` predict, ``(places, rows, outputs)``, or with `seed` draw.

        As in `Prediction.samples` and `new_targets`, to rounding, without the cost of all others.
        A network that comes again draws with noise of its own.
        """
        rows = self._prepare(Dataset(x))
        if seed is not None:
            batches, numbers = [self._draws.take(places)], noise_numbers(places, len(self))
            found = new_targets(self.network, batches, rows, seed=seed, numbers=numbers)
            return self.scaling.natural(found)
        places, back = np.unique(places, return_inverse=True)
        batch = self._draws.take(places)
        prediction = Prediction(
            *(self.network, self.likelihood, self.dtype, rows.inputs, lambda: [batch], len(places)),
            progress=progress,
            scaling=self.scaling,
        )
        return prediction.samples[back]

    def to_arviz(
        self,
        x: ArrayLike | None = None,
        *,
        data: Pair | None = None,
        thin: int = 1,
        seed: int = 0,
        progress: bool = True,
    ) -> "DataTree":
        """The ensemble as ArviZ's standard container, a `DataTree`.

        Its groups: ``posterior`` (parameters and hyper-parameters by name), ``sample_stats``,
        ``predictions`` (``f``, the expected targets at `x`), ``log_likelihood`` (``y``, a number
        for each training row), ``posterior_predictive`` (``y``, a new target for each training row,
        if the likelihood can `sample`), ``observed_data`` and ``constant_data``. An ensemble of the
        prior has no data and hence only those that need none. `x` are the training inputs by
        default.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> network = tb.Network(tb.Dense(1), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(), [-1.0, 0.0, 1.0], [0.0, 0.1, 0.2])
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=100, draws=100, progress=False)
        >>> tree = ensemble.to_arviz()
        >>> dict(tree.log_likelihood["y"].sizes)
        {'chain': 2, 'draw': 100, 'row': 3}
        """
        thin = check_count("thin", thin, least=1)
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        rows, inputs = self._data(data), None
        if x is not None:
            inputs = self._prepare(Dataset(x)).dataset.x
        elif rows is not None:
            inputs = rows.dataset.x
        groups: Groups = {
            "posterior": thinned(self.parameters | self.hyperparameters, thin),
            "sample_stats": thinned(self.sample_stats, thin),
        }
        if rows is not None:
            groups["log_likelihood"] = {"y": self._log_likelihood(rows, thin=thin)}
            known = rows.dataset
            if type(self.likelihood).sample is not Likelihood.sample:
                again = self._by_draw(self._new_targets(rows, thin=thin, seed=seed))
                groups["posterior_predictive"] = {"y": again}
            groups |= {"observed_data": {"y": known.targets}, "constant_data": {"x": known.x}}
        if inputs is not None:
            predictions = self._by_chain(inputs, thin=thin, progress=progress)
            groups |= {"predictions": {"f": predictions}}
            groups |= {"predictions_constant_data": {"x": inputs}}
        return to_datatree(groups)

    def loo(self, *, data: Pair | None = None, thin: int = 1) -> "ELPDData":
        """PSIS-LOO: how well each training row is predicted without it, computed by ArviZ.

        Returns ArviZ's `ELPDData`: ``elpd``, ``se``, ``p``, and for each row ``elpd_i`` and
        ``pareto_k``, which says whether the row's share can be trusted (up to ``good_k``).
        ``arviz_stats.compare`` compares several.
        """
        return loo(self._needed_log_likelihood(data, thin))

    def waic(self, *, data: Pair | None = None, thin: int = 1) -> "ELPDData":
        """WAIC, in the container of `loo`, which is to be preferred: it says where it fails."""
        return waic(self._needed_log_likelihood(data, thin))

    def __len__(self) -> int:
        return self.num_chains * self.num_draws

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} networks: {self.num_chains} chains of {self.num_draws} draws)"

    def _last_draws(self, chains: int) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Last parameters and hyper-parameters by name, for `chains` new chains."""
        where = self._draws.last(chains)
        named = self.parameters, self.hyperparameters
        parameters, hypers = ({name: each[where] for name, each in own.items()} for own in named)
        return parameters, hypers

    @property
    def _held(self) -> bool:
        return not self._store.manifest["sample_hyperparameters"]

    @property
    def _model(self) -> Model:
        return Model(self.network, self.likelihood)

    def _prepare(self, dataset: Dataset) -> Prepared:
        """The user's rows as the model takes them."""
        return prepare(dataset, self.network, self.likelihood, self.scaling, self.dtype)

    def _log_ratios(
        self,
        sides: tuple[Side, Side],
        likelihood: Likelihood,
        given: Pair | None,
        *,
        progress: bool,
        moved: Mapping[str, NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        """With the training data if `likelihood` is not that of the run."""
        has_data = self._store.data() is not None or self._store.manifest.get("data")
        if given is not None and not has_data:
            raise ValueError(
                "these networks were sampled from the prior: no likelihood of `data` is in their "
                "density that could be replaced; sample the posterior instead"
            )
        rows = None if likelihood == self.likelihood else self._data(given)
        if rows is not None:
            rows = prepare(rows.dataset, self.network, likelihood, self.scaling, "float64")
        batches = self._draws.batches()
        return log_ratios(sides, batches, rows, moved=moved, total=len(self), progress=progress)

    def _fit(self) -> Fit:
        """How the model fits its training data, for the verdict."""

        def predict(x: NDArray[Any]) -> NDArray[Any]:
            thin = -(-len(self) // MOST_NETWORKS)
            return self.predict(x, thin=thin, progress=False).mean

        model = self._store, self._model, self.scaling, self.dtype
        return Fit(*model, self.hyperparameters, predict)

    def _thinned(self, weights: Weights, thin: int) -> NDArray[Any]:
        """Weights ``(chains, draws)`` of every n-th draw, which sum to one."""
        if not isinstance(weights, Weights):
            raise TypeError(
                f"`weights` must be what `reweight` returned, got {type(weights).__name__}"
            )
        if len(weights) != len(self):
            raise ValueError(
                f"`weights` are of {len(weights)} networks, but the ensemble has {len(self)}: they "
                "are of another one, or of this one before it grew; reweight it anew"
            )
        chosen = self._by_draw(weights.weights)[:, ::thin]
        return chosen / chosen.sum()

    def _by_chain(self, x: ArrayLike, *, thin: int, progress: bool) -> NDArray[Any]:
        """Predictions ``(chains, draws, rows, outputs)``."""
        return self._by_draw(self.predict(x, thin=thin, progress=progress).samples)

    def _by_draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Networks as chains and draws."""
        return values.reshape(self.num_chains, -1, *values.shape[1:])

    def _log_likelihood(self, rows: Prepared, *, thin: int) -> NDArray[Any]:
        """Of each training row, ``(chains, draws, rows)``."""
        each = log_likelihood(self.network, self._draws.batches(thin), rows)
        weights = rows.dataset.sample_weight
        jacobian = self.scaling.log_jacobian * (1.0 if weights is None else weights)
        return self._by_draw(each) + jacobian

    def _new_targets(
        self, rows: Prepared, *, thin: int, seed: int, first_row: int = 0
    ) -> NDArray[Any]:
        """Noise included, ``(networks, rows, columns)``; with the error bars of the rows."""
        batches = self._draws.batches(thin)
        found = new_targets(self.network, batches, rows, seed=seed, first_row=first_row)
        return self.scaling.natural(found)

    def _data(self, given: Pair | None) -> Prepared | None:
        """Training data: given, or kept in the run; ``None`` for the prior."""
        dataset = find_data(self._store) if given is None else as_dataset("data", given)
        return None if dataset is None else self._prepare(dataset)

    def _needed_log_likelihood(self, given: Pair | None, thin: int) -> NDArray[Any]:
        thin, rows = check_count("thin", thin, least=1), self._data(given)
        if rows is None:
            raise ValueError(
                "these networks were sampled from the prior, without data: there is no row whose "
                "likelihood could be looked at; give some as `data=(x, y)`"
            )
        return self._log_likelihood(rows, thin=thin)
