"""Columns to a CSV, TSV or Parquet file, part by part; the file appears when it is complete.

In text files, a text that a spreadsheet would run as a formula (``=1+1``) gets an apostrophe in
front of it, as in the spreadsheet itself.
"""

import csv
import gzip
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbnn.tables.columns import number_text
from tensorbnn.tables.reading import Column, is_number, suffix

# What a formula begins with; some spreadsheets also accept the wide signs.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


class TableWriter:
    """Writes parts of a table to a temporary file, which is renamed at the end.

    If the block fails, nothing is left of it, and an existing file stays as it was.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._kind = file, suffix(file)
        self._temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
        self._parquet: Any = None
        self._lines: Any = None

    def __enter__(self) -> Self:
        if self._kind not in (".parquet", ".pq"):
            opener: Any = gzip.open if self._file.name.lower().endswith(".gz") else open
            try:
                self._lines = opener(self._temporary, "wt", encoding="utf-8", newline="")
            except OSError as error:
                raise OSError(f"{self._file} can't be written: {error.strerror}") from error
        self._begun = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for each in (self._lines, self._parquet):
            if each is not None:
                each.close()
        if kind is None:
            self._temporary.replace(self._file)
        else:
            self._temporary.unlink(missing_ok=True)

    def write(
        self,
        columns: Mapping[str, Column | NDArray[Any] | Sequence[str | None]],
        *,
        exact: Collection[str] = (),
    ) -> None:
        """Add rows; all parts have the same columns.

        Numbers have nine digits, and those of the columns `exact` all their digits.
        """
        if self._lines is None:
            self._write_parquet(columns)
            return
        separator = "," if self._kind == ".csv" else "\t"
        writer = csv.writer(self._lines, delimiter=separator, lineterminator="\n")
        if not self._begun:
            writer.writerow(map(_without_formula, columns))
            self._begun = True
        texts = [_texts(values, exact=name in exact) for name, values in columns.items()]
        writer.writerows(zip(*texts, strict=True))

    def _write_parquet(self, columns: Mapping[str, Any]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError(
                f"{self._file} needs PyArrow: pip install 'tensorbnn[parquet]', or write CSV"
            ) from error
        arrays = {}
        for name, values in columns.items():
            kind = None if isinstance(values, np.ndarray) else pyarrow.string()
            arrays[name] = pyarrow.array(values, kind, from_pandas=True)  # NaN is null
        table = pyarrow.table(arrays)
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self._temporary, table.schema)
        self._parquet.write_table(table)


def _texts(values: Any, *, exact: bool) -> list[str]:
    """Numbers with nine digits, enough for a float32, or all; nothing for a missing value."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        known = number_text if exact else "{:.9g}".format
        return ["" if value != value else known(value) for value in values.tolist()]
    return ["" if value is None else _without_formula(str(value)) for value in values]


def _without_formula(text: str) -> str:
    is_formula = text.lstrip().startswith(_FORMULA) and not is_number(text)
    return f"'{text}" if is_formula else text
