"""The sampled networks: a point cloud that stands for the posterior."""

import functools
import numbers
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.ensemble.diagnostics import Diagnosis, diagnose
from tensorbnn.ensemble.prediction import Batch, Prediction
from tensorbnn.model.checks import DType, check_inputs, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.runs.description import restore
from tensorbnn.runs.files import RunError
from tensorbnn.runs.store import Store

_CACHED = ("parameters", "hyperparameters", "info")


class Ensemble:
    """Networks sampled from a posterior; made by `sample`, `load` and `resume`.

    Attributes
    ----------
    network : Network
        The network that was sampled.
    likelihood : Likelihood
        Its likelihood.
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
        skip_damaged: bool = False,
    ) -> None:
        self.network, self.likelihood = network, likelihood
        self.dtype: DType = dtype
        self._store, self._skip_damaged = store, skip_damaged
        self.num_chains: int = store.manifest["chains"]
        self._pieces = self._find_pieces()

    @classmethod
    def from_store(
        cls, store: Store, custom: Mapping[str, type], *, skip_damaged: bool = False
    ) -> "Ensemble":
        """Read the description of a run; `custom` holds the user's own classes by name."""
        manifest = store.manifest
        network, likelihood = restore([manifest["network"], manifest["likelihood"]], custom)
        return cls(store, network, likelihood, manifest["dtype"], skip_damaged=skip_damaged)

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        return sum(self._pieces.values())

    def refresh(self) -> "Ensemble":
        """See what a run that goes on has drawn meanwhile; returns the ensemble itself.

        Predictions that were made before stay what they were.
        """
        self._store.refresh()
        self._pieces = self._find_pieces()
        for name in _CACHED:
            self.__dict__.pop(name, None)
        return self

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
        return self._store.reports(skip_damaged=self._skip_damaged)

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
        draws, pieces = len(range(0, self.num_draws, every)), self._pieces
        return Prediction(
            self.network,
            self.likelihood,
            self.dtype,
            rows,
            lambda: self._batches(int(every), pieces),
            self.num_chains * draws,
            progress=progress,
        )

    def diagnose(self, x: ArrayLike, *, every: int = 1, progress: bool = True) -> Diagnosis:
        """R-hat and effective sample size of the predictions at the rows of `x`, and a verdict."""
        values = self.predict(x, every=every, progress=progress).networks
        return diagnose(values.reshape(self.num_chains, -1, *values.shape[1:]), self.info)

    def __len__(self) -> int:
        return self.num_chains * self.num_draws

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} networks: {self.num_chains} chains of {self.num_draws} draws)"

    def _find_pieces(self) -> dict[int, int]:
        """Numbers of the chunks that every chain has, and how many draws of each.

        Chunks that are damaged in one chain are left out in all, so that draws stay side by side.
        """
        damage = self._store.damage() if self._skip_damaged else {}
        if damage:
            first = next(iter(damage.values()))
            warnings.warn(
                f"{len(damage)} damaged files are left out, in all chains: {first}"
                + (", ..." if len(damage) > 1 else ""),
                UserWarning,
                stacklevel=2,
            )
        left_out = {index for _, index in damage}
        sizes = [self._store.chunk_sizes(chain, left_out) for chain in range(self.num_chains)]
        pieces = {
            index: min(each[index] for each in sizes)
            for index in sorted(set.intersection(*(set(each) for each in sizes)))
        }
        if not pieces:
            raise RunError(
                "no draws can be read: every file is damaged in some chain"
                if damage
                else "the run holds no draws yet: its chains are still burning in, or were "
                "stopped before the first draws were saved"
            )
        return pieces

    def _read(self, prefix: str) -> dict[str, NDArray[Any]]:
        chains = []
        for chain in range(self.num_chains):
            chunks = [arrays for _, arrays in self._chunks(chain, prefix, self._pieces)]
            chains.append({name: np.concatenate([c[name] for c in chunks]) for name in chunks[0]})
        return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}

    def _chunks(
        self, chain: int, prefix: str, pieces: Mapping[int, int]
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """The `pieces` of a chain, each with the number of draws before it.

        A chunk may have grown since its size was asked for.
        """
        first = 0
        for index, size in pieces.items():
            arrays = self._store.read_chunk(chain, index, prefix)
            if any(len(each) < size for each in arrays.values()):
                raise RunError(
                    f"file number {index} of chain {chain} has fewer draws than when the run was "
                    "loaded: it was replaced; load it again"
                )
            yield first, {name: each[:size] for name, each in arrays.items()}
            first += size

    def _batches(self, every: int, pieces: Mapping[int, int]) -> Iterator[Batch]:
        own = {f"likelihood.{name}": name for name in self.likelihood.hypers()}
        for chain in range(self.num_chains):
            hypers = self._chunks(chain, "hyperparameters/", pieces)
            for (first, arrays), (_, scalars) in zip(
                self._chunks(chain, "parameters/", pieces), hypers, strict=True
            ):
                chosen = slice(-first % every, None, every)
                parameters = {name: each[chosen] for name, each in arrays.items()}
                if len(next(iter(parameters.values()))):
                    yield Batch(parameters, {own[k]: scalars[k][chosen] for k in own})
