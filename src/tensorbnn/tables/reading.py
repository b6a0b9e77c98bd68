"""CSV, TSV and Parquet files as named columns, in parts.

CSV and TSV files are UTF-8 with a line of column names first; a CSV file may be separated by
semicolons or tabs. Either may be compressed (``.csv.gz``). Parquet is read by PyArrow (extra
``parquet``).
"""

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.messages import PYTHON, Message, Words

# Texts that stand for a missing value.
MISSING = frozenset({"", "NA", "N/A", "#N/A", "<NA>", "n/a", "null", "NULL", "None"})
_NAN = frozenset({"nan", "+nan", "-nan"})  # in upper and lower case
_SEPARATORS = (",", ";", "\t")
_DECLARED = re.compile(r"sep=([,;\t])\r?\n?")  # the first line, by which Excel knows the separator
_LINES_COMPARED = 50
SUFFIXES = (".csv", ".tsv", ".tab", ".parquet", ".pq")
ROWS_AT_ONCE = 50_000

Column = NDArray[np.float64] | list[str | None]
"""Numbers, NaN where one is missing; or texts, ``None`` where one is missing."""


class Setting(NamedTuple):
    """An option that is part of some advice, by its name in the settings of a fit."""

    name: str
    value: str | None = None


class TableError(Message, ValueError):
    """A table that can't be used.

    The `problem` follows the name of the place: a column, the first of some rows (counted from 1),
    or the file. The pieces of `advice` say what to do.
    """

    def __init__(
        self,
        problem: str,
        *advice: str | Setting,
        file: Path | None = None,
        column: str | int | None = None,
        rows: Sequence[int] = (),
    ) -> None:
        super().__init__(problem, *advice)
        self.problem, self.advice = problem, advice
        self.file, self.column, self.rows = file, column, rows

    def message(self, words: Words = PYTHON) -> str:
        row = f"data row {self.rows[0]:,} of {self.file}" if self.rows else f"{self.file}"
        text = self.problem if self.file is None else f"{row} {self.problem}"
        if self.column is not None:
            of = "" if self.rows else f" of {self.file}" if self.file else ""
            place = f" in {row}" if self.rows else ""
            text = f"column {self.column!r}{of} {self.problem}{place}"
        if len(self.rows) > 1:
            text += f" (and in {counted(len(self.rows) - 1, 'more row')})"
        advice = [each if isinstance(each, str) else words.option(*each) for each in self.advice]
        return ": ".join([text, "".join(advice)] if advice else [text])


class Table(NamedTuple):
    """Some rows of a file."""

    file: Path
    columns: dict[str, Column]
    first: int = 0
    """Rows of the file before these."""
    separator: str = ","
    """The separator of fields in a text file."""

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def number(self, row: int) -> int:
        """The number of a row of this part in the file, from 1."""
        return self.first + int(row) + 1

    def error(
        self,
        problem: str,
        *advice: str | Setting,
        column: str | None = None,
        rows: Iterable[int] = (),
    ) -> TableError:
        """An error about this table, or about these rows of it."""
        numbers = [self.number(row) for row in rows]
        return TableError(problem, *advice, file=self.file, column=column, rows=numbers)


def read_table(file: Path) -> Table:
    """All rows of a file."""
    return joined(read_parts(file))


def joined(parts: Iterable[Table]) -> Table:
    """All parts of a table, at least one, in one."""
    parts = list(parts)
    columns: dict[str, Column] = {}
    for name, first in parts[0].columns.items():
        own: list[Any] = [part.columns[name] for part in parts]
        is_array = isinstance(first, np.ndarray)
        columns[name] = np.concatenate(own) if is_array else list(itertools.chain(*own))
    return parts[0]._replace(columns=columns)


def read_parts(file: Path, rows: int = ROWS_AT_ONCE) -> Iterator[Table]:
    """The rows of a file in parts of `rows` rows, at least one part."""
    if not file.exists():
        raise TableError(f"there is no file {file}")
    if file.is_dir():
        raise TableError("is a directory, not a table", file=file)
    kind = suffix(file)
    parts = _parquet(file, rows) if kind in (".parquet", ".pq") else _text(file, kind, rows)
    first = 0
    try:
        for table in parts:
            yield table._replace(first=first)
            first += table.num_rows
    except (OSError, EOFError, zlib.error) as error:
        raise TableError("can't be read", str(error), file=file) from error
    if not first:
        raise TableError("has no rows", file=file)


def suffix(file: Path) -> str:
    """The extension of a table, or an error that lists the supported ones."""
    name = file.name.lower()
    for known in SUFFIXES:
        if name.endswith((known, f"{known}.gz")):
            return known
    problem = "has an unknown extension"
    raise TableError(problem, f"use one of {', '.join(SUFFIXES)}", file=file)


def names_of(columns: Sequence[str]) -> str:
    """The names of columns, at most the first ten."""
    shown = ", ".join(columns[:10])
    return shown if len(columns) <= 10 else f"{shown}, ... ({len(columns)} in all)"


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point, if any."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python allows it in numbers, but 12_3 is a name


def _text(file: Path, kind: str, rows: int) -> Iterator[Table]:
    opener: Any = gzip.open if file.name.lower().endswith(".gz") else open
    with opener(file, "rt", encoding="utf-8-sig", newline="") as lines:
        try:
            yield from _fields(file, kind, lines, rows)
        except UnicodeDecodeError as error:
            problem = f"is not text in UTF-8 ({error.reason} in line {_bad_line(file, opener):,})"
            raise TableError(problem, "save it as UTF-8", file=file) from error
        except csv.Error as error:
            raise TableError("can't be read", str(error), file=file) from error


def _bad_line(file: Path, opener: Any) -> int:
    """The number of the first line that is not UTF-8, which the error does not have."""
    with opener(file, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return number  # the last line ends too early


def _fields(file: Path, kind: str, lines: IO[str], rows: int) -> Iterator[Table]:
    begin = list(itertools.islice(lines, _LINES_COMPARED))
    separator = "\t" if kind != ".csv" else _separator(begin)
    declared = _DECLARED.fullmatch(begin[0]) if begin else None
    if declared and (kind == ".csv" or declared[1] == separator):
        separator, begin = declared[1], begin[1:]
    reader = csv.reader(itertools.chain(begin, lines), delimiter=separator, strict=True)
    wanted = (row for row in reader if row)  # an empty line is not a row
    names = [name.strip() for name in next(wanted, [])]
    _check_names(file, names)
    number = 0
    while part := list(itertools.islice(wanted, rows)):
        for place, row in enumerate(part, start=number + 1):
            if len(row) != len(names):
                has, named = counted(len(row), "field"), counted(len(names), "column")
                problem = f"has {has}, but its first line names {named}"
                raise TableError(problem, names_of(names), file=file, rows=[place])
        number += len(part)
        columns = ([_value(text) for text in column] for column in zip(*part, strict=True))
        yield Table(file, dict(zip(names, columns, strict=True)), separator=separator)


def _separator(begin: Sequence[str]) -> str:
    """The separator that gives most fields, and equally many in all rows."""
    whole = len(begin) < _LINES_COMPARED
    alike = []
    for separator in _SEPARATORS:
        counts = _counts(begin, separator)
        counts = counts if whole else counts[:-1]  # the last row may be incomplete
        if len(set(counts)) == 1 and counts[0] > 1:
            alike.append(separator)

    def agreement(separator: str) -> tuple[bool, int]:
        first, second = (sum(_counts([line], separator)) for line in [*begin[:2], "", ""][:2])
        return first == second > 1, first

    return max(alike or _SEPARATORS, key=agreement)


def _counts(lines: Sequence[str], separator: str) -> list[int]:
    """The number of fields in each row; nothing if it can't be this separator."""
    try:
        return [len(row) for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:  # such as a field that is too long
        return []


def _value(text: str) -> str | None:
    text = text.strip()
    return None if text in MISSING or text.lower() in _NAN else text


def _check_names(file: Path, names: Sequence[str]) -> None:
    if not names:
        raise TableError("is empty", file=file)
    if all(is_number(name) for name in names):
        raise no_header(file, names)
    for place, name in enumerate(names, start=1):
        if not name:
            advice = "name it, or leave it out (pandas writes such a column unless you pass "
            raise TableError("has no name", advice, "`index=False`)", file=file, column=place)
        if names.index(name) != place - 1:
            raise TableError(f"has two columns named {name!r}", "rename one of them", file=file)


def no_header(file: Path, names: Sequence[str]) -> TableError:
    """The error about a file whose first line is not a header."""
    problem = f"begins with numbers ({names_of(names)})"
    return TableError(problem, "its first line must name the columns", file=file)


def _parquet(file: Path, rows: int) -> Iterator[Table]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{file} needs PyArrow: pip install 'tensorbnn[parquet]', or save it as CSV"
        ) from error
    try:
        with parquet.ParquetFile(file) as content:
            _check_names(file, content.schema_arrow.names)
            for batch in content.iter_batches(batch_size=rows):
                if batch.num_rows:
                    names = batch.schema.names
                    yield Table(file, {name: _column(batch.column(name)) for name in names})
    except pyarrow.ArrowException as error:
        raise TableError("can't be read", str(error).splitlines()[0], file=file) from error


def _column(values: Any) -> Column:
    """A column of Parquet: numbers if its type is numeric, texts otherwise."""
    import pyarrow

    kind = values.type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
    if is_number or pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        numbers = values.cast(pyarrow.float64(), safe=False)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
    return [None if value is None else _value(str(value)) for value in values.to_pylist()]
