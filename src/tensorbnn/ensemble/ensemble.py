"""The sampled networks: what they predict, and how far you can trust it."""

import importlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, check_fraction, check_path
from tensorbnn.data import (
    Dataset,
    Prepared,
    as_dataset,
    follow_y,
    prepare,
)
from tensorbnn.ensemble.arviz import Groups, loo, to_datatree, waic
from tensorbnn.ensemble.class_scores import ClassScores, score_classes
from tensorbnn.ensemble.diagnostics import Diagnosis, diagnose
from tensorbnn.ensemble.fit_checks import MOST_NETWORKS, Fit
from tensorbnn.ensemble.frames import summary_frame
from tensorbnn.ensemble.networks import Networks, Pair
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.ratios import Side, both_sides, log_ratios
from tensorbnn.ensemble.reweight import other_posterior, warn_where_untrustworthy, weigh
from tensorbnn.ensemble.scores import Scores, score_numbers
from tensorbnn.ensemble.sensitivity import Sensitivity, prepare_sweep
from tensorbnn.ensemble.statistics import autocorrelation, autocorrelation_time
from tensorbnn.ensemble.targets import log_likelihood, new_targets, noise_numbers
from tensorbnn.errors import OptionError
from tensorbnn.inference.sampler import MAX_SEED
from tensorbnn.model.layers import Softmax
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network

# Maximum number of draws per chain whose predictions are diagnosed.
MOST_DIAGNOSED = 5000

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData
    from pandas import DataFrame
    from xarray import DataTree


@final
class Ensemble(Networks):
    """Networks sampled from a posterior.

    Made by `sample`, `resume`, `load`, `load_original` and `fit_variational`.

    Methods take inputs `x` ``(rows, inputs)``, or ``(rows,)`` for a network with one input. Many
    also take `progress`, whether to show a progress bar if they take longer than a second, and the
    `seed` of the noise in new targets. `thin`, `discard` and `sel` return the same ensemble with
    fewer draws or chains, and `reweight` returns it with weights for another model; all methods of
    the result use only these draws and their weights.

    Attributes
    ----------
    network : Network
        The network that was sampled; after `reweight`, the network of the other model.
    likelihood : Likelihood
        Its likelihood.
    scaling : Scaling
        The shifts and scales by which data were standardized; none by default.
    dtype : str
        ``"float32"`` or ``"float64"``.
    num_chains, num_draws : int
        Number of chains, and number of draws that every chain has.
    """

    def predict(self, x: ArrayLike, *, progress: bool = True) -> Prediction:
        """Predict the rows of `x` with every network.

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
        ((5,), (40, 5))
        """
        return Prediction(
            self.network,
            self.likelihood,
            self._prepare(Dataset(x)),
            self._draws.batches,
            len(self),
            progress=progress,
            chains=self.num_chains,
            scaling=self.scaling,
            weights=self._flat_weights,
            output_shape=self._output_shape,
        )

    def reweight(
        self,
        *,
        network: Network | None = None,
        likelihood: Likelihood | None = None,
        progress: bool = True,
    ) -> "Ensemble":
        """Weight the networks for another prior, another likelihood, or both.

        Parameters
        ----------
        network
            The same network with other priors or hyper-priors. You can replace a `Hyper` of the run
            by a number, but not a number by a `Hyper`, since the run has no draws of it.
        likelihood
            Another likelihood of the same data, in the units of the model (standardized if the data
            were standardized).

        Returns
        -------
        Ensemble
            The same networks, with `weights`, `ess`, `pareto_k` and `log_evidence_ratio`. All its
            methods use the weights, or raise an error if they can't. You get a `ReweightingWarning`
            if the weights can't be trusted (k-hat above ``min(1 - 1 / log10(networks), 0.7)``).

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 20)
        >>> network = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.5), x, x)
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=500, progress=False)
        >>> other = ensemble.reweight(likelihood=tb.Gaussian(sd=0.48))
        >>> other.weights.shape, bool(other.ess > 900)
        ((2, 500), True)
        >>> other.predict(x).mean.shape
        (20,)
        """
        self._refuse_moved("reweight")
        posterior = other_posterior(self._model, self.scaling, network, likelihood)
        sides = both_sides(self._sampled, posterior.model, held=self._held)
        ratios = self._log_ratios(
            sides, self._sampled.likelihood, posterior.likelihood, progress=progress
        )
        weights = weigh(self._by_draw(ratios))
        warn_where_untrustworthy(weights)
        return self._with(
            network=posterior.network, likelihood=posterior.likelihood, _weights=weights
        )

    def sensitivity(
        self,
        x: ArrayLike,
        names: str | Sequence[str],
        values: ArrayLike,
        *,
        validation: Pair | None = None,
        progress: bool = True,
    ) -> Sensitivity:
        """How predictions at `x` depend on a number in the prior or likelihood, by reweighting.

        Parameters
        ----------
        names
            The number to vary, such as ``"dense_0.weights.scale"``; several, or a pattern such as
            ``"*.weights.scale"``, vary together. A hyper-parameter is varied as if it were a
            number; ``"dense_0.weights.scale.loc"`` is the center of its own prior.
        values
            The values to try, ``(n,)``.
        validation
            Rows ``(x, y)`` that the run has not seen, on which each value is scored.

        Returns
        -------
        Sensitivity
            Means, sds, effective sample sizes and evidence ratios for each value, and the best
            value; values with untrustworthy weights are marked. `plots.sensitivity` draws it.

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
        ((4, 1), 0.3)
        """
        self._refuse_moved("sensitivity")
        sweep = prepare_sweep(self._model, names, values, held=self._held)
        moved = dict.fromkeys(sweep.names, sweep.values)
        # A likelihood that differs from that of this ensemble, if the likelihood is varied.
        others = (each for each in sweep.likelihoods if each != self.likelihood)
        other = next(others, self.likelihood)
        ratios = self._log_ratios(
            sweep.sides, self.likelihood, other, progress=progress, moved=moved
        )
        before = 0.0 if self._weights is None else self._weights.log_ratios
        ensembles = tuple(
            self._with(
                likelihood=likelihood, _weights=weigh(self._by_draw(own) + before), _moved=True
            )
            for own, likelihood in zip(ratios, sweep.likelihoods, strict=True)
        )
        # One at a time, since each holds the outputs of all networks in memory.
        predictions = (each.predict(x, progress=progress) for each in ensembles)
        moments, scores = [(each.mean, each.sd) for each in predictions], None
        if validation is not None:
            rows = self._prepare(as_dataset("validation", validation)).dataset
            known = {"y_sd": rows.y_sd, "sample_weight": rows.sample_weight}
            predictions = (each.predict(rows.x, progress=progress) for each in ensembles)
            scores = np.array([each.log_score(rows.targets, **known) for each in predictions])
        mean, sd = (np.stack(each) for each in zip(*moments, strict=True))
        inputs = self._prepare(Dataset(x)).dataset.x
        return Sensitivity(sweep.names, sweep.values, inputs, mean, sd, ensembles, scores)

    def diagnose(
        self,
        x: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        progress: bool = True,
    ) -> Diagnosis:
        """Check whether you can trust the predictions at `x`: numbers, and a verdict in words.

        By default, `x` are the training rows, at most 100 of them, evenly spaced. After `reweight`,
        R-hat, effective sample sizes and errors refer to weighted means, quantiles and sds. The
        verdict names each row of `x` as in `names`; by default by its inputs if there are at most
        three, and by its number from 0 otherwise. In chains with more than 5,000 draws, only every
        n-th draw is diagnosed, since all draws would take minutes and give the same answer.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> x, network = [-1.0, 0.0, 1.0], tb.Network(tb.Dense(1), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(), x, [0.1, 0.0, 0.2])
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=1000, progress=False)
        >>> d = ensemble.diagnose(x)
        >>> d.rhat.shape, d.ess.shape, d.mcse_mean.shape
        ((3,), (3,), (3,))
        """
        points, thin = self._points(x, names).dataset, -(-self.num_draws // MOST_DIAGNOSED)
        some = self.thin(thin) if thin > 1 else self
        fit = some._fit()
        return diagnose(
            some._by_chain(points.x, progress=progress),
            self._statistics,
            points=points,
            hyperparameters=some.hyperparameters,
            weights=some.weights,
            untrusted=None if self._weights is None else self._weights.finding,
            sampler=self._sampler,
            approximation=None if self.approximation is None else self.approximation.finding,
            about_data=fit.about_data(),
            too_early=self._draws.in_burn_in,
            about_fit=fit.about_fit,
            output_shape=self._output_shape,
        )

    def autocorrelation(
        self, x: ArrayLike | None = None, max_lag: int = 75, *, progress: bool = True
    ) -> NDArray[Any]:
        """Normalized autocorrelation of the predictions, averaged over the rows of `x`.

        ``rho(n) = C(n) / C(0)``, ``C(n) = 1 / (N - n) sum_i (f_i - fbar) (f_{i+n} - fbar)`` over
        the draws of a chain, averaged over chains; ``fbar`` is the mean over all networks. By
        default `x` are at most 100 training rows.

        Returns
        -------
        ndarray
            ``rho(n)`` for lags ``n`` of 0 to `max_lag`, ``(max_lag + 1, outputs)``, or
            ``(max_lag + 1,)`` if `y` was ``(rows,)``. Rows whose prediction never changes have no
            autocorrelation and are left out.
        """
        max_lag = check_count("max_lag", max_lag, least=1)
        found = autocorrelation(self._series("autocorrelation", x, progress), max_lag)
        return follow_y(found, self._output_shape)

    def autocorrelation_time(
        self, x: ArrayLike | None = None, max_lag: int | None = None, *, progress: bool = True
    ) -> NDArray[Any] | float:
        """Integrated autocorrelation time of the predictions, averaged over the rows of `x`.

        ``1 + 2 sum_n rho(n)`` over lags up to the first that is at least five times the sum so far.
        If you ``thin`` the ensemble by about this number, its networks are nearly independent. By
        default, `x` are at most 100 training rows.

        Only lags up to `max_lag` are used, half the number of draws by default. You get a warning
        if the correlation has not decayed by then. Returns a number of draws for each output,
        ``(outputs,)``, or a single number if `y` was ``(rows,)``.
        """
        max_lag = None if max_lag is None else check_count("max_lag", max_lag, least=1)
        found = autocorrelation_time(self._series("autocorrelation_time", x, progress), max_lag)
        return found if self._output_shape else float(found[0])

    def evaluate(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        y_sd: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        level: float = 0.95,
        seed: int = 0,
        progress: bool = True,
    ) -> Scores | ClassScores:
        """Score predictions of targets that the ensemble has not seen.

        Returns `Scores` for numbers, and `ClassScores` for a likelihood with class probabilities (a
        sigmoid or softmax link, as in `Bernoulli` and `Categorical`).

        Parameters
        ----------
        y
            The targets, as for `Posterior`.
        y_sd
            Error bars of the targets, as for `Posterior`. The noise of new targets includes them.
        sample_weight
            Weights of the rows ``(rows,)``, for averaging all scores.
        level
            Nominal level of the intervals whose coverage is computed.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 11)
        >>> posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.1), x, x)
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, draws=200, progress=False)
        >>> scores = ensemble.evaluate([-0.5, 0.5], [-0.5, 0.5])
        >>> scores.rmse < 0.1, scores.coverage
        (True, 1.0)
        """
        rows = self._prepare(Dataset(x, y, y_sd=y_sd, sample_weight=sample_weight))
        level = check_fraction("level", level, such_as="0.95")
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        known = rows.dataset
        prediction = self.predict(known.x, progress=progress)
        if self.likelihood.predicts_classes:
            return score_classes(prediction, known)

        def draw(own: slice) -> NDArray[Any]:
            return self._new_targets(rows.take(own), seed=seed, first_row=own.start)

        return score_numbers(prediction, known, draw, level=level, seed=seed)

    def posterior_predictive(self, x: ArrayLike, *, seed: int = 0) -> NDArray[Any]:
        """Draw a new target from each network for each row of `x`, noise included.

        After `reweight`, the same number of networks is resampled in proportion to their weights; a
        network may occur several times, each time with new noise.

        Returns
        -------
        ndarray
            Targets ``(samples, rows, columns)`` in the form that `Posterior` takes: numbers in your
            units, or class labels for `Categorical`. Networks are in the order of
            `Prediction.samples`. For `y` of ``(rows,)`` and for class labels, ``(samples, rows)``.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> x, network = [-1.0, 0.0, 1.0], tb.Network(tb.Dense(1), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Bernoulli(), x, [0, 0, 1])
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=20, draws=50, progress=False)
        >>> ensemble.posterior_predictive(x).shape
        (100, 3)
        """
        rows = self._prepare(Dataset(x))
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        places = None if self._weights is None else self._weights.resample(seed)
        found = self._new_targets(rows, seed=seed, places=places)
        is_label = self.likelihood.link is Softmax
        return found[..., 0] if is_label or not self._output_shape else found

    def _predict_networks(
        self, x: ArrayLike, places: NDArray[np.intp], *, seed: int | None, progress: bool
    ) -> NDArray[Any]:
        """Predictions ``(places, rows, outputs)`` of some networks, or new targets with `seed`.

        Equal to `Prediction.samples` and `posterior_predictive` up to rounding, but without
        computing the other networks. A network that occurs again gets new noise.
        """
        rows = self._prepare(Dataset(x))
        if seed is not None:
            batches, numbers = [self._draws.take(places)], noise_numbers(places, len(self))
            found = new_targets(self.network, batches, rows, seed=seed, numbers=numbers)
            return self.scaling.natural(found)
        places, back = np.unique(places, return_inverse=True)
        batch = self._draws.take(places)
        prediction = Prediction(
            *(self.network, self.likelihood, rows, lambda: [batch], len(places)),
            progress=progress,
            scaling=self.scaling,
        )
        return prediction._samples[back]

    def to_arviz(
        self,
        x: ArrayLike | None = None,
        *,
        seed: int = 0,
        progress: bool = True,
    ) -> "DataTree":
        """The ensemble as ArviZ's standard container, a `DataTree`.

        Its groups: ``posterior`` (parameters and hyper-parameters by name), ``sample_stats``,
        ``predictions`` (``f``, the expected targets at `x`), ``log_likelihood`` (``y``, a number
        for each training row), ``posterior_predictive`` (``y``, a new target for each training row,
        if the likelihood can `sample`), ``observed_data`` and ``constant_data``. An ensemble of the
        prior has no data, and only the groups that need none. By default, `x` are the training
        inputs.

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
        seed = check_count("seed", seed, least=0, most=MAX_SEED)
        self._refuse_weights("to_arviz", "ArviZ has no weights of draws")
        rows, inputs = self._training_rows(), None
        if x is not None:
            inputs = self._prepare(Dataset(x)).dataset.x
        elif rows is not None:
            inputs = rows.dataset.x
        groups: Groups = {
            "posterior": self.parameters | self.hyperparameters,
            "sample_stats": self.sample_stats,
        }
        if rows is not None:
            groups["log_likelihood"] = {"y": self._log_likelihood(rows)}
            known = rows.dataset
            if type(self.likelihood).sample is not Likelihood.sample:
                again = self._by_draw(self._new_targets(rows, seed=seed))
                groups["posterior_predictive"] = {"y": again}
            groups |= {"observed_data": {"y": known.targets}, "constant_data": {"x": known.x}}
        if inputs is not None:
            predictions = self.predict(inputs, progress=progress).samples_by_chain
            groups |= {"predictions": {"f": predictions}}
            groups |= {"predictions_constant_data": {"x": inputs}}
        return to_datatree(groups)

    def loo(self) -> "ELPDData":
        """PSIS-LOO: how well each training row is predicted without it, computed by ArviZ.

        Returns ArviZ's `ELPDData`: ``elpd``, ``se``, ``p``, and for each row ``elpd_i`` and
        ``pareto_k``, which must be at most ``good_k`` for the result of that row to be reliable.
        ``arviz_stats.compare`` compares several models.
        """
        return loo(self._needed_log_likelihood("loo"))

    def waic(self) -> "ELPDData":
        """WAIC, in the same container as `loo`. Prefer `loo`, which shows where it fails."""
        return waic(self._needed_log_likelihood("waic"))

    def summary(self, var_names: Sequence[str] | None = None) -> "DataFrame":
        """Summarize hyper-parameters and parameters in a pandas table, one row for each number.

        Parameters
        ----------
        var_names
            Names to show, such as ``["likelihood.sd"]``; by default all.

        Returns
        -------
        DataFrame
            ``mean``, ``sd``, the quantiles ``q0.025`` and ``q0.975``, ``rhat``, ``ess`` and
            ``ess_tail``. Since units of a network can be swapped, R-hat of its parameters may be
            large even if predictions agree; `diagnose` checks predictions instead.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(tb.Hyper(0.5)))
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=100, draws=100, progress=False)
        >>> ensemble.summary(["likelihood.sd", "dense_0.weights"]).index.tolist()
        ['likelihood.sd', 'dense_0.weights[0, 0]']
        """
        known = self.hyperparameters | self.parameters
        if var_names is not None:
            unknown = [name for name in var_names if name not in known]
            if isinstance(var_names, str) or unknown:
                raise OptionError("var_names", f"some of {sorted(known)}", var_names)
            known = {name: known[name] for name in var_names}
        return summary_frame(known, self.weights)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save a run in memory as a run directory, for `load` and `resume`.

        Parameters
        ----------
        path
            The directory to create.
        overwrite
            Whether a run that is already at `path` may be replaced.
        """
        store = self._whole_store("save")
        path = check_path("path", path)
        if self.path is not None:
            raise ValueError(f"this run is saved already, in {self.path}: copy that directory")
        run: Any = getattr(store, "run", None)
        if run is None:
            raise ValueError(
                "only the ensemble that tb.sample, tb.resume or tb.fit_variational returned can be "
                "saved: this one has no state from which its chains could continue"
            )
        run.save(path, overwrite=overwrite)

    def report(self, path: str | os.PathLike[str], *, progress: bool = True) -> None:
        """Write an HTML report on the run, which says whether you can trust it.

        Parameters
        ----------
        path
            The file to write, such as ``"report.html"``. An existing one is replaced.
        """
        self._whole_store("report")
        page = importlib.import_module("tensorbnn.report.page")  # needs the optional packages
        path = check_path("path", path)
        if self.path is not None:
            page.write_report(self.path, path, progress=progress)
            return
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "run in memory")
            page.write_report(Path(folder) / "run in memory", path, progress=progress)

    def _series(self, method: str, x: ArrayLike | None, progress: bool) -> NDArray[Any]:
        """Predictions in the order of sampling, ``(chains, draws, rows, outputs)``."""
        self._refuse_weights(method, "it is about draws in the order they were sampled")
        return self._by_chain(self._points(x).dataset.x, progress=progress)

    def _log_ratios(
        self,
        sides: tuple[Side, Side],
        run: Likelihood,
        other: Likelihood,
        *,
        progress: bool,
        moved: Mapping[str, NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        """Log-ratios; the training data are used only if the likelihoods of both sides differ."""
        data = None if run == other else self.data
        rows = None
        if data is not None:
            rows = prepare(data, self.network, other, self.scaling, "float64")
        batches = self._draws.batches()
        return log_ratios(sides, batches, rows, moved=moved, total=len(self), progress=progress)

    def _fit(self) -> Fit:
        """How the model fits its training data, for the verdict."""

        def predict(x: NDArray[Any]) -> NDArray[Any]:
            some = self.thin(-(-len(self) // MOST_NETWORKS))
            return some.predict(x, progress=False).mean

        model = self._kept_data, self._model, self.scaling, self.dtype
        return Fit(*model, self.hyperparameters, predict, self._flat_weights)

    def _by_chain(self, x: ArrayLike, *, progress: bool) -> NDArray[Any]:
        """Predictions ``(chains, draws, rows, outputs)``."""
        return self._by_draw(self.predict(x, progress=progress)._samples)

    def _log_likelihood(self, rows: Prepared) -> NDArray[Any]:
        """Log-likelihood of each training row, ``(chains, draws, rows)``."""
        each = log_likelihood(self.network, self._draws.batches(), rows)
        weights = rows.dataset.sample_weight
        jacobian = self.scaling.log_jacobian * (1.0 if weights is None else weights)
        return self._by_draw(each) + jacobian

    def _new_targets(
        self,
        rows: Prepared,
        *,
        seed: int,
        first_row: int = 0,
        places: NDArray[np.intp] | None = None,
    ) -> NDArray[Any]:
        """New targets ``(networks, rows, columns)``, with noise and the error bars of the rows.

        They come from all networks, or from those at increasing `places`, which may repeat.
        """
        batches, numbers = self._draws.batches(), None
        if places is not None:
            batches, numbers = self._draws.resampled(places), noise_numbers(places, len(self))
        options = {"seed": seed, "first_row": first_row}
        found = new_targets(self.network, batches, rows, numbers=numbers, **options)
        return self.scaling.natural(found)

    def _training_rows(self) -> Prepared | None:
        """Training data in the units of the model; ``None`` for the prior."""
        data = self.data
        return None if data is None else self._prepare(data)

    def _needed_log_likelihood(self, method: str) -> NDArray[Any]:
        self._refuse_weights(method, "it is about the model that was sampled")
        rows = self._training_rows()
        if rows is None:
            raise ValueError(
                f"`{method}` needs training data, but these networks were sampled from the prior: "
                "sample a posterior with data"
            )
        return self._log_likelihood(rows)
