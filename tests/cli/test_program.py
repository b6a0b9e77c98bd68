"""The command line as a user meets it."""

import json
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import image

import tensorbnn as tb
from tensorbnn import progress
from tensorbnn.cli import main
from tensorbnn.cli.output import text as as_text
from tensorbnn.cli.output import warnings_as_lines
from tensorbnn.doctor import OPTIONAL
from tensorbnn.engine import library
from tensorbnn.ensemble.verdict import Evidence, judge
from tensorbnn.report.advice import as_options

matplotlib.use("Agg")


def test_demo(tmp_path, capsys, monkeypatch):
    out = tmp_path / "demo"
    arguments = ["demo", "--out", str(out), "--chains", "2", "--burn-in", "20", "--draws", "10"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    for word in ("networks", "20 from 2 chains", "acceptance", "R-hat", "ESS", "verdict", "time"):
        assert word in text
    assert str(out / "sparse.png") in text
    pixels = image.imread(out / "sparse.png")
    assert pixels.shape[0] > 500
    assert pixels.std() > 0.05
    assert len(tb.load(out / "run")) == 20
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)  # what is shown is shown at once
    assert main([*arguments, "--quiet"]) == 0  # the demo may replace its own run
    assert not capsys.readouterr().err


def test_import(tmp_path, capsys):
    old, new = Path(__file__).parents[1] / "data" / "original" / "gauss_partial", tmp_path / "new"
    assert main(["import", str(old), str(new)]) == 0
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "tb.Gaussian(sd=0.1) is assumed" in told.err
    assert "give the noise by --sd" in told.err
    network = "network      1 input → GaussianDense(5) → ELU → GaussianDense(1)"
    for text in (
        "27 from 1 chain",
        network,
        "likelihood   Gaussian(sd 0.1)",
        f"tb.load({str(new)!r})",
    ):
        assert text in told.out
    assert len(tb.load(new)) == 27
    assert main(["import", str(old), str(new)]) == 1
    assert capsys.readouterr().err == (
        f"tensorbnn: {new} already holds a run: choose another directory, or replace it with "
        "--force\n"
    )
    assert main(["import", str(old), str(new), "--overwrite", "--sd", "0.3"]) == 0
    assert main(["import", str(old), str(tmp_path / "other"), "--sd", "0.2"]) == 0
    assert capsys.readouterr().err == ""
    assert tb.load(tmp_path / "other").likelihood == tb.Gaussian(sd=0.2)
    assert main(["import", str(tmp_path / "nowhere"), str(tmp_path / "fresh")]) == 1
    assert "tensorbnn: there is no directory" in capsys.readouterr().err
    assert main(["resume", str(new)]) == 0
    assert "one chain alone" not in capsys.readouterr().out  # there are no data to look at
    assert main(["resume", str(new), "--draws", "50"]) == 1
    assert "was imported from TensorBNN" in capsys.readouterr().err


def test_mistakes_get_one_line(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is not a run of this library" in error
    assert main(["demo", "--chains", "0", "--out", str(tmp_path / "new")]) == 1
    assert "--chains must be a whole number of at least 1, got 0" in capsys.readouterr().err


def test_unknown_commands_and_options(capsys):
    for arguments in (["dmo"], ["demo", "--chain-count", "3"], []):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
    assert "usage: tensorbnn" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tensorbnn {tb.__version__}\n"


def test_the_package_runs_as_a_program():
    command = [sys.executable, "-m", "tensorbnn", "info", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tensorbnn: there is no run nowhere\n"


def test_messages_name_options():
    assert as_options("`max_gradients` and `other`") == "--max-gradients and `other`"
    for said, meant in {
        "tb.resume('a')": "tensorbnn resume a",
        "tb.resume('a') or: tensorbnn resume a": "tensorbnn resume a",
        "tb.resume('my run') or: tensorbnn resume 'my run'": "tensorbnn resume 'my run'",
        "tb.resume('a', max_gradients=...)": "tensorbnn resume a --max-gradients ...",
        "tb.resume(path, posterior=p)": "tb.resume(path, posterior=p)",
        "it; reading with tb.load is possible at any time": "it; tensorbnn info, diagnose, predict "
        "and report can read it at any time",
    }.items():
        assert as_options(f"go on with {said}; then") == f"go on with {meant}; then"


def test_advice_is_what_a_user_of_the_commands_can_do():
    values = np.random.default_rng(0).normal(size=(2, 50, 1, 1)) + 5 * np.arange(2).reshape(
        2, 1, 1, 1
    )
    chains = np.zeros(2)
    apart = Evidence(
        values=values,
        rhat=np.full((1, 1), 3.0),
        ess=np.full((1, 1), 2.0),
        acceptance=chains + 1,
        divergent=np.zeros((2, 50)),
        ebfmi=chains + 1,
        hyper_rhat={},
        pareto_k=3.0,
    )
    verdict = judge(apart, lambda some: np.full(some.shape[2:], 3.0))
    assert "`pretrain`" in verdict
    assert "tb.sample" in verdict
    told = as_options(verdict)
    assert "fit a smaller network (--hidden)" in told
    assert "fit the other model anew" in told
    assert "longer --burn-in" in told
    assert "tb." not in told
    assert "`" not in told


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"values": np.zeros((1, 9, 1, 1))}, "converged: fit again with --chains 2 or more"),
        (
            {"values": np.zeros((2, 50, 1, 1))},
            "fit again with a longer --burn-in, or with smaller steps (a higher "
            "--target-acceptance)",
        ),
        (
            {"divergent": np.ones((2, 50))},
            "fit again with smaller steps (a higher --target-acceptance)",
        ),
        (
            {"acceptance": np.zeros(2)},
            "or less: fit again with smaller steps (a higher --target-acceptance)",
        ),
        (
            {"rhat": np.full((1, 1), 2.0), "second_halves": 1.0},
            "the burn-in was too short: fit again with a longer --burn-in",
        ),
        (
            {
                "rhat": np.full((1, 1), 2.0),
                "values": np.random.default_rng(0).normal(size=(3, 9, 1, 1)),
                "second_halves": 1.0,
            },
            "look at its trace; fit again with a longer --burn-in or another --seed",
        ),
    ],
)
def test_every_advice_of_a_verdict_can_be_followed(changed, told):
    evidence = Evidence(
        values=np.random.default_rng(0).normal(size=(2, 50, 1, 1)),
        rhat=np.ones((1, 1)),
        ess=np.full((1, 1), 900.0),
        acceptance=np.ones(2),
        divergent=np.zeros((2, 50)),
        ebfmi=np.ones(2),
        hyper_rhat={},
    )
    changed = dict(changed)
    halves = changed.pop("second_halves", 2.0)
    verdict = judge(evidence._replace(**changed), lambda some: np.full(some.shape[2:], halves))
    said = as_options(verdict)
    assert told in said
    assert "`" not in said


def test_doctor(capsys, monkeypatch):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for word in ("native", "cores", "JAX on", "python", f"tensorbnn    {tb.__version__}", "jaxlib"):
        assert word in text
    assert f"matplotlib   {matplotlib.__version__}" in text
    for package in ("optax", "blackjax", "safetensors", "arviz-stats", "arviz-base", "rich"):
        assert f"{package:<12} {version(package)}\n" in text
    assert f"scikit-learn {version('scikit-learn')}\n" in text
    assert "threads      of one call, a fair share of the cores" in text
    monkeypatch.setenv("TENSORBNN_THREADS", "3")
    missing = library.Library(None, "it was not compiled")
    monkeypatch.setitem(OPTIONAL, "no-such-package", ("plots", "figures"))
    monkeypatch.setattr(library, "_load", lambda: missing)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "not used: it was not compiled" in text
    assert "instructions" not in text
    assert " 3 of one call, by TENSORBNN_THREADS" in text
    assert "not installed, only for figures: pip install 'tensorbnn[plots]'" in text
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["native"] == "not used: it was not compiled"


def test_a_name_of_two_lines_is_one_line():
    assert as_text({"data": "flow from depth\n(m)"}) == "data         flow from depth (m)"


def test_a_warning_is_told_once(capsys):
    with warnings_as_lines():
        for row in range(3):
            warnings.warn("overflow", stacklevel=1)
            warnings.warn(f"row {row % 2}", stacklevel=1)
    told = ["overflow", "row 0", "row 1"]
    assert capsys.readouterr().err == "".join(f"tensorbnn: warning: {each}\n" for each in told)
