"""The benchmark of quality: the right rows, the right scores, nothing lost."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from benchmarks import published, quality, quality_tables
from benchmarks.quality_data import DataError, find_sets, read_cases, read_paired

pytestmark = pytest.mark.slow

NOISE = 0.5
ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path):
    """80 rows of a noisy plane, half of them tested in each of two splits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = x @ [1.0, -0.5] + 100 + NOISE * rng.normal(size=80)
    half = np.arange(80) % 2
    write(tmp_path / "data" / "plane.csv", "a,b,y", np.column_stack([x, y]))
    write(tmp_path / "data" / "plane.splits.csv", "s0,s1", np.column_stack([half, 1 - half]))
    return tmp_path / "data"


def write(file, header, table):
    file.parent.mkdir(exist_ok=True)
    np.savetxt(file, table, delimiter=",", header=header, comments="")


def test_a_run_continues_where_it_stopped(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(quality.HIDDEN, "UCI", (5,))
    arguments = ["--data", str(folder), "--sets", "plane", "--burn-in", "160"]
    arguments += ["--minutes", "5", "--out", str(tmp_path / "out")]
    assert quality.main([*arguments, "--splits", "1"]) == 0
    assert "fits to make: 1; done before: 0" in capsys.readouterr().out
    file = tmp_path / "out" / "quality.json"
    first = json.loads(file.read_text())
    assert quality.main(arguments) == 0
    assert "fits to make: 1; done before: 1" in capsys.readouterr().out
    both = json.loads(file.read_text())
    assert both["fits"][0] == first["fits"][0]
    assert [each["split"] for each in both["fits"]] == [0, 1]
    assert quality.main(arguments) == 0  # only shows
    assert json.loads(file.read_text()) == both
    assert "| plane | 2 |" in (tmp_path / "out" / "quality.md").read_text()
    for each in both["fits"]:
        assert (each["rows"], each["tested"]) == (40, 40)
    # Another model's results are not mixed in.
    file.write_text(json.dumps(both | {"models": {"UCI": "Network(...)"}}))
    with pytest.raises(SystemExit):
        quality.main(arguments)
    assert "has results of other models, {'UCI': 'Network(...)'}: give another --out" in (
        capsys.readouterr().err
    )


def test_scores(folder, monkeypatch):
    """Those of targets divided by the unit, from the output and the noise of each network."""
    monkeypatch.setitem(quality.HIDDEN, "UCI", (5,))
    made, sample = [], tb.sample
    monkeypatch.setattr(tb, "sample", lambda *a, **k: made.append(sample(*a, **k)) or made[-1])
    case = read_cases(folder, "plane")[0]._replace(unit=8.0)
    found = quality.fit(case, quality.Effort(minutes=5.0, burn_in=160, draws=250))
    (ensemble,) = made
    says = ensemble.predict(case.x_test, progress=False).samples.astype(float) / 8.0
    sd = ensemble.hyperparameters["likelihood.sd"].reshape(-1, 1).astype(float)
    y, sd = case.y_test / 8.0, sd * case.y.std() / 8.0
    density = stats.norm.pdf(y, says, sd).mean(axis=0)
    # float32: predictions of about 100 have an error of 1e-5, and those that matter are of 0.5.
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((says.mean(axis=0) - y) ** 2)), rel=1e-3)
    assert found["log_score"] == pytest.approx(np.log(density).mean(), abs=1e-3)
    # Which targets are in the interval is known but where the probability below one is within
    # three Monte Carlo errors, 3 * sqrt(0.05 * 0.95 / 1000), of 5 % or 95 %.
    below = stats.norm.cdf(y, says, sd).mean(axis=0)
    surely, perhaps = (np.mean(np.abs(below - 0.5) < 0.45 + error) for error in (-0.02, 0.02))
    assert len(ensemble) >= 1000
    assert surely <= found["coverage"] <= perhaps
    diagnosis = ensemble.diagnose(case.x_test, progress=False)
    assert found["rhat"] == diagnosis.rhat.max()
    assert found["share_below_1.01"] == np.mean(diagnosis.rhat < 1.01)
    assert found["draws"] * ensemble.num_chains == len(ensemble)


def test_rows(folder):
    table = np.loadtxt(folder / "plane.csv", delimiter=",", skiprows=1)
    first, second = read_cases(folder, "plane")
    np.testing.assert_array_equal(first.x_test, table[1::2, :2])
    np.testing.assert_array_equal(first.y, table[::2, 2])
    np.testing.assert_array_equal(second.y_test, first.y)
    assert len(read_cases(folder, "plane", most=1)) == 1


def test_the_split_of_airfoil(tmp_path):
    """`train_test_split(range(12), test_size=0.2, random_state=0)` tests 4, 6 and 11."""
    write(tmp_path / "airfoil.csv", "x,y", np.column_stack([np.arange(12.0), np.arange(12.0) ** 2]))
    assert find_sets(tmp_path, None) == ["airfoil"]
    cases = read_cases(tmp_path, "airfoil")
    assert [case.split for case in cases] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(cases[3].x_test[:, 0], [4, 6, 11])
    assert cases[3].unit == pytest.approx(np.std([0, 1, 4, 9, 25, 49, 64, 81, 100]))


def test_tables(tmp_path):
    """Means, standard errors and differences by hand."""
    (tmp_path / "ref_mcdropout_per_split.csv").write_text(
        "dataset,split,rmse_mc,ll\nyacht,0,1.0,-1.0\nyacht,1,3.0,-2.0\n"
    )
    paired = read_paired(tmp_path)
    fits = [
        {"set": name, "split": split, "rmse": rmse, "log_score": score, "tested": tested}
        | {"share_below_1.01": share, "rhat": 1.0 + rmse, "ess": 100.0, "coverage": 0.9}
        | {"draws": 250, "seconds": 60.0, "cpu_seconds": 30.0, "date": "2030-01-01T00:00+00:00"}
        | {"burn_in": 500, "minutes": 1.0}
        for name, split, rmse, score, tested, share in [
            ("yacht", 0, 2.0, -1.0, 10, 1.0),
            ("yacht", 1, 3.0, -1.5, 30, 0.6),
            ("airfoil", 0, 0.125, 0.5, 10, 0.0),
        ]
    ]
    rmse, score, airfoil, convergence = quality_tables.make(fits, paired)
    assert rmse.rows[0][:4] == ("yacht", 2, "2.50 ± 0.50", "0.50 ± 0.50")
    assert score.rows[0][:4] == ("yacht", 2, "-1.25 ± 0.25", "0.25 ± 0.25")
    assert rmse.rows[0][4:] == ("1.02 ± 0.05", "0.67 ± 0.05", "0.66 ± 0.06", "1.58 ± 0.48")
    assert airfoil.rows[0] == ("tensorbnn (1 seed)", "0.125", "0.500")
    assert ("BDE (MILE, 4 layers of 16)", "0.1215 ± 0.0042", "0.9126 ± 0.0131") in airfoil.rows
    assert convergence.rows[0][:4] == ("yacht", 2, "4.000", "70%")
    text = quality_tables.page(fits, "a machine", paired)
    assert text.startswith("# Quality\n\n2030-01-01. a machine.\n")
    assert "500 transitions of burn-in, for at most 1 minutes" in text


def test_published_figures():
    """Every set has all methods; what none is given for has no error."""
    assert all(tuple(methods) == published.METHODS for methods in published.UCI.values())
    deep = published.UCI["kin8nm"]["Deep Ensembles"]
    assert (str(deep.rmse), str(deep.log_score)) == ("0.09 ± 0.00", "1.20 ± 0.02")
    assert str(published.UCI["kin8nm"]["MC dropout"].rmse) == "0.08"


def test_no_time(folder, tmp_path, capsys):
    arguments = ["--data", str(folder), "--sets", "plane", "--splits", "1", "--gradients", "9"]
    assert quality.main([*arguments, "--out", str(tmp_path / "out")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "plane, split 0: the limit came before 4 draws after the 500 transitions" in out


def test_very_little_time(folder, tmp_path, capsys, monkeypatch):
    """Fewer draws than can be diagnosed are a fit that was too short."""
    few = tb.sample(
        quality.make_posterior(
            "plane", *np.split(np.random.default_rng(0).normal(size=(6, 3)), [2], 1)
        ),
        tb.HMC(step_size=0.01, num_steps=1),
        burn_in=0,
        draws=2,
        progress=False,
    )
    monkeypatch.setattr(tb, "sample", lambda *a, **k: few)
    arguments = ["--data", str(folder), "--sets", "plane", "--splits", "1"]
    assert quality.main([*arguments, "--out", str(tmp_path / "out")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "plane, split 0: the limit came before 4 draws after the 500 transitions" in out


def test_an_interrupted_fit_does_not_count(folder, tmp_path, capsys, monkeypatch):
    """On Ctrl-C a run in memory gives what it has, with a warning."""
    warned = lambda *a, **k: warnings.warn("interrupted: the ensemble has", stacklevel=1)  # noqa: E731
    monkeypatch.setattr(tb, "sample", warned)
    out = tmp_path / "out"
    assert quality.main(["--data", str(folder), "--sets", "plane", "--out", str(out)]) == 130
    assert "stopped in plane, split 0; the same command continues" in capsys.readouterr().out
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--splits", "0"], "must be a whole number of at least 1, got 0"),
        (["--minutes", "-3"], "must be a positive number, got -3"),
    ],
)
def test_invalid_options(folder, capsys, words, message):
    with pytest.raises(SystemExit):
        quality.main(["--data", str(folder), *words])
    assert message in capsys.readouterr().err


def test_invalid_folders(folder, tmp_path):
    splits = folder / "plane.splits.csv"
    for sets, message in [
        (None, "has none of yacht.csv, boston.csv"),
        (["plane", "yacht"], r"there is no file .*yacht.csv: it should have a header and numbers"),
    ]:
        with pytest.raises(DataError, match=message):
            find_sets(folder, sets)
    with pytest.raises(DataError, match=r"there is no folder .*nowhere: give one"):
        find_sets(tmp_path / "nowhere", None)
    np.savetxt(splits, np.full((80, 2), 1), delimiter=",", header="s0,s1", comments="")
    with pytest.raises(DataError, match="is not right: it should have a column for every split"):
        read_cases(folder, "plane")
    np.savetxt(splits, np.eye(3), delimiter=",", header="s0,s1,s2", comments="")
    with pytest.raises(DataError, match="has 3 rows, but the table has 80"):
        read_cases(folder, "plane")
    splits.unlink()
    with pytest.raises(DataError, match=r"there is no file .*plane.splits.csv: it should have"):
        find_sets(folder, ["plane"])
    for text, message in [
        ("a,y\n1,red\n", "can't be read .*: it should have a header"),
        ("a,y\n1,nan\n", "has missing or infinite numbers"),
        ("y\n1\n", "has one column"),
    ]:
        (folder / "plane.csv").write_text(text)
        with pytest.raises(DataError, match=message):
            read_cases(folder, "plane")
    (tmp_path / "quality.json").write_text("[]")
    with pytest.raises(DataError, match="has no results of this benchmark: give another --out"):
        quality.read_results(tmp_path)


def test_the_page_of_the_documentation():
    """The tables of docs/benchmarks.md are those of the results."""
    results = (ROOT / "benchmarks" / "results" / "quality.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    tables = [line for line in results.splitlines() if line.startswith("|")]
    assert len(tables) > 10
    assert [line for line in tables if line not in page] == []
