"""Rows are named as the user finds them in the table: by verdict, warnings and report."""

import csv
import html
import re
from pathlib import Path

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.cli.messages import CommandLine, render
from tensorbnn.messages import Resume
from tensorbnn.report.context import diagnosed_rows
from tensorbnn.sampling.api import begin_run
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.warning import Point, StoppedUnconverged
from tests.cli.running import result, write

pytestmark = pytest.mark.slow

SHORT = ["--hidden-layer-sizes", "3", "--chains", "2", "--burn-in", "20", "--draws", "8", "--quiet"]


def sample_apart(posterior, sampler, **options):
    """Two chains that start far apart and hardly move: they disagree everywhere."""
    still = tb.HMC(step_size=1e-4, num_steps=3)
    return begin_run(posterior, still, start={"dense_1.biases": [[-3.0], [3.0]]}, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of two columns with rows that were dropped and held out, and one of many columns."""
    folder = tmp_path_factory.mktemp("places")
    rng = np.random.default_rng(1)
    depth = rng.uniform(50, 400, 300).round(1)
    rock = rng.choice(["chalk", "clay"], 300)
    flow = (depth / 10 + rng.normal(0, 1, 300)).round(2)
    shown = [*map(str, depth)]
    shown[2] = shown[11] = ""
    write(folder / "wells.csv", {"depth": shown, "rock": rock, "flow": flow})
    many = {name: rng.normal(size=40).round(3) for name in "abcd"}
    write(folder / "many.csv", many | {"y": rng.normal(size=40).round(3)})
    write(folder / "at.csv", {"rock": ["clay", "chalk", "clay"], "depth": [10, "", 390]})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("tensorbnn.cli.fit.begin_run", sample_apart)
        options = ["--missing", "drop", "--validation", "0.2", *SHORT]
        assert main(["fit", "wells.csv", "--target", "flow", "--out", "wells", *options]) == 0
        assert main(["fit", "many.csv", "--target", "y", "--out", "many", *SHORT]) == 0
    return folder


@pytest.fixture
def inside(runs, monkeypatch):
    monkeypatch.chdir(runs)
    return runs


def rows_of(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_verdict_names_rows_of_the_table(inside, capsys):
    verdict = result(capsys, "diagnose", "wells", code=3)["verdict"]
    assert verdict.startswith("chains disagree at")
    found = re.findall(r"data row (\d+) \(depth = ([\d.]+), rock=(\w+)\)", verdict)
    assert found
    table = rows_of("wells.csv")
    for number, depth, rock in found:
        row = table[int(number) - 1]
        assert (float(row["depth"]), row["rock"]) == (float(depth), rock)


def test_all_rows_that_are_diagnosed_are_known(inside):
    store = DirectoryStore(Path("wells"))
    table = rows_of("wells.csv")
    places = store.manifest["notes"]["table"]["diagnosed"]
    x = store.data()["x"]
    depths = [float(table[number - 1]["depth"]) for number in places]
    np.testing.assert_allclose(depths, x[::3, 0], rtol=1e-6)


def test_many_columns_are_not_listed(inside, capsys):
    verdict = result(capsys, "diagnose", "many", code=3)["verdict"]
    assert re.search(r"worst at data row \d+(, data row \d+)*(, \.\.\.)?\)", verdict)


def test_rows_of_another_table(inside, capsys):
    verdict = result(capsys, "diagnose", "wells", "--x", "at.csv", code=3)["verdict"]
    named = re.findall(r"data row \d+ \([^)]*\)", verdict)
    assert named
    assert set(named) <= {
        "data row 1 (depth = 10, rock=clay)",
        "data row 3 (depth = 390, rock=clay)",
    }


def test_a_run_that_does_not_know_its_rows_names_inputs(inside):
    """As one of an older version, or one that was made in Python."""
    table = DirectoryStore(Path("wells")).manifest["notes"]["table"]
    older = {name: value for name, value in table.items() if name != "diagnosed"}
    x = np.array([[97.0, 0.0, 1.0], [150.25, 1.0, 0.0]])
    names = diagnosed_rows({"table": older}, x).names
    assert names == ("depth = 97, rock=clay", "depth = 150.2, rock=chalk")
    assert diagnosed_rows({}, x).names[0] == "x0 = 97, x1 = 0, x2 = 1"
    many = diagnosed_rows({}, np.zeros((1, 8))).names
    assert many == ("x0 = 0, x1 = 0, x2 = 0, x3 = 0, x4 = 0, x5 = 0, …",)


def test_the_report_names_rows_and_options(inside, capsys, tmp_path):
    told = result(capsys, "report", "wells", "--out", str(tmp_path / "page.html"))["verdict"]
    page = html.unescape((tmp_path / "page.html").read_text())
    assert all(part in page for part in told.split(" - "))
    assert "data row" in told
    assert "--burn-in" in told
    assert "`" not in told
    assert re.search(r"where the chains agree least, at data row \d+ \(depth = ", page)
    # Those whose sensitivity to the prior is shown: five, from the first one on.
    number = DirectoryStore(Path("wells")).manifest["notes"]["table"]["diagnosed"][0]
    row = rows_of("wells.csv")[number - 1]
    first = f"data row {number} (depth = {float(row['depth']):.4g}, rock={row['rock']})"
    assert "of the prediction of flow at 5 points" in page
    assert re.search(rf"Points are 1: {re.escape(first)}; 2: data row .*; 5: data row", page)


def test_warnings_of_a_run_that_falls_short_name_rows_of_the_table(inside, capsys, tmp_path):
    run = tmp_path / "wells"
    assert (
        main(
            ["fit", "wells.csv", "--target", "flow", "--out", str(run), "--missing", "drop", *SHORT]
        )
        == 0
    )
    spent = DirectoryStore(run).manifest
    assert spent["status"] == "complete"
    capsys.readouterr()
    assert main(["resume", str(run), "--ess", "1e6", "--max-gradients", "3000", "--quiet"]) == 0
    error = capsys.readouterr().err
    assert "stopped by --max-gradients" in error
    found = re.findall(r"at data row (\d+) \(depth = ([\d.]+), rock=(\w+)\);", error)
    assert len(found) == 5
    assert " at x = " not in error
    table = rows_of("wells.csv")
    for number, depth, rock in found:
        row = table[int(number) - 1]
        assert (float(row["depth"]), row["rock"]) == (float(depth), rock)


def test_rows_that_are_known_by_number_are_named_too():
    named = CommandLine(points=["data row 1", "data row 9", "data row 27"])
    worst = [Point(2, "row 6", 1.2, 3.0), Point(1, "row 3", 1.1, 30.0)]
    told = StoppedUnconverged(
        "draws", 8, 8, 8, Resume(Path("run")), 1.01, 400.0, points=100, short=5, worst=worst
    )
    assert (
        "R-hat 1.200 and ESS 3 at data row 27; R-hat 1.100 and ESS 30 at data row 9; and 3 more;"
    ) in render(told, named)


def test_target_acceptance(inside, capsys, tmp_path):
    out = str(tmp_path / "careful")
    options = ["fit", "many.csv", "--target", "y", *SHORT, "--out", out, "--target-acceptance"]
    assert main([*options, "1.5"]) == 1
    assert (
        "tensorbnn: --target-acceptance must lie between 0 and 1, got 1.5"
        in capsys.readouterr().err
    )
    assert not Path(out).exists()
    assert main([*options, "0.99"]) == 0
    capsys.readouterr()
    manifest = result(capsys, "info", out)["manifest"]
    assert manifest["sampler"]["target_acceptance"] == 0.99
    assert "--target-acceptance 0.99" in manifest["notes"]["command"]
