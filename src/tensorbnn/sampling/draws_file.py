"""The file of draws that chains are filling: what is named in it already, and what is not yet."""

from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np
from numpy.typing import NDArray

from tensorbnn.inference.target import TargetDensity
from tensorbnn.sampling.advance import Kept, named_arrays
from tensorbnn.sampling.plan import Plan
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store


@final
class DrawsFile:
    """The file that is being filled, of each of some chains that are advanced together.

    `drawn` is the number of whole draws of each of them.
    """

    def __init__(self, store: Store, chains: Sequence[int], plan: Plan, drawn: int) -> None:
        self._store, self._chains = store, chains
        self._size, self._capacity = plan.networks_per_file, plan.capacity
        self._rows = self._saved_rows(drawn, plan.draws)
        self._new: list[Kept] = []

    @property
    def has_new(self) -> bool:
        """Whether there are draws that are not written."""
        return bool(self._new)

    def add(self, draws: Kept) -> None:
        """Take the draws of a call."""
        self._new.append(draws)

    def write(self, target: TargetDensity, drawn: int) -> None:
        """Write the file with what is new; `drawn` counts that."""
        kept: Kept = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self._new)
        new = kept.position.shape[1]
        index, first = divmod(drawn - new, self._size)
        arrays = self._named(target, kept, first)
        if self._rows:
            before, after = slice(first), slice(first + new, None)
            arrays = {
                name: np.concatenate([rows[:, before], arrays[name], rows[:, after]], axis=1)
                for name, rows in self._rows.items()
            }
        for row, chain in enumerate(self._chains):
            own = {name: values[row] for name, values in arrays.items()}
            self._store.write_chunk(chain, index, own)
        self._rows, self._new = ({} if first + new == self._size else arrays), []

    def _named(self, target: TargetDensity, kept: Kept, first: int) -> dict[str, NDArray[Any]]:
        """Draws by name, from row `first` of the file on, in parts that are cut as the file is."""
        parts, done, new = [], 0, kept.position.shape[1]
        while done < new:
            row = (first + done) % self._capacity
            own = slice(done, min(done + self._capacity - row, new))
            part: Kept = jax.tree.map(lambda leaf, own=own: leaf[:, own], kept)
            parts.append(named_arrays(target, part, self._capacity, row))
            done = own.stop
        return {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}

    def _saved_rows(self, drawn: int, most: int) -> dict[str, NDArray[Any]]:
        """Draws of the last file that is not full, each ``(chains, draws, ...)``.

        The file may hold more than the state counts, where a run was killed between the two: they
        are drawn again, with the same bits, and stay meanwhile, since they may have been read. A
        run that is to have fewer draws, `most`, keeps no more.
        """
        index, draws = divmod(drawn, self._size)
        chunks = self._saved_chunks(index, needed=draws > 0)
        if not chunks:
            return {}
        lengths = [min(len(each) for each in chunk.values()) for chunk in chunks]
        for chain, length in zip(self._chains, lengths, strict=True):
            if length < draws:
                raise RunError(
                    f"chain {chain} can't go on: its last file (number {index}) holds fewer than "
                    f"the {draws} draws that were written"
                )
        end = min(*lengths, most - index * self._size)
        return {name: np.stack([chunk[name][:end] for chunk in chunks]) for name in chunks[0]}

    def _saved_chunks(self, index: int, *, needed: bool) -> list[dict[str, NDArray[Any]]]:
        """File number `index` of each chain; none where it is not `needed` and some have none."""
        try:
            if not needed and not all(
                index in self._store.chunk_sizes(chain, range(index)) for chain in self._chains
            ):
                return []
            return [self._store.read_chunk(chain, index, "") for chain in self._chains]
        except RunError:
            if needed:
                raise
            return []
