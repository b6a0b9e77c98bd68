"""The commands on runs that `fit` has made, and what a Python user sees of them."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.cli.messages import CommandLine, render
from tensorbnn.cli.saved_run import training_points
from tensorbnn.storage.directory import DirectoryStore
from tests.cli.running import result, table, write
from tests.sampled import sample_run

pytestmark = pytest.mark.slow


def test_a_run_knows_its_table(folder):
    notes = DirectoryStore(folder / "prices").manifest["notes"]
    assert notes["table"]["inputs"] == [
        {"name": "size", "categories": None},
        {"name": "color", "categories": ["blue", "red"]},
    ]
    assert (notes["table"]["rows"], notes["table"]["validation"]) == (44, 15)
    assert notes["table"]["dropped"] == 1
    assert notes["command"] == (
        "tensorbnn fit prices.csv --out prices --target price --ignore id --missing drop "
        "--validation 0.25 --hidden-layer-sizes 3 --chains 2 --burn-in 60 --draws 30"
    )
    assert DirectoryStore(folder / "kinds").manifest["notes"]["table"]["classes"] == [
        *("<b>mid</b>", "high", "low"),
    ]
    ensemble = tb.load(folder / "prices")
    assert ensemble.scaling.x_scale
    assert "likelihood.sd" in ensemble.hyperparameters


def test_predictions_are_those_of_the_library(inside, capsys):
    found = result(capsys, "predict", "prices", "new.csv", "--out", "p.csv", "--overwrite")
    assert (found["rows"], found["missing"]) == (3, 1)
    written = table("p.csv")
    assert list(written) == ["mean", "sd", "sd_total", "q0.025", "q0.5", "q0.975"]
    assert [written[name][1] for name in written] == [""] * 6  # its size is missing
    expected = tb.load("prices").predict([[0.1, 1, 0], [0.5, 0, 1]], progress=False)
    values = {name: np.array([column[0], column[2]], float) for name, column in written.items()}
    np.testing.assert_allclose(values["mean"], expected.mean.ravel(), rtol=1e-6)
    np.testing.assert_allclose(values["sd_total"], expected.sd_total.ravel(), rtol=1e-6)
    np.testing.assert_allclose(
        values["q0.975"], expected.quantile(0.975, noise=False).ravel(), rtol=1e-6
    )


def test_prediction_options(inside, capsys):
    options = ["--quantiles", "0.25", "--noise", "--with-inputs", "--thin", "2", "--overwrite"]
    # Near the one that was sampled: of 60 networks, few would be left under another. Whether so few
    # can be trusted differs between machines, whose chains do; here, the two must agree.
    options += ["--prior", "Normal(Hyper(0, Normal(0, 0.1)), Hyper(1, Normal(1, 0.11)))"]
    found = result(capsys, "predict", "prices", "new.csv", "--out", "p.tsv", *options)
    assert found["networks"] == 30  # every second one of 30 draws of two chains
    with open("p.tsv") as lines:
        head, first = (next(lines).rstrip("\n").split("\t") for _ in range(2))
    assert head == ["color", "size", "mean", "sd", "sd_total", "new_q0.25"]
    ensemble = tb.load("prices")
    prior = tb.Normal(tb.Hyper(0, tb.Normal(0, 0.1)), tb.Hyper(1, tb.Normal(1, 0.11)))
    layers = [tb.Dense(3, prior, prior), tb.Tanh(), tb.Dense(1, prior, prior)]
    with warnings.catch_warnings(action="ignore"):
        other = ensemble.reweight(network=tb.Network(*layers, inputs=3), progress=False)
    assert np.ptp(other.weights) > 1e-3 * np.mean(other.weights)
    expected = other.thin(2).predict([[0.1, 1, 0]], progress=False)
    numbers = [expected.mean, expected.sd, expected.sd_total, expected.quantile(0.25, noise=True)]
    # Quantiles with noise are found by bisection in float32.
    np.testing.assert_allclose([float(each) for each in first[2:]], np.ravel(numbers), rtol=1e-5)


def test_predicted_classes(inside, capsys):
    result(capsys, "predict", "kinds", "kinds.csv", "--out", "k.csv", "--overwrite")
    written = table("k.csv")
    labels = ["<b>mid</b>", "high", "low"]
    chance = np.array([written[f"p_{label}"] for label in labels], float)
    np.testing.assert_allclose(chance.sum(axis=0), 1, atol=1e-6)
    assert written["class"] == [labels[code] for code in chance.argmax(axis=0)]
    right = np.mean(np.array(written["class"]) == table("kinds.csv")["kind"])
    assert right > 0.8
    assert {"sd_low", "q0.025_low", "entropy", "mutual_information"} <= set(written)


def test_diagnose_sets_its_exit_code(inside, capsys):
    found = result(capsys, "diagnose", "prices", code=3)  # 60 networks are too few
    store = DirectoryStore(Path("prices"))
    points = training_points(store)
    expected = tb.load("prices").diagnose(points.x, names=points.names, progress=False)
    assert found["verdict"] == render(expected.verdict, CommandLine())
    assert not found["trustworthy"]
    assert found["kind"] == expected.verdict.kind.value
    assert [each["kind"] for each in found["findings"]] == [
        type(each).__name__ for each in expected.verdict.findings
    ]
    assert found["ess_min"] == pytest.approx(np.nanmin(expected.ess))
    assert main(["diagnose", "prices", "--x", "new.csv", "--quiet"]) in (0, 3)
    assert "over 2 points" in capsys.readouterr().out


def test_reweight(inside, capsys):
    options = ["--likelihood", "Gaussian(sd=Hyper(0.31))", "--out", "w.csv", "--overwrite"]
    found = result(capsys, "reweight", "prices", *options)
    likelihood = tb.Gaussian(sd=tb.Hyper(0.31))
    expected = tb.load("prices").reweight(likelihood=likelihood, progress=False)
    assert found["pareto_k"] == pytest.approx(expected.pareto_k)
    assert found["ess"] == pytest.approx(expected.ess)
    written = table("w.csv")
    np.testing.assert_allclose(
        np.array(written["weight"], float), expected.weights.ravel(), rtol=1e-6
    )
    assert (written["chain"][-1], written["draw"][-1]) == ("1", "29")
    assert main(["reweight", "prices", "--prior", "Normal(3, 0.001)", "--quiet"]) == 3
    assert "can't be trusted" in capsys.readouterr().err


def test_info(inside, capsys):
    found = result(capsys, "info", "prices")
    assert (found["status"], found["draws"], found["transitions"]) == ("complete", 30, [90, 90])
    assert main(["info", "prices"]) == 0
    text = capsys.readouterr().out
    assert "3 inputs → Dense(3) → Tanh → Dense(1)" in text
    assert "price of prices.csv from size, color" in text


def test_info_of_a_run_that_is_running_or_was_killed(inside, capsys, tmp_path):
    shutil.copytree("prices", tmp_path / "run")
    store = DirectoryStore.open_to_write(tmp_path / "run")
    store.update(status="running")
    assert result(capsys, "info", str(tmp_path / "run"))["status"] == "running"
    store.close()
    assert main(["info", str(tmp_path / "run")]) == 0
    assert (
        "killed while it was running; continue it with: tensorbnn resume" in capsys.readouterr().out
    )


def test_a_run_of_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 12)
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.3), x, x)
    ensemble = tb.sample(
        posterior,
        tb.HMC(step_size=0.1, num_steps=5),
        chains=2,
        burn_in=20,
        draws=20,
        path="run",
        progress=False,
    )
    (tmp_path / "x.csv").write_text("anything\n0.5\n")
    result(capsys, "predict", "run", "x.csv", "--out", "p.csv")
    mean = float(table("p.csv")["mean"][0])
    np.testing.assert_allclose(mean, ensemble.predict([0.5], progress=False).mean.item(), rtol=1e-6)
    assert main(["report", "run", "--validation", "x.csv"]) == 1
    assert "has 1 input and 1 target, but x.csv has 1 column" in capsys.readouterr().err
    for bad in ({"a": object()}, {"a": float("nan")}, "text"):
        with pytest.raises(ValueError, match="`notes` must be a dict"):
            sample_run(posterior, path="other", notes=bad, **{"draws": 1, "burn_in": 0})


@pytest.mark.parametrize(
    ("likelihood", "outputs", "columns"),
    [
        (tb.Gaussian(sd=0.3), 2, ["y0_mean", "y0_sd", "y0_sd_total", "y0_q0.5", "y1_mean"]),
        (tb.MeasuredGaussian(), 1, ["mean", "sd", "q0.5"]),
        (tb.Bernoulli(), 1, ["class", "p_1", "sd_1", "q0.5_1", "entropy"]),
        (tb.Categorical(), 2, ["class", "p_0", "sd_0", "q0.5_0", "p_1"]),
    ],
)
def test_targets_of_a_run_of_python(tmp_path, monkeypatch, capsys, likelihood, outputs, columns):
    """They have numbers for names, and so have classes."""
    monkeypatch.chdir(tmp_path)
    x, y = np.linspace(-1, 1, 12), np.tile([0.0, 1.0], 6)
    network = tb.Network(tb.Dense(outputs), inputs=1)
    rows = {"y_sd": 1 + y} if isinstance(likelihood, tb.MeasuredGaussian) else {}
    both = isinstance(likelihood, tb.Gaussian)
    y = np.column_stack([y, 1 + y]) if both else y
    posterior = tb.Posterior(network, likelihood, x, y, **rows)
    if isinstance(likelihood, tb.MeasuredGaussian):
        write(tmp_path / "xy.csv", {"x": [0.5], "y": [1.0], "error": [-1.0]})
    tb.sample(
        posterior,
        tb.HMC(step_size=0.1, num_steps=5),
        **{"chains": 2, "burn_in": 5, "draws": 5, "path": "run", "progress": False},
    )
    write(tmp_path / "x.csv", {"x": [0.5]})
    options = ["--quantiles", "0.5", "--out", "p.csv"]
    assert result(capsys, "predict", "run", "x.csv", *options)["columns"][:5] == columns
    if isinstance(likelihood, tb.MeasuredGaussian):
        for arguments, message in (
            (["predict", "run", "x.csv", "--noise", "--out", "q.csv"], "it has those of the train"),
            (
                ["report", "run", "--validation", "x.csv"],
                "1 input, 1 target and 1 standard deviation",
            ),
            (["report", "run", "--validation", "xy.csv"], "column 'error' has -1 in data row 1"),
        ):
            assert main(arguments) == 1
            assert message in capsys.readouterr().err


def test_an_imported_run_is_diagnosed_on_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    old = Path(__file__).parents[1] / "data" / "original" / "gauss_partial"
    assert main(["import", str(old), "run", "--likelihood", "Gaussian(sd=0.1)"]) == 0
    assert main(["info", "run"]) == 0
    assert "sampler      TensorBNN\n" in capsys.readouterr().out
    assert main(["report", "run"]) == 1
    assert "give a table of rows with targets, by --validation" in capsys.readouterr().err
    (tmp_path / "xy.csv").write_text("x,y\n-0.5,-0.9\n0.1,-0.8\n0.6,0.1\n")
    found = result(capsys, "report", "run", "--validation", "xy.csv")
    assert "one chain alone" in found["verdict"]
    text = (tmp_path / "run" / "report.html").read_text()
    for said in (
        "The run was sampled by TensorBNN",
        "For 3 rows of xy.csv",
        "no statistics of its",
    ):
        assert said in text


def test_resume(inside, capsys):
    found = result(capsys, "resume", "kinds", "--draws", "40")
    assert (found["draws"], found["networks"]) == (40, 80)


def test_a_table_that_was_predicted_before_keeps_its_columns(inside, capsys):
    data = "new.csv"
    for out in ("first.csv", "second.csv", "third.csv"):
        result(capsys, "predict", "prices", data, "--out", out, "--with-inputs", "--overwrite")
        data = out
    names = [*table("first.csv")]
    assert [*table("third.csv")][: len(names)] == names
    made = [name for name in names if name not in table("new.csv")]
    expected = [*table("second.csv"), *(f"predicted_predicted_{name}" for name in made)]
    assert [*table("third.csv")] == expected


def test_resume_of_a_complete_run(inside, tmp_path, capsys):
    shutil.copytree("kinds", tmp_path / "run")
    draws = str(tb.load("kinds").num_draws)
    for arguments in ([], ["--draws", draws], ["--max-minutes", "1"]):
        assert main(["resume", str(tmp_path / "run"), "--quiet", *arguments]) == 0
        assert (
            "none: the run is complete; extend it with --draws or --ess" in capsys.readouterr().out
        )
    more = ["--draws", str(int(draws) + 5)]
    assert main(["resume", str(tmp_path / "run"), "--quiet", *more]) == 0
    assert "s since it was resumed" in capsys.readouterr().out


def test_weights_that_cannot_be_trusted(inside, capsys):
    assert main(["reweight", "prices", "--prior", "Normal(0, 0.01)", "--quiet"]) == 3
    told = capsys.readouterr().err
    assert "sampled: fit it with `tensorbnn fit`" in told
    assert "tb." not in told


def test_a_table_of_parquet_keeps_its_numbers(inside, capsys):
    columns = {"id": [12345678901, 12345678902], "size": [0.123456789012, 0.5]}
    content = pyarrow.table(columns | {"color": ["red", "blue"]})
    parquet.write_table(content, "ids.parquet")
    options = ["--out", "ids.csv", "--with-inputs", "--overwrite"]
    result(capsys, "predict", "prices", "ids.parquet", *options)
    found = table("ids.csv")
    assert found["id"] == ["12345678901", "12345678902"]
    assert found["size"] == ["0.123456789012", "0.5"]


def test_notes_of_a_user(tmp_path, capsys):
    network = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), [0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    options = {"chains": 2, "burn_in": 10, "draws": 5, "progress": False}
    run = tmp_path / "run"
    sample_run(posterior, path=run, notes={"table": {"number": 3}, "command": 1}, **options)
    assert result(capsys, "info", str(run))["manifest"]["notes"]["table"] == {"number": 3}
    write(tmp_path / "new.csv", {"x": [0.5, 1.5]})
    out = ["--out", str(tmp_path / "out.csv")]
    assert result(capsys, "predict", str(run), str(tmp_path / "new.csv"), *out)["rows"] == 2
    assert result(capsys, "report", str(run))["bytes"] > 0
