"""A run directory.

    run.json                            what was run: model, sampler, seed, data fingerprint
    data.safetensors                    the training data
    chain-00/draws-00000.safetensors    draws: named parameters, hyper-parameters, sampler info
    chain-00/state.safetensors          everything the chain needs to continue
    chain-00/burn-in.safetensors        networks of burn-in, if a limit has stopped the run there
    metrics.jsonl                       one line of JSON for each report of a chain
    run.lock                            which process is writing; exists only while it does
    chain-00/chain.lock                 the same for a worker of an executor
    stop                                tells workers to stop; the next run removes it

Every file is written under a temporary name, synced to the disk and renamed, so the directory is a
valid run at every instant and can be read while it grows. Only reports are appended, a line each.
``run.json`` is written after all other files. The state of a chain is written after the draws that
it counts, so a chain can always continue from it. All files are JSON or safetensors: reading them
executes nothing, and nothing outside the directory is read.
"""

import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import DamagedDrawsError, DamagedFileError, DamagedStateError, WriteError
from tensorbnn.storage import creation, files
from tensorbnn.storage.files import Arrays, sync_file
from tensorbnn.storage.lock import Lock
from tensorbnn.storage.manifest import identity, pack_manifest, read_manifest
from tensorbnn.storage.store import Store, with_prefix


@final
class DirectoryStore(Store):
    """A run directory: read by ``DirectoryStore(path)``, written by `create` and `open_to_write`.

    A writer holds the lock of the directory until `close`. Readers ignore it.

    Attributes
    ----------
    path
        The path as it was given, for messages.
    root
        The same as an absolute path, which stays valid if the process changes its directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.root = Path(path), Path(path).absolute()
        self._reports, self._reports_to_sync = self.root / "metrics.jsonl", False
        self._syncing = threading.Lock()
        self._lock = Lock(self.root / "run.lock", f"the run {self.path}")
        self.refresh()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        manifest: dict[str, Any],
        data: Arrays | None,
        states: Sequence[Arrays],
        *,
        overwrite: bool,
    ) -> "DirectoryStore":
        """Create a run directory, with the `states` in which its chains start.

        An existing run is replaced only with `overwrite`, and only when the new one exists.
        """
        lock = creation.make_directory(Path(path), manifest, data, states, overwrite=overwrite)
        try:
            store = cls(path)
        except BaseException:
            lock.release()
            raise
        store._lock = lock
        return store

    @classmethod
    def open_to_write(cls, path: str | os.PathLike[str]) -> "DirectoryStore":
        """Open a run to continue it: take its lock, and clean up after a writer that was killed."""
        store = cls(path)
        try:
            store._lock.acquire()
            store.refresh()
            creation.check_chains_are_free(store.root)
            with store._writing(store.path):
                files.remove_leftovers(store.root)
                store.stop_file.unlink(missing_ok=True)
                for chain in range(store.manifest["chains"]):
                    store.remove_leftovers(chain)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def stop_file(self) -> Path:
        """If this file exists, workers stop after their current call."""
        return self.root / "stop"

    def writer(self) -> dict[str, Any] | None:
        """The process that writes the run, according to its lock."""
        return self._lock.holder()

    def is_being_written(self) -> bool:
        """Whether the process that writes the run still exists, according to its lock."""
        return self._lock.is_held()

    def chain_lock(self, chain: int) -> Lock:
        """The lock of one chain, for a worker that runs it."""
        return creation.chain_lock(self._chain(chain))

    def remove_leftovers(self, chain: int) -> None:
        """Remove temporary files of a chain that a killed writer left behind."""
        files.remove_leftovers(self._chain(chain))

    def transitions(self, chain: int) -> int:
        """Number of transitions of a chain that are saved."""
        return self._read_count(chain, "transitions")

    def progress(self, chain: int) -> tuple[int, int]:
        """Numbers of transitions and gradients of a chain that are saved."""
        return self.transitions(chain), self._read_count(chain, "gradients")

    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        file, draws = self._chunk(chain, index), len(next(iter(arrays.values())))
        usable = f"; the draws before it can be read with tb.load({str(self.path)!r})"
        files.check_finite(file, arrays, usable=usable)
        facts = self._facts(chain, index) | {"draws": draws}
        with self._writing(file):  # a state follows
            files.write_file(file, files.pack_arrays(arrays, "draws", facts), last=False)

    def write_state(self, chain: int, arrays: Arrays) -> None:
        self._sync_reports()  # the state counts them
        file = self._state(chain)
        with self._writing(file):
            files.write_file(file, files.pack_arrays(arrays, "state", self._facts(chain)))

    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        try:
            return self._read_state(chain, "")
        except DamagedFileError as error:
            raise DamagedStateError(error, chain, self.path) from error

    def write_burn_in(self, chain: int, arrays: Arrays) -> None:
        file = self._burn_in(chain)
        with self._writing(file):
            files.write_file(file, files.pack_arrays(arrays, "burn-in", self._facts(chain)))

    def read_burn_in(self, chain: int) -> dict[str, NDArray[Any]]:
        file = self._burn_in(chain)
        if not file.exists():
            return {}
        arrays = files.read_arrays(self.root, file, "burn-in", self._facts(chain))
        made = arrays.get("transition", np.empty(0))
        shapes = {each.shape[:1] for each in arrays.values()}
        if made.dtype.kind != "i" or not made.size or shapes != {made.shape}:
            raise DamagedFileError(file, "is damaged: its arrays don't hold the same networks")
        files.check_finite(file, arrays)
        return arrays

    def remove_burn_in(self, chain: int) -> None:
        file = self._burn_in(chain)
        with self._writing(file):
            file.unlink(missing_ok=True)

    def chunk_sizes(self, chain: int, left_out: Collection[int] = ()) -> dict[int, int]:
        wanted = {n: least for n, least in self._expected(chain).items() if n not in left_out}
        with self._naming_readable_draws():
            return {index: self._size(chain, index, least) for index, least in wanted.items()}

    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        with self._naming_readable_draws():
            return self._read_chunk(chain, index, prefix)

    def shapes(self, chain: int, index: int) -> dict[str, tuple[int, ...]]:
        facts = self._facts(chain, index)
        found: dict[str, tuple[int, ...]] = files.read_facts(
            self.root, self._chunk(chain, index), "draws", facts
        )["shapes"]
        return found

    def damage(self) -> dict[tuple[int, int], str]:
        found = {}
        for chain in range(self.manifest["chains"]):
            for index, least in self._expected(chain).items():
                try:
                    self._size(chain, index, least)
                    self._read_chunk(chain, index, "")
                except DamagedFileError as error:
                    found[chain, index] = str(error)
        return found

    def data(self) -> dict[str, NDArray[Any]] | None:
        file = self.root / "data.safetensors"
        if not file.exists():
            return None
        return files.read_arrays(self.root, file, "data", {})

    def append_report(self, report: Mapping[str, Any]) -> None:
        with self._writing(self._reports):
            files.append_line(self._reports, files.pack_report(report))
        self._reports_to_sync = True

    def reports(self, *, skip_damaged: bool = False) -> list[dict[str, Any]]:
        # Read the states first: the reports that they count were written before them.
        reported = {} if skip_damaged else self._reported()
        found: list[dict[str, Any]] = []
        if self._reports.exists():
            files.check_inside(self._reports, self.root)
            found = files.read_reports(self._reports, skip_damaged=skip_damaged)
        found = files.order_reports(found)
        if reported:
            now = read_manifest(self.root)  # a run that was extended drops its last report
            end = now["burn_in"] + now["draws"] * now["thin"]
            files.check_all_reported(self._reports, found, reported, now["report_every"], end)
        return found

    def new_reports(self, offset: int) -> tuple[list[dict[str, Any]], int]:
        """Reports after byte `offset` of their file, and the offset of the next ones."""
        return files.read_new_reports(self._reports, offset)

    def replace_reports(self, reports: Sequence[Mapping[str, Any]]) -> None:
        if not self._reports.exists() and not reports:
            return
        with self._writing(self._reports):
            files.write_file(self._reports, b"".join(map(files.pack_report, reports)))

    def update(self, **fields: Any) -> None:
        super().update(**fields)
        file = self.root / "run.json"
        with self._writing(file):
            files.write_file(file, pack_manifest(self.manifest))

    def refresh(self) -> None:
        self.manifest = read_manifest(self.root)
        creation.check_chains_are_there(self.root, self.manifest["chains"])
        self._sizes: dict[tuple[int, int], int] = {}  # of full chunks, which do not change
        self._identity = identity(self.manifest)

    def close(self) -> None:
        self._lock.release()

    def _chain(self, chain: int) -> Path:
        return creation.chain_directory(self.root, chain)

    def _state(self, chain: int) -> Path:
        return self._chain(chain) / "state.safetensors"

    def _burn_in(self, chain: int) -> Path:
        return self._chain(chain) / "burn-in.safetensors"

    def _chunk(self, chain: int, index: int) -> Path:
        return self._chain(chain) / f"draws-{index:05d}.safetensors"

    def _facts(self, chain: int, index: int | None = None) -> dict[str, Any]:
        of_chunk = {} if index is None else {"index": index}
        return {"chain": chain, "run": self._identity, **of_chunk}

    def _read_state(self, chain: int, prefix: str) -> dict[str, NDArray[Any]]:
        return files.read_arrays(self.root, self._state(chain), "state", self._facts(chain), prefix)

    def _read_count(self, chain: int, name: str) -> int:
        array = self._read_state(chain, name).get(name)
        if array is None or array.shape or array.dtype.kind not in "iu" or array < 0:
            raise DamagedFileError(self._state(chain), f"is damaged: it has no count of {name}")
        return int(array)

    def _sync_reports(self) -> None:
        """Sync the reports; a chain waits if another one is syncing its report."""
        with self._syncing:
            if self._reports_to_sync:
                self._reports_to_sync = False
                with self._writing(self._reports):
                    sync_file(self._reports)

    def _reported(self) -> dict[int, int]:
        """The transition of the last report of each chain, according to its state."""
        found = {}
        for chain in range(self.manifest["chains"]):
            with contextlib.suppress(DamagedFileError):
                found[chain] = self._read_count(chain, "reported")
        return found

    def _expected(self, chain: int) -> dict[int, int]:
        """The chunks that a chain has, or should have, by number, and the draws each must hold.

        A complete run must have all its draws. Otherwise the state says how many there are at
        least. It is read before the chunks, because the draws that it counts were written first.
        """
        try:
            transitions = self.transitions(chain)
        except DamagedFileError:  # then any number of draws will do
            transitions = 0
        drawn = max(transitions - self.manifest["burn_in"], 0) // self.manifest["thin"]
        if self.manifest["status"] == "complete":
            drawn = max(drawn, self.manifest["draws"])
        directory = self._chain(chain)
        if not directory.is_dir():
            raise DamagedFileError(directory, "is missing")
        return creation.expected_chunks(directory, drawn, self.manifest["networks_per_file"])

    def _size(self, chain: int, index: int, least: int) -> int:
        size = self._sizes.get((chain, index))
        if size is None:
            file = self._chunk(chain, index)
            found = files.read_facts(self.root, file, "draws", self._facts(chain, index))
            size = found.get("draws")
            if type(size) is not int or {shape[:1] for shape in found["shapes"].values()} != {
                (size,)
            }:
                raise DamagedFileError(file, f"is damaged: its arrays don't hold {size} draws")
            if size < least:
                reason = f"is older than the run: it has {size} draws, but {least} were written"
                raise DamagedFileError(file, reason)
            if size == self.manifest["networks_per_file"]:
                self._sizes[chain, index] = size
        return size

    def _read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        file = self._chunk(chain, index)
        arrays = files.read_arrays(self.root, file, "draws", self._facts(chain, index), prefix)
        files.check_finite(file, arrays)
        return with_prefix(arrays, prefix)

    @contextlib.contextmanager
    def _naming_readable_draws(self) -> Iterator[None]:
        """If draws cannot be read, name those that can."""
        try:
            yield
        except DamagedFileError as error:
            bad: dict[int, set[int]] = {}
            for chain, index in self.damage():
                bad.setdefault(chain, set()).add(index)
            whole = {chain: self.chunk_sizes(chain, indices) for chain, indices in bad.items()}
            size, others = self.manifest["networks_per_file"], self.manifest["chains"] - len(whole)
            raise DamagedDrawsError(error, self.path, whole, size, others) from error

    @contextlib.contextmanager
    def _writing(self, file: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteError(file, str(error), self.path) from error
