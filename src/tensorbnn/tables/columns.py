"""One column of a table as numbers, as standard deviations, or as labels and their codes.

Whatever can't be is an error that names the column and the row.
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tensorbnn.tables.reading import Column, Table, TableError, names_of

Missing = Literal["refuse", "drop"]
# A text column with more values than this is a name, a date or free text.
MOST_CATEGORIES = 50
# Of a column with at least this share of numbers the rest are mistakes.
MOSTLY_NUMBERS = 0.5
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


def is_text(table: Table, name: str) -> bool:
    """Whether a column is one of texts, not of numbers; an error for a mixture."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        return False
    known = sum(value is not None for value in column)
    bad = [row for row, value in enumerate(column) if value is not None and not _parses(value)]
    if bad and all(_DECIMAL_COMMA.fullmatch(str(column[row]).strip()) for row in bad):
        raise TableError(
            f"column {name!r} has {column[bad[0]]!r} in {table.place(bad[0])}: numbers must be "
            f"written with a decimal point (a category: --categorical {name}; classes: --task "
            "classification)"
        )
    if bad and len(bad) < MOSTLY_NUMBERS * known:
        more = f" (and in {len(bad) - 1:,} more rows)" if len(bad) > 1 else ""
        raise TableError(
            f"column {name!r} is one of numbers, but has the text {column[bad[0]]!r} in "
            f"{table.place(bad[0])}{more}: correct it, or use --categorical {name}"
        )
    return bool(bad)


def categories_of(
    table: Table, name: str, kept: NDArray[np.bool_], *, remedy: str
) -> tuple[str, ...]:
    """The values of a column, numbers in their order before texts in theirs."""
    labels = as_labels(table, name)
    found = sorted({str(labels[row]) for row in np.flatnonzero(kept)}, key=_order)
    if len(found) > MOST_CATEGORIES:
        raise TableError(
            f"column {name!r} of {table.file} has {len(found):,} different values, such as "
            f"{found[0]!r}, too many for categories (at most {MOST_CATEGORIES}): {remedy}"
        )
    if len(found) < 2:
        raise TableError(
            f"column {name!r} of {table.file} has only one value, {found[0]!r}, which says "
            f"nothing: {remedy}"
        )
    return tuple(found)


def as_numbers(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The rows of a column of numbers that are kept."""
    column = table.columns[name]
    if not isinstance(column, np.ndarray):
        texts = ["nan" if value is None else value for value in column]
        try:
            column = np.array(texts, np.float64)
        except ValueError:
            row = next(row for row, text in enumerate(texts) if not _parses(text))
            comma = _DECIMAL_COMMA.fullmatch(texts[row])
            remedy = ": numbers must be written with a decimal point" if comma else ""
            raise TableError(
                f"column {name!r} is one of numbers, but has the text {texts[row]!r} in "
                f"{table.place(row)}{remedy}"
            ) from None
    bad = np.flatnonzero(np.isinf(column))
    if len(bad):
        raise TableError(f"column {name!r} is infinite in {table.place(int(bad[0]))}")
    return column[kept]


def as_deviations(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The rows of a column of standard deviations that are kept."""
    found = as_numbers(table, name, kept)
    bad = np.flatnonzero(found <= 0)
    if len(bad):
        row = int(np.flatnonzero(kept)[bad[0]])
        more = f" ({len(bad):,} rows have such)" if len(bad) > 1 else ""
        raise TableError(
            f"column {name!r} has {found[bad[0]]:g} in {table.place(row)}{more}, but a standard "
            "deviation must be above 0: correct it, or leave the row out"
        )
    return found


def as_codes(
    table: Table, name: str, known: Sequence[str], kept: NDArray[np.bool_], what: str
) -> NDArray[np.float64]:
    """The rows of a column of labels that are kept, as places in `known`."""
    number = {text: code for code, text in enumerate(known)}
    labels = as_labels(table, name)
    try:
        return np.array([number[str(labels[row])] for row in np.flatnonzero(kept)], np.float64)
    except KeyError:
        row = next(int(row) for row in np.flatnonzero(kept) if str(labels[row]) not in number)
        raise TableError(
            f"column {name!r} has the {what} {labels[row]!r} in {table.place(row)}, which the "
            f"training data did not have: they had {names_of(list(known))}"
        ) from None


def as_labels(table: Table, name: str) -> list[str | None]:
    """A column as texts; whole numbers without a point, so that CSV and Parquet agree."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        return [None if value != value else f"{value:.17g}" for value in column.tolist()]
    return [f"{float(each):.17g}" if each and _parses(each) else each for each in column]


def complete_rows(table: Table, names: Sequence[str], missing: Missing) -> NDArray[np.bool_]:
    """Which rows have every value; an error where some have not and that is refused."""
    counts, kept = {}, np.ones(table.num_rows, np.bool_)
    for name in names:
        gone = _is_missing(table.columns[name])
        kept &= ~gone
        if gone.any():
            counts[name] = int(gone.sum())
    if counts and missing == "refuse":
        listed = [f"{count:,} in {name!r}" for name, count in counts.items()]
        raise TableError(
            f"{table.file} has missing values in {int((~kept).sum()):,} of {table.num_rows:,} rows "
            f"({names_of(listed)}): fill them, or leave these rows out (--missing drop at the fit)"
        )
    return kept


def check_there(table: Table, names: Sequence[str]) -> None:
    """Raise where a column is not there."""
    for name in names:
        if name not in table.columns:
            raise TableError(
                f"{table.file} has no column {name!r}: it has {names_of(list(table.columns))}"
            )


def _order(text: str) -> tuple[int, float, str]:
    return (0, float(text), text) if _parses(text) else (1, 0.0, text)


def _is_missing(column: Column) -> NDArray[np.bool_]:
    if isinstance(column, np.ndarray):
        return np.isnan(column)
    return np.array([value is None for value in column], np.bool_)


def _parses(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
