"""Tables as European spreadsheets write them, from the fit to the report."""

import numpy as np
import pytest

from tensorbnn.cli import main
from tensorbnn.storage.directory import DirectoryStore
from tests.cli.conftest import QUICK
from tests.cli.running import result, table, write

pytestmark = pytest.mark.slow


def european(file, columns):
    """A table between semicolons, with decimal commas, as Excel reads it without being asked."""
    rows = zip(*columns.values(), strict=True)
    lines = ["sep=;", ";".join(columns)]
    lines += [";".join(str(each).replace(".", ",") for each in row) for row in rows]
    file.write_bytes("\r\n".join([*lines, ""]).encode("utf-8-sig"))
    return str(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("european")
    rng = np.random.default_rng(0)
    depth = rng.uniform(1, 3, 20).round(3)
    columns = {"depth": depth, "rock": rng.choice(["chalk", "clay"], 20), "flow": (9 - depth) / 8}
    data, run = european(folder / "data.csv", columns), str(folder / "run")
    assert main(["fit", data, "--target", "flow", "--out", run, *QUICK]) == 0
    stored = DirectoryStore(folder / "run").data()
    np.testing.assert_array_equal(stored["x"][:, 0], depth)
    np.testing.assert_array_equal(stored["y"][:, 0], columns["flow"])
    return folder


def test_the_same_predictions(folder, capsys):
    new = {"rock": ["clay", "chalk"], "depth": [1.234, 2.345]}  # which might be thousands
    write(folder / "points.csv", new)
    european(folder / "commas.csv", new)
    for name in ("points", "commas"):
        files = [str(folder / f"{name}.csv"), "--out", str(folder / f"{name}-out.csv")]
        result(capsys, "predict", str(folder / "run"), *files, "--with-inputs")
    points, commas = (table(folder / f"{name}-out.csv") for name in ("points", "commas"))
    assert points == commas
    assert commas["depth"] == ["1.234", "2.345"]


def test_the_run_reports_them(folder, capsys):
    table = DirectoryStore(folder / "run").manifest["notes"]["table"]
    assert table["decimal"] == ","
    data = [str(folder / "data.csv"), "--out", str(folder / "page.html")]
    assert result(capsys, "report", str(folder / "run"), "--validation", *data)["bytes"]
    at = str(folder / "data.csv")
    found = result(capsys, "diagnose", str(folder / "run"), "--x", at, code=3)
    assert len(found["rhat"]) == 20


def test_ambiguous_commas(folder, capsys):
    mixed = folder / "mixed.csv"
    mixed.write_text("rock;depth;flow\nclay;1,5;2\nchalk;1.5;3\n")
    fit = ["fit", str(mixed), "--target", "flow", "--out", str(folder / "mixed"), "--quiet"]
    predict = ["predict", str(folder / "run"), str(mixed), "--out", str(folder / "m.csv")]
    for arguments in (fit, predict):
        assert main(arguments) == 1
        assert "'depth' has '1,5' in data row 1" in capsys.readouterr().err
    report = [
        "report",
        str(folder / "run"),
        "--validation",
        str(mixed),
        "--out",
        str(folder / "m.html"),
    ]
    mixed.write_text("rock;depth;flow\nclay;1,5;2\nchalk;2;3.5\n")
    assert main(report) == 1
    assert "column 'flow' has '3.5' in data row 2; write all" in capsys.readouterr().err


def test_columns_that_are_not_numbers(tmp_path, capsys, monkeypatch):
    def stop(posterior, **options):
        noted.append(options["notes"]["table"])
        raise KeyboardInterrupt

    noted = []
    monkeypatch.setattr("tensorbnn.cli.fit.begin_run", stop)
    file = tmp_path / "t.csv"
    file.write_text("version;size;y\n1.5;1,5;2\n2.5;2,5;1\n1.5;1,5;7\n1.5;0,5;1\n")
    fit = ["fit", str(file), "--target", "y", "--out", str(tmp_path / "r"), "--quiet"]
    assert main([*fit, "--categorical", "version"]) == 130
    assert main([*fit, "--ignore", "version"]) == 130
    assert main([*fit, "--categorical", "size"]) == 130
    assert main(fit) == 1
    assert [each["decimal"] for each in noted] == [",", ",", "."]
    assert noted[2]["inputs"][1]["categories"] == ("0,5", "1,5", "2,5")
    file.write_text("x;y\n1;1,5\n2;2,5\n3;1,5\n")
    assert main([*fit, "--task", "classification"]) == 130
    assert noted[3]["classes"] == ("1,5", "2,5")
    assert main(fit) == 130
    assert noted[4]["classes"] is None
    capsys.readouterr()
