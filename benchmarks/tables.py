"""Results of a part of the benchmark: tables for people and programs."""

from typing import Any, NamedTuple

from rich.table import Table as RichTable

Cell = str | float | int | None


class Table(NamedTuple):
    """Named columns; every row has a cell for each."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    def column(self, name: str) -> list[Any]:
        """All cells of a column."""
        at = self.columns.index(name)
        return [row[at] for row in self.rows]


def from_json(table: dict[str, Any]) -> Table:
    """Restore a saved table."""
    rows = [tuple(row) for row in table["rows"]]
    return Table(table["name"], table["title"], table["about"], tuple(table["columns"]), rows)


def markdown(table: Table) -> str:
    """The table as a Markdown section."""
    lines = [f"## {table.title}", "", table.about, ""]
    lines += ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def terminal(table: Table) -> RichTable:
    """The table as text for the terminal."""
    found = RichTable(
        title=table.title, title_justify="left", caption=table.about, caption_justify="left",
        box=None, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for name in table.columns:
        found.add_column(name, justify="right" if name != table.columns[0] else "left")
    for row in table.rows:
        found.add_row(*(shown(cell) for cell in row))
    return found


def shown(cell: Cell) -> str:
    """Three significant digits, and all digits before the point."""
    if cell is None:
        return ""
    if not isinstance(cell, float):
        return str(cell)
    size = abs(cell)
    digits = 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{cell:,.{digits}f}"
