"""Tables are read as they are, or refused with an error that names the line and the reason."""

import csv
import gzip

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tensorbnn.tables.reading import TableError, read_parts, read_table
from tensorbnn.tables.writing import TableWriter

TEXT = "a,b,c\n1,red,\n2.5,NA,7\n\n3,blue,nan\n"


def written(tmp_path, text, name="t.csv"):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", TEXT.encode()),
        ("t.csv", b"\xef\xbb\xbf" + TEXT.encode()),  # as Excel writes it
        ("t.csv", TEXT.replace("\n", "\r\n").encode()),
        ("t.csv", TEXT.replace(",", ";").encode()),
        ("t.TSV", TEXT.replace(",", "\t").encode()),
        ("t.csv", TEXT.replace(",", "\t").encode()),
        ("t.csv.gz", gzip.compress(TEXT.encode())),
    ],
    ids=["plain", "byte order mark", "Windows", "semicolons", "tabs", "tabs, csv", "compressed"],
)
def test_text_tables(tmp_path, name, content):
    table = read_table(written(tmp_path, content, name))
    assert table.columns == {
        "a": ["1", "2.5", "3"],
        "b": ["red", None, "blue"],
        "c": [None, "7", None],
    }


def test_quoted_fields_keep_separators_and_lines(tmp_path):
    table = read_table(written(tmp_path, 'a,b\n"x, y","two\nlines"\n'))
    assert table.columns == {"a": ["x, y"], "b": ["two\nlines"]}


def test_a_name_may_hold_another_separator(tmp_path):
    table = read_table(written(tmp_path, "depth, m;rock;flow, l/s\n1;clay;2\n"))
    assert table.columns == {"depth, m": ["1"], "rock": ["clay"], "flow, l/s": ["2"]}


def test_later_lines_decide_the_separator(tmp_path):
    lines = ["a, m;b, s", "1,5;2,5", "3;4,5"]
    table = read_table(written(tmp_path, "\n".join(lines)))
    assert table.columns == {"a, m": ["1,5", "3"], "b, s": ["2,5", "4,5"]}
    # Where all of them can be separated by commas they are, as before.
    assert list(read_table(written(tmp_path, "\n".join(lines[:2]))).columns) == ["a", "m;b", "s"]
    # The last line that is checked may be an incomplete row.
    many = ["a;b", *["1,0;2"] * 48, '3;"two\nlines"']
    assert read_table(written(tmp_path, "\n".join(many))).columns["b"][-1] == "two\nlines"


def test_a_name_may_have_two_lines(tmp_path):
    table = read_table(written(tmp_path, '"depth\n(m)";rock\n1;clay\n'))
    assert table.columns == {"depth\n(m)": ["1"], "rock": ["clay"]}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_separator_that_a_first_line_declares(tmp_path, separator, end):
    lines = [f"sep={separator}", separator.join("ab"), separator.join("12"), ""]
    table = read_table(written(tmp_path, end.join(lines).encode("utf-8-sig")))
    assert table.columns == {"a": ["1"], "b": ["2"]}
    assert table.separator == separator
    assert table.number(0) == 1


def test_a_column_may_be_named_like_a_declaration(tmp_path):
    assert read_table(written(tmp_path, "sep=;\n1\n", "t.tsv")).columns == {"sep=;": ["1"]}
    found = read_table(written(tmp_path, "sep=\t\na\tb\n1\t2\n", "t.tsv"))
    assert found.columns == {"a": ["1"], "b": ["2"]}


def test_lines_longer_than_a_field_may_be(tmp_path):
    names = [f"column_{number}" for number in range(15_000)]
    text = ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"
    assert len(text.splitlines()[0]) > csv.field_size_limit()
    assert list(read_table(written(tmp_path, text)).columns) == names


def test_empty_lines_before_the_names(tmp_path):
    assert read_table(written(tmp_path, "\n\na,b\n1,2\n")).columns == {"a": ["1"], "b": ["2"]}


def test_the_line_that_is_not_utf8(tmp_path):
    lines = [b"rock,flow", *[b"chalk,1"] * 5000, "Kölsch,2".encode("latin-1")]
    for name, content in (("t.csv", b"\n".join(lines)), ("t.tsv", b"a\tb\n1\t\xc3")):
        number = len(content.splitlines())
        with pytest.raises(TableError, match=f"is not text in UTF-8 .* in line {number:,}"):
            read_table(written(tmp_path, content, name))
    compressed = written(tmp_path, gzip.compress(b"\n".join(lines)), "t.csv.gz")
    with pytest.raises(TableError, match="in line 5,002"):
        read_table(compressed)


def test_what_is_missing(tmp_path):
    texts = ["", "NA", "#N/A", "<NA>", "n/a", "null", "None", "nan", "NAN", "-nan"]
    table = read_table(written(tmp_path, "a,b\n" + "".join(f"{each},1\n" for each in texts)))
    assert table.columns["a"] == [None] * len(texts)
    table = read_table(written(tmp_path, "a,b\nnone,1\nNa,2\n"))
    assert table.columns["a"] == ["none", "Na"]  # a category, a metal


def test_parquet(tmp_path):
    columns = {
        "whole": pyarrow.array([1, None, 3], pyarrow.int32()),
        "real": [0.5, float("nan"), 2.0],
        "text": ["x", None, "y"],
        "category": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
        "flag": [True, False, None],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet").columns
    np.testing.assert_array_equal(found["whole"], [1, np.nan, 3])
    np.testing.assert_array_equal(found["real"], [0.5, np.nan, 2])
    assert found["text"] == ["x", None, "y"]
    assert found["category"] == ["u", "v", "u"]
    assert found["flag"] == ["True", "False", None]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_parts_continue_the_row_numbers(tmp_path, suffix):
    file = tmp_path / f"t.{suffix}"
    with TableWriter(file) as writer:
        writer.write({"a": np.arange(5.0)})
        writer.write({"a": np.arange(5.0, 7.0)})
    parts = list(read_parts(file, rows=3))
    assert len(parts) > 1
    assert max(part.num_rows for part in parts) <= 3
    assert [part.first for part in parts] == [
        sum(each.num_rows for each in parts[:index]) for index in range(len(parts))
    ]
    assert parts[-1].number(0) == parts[-1].first + 1
    joined = [float(value) for part in parts for value in part.columns["a"]]
    assert joined == list(range(7))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv is empty"),
        ("a,b\n", "t.csv has no rows"),
        ("1,2\n3,4\n", r"begins with numbers \(1, 2\): its first line must name the columns"),
        (
            "a,b\n1,2\n3\n",
            "data row 2 of .*t.csv has 1 field, but its first line names 2 c.*: a, b",
        ),
        ("# mine\na,b\n1,2\n", "data row 1 .* has 2 fields, but .* names 1 column: # mine"),
        ("a,a\n1,2\n", "has two columns named 'a'"),
        (",a\n0,1\n", "column 1 of .*t.csv has no name.*index=False"),
        (b"a\n\xff\xfe\n", "is not text in UTF-8"),
        ('a,b\n"1,2\n', "can't be read"),
    ],
)
def test_mistakes_in_text(tmp_path, content, message):
    with pytest.raises(TableError, match=message):
        read_table(written(tmp_path, content))


def test_mistakes_with_files(tmp_path):
    with pytest.raises(TableError, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(TableError, match=r"\.csv, \.tsv"):
        read_table(written(tmp_path, "a\n1\n", "t.xlsx"))
    with pytest.raises(TableError, match=r"t\.parquet can't be read"):
        read_table(written(tmp_path, "a\n1\n", "t.parquet"))
    with pytest.raises(TableError, match=r"t\.csv\.gz can't be read"):
        read_table(written(tmp_path, "a\n1\n", "t.csv.gz"))
    rows = "".join(f"{each},{2 * each}\n" for each in range(3000))
    damaged = bytearray(gzip.compress(f"a,b\n{rows}".encode(), mtime=0))
    for byte in (0, 5):
        damaged[len(damaged) // 2 + byte] ^= 0xFF
    with pytest.raises(TableError, match=r"t\.csv\.gz can't be read"):
        read_table(written(tmp_path, bytes(damaged), "t.csv.gz"))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_what_is_written_is_read_back(tmp_path, name):
    numbers = np.array([0.1, np.nan, 1e-30])
    with TableWriter(tmp_path / name) as writer:
        writer.write({"n": numbers, "t": ["a,b", None, "ü"], "i": np.arange(3)})
    found = read_table(tmp_path / name).columns
    back = [np.nan if value is None else float(value) for value in found["n"]]
    np.testing.assert_allclose(back, numbers, rtol=1e-8)
    assert found["t"] == ["a,b", None, "ü"]
    assert [int(value) for value in found["i"]] == [0, 1, 2]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_numbers_of_a_table_keep_their_digits(tmp_path):
    numbers = np.array([12345678901.0, 0.1, np.nan, 100.123456789012, -3.0])
    with TableWriter(tmp_path / "t.csv") as writer:
        writer.write({"own": numbers, "made": numbers}, exact=["own"])
    found = read_table(tmp_path / "t.csv").columns
    assert found["own"] == ["12345678901", "0.1", None, "100.123456789012", "-3"]
    assert found["made"] == ["1.23456789e+10", "0.1", None, "100.123457", "-3"]


def test_nothing_is_left_where_writing_fails(tmp_path):
    file = written(tmp_path, "mine")
    columns = {"a": np.zeros(2), "b": np.zeros(3)}
    with pytest.raises(ValueError, match="longer"), TableWriter(file) as writer:
        writer.write(columns)
    assert file.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1
