"""The sampled networks: a point cloud that stands for the posterior."""

import functools
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.ensemble.autocorrelation import autocorrelation, autocorrelation_length
from tensorbnn.ensemble.diagnostics import Diagnosis, diagnose
from tensorbnn.ensemble.prediction import Batch, Prediction
from tensorbnn.model.checks import DType, check_count, check_inputs, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.runs.description import restore
from tensorbnn.runs.store import RunError, Store


class Ensemble:
    """Networks sampled from a posterior; made by `tensorbnn.sample` and `tensorbnn.load`.

    Attributes
    ----------
    network : Network
        The network that was sampled.
    likelihood : Likelihood
        Its likelihood.
    dtype : str
        ``"float32"`` or ``"float64"``.
    num_chains, num_draws : int
        Number of chains, and of draws a chain that all chains have.
    """

    def __init__(
        self, store: Store, network: Network, likelihood: Likelihood, dtype: DType
    ) -> None:
        self.network, self.likelihood = network, likelihood
        self.dtype: DType = dtype
        self._store = store
        self.num_chains: int = store.manifest["chains"]
        sizes = [store.chunk_sizes(chain) for chain in range(self.num_chains)]
        self.num_draws = min(sum(each) for each in sizes)
        if not self.num_draws:
            raise RunError(
                "the run holds no draws yet: its chains are still burning in, or were stopped "
                "before the first file was full"
            )

    @classmethod
    def from_store(cls, store: Store, custom: Mapping[str, type]) -> "Ensemble":
        """Read the description of a run; `custom` holds the user's own classes by name."""
        manifest = store.manifest
        network, likelihood = restore([manifest["network"], manifest["likelihood"]], custom)
        return cls(store, network, likelihood, manifest["dtype"])

    @functools.cached_property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Network parameters by name, each ``(chains, draws, ...)``, in natural values."""
        return self._read("parameters/")

    @functools.cached_property
    def hyperparameters(self) -> dict[str, NDArray[Any]]:
        """Hyper-parameters by name, each ``(chains, draws)``, in natural values."""
        return self._read("hyperparameters/")

    @functools.cached_property
    def info(self) -> dict[str, NDArray[Any]]:
        """What the sampler did for each draw, each ``(chains, draws)``.

        ``acceptance`` (mean over the draw's transitions), ``divergent`` and ``num_steps`` (numbers
        of divergences and of gradients), ``energy_error``, ``energy``, ``log_density`` and
        ``step_size`` (of the last transition).
        """
        return self._read("info/")

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Reports of the run by chain and epoch, burn-in included; read anew at each use.

        ``chain``, ``epoch``, ``phase``; ``acceptance``, ``divergences`` and ``leapfrog_steps`` (a
        transition) since the report before; ``step_size``, ``log_density``; each metric as
        ``training.<name>`` and ``validation.<name>``; ``seconds`` since the start. ``None`` stands
        for what is not finite.
        """
        return self._store.reports()

    def predict(self, x: ArrayLike, *, every: int = 1, progress: bool = True) -> Prediction:
        """Predict the rows of `x` with every network, or with every n-th of each chain.

        Parameters
        ----------
        x
            Inputs ``(rows, inputs)``, or ``(rows,)`` for a network with one input.
        every
            Use only every n-th draw of each chain.
        progress
            Show a bar where a computation takes longer than a second.

        Examples
        --------
        >>> import numpy as np
        >>> import tensorbnn as tb
        >>> x = np.linspace(-1, 1, 5)
        >>> network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
        >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
        >>> ensemble = tb.sample(posterior, chains=2, burn_in=50, draws=20, progress=False)
        >>> p = ensemble.predict(x)
        >>> p.mean.shape, p.networks.shape
        ((5, 1), (40, 5, 1))
        """
        rows = check_rows("x", x, self.dtype)
        check_inputs(rows, self.network)
        if not isinstance(every, numbers.Integral) or every < 1:
            raise ValueError(f"`every` must be a whole number of at least 1, got {every!r}")
        draws = len(range(0, self.num_draws, every))
        return Prediction(
            self.network,
            self.likelihood,
            self.dtype,
            rows,
            lambda: self._batches(int(every)),
            self.num_chains * draws,
            progress=progress,
        )

    def diagnose(self, x: ArrayLike, *, every: int = 1, progress: bool = True) -> Diagnosis:
        """Can the predictions at the rows of `x` be trusted? Numbers, and a verdict in words.

        Parameters
        ----------
        x
            Inputs ``(rows, inputs)`` you care about.
        every
            Use only every n-th draw of each chain.
        progress
            Show a bar where a computation takes longer than a second.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> prior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian())
        >>> ensemble = tb.sample(prior, chains=2, burn_in=200, draws=1000, progress=False)
        >>> d = ensemble.diagnose([-1.0, 0.0, 1.0])
        >>> d.rhat.shape, d.ess.shape, d.mcse_mean.shape
        ((3, 1), (3, 1), (3, 1))
        """
        return diagnose(
            self._by_chain(x, every=every, progress=progress),
            self.info,
            x=check_rows("x", x, self.dtype),
            hyperparameters={name: each[:, ::every] for name, each in self.hyperparameters.items()},
        )

    def autocorrelation(
        self, x: ArrayLike, max_lag: int = 75, *, every: int = 1, progress: bool = True
    ) -> NDArray[Any]:
        """Normalised autocorrelation of the predictions, averaged over the rows of `x`.

        ``rho(n) = C(n) / C(0)``, ``C(n) = 1 / (N - n) sum_i (f_i - fbar) (f_{i+n} - fbar)`` over
        the draws of a chain, averaged over chains; ``fbar`` is the mean over all networks.

        Parameters
        ----------
        x
            Inputs ``(rows, inputs)``.
        max_lag
            Largest lag, in draws.
        every
            Use only every n-th draw of each chain.
        progress
            Show a bar where a computation takes longer than a second.

        Returns
        -------
        ``rho(n)`` for lags ``n`` of 1 to `max_lag`, ``(max_lag, outputs)``. Rows whose prediction
        never changes have none and are left out.
        """
        max_lag = check_count("max_lag", max_lag, least=1)
        return autocorrelation(self._by_chain(x, every=every, progress=progress), max_lag)

    def autocorrelation_length(
        self,
        x: ArrayLike,
        max_lag: int | None = None,
        *,
        every: int = 1,
        progress: bool = True,
    ) -> NDArray[Any]:
        """Integrated autocorrelation length of the predictions, averaged over the rows of `x`.

        ``1 + 2 sum_n rho(n)`` over lags up to the first that is at least five times the sum so far;
        ``predict(x, every=n)`` with ``n`` of about this length gives nearly independent networks.

        Parameters
        ----------
        x
            Inputs ``(rows, inputs)``.
        max_lag
            Largest lag to look at; half the number of draws by default. A warning says so where
            the correlation had not died down by then.
        every
            Use only every n-th draw of each chain.
        progress
            Show a bar where a computation takes longer than a second.

        Returns
        -------
        The length for each output in draws, ``(outputs,)``.
        """
        max_lag = None if max_lag is None else check_count("max_lag", max_lag, least=1)
        return autocorrelation_length(self._by_chain(x, every=every, progress=progress), max_lag)

    def __len__(self) -> int:
        return self.num_chains * self.num_draws

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} networks: {self.num_chains} chains of {self.num_draws} draws)"

    def _by_chain(self, x: ArrayLike, *, every: int, progress: bool) -> NDArray[Any]:
        """Predictions ``(chains, draws, rows, outputs)``."""
        values = self.predict(x, every=every, progress=progress).networks
        return values.reshape(self.num_chains, -1, *values.shape[1:])

    def _read(self, prefix: str) -> dict[str, NDArray[Any]]:
        chains = []
        for chain in range(self.num_chains):
            chunks = [arrays for _, arrays in self._chunks(chain, prefix)]
            chains.append({name: np.concatenate([c[name] for c in chunks]) for name in chunks[0]})
        return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}

    def _chunks(self, chain: int, prefix: str) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Chunks of a chain with the number of their first draw, up to `num_draws` in all."""
        first = 0
        for index, size in enumerate(self._store.chunk_sizes(chain)):
            if first >= self.num_draws:
                return
            arrays = self._store.read_chunk(chain, index, prefix)
            yield first, {name: each[: self.num_draws - first] for name, each in arrays.items()}
            first += size

    def _batches(self, every: int) -> Iterator[Batch]:
        own = {f"likelihood.{name}": name for name in self.likelihood.hypers()}
        for chain in range(self.num_chains):
            hypers = self._chunks(chain, "hyperparameters/")
            for (first, arrays), (_, scalars) in zip(
                self._chunks(chain, "parameters/"), hypers, strict=True
            ):
                chosen = slice(-first % every, None, every)
                parameters = {name: each[chosen] for name, each in arrays.items()}
                if len(next(iter(parameters.values()))):
                    yield Batch(parameters, {own[k]: scalars[k][chosen] for k in own})
