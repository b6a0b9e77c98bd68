"""Where a run keeps its draws: this module keeps them in memory, `directory` on disk."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.storage.files import Arrays, order_reports


class Store(ABC):
    """What a run writes to and an ensemble reads from.

    A chunk is a dict of arrays, with the draws as first axis, named ``parameters/<name>``,
    ``hyperparameters/<name>`` and ``sample_stats/<name>``. Chunks of a chain are numbered from 0,
    and all but the last hold ``networks_per_file`` draws. The last one is replaced as it grows.
    """

    manifest: dict[str, Any]

    @abstractmethod
    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        """Add chunk number `index` of a chain, or replace it with a longer one."""

    @abstractmethod
    def write_state(self, chain: int, arrays: Arrays) -> None:
        """Replace the state from which a chain can continue."""

    @abstractmethod
    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        """The state of a chain as it was last written."""

    @abstractmethod
    def write_burn_in(self, chain: int, arrays: Arrays) -> None:
        """Keep networks of burn-in, named as in a chunk, of a chain that has no draws yet."""

    @abstractmethod
    def read_burn_in(self, chain: int) -> dict[str, NDArray[Any]]:
        """The networks of burn-in that are kept; empty if there are none."""

    @abstractmethod
    def remove_burn_in(self, chain: int) -> None:
        """Remove the networks of burn-in of a chain that has draws."""

    @abstractmethod
    def chunk_sizes(self, chain: int, left_out: Collection[int] = ()) -> dict[int, int]:
        """Number of draws in each chunk of a chain, by the chunk's number."""

    @abstractmethod
    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        """Arrays of a chunk whose names start with `prefix`, by the rest of their names."""

    @abstractmethod
    def shapes(self, chain: int, index: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of a chunk by their full names, the draws as first axis."""

    def damage(self) -> dict[tuple[int, int], str]:
        """Why chunks can't be read, by chain and number."""
        return {}

    @abstractmethod
    def data(self) -> dict[str, NDArray[Any]] | None:
        """Training data; ``None`` for the prior, or if the run did not keep them."""

    @abstractmethod
    def append_report(self, report: Mapping[str, Any]) -> None:
        """Add a report: JSON values, with at least ``chain`` and ``transition``."""

    @abstractmethod
    def reports(self, *, skip_damaged: bool = False) -> list[dict[str, Any]]:
        """All reports sorted by chain and transition; of two for the same one, the later one."""

    @abstractmethod
    def replace_reports(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Replace all reports."""

    def update(self, **fields: Any) -> None:
        """Change fields of the manifest, such as the status or the number of draws."""
        self.manifest |= fields

    def refresh(self) -> None:
        """Look for what was written in the meantime."""
        return

    def close(self) -> None:
        """Let other processes write."""
        return


@final
class MemoryStore(Store):
    """A run that is not saved."""

    def __init__(self, manifest: dict[str, Any], data: Arrays | None) -> None:
        self.manifest = manifest
        self._data = None if data is None else dict(data)
        self._chunks: dict[int, list[dict[str, NDArray[Any]]]] = {}
        self._states: dict[int, dict[str, NDArray[Any]]] = {}
        self._burn_in: dict[int, dict[str, NDArray[Any]]] = {}
        self._reports: list[dict[str, Any]] = []
        self.run: object = None
        """The run that writes here, which another one can continue."""

    def copy(self) -> "MemoryStore":
        """A store with the same contents; writing to one does not change the other."""
        new = MemoryStore(dict(self.manifest), self._data)
        new._chunks = {chain: list(chunks) for chain, chunks in self._chunks.items()}
        new._states, new._burn_in = dict(self._states), dict(self._burn_in)
        new._reports = list(self._reports)
        return new

    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        self._chunks.setdefault(chain, [])[index:] = [dict(arrays)]

    def write_state(self, chain: int, arrays: Arrays) -> None:
        self._states[chain] = dict(arrays)

    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        return self._states[chain]

    def write_burn_in(self, chain: int, arrays: Arrays) -> None:
        self._burn_in[chain] = dict(arrays)

    def read_burn_in(self, chain: int) -> dict[str, NDArray[Any]]:
        return self._burn_in.get(chain, {})

    def remove_burn_in(self, chain: int) -> None:
        self._burn_in.pop(chain, None)

    def chunk_sizes(self, chain: int, left_out: Collection[int] = ()) -> dict[int, int]:
        sizes = (len(next(iter(arrays.values()))) for arrays in self._chunks.get(chain, []))
        return {index: size for index, size in enumerate(sizes) if index not in left_out}

    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        return with_prefix(self._chunks[chain][index], prefix)

    def shapes(self, chain: int, index: int) -> dict[str, tuple[int, ...]]:
        return {name: np.shape(each) for name, each in self._chunks[chain][index].items()}

    def data(self) -> dict[str, NDArray[Any]] | None:
        return self._data

    def append_report(self, report: Mapping[str, Any]) -> None:
        self._reports.append(dict(report))

    def reports(self, *, skip_damaged: bool = False) -> list[dict[str, Any]]:
        return order_reports(self._reports)

    def replace_reports(self, reports: Sequence[Mapping[str, Any]]) -> None:
        self._reports = [dict(report) for report in reports]


def with_prefix(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): np.asarray(values)
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
