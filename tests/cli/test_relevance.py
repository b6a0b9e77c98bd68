"""`--relevance`: which columns matter."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.report.figures import new_axes, plain_ticks
from tests.cli.running import result, write

pytestmark = pytest.mark.slow

QUICK = ["--hidden-layer-sizes", "3", "--chains", "2", "--burn-in", "200", "--draws", "50"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=40).round(3) for name in ("mass", "angle")}
    write(tmp_path / "data.csv", columns | {"y": (5 * columns["angle"]).round(2)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_and_report(folder, capsys):
    result(capsys, "fit", "data.csv", "--target", "y", "--relevance", "--out", "run", *QUICK)
    ensemble = tb.load("run")
    assert ensemble.network.layers[0] == tb.Relevance()
    assert ensemble.relevances[1] == 1
    result(capsys, "report", "run", "--out", "run.html")
    page = (folder / "run.html").read_text()
    assert 'href="#relevances"' in page
    assert "Which inputs matter" in page
    assert "--relevance" in page  # the command that makes the run again


def test_settings(folder, capsys):
    (folder / "fit.toml").write_text("relevance = true\n")
    options = ["--settings", "fit.toml", "--target", "y", "--out", "run", *QUICK]
    result(capsys, "fit", "data.csv", *options)
    assert tb.load("run").relevances is not None
    (folder / "fit.toml").write_text("relevance = 'yes'\n")
    assert main(["fit", "data.csv", *options, "--overwrite"]) == 1
    assert "relevance must be true or false, got 'yes'" in capsys.readouterr().err
    (folder / "fit.toml").write_text("relevance = false\n")
    result(capsys, "fit", "data.csv", *options, "--overwrite")
    assert tb.load("run").relevances is None
    result(capsys, "report", "run", "--out", "run.html")
    assert "Which inputs matter" not in (folder / "run.html").read_text()


@pytest.mark.parametrize(
    ("ends", "shown"),
    [((0.15, 2.5), ["0.2", "0.5", "1", "2"]), ((1e-3, 5.0), ["0.001", "0.01", "0.1", "1"])],
)
def test_numbers_along_the_axis_do_not_touch(ends, shown):
    ax = new_axes()
    ax.set(xscale="log", xlim=ends)
    plain_ticks(ax)
    ax.figure.draw_without_rendering()
    labels = {
        tick: label.get_text()
        for tick, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    }
    assert [text for at, text in labels.items() if ends[0] <= at <= ends[1]] == shown
    assert not any(label.get_text() for label in ax.get_xticklabels(minor=True))
