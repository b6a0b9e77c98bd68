"""Create a run directory, and replace one without ever losing the run that was there.

This module also knows which files belong to a run, and where those of a chain are.
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
# Names in a directory before its run.json is written, and all names that the library writes there.
_UNFINISHED = re.compile(r"run\.lock|data\.safetensors|chain-\d+|\..+\.tmp")
_OF_RUN = re.compile(
    rf"{_UNFINISHED.pattern}|run\.json|metrics\.jsonl|stop|architecture\.txt|report\.html"
)
_OF_CHAIN = re.compile(rf"{_CHUNK.pattern}|(state|burn-in)\.safetensors|chain\.lock|\..+\.tmp")
# At most this many missing files of a chain are listed.
_MOST_MISSING = 1000


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if `path` is not free for a new run, before anything is computed."""
    with contextlib.suppress(FileNotFoundError):  # another process has just moved it away
        if not path.exists() or (path.is_dir() and not any(path.iterdir())) or _is_unfinished(path):
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
    """Make the directory that `DirectoryStore.create` opens; returns its lock."""
    check_free(path, overwrite=overwrite)
    try:
        with _replacing(path, overwrite=overwrite) as (real, lock):
            _fill(real, manifest, data, states)
    except FileExistsError:
        raise
    except OSError as error:
        raise RunError(f"the run directory {path} can't be created: {error}") from error
    return lock


def chain_directory(path: Path, chain: int) -> Path:
    """Where the files of a chain are."""
    directory = path / f"chain-{chain:02d}"
    if not directory.resolve().is_relative_to(path.resolve()):
        raise DamagedFileError(
            directory, "is a link that leads out of the run: replace it with the directory itself"
        )
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
    """Names of the files in a run directory that the library did not write."""
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
    """The chunks that a chain has, or should have, by number, and how many draws each must hold.

    The chain has at least `drawn` draws. A full chunk holds `size` of them.
    """
    names = (_CHUNK.fullmatch(file.name) for file in directory.iterdir())
    found = {int(name[1]) for name in names if name}
    # Every chunk but the last is full.
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
    """Raise if a worker is still writing a chain, for example after its coordinator died."""
    for directory in path.glob("chain-*"):
        if (directory / "chain.lock").exists() and not directory.is_symlink():
            chain_lock(directory).acquire().release()


def _is_unfinished(path: Path) -> bool:
    """Whether `path` is left from a process that was killed while it created a run.

    Then it has a lock, which is created first, but neither run.json, which is created last, nor
    draws.
    """
    if not path.is_dir() or not (path / "run.lock").is_file() or any(path.glob("chain-*/draws-*")):
        return False
    is_ours = all(_UNFINISHED.fullmatch(file.name) for file in path.iterdir())
    return is_ours and not foreign_files(path)


def _is_run(path: Path) -> bool:
    """Whether `path` holds a run, maybe a damaged one. Other programs also write a run.json."""
    file = path / "run.json"
    if not file.is_file():
        return False
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(file.read_bytes())
        if isinstance(found, dict) and {"format", "sha256"} <= found.keys():
            return True
    return not foreign_files(path)


@contextlib.contextmanager
def _replacing(path: Path, *, overwrite: bool) -> Iterator[tuple[Path, Lock]]:
    """Make `path` an empty, locked directory, and remove the old run when the block is done.

    If the block fails, the old run is put back.
    """
    real = Path(os.path.realpath(path))
    old = _name_aside(real)
    with contextlib.ExitStack() as undo:
        first = lock = _make_locked(real, path, undo)
        # Check again: another process may have created a run in the meantime.
        check_free(path, overwrite=overwrite)
        if (real / "run.json").exists():
            check_chains_are_free(real)
            if os.name == "nt":  # an open directory cannot be renamed there
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
    except BaseException:  # Ctrl-C: removing many files takes a while
        lock.release()
        raise


def _make_locked(real: Path, path: Path, undo: contextlib.ExitStack) -> Lock:
    """Create the directory `real` if needed, and lock it; messages call it `path`."""
    real.mkdir(parents=True, exist_ok=True)
    lock = Lock(real / "run.lock", f"the run {path}")
    undo.callback(_release_unfinished, real, lock)
    return lock.acquire()


def _release_unfinished(real: Path, lock: Lock) -> None:
    """Release the lock of a directory that will not be a run.

    If emptying it was interrupted too, the lock file stays. It shows that the other files are left
    from a run that was never finished, and may be replaced.
    """
    is_left = True
    try:
        is_left = _is_unfinished(real) and any(each != lock.file for each in real.iterdir())
    finally:
        lock.release(keep_file=is_left)


def _name_aside(real: Path) -> Path:
    """A new name next to `real`, under which something is moved out of the way."""
    return real.with_name(f".{real.name}.{uuid.uuid4().hex}.old")


def _put_back(old: Path, real: Path, *, is_ours: bool) -> None:
    """Put the old run back, if it was moved away.

    The unfinished new run is moved out of the way if the directory `is_ours`; otherwise it may
    belong to another process by now.
    """
    if not old.exists():
        return
    unfinished = _name_aside(real)
    with contextlib.suppress(OSError):
        if is_ours:
            real.rename(unfinished)
        elif real.exists():
            real.rmdir()
        old.rename(real)
    shutil.rmtree(unfinished, ignore_errors=True)


def _remove_old(real: Path) -> None:
    """Remove the runs that were replaced, also by processes that were killed before they could."""
    name = re.compile(rf"\.{re.escape(real.name)}\.[0-9a-f]{{32}}\.old")  # not those of other runs
    with contextlib.suppress(OSError):
        for other in real.parent.iterdir():
            if name.fullmatch(other.name) and not foreign_files(other):
                shutil.rmtree(other, ignore_errors=True)


def _empty(directory: Path) -> None:
    """Remove everything but the lock."""
    for file in directory.iterdir():
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        elif file.name != "run.lock":
            file.unlink()


def _fill(
    path: Path, manifest: dict[str, Any], data: Arrays | None, states: Sequence[Arrays]
) -> None:
    """Write all files of a new run. ``run.json`` comes last: with it, the directory is a run."""
    if data is not None:
        write_file(path / "data.safetensors", pack_arrays(data, "data", {}))
    for chain, state in enumerate(states):
        directory = path / f"chain-{chain:02d}"
        directory.mkdir()
        facts = {"chain": chain, "run": identity(manifest)}
        write_file(directory / "state.safetensors", pack_arrays(state, "state", facts))
    write_file(path / "run.json", pack_manifest(manifest))
