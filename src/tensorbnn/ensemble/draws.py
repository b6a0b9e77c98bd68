"""The draws of a run as they were when it was looked at, chunk by chunk."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.prediction import Batch
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store
from tensorbnn.warning import warn

Named = dict[str, NDArray[Any]]


class Draws(NamedTuple):
    """The draws that all chains of a run have; it may have more of them by now."""

    store: Store
    chains: int
    pieces: Mapping[int, int]
    """Numbers of the chunks that every chain has, and how many draws of each."""

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        return sum(self.pieces.values())

    def read(self, prefix: str) -> Named:
        """Arrays whose names start with `prefix`, by the rest, each ``(chains, draws, ...)``."""
        chains = []
        for chain in range(self.chains):
            chunks = [arrays for _, arrays in self._chunks(chain, prefix)]
            chains.append({name: np.concatenate([c[name] for c in chunks]) for name in chunks[0]})
        return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}

    def networks(self, every: int) -> Iterator[tuple[Named, Named]]:
        """Parameters and hyper-parameters by name, of every n-th draw, in batches."""
        for chain in range(self.chains):
            hypers = self._chunks(chain, "hyperparameters/")
            for (first, arrays), (_, scalars) in zip(
                self._chunks(chain, "parameters/"), hypers, strict=True
            ):
                chosen = slice(-first % every, None, every)
                parameters = {name: each[chosen] for name, each in arrays.items()}
                if len(next(iter(parameters.values()))):
                    yield parameters, {name: each[chosen] for name, each in scalars.items()}

    def batches(self, likelihood: Likelihood, every: int) -> Iterator[Batch]:
        """The same, with the hyper-parameters that `likelihood` has."""
        for parameters, hypers in self.networks(every):
            own = {name: hypers[f"likelihood.{name}"] for name in likelihood.hypers()}
            yield Batch(parameters, own)

    def chosen(self, likelihood: Likelihood, places: NDArray[np.intp]) -> Batch:
        """The networks at `places`, counted in the order of `batches`, in that of `places`."""
        batches = list(self.batches(likelihood, every=1))

        def take(parts: list[Named]) -> Named:
            return {name: np.concatenate([p[name] for p in parts])[places] for name in parts[0]}

        return Batch(take([b.parameters for b in batches]), take([b.hypers for b in batches]))

    def _chunks(self, chain: int, prefix: str) -> Iterator[tuple[int, Named]]:
        """The pieces of a chain, each with the number of draws before it.

        A chunk may have grown since its size was asked for.
        """
        first = 0
        for index, size in self.pieces.items():
            arrays = self.store.read_chunk(chain, index, prefix)
            if any(len(each) < size for each in arrays.values()):
                raise RunError(
                    f"file number {index} of chain {chain} has fewer draws than when the run was "
                    "loaded: it was replaced; load it again"
                )
            yield first, {name: each[:size] for name, each in arrays.items()}
            first += size


def find_draws(store: Store, *, skip_damaged: bool) -> Draws:
    """The draws that all chains have by now.

    Chunks that are damaged in one chain are left out in all, so that draws stay side by side.
    """
    chains, damage = store.manifest["chains"], store.damage() if skip_damaged else {}
    if damage:
        first = next(iter(damage.values()))
        warn(
            f"{len(damage)} damaged files are left out, in all chains: {first}"
            + (", ..." if len(damage) > 1 else "")
        )
    left_out = {index for _, index in damage}
    sizes = [store.chunk_sizes(chain, left_out) for chain in range(chains)]
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
    return Draws(store, chains, pieces)
