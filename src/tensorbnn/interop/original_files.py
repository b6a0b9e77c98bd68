"""Read the text files in which TensorBNN, the code of the paper's authors, saves a run.

    architecture.txt   a layer's name on each line, activations included
    summary.txt        the shape of tensor ``n`` on line ``n``; then the numbers of networks, files
                       and tensors; then the number of hyper-parameters of a network
    <n>.<m>.txt        tensor ``n`` of the networks in file ``m``, one network after another
    hypers<m>.txt      hyper-parameters of the networks in file ``m``, one number per line

TensorBNN updates the summary only when a file is full, so it never counts the networks in the last
file. Those that are complete are read too. Files with higher numbers are left from an earlier run
in the same directory, and are not read. Only numbers are parsed; nothing is executed.
"""

import io
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import DamagedFileError, RunError


class OldRun(NamedTuple):
    """The content of the files of a run."""

    names: tuple[str, ...]
    tensors: tuple[NDArray[Any], ...]
    """Each ``(networks, *shape)``."""
    hypers: NDArray[Any]
    """``(networks, hyper-parameters)``."""
    networks_per_file: int


class _Summary(NamedTuple):
    shapes: tuple[tuple[int, ...], ...]
    networks: int
    files: int
    hypers: int


def read_run(path: str | os.PathLike[str]) -> OldRun:
    """Read a run directory of TensorBNN, or raise an error that says what is wrong."""
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no directory {path}")
    if (path / "run.json").is_file():
        raise RunError(f"{path} is a run of this library: read it with tb.load({str(path)!r})")
    names = read_architecture(path / "architecture.txt")
    summary = _read_summary(path / "summary.txt")
    first, per_file = _first_file(path, summary), 0
    if summary.files:
        per_file, rest = divmod(summary.networks, summary.files)
        if rest or not per_file:
            raise DamagedFileError(
                path / "summary.txt",
                f"is damaged: {summary.networks} networks can't fill {summary.files} files",
            )
    last = first + summary.files
    pieces = [_read_file(path, index, summary, per_file) for index in range(first, last)]
    pieces.append(_read_file(path, last, summary, 0))
    if len(pieces[-1][-1]) > per_file > 0:
        raise DamagedFileError(
            path / f"hypers{last}.txt",
            f"is not of this run: it has more networks than the {per_file} of the other files",
        )
    *tensors, hypers = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    if not len(hypers):
        raise RunError(f"{path} has no networks: its chain was stopped in burn-in")
    return OldRun(names, tuple(tensors), hypers, per_file or len(hypers))


def read_architecture(file: Path) -> tuple[str, ...]:
    """Names of the layers in an architecture file."""
    names = tuple(line.strip() for line in _read_text(file).splitlines() if line.strip())
    if not names:
        raise DamagedFileError(file, "is empty: it should name the layers, one per line")
    return names


def _read_summary(file: Path) -> _Summary:
    lines = _read_text(file).removesuffix("\n").split("\n")
    try:
        numbers = [tuple(int(word) for word in line.split()) for line in lines]
        *shapes, (networks, files, tensors), (hypers,) = numbers
        good = len(shapes) == tensors and min(networks, files, hypers) >= 0 < tensors
        good = good and all(len(shape) in (1, 2) and min(shape) > 0 for shape in shapes)
    except ValueError:
        good = False
    if not good:
        raise DamagedFileError(
            file,
            "is not a summary of TensorBNN: it should have the shape of a tensor on each line, "
            "then the numbers of networks, files and tensors, then that of hyper-parameters",
        )
    return _Summary(tuple(shapes), networks, files, hypers)


def _first_file(path: Path, summary: _Summary) -> int:
    """Number of the first file: 1 if every epoch filled a file, otherwise 0."""
    files = path / "0.0.txt", path / "0.1.txt"
    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    if sizes[0] or not sizes[1] or summary.networks != summary.files:
        return 0
    if summary.files:
        return 1
    # No file was full when the summary was written: file 1 must have one network.
    rows = summary.shapes[0][0]
    return int(len(files[1].read_bytes().splitlines()) == rows)


def _read_file(path: Path, index: int, summary: _Summary, wanted: int) -> list[NDArray[Any]]:
    """Tensors, then hyper-parameters, of the networks in one file.

    There must be `wanted` of them; 0 means all that are complete.
    """
    files = [(f"{number}.{index}.txt", shape) for number, shape in enumerate(summary.shapes)]
    if summary.hypers:
        files.append((f"hypers{index}.txt", (summary.hypers,)))
    found = []
    for name, shape in files:
        columns = shape[1] if len(shape) == 2 else 1
        found.append(_read_networks(path / name, shape[0], columns, wanted).reshape(-1, *shape))
    whole = min(len(each) for each in found)
    if not summary.hypers:
        found.append(np.zeros((whole, 0)))
    return [each[:whole] for each in found]


def _read_networks(file: Path, rows: int, columns: int, wanted: int) -> NDArray[Any]:
    """The networks in a file, ``(networks, rows, columns)``; one that is cut off is left out."""
    if not file.is_file():
        if wanted:
            raise DamagedFileError(file, "is missing")
        return np.zeros((0, rows, columns))
    content = file.read_bytes()
    content = content[: content.rfind(b"\n") + 1]  # the last line may be cut off
    try:
        lines = np.zeros((0, columns))
        if content:
            lines = np.loadtxt(io.BytesIO(content), ndmin=2, comments=None)
    except ValueError as error:
        raise DamagedFileError(file, f"is not a table of numbers: {error}") from error
    if lines.shape[1] != columns:
        raise DamagedFileError(
            file, f"has {lines.shape[1]} columns, but summary.txt says {columns}"
        )
    if not np.isfinite(lines).all():
        first = int(np.argmin(np.isfinite(lines).all(axis=1)))
        raise DamagedFileError(file, f"holds NaN or infinite values, first in line {first + 1}")
    networks = len(lines) // rows
    if wanted and (networks != wanted or len(lines) % rows):
        raise DamagedFileError(
            file,
            f"is damaged: it has {len(lines)} lines, but summary.txt says {wanted} networks of "
            f"{rows} lines",
        )
    return lines[: networks * rows].reshape(networks, rows, columns)


def _read_text(file: Path) -> str:
    if not file.is_file():
        raise FileNotFoundError(
            f"{file.parent} has no {file.name}: it is not a run of TensorBNN, or was stopped "
            "before its first network was saved"
        )
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFileError(file, f"is not a text file: {error}") from error
