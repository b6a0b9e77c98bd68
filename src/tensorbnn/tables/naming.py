"""What messages call the rows of a table: by their numbers as people count them, or by inputs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tensorbnn.tables.encoding import Encoding

# Columns of a row that are named beside its number, and where it has none.
BESIDE_NUMBER = 3
ALONE = 6


def row_names(
    x: NDArray[Any], encoding: Encoding | None, numbers: Sequence[int] | None = None
) -> list[str]:
    """A name for each row of inputs.

    Parameters
    ----------
    x
        Inputs ``(rows, inputs)``.
    encoding
        How columns became inputs; ``None`` where they are unknown.
    numbers
        The number of each row in its table, from 1; ``None`` where it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorbnn.tables.encoding import Input
    >>> wells = Encoding((Input("depth"), Input("rock", ("chalk", "clay"))), ("flow",))
    >>> row_names(np.array([[97.0, 0.0, 1.0]]), wells, [12])
    ['data row 12 (depth = 97, rock=clay)']
    >>> row_names(np.array([[97.0, 0.0, 1.0]]), None)
    ['x0 = 97, x1 = 0, x2 = 1']
    """
    said = [inputs_of(row, encoding) for row in x]
    if numbers is None or len(numbers) != len(x):
        return [_first(each, ALONE) for each in said]
    few = bool(said) and len(said[0]) <= BESIDE_NUMBER
    return [
        f"data row {number:,} ({', '.join(each)})" if few else f"data row {number:,}"
        for number, each in zip(numbers, said, strict=True)
    ]


def inputs_of(row: NDArray[Any], encoding: Encoding | None) -> list[str]:
    """What each column of a row has; of a category only the one that it is in."""
    values = row.tolist()
    if encoding is None:
        return [f"x{number} = {value:.4g}" for number, value in enumerate(values)]
    found = []
    for column in encoding.inputs:
        width = len(column.categories or (None,))
        own, values = values[:width], values[width:]
        if column.categories is None:
            found.append(f"{column.name} = {own[0]:.4g}")
        else:
            found.append(f"{column.name}={column.categories[own.index(max(own))]}")
    return found


def _first(said: list[str], most: int) -> str:
    return ", ".join(said[:most]) + (", …" if len(said) > most else "")
