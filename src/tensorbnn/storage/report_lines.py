"""Reports as lines of ``metrics.jsonl``, each with a short checksum.

A last line without its end is being written, or was when its writer was killed: it is left out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorbnn.storage.files import DamagedFileError, digest
from tensorbnn.warning import warn


def pack(report: Mapping[str, Any]) -> bytes:
    """A report as a line."""
    return json.dumps({**report, "check": _check(report)}, allow_nan=False).encode() + b"\n"


def read(file: Path, *, skip_damaged: bool) -> list[dict[str, Any]]:
    """Reports of a file that may be growing; a line that is damaged is an error, or a warning."""
    found, damaged = [], []
    lines = file.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        if not line:  # between two writers, one of which saw the other's line half written
            continue
        report = _unpack(line)
        if report is None:
            damaged.append(number)
        else:
            found.append(report)
    if damaged:
        reason = f"is damaged in line {damaged[0]}"
        if len(damaged) > 1:
            reason = f"is damaged in {len(damaged)} lines, first line {damaged[0]}"
        if not skip_damaged:
            raise DamagedFileError(
                file, f"{reason}; the other {len(found)} reports are read with `skip_damaged=True`"
            )
        warn(f"{file} {reason}: left out")
    return found


def read_from(file: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Reports after byte `offset` of a file that is growing, and where the next ones begin.

    For a look while others write: a line that is damaged is left out.
    """
    if not file.exists():
        return [], offset
    with file.open("rb") as lines:
        lines.seek(offset)
        content = lines.read()
    whole = content[: content.rfind(b"\n") + 1]
    reports = (_unpack(line) for line in whole.split(b"\n"))
    return [report for report in reports if report is not None], offset + len(whole)


def in_order(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Reports by chain and epoch; of two for the same epoch the later one."""
    latest = {(report["chain"], report["epoch"]): dict(report) for report in reports}
    return [latest[key] for key in sorted(latest)]


def check_all_there(
    file: Path,
    reports: Sequence[Mapping[str, Any]],
    reported: Mapping[int, int],
    every: int,
    end: int,
) -> None:
    """Raise where reports are missing from a file that were written to it.

    Parameters
    ----------
    file
        Where the reports were read.
    reports
        Those that are there.
    reported
        The epoch of the last report of each chain.
    every, end
        Epochs between two reports, and at the end of the run, which has one of its own.
    """
    there = {(report["chain"], report["epoch"]) for report in reports}
    for chain, last in reported.items():
        due = {*range(every, last + 1, every), *({last} & {end})}
        missing = sorted(due - {epoch for other, epoch in there if other == chain})
        if missing:
            raise DamagedFileError(
                file,
                f"is damaged: the report of chain {chain} at epoch {missing[0]} is missing; "
                f"the {len(reports)} that are there are read with `skip_damaged=True`",
            )


def _unpack(line: bytes) -> dict[str, Any] | None:
    try:
        report = json.loads(line)
        check = report.pop("check")
        good = check == _check(report) and all(
            type(report[name]) is int for name in ("chain", "epoch")
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return report if good else None


def _check(report: Mapping[str, Any]) -> str:
    return digest(json.dumps(report, allow_nan=False).encode())[:12]
