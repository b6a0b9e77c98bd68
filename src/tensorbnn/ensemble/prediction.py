"""Predictions of an ensemble, computed in blocks of rows so that memory stays bounded."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_fraction
from tensorbnn.data import Dataset, Prepared, follow_y, prepare_targets
from tensorbnn.engine.forward import ROW_MULTIPLE, pad_rows
from tensorbnn.ensemble import statistics, targets
from tensorbnn.ensemble.draws import Batch
from tensorbnn.ensemble.frames import columns_frame
from tensorbnn.errors import OptionError
from tensorbnn.model.checks import as_array
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.noise import UNKNOWN_NOISE
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar

if TYPE_CHECKING:
    from pandas import DataFrame

# The outputs of all networks for a block of rows take at most about this many bytes.
BLOCK_BYTES = 2**26


class Prediction:
    """Predictions of all networks of an ensemble for the rows of ``x``.

    Made by `Ensemble.predict`. Values are expected targets in the user's units: the network's
    outputs for a `Gaussian` likelihood (the first half of them for `HeteroscedasticGaussian`),
    probabilities for `Bernoulli` and `Categorical`, expected counts for `Poisson`. All statistics
    are over networks, weighted if the ensemble is reweighted. Each is computed on first use, block
    by block, so that a million rows need little more memory than the result.

    Shapes follow the training targets: if `y` was ``(rows,)``, arrays have no axis of outputs, so
    that ``prediction.mean - y`` is ``(rows,)``. `Categorical` always predicts ``(rows, classes)``,
    and without data the axis is always present.

    Attributes
    ----------
    num_samples, num_rows : int
        Number of networks and of rows.
    x : ndarray
        Inputs of the predictions in your units, ``(rows, inputs)``.
    weights : ndarray or None
        Weights of the networks, ``(samples,)``, if the ensemble is reweighted.
    """

    def __init__(
        self,
        network: Network,
        likelihood: Likelihood,
        rows: Prepared,
        batches: Callable[[], Iterable[Batch]],
        num_samples: int,
        *,
        progress: bool,
        chains: int = 1,
        scaling: Scaling | None = None,
        weights: NDArray[Any] | None = None,
        output_shape: tuple[int, ...] | None = None,
    ) -> None:
        self._output_shape: tuple[int, ...] = (likelihood.columns(network.outputs),)
        if output_shape is not None:
            self._output_shape = output_shape
        self._network, self._likelihood, self._dtype = network, likelihood, rows.dtype
        self._scaling, self.weights, self._chains = scaling or Scaling(), weights, chains
        self.x, self._inputs = rows.dataset.x, rows.inputs
        self._batches, self._progress = batches, progress
        self.num_samples, self.num_rows = num_samples, len(rows.inputs)
        row_bytes = num_samples * network.outputs * np.dtype(rows.dtype).itemsize
        self._block_rows = max(BLOCK_BYTES // row_bytes // ROW_MULTIPLE, 1) * ROW_MULTIPLE
        self._kept: _Block | None = None

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        return f"Prediction({self.num_rows} rows by {self.num_samples} networks{weighted})"

    @property
    def samples(self) -> NDArray[Any]:
        """Prediction of each network, ``(samples, rows, outputs)``: chain by chain, in draw order.

        Its size grows with the number of networks times the number of rows. It is not weighted; the
        weights are in `weights`.
        """
        return self._follow(self._samples)

    @property
    def samples_by_chain(self) -> NDArray[Any]:
        """The same as ``(chains, draws, rows, outputs)``."""
        return self.samples.reshape(self._chains, -1, *self.samples.shape[1:])

    @property
    def mean(self) -> NDArray[Any]:
        """Mean over networks, ``(rows, outputs)``."""
        return self._follow(self._moments[0])

    @property
    def median(self) -> NDArray[Any]:
        """Median over networks, ``(rows, outputs)``."""
        return self.quantile(0.5, noise=False)

    @property
    def sd(self) -> NDArray[Any]:
        """Standard deviation over networks, ``(rows, outputs)``, which more data would reduce."""
        return self._follow(np.sqrt(self._moments[1]))

    @property
    def sd_noise(self) -> NDArray[Any]:
        """Standard deviation of the noise alone; its variance is averaged over networks."""
        return self._follow(np.sqrt(self._noise))

    @property
    def sd_total(self) -> NDArray[Any]:
        """Standard deviation of a new target, ``(rows, outputs)``: networks and noise together.

        Infinite if the noise has infinite variance (`StudentTNoise` with few degrees of freedom).
        """
        return self._follow(self._total_sd)

    @property
    def entropy(self) -> NDArray[Any]:
        """Entropy of the predicted classes in nats: the total uncertainty of all networks.

        ``(rows,)`` for the classes of `Categorical`, ``(rows, outputs)`` for `Bernoulli`.
        """
        self._check_classes()
        found = statistics.entropy(self._moments[0], self._likelihood)
        return self._follow(found) if found.ndim > 1 else found

    @property
    def mutual_information(self) -> NDArray[Any]:
        """The part of `entropy`, in nats, that more data would reduce: networks disagree.

        The entropy of the mean probabilities minus the mean entropy of the networks.
        """
        self._check_classes()
        model = self._likelihood, self.weights
        found = self._collect(lambda own: statistics.mutual_information(own.values, *model), axis=0)
        return self._follow(found) if found.ndim > 1 else found

    def quantile(self, probability: ArrayLike, *, noise: bool = True) -> NDArray[Any]:
        """Quantiles of new targets, ``(rows, outputs)``, or ``(n, rows, outputs)`` for several.

        Parameters
        ----------
        probability
            One or several, between 0 and 1.
        noise
            Whether to include the noise. If so, quantiles are those of the mixture of all networks'
            likelihoods, computed by bisection of its distribution function (the likelihood's
            `cdf`); for counts they are whole numbers. Otherwise, they are quantiles of the
            expected target over networks. Probabilities of classes have no noise.
        """
        wanted = as_array("probability", probability).astype(np.float64)
        if wanted.ndim > 1 or wanted.size == 0 or not np.all((wanted >= 0) & (wanted <= 1)):
            raise OptionError("probability", "between 0 and 1", probability, "lie")
        if noise and not self._likelihood.predicts_classes:
            return self._follow(self._noisy_quantile(wanted))
        found = self._collect(
            lambda block: statistics.quantile(block.values, wanted, self.weights), axis=wanted.ndim
        )
        return self._follow(found)

    def interval(
        self, level: float = 0.95, *, noise: bool = True
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Lower and upper ends ``(rows, outputs)`` of the central `level` interval of new targets.

        Without `noise`, the interval is over networks, as in `quantile`.
        """
        level = check_fraction("level", level, such_as="0.95")
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        lower, upper = self.quantile(ends, noise=noise)
        return lower, upper

    def to_dataframe(
        self, quantiles: Sequence[float] = (0.025, 0.5, 0.975), *, noise: bool = True
    ) -> "DataFrame":
        """Convert the predictions to a pandas table with a line for each row.

        Parameters
        ----------
        quantiles
            Quantiles to compute, as columns such as ``q0.025``.
        noise
            Whether they include the noise of new targets, as in `quantile`.

        Returns
        -------
        DataFrame
            ``mean``, ``sd``, ``sd_total`` (if the noise is known) and the quantiles; for several
            outputs ``mean_0``, ``mean_1``, ...
        """
        found = {"mean": self.mean, "sd": self.sd}
        if self.knows_noise:
            found["sd_total"] = self.sd_total
        found |= {f"q{each:g}": self.quantile(each, noise=noise) for each in quantiles}
        return columns_frame(found)

    def density(self, edges: ArrayLike, *, noise: bool = True) -> NDArray[Any]:
        """Predictive density in bins (the paper's Eq. 3).

        Parameters
        ----------
        edges
            Increasing bin edges ``(bins + 1,)``.
        noise
            Whether to include the noise, for the density of a new target: the probability of each
            bin under the mixture of all networks' likelihoods, which must have a `cdf`. A target at
            an edge is in the bin below; for counts, use edges such as -0.5, 0.5, ... Without noise,
            it is the share of networks in each bin. Probabilities of classes have no noise.

        Returns
        -------
        ndarray
            Density ``(rows, outputs, bins)``: the share in a bin divided by the bin's width. Values
            outside the edges are in no bin.
        """
        bins = as_array("edges", edges).astype(np.float64)
        if bins.ndim != 1 or len(bins) < 2 or not np.all(np.diff(bins) > 0):
            raise ValueError("`edges` must be at least two increasing numbers")

        def share(block: _Block) -> NDArray[Any]:
            if not noise or self._likelihood.predicts_classes:
                return statistics.histogram(block.values, bins, self.weights)
            return np.diff(np.stack([self._cdf(block, edge) for edge in bins], axis=-1), axis=-1)

        found = self._collect(share, axis=0) / np.diff(bins)
        return found.reshape(self.num_rows, *self._output_shape, len(bins) - 1)

    def log_predictive(self, y: ArrayLike, *, y_sd: ArrayLike | None = None) -> NDArray[Any]:
        """Log predictive density of each row's targets, ``(rows,)``.

        ``log mean_j p(y | f_j(x))`` over the networks ``j``, noise included. Pass `y` and `y_sd`
        as to `Posterior`; the density is per unit of `y`.
        """
        model = self._network, self._likelihood, self._scaling, self._dtype
        known, likelihood = prepare_targets(Dataset(self.x, y, y_sd=y_sd), *model)

        def density(block: _Block) -> NDArray[Any]:
            mixture, own = self._mixture(block), known[block.rows].T
            return np.asarray(targets.mixture_log_density(likelihood, mixture, own))

        return self._collect(density, axis=0) + self._scaling.log_jacobian

    def log_score(
        self,
        y: ArrayLike,
        *,
        y_sd: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean over rows of `log_predictive`, optionally weighted; higher is better."""
        weights = Dataset(self.x, sample_weight=sample_weight).sample_weight
        each = self.log_predictive(y, y_sd=y_sd).astype(np.float64)
        return float(np.average(each, weights=weights))

    @property
    def knows_noise(self) -> bool:
        """Whether the noise of a new target is known; only for `MeasuredGaussian` it is not."""
        return self._likelihood.knows_noise

    def _follow(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values ``(..., outputs)`` in the shape of the training targets."""
        return follow_y(values, self._output_shape)

    @functools.cached_property
    def _samples(self) -> NDArray[Any]:
        """Prediction of each network, ``(samples, rows, outputs)``."""
        return self._collect(lambda block: block.values, axis=1)

    @property
    def _total_sd(self) -> NDArray[Any]:
        """Standard deviation of a new target, ``(rows, outputs)``."""
        return np.sqrt(self._moments[1] + self._noise)

    @property
    def _noise(self) -> NDArray[Any]:
        """Mean variance of the noise, ``(rows, outputs)``."""
        if not self.knows_noise:
            raise ValueError(UNKNOWN_NOISE)
        return self._moments[2]

    @functools.cached_property
    def _moments(self) -> NDArray[Any]:
        """Mean and variance over networks, ``(2, rows, outputs)``.

        If the noise is known, its mean variance is a third entry.
        """

        def moments(block: _Block) -> NDArray[Any]:
            own = statistics.moments(block.values, self.weights)
            if not self.knows_noise:
                return np.stack(own)
            noise = targets.mixture_variance(self._likelihood, self._mixture(block))
            return np.stack([*own, self._scaling.natural_variance(np.asarray(noise, np.float64).T)])

        return self._collect(moments, axis=1)

    def _noisy_quantile(self, wanted: NDArray[Any]) -> NDArray[Any]:
        if np.any((wanted == 0) | (wanted == 1)):
            raise ValueError("`probability` must lie within 0 and 1, or use noise=False")
        mean, total, sd = self._moments[0], self._total_sd, np.sqrt(self._moments[1])

        def quantiles(block: _Block) -> NDArray[Any]:
            # In the units of the model, which the likelihood uses.
            unit = np.asarray(self._scaling.y_scale or 1.0)
            at = self._inside(mean[block.rows])
            own, narrow = ((each[block.rows] / unit).astype(self._dtype).T for each in (total, sd))
            narrow = np.maximum(narrow, 1e-6 * np.abs(at) + 1e-12)
            model = self._likelihood, self._mixture(block)
            found: list[NDArray[Any]] = [
                np.asarray(targets.mixture_quantile(*model, each, at, own, narrow)).T
                for each in np.atleast_1d(wanted).astype(self._dtype)
            ]
            if self._likelihood.whole_targets:  # the bisection ends just above a whole number
                found = [np.floor(each) for each in found]
            return self._scaling.natural(np.stack(found) if wanted.ndim else found[0])

        return self._collect(quantiles, axis=wanted.ndim)

    def _cdf(self, block: "_Block", target: float) -> NDArray[Any]:
        """Probability ``(rows, outputs)`` that a new target is at most `target`."""
        same = self._inside(np.full(block.values.shape[1:], target))
        found = targets.mixture_cdf(self._likelihood, self._mixture(block), same)
        return np.asarray(found, np.float64).T

    def _inside(self, values: NDArray[Any]) -> NDArray[Any]:
        """The user's targets ``(rows, outputs)`` in the form that the likelihood takes."""
        return self._scaling.targets(values).astype(self._dtype).T

    def _mixture(self, block: "_Block") -> targets.Mixture:
        own = np.full(self.num_samples, 1 / self.num_samples)
        with np.errstate(divide="ignore"):  # weights may be 0
            log_weights = np.log(own if self.weights is None else self.weights)
        return targets.Mixture(block.outputs, block.hypers, log_weights.astype(self._dtype))

    def _check_classes(self) -> None:
        if not self._likelihood.predicts_classes:
            raise ValueError(
                "entropy and mutual information are of classes, but the targets of a "
                f"{type(self._likelihood).__name__} likelihood are numbers: use `sd` and `sd_total`"
            )

    def _collect(self, statistic: Callable[["_Block"], NDArray[Any]], axis: int) -> NDArray[Any]:
        """`statistic` of every block of rows, joined along `axis`."""
        with precision(self._dtype):
            return np.concatenate([statistic(block) for block in self._blocks()], axis=axis)

    def _blocks(self) -> Iterator["_Block"]:
        if self._kept is not None:
            yield self._kept
            return
        starts = range(0, self.num_rows, self._block_rows)
        with Bar("predicting", len(starts) * self.num_samples, show=self._progress) as bar:
            for start in starts:
                block = self._block(slice(start, min(start + self._block_rows, self.num_rows)), bar)
                if len(starts) == 1:
                    self._kept = block
                yield block

    def _block(self, rows: slice, bar: Bar) -> "_Block":
        inputs = pad_rows(jnp.asarray(self._inputs[rows].T))
        count = rows.stop - rows.start
        outputs, hypers = [], []
        for batch in self._batches():
            result = _outputs(self._network, batch.parameters, inputs)
            outputs.append(np.asarray(result)[..., :count])
            hypers.append(batch.of_likelihood(self._likelihood).hypers)
            bar.advance(len(result))
        joined = {name: np.concatenate([each[name] for each in hypers]) for name in hypers[0]}
        raw = np.concatenate(outputs)
        values = np.asarray(targets.expected(self._likelihood, raw, joined)).transpose(0, 2, 1)
        return _Block(rows, raw, joined, self._scaling.natural(values))


class _Block(NamedTuple):
    """All networks for some rows."""

    rows: slice
    outputs: NDArray[Any]  # (networks, outputs, rows), before the likelihood's link
    hypers: dict[str, NDArray[Any]]
    values: NDArray[Any]  # (networks, rows, outputs), expected targets


@functools.partial(jax.jit, static_argnums=0)
def _outputs(network: Network, parameters: dict[str, Array], inputs: Array) -> Array:
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda own: network.apply(own, inputs), parameters)
    return jax.vmap(lambda own: network.apply(own, inputs))(parameters)
