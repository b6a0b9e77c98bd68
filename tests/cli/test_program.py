"""The command line as a user meets it."""

import json
import re
import shlex
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import matplotlib
import pytest
from matplotlib import image

import tensorbnn as tb
from tensorbnn import progress
from tensorbnn.cli import main
from tensorbnn.cli.extras import OPTIONAL
from tensorbnn.cli.messages import REMEDIES, CommandLine, render, warnings_as_lines
from tensorbnn.cli.output import text as as_text
from tensorbnn.cli.program import COMMANDS, make_parser
from tensorbnn.engine import library
from tensorbnn.errors import LockedError, OptionError
from tensorbnn.messages import Remedy, Resume

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
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)  # show progress at once
    assert main([*arguments, "--quiet"]) == 0  # the demo may replace its own run
    assert not capsys.readouterr().err


def test_import(tmp_path, capsys):
    old, new = Path(__file__).parents[1] / "data" / "original" / "gauss_partial", tmp_path / "new"
    assert main(["import", str(old), str(new)]) == 0
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "tb.Gaussian(sd=0.1) is assumed" in told.err
    assert "give the --likelihood of the run" in told.err
    network = "network      1 input → Dense(5) → ELU → Dense(1)"
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
        "--overwrite\n"
    )
    assert (
        main(["import", str(old), str(new), "--overwrite", "--likelihood", "Gaussian(sd=0.3)"]) == 0
    )
    assert (
        main(["import", str(old), str(tmp_path / "other"), "--likelihood", "Gaussian(sd=0.2)"]) == 0
    )
    assert capsys.readouterr().err == ""
    assert tb.load(tmp_path / "other").likelihood == tb.Gaussian(sd=0.2)
    assert main(["import", str(tmp_path / "nowhere"), str(tmp_path / "fresh")]) == 1
    assert "tensorbnn: there is no directory" in capsys.readouterr().err
    assert main(["resume", str(new)]) == 0
    assert "one chain alone" not in capsys.readouterr().out  # there are no data to diagnose
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
    for arguments, message in (
        (["dmo"], "there is no command dmo: did you mean demo?"),
        (["demo", "--chain", "3"], "demo has no option --chain: did you mean --chains?"),
        (["fit", "--minutes=3"], "fit has no option --minutes: did you mean --max-minutes?"),
        (["fit", "--hidden", "3"], "has no option --hidden: did you mean --hidden-layer-sizes?"),
        (["info", "-x", "run"], "info has no option -x: `tensorbnn info --help` lists them"),
        (["predict", "run"], "missing arguments: data"),
        (["info", "run", "other"], "unrecognized arguments: other"),
        (["fit", "--out"], "--out needs a value"),
        (["--nothing"], "there is no option --nothing: `tensorbnn --help`"),
        ([], "give a command, such as `tensorbnn fit`; `tensorbnn --help` lists them"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        told = capsys.readouterr().err
        assert told.startswith("tensorbnn: ")
        assert told.count("\n") == 1
        assert message in told


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tensorbnn {tb.__version__}\n"


@pytest.mark.slow
def test_the_package_runs_as_a_program():
    command = [sys.executable, "-m", "tensorbnn", "info", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tensorbnn: there is no run nowhere\n"


def test_messages_name_options():
    words = CommandLine({"max_gradients": "--max-gradients"})
    for said, meant in {
        OptionError("max_gradients", "whole", 0.5): "--max-gradients must be whole, got 0.5",
        OptionError("other", "whole", 0.5): "`other` must be whole, got 0.5",
        ValueError("two\nlines"): "two lines",
        LockedError("it", None): "it is being written by another process: wait for it or stop it; "
        "tensorbnn info, diagnose, predict and report can read it meanwhile",
    }.items():
        assert render(said, words) == meant
    for path, option, meant in (
        ("a", None, "tensorbnn resume a"),
        ("my run", None, "tensorbnn resume 'my run'"),
        ("it's", None, "tensorbnn resume 'it'\"'\"'s'"),
        ("a", "max_gradients", "tensorbnn resume a --max-gradients ..."),
    ):
        assert words.remedy(Resume(Path(path), option, "...")) == meant


def test_the_line_of_a_command_gives_the_same_options_again(tmp_path):
    file = tmp_path / "fit.toml"
    file.write_text(
        'hidden_layer_sizes = [3, 2]\ntarget-sd = ["b c"]\nrelevance = true\nburn-in = 500\n'
    )
    line = f"fit t.csv --target a --out 'my run' --settings {file} --validation 0.2 --json"
    given = make_parser().parse_args(shlex.split(line))
    options = given.command.complete(given)
    again = given.command.line(options)
    assert again == (
        "tensorbnn fit t.csv --out 'my run' --target a --target-sd 'b c' --validation 0.2 "
        "--hidden-layer-sizes 3,2 --relevance"
    )
    same = given.command.complete(make_parser().parse_args(shlex.split(again)[1:]))
    once = {"settings", "json", "parser", "program", "command", "commands"}
    different = {key for key in vars(same) if vars(same)[key] != vars(options)[key]}
    assert different <= once


def test_every_advice_can_be_followed():
    flags = {flag for command in COMMANDS for flag in command.flags.values()}
    for remedy, advice in REMEDIES.items():
        assert "tb." not in advice
        assert set(re.findall(r"--[a-z-]+", advice)) <= flags, remedy
    for remedy in set(Remedy) - set(REMEDIES):  # in Python's words: they name no argument
        assert "`" not in remedy.value
        assert "tb." not in remedy.value or remedy is Remedy.COMPARE_SAMPLE, remedy


def test_doctor(capsys, monkeypatch):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for word in (
        "native",
        "cores",
        "JAX device",
        "python",
        f"tensorbnn    {tb.__version__}",
        "jaxlib",
    ):
        assert word in text
    assert f"matplotlib   {matplotlib.__version__}" in text
    for package in ("optax", "blackjax", "safetensors", "arviz-stats", "arviz-base", "rich"):
        assert f"{package:<12} {version(package)}\n" in text
    assert f"scikit-learn {version('scikit-learn')}\n" in text
    assert "threads      a fair share of the cores for each call" in text
    monkeypatch.setenv("TENSORBNN_THREADS", "3")
    missing = library.Library(None, "it was not compiled")
    monkeypatch.setitem(OPTIONAL, "no-such-package", ("plots", "figures"))
    monkeypatch.setattr(library, "_load", lambda: missing)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "not used: it was not compiled" in text
    assert "instructions" not in text
    assert " 3 for each call, set by TENSORBNN_THREADS" in text
    assert "not installed, only for figures: pip install 'tensorbnn[plots]'" in text
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["native"] == "not used: it was not compiled"


def test_a_name_of_two_lines_is_one_line():
    assert as_text({"data": "flow from depth\n(m)"}) == "data         flow from depth (m)"


def test_a_warning_is_shown_once(capsys):
    with warnings_as_lines(CommandLine()):
        for row in range(3):
            warnings.warn("overflow", stacklevel=1)
            warnings.warn(f"row {row % 2}", stacklevel=1)
    told = ["overflow", "row 0", "row 1"]
    assert capsys.readouterr().err == "".join(f"tensorbnn: warning: {each}\n" for each in told)
