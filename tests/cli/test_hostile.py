"""Names and cells of a table are data: not commands to a terminal, a spreadsheet or a browser."""

import csv

import numpy as np
import pytest

from tensorbnn.cli import main
from tensorbnn.cli.messages import printable
from tensorbnn.tables.writing import TableWriter
from tests.cli.running import write

RED, BELL = "\x1b[31msize\x1b[0m", "pri\x07ce\u202e"
FORMULA = '=HYPERLINK("http://example.org")'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run whose table has such names, and a table of new rows."""
    folder = tmp_path_factory.mktemp("hostile")
    x = np.linspace(-1, 1, 24).round(3)
    columns = {RED: x, "<img src=x>": np.tile(["=1+1", "plain"], 12), BELL: np.tanh(x).round(4)}
    write(folder / "t.csv", columns)
    out = ["--out", str(folder / "run"), "--validation", "0.25"]
    small = ["--hidden-layer-sizes", "3", "--chains", "2", "--burn-in", "60", "--draws", "20"]
    assert main(["fit", str(folder / "t.csv"), "--target", BELL, *out, *small, "--quiet"]) == 0
    return folder


def is_plain(text):
    return all(each.isprintable() or each == "\n" for each in text)


def test_control_characters_are_written_out():
    assert printable("a\x1b[2J\u202eb\udc80 é \N{SNOWMAN}") == "a\\x1b[2J\\u202eb\\udc80 é ☃"


@pytest.mark.parametrize("command", ["info", "diagnose", "report", "resume"])
def test_results_have_no_terminal_escapes(hostile, capsys, command):
    main([command, str(hostile / "run")])
    told = capsys.readouterr()
    assert is_plain(told.out), told.out
    assert is_plain(told.err), told.err
    assert command != "info" or r"pri\x07ce\u202e of t.csv from \x1b[31msize\x1b[0m" in told.out


def test_errors_have_no_terminal_escapes(hostile, capsys):
    write(hostile / "other.csv", {"other": [1.0], "\x1b[2J": [2.0]})
    run, out = str(hostile / "run"), str(hostile / "p.csv")
    assert main(["predict", run, str(hostile / "other.csv"), "--out", out]) == 1
    told = capsys.readouterr().err
    assert r"\x1b[2J" in told
    assert told.count("\n") == 1
    assert is_plain(told)


def test_predictions_have_no_formulas(hostile):
    run, out = str(hostile / "run"), hostile / "p.csv"
    arguments = ["predict", run, str(hostile / "t.csv"), "--with-inputs", "--out", str(out)]
    assert main([*arguments, "--quiet"]) == 0
    with out.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows[0]["<img src=x>"] == "'=1+1"
    assert float(rows[0]["mean"]) < 0  # a negative number stays one


def test_texts_that_a_spreadsheet_would_run(tmp_path):
    texts = [FORMULA, "+cmd", "-x", "@sum", " =1", "-5.5", "+3", "a=b", None, "＝1"]
    with TableWriter(tmp_path / "t.csv") as writer:
        writer.write({FORMULA: texts, "number": np.arange(-5.0, 5.0)})
    with open(tmp_path / "t.csv", newline="") as lines:
        names, *rows = csv.reader(lines)
    assert names == [f"'{FORMULA}", "number"]
    assert [row[0] for row in rows] == [
        *(f"'{FORMULA}", "'+cmd", "'-x", "'@sum", "' =1", "-5.5", "+3", "a=b", "", "'＝1"),
    ]
    assert [float(row[1]) for row in rows] == [*range(-5, 5)]


def test_a_report_escapes_html(hostile):
    assert main(["report", str(hostile / "run"), "--quiet"]) == 0
    page = (hostile / "run" / "report.html").read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x&gt;" in page


def test_resume_prints_the_score_of_rows_held_out(hostile, capsys):
    assert main(["resume", str(hostile / "run"), "--quiet"]) == 0
    assert "per held-out row" in capsys.readouterr().out
