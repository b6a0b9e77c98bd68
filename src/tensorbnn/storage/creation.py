"""Making a run directory: whether a path is free, and never losing the run that was there.

Also where the files of a chain are, and which files are those of a run.
"""

import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tensorbnn.errors import DamagedFileError, PathTakenError, RunError
from tensorbnn.storage.files import Arrays, pack_arrays, write_file
from tensorbnn.storage.lock import Lock
from tensorbnn.storage.manifest import identity, pack_manifest

_CHUNK = re.compile(r"draws-(\d{5,})\.safetensors")
# What a directory may hold before its run.json is written, and all that the library writes there.
_UNFINISHED = re.compile(r"run\.lock|data\.safetensors|chain-\d+|\..+\.tmp")
_OF_RUN = re.compile(
    rf"{_UNFINISHED.pattern}|run\.json|metrics\.jsonl|stop|architecture\.txt|report\.html"
)
_OF_CHAIN = re.compile(rf"{_CHUNK.pattern}|(state|burn-in)\.safetensors|chain\.lock|\..+\.tmp")
# Files of a chain that are missing and named, at most.
_MOST_MISSING = 1000


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if `path` is not free for a new run, before anything is computed."""
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())) or _is_unfinished(path):
            return
    except FileNotFoundError:  # somebody else has just moved it away
        return
    if not _is_run(path):
        raise PathTakenError(path, "something else")
    if not overwrite:
        raise PathTakenError(path, "run")
    if Path.cwd().is_relative_to(path.resolve()):
        raise PathTakenError(path, "current directory")
    if others := foreign_files(path):
        raise PathTakenError(path, "other files", others)


def make_directory(
    path: Path,
    manifest: dict[str, Any],
    data: Arrays | None,
    states: Sequence[Arrays],
    *,
    overwrite: bool,
) -> Lock:
    """Make what `DirectoryStore.create` opens; returns its lock."""
    check_free(path, overwrite=overwrite)
    try:
        with _out_of_the_way(path, overwrite=overwrite) as (real, lock):
            _fill(real, manifest, data, states)
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


def check_chains_are_there(path: Path, chains: int) -> None:
    """Raise if the run at `path` has fewer or more directories than chains."""
    for chain in range(chains):
        directory = path / f"chain-{chain:02d}"
        if not directory.is_dir():
            raise DamagedFileError(directory, "is missing")
    directory = path / f"chain-{chains:02d}"
    if directory.exists():
        raise DamagedFileError(directory, f"is not one of the {chains} chains that run.json names")


def foreign_files(path: Path) -> tuple[str, ...]:
    """Names of what is in a run directory, though the library did not write it."""
    found = []
    for file in path.iterdir():
        if not _OF_RUN.fullmatch(file.name):
            found.append(file.name)
        elif file.is_dir() and not file.is_symlink():
            is_chain = file.name.startswith("chain-")
            found += [
                f"{file.name}/{inside.name}"
                for inside in file.iterdir()
                if not is_chain or not _OF_CHAIN.fullmatch(inside.name) or inside.is_dir()
            ]
    return tuple(sorted(found))


def expected_chunks(directory: Path, drawn: int, size: int) -> dict[int, int]:
    """Numbers of the chunks that a chain has, or should have, and the draws each must hold.

    `drawn` are the draws that the chain's state counts, of which there may be more by now; `size`
    are those in a full chunk.
    """
    names = (_CHUNK.fullmatch(file.name) for file in directory.iterdir())
    found = {int(name[1]) for name in names if name}
    # A chunk that others follow is full, and one more is there than the last.
    gaps = set(range(min(max(found, default=0), len(found)))) - found
    counted = range(min(-(-drawn // size), len(found) + _MOST_MISSING))
    indices = sorted(found | gaps | set(counted))
    return {
        index: size if index != indices[-1] else max(min(drawn - index * size, size), 1)
        for index in indices
    }


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

    It has our lock, which is made first, and neither run.json, which is made last, nor draws.
    """
    if not path.is_dir() or not (path / "run.lock").is_file() or any(path.glob("chain-*/draws-*")):
        return False
    is_ours = all(_UNFINISHED.fullmatch(file.name) for file in path.iterdir())
    return is_ours and not foreign_files(path)


def _is_run(path: Path) -> bool:
    """Whether `path` holds a run, which may be damaged; others have files named run.json, too."""
    file = path / "run.json"
    if not file.is_file():
        return False
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(file.read_bytes())
        if isinstance(found, dict) and {"format", "sha256"} <= found.keys():
            return True
    return not foreign_files(path)


@contextlib.contextmanager
def _out_of_the_way(path: Path, *, overwrite: bool) -> Iterator[tuple[Path, Lock]]:
    """Make `path` an empty directory that is locked; what was there is removed at the end.

    Where the block fails what was there is put back.
    """
    real = Path(os.path.realpath(path))
    old = _name_aside(real)
    with contextlib.ExitStack() as undo:
        first = lock = _make_locked(real, path, undo)
        # Once more: somebody else may have made a run since that was last looked at.
        check_free(path, overwrite=overwrite)
        if (real / "run.json").exists():
            check_chains_are_free(real)
            if os.name == "nt":  # what is open can't be renamed there
                first.release()
            undo.callback(_put_back, old, real, is_ours=False)
            real.rename(old)
            lock = _make_locked(real, path, undo)
            undo.callback(_put_back, old, real, is_ours=os.name != "nt")
        undo.callback(_empty, real)
        _empty(real)
        yield real, lock
        undo.pop_all()
    try:
        if overwrite:
            _remove_old(real)
        if first is not lock:
            first.release()
    except BaseException:  # Ctrl-C: many files take a while
        lock.release()
        raise


def _make_locked(real: Path, path: Path, undo: contextlib.ExitStack) -> Lock:
    """Make the directory `real`, if there is none, and lock it; the user knows it as `path`."""
    real.mkdir(parents=True, exist_ok=True)
    lock = Lock(real / "run.lock", f"the run {path}")
    undo.callback(_give_back, real, lock)
    return lock.acquire()


def _give_back(real: Path, lock: Lock) -> None:
    """Release the lock of a directory that is not to be a run.

    Where emptying it was interrupted, too, the file of the lock stays: it says that the rest is
    ours, and may be replaced.
    """
    is_left = True
    try:
        is_left = _is_unfinished(real) and any(each != lock.file for each in real.iterdir())
    finally:
        lock.release(keep_file=is_left)


def _name_aside(real: Path) -> Path:
    """A new name next to `real` for what is not to be seen there."""
    return real.with_name(f".{real.name}.{uuid.uuid4().hex}.old")


def _put_back(old: Path, real: Path, *, is_ours: bool) -> None:
    """Put back what was moved away, if it was.

    What there is of the new run, which may not be empty if this was interrupted, is moved out of
    the way where the place `is_ours`; it may be somebody else's by now.
    """
    if not old.exists():
        return
    begun = _name_aside(real)
    with contextlib.suppress(OSError):
        if is_ours:
            real.rename(begun)
        elif real.exists():
            real.rmdir()
        old.rename(real)
    shutil.rmtree(begun, ignore_errors=True)


def _remove_old(real: Path) -> None:
    """Remove what was replaced, also by processes that were killed before they came to this."""
    name = re.compile(rf"\.{re.escape(real.name)}\.[0-9a-f]{{32}}\.old")  # of no other run
    with contextlib.suppress(OSError):
        for other in real.parent.iterdir():
            if name.fullmatch(other.name) and not foreign_files(other):
                shutil.rmtree(other, ignore_errors=True)


def _empty(directory: Path) -> None:
    """Remove all but the lock."""
    for file in directory.iterdir():
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        elif file.name != "run.lock":
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
