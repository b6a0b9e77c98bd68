"""Where a run keeps what it draws: a directory, or memory.

    run.json                            what was run: model, sampler, seed, data fingerprint
    data.safetensors                    the training data
    chain-00/draws-00000.safetensors    draws: named parameters, hyper-parameters, sampler info
    chain-00/state.safetensors          all that the chain needs to go on
    metrics.jsonl                       a line of JSON for every report of a chain

Every file is written under a temporary name, synced to the disk and renamed, so that the directory
is a valid run at every instant and can be read while it grows; only reports are appended, a line
each, and a line that is not whole is not read. JSON and safetensors only: reading executes nothing.
"""

import json
import os
import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

FORMAT = 1
Arrays = Mapping[str, NDArray[Any]]


class RunError(RuntimeError):
    """A run directory that can't be read or written; the message says which file and why."""


class Store(ABC):
    """What a run writes and an ensemble reads.

    A chunk is a dict of arrays with the draws as first axis, named ``parameters/<name>``,
    ``hyperparameters/<name>`` and ``info/<name>``. Chunks of a chain are numbered from 0.
    """

    manifest: dict[str, Any]

    @abstractmethod
    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        """Add chunk number `index` of a chain."""

    @abstractmethod
    def write_state(self, chain: int, arrays: Arrays) -> None:
        """Replace the state from which a chain can go on."""

    @abstractmethod
    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        """The state of a chain as it was last written."""

    @abstractmethod
    def chunk_sizes(self, chain: int) -> list[int]:
        """Number of draws in each complete chunk of a chain."""

    @abstractmethod
    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        """Arrays of a chunk whose names start with `prefix`, by the rest of their names."""

    @abstractmethod
    def data(self) -> dict[str, NDArray[Any]] | None:
        """Training data ``x`` and ``y``, or ``None`` for the prior or where they were left out."""

    @abstractmethod
    def append_report(self, report: Mapping[str, Any]) -> None:
        """Add a report; it has at least ``chain`` and ``epoch``, and only values JSON knows."""

    @abstractmethod
    def reports(self) -> list[dict[str, Any]]:
        """All reports, by chain and epoch; of two for the same epoch the later one."""

    @abstractmethod
    def finish(self, status: str) -> None:
        """Record how the run ended: ``"complete"`` or ``"interrupted"``."""


class MemoryStore(Store):
    """A run that is not saved."""

    def __init__(self, manifest: dict[str, Any], data: Arrays | None) -> None:
        self.manifest = manifest
        self._data = None if data is None else dict(data)
        self._chunks: dict[int, list[dict[str, NDArray[Any]]]] = {}
        self._states: dict[int, dict[str, NDArray[Any]]] = {}
        self._reports: list[dict[str, Any]] = []

    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        chunks = self._chunks.setdefault(chain, [])
        chunks[index:] = [dict(arrays)]

    def write_state(self, chain: int, arrays: Arrays) -> None:
        self._states[chain] = dict(arrays)

    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        return self._states[chain]

    def chunk_sizes(self, chain: int) -> list[int]:
        return [len(next(iter(arrays.values()))) for arrays in self._chunks.get(chain, [])]

    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        return _with_prefix(self._chunks[chain][index], prefix)

    def data(self) -> dict[str, NDArray[Any]] | None:
        return self._data

    def append_report(self, report: Mapping[str, Any]) -> None:
        self._reports.append(dict(report))

    def reports(self) -> list[dict[str, Any]]:
        return _in_order(self._reports)

    def finish(self, status: str) -> None:
        self.manifest["status"] = status


class DirectoryStore(Store):
    """A run directory; made by `create`, read by ``DirectoryStore(path)``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.manifest = _read_manifest(self.path)
        self._sizes: dict[Path, int] = {}
        self._append_lock = threading.Lock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        manifest: dict[str, Any],
        data: Arrays | None,
        *,
        overwrite: bool,
    ) -> "DirectoryStore":
        """Make a new run directory; an existing run is replaced only with `overwrite`."""
        path = Path(path)
        check_free(path, overwrite=overwrite)
        try:
            if path.exists() and overwrite:
                shutil.rmtree(path)
            path.mkdir(parents=True, exist_ok=True)
            if data is not None:
                _write(path / "data.safetensors", safetensors.numpy.save(dict(data)))
            for chain in range(manifest["chains"]):
                (path / f"chain-{chain:02d}").mkdir()
            _write(path / "run.json", _json(manifest))
        except OSError as error:
            raise RunError(f"the run directory {path} can't be made: {error}") from error
        return cls(path)

    def write_chunk(self, chain: int, index: int, arrays: Arrays) -> None:
        count = str(len(next(iter(arrays.values()))))
        content = safetensors.numpy.save(dict(arrays), {"format": str(FORMAT), "draws": count})
        self._sizes.pop(self._chunk(chain, index), None)
        _write(self._chunk(chain, index), content)

    def write_state(self, chain: int, arrays: Arrays) -> None:
        content = safetensors.numpy.save(dict(arrays), {"format": str(FORMAT)})
        _write(self._chain(chain) / "state.safetensors", content)

    def read_state(self, chain: int) -> dict[str, NDArray[Any]]:
        return _read_arrays(self._chain(chain) / "state.safetensors", "")

    def chunk_sizes(self, chain: int) -> list[int]:
        sizes: list[int] = []
        while (file := self._chunk(chain, len(sizes))).exists():
            if file not in self._sizes:
                self._sizes[file] = _read_size(file)
            sizes.append(self._sizes[file])
        return sizes

    def read_chunk(self, chain: int, index: int, prefix: str) -> dict[str, NDArray[Any]]:
        return _read_arrays(self._chunk(chain, index), prefix)

    def data(self) -> dict[str, NDArray[Any]] | None:
        file = self.path / "data.safetensors"
        return _read_arrays(file, "") if file.exists() else None

    def append_report(self, report: Mapping[str, Any]) -> None:
        line = json.dumps(report, allow_nan=False).encode() + b"\n"
        with self._append_lock:
            _append_line(self.path / "metrics.jsonl", line)

    def reports(self) -> list[dict[str, Any]]:
        file = self.path / "metrics.jsonl"
        return _in_order(_read_lines(file)) if file.exists() else []

    def finish(self, status: str) -> None:
        self.manifest["status"] = status
        _write(self.path / "run.json", _json(self.manifest))

    def _chain(self, chain: int) -> Path:
        return self.path / f"chain-{chain:02d}"

    def _chunk(self, chain: int, index: int) -> Path:
        return self._chain(chain) / f"draws-{index:05d}.safetensors"


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise where `path` is not free for a new run, before anything is computed."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / "run.json").is_file():
        raise FileExistsError(
            f"{path} exists and is not a run of this library: choose another `path`"
        )
    if not overwrite:
        raise FileExistsError(
            f"{path} already holds a run: read it with tb.load({str(path)!r}), choose another "
            "`path`, or replace it with `overwrite=True`"
        )


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: temporary name, sync, rename, sync of the directory."""
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(
            f"{file} can't be written: {error}; files written before it are whole"
        ) from error
    _sync_directory(file.parent)


def _append_line(file: Path, line: bytes) -> None:
    """Append a line in one piece; a torn line before it, of a run that was killed, is ended."""
    try:
        with file.open("a+b") as stream:
            if stream.tell():
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":
                    stream.write(b"\n")
            stream.write(line)
    except OSError as error:
        raise RunError(f"{file} can't be written: {error}") from error


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":  # directories can't be opened there, and renames are journalled
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _json(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, allow_nan=False) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not a run: it has no run.json")
    try:
        manifest = json.loads(file.read_bytes())
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(found, int) or "chains" not in manifest:
        raise RunError(f"{file} was not written by this library")
    if found > FORMAT:
        raise RunError(
            f"{file} has format {found}, but this version of the library reads up to {FORMAT}: "
            "install a newer version"
        )
    return manifest


def _read_size(file: Path) -> int:
    try:
        with safe_open(file, framework="numpy") as content:
            return int((content.metadata() or {})["draws"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise RunError(_damaged(file, error)) from error


def _read_arrays(file: Path, prefix: str) -> dict[str, NDArray[Any]]:
    try:
        with safe_open(file, framework="numpy") as content:
            names = [name for name in content.keys() if name.startswith(prefix)]  # noqa: SIM118
            return {name.removeprefix(prefix): content.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise RunError(_damaged(file, error)) from error


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """Reports of a file that may be growing: a line that is not whole is left out."""
    found = []
    for line in file.read_bytes().splitlines():
        try:
            report = json.loads(line)
        except ValueError:
            continue
        if isinstance(report, dict) and {"chain", "epoch"} <= report.keys():
            found.append(report)
    return found


def _in_order(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    latest = {(report["chain"], report["epoch"]): report for report in reports}
    return [latest[key] for key in sorted(latest)]


def _damaged(file: Path, error: Exception) -> str:
    return (
        f"{file} is damaged or not a file of this library ({error}); "
        "the other files of the run are not affected"
    )


def _with_prefix(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): np.asarray(values)
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
