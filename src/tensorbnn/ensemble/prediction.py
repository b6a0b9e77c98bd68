"""Predictions of an ensemble, computed in blocks of rows so that memory stays bounded."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.engine.forward import ROW_MULTIPLE, pad_rows
from tensorbnn.model.checks import DType, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar

# Outputs of all networks for one block of rows take at most about this many bytes.
BLOCK_BYTES = 2**26


class Batch(NamedTuple):
    """Some networks of an ensemble: named natural values, the networks as first axis."""

    parameters: dict[str, NDArray[Any]]
    hypers: dict[str, NDArray[Any]]
    """The likelihood's own hyper-parameters by argument name, each ``(networks,)``."""


class Prediction:
    """What every network of an ensemble predicts for the rows of ``x``.

    Made by `Ensemble.predict`. Values are expected targets: the network's outputs for a `Gaussian`
    likelihood, probabilities for `Bernoulli` and `Categorical`. Each statistic is computed when it
    is asked for, in one pass over blocks of rows; a million rows need no more memory than the
    answer and a few blocks. Where all values fit into one block they are kept.

    Attributes
    ----------
    num_networks, num_rows : int
        Number of networks and of rows.
    """

    def __init__(
        self,
        network: Network,
        likelihood: Likelihood,
        dtype: DType,
        x: NDArray[Any],
        batches: Callable[[], Iterable[Batch]],
        num_networks: int,
        *,
        progress: bool,
    ) -> None:
        self._network, self._likelihood, self._dtype = network, likelihood, dtype
        self._x, self._batches, self._progress = x, batches, progress
        self.num_networks, self.num_rows = num_networks, len(x)
        row_bytes = num_networks * network.outputs * np.dtype(dtype).itemsize
        self._block_rows = max(BLOCK_BYTES // row_bytes // ROW_MULTIPLE, 1) * ROW_MULTIPLE
        self._kept: _Block | None = None

    @functools.cached_property
    def networks(self) -> NDArray[Any]:
        """Value of each network, ``(networks, rows, outputs)``: chain after chain, in draw order.

        The one statistic whose size grows with networks times rows.
        """
        return self._collect(lambda block: block.values, axis=1)

    @property
    def mean(self) -> NDArray[Any]:
        """Mean over networks, ``(rows, outputs)``."""
        return self._moments[0]

    @property
    def sd(self) -> NDArray[Any]:
        """Standard deviation over networks, ``(rows, outputs)``: what more data could teach."""
        return np.sqrt(self._moments[1])

    @property
    def sd_noise(self) -> NDArray[Any]:
        """Standard deviation of the noise alone, averaged (in variance) over networks."""
        return np.sqrt(self._moments[2])

    @property
    def sd_total(self) -> NDArray[Any]:
        """Standard deviation of a new target, ``(rows, outputs)``: networks and noise together."""
        return np.sqrt(self._moments[1] + self._moments[2])

    def quantile(self, probability: ArrayLike) -> NDArray[Any]:
        """Quantiles over networks, ``(rows, outputs)``, or ``(n, rows, outputs)`` for several."""
        wanted = np.asarray(probability, np.float64)
        if wanted.ndim > 1 or wanted.size == 0 or not np.all((wanted >= 0) & (wanted <= 1)):
            raise ValueError(f"`probability` must lie between 0 and 1, got {probability!r}")
        return self._collect(
            lambda block: np.quantile(block.values, wanted, axis=0), axis=wanted.ndim
        )

    def interval(self, level: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Lower and upper end ``(rows, outputs)`` of the middle `level` of the networks."""
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, such as 0.95, got {level!r}")
        lower, upper = self.quantile([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return lower, upper

    def density(self, edges: ArrayLike) -> NDArray[Any]:
        """Predictive density by binning the networks' values (the paper's Eq. 3).

        Parameters
        ----------
        edges
            Increasing bin edges ``(bins + 1,)``.

        Returns
        -------
        Density ``(rows, outputs, bins)``: the fraction of networks in a bin over the bin's width.
        Networks outside the edges count in none.
        """
        bins = np.asarray(edges, np.float64)
        if bins.ndim != 1 or len(bins) < 2 or not np.all(np.diff(bins) > 0):
            raise ValueError("`edges` must be at least two increasing numbers")
        scale = 1 / (self.num_networks * np.diff(bins))

        def count(block: _Block) -> NDArray[Any]:
            counts = [
                np.histogram(column, bins)[0]
                for column in block.values.reshape(self.num_networks, -1).T
            ]
            return np.reshape(counts, (*block.values.shape[1:], len(scale))) * scale

        return self._collect(count, axis=0)

    def log_predictive(self, y: ArrayLike) -> NDArray[Any]:
        """Log predictive density of each row's targets, ``(rows,)``.

        ``log mean_j p(y | f_j(x))`` over the networks ``j``, noise included; `y` is given as it was
        to `Posterior`.
        """
        targets = self._likelihood.targets(check_rows("y", y, self._dtype), self._network.outputs)
        if len(targets) != self.num_rows:
            raise ValueError(f"`y` has {len(targets)} rows but `x` has {self.num_rows}")
        targets = targets.astype(self._dtype)

        def mixture(block: _Block) -> NDArray[Any]:
            own = targets[block.rows].T
            return np.asarray(_log_mixture(self._likelihood, block.outputs, block.hypers, own))

        return self._collect(mixture, axis=0)

    def log_score(self, y: ArrayLike) -> float:
        """Mean over rows of `log_predictive`: higher is better."""
        return float(np.mean(self.log_predictive(y), dtype=np.float64))

    @functools.cached_property
    def _moments(self) -> NDArray[Any]:
        """Mean, variance over networks and mean variance of the noise, ``(3, rows, outputs)``."""

        def moments(block: _Block) -> NDArray[Any]:
            values = block.values
            mean = values.mean(axis=0, dtype=np.float64)
            noise = np.asarray(_mean_variance(self._likelihood, block.outputs, block.hypers))
            return np.stack([mean, values.var(axis=0, dtype=np.float64), noise.T])

        return self._collect(moments, axis=1)

    def _collect(self, statistic: Callable[["_Block"], NDArray[Any]], axis: int) -> NDArray[Any]:
        """`statistic` of every block of rows, joined along `axis`."""
        with precision(self._dtype):
            return np.concatenate([statistic(block) for block in self._blocks()], axis=axis)

    def _blocks(self) -> Iterator["_Block"]:
        if self._kept is not None:
            yield self._kept
            return
        starts = range(0, self.num_rows, self._block_rows)
        with Bar("predicting", len(starts) * self.num_networks, show=self._progress) as bar:
            for start in starts:
                block = self._block(slice(start, min(start + self._block_rows, self.num_rows)), bar)
                if len(starts) == 1:
                    self._kept = block
                yield block

    def _block(self, rows: slice, bar: Bar) -> "_Block":
        inputs = pad_rows(jnp.asarray(self._x[rows].T))
        count = rows.stop - rows.start
        outputs, hypers = [], []
        for batch in self._batches():
            result = _outputs(self._network, batch.parameters, inputs)
            outputs.append(np.asarray(result)[..., :count])
            hypers.append(batch.hypers)
            bar.advance(len(result))
        joined = {name: np.concatenate([each[name] for each in hypers]) for name in hypers[0]}
        raw = np.concatenate(outputs)
        values = np.asarray(_expected(self._likelihood, raw, joined)).transpose(0, 2, 1)
        return _Block(rows, raw, joined, values)


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


@functools.partial(jax.jit, static_argnums=0)
def _expected(likelihood: Likelihood, outputs: Array, hypers: dict[str, Array]) -> Array:
    return jax.vmap(lambda f, own: likelihood.bind(own).mean(f))(outputs, hypers)


@functools.partial(jax.jit, static_argnums=0)
def _mean_variance(likelihood: Likelihood, outputs: Array, hypers: dict[str, Array]) -> Array:
    def variance(f: Array, own: dict[str, Array]) -> Array:
        bound = likelihood.bind(own)
        return jnp.broadcast_to(bound.variance(f), bound.mean(f).shape)

    return jax.vmap(variance)(outputs, hypers).mean(axis=0)


@functools.partial(jax.jit, static_argnums=0)
def _log_mixture(
    likelihood: Likelihood, outputs: Array, hypers: dict[str, Array], targets: Array
) -> Array:
    each = jax.vmap(lambda f, own: likelihood.bind(own).log_density(f, targets))(outputs, hypers)
    return jax.nn.logsumexp(each, axis=0) - jnp.log(float(outputs.shape[0]))
