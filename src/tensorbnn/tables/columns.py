"""One column of a table as numbers, standard deviations, weights, or labels and their codes.

A value that does not fit is an error that names the column and the row.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tensorbnn.tables.reading import Setting, Table, TableError, is_number, names_of

Missing = Literal["refuse", "drop"]
# A text column with more values than this holds names, dates or free text.
MOST_CATEGORIES = 50
# With at least this many rows, so is a text column with a different value in each.
FEWEST_NAMES = 10
# If at least this share of a column is numbers, the rest are mistakes.
MOSTLY_NUMBERS = 0.5
# Largest number that can be squared and summed to scale a column.
LARGEST = 1e100
# Digits with commas, and perhaps a point: a decimal comma, or a thousands separator.
_COMMAS = re.compile(r"[-+]?[\d.]*\d,\d[\d,.]*")
# A number with a sign before it or a unit after it; minus signs other than the hyphen are signs.
_SIGNED = re.compile(
    r"(?P<before>[^\w\s.+-]*)\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?(?P<after>.*)"
)
# Separators that are not supported.
_OTHER_SEPARATORS = {" ": "spaces", "|": "'|'", ":": "colons"}
HOW_NUMBERS = "write numbers with a decimal point and without thousands separators, as 1234.5"


def is_text(table: Table, name: str, *, is_target: bool = False) -> bool:
    """Whether a column holds texts, not numbers; a mixture is an error."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        return False
    known = sum(value is not None for value in column)
    bad = [row for row, value in enumerate(column) if value is not None and not is_number(value)]
    if bad and all(_COMMAS.fullmatch(str(column[row]).strip()) for row in bad):
        raise _not_numbers(table, name, bad[:1], HOW_NUMBERS, is_target=is_target)
    if bad and len(bad) < MOSTLY_NUMBERS * known:
        raise _not_numbers(table, name, bad, is_target=is_target)
    signed = [_SIGNED.fullmatch(str(column[row])) for row in bad]
    if bad and all(signed) and len({each.group("before", "after") for each in signed if each}) == 1:
        # The same sign before, or the same unit after, all of them.
        how = "write numbers without units or other signs, as 1234.5 or -0.5"
        raise _not_numbers(table, name, bad[:1], how, is_target=is_target)
    return bool(bad)


def categories_of(
    table: Table,
    name: str,
    kept: NDArray[np.bool_],
    *advice: str | Setting,
    is_target: bool = False,
) -> tuple[str, ...]:
    """The values of a column, numbers before texts; `advice` is for one that is no category."""
    labels = as_labels(table, name)
    found = sorted({str(labels[row]) for row in np.flatnonzero(kept)}, key=_order)
    if len(found) > MOST_CATEGORIES:
        problem = f"has {len(found):,} different values, such as {found[0]!r}, "
        problem += f"too many for categories (at most {MOST_CATEGORIES})"
    elif len(found) == kept.sum() and len(found) >= FEWEST_NAMES:
        problem = f"has a different value in each row, such as {found[0]!r}, which tells nothing"
    elif len(found) < 2:
        problem = f"has only one value, {found[0]!r}, which tells nothing"
    else:
        return tuple(found)
    if len(found) > 1:
        _check_commas(table, name, is_target=is_target)
    raise table.error(problem, *advice, column=name)


def as_numbers(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The kept rows of a column of numbers."""
    column = table.columns[name]
    if not isinstance(column, np.ndarray):
        texts = ["nan" if value is None else value for value in column]
        row = next((row for row, text in enumerate(texts) if not is_number(text)), None)
        if row is not None:
            how = [HOW_NUMBERS] if _COMMAS.fullmatch(texts[row]) else []
            problem = f"holds numbers, but has the text {texts[row]!r}"
            raise table.error(problem, *how, column=name, rows=[row])
        column = np.array(texts, np.float64)
    bad = np.flatnonzero(np.abs(column) > LARGEST)
    if len(bad):
        advice = "that is too large to compute with; correct it, or leave out the row"
        raise table.error(f"has {column[bad[0]]:g}", advice, column=name, rows=bad)
    return column[kept]


def as_deviations(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The kept rows of a column of standard deviations."""
    found = as_numbers(table, name, kept)
    bad = np.flatnonzero(found <= 0)
    if len(bad):
        advice = "a standard deviation must be above 0; correct it, or leave out the row"
        rows = np.flatnonzero(kept)[bad]
        raise table.error(f"has {found[bad[0]]:g}", advice, column=name, rows=rows)
    return found


def as_weights(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The kept rows of a column of weights."""
    found = as_numbers(table, name, kept)
    bad = np.flatnonzero(found < 0)
    if len(bad):
        advice = "a weight must be at least 0; correct it, or leave out the row"
        rows = np.flatnonzero(kept)[bad]
        raise table.error(f"has {found[bad[0]]:g}", advice, column=name, rows=rows)
    if not found.any():
        raise table.error("is 0 in every row", "give some row a positive weight", column=name)
    return found


def as_codes(
    table: Table, name: str, known: Sequence[str], kept: NDArray[np.bool_], what: str
) -> NDArray[np.float64]:
    """The kept rows of a column of labels, as positions in `known`."""
    number = {text: code for code, text in enumerate(known)}
    labels = as_labels(table, name)
    try:
        return np.array([number[str(labels[row])] for row in np.flatnonzero(kept)], np.float64)
    except KeyError:
        row = next(int(row) for row in np.flatnonzero(kept) if str(labels[row]) not in number)
        advice = f"the training data had only {names_of(list(known))}"
        problem = f"has the {what} {labels[row]!r}"
        raise table.error(problem, advice, column=name, rows=[row]) from None


def as_labels(table: Table, name: str) -> list[str | None]:
    """A column as texts; whole numbers have no point, so that CSV and Parquet agree."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        return [None if value != value else number_text(value) for value in column.tolist()]
    return [each and as_label(each) for each in column]


def as_label(text: str) -> str:
    """The text of a category or class; a number always has the same text."""
    return number_text(float(text)) if is_number(text) else text


def number_text(value: float) -> str:
    """A number with exactly the digits that it needs; without a point if it is whole.

    Examples
    --------
    >>> number_text(12345678901.0), number_text(0.1), number_text(1e-30), number_text(3e300)
    ('12345678901', '0.1', '1e-30', '3e+300')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e17 else repr(value)


def complete_rows(table: Table, names: Sequence[str], missing: Missing) -> NDArray[np.bool_]:
    """Which rows have every value; missing values are an error if they are refused."""
    counts, kept = {}, np.ones(table.num_rows, np.bool_)
    for name in names:
        column = table.columns[name]
        if isinstance(column, np.ndarray):
            gone = np.isnan(column)
        else:
            gone = np.array([value is None for value in column], np.bool_)
        kept &= ~gone
        if gone.any():
            counts[name] = int(gone.sum())
    if counts and missing == "refuse":
        listed = [f"{count:,} in {name!r}" for name, count in counts.items()]
        raise table.error(
            f"has missing values in {int((~kept).sum()):,} of {table.num_rows:,} rows "
            f"({names_of(listed)})",
            *("fill them, or fit with ", Setting("missing", "drop"), " to leave out these rows"),
        )
    if not kept.any():
        raise TableError(f"every row of {table.file} has a missing value", "fill some of them")
    return kept


def check_there(table: Table, names: Sequence[str]) -> None:
    """Raise if a column is not in the table."""
    there = list(table.columns)
    for name in names:
        if name in table.columns:
            continue
        has = f"it has {names_of(there)}"
        if len(there) == 1:
            has = f"it has one column, {there[0]!r}"
            others = [name for other, name in _OTHER_SEPARATORS.items() if other in there[0]]
            if others:
                has += " (columns are separated by commas, semicolons or tabs, not by "
                has += f"{others[0]})"
        near = difflib.get_close_matches(name, there, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near and len(there) > 1 else ""
        raise table.error(f"has no column {name!r}", has + hint)


def _not_numbers(
    table: Table, name: str, rows: Sequence[int], how: str | None = None, *, is_target: bool
) -> TableError:
    """An error about texts in a column of numbers, and `how` to write them."""
    use = Setting("task", "classification") if is_target else Setting("categorical", name)
    text = table.columns[name][rows[0]]
    if how is None:
        problem = f"holds numbers, but has the text {text!r}"
        how = "correct it, leave it empty if there is no value, or use "
        return table.error(problem, how, use, column=name, rows=rows)
    how = f"{how} (if these are not numbers, use "
    return table.error(f"has {text!r}", how, use, ")", column=name, rows=rows)


def _check_commas(table: Table, name: str, *, is_target: bool) -> None:
    """Raise if a column that can't be a category is mostly numbers with commas."""
    labels = as_labels(table, name)
    known = {row: text for row, text in enumerate(labels) if text is not None}
    bad = [row for row, text in known.items() if not (is_number(text) or _COMMAS.fullmatch(text))]
    if bad and len(bad) < MOSTLY_NUMBERS * len(known):
        raise _not_numbers(table, name, bad, is_target=is_target)


def _order(text: str) -> tuple[int, float, str]:
    return (0, float(text), text) if is_number(text) else (1, 0.0, text)
