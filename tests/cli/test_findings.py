"""Commands report findings about a table by the names of its columns, as text and as JSON."""

import json

import numpy as np
import pytest

from tensorbnn.cli import main
from tests.cli.running import result, write


@pytest.fixture
def messy(tmp_path, monkeypatch):
    """A table with a code for missing values, a value far outside and a constant column."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, size = rng.uniform(20, 60, 80).round(1), rng.normal(size=80).round(3)
    age[:9], size[40] = -999, 5000
    columns = {"age": age, "size": size, "batch": [3] * 80, "price": rng.normal(size=80).round(3)}
    return write(tmp_path / "table.csv", columns)


def test_findings_have_the_names_of_the_table(messy, capsys):
    arguments = ["fit", messy.name, "--target", "price", "--out", "run", "--chains", "2"]
    quick = ["--hidden-layer-sizes", "2", "--burn-in", "50", "--draws", "20", "--quiet", "--json"]
    assert main([*arguments, *quick]) == 0
    printed = capsys.readouterr()
    said = [line for line in printed.err.splitlines() if "warning" in line]
    constant, far, code = (line.removeprefix("tensorbnn: warning: ") for line in said)
    assert constant.startswith("batch is constant in all rows, and of no use: leave out what never")
    assert far.startswith("size has the value 5000 in row 41, far outside the rest (-")
    assert code.startswith("age has the value -999 in 9 cells, which looks like a code for missing")
    assert "--missing drop" in code
    for facts in (json.loads(printed.out), result(capsys, "diagnose", "run", code=3)):
        assert not facts["trustworthy"]
        found = {each["kind"]: each for each in facts["findings"]}
        assert found["ConstantColumns"]["columns"] == [2]
        assert (found["Sentinel"]["value"], found["Sentinel"]["cells"]) == (-999, 9)
        assert found["FarValue"]["value"] == 5000
        assert found["Sentinel"]["text"].startswith("but age has the value -999")
    assert main(["diagnose", "run", "--quiet"]) == 3
    assert "batch is constant" in capsys.readouterr().out


def test_a_table_of_one_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one.csv", {"x": [1.0], "y": [2.0]})
    quick = ["--chains", "2", "--burn-in", "20", "--draws", "10", "--quiet"]
    assert main(["fit", "one.csv", "--target", "y", "--out", "run", *quick]) == 0
    assert "warning: one row is too few to learn from" in capsys.readouterr().err
