"""Targets with error bars: `fit --target-sd` against an exact answer, and in other commands."""

import contextlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.storage.directory import DirectoryStore
from tests.cli.running import result, table, write

pytestmark = pytest.mark.slow

ROWS, SEED = 40, 3
# A straight line with known priors, whose posterior is Gaussian.
LINE = ["--hidden-layer-sizes", "", "--prior", "Normal(0, 1)", "--chains", "4", "--burn-in", "200"]
LINE += ["--draws", "250", "--validation", "0.2", "--seed", str(SEED), "--quiet", "--json"]
# Such a factor is exact in binary, so that even chains are the same.
UNIT = 1024.0
FIT = ["fit", "lines.csv", "--target", "y", "--target-sd", "y_sd", "--out", "other"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """A folder with measured points of a line, and fits to them in two units."""
    folder = tmp_path_factory.mktemp("measured")
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 3, ROWS).round(3)
    # Half of the points are nearly worthless: a fit that treats all as equal would be far off.
    sd = np.where(np.arange(ROWS) % 2, 400, 5) * rng.uniform(0.5, 2, ROWS).round(3)
    y = (500 + 30 * x + sd * rng.normal(size=ROWS)).round(3)
    columns = {"y_sd": sd, "x": x, "y": y}
    write(folder / "lines.csv", columns)
    write(folder / "scaled.csv", columns | {"y": UNIT * y, "y_sd": UNIT * sd})
    write(folder / "new.csv", {"x": [-1.5, 0.0, 2.5]})
    write(folder / "light.csv", columns | {"light": np.zeros(ROWS)})
    for name, change in {
        "zero": {"y_sd": [0, *sd[1:]]},
        "negative": {"y_sd": [*sd[:-2], -1.5, -3]},
        "infinite": {"y_sd": [*sd[:-1], "inf"]},
        "missing": {"y_sd": [*sd[:-1], "NA"]},
        "text": {"y_sd": [*sd[:2], "±3", *sd[3:]]},
        "comma": {"y_sd": [*sd[:2], "3,5", *sd[3:]]},
        "classes": {"y": ["low", "high"] * (ROWS // 2)},
    }.items():
        write(folder / f"{name}.csv", columns | change)
    here = os.getcwd()
    os.chdir(folder)
    try:
        for name in ("lines", "scaled"):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                options = ["--target", "y", "--target-sd", "y_sd", "--out", name]
                assert main(["fit", f"{name}.csv", *options, *LINE]) == 0
            (folder / f"{name}.json").write_text(said.getvalue())
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def at_lines(lines, monkeypatch):
    """The same, as the working directory."""
    monkeypatch.chdir(lines)
    return lines


def numbers(file, *names):
    found = table(file)
    return np.column_stack([np.array(found[name], float) for name in names])


def test_the_posterior_is_that_of_weighted_least_squares(at_lines, capsys):
    """Of a ridge of 1 in standardized units, and with each row's own error."""
    data = DirectoryStore("lines").data()
    x, y, sd = data["x"][:, 0], data["y"][:, 0], data["y_sd"][:, 0]
    center, scale = np.array([x.mean(), y.mean()]), np.array([x.std(), y.std()])

    def design(values):
        return np.column_stack([(values - center[0]) / scale[0], np.ones(len(values))])

    weighted = design(x).T / np.square(sd / scale[1])
    covariance = np.linalg.inv(weighted @ design(x) + np.eye(2))
    best = covariance @ weighted @ ((y - center[1]) / scale[1])
    new = numbers("new.csv", "x")
    at = design(new[:, 0])
    mean = center[1] + scale[1] * at @ best
    spread = scale[1] * np.sqrt(np.einsum("ri,ij,rj->r", at, covariance, at))

    result(capsys, "predict", "lines", "new.csv", "--out", "p.csv", "--overwrite")
    found, found_sd = numbers("p.csv", "mean", "sd").T
    # Five Monte Carlo errors of a mean and of a standard deviation.
    ess = np.nanmin(tb.load("lines").diagnose(new, progress=False).ess)
    assert ess > 200
    assert np.all(np.abs(found - mean) < 5 * spread / np.sqrt(ess))
    assert np.all(np.abs(found_sd / spread - 1) < 5 / np.sqrt(2 * ess))
    # A fit that treats all rows as equal would differ.
    plain = center[1] + scale[1] * at @ np.linalg.lstsq(design(x), (y - center[1]) / scale[1])[0]
    assert np.any(np.abs(plain - mean) > 20 * spread / np.sqrt(ess))


def test_units_of_the_target_do_not_matter(at_lines, capsys):
    for name in ("lines", "scaled"):
        result(capsys, "predict", name, "new.csv", "--out", f"{name}-p.csv", "--overwrite")
    names = ("mean", "sd", "q0.025", "q0.975")
    one, two = (numbers(f"{name}-p.csv", *names) for name in ("lines", "scaled"))
    np.testing.assert_allclose(two, UNIT * one, rtol=1e-6)
    one, two = (json.loads(Path(f"{name}.json").read_text()) for name in ("lines", "scaled"))
    # A density is per unit of the target.
    assert two["log_score"] == pytest.approx(one["log_score"] - np.log(UNIT), abs=1e-5)


def test_the_run_knows_its_error_bars(at_lines, capsys):
    store = DirectoryStore("lines")
    noted = store.manifest["notes"]["table"]
    assert (noted["targets"], noted["target_sds"]) == (["y"], ["y_sd"])
    assert noted["inputs"] == [{"name": "x", "categories": None}]
    assert tb.load("lines").likelihood == tb.MeasuredGaussian()
    data = store.data()
    held, kept = (np.hstack([data[f"{own}y"], data[f"{own}y_sd"]]) for own in ("validation_", ""))
    assert (held.shape, kept.shape) == ((8, 2), (32, 2))
    both = np.concatenate([held, kept]).tolist()
    assert sorted(both) == sorted(numbers("lines.csv", "y", "y_sd").tolist())
    assert main(["info", "lines"]) == 0
    said = capsys.readouterr().out
    assert "y of lines.csv from x, with standard deviations from y_sd\n" in said
    assert "tensorbnn fit lines.csv --out lines --target y --target-sd y_sd --validation" in said
    assert "MeasuredGaussian(factor 1)" in said
    assert result(capsys, "info", "lines")["manifest"]["notes"]["table"]["target_sds"] == ["y_sd"]


def test_validation_rows_are_scored_with_their_own_error(at_lines):
    found = json.loads(Path("lines.json").read_text())
    assert (found["targets"], found["target_sds"]) == (["y"], ["y_sd"])
    data = DirectoryStore("lines").data()
    networks = tb.load("lines").predict(data["validation_x"], progress=False).samples[..., 0]
    y, sd = data["validation_y"][:, 0], data["validation_y_sd"][:, 0]
    expected = np.log(stats.norm.pdf(y, networks, sd).mean(axis=0)).mean()
    assert found["log_score"] == pytest.approx(expected, rel=1e-5)


def test_what_fit_prints(at_lines, tmp_path, capsys):
    options = [
        "--hidden-layer-sizes",
        "",
        "--chains",
        "2",
        "--burn-in",
        "5",
        "--draws",
        "5",
        "--quiet",
    ]
    options += ["--likelihood", "MeasuredGaussian(factor=Hyper(1))", "--missing", "drop"]
    run = str(tmp_path / "run")
    assert main(["fit", "missing.csv", *FIT[2:6], "--out", run, *options]) == 0
    said = capsys.readouterr().out
    dropped = "39 rows, 1 with missing values dropped"
    assert f"{dropped}: y from x, with standard deviations from y_sd\n" in said
    assert "likelihood.factor" in tb.load(run).hyperparameters


def test_predictions(at_lines, capsys):
    """A table may have the target and its error, which are ignored."""
    found = result(capsys, "predict", "lines", "zero.csv", "--out", "p.csv", "--overwrite")
    assert found["columns"] == ["mean", "sd", "q0.025", "q0.5", "q0.975"]
    options = ["--out", "p.csv", "--overwrite", "--with-inputs"]
    found = result(capsys, "predict", "lines", "lines.csv", *options)
    assert found["columns"][:4] == ["y_sd", "x", "y", "mean"]
    assert main(["predict", "lines", "new.csv", "--out", "noise.csv", "--noise", "--quiet"]) == 1
    assert capsys.readouterr().err == (
        "tensorbnn: --noise is about a new measurement, whose standard deviation this run can't "
        "know: those in y_sd are of the training rows; leave out --noise, and add yours to sd in "
        "quadrature\n"
    )
    assert not os.path.exists("noise.csv")


def test_other_models(at_lines, capsys):
    other = ["--likelihood", "MeasuredGaussian(factor=1.05)"]
    found = result(capsys, "reweight", "lines", *other)
    expected = tb.load("lines").reweight(likelihood=tb.MeasuredGaussian(1.05), progress=False)
    assert found["log_evidence_ratio"] == pytest.approx(expected.log_evidence_ratio)
    # The variances add.
    found = result(capsys, "reweight", "lines", "--likelihood", "Gaussian(sd=1e-5)")
    assert found["log_evidence_ratio"] == pytest.approx(0, abs=1e-3)


def test_weights_of_rows(at_lines, tmp_path, capsys):
    sd, x, y = numbers("lines.csv", "y_sd", "x", "y").T
    weight = np.arange(ROWS) % 3 / 2
    write(tmp_path / "w.csv", {"x": x, "y": y, "y_sd": sd, "w": weight})
    run, small = str(tmp_path / "run"), [*LINE[:4], "--burn-in", "50", "--draws", "20"]
    arguments = [str(tmp_path / "w.csv"), *FIT[2:6], "--weight", "w", "--out", run]
    found = result(capsys, "fit", *arguments, *small, "--validation", "0.2")
    assert found["weight"] == "w"
    data = DirectoryStore(Path(run)).data()
    row = {each: place for place, each in enumerate(x)}
    for own in ("", "validation_"):
        places = [row[each] for each in data[f"{own}x"][:, 0]]
        np.testing.assert_array_equal(data[f"{own}sample_weight"], weight[places])
    networks = tb.load(run).predict(data["validation_x"], progress=False).samples[..., 0]
    rows = np.log(
        stats.norm.pdf(data["validation_y"][:, 0], networks, data["validation_y_sd"][:, 0]).mean(0)
    )
    expected = np.average(rows, weights=data["validation_sample_weight"])
    assert found["log_score"] == pytest.approx(expected, rel=1e-5)
    page = str(tmp_path / "page.html")
    result(capsys, "report", run, "--validation", str(tmp_path / "w.csv"), "--out", page)
    role = '<th scope="row" class="text">w</th><td class="text">weight</td>'
    assert role in Path(page).read_text(encoding="utf-8")
    assert main(["info", run]) == 0
    said = capsys.readouterr().out
    assert "from x, with standard deviations from y_sd, weighted by w\n" in said
    assert "--weight w" in said
    assert main(["predict", run, "new.csv", "--out", str(tmp_path / "p.csv"), "--quiet"]) == 0


def test_reports(at_lines, tmp_path, capsys):
    page = str(tmp_path / "page.html")
    result(capsys, "report", "lines", "--out", page)
    text = Path(page).read_text(encoding="utf-8")
    for said in (
        *('<th scope="row" class="text">y_sd</th><td class="text">sd of y</td>', "predicts y."),
        "Bars are the standard deviations of the data, y_sd.",
        *("of the data across, over networks upright", "targets are scaled with them"),
    ):
        assert said in text
    result(capsys, "report", "lines", "--validation", "lines.csv", "--out", page, "--overwrite")
    assert "For 40 rows of lines.csv" in Path(page).read_text(encoding="utf-8")
    for file, message in (
        ("zero.csv", "column 'y_sd' has 0 in data row 1 of zero.csv"),
        ("new.csv", "new.csv has no column 'y'"),
    ):
        assert main(["report", "lines", "--validation", file, "--out", page, "--overwrite"]) == 1
        assert message in capsys.readouterr().err


def test_resume(at_lines, tmp_path, capsys):
    run = str(tmp_path / "run")
    shutil.copytree("lines", run)
    assert result(capsys, "resume", run, "--draws", "260")["draws"] == 260
    np.testing.assert_array_equal(
        tb.load(run).parameters["dense_0.weights"][:, :250],
        tb.load("lines").parameters["dense_0.weights"],
    )
    assert main(["diagnose", run, "--x", "new.csv"]) in (0, 3)
    assert "over 3 points" in capsys.readouterr().out


def test_settings_and_several_targets(at_lines, tmp_path, monkeypatch, capsys):
    """One standard deviation for each target, in their order; targets may share one."""
    sd, x, y = numbers("lines.csv", "y_sd", "x", "y").T
    write(tmp_path / "two.csv", {"y": y, "a": 2 * sd, "x": x, "z": -y, "b": 3 * sd})
    asked = {}

    def stop(posterior, **options):
        asked.update(options, posterior=posterior)
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorbnn.cli.fit.begin_run", stop)
    monkeypatch.chdir(tmp_path)
    settings = 'data = "two.csv"\nout = "run"\ntarget = ["z", "y"]\ntarget-sd = ["b", "a"]\n'
    (tmp_path / "fit.toml").write_text(settings)
    options = ["--settings", "fit.toml", "--hidden-layer-sizes", "2"]
    assert main(["fit", *options]) == 130
    posterior = asked["posterior"]
    assert (posterior.network.inputs, posterior.network.outputs) == (1, 2)
    assert posterior.likelihood == tb.MeasuredGaussian()
    np.testing.assert_array_equal(posterior.y, np.column_stack([-y, y]))
    np.testing.assert_array_equal(posterior.data.y_sd, np.column_stack([3 * sd, 2 * sd]))
    assert "--target z --target y --target-sd b --target-sd a" in asked["notes"]["command"]
    assert main(["fit", *options, "--target-sd", "a", "--target-sd", "a", "--ignore", "b"]) == 130
    shared = np.column_stack([2 * sd, 2 * sd])
    np.testing.assert_array_equal(asked["posterior"].data.y_sd, shared)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FIT, "--likelihood", "poisson"], "--likelihood poisson has no standard deviation to"),
        ([*FIT, "--weight", "y"], "column 'y' holds weights of the rows and can't have another"),
        ([*FIT, "--weight", "none"], "has no column 'none'"),
        (
            ["fit", "negative.csv", "--target", "y", "--weight", "y_sd", "--out", "other"],
            "-1.5 in data row 39 of negative.csv (and in 1 more row): a weight must be at least 0",
        ),
        (
            ["fit", "light.csv", *FIT[2:], "--weight", "light"],
            "column 'light' of light.csv is 0 in every row: give some row a positive weight",
        ),
        (
            [*FIT, "--target-sd", "x"],
            "2 columns of standard deviations (y_sd, x) for 1 target (y): give one --target-sd",
        ),
        (
            [*FIT, "--target", "x"],
            "1 column of standard deviations (y_sd) for 2 targets (y, x): give one --target-sd",
        ),
        ([*FIT[:5], "err", *FIT[6:]], "no column 'err': it has y_sd, x, y"),
        ([*FIT[:5], "y", *FIT[6:]], "column 'y' is a target and can't hold standard deviations"),
        ([*FIT, "--categorical", "y_sd"], "is not an input: leave out --categorical y_sd"),
        ([*FIT[:5], "x", *FIT[6:], "--ignore", "y_sd"], "no columns left to predict y from"),
        (
            [*FIT, "--task", "classification"],
            "'y' has classes, which have no standard deviations: leave out --target-sd y_sd",
        ),
        (
            ["fit", "classes.csv", *FIT[2:]],
            "'y' has classes, which have no standard deviations: leave out --target-sd y_sd",
        ),
        (["fit", "zero.csv", *FIT[2:]], "has 0 in data row 1 of zero.csv: a standard dev"),
        (
            ["fit", "negative.csv", *FIT[2:]],
            "-1.5 in data row 39 of negative.csv (and in 1 more row)",
        ),
        (["fit", "infinite.csv", *FIT[2:]], "'y_sd' has inf in data row 40 of infinite.csv"),
        (["fit", "missing.csv", *FIT[2:]], "missing values in 1 of 40 rows (1 in 'y_sd')"),
        (["fit", "text.csv", *FIT[2:]], "'y_sd' holds numbers, but has the text '±3' in data"),
        (
            ["fit", "comma.csv", *FIT[2:]],
            "the text '3,5' in data row 3 of comma.csv: write numbers",
        ),
        (
            [*FIT[:4], *FIT[6:], "--likelihood", "measuredgaussian"],
            "name their columns with --target-sd, one for each --target",
        ),
        (
            [*FIT[:4], "--target", "y_sd", *FIT[6:], "--likelihood", "MeasuredGaussian()"],
            "name their columns with --target-sd",
        ),
        (
            ["fit", "classes.csv", *FIT[2:4], *FIT[6:], "--likelihood", "MeasuredGaussian()"],
            "is for numbers, but the target has classes",
        ),
    ],
)
def test_mistakes_are_one_line(at_lines, capsys, arguments, message):
    assert main([*arguments, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("tensorbnn: ")
    assert message in captured.err
    assert not captured.out
    assert not os.path.exists("other")
