"""The draws of a run as they were when it was loaded, chunk by chunk."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import NoDrawsError, RunError
from tensorbnn.findings import InBurnIn
from tensorbnn.model.layout import own_hypers
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.storage.store import MemoryStore, Store, with_prefix
from tensorbnn.warning import FilesLeftOut, warn

Named = dict[str, NDArray[Any]]


class Batch(NamedTuple):
    """Some networks of an ensemble: natural values by name, with networks as the first axis."""

    parameters: dict[str, Any]
    hypers: dict[str, Any]

    def of_likelihood(self, likelihood: Likelihood) -> "Batch":
        """The batch with only the likelihood's hyper-parameters, by argument name."""
        return Batch(self.parameters, own_hypers("likelihood", likelihood, self.hypers))


class Draws(NamedTuple):
    """Draws that all chains of a run have, or some of them; the run may have added more since."""

    store: Store
    chains: tuple[int, ...]  # numbers of the chains in the run
    pieces: Mapping[int, int]  # numbers of the chunks that every chain has, and draws of each
    steps: range  # indices of the draws within a chain
    in_burn_in: InBurnIn | None = None  # if the networks come from burn-in and are not draws

    @property
    def num_draws(self) -> int:
        return len(self.steps)

    def view(self, chains: slice | list[int], draws: slice) -> "Draws":
        """A subset of these chains and draws."""
        numbers = tuple(np.asarray(self.chains)[chains].tolist())
        return self._replace(chains=numbers, steps=self.steps[draws])

    def check_shapes(self, network: Network) -> None:
        """Raise if the files don't hold the parameters of `network`."""
        first = next(iter(self.pieces))
        shapes = [self.store.shapes(chain, first) for chain in self.chains]
        pairs = itertools.product(network.parameters.items(), shapes)
        for (name, parameter), own in pairs:
            found = own.get(f"parameters/{name}", (0,))[1:]
            if found != tuple(parameter.shape):
                raise RunError(
                    f"the network of this run has {name} of shape {tuple(parameter.shape)}, but "
                    f"its files hold {found or 'none'}: the run was changed or is damaged"
                )

    def read(self, prefix: str) -> Named:
        """Arrays ``(chains, draws, ...)`` whose names start with `prefix`, which is removed."""
        chains = [_joined(list(self._chunks(chain, prefix))) for chain in self.chains]
        return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}

    def batches(self) -> Iterator[Batch]:
        """The networks, chain after chain, chunk by chunk."""
        for chain in self.chains:
            for arrays in self._chunks(chain, ""):
                kinds = "parameters/", "hyperparameters/"
                yield Batch(*(with_prefix(arrays, kind) for kind in kinds))

    def resampled(self, places: NDArray[np.intp]) -> Iterator[Batch]:
        """The networks at increasing `places`, which may repeat, chunk by chunk."""
        first = 0
        for batch in self.batches():
            last = first + len(next(iter(batch.parameters.values())))
            own = places[(places >= first) & (places < last)] - first
            first = last
            if len(own):
                yield Batch(*({name: each[own] for name, each in kind.items()} for kind in batch))

    def take(self, places: NDArray[np.intp]) -> Batch:
        """The networks at `places`, in that order; places are counted as in `batches`."""
        batches = list(self.batches())
        parameters, hypers = (_joined(list(each)) for each in zip(*batches, strict=True))
        return Batch(*({n: v[places] for n, v in own.items()} for own in (parameters, hypers)))

    def last(self, chains: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Chain and draw of the last networks, one for each of `chains` new chains.

        If there are more new chains than old ones, earlier draws are used as well.
        """
        known = len(self.chains)
        step = max(self.num_draws // -(-chains // known), 1)
        chosen = np.arange(chains)
        back = chosen // known * step
        return chosen % known, np.maximum(self.num_draws - 1 - back, 0)

    def _chunks(self, chain: int, prefix: str) -> Iterator[Named]:
        """The selected draws in each chunk of a chain that has any."""
        before = 0
        for index, size in self.pieces.items():
            start = max(self.steps.start, before + (self.steps.start - before) % self.steps.step)
            chosen = slice(start - before, self.steps.stop - before, self.steps.step)
            if start < min(before + size, self.steps.stop):
                arrays = self._read_chunk(chain, index, prefix)
                yield {name: each[chosen] for name, each in arrays.items()}
            before += size

    def _read_chunk(self, chain: int, index: int, prefix: str) -> Named:
        """A chunk of a chain, cut to the known size: the file may have grown since."""
        size, arrays = self.pieces[index], self.store.read_chunk(chain, index, prefix)
        if any(len(each) < size for each in arrays.values()):
            raise RunError(
                f"file number {index} of chain {chain} has fewer draws than when the run was "
                "loaded: it was replaced; load it again"
            )
        return {name: each[:size] for name, each in arrays.items()}


def find_draws(store: Store, *, skip_damaged: bool) -> Draws:
    """The draws that all chains have so far.

    Chunks that are damaged in one chain are skipped in all, so that draws stay aligned.
    """
    chains, damage = store.manifest["chains"], store.damage() if skip_damaged else {}
    if damage:
        warn(FilesLeftOut(len(damage), next(iter(damage.values()))))
    left_out = {index for _, index in damage}
    sizes = [store.chunk_sizes(chain, left_out) for chain in range(chains)]
    pieces = {
        index: min(each[index] for each in sizes)
        for index in sorted(set.intersection(*(set(each) for each in sizes)))
    }
    if pieces:
        return Draws(store, tuple(range(chains)), pieces, range(sum(pieces.values())))
    found = None if damage else _burn_in(store, sizes)
    if found is None:
        raise NoDrawsError(damaged=bool(damage))
    return found


def _burn_in(store: Store, sizes: list[dict[int, int]]) -> Draws | None:
    """Networks from burn-in if a limit stopped a run there, and draws of chains that have some.

    They are copied, since their files are removed as soon as there are draws.
    """
    chunks = [
        store.read_chunk(chain, 0, "") if 0 in own else store.read_burn_in(chain)
        for chain, own in enumerate(sizes)
    ]
    if not all(chunks):
        return None
    latest = [int(each["transition"].max()) for each in chunks if "transition" in each]
    kept = MemoryStore(store.manifest, None)
    for chain, arrays in enumerate(chunks):
        named = {name: each for name, each in arrays.items() if name != "transition"}
        kept.write_chunk(chain, 0, named)
    length = min(len(each) for arrays in chunks for each in arrays.values())
    finding = InBurnIn(min(latest), store.manifest["burn_in"])
    return Draws(kept, tuple(range(len(chunks))), {0: length}, range(length), finding)


def in_order(arrays: Named, network: Network, likelihood: Likelihood) -> Named:
    """Arrays by name in the order of the model; files sort names, with 10 before 2."""
    own = (f"likelihood.{name}" for name in likelihood.numbers())
    known = [f"{name}." for name in (*network.parameters, *own)]

    def place(name: str) -> int:
        places = (number for number, each in enumerate(known) if f"{name}.".startswith(each))
        return next(places, len(known))

    return {name: arrays[name] for name in sorted(arrays, key=place)}


def _joined(parts: list[Named]) -> Named:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
