"""Predictions at a few inputs of a run that goes on: each network is evaluated once."""

import threading
from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.draws import Batch
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.posterior import Posterior
from tensorbnn.storage.store import Store

# Networks that are evaluated together, at most; fewer are filled up, so that one program serves.
BATCH = 256


@final
class GrowingPredictions:
    """What the networks of a run that goes on say at the rows of `x`.

    Parameters
    ----------
    store
        Where the run is; only read.
    posterior
        What is sampled.
    x
        Inputs ``(rows, inputs)`` in the user's units.
    chains, networks_per_file
        Of the run.
    """

    def __init__(
        self,
        store: Store,
        posterior: Posterior,
        x: NDArray[Any],
        *,
        chains: int,
        networks_per_file: int,
    ) -> None:
        self._store, self._posterior, self._size = store, posterior, networks_per_file
        self._inputs = posterior.scaling.inputs(x, posterior.dtype)
        self._batch = min(networks_per_file, BATCH)
        self._counts = [0] * chains
        columns = posterior.likelihood.columns(posterior.network.outputs)
        self._values = np.empty((chains, 0, len(x), columns), posterior.dtype)
        self._lock = threading.Lock()

    def update(self) -> NDArray[Any]:
        """See what was drawn meanwhile; ``(chains, draws, rows, outputs)`` that all chains have.

        May be called from any thread; what was returned before stays what it was.
        """
        with self._lock:
            for chain in range(len(self._counts)):
                for new in self._new(chain):
                    self._append(chain, new)
            return self._values[:, : min(self._counts)]

    def _new(self, chain: int) -> Iterator[NDArray[Any]]:
        """Predictions of a chain's new networks, in order, ``(networks, rows, outputs)`` each."""
        for index, size in self._store.chunk_sizes(chain).items():
            first = self._counts[chain] - index * self._size
            if first >= size:
                continue
            arrays = self._store.read_chunk(chain, index, "")  # may have grown meanwhile
            for start in range(first, size, self._batch):
                yield self._predict(arrays, slice(start, min(start + self._batch, size)))

    def _append(self, chain: int, new: NDArray[Any]) -> None:
        count, held = self._counts[chain], self._values.shape[1]
        end = count + len(new)
        if end > held:
            shape = (len(self._counts), max(2 * held, end), *self._values.shape[2:])
            grown = np.zeros(shape, new.dtype)
            grown[:, :held] = self._values
            self._values = grown
        self._values[chain, count:end] = new
        self._counts[chain] = end

    def _predict(self, arrays: dict[str, NDArray[Any]], rows: slice) -> NDArray[Any]:
        count, posterior = rows.stop - rows.start, self._posterior

        def chosen(prefix: str) -> dict[str, NDArray[Any]]:
            return {
                name.removeprefix(prefix): np.pad(
                    each[rows], ((0, self._batch - count), *((0, 0),) * (each.ndim - 1)), "edge"
                )
                for name, each in arrays.items()
                if name.startswith(prefix)
            }

        batch = Batch(chosen("parameters/"), chosen("hyperparameters/"))
        prediction = Prediction(
            posterior.network,
            posterior.likelihood,
            posterior.dtype,
            self._inputs,
            lambda: [batch],
            self._batch,
            progress=False,
            scaling=posterior.scaling,
        )
        return prediction.networks[:count]
