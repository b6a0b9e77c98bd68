"""Decimal commas are read where nothing else can be meant, and nowhere else."""

from pathlib import Path

import pytest

from tensorbnn.tables.decimals import comma_columns, read_numbers, with_points
from tensorbnn.tables.reading import Table, TableError, joined


def table(columns, separator=";", first=0):
    return Table(Path("t.csv"), columns, first, separator)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_columns_of_numbers(separator):
    columns = {
        "a": ["1,5", None, "-2", "3,25E-03"],
        "b": ["1,234", "5,000", "2,500", "7"],  # by themselves they might be thousands
        "c": ["1,5", "2,5", "large", "1,5"],
        "d": ["1", "2", "3", "1e5"],
    }
    found = comma_columns([table(columns, separator)])
    assert found == {"a", "b"}
    assert with_points(table(columns, separator), found).columns == {
        "a": ["1.5", None, "-2", "3.25E-03"],
        "b": ["1.234", "5.000", "2.500", "7"],
        "c": columns["c"],
        "d": columns["d"],
    }


@pytest.mark.parametrize(
    ("columns", "separator"),
    [
        ({"a": ["1,5", "2,5"]}, ","),  # quoted
        ({"a": ["1.5", "2.5"], "b": ["1", "2"]}, ";"),
        ({"a": ["1,5", "x"], "b": ["1.5", "2"]}, ";"),
        ({"a": ["1,2,3", "1,5"], "b": ["1.5", "2"]}, ";"),
        ({"a": ["1.234,5", "1,5"]}, "\t"),
        ({"a": ["1, 5", "1,5"]}, ";"),
    ],
)
def test_what_stays_as_it_is(columns, separator):
    assert comma_columns([table(columns, separator)]) == frozenset()


@pytest.mark.parametrize("text", ["0,500", "12,34", "1234,567", "1,5", "-0,125", "1,234e2"])
def test_what_shows_that_a_comma_is_decimal(text):
    assert comma_columns([table({"a": ["1,234", text]})]) == {"a"}


def test_thousands():
    columns = {"a": ["1,234", "+12,345", "-999,000"]}
    message = r"'a' has '1,234' in data row 1 of t\.csv: no number .* or a thousands comma"
    with pytest.raises(TableError, match=message):
        comma_columns([table(columns)])
    assert comma_columns([table(columns)], expected=True) == {"a"}
    assert comma_columns([table(columns)], ["b"]) == frozenset()


def test_points_and_commas():
    first, second = {"a": ["1", "2,5"], "b": ["1", "2"]}, {"a": ["3", "4"], "b": ["x", "0.5"]}
    message = "'a' has '2,5' in data row 2 of .*: column 'b' has '0.5' in data row 4; write all"
    second["b"] = ["3", "0.5"]
    with pytest.raises(TableError, match=message):
        comma_columns([table(first), table(second, first=2)], expected=True)
    assert comma_columns([table(first), table(second)], ["a"]) == {"a"}


def test_columns_that_are_numbers_for_sure():
    columns = {"a": ["1,5", "oops"]}
    found = comma_columns([table(columns)], are_numbers=True)
    assert with_points(table(columns), found).columns == {"a": ["1.5", "oops"]}


def test_a_table_that_begins_with_numbers():
    with pytest.raises(TableError, match=r"begins with numbers \(1,5, 2\): its first line must"):
        comma_columns([table({"1,5": ["0,5"], "2": ["2"]})])
    assert comma_columns([table({"400,5": ["0,5"], "y": ["2"]})]) == {"400,5"}


def test_later_rows_decide(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorbnn.tables.reading.read_parts.__defaults__", (2,))
    file = tmp_path / "t.csv"
    file.write_text("a;b\n1,234;x,y\n2,345;1,5\n0,5;z\n")
    parts = list(read_numbers(file, ["a"]))
    assert [part.num_rows for part in parts] == [2, 1]
    assert joined(parts).columns == {"a": ["1.234", "2.345", "0.5"], "b": ["x,y", "1,5", "z"]}
