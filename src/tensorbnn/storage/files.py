"""Files of a run directory: written completely or not at all, and checked when they are read.

A file is written under a temporary name, synced to the disk and renamed. Arrays are stored in
safetensors files whose metadata has one entry, ``tensorbnn``: JSON that says what the file is
(``kind``, ``format``, and facts such as chain and index), with a SHA-256 of each array, its name,
type and shape, and one of the whole entry. Reading returns what was written, or raises an error
that says what is wrong. Reports are lines of ``metrics.jsonl``, each with a short checksum. A last
line that is incomplete is being written, or its writer was killed; it is ignored.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import safe_open

from tensorbnn.errors import DamagedFileError
from tensorbnn.warning import ReportsLeftOut, warn

if sys.platform != "win32":
    import fcntl

FORMAT = 2
Arrays = Mapping[str, NDArray[Any]]

_METADATA = "tensorbnn"
_LEFTOVER = re.compile(r"\..+\.tmp")
# Don't change line ends on Windows; elsewhere, don't follow a link out of the run.
PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Errors of file systems that cannot sync a directory, such as some network file systems.
_CAN_NOT_SYNC = (errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def write_file(file: Path, content: bytes, *, last: bool = True) -> None:
    """Write a file completely or not at all: temporary name, sync, rename, sync of the directory.

    If another file follows in the same directory, this one is not the `last`, and syncing the
    directory once, after that one, is enough: names reach the disk in order.
    """
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        with _descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN) as descriptor:
            write_bytes(descriptor, content)
            os.fsync(descriptor)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if last:
        sync_directory(file.parent)


def append_line(file: Path, line: bytes) -> None:
    """Append a line. If the last line is incomplete because its writer was killed, end it first.

    Only one process at a time appends, if the file system has locks.
    """
    with _descriptor(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | PLAIN) as descriptor:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # released when the file is closed
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
        write_bytes(descriptor, line)


def write_bytes(descriptor: int, content: bytes) -> None:
    """Write all of `content`. Everything that a run writes goes through this function."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(directory: Path) -> None:
    """Sync the names of the files in a directory to the disk, if the file system can."""
    if os.name == "nt":  # directories cannot be opened there, and renames are journaled
        return
    try:
        sync_file(directory, os.O_RDONLY)
    except OSError as error:
        if error.errno not in _CAN_NOT_SYNC:
            raise


def sync_file(file: Path, flags: int = os.O_RDWR | PLAIN) -> None:
    """Sync a file to the disk."""
    with _descriptor(file, flags) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _descriptor(file: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(file, flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files that a killed writer left behind."""
    for file in directory.iterdir():
        if _LEFTOVER.fullmatch(file.name) and not file.is_dir():
            file.unlink(missing_ok=True)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def canonical(value: Any) -> str:
    """JSON that is the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def pack_arrays(arrays: Arrays, kind: str, facts: Mapping[str, Any]) -> bytes:
    """The content of a safetensors file of `arrays`, with what it is and its checksums."""
    ordered = {name: np.asarray(each, order="C") for name, each in arrays.items()}
    described: dict[str, Any] = {"format": FORMAT, "kind": kind, **facts}
    described["arrays"] = {name: _array_digest(name, each) for name, each in ordered.items()}
    described["sha256"] = digest(canonical(described).encode())
    return safetensors.numpy.save(ordered, {_METADATA: canonical(described)})


def read_facts(root: Path, file: Path, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about a file of the run `root`, which must be of this `kind` with these `facts`.

    The result also has the ``shapes`` of its arrays.
    """
    with _opened(root, file) as content:
        found = _described(file, content, kind, facts)
        shapes = {name: tuple(content.get_slice(name).get_shape()) for name in found["arrays"]}
        return found | {"shapes": shapes}


def read_arrays(
    root: Path, file: Path, kind: str, facts: Mapping[str, Any], prefix: str = ""
) -> dict[str, NDArray[Any]]:
    """The arrays of a file whose names start with `prefix`; their checksums are verified."""
    with _opened(root, file) as content:
        sums = _described(file, content, kind, facts)["arrays"]
        found = {name: content.get_tensor(name) for name in sums if name.startswith(prefix)}
    for name, array in found.items():
        if _array_digest(name, array) != sums[name]:
            raise DamagedFileError(file, f"is damaged: the checksum of {name} does not match")
    return found


def check_format(file: Path, found: object) -> None:
    """Raise if a file has another format than the one this version reads and writes."""
    if found != FORMAT:
        which = "a newer" if isinstance(found, int) and found > FORMAT else "an older"
        raise DamagedFileError(
            file,
            f"has format {found!r:.20}, but this version of the library reads format {FORMAT}: "
            f"use {which} version of the library",
        )


def check_inside(file: Path, root: Path) -> None:
    """Raise unless `file`, after links are followed, is a regular file inside the run `root`."""
    try:
        real = file.resolve(strict=True)
    except FileNotFoundError:
        raise DamagedFileError(file, "is missing") from None
    except (OSError, RuntimeError) as error:  # a loop of links
        raise DamagedFileError(file, f"can't be read: {error}") from error
    if not real.is_relative_to(root.resolve()):
        raise DamagedFileError(file, f"is a link out of the run, to {real}, and is not read")
    if not real.is_file():
        raise DamagedFileError(file, "is not a file")


def pack_report(report: Mapping[str, Any]) -> bytes:
    """The line of a report."""
    return json.dumps({**report, "check": _report_digest(report)}, allow_nan=False).encode() + b"\n"


def read_reports(file: Path, *, skip_damaged: bool) -> list[dict[str, Any]]:
    """The reports in a file that may be growing; a damaged line is an error, or a warning."""
    lines = file.read_bytes().split(b"\n")[:-1]
    # Without locks, a writer may have ended a line that another one was writing.
    reports = {number: _unpack_report(line) for number, line in enumerate(lines, start=1) if line}
    found = [report for report in reports.values() if report is not None]
    if damaged := [number for number, report in reports.items() if report is None]:
        where = f"is damaged in line {damaged[0]}"
        if len(damaged) > 1:
            where = f"is damaged in {len(damaged)} lines, first line {damaged[0]}"
        if not skip_damaged:
            rest = f"; `skip_damaged=True` reads the other {len(found)} reports"
            raise DamagedFileError(file, where + rest)
        warn(ReportsLeftOut(DamagedFileError(file, where)))
    return found


def read_new_reports(file: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Reports after byte `offset` of a file that is growing, and the offset of the next ones.

    Damaged lines are skipped.
    """
    if not file.exists():
        return [], offset
    with file.open("rb") as lines:
        lines.seek(offset)
        content = lines.read()
    whole = content[: content.rfind(b"\n") + 1]
    reports = (_unpack_report(line) for line in whole.split(b"\n"))
    return [report for report in reports if report is not None], offset + len(whole)


def order_reports(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Reports sorted by chain and transition; of two for the same transition, the later one."""
    latest = {(report["chain"], report["transition"]): dict(report) for report in reports}
    return [latest[key] for key in sorted(latest)]


def check_all_reported(
    file: Path,
    reports: Sequence[Mapping[str, Any]],
    reported: Mapping[int, int],
    every: int,
    end: int,
) -> None:
    """Raise if some of the `reports` of a file are missing.

    Each chain reports after so many transitions (``every``) and at the `end` of the run. The last
    report so far of each chain is at its transition in `reported`.
    """
    for chain, last in reported.items():
        due = itertools.chain(range(every, last + 1, every), [last] if last == end else [])
        there = {report["transition"] for report in reports if report["chain"] == chain}
        missing = next((each for each in due if each not in there), None)
        if missing is not None:
            raise DamagedFileError(
                file,
                f"is damaged: the report of chain {chain} at transition {missing} is missing; "
                f"`skip_damaged=True` reads the {len(reports)} others",
            )


def check_finite(file: Path, arrays: Arrays, *, usable: str = "") -> None:
    """Raise if a parameter in a chunk is NaN or infinite.

    For a chunk that is not written yet, the error also says which draws are `usable`.
    """
    verb = "would hold" if usable else "holds"
    for name, values in arrays.items():
        if name.startswith(("parameters/", "hyperparameters/")) and not np.isfinite(values).all():
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            where = f"first in its draw {np.argmin(finite)} of {len(values)}{usable}"
            raise DamagedFileError(file, f"{verb} NaN or infinite values of {name}, {where}")


@contextlib.contextmanager
def _opened(root: Path, file: Path) -> Iterator[Any]:
    check_inside(file, root)
    try:
        with safe_open(file, framework="numpy") as content:
            yield content
    except DamagedFileError:
        raise
    except OSError as error:
        raise DamagedFileError(file, _why_closed(file, error)) from None
    except Exception as error:  # a parser may raise anything for damaged bytes
        raise DamagedFileError(file, f"is damaged: {error}") from error


def _why_closed(file: Path, error: OSError) -> str:
    """Why a file cannot be opened; safetensors always says that it is missing."""
    try:
        os.close(os.open(file, os.O_RDONLY))
    except FileNotFoundError:
        return "is missing"
    except OSError as real:
        error = real
    return f"can't be read: {error}"


def _described(file: Path, content: Any, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    text = (content.metadata() or {}).get(_METADATA)
    if text is None:
        raise DamagedFileError(file, "was not written by this library")
    described = json.loads(text)
    check_format(file, described["format"])
    if described.pop("sha256", None) != digest(canonical(described).encode()):
        raise DamagedFileError(file, "is damaged: the checksum of its metadata does not match")
    if set(content.keys()) != set(described["arrays"]):
        raise DamagedFileError(file, "is damaged: it does not hold the arrays that it lists")
    for name, value in {"kind": kind, **facts}.items():
        if described.get(name) != value:
            where = f"its {name} is {described.get(name)!r}, not {value!r}"
            raise DamagedFileError(file, f"is not the file that belongs here: {where}")
    return described


def _array_digest(name: str, array: NDArray[Any]) -> str:
    head = f"{name} {array.dtype.str} {array.shape} ".encode()
    return digest(head + np.asarray(array, order="C").tobytes())


def _unpack_report(line: bytes) -> dict[str, Any] | None:
    try:
        report = json.loads(line)
        check = report.pop("check")
        good = check == _report_digest(report) and all(
            type(report[name]) is int for name in ("chain", "transition")
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return report if good else None


def _report_digest(report: Mapping[str, Any]) -> str:
    return digest(json.dumps(report, allow_nan=False).encode())[:12]
