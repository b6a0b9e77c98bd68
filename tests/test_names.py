"""No public name, argument, attribute, flag, key or message is from before the first release.

`classic` and the import of old runs are left out: they have the names of the paper's library.
"""

import ast
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import plots
from tensorbnn.cli import main
from tensorbnn.cli.program import COMMANDS
from tests.cli.running import write

ROOT = Path(__file__).parents[1]
# Names that nothing may have any more, and what replaced them.
OLD = {
    "autocorrelation_length": "autocorrelation_time",
    "colour": "color",
    "diagnostics_": "diagnosis_",
    "effective_size": "ess",
    "every": "thin",
    "flatten_hypers": "flatten_hyperparameters",
    "held_out": "validation",
    "hold_out": "validation",
    "hyper_leapfrog": "hyper_num_steps",
    "leapfrog_start": "num_steps_start",
    "max_leapfrog": "max_steps",
    "new_targets": "posterior_predictive",
    "num_leapfrog": "num_steps",
    "num_networks": "num_samples",
    "sample_predictions": "sample_y",
    "standardise": "standardize",
    "unflatten_hypers": "unflatten_hyperparameters",
    "value_and_gradient": "value_and_grad",
    "GaussianDense": "Dense",
    "MeasuredColumns": "y_sd",
    "SquaredError": "MeanSquaredError",
    "PercentError": "MeanAbsolutePercentageError",
    "Weighted": "sample_weight",
    "Weights": "Ensemble.weights",
}
# Words with another meaning elsewhere: by the object whose name they must not be.
OLD_MEMBERS = {
    tb.Ensemble: {"info", "score", "of", "from_store", "of_some", "last_draws", "store"},
    tb.Prediction: {"networks"},
    tb.Diagnosis: {"diagnostics"},
    tb.Posterior: {"take", "dataset"},
    tb.Network: {"without_last"},
    tb.Scaling: {"is_none"},
    tb.Likelihood: {"inside", "observed", "plain", "unweighted"},
    tb.Approximation: {"good"},
}
OLD_ARGUMENTS = {
    tb.BNNRegressor: {"hidden", "noise"},
    tb.BNNClassifier: {"hidden"},
    tb.Converged: {"at"},
    tb.load: {"custom"},
    tb.resume: {"custom"},
    tb.Ensemble.reweight: {"data"},
    tb.Ensemble.sensitivity: {"data"},
    tb.Ensemble.to_arviz: {"data"},
    tb.Ensemble.loo: {"data"},
    tb.Ensemble.waic: {"data"},
    tb.Ensemble.predict: {"weights"},
    tb.Ensemble.diagnose: {"weights"},
    plots.hyperparameters: {"names"},
    plots.relevances: {"names"},
    plots.bands: {"x"},
}
OLD_FLAGS = {"--at", "--force", "--hidden", "--hold-out", "--every", "--minutes", "--sd"}
OLD_KEYS = {"minutes", "hidden", "force", "at", "divergent", "acceptance", "log_density"}
# Of messages and pages: parts of words and other meanings are left out.
IN_TEXT = re.compile(
    "|".join(
        rf"(?<![\w-]){re.escape(name)}(?![\w-])"
        for name in {*OLD, *OLD_FLAGS} - {"every", "Weights", "Weighted", "held_out"}
    )
    + r"|`every=|`Weights`|`Weighted`|tb\.Weight|(?i:standardis|normalis|colour|behaviour|modelled)"
)
PAPER = ("classic", "interop")


def public(owner):
    """Public members of a module or class, by name."""
    return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}


def callables():
    """Public functions, classes and their methods, with names for the report of a failure."""
    owners = [(f"tb.{name}", getattr(tb, name)) for name in tb.__all__]
    owners += [(f"plots.{name}", getattr(plots, name)) for name in plots.__all__]
    for name, each in owners:
        if callable(each):
            yield name, each
        if inspect.isclass(each):
            for member, own in inspect.getmembers(each, callable):
                if not member.startswith("_"):
                    yield f"{name}.{member}", own


def arguments(function):
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of a C function
        return set()


def test_names_in_the_package():
    assert not set(OLD) & {*tb.__all__, *dir(tb), *plots.__all__}


@pytest.mark.parametrize("name", sorted(name for name in tb.__all__ if name[0].isupper()))
def test_attributes(name):
    kind = getattr(tb, name)
    found = set(public(kind)) | set(getattr(kind, "__annotations__", {}))
    assert not found & (set(OLD) | OLD_MEMBERS.get(kind, set()))


def test_arguments():
    found = {name: arguments(each) & set(OLD) for name, each in callables()}
    assert not {name: old for name, old in found.items() if old}
    for function, old in OLD_ARGUMENTS.items():
        assert not arguments(function) & old, function


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_flags_and_keys_of_settings(command):
    names = {each.name for each in command.options}
    assert not names & (set(OLD) | OLD_KEYS)
    assert not {each.flag for each in command.options} & OLD_FLAGS


def keys(found):
    """All keys of JSON, at any depth."""
    if isinstance(found, dict):
        yield from found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, dict | list):
            yield from keys(each)


@pytest.mark.slow
def test_keys_of_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 12).round(3)
    noise = np.random.default_rng(0).normal(0, 0.1, 12).round(3)
    write(tmp_path / "t.csv", {"x": x, "y": x + noise, "w": np.ones(12)})
    fit = ["fit", "t.csv", "--target", "y", "--weight", "w", "--validation", "0.25", "--out", "run"]
    small = ["--hidden-layer-sizes", "2", "--chains", "2", "--burn-in", "50", "--draws", "20"]
    for words in (
        [*fit, *small],
        ["info", "run"],
        ["diagnose", "run"],
        ["resume", "run", "--draws", "22"],
        ["predict", "run", "t.csv", "--out", "p.csv"],
        ["reweight", "run", "--likelihood", "Gaussian(sd=Hyper(0.31))"],
        ["report", "run"],
    ):
        assert main([*words, "--json", "--quiet"]) in (0, 3)
        found = set(keys(json.loads(capsys.readouterr().out)))
        assert not found & (set(OLD) | OLD_KEYS), words
    assert not set(keys(json.loads(Path("run/run.json").read_text()))) & (set(OLD) | OLD_KEYS)
    for line in Path("run/metrics.jsonl").read_text().splitlines():
        assert not set(keys(json.loads(line))) & (set(OLD) | OLD_KEYS)


def sources():
    files = sorted((ROOT / "src" / "tensorbnn").rglob("*.py"))
    return [file for file in files if not set(PAPER) & set(file.parts)]


def test_texts_of_the_package():
    """Docstrings, messages and help."""
    found = []
    for file in sources():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                old = IN_TEXT.findall(node.value)
                found += [f"{file.name}:{node.lineno} {each}" for each in old]
    assert not found


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs"])
def test_pages(page):
    path = ROOT / page
    files = sorted(path.glob("*.md")) if path.is_dir() else [path]
    others = {"classic.md", "old-runs.md", "benchmarks.md", "paper.md"}  # separate programs
    found = [
        f"{file.name}: {old}"
        for file in files
        if file.name not in others
        for old in IN_TEXT.findall(file.read_text(encoding="utf-8"))
    ]
    assert not found
