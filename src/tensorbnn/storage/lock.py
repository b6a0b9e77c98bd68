"""One writer at a time: a lock that ends with the process that holds it.

The holder keeps a file locked by the operating system, so the lock is free again as soon as the
process ends, for whatever reason. The file says which process holds it. If the file system has no
locks, the content of the file decides: a holder on this machine is gone if its process is; a holder
on another machine is gone if it has not touched the file for some minutes.
"""

import contextlib
import datetime
import errno
import json
import os
import socket
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from tensorbnn.errors import LockedError, RunError
from tensorbnn.storage.files import PLAIN, write_bytes

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Without locks of the operating system: how often the holder touches its file, and after what time
# it counts as dead.
HEARTBEAT_SECONDS = 20.0
STALE_SECONDS = 300.0
# Attempts, if the file changes hands between two checks.
_ATTEMPTS = 20
_BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class Lock:
    """The right to write `what`, as messages call it; `file` exists only while it is held."""

    def __init__(self, file: Path, what: str) -> None:
        self.file, self._what = file.absolute(), what
        self._descriptor: int | None = None
        self._released = threading.Event()

    def acquire(self) -> "Lock":
        """Take the lock, or raise a `LockedError` that says which process has it."""
        for _ in range(_ATTEMPTS):
            try:
                if self._try():
                    return self
            except OSError as error:
                raise RunError(
                    f"{self.file} can't be written, so {self._what} can't be either: {error}"
                ) from error
        raise RunError(
            f"{self.file} keeps changing: other processes are taking the lock; try again"
        )

    def holder(self) -> dict[str, Any] | None:
        """The process that has the lock, according to its file."""
        try:
            holder = json.loads(self.file.read_bytes()[:10_000])
        except (OSError, ValueError, RecursionError):
            return None
        known = isinstance(holder, dict) and {"host", "pid", "started", "since"} <= holder.keys()
        return holder if known and isinstance(holder["pid"], int) and holder["pid"] > 0 else None

    def is_held(self) -> bool:
        """Whether a process that still exists has the lock, according to its file."""
        return self.file.exists() and not _is_stale(self.holder(), self.file)

    def release(self, *, keep_file: bool = False) -> None:
        """Release the lock; the file is removed, or is kept and names no holder."""
        if self._descriptor is None:
            return
        self._released.set()
        try:
            if keep_file:
                with contextlib.suppress(OSError):  # so old that no process waits for its holder
                    os.ftruncate(self._descriptor, 0)
                    os.utime(self.file, (0, 0))
            elif os.name == "nt":  # an open file can't be removed there
                self._close()
                _remove(self.file)
            elif _is_at(self._descriptor, self.file):
                # Remove it before closing it: another process that has it open can tell.
                _remove(self.file)
        finally:  # also after Ctrl-C: an open file stays locked as long as the process runs
            self._close()

    def __enter__(self) -> "Lock":
        return self.acquire() if self._descriptor is None else self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _try(self) -> bool:
        """Try once to take the lock; false if the file changed in the meantime."""
        opened = _open(self.file)
        if opened is None:
            return False
        descriptor, is_new = opened
        try:
            supported = _lock(descriptor)
            if not _is_at(descriptor, self.file):
                return False  # its holder has just removed it
            if not supported and not is_new:
                self._remove_if_stale()
                return False
            _write_holder(descriptor, self.file)
            self._descriptor, descriptor = descriptor, -1
            _held.add(self)
        except BlockingIOError:
            raise LockedError(self._what, self.holder()) from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if not supported:
            self._released.clear()
            threading.Thread(target=self._beat, daemon=True).start()
        return True

    def _remove_if_stale(self) -> None:
        """Without locks: remove the file of a holder that is gone; raise if it still exists."""
        if not self._is_left():
            return
        # One process at a time: a slow one must not remove the new file of a faster one.
        turn = self.file.with_name(f".{self.file.name}.turn.tmp")
        try:
            os.close(os.open(turn, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666))
        except FileExistsError:
            if _is_old(turn):  # its process was killed at this point
                _remove(turn)
            return
        try:
            # Use the clock of the file system: the clock of this machine may be ahead of it.
            if self._is_left(os.stat(turn).st_mtime):
                _remove(self.file)
        finally:
            _remove(turn)

    def _is_left(self, now: float | None = None) -> bool:
        """Whether the holder of the file is gone; raise if it still exists."""
        holder = self.holder()
        is_stale = _is_stale(holder, self.file, now)
        if not is_stale and self.file.exists():
            raise LockedError(self._what, holder)
        return is_stale

    def _beat(self) -> None:
        while not self._released.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # the file system may be unavailable for a moment
                os.utime(self.file)


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked process, close its copies of locks, which would outlive those of the holder."""
    for lock in list(_held):
        lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _open(file: Path) -> tuple[int, bool] | None:
    """The open lock file, and whether it is new; ``None`` if it was removed in the meantime."""
    with contextlib.suppress(FileExistsError):
        return os.open(file, os.O_RDWR | PLAIN | os.O_CREAT | os.O_EXCL, 0o666), True
    with contextlib.suppress(FileNotFoundError):  # don't create it here: its owner would be unknown
        return os.open(file, os.O_RDWR | PLAIN), False
    return None


def _write_holder(descriptor: int, file: Path) -> None:
    """Write into the file which process holds the lock; if that fails, remove the file."""
    holder = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": _process_start(os.getpid()),
        "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_bytes(descriptor, (json.dumps(holder) + "\n").encode())
    except OSError:
        _remove(file)
        raise


def _lock(descriptor: int) -> bool:
    """Lock an open file; false if the file system has no locks, an error if it is locked."""
    try:
        if sys.platform == "win32":
            # Far behind the text, so that others can read it.
            os.lseek(descriptor, 2**30, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            raise BlockingIOError(*error.args) from error
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            return False
        raise
    return True


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):  # the lock is free anyway
        file.unlink(missing_ok=True)


def _is_stale(holder: dict[str, Any] | None, file: Path, now: float | None = None) -> bool:
    if holder is not None and holder["host"] == socket.gethostname():
        return not _is_alive(holder["pid"], holder["started"])
    return _is_old(file, now)


def _is_old(file: Path, now: float | None = None) -> bool:
    try:
        return (time.time() if now is None else now) - os.stat(file).st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def _is_alive(pid: int, started: int | None) -> bool:
    """Whether the process that started then still exists; PIDs are reused."""
    if sys.platform == "win32":
        return True  # every file system has locks there, and signal 0 would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return isinstance(pid, int) and pid < 2**31
    return started is None or _process_start(pid) in (None, started)


def _process_start(pid: int) -> int | None:
    """When a process started, in ticks since the machine booted; ``None`` if unknown."""
    try:
        # The name, in parentheses, may contain anything; the start is the 20th field after it.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
