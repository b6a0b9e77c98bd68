"""`--likelihood` of counts, of outliers, and of noise that the network predicts."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.cli.models import read_likelihood
from tests.cli.running import result, table, write

pytestmark = pytest.mark.slow

QUICK = ["--hidden-layer-sizes", "2", "--chains", "2", "--burn-in", "20", "--draws", "20"]
HEAVY = tb.StudentTNoise(df=1.5, scale=tb.Hyper(0.3))


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """A folder with a table of counts and numbers."""
    folder = tmp_path_factory.mktemp("likelihoods")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 30).round(3)
    columns = {"x": x, "n": rng.poisson(np.exp(1 + x)), "y": (500.3 + 100 * x).round(1)}
    write(folder / "data.csv", columns)
    write(folder / "new.csv", {"x": [-0.5, 0.5]})
    return folder


@pytest.mark.parametrize(
    ("target", "text", "likelihood", "outputs"),
    [
        ("n", "Poisson()", tb.Poisson(), 1),
        ("y", "StudentTNoise(1.5, Hyper(0.3))", HEAVY, 1),
        ("y", "heteroscedasticgaussian", tb.HeteroscedasticGaussian(), 2),
    ],
)
def test_fit_predict_and_report(counts, monkeypatch, capsys, target, text, likelihood, outputs):
    monkeypatch.chdir(counts)
    out, other = f"run-{target}-{outputs}", "y" if target == "n" else "n"
    options = ["--target", target, "--ignore", other, "--likelihood", text, "--out", out]
    result(capsys, "fit", "data.csv", *options, *QUICK)
    ensemble = tb.load(out)
    assert ensemble.likelihood == likelihood
    assert ensemble.network.outputs == outputs
    result(capsys, "predict", out, "new.csv", "--noise", "--out", f"{out}.csv")
    found = {name: np.array(column, float) for name, column in table(f"{out}.csv").items()}
    names = ["mean", "sd", "sd_total", "new_q0.025", "new_q0.5", "new_q0.975"]
    assert list(found) == names
    expected = ensemble.predict([-0.5, 0.5], progress=False)
    np.testing.assert_allclose(found["mean"], expected.mean.ravel(), rtol=1e-6)
    np.testing.assert_allclose(found["sd_total"], expected.sd_total.ravel(), rtol=1e-6)
    assert np.all(found["new_q0.025"] < found["new_q0.975"])
    if target == "n":
        np.testing.assert_array_equal(found["new_q0.5"], np.round(found["new_q0.5"]))
    result(capsys, "report", out, "--out", f"{out}.html")
    page = (counts / f"{out}.html").read_text()
    assert f"Predicted against true {target}" in page
    heavy = "Bars are one standard deviation over networks." in page
    assert heavy == (likelihood == HEAVY)  # that of a new target is infinite
    scaled = "inputs and targets are shifted" in page
    assert scaled == (target == "y")


def test_names_of_likelihoods():
    assert read_likelihood("poisson") == tb.Poisson()
    assert read_likelihood("studenttnoise") == tb.StudentTNoise(scale=tb.Hyper(0.3))
    each = [tb.Hyper(0.3)] * 2
    assert read_likelihood("gaussian", targets=2) == tb.Gaussian(sd=each)
    assert read_likelihood("studenttnoise", targets=2) == tb.StudentTNoise(scale=each)


def test_each_of_several_targets_has_its_own_noise(counts, monkeypatch, capsys):
    monkeypatch.chdir(counts)
    result(capsys, "fit", "data.csv", "--target", "n", "--target", "y", "--out", "two", *QUICK)
    ensemble = tb.load("two")
    assert ensemble.likelihood == tb.Gaussian(sd=[tb.Hyper(0.3)] * 2)
    assert ensemble.hyperparameters["likelihood.sd.1"].shape == (2, 20)
    result(capsys, "report", "two", "--out", "two.html")
    assert "Gaussian(sd.0 ~ around 0.3, sd.1 ~ around 0.3)" in (counts / "two.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "y"], "whole numbers of at least 0 for a Poisson likelihood"),
        (["--target", "n", "--task", "classification"],
         "Poisson() is for numbers, but the target has classes"),
        (["--target", "y", "--likelihood", "Gaussian(sd=[0.1, 0.2])"],
         "`sd` of Gaussian has 2 numbers, one for each column of `y`, but the network predicts 1"),
    ],
)  # fmt: skip
def test_mistakes(counts, monkeypatch, capsys, options, message):
    monkeypatch.chdir(counts)
    arguments = ["fit", "data.csv", "--likelihood", "Poisson()", *options, "--out", "none"]
    assert main(arguments) != 0
    assert message in capsys.readouterr().err
