"""From named columns to the numbers a network takes, the same for every table of a run.

A column of numbers is one input. A column of texts is a category: one input for each of its
values, 1 where a row has it and 0 elsewhere. What was found in the training table is an `Encoding`,
which a run keeps, so that later tables are turned into numbers alike or refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbnn.tables.reading import Column, Table, TableError, names_of

Task = Literal["regression", "classification"]
Missing = Literal["refuse", "drop"]
# A text column with more values than this is a name, a date or free text.
MOST_CATEGORIES = 50
# Of a column with at least this share of numbers the rest are mistakes.
MOSTLY_NUMBERS = 0.5
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


class Numbers(NamedTuple):
    """Rows of a table as numbers; `kept` says which rows of the table they are."""

    x: NDArray[np.float64]
    y: NDArray[np.float64] | None
    kept: NDArray[np.bool_]


@dataclass(frozen=True)
class Input:
    """A column that a network takes; `categories` are the values of a text column."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become inputs and targets.

    Attributes
    ----------
    inputs
        The columns that are taken, in their order.
    targets
        Names of the columns that are predicted.
    classes
        Labels of the classes, in the order in which they are numbered; ``None`` for numbers.
    missing
        Whether a row with a missing value is refused or dropped.
    """

    inputs: tuple[Input, ...]
    targets: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    missing: Missing = "refuse"

    @property
    def task(self) -> Task:
        """What is predicted."""
        return "regression" if self.classes is None else "classification"

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each input of the network: ``age``, ``colour=red``."""
        return tuple(
            name
            for each in self.inputs
            for name in (
                [each.name]
                if each.categories is None
                else [f"{each.name}={value}" for value in each.categories]
            )
        )

    def encode(self, table: Table, *, targets: bool = False) -> Numbers:
        """Inputs, and targets where they are wanted, of the rows without missing values."""
        wanted = [each.name for each in self.inputs] + (list(self.targets) if targets else [])
        _check_there(table, wanted)
        kept = _complete(table, wanted, self.missing)
        x = np.column_stack([_encode_input(table, each, kept) for each in self.inputs])
        if not targets:
            return Numbers(x, None, kept)
        y = np.column_stack([self._target(table, name, kept) for name in self.targets])
        return Numbers(x, y, kept)

    def describe(self) -> dict[str, Any]:
        """JSON of all of it."""
        return asdict(self)

    def _target(self, table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        if self.classes is None:
            return _numbers(table, name, kept)
        return _codes(table, name, self.classes, kept, "class")


def restore_encoding(described: Mapping[str, Any]) -> Encoding:
    """The encoding that a run keeps."""
    try:
        inputs = tuple(
            Input(str(each["name"]), _texts(each["categories"])) for each in described["inputs"]
        )
        targets, classes = _texts(described["targets"]), _texts(described["classes"])
        missing = described["missing"]
        if not inputs or not targets or missing not in get_args(Missing):
            raise ValueError("nothing to predict, or from")
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"the run describes its table in a way that can't be read: {error}") from (
            error
        )
    return Encoding(inputs, targets, classes, missing)


def plain_encoding(table: Table, inputs: int, targets: int = 0) -> Encoding:
    """For a run that was not made from a table: the columns are its inputs, in their order.

    With `targets`, so many columns after them are its targets; classes are numbered from 0.
    """
    names = list(table.columns)
    if len(names) != inputs + targets:
        also, then = (f" and {targets} targets", ", then its targets") if targets else ("", "")
        raise TableError(
            f"the network has {inputs} inputs{also}, but {table.file} has {len(names)} columns "
            f"({names_of(names)}); the run was not made by `tensorbnn fit` and does not know which "
            f"to take: give just its inputs, in their order{then}"
        )
    return Encoding(tuple(map(Input, names[:inputs])), tuple(names[inputs:]) or ("target",))


def learn(
    table: Table,
    targets: Sequence[str],
    *,
    task: Task | None = None,
    ignored: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: Missing = "refuse",
) -> Encoding:
    """How the columns of a training table are to be turned into numbers.

    Parameters
    ----------
    table
        The training table.
    targets
        The columns to predict; one for classes.
    task
        ``"classification"`` where the target is text, if left out.
    ignored
        Columns to leave out.
    categorical
        Columns to take as categories though they hold numbers.
    missing
        Whether rows with missing values are refused or dropped.
    """
    _check_there(table, [*targets, *ignored, *categorical])
    if len(set(targets)) < len(targets):
        raise TableError(f"a target is given twice: {names_of(targets)}")
    names = [name for name in table.columns if name not in {*targets, *ignored}]
    if not names:
        raise TableError(f"{table.file} has no columns left to predict {names_of(targets)} from")
    kept = _complete(table, [*names, *targets], missing)
    if not kept.any():
        raise TableError(f"every row of {table.file} has a missing value: no row is left")
    inputs = tuple(
        Input(name, _categories(table, name, kept, remedy=f"leave it out with --ignore {name}"))
        if name in categorical or _is_text(table, name)
        else Input(name)
        for name in names
    )
    classes = _learn_classes(table, targets, task, kept)
    return Encoding(inputs, tuple(targets), classes, missing)


def _learn_classes(
    table: Table, targets: Sequence[str], task: Task | None, kept: NDArray[np.bool_]
) -> tuple[str, ...] | None:
    texts = [name for name in targets if task != "classification" and _is_text(table, name)]
    if task == "regression" and texts:
        text = next(value for value in _labels(table, texts[0]) if value is not None)
        raise TableError(
            f"column {texts[0]!r} of {table.file} holds texts such as {text!r}, which can't be a "
            "target of a regression: use --task classification"
        )
    if task != "classification" and not texts:
        return None
    if len(targets) > 1:
        raise TableError(f"classes are one column, but there are {len(targets)} targets")
    return _categories(table, targets[0], kept, remedy="if it holds numbers use --task regression")


def _is_text(table: Table, name: str) -> bool:
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


def _categories(
    table: Table, name: str, kept: NDArray[np.bool_], *, remedy: str
) -> tuple[str, ...]:
    """The values of a column, numbers in their order before texts in theirs."""
    labels = _labels(table, name)
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


def _order(text: str) -> tuple[int, float, str]:
    return (0, float(text), text) if _parses(text) else (1, 0.0, text)


def _encode_input(table: Table, column: Input, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    if column.categories is None:
        return _numbers(table, column.name, kept)[:, None]
    codes = _codes(table, column.name, column.categories, kept, "category")
    return (codes[:, None] == np.arange(len(column.categories))).astype(np.float64)


def _numbers(table: Table, name: str, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    column = table.columns[name]
    if not isinstance(column, np.ndarray):
        texts = ["nan" if value is None else value for value in column]
        try:
            column = np.array(texts, np.float64)
        except ValueError:
            row = next(row for row, text in enumerate(texts) if not _parses(text))
            raise TableError(
                f"column {name!r} is one of numbers, but has the text {texts[row]!r} in "
                f"{table.place(row)}"
            ) from None
    bad = np.flatnonzero(np.isinf(column))
    if len(bad):
        raise TableError(f"column {name!r} is infinite in {table.place(int(bad[0]))}")
    return column[kept]


def _codes(
    table: Table, name: str, known: Sequence[str], kept: NDArray[np.bool_], what: str
) -> NDArray[np.float64]:
    number = {text: code for code, text in enumerate(known)}
    labels = _labels(table, name)
    try:
        return np.array([number[str(labels[row])] for row in np.flatnonzero(kept)], np.float64)
    except KeyError:
        row = next(int(row) for row in np.flatnonzero(kept) if str(labels[row]) not in number)
        raise TableError(
            f"column {name!r} has the {what} {labels[row]!r} in {table.place(row)}, which the "
            f"training data did not have: they had {names_of(list(known))}"
        ) from None


def _labels(table: Table, name: str) -> list[str | None]:
    """A column as texts; whole numbers without a point, so that CSV and Parquet agree."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        return [None if value != value else f"{value:.17g}" for value in column.tolist()]
    return [f"{float(each):.17g}" if each and _parses(each) else each for each in column]


def _complete(table: Table, names: Sequence[str], missing: Missing) -> NDArray[np.bool_]:
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


def _is_missing(column: Column) -> NDArray[np.bool_]:
    if isinstance(column, np.ndarray):
        return np.isnan(column)
    return np.array([value is None for value in column], np.bool_)


def _check_there(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise TableError(
                f"{table.file} has no column {name!r}: it has {names_of(list(table.columns))}"
            )


def _parses(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texts(values: Any) -> Any:
    return None if values is None else tuple(str(each) for each in values)
