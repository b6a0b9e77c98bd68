"""A mistake of a user is one clear line and an exit code, never a traceback."""

import json
import re
import shutil

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.ensemble import diagnostics
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import pack_manifest, read_manifest
from tests.cli.running import write

FIT = ["fit", "prices.csv", "--target", "price", "--out", "other", "--ignore", "id"]
DROP = ["--missing", "drop"]
PREDICT = ["predict", "prices", "new.csv", "--out", "m.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.csv", "--target", "y", "--out", "r"], "there is no file none.csv"),
        (["fit", ".", "--target", "y", "--out", "r"], "is a directory, not a table"),
        (["fit", "prices.csv", "--target", "cost", "--out", "r"], "no column 'cost': it has size"),
        (FIT, "missing values in 1 of 60 rows (1 in 'size')"),
        ([*FIT, *DROP, "--prior", "Normal(0)("], "'Normal(0)(' is not a prior"),
        ([*FIT, *DROP, "--prior", "Gaussian()"], "is not a prior: use gaussian, cauchy"),
        ([*FIT, *DROP, "--prior", "Normal(0, -1)"], "must be positive"),
        ([*FIT, *DROP, "--prior", "print(1)"], "print is unknown"),
        ([*FIT, *DROP, "--likelihood", "bernoulli"], "use --task classification"),
        ([*FIT, *DROP, "--likelihood", "poison"], "is not a likelihood"),
        ([*FIT, *DROP, "--chains", "0"], "--chains must be a whole number of at least 1"),
        ([*FIT, *DROP, "--draws", "0"], "--draws must be a whole number of at least 1, got 0"),
        ([*FIT, *DROP, "--max-minutes", "0"], "--max-minutes must be a positive number, got 0"),
        ([*FIT, *DROP, "--seed", "-1"], "--seed must be a whole number of at least 0, got -1"),
        (
            [*FIT, *DROP, "--ignore", "price"],
            "'price' is needed for the target and can't be ignored",
        ),
        (
            [*FIT, *DROP, "--likelihood", "Gaussian(sigma=1)"],
            "Gaussian has no argument 'sigma', it takes sd",
        ),
        (
            [*FIT, *DROP, "--likelihood", "Bernoulli(p=1)"],
            "Bernoulli has no argument 'p', it takes nothing",
        ),
        ([*FIT, *DROP, "--validation", "0.999"], "leaves none to train with"),
        ([*FIT, *DROP, "--validation", "0.001"], "--validation 0.001 of 59 rows holds out none"),
        ([*FIT, *DROP, "--settings", "none.toml"], "there is no file none.toml"),
        ([*FIT[:5], "prices", "--ignore", "id", *DROP], "already holds a run: choose another"),
        ([*FIT[:5], "new.csv", *DROP], "new.csv exists and is not a run: choose another --out"),
        (["predict", "none", "new.csv", "--out", "m.csv"], "there is no run none"),
        (["predict", "prices", "kinds.csv", "--out", "m.csv"], "has no column 'color'"),
        (["predict", "prices", "none.csv", "--out", "m.csv"], "there is no file none.csv"),
        ([*PREDICT[:4], "prices.csv"], "prices.csv exists: choose another --out"),
        ([*PREDICT[:4], "m.xls"], "m.xls has an unknown extension: use one of .csv"),
        ([*PREDICT[:4], "none/m.csv"], "there is no directory none"),
        ([*PREDICT, "--thin", "0"], "--thin must be a whole number of at least 1"),
        ([*PREDICT, "--likelihood", "Categorical()"], "Categorical"),
        (
            ["predict", "kinds", "kinds.csv", "--out", "m.csv", "--noise"],
            "--noise is about numbers",
        ),
        (["diagnose", "new.csv"], "new.csv is not a run: it has no run.json"),
        (["reweight", "prices"], "give another --prior"),
        (
            ["reweight", "prices", "--likelihood", "bernoulli"],
            "--likelihood bernoulli is for classes, but the run predicts numbers",
        ),
        (
            ["predict", "kinds", "kinds.csv", "--out", "m.csv", "--likelihood", "Gaussian(sd=1)"],
            "is for numbers, but the run predicts classes",
        ),
        (
            ["reweight", "prices", "--likelihood", "MeasuredGaussian()"],
            "which the run does not have: fit it with --target-sd",
        ),
        (["report", "prices", "--out", "none/r.html"], "there is no directory none"),
        (["report", "prices", "--validation", "new.csv"], "has no column 'price'"),
        (["resume", "none"], "there is no run none"),
    ],
)
def test_one_line(inside, capsys, arguments, message):
    before = sorted(file.name for file in inside.iterdir())
    assert main([*arguments, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("tensorbnn: ")
    assert message in captured.err
    assert not captured.out
    assert sorted(file.name for file in inside.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "prices.csv", "--out", "r"], "--target is required: the column to predict"),
        (["fit", "--target", "y", "--out", "r"], "data is required: a CSV, TSV or Parquet file"),
        ([*FIT, "--hidden-layer-sizes", "5,x"], "must be whole numbers such as 50,50, got '5,x'"),
        ([*FIT, "--validation", "1"], "must be a number such as 0.2"),
        ([*FIT, "--activation", "sine"], "--activation must be one of elu, "),
        ([*PREDICT, "--quantiles", "5"], "numbers between 0 and 1"),
    ],
)
def test_invalid_options(inside, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("tensorbnn: ")
    assert told.count("\n") == 1
    assert message in told


def test_a_run_of_another_version_or_damaged(inside, tmp_path, capsys):
    for change in ({"format": 3}, {"notes": {"table": {"inputs": 3}}}):
        run = tmp_path / "run"
        shutil.copytree("prices", run)
        manifest = read_manifest(run) | change
        (run / "run.json").write_bytes(pack_manifest(manifest))
        assert main(["predict", str(run), "new.csv", "--out", str(tmp_path / "p.csv")]) == 1
        shutil.rmtree(run)
    shutil.copytree("prices", run)
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"seed": 1}))
    assert main(["info", str(run)]) == 1
    shutil.rmtree(run)
    shutil.copytree("prices", run)
    manifest = read_manifest(run) | {"notes": {"table": {"inputs": 3}}}
    (run / "run.json").write_bytes(pack_manifest(manifest))
    assert main(["info", str(run)]) == 1
    newer, table, damaged, also = capsys.readouterr().err.splitlines()
    assert "has format 3, but this version of the library reads format 2" in newer
    for told in (table, also):
        assert "description of its table can't be read" in told
    assert "is damaged or was changed" in damaged


def test_unusual_tables(tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorbnn.sampling.api.create_store", stop)
    monkeypatch.chdir(tmp_path)
    count, x = np.arange(12), np.sin(np.arange(12)).round(3)
    write(tmp_path / "t.csv", {"id": count + 5, "x": x, "y": x, "z": x > 0.5, "c": [2] * 12})
    fit = ["fit", "t.csv", "--out", "r", "--quiet", "--target"]
    for arguments, code, message in [
        (["y", "--ignore", "z", "--ignore", "c"], 130, "id only counts the rows: .*--ignore"),
        (
            ["y", "--ignore", "z", "--ignore", "id"],
            130,
            "c is constant in all rows, and of no use: .*--ignore",
        ),
        (["c", "--ignore", "id"], 1, "c is 2 in all rows, from which nothing .*--target"),
        (["c", "--ignore", "id", "--likelihood", "Gaussian(sd=1)"], 130, "c is 2 in all rows"),
        (
            ["z", "--ignore", "id", "--ignore", "c", "--ignore", "y"],
            130,
            "^tensorbnn: interrupted$",
        ),
    ]:
        assert main([*fit, *arguments]) == code
        assert re.search(message, capsys.readouterr().err)
    write(tmp_path / "t.csv", {"x": x, "y": (x > 0).astype(int), "s": list("abc") * 4})
    assert main([*fit, "y"]) == 130
    assert (
        "the target 'y' has only two values, but is fitted as a number" in capsys.readouterr().err
    )
    assert main([*fit, "y", "--task", "regression"]) == 130
    assert capsys.readouterr().err == "tensorbnn: interrupted\n"  # the user has said what it is
    assert main([*fit, "s", "--likelihood", "bernoulli"]) == 1
    assert "for two classes, but 's' has 3: use --likelihood categ" in capsys.readouterr().err


def test_runs_that_are_too_short(inside, capsys, monkeypatch):
    monkeypatch.setattr(diagnostics, "LEAST_DRAWS", 1000)
    assert main(["resume", "prices", "--quiet"]) == 0
    assert (
        "verdict      run longer: a diagnosis needs at least 1000 draws" in capsys.readouterr().out
    )
    assert main(["resume", "prices", "--quiet", "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["trustworthy"]
    monkeypatch.setattr(DirectoryStore, "chunk_sizes", lambda store, chain: {})
    assert main(["predict", "prices", "new.csv", "--out", "m.csv"]) == 1
    assert "has no networks yet" in capsys.readouterr().err


def test_settings(inside, capsys, tmp_path, monkeypatch):
    file = tmp_path / "fit.toml"
    cases = {
        "relevence = true": "unknown setting 'relevence': did you mean 'relevance'?",
        "hidden_layer_sizes = [3.5]": "hidden_layer_sizes must be whole numbers",
        'chains = "two"': "chains must be a whole number, got 'two'",
        'missing = "fill"': "missing must be one of refuse, drop, got 'fill'",
        "a = ": "is not TOML",
    }
    for content, message in cases.items():
        file.write_text(content)
        assert main(["fit", "--settings", str(file)]) == 1
        assert message in capsys.readouterr().err
    file.write_text(
        f'data = "kinds.csv"\ntarget = "kind"\nout = "{tmp_path / "run"}"\n'
        'hidden_layer_sizes = [2]\nactivation = "relu"\nburn-in = 8\ndraws = 9\nchains = 2\n'
    )
    asked = {}

    def stop(posterior, **options):
        asked.update(options, network=posterior.network)
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorbnn.cli.fit.begin_run", stop)
    assert main(["fit", "--settings", str(file), "--draws", "5", "--quiet"]) == 130
    first, second, *_ = asked["network"].layers
    assert (first.units, type(second), asked["chains"]) == (2, tb.ReLU, 2)
    assert (asked["draws"], asked["burn_in"]) == (5, 8)  # the command line wins
    assert asked["path"] == tmp_path / "run"


def test_a_directory_in_place_of_a_file_to_write(inside, tmp_path, capsys):
    for name in ("out.csv", "out.html"):
        (tmp_path / name).mkdir()
        says = f"tensorbnn: {tmp_path / name} is a directory: choose a file for --out\n"
        before = ["predict", "prices", "new.csv"] if name == "out.csv" else ["report", "prices"]
        for force in ([], ["--overwrite"]):
            assert main([*before, "--out", str(tmp_path / name), "--quiet", *force]) == 1
            assert capsys.readouterr().err == says
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.csv", "out.html"]


@pytest.mark.slow
def test_an_unwritable_path_is_named_as_it_was_given(inside, tmp_path, capsys):
    """The temporary name under which a file is written means nothing to the user."""
    long = tmp_path / ("x" * 240 + ".csv")  # with more than that a name is too long for a disk
    assert main(["predict", "prices", "new.csv", "--out", str(long), "--quiet"]) == 1
    assert capsys.readouterr().err == f"tensorbnn: {long} can't be written: File name too long\n"
    page = long.with_suffix(".html")
    assert main(["report", "prices", "--out", str(page), "--quiet"]) == 1
    assert capsys.readouterr().err == f"tensorbnn: {page} can't be written: File name too long\n"
