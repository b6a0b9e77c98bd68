"""Numbers with decimal commas, ``1,5``, as European spreadsheets write them.

They are read where they are unambiguous: in a file separated by semicolons or tabs, in columns
that hold only numbers, if no other column of numbers has a decimal point, and if at least one
number can't have a thousands comma, as ``1,234`` can.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.tables.columns import HOW_NUMBERS
from tensorbnn.tables.reading import Table, TableError, is_number, no_header, read_parts

_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
# A possible thousands comma: three digits after it, no zero before it.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")


@dataclass
class _Looks:
    """The first number of a column with a comma or a point, and its row."""

    comma: tuple[str, int] | None = None
    point: tuple[str, int] | None = None
    is_proven: bool = False  # by a comma that can't separate thousands
    is_number: bool = True

    def look(self, table: Table, column: list[str | None]) -> None:
        for row, text in enumerate(column):
            if text is None:
                continue
            if _COMMA.fullmatch(text):
                self.comma = self.comma or (text, table.number(row))
                self.is_proven = self.is_proven or not _THOUSANDS.fullmatch(text)
            elif not is_number(text):
                self.is_number = False
            elif "." in text:
                self.point = self.point or (text, table.number(row))


def comma_columns(
    parts: Iterable[Table],
    names: Collection[str] | None = None,
    *,
    are_numbers: bool = False,
    expected: bool = False,
) -> frozenset[str]:
    """Columns whose numbers have decimal commas; an error if that is ambiguous.

    All columns are searched, or those with these `names`, which may be known to be numbers
    (`are_numbers`). Commas are `expected` if another file of the same kind has them.
    """
    looks: dict[str, _Looks] = {}
    for table in parts:
        if table.separator not in (";", "\t"):
            return frozenset()
        for name, column in table.columns.items():
            if (names is None or name in names) and not isinstance(column, np.ndarray):
                looks.setdefault(name, _Looks()).look(table, column)
    numbers = {name: each for name, each in looks.items() if each.is_number or are_numbers}
    commas = {name: each.comma for name, each in numbers.items() if each.comma}
    if commas:
        points = {name: each.point for name, each in numbers.items() if each.point}
        if points or not (expected or any(each.is_proven for each in numbers.values())):
            raise _unclear(table.file, commas, points)
        if all(_COMMA.fullmatch(name) or is_number(name) for name in table.columns):
            raise no_header(table.file, list(table.columns))
    return frozenset(commas)


def with_points(table: Table, names: Collection[str]) -> Table:
    """The same table, with decimal points in the columns that have decimal commas."""
    columns: dict[str, Any] = dict(table.columns)
    for name in names:
        columns[name] = [
            text.replace(",", ".") if text and _COMMA.fullmatch(text) else text
            for text in columns[name]
        ]
    return table._replace(columns=columns)


def read_numbers(
    file: Path, names: Collection[str] | None, *, expected: bool = False
) -> Iterator[Table]:
    """The rows of a file as in `read_parts`, with decimal commas in columns of numbers replaced.

    The file is read twice, since its first rows may not show the decimal sign.
    """
    commas = comma_columns(read_parts(file), names, are_numbers=True, expected=expected)
    for table in read_parts(file):
        yield with_points(table, commas)


def _unclear(
    file: Path, commas: dict[str, tuple[str, int]], points: dict[str, tuple[str, int]]
) -> TableError:
    column, (text, row) = next(iter(commas.items()))
    advice = "no number of the table shows whether that is a decimal or a thousands comma; "
    advice += HOW_NUMBERS
    if points:
        other, (number, place) = next(iter(points.items()))
        advice = (
            f"column {other!r} has {number!r} in data row {place:,}; write all numbers with a "
            "decimal comma, or all with a decimal point, without thousands separators"
        )
    return TableError(f"has {text!r}", advice, file=file, column=column, rows=[row])
