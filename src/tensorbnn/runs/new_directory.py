"""Making a run directory: where one is free, and without ever losing the run that was there."""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tensorbnn.runs.files import Arrays, DamagedFileError, RunError, pack_arrays, write_file
from tensorbnn.runs.lock import Lock
from tensorbnn.runs.manifest import identity, pack_manifest

# What a directory may hold before its run.json is written.
_UNFINISHED = re.compile(r"run\.lock|data\.safetensors|chain-\d+|metrics\.jsonl|\..+\.tmp")


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise where `path` is not free for a new run, before anything is computed."""
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())) or _is_unfinished(path):
            return
    except FileNotFoundError:  # somebody else has just moved it away
        return
    if not (path / "run.json").is_file():
        raise FileExistsError(
            f"{path} exists and is not a run of this library: choose another `path`"
        )
    if not overwrite:
        raise FileExistsError(
            f"{path} already holds a run: read it with tb.load({str(path)!r}), go on with it with "
            f"tb.resume({str(path)!r}), choose another `path`, or replace it with `overwrite=True`"
        )


def make_directory(
    path: Path,
    manifest: dict[str, Any],
    data: Arrays | None,
    states: Sequence[Arrays],
    *,
    overwrite: bool,
) -> Lock:
    """Make a new run directory, with the `states` in which its chains start; returns its lock.

    An existing run is replaced only with `overwrite`, and only when the new one is there.
    """
    check_free(path, overwrite=overwrite)
    try:
        with _out_of_the_way(path, overwrite=overwrite) as lock:
            _fill(path, manifest, data, states)
    except FileExistsError:
        raise
    except OSError as error:
        raise RunError(f"the run directory {path} can't be made: {error}") from error
    return lock


def chain_directory(path: Path, chain: int) -> Path:
    """Where the files of a chain are."""
    directory = path / f"chain-{chain:02d}"
    if not directory.resolve().is_relative_to(path.resolve()):
        raise DamagedFileError(directory, "leads out of the run, and is not used")
    return directory


def chain_lock(directory: Path) -> Lock:
    """The lock of a chain."""
    return Lock(directory / "chain.lock", str(directory))


def check_chains_are_free(path: Path) -> None:
    """Raise where a worker writes a chain, though nobody coordinates it: that may have died."""
    for directory in path.glob("chain-*"):
        if (directory / "chain.lock").exists() and not directory.is_symlink():
            chain_lock(directory).acquire().release()


def _is_unfinished(path: Path) -> bool:
    """Whether `path` is what is left where a run was stopped while its directory was made.

    It has our lock, which is made first, and no run.json, which is made last.
    """
    if not path.is_dir() or not (path / "run.lock").is_file():
        return False
    return all(_UNFINISHED.fullmatch(file.name) for file in path.iterdir())


@contextlib.contextmanager
def _out_of_the_way(path: Path, *, overwrite: bool) -> Iterator[Lock]:
    """Make `path` an empty directory that is locked; what was there is removed at the end.

    Where the block fails what was there is put back.
    """
    real = Path(os.path.realpath(path))
    old = real.with_name(f".{real.name}.{uuid.uuid4().hex}.old")
    with contextlib.ExitStack() as undo:
        first = lock = _make_locked(path, undo)
        # Once more: somebody else may have made a run since that was last looked at.
        check_free(path, overwrite=overwrite)
        if (path / "run.json").exists():
            check_chains_are_free(path)
            if os.name == "nt":  # what is open can't be renamed there
                first.release()
            real.rename(old)
            undo.callback(_put_back, old, real)
            lock = _make_locked(path, undo)
        undo.callback(_empty, real, keep="run.lock")
        _empty(real, keep="run.lock")
        yield lock
        undo.pop_all()
    for other in real.parent.glob(f".{real.name}.*.old"):
        shutil.rmtree(other, ignore_errors=True)
    if first is not lock:
        first.release()


def _make_locked(path: Path, undo: contextlib.ExitStack) -> Lock:
    """Make a directory, if there is none, and lock it."""
    Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
    lock = Lock(path / "run.lock", f"the run {path}").acquire()
    undo.callback(lock.release)
    return lock


def _put_back(old: Path, real: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else has taken the place
        real.rmdir()
        old.rename(real)


def _empty(directory: Path, keep: str) -> None:
    for file in directory.iterdir():
        if file.name == keep:
            continue
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()


def _fill(
    path: Path, manifest: dict[str, Any], data: Arrays | None, states: Sequence[Arrays]
) -> None:
    """Write all files of a run that begins; ``run.json`` makes it one, so it comes last."""
    if data is not None:
        write_file(path / "data.safetensors", pack_arrays(data, "data", {}))
    for chain, state in enumerate(states):
        directory = path / f"chain-{chain:02d}"
        directory.mkdir()
        facts = {"chain": chain, "run": identity(manifest)}
        write_file(directory / "state.safetensors", pack_arrays(state, "state", facts))
    write_file(path / "run.json", pack_manifest(manifest))
