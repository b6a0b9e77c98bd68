"""Files of draws: their names, how many a chain must have, what must be in them."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tensorbnn.storage.files import Arrays, DamagedFileError

_CHUNK = re.compile(r"draws-(\d{5,})\.safetensors")


def chunk_file(directory: Path, index: int) -> Path:
    """The file with chunk number `index` of the chain in `directory`."""
    return directory / f"draws-{index:05d}.safetensors"


def expected_chunks(directory: Path, drawn: int, size: int) -> dict[int, int]:
    """Numbers of the chunks that a chain has, or should have, and the draws each must hold.

    Parameters
    ----------
    directory
        That of the chain.
    drawn
        Draws that the chain's state counts; there may be more of them by now.
    size
        Draws in a full chunk.
    """
    names = (_CHUNK.fullmatch(file.name) for file in directory.iterdir())
    found = {int(name[1]) for name in names if name}
    # A chunk that others follow is full, and one more is there than the last.
    gaps = set(range(min(max(found, default=0), len(found)))) - found
    indices = sorted(found | gaps | set(range(-(-drawn // size))))
    return {
        index: size if index != indices[-1] else max(min(drawn - index * size, size), 1)
        for index in indices
    }


def check_finite(file: Path, arrays: Arrays, *, usable: str = "") -> None:
    """Raise where a parameter of a chunk is NaN or infinite.

    Of one that is yet to be written, the error also says what is `usable` in its place.
    """
    for name, values in arrays.items():
        if name.startswith(("parameters/", "hyperparameters/")) and not np.isfinite(values).all():
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            first = int(np.argmin(finite))
            verb = "would hold" if usable else "holds"
            raise DamagedFileError(
                file,
                f"{verb} NaN or infinite values of {name}, first in its draw {first} of "
                f"{len(values)}{usable}",
            )


def in_words(whole: Mapping[int, Mapping[int, int]], size: int, others: int) -> str:
    """The draws of a run that can be read.

    Parameters
    ----------
    whole
        The sizes of the chunks that can be read, by number, of each chain with some that can't.
    size
        Draws in a full chunk.
    others
        Number of chains without damage.

    Examples
    --------
    >>> in_words({1: {0: 100, 1: 100, 3: 50}}, 100, 3)
    'draws 0 to 199, 300 to 349 of chain 1 and all draws of 3 other chains'
    >>> in_words({1: {}}, 100, 1)
    'none of chain 1 and all draws of 1 other chain'
    """
    parts = []
    for chain, sizes in sorted(whole.items()):
        spans = [(index * size, index * size + count) for index, count in sizes.items()]
        draws = ", ".join(f"{first} to {end - 1}" for first, end in _merged(spans))
        parts.append(f"draws {draws} of chain {chain}" if draws else f"none of chain {chain}")
    plural = "" if others == 1 else "s"
    rest = [f"all draws of {others} other chain{plural}"] if others else []
    return " and ".join([*parts, *rest])


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, neighbours joined."""
    found: list[tuple[int, int]] = []
    for first, end in spans:
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return found
