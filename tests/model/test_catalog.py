"""The list of the model's classes is complete, and a new class needs changes in few files."""

import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import tensorbnn as tb
from tensorbnn import model as package
from tensorbnn.model import catalog
from tensorbnn.model.rows import RowLikelihood

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def library_classes(base):
    """Every class of the model that is a `base` and can be made."""
    names = [f"{package.__name__}.{each.name}" for each in pkgutil.iter_modules(package.__path__)]
    return {
        each
        for name in names
        for _, each in inspect.getmembers(import_module(name), inspect.isclass)
        if issubclass(each, base) and each.__module__ == name and is_dataclass(each)
    } - {RowLikelihood}  # made by the library for rows with error bars or weights


@pytest.mark.parametrize(
    ("base", "listed"),
    [
        (tb.Layer, catalog.LAYERS),
        (tb.Prior, catalog.PRIORS),
        (tb.Likelihood, catalog.LIKELIHOODS),
    ],
)
def test_no_class_is_left_out(base, listed):
    assert library_classes(base) - {RowLikelihood} == set(listed)
    assert len(listed) == len(set(listed))
    assert {each.__name__ for each in listed} <= set(tb.__all__)


# A class of each kind is added to a copy of the package, as CONTRIBUTING says.


def skeleton(name):
    """The class of this name in CONTRIBUTING, with its name in the library."""
    pattern = rf"^(?:@[^\n]*\n)+class {name}\(.*?(?=^\S)"
    found = re.search(pattern, CONTRIBUTING, re.MULTILINE | re.DOTALL)
    return found[0].rstrip().replace("tb.", "") + "\n"


def files_for(kind):
    """The files that CONTRIBUTING names for a new class of this kind."""
    row = re.search(rf"^\| {kind} \| (.*?) \|", CONTRIBUTING, re.MULTILINE)
    return set(re.findall(r"`([\w/]+\.py)`", row[1]))


class Copy:
    """A copy of the package, and the files of it that were changed."""

    def __init__(self, path):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        self.package = path / "tensorbnn"
        shutil.copytree(ROOT / "src" / "tensorbnn", self.package, ignore=ignored)
        self.changed = set()

    def edit(self, name, old, new):
        file = self.package / name
        text = file.read_text(encoding="utf-8")
        assert text.count(old) >= 1, f"{name} has no {old!r}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        self.changed.add(name)

    def append(self, name, text):
        with (self.package / name).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{text}")
        self.changed.add(name)

    def export(self, module, name):
        line = f"from tensorbnn.model.{module} import {name}\n"
        self.edit("__init__.py", "from tensorbnn.model.di", f"{line}from tensorbnn.model.di")
        self.edit("__init__.py", '    "Dense",\n', f'    "Dense",\n    "{name}",\n')


def add_activation(copy):
    copy.edit("model/layers.py", "\n_ACTIVATIONS:", f"\n{skeleton('Mish')}\n\n_ACTIVATIONS:")
    copy.edit("model/layers.py", "Exp, Softplus)", "Exp, Softplus, Mish)")
    copy.export("layers", "Mish")


def add_prior(copy):
    copy.append("model/priors.py", skeleton("Gumbel"))
    copy.edit("model/catalog.py", "priors.Uniform)", "priors.Uniform, priors.Gumbel)")
    copy.export("priors", "Gumbel")


def add_likelihood(copy):
    head = (
        "from dataclasses import dataclass\nfrom typing import final\n\nimport jax\n"
        "import jax.numpy as jnp\nfrom jax import Array\n\n"
        "from tensorbnn.model.likelihoods import Likelihood"
    )
    copy.append("model/failures.py", f"{head}\n\n\n{skeleton('Geometric')}")
    line = "from tensorbnn.model.failures import Geometric\n"
    copy.edit("model/catalog.py", "from tensorbnn.model.hy", f"{line}from tensorbnn.model.hy")
    copy.edit(
        "model/catalog.py",
        "HeteroscedasticGaussian, Poisson)",
        "HeteroscedasticGaussian, Poisson, Geometric)",
    )
    copy.export("failures", "Geometric")


USE = """
import tensorbnn as tb
dense = tb.Dense(1, tb.Gumbel(0.0, tb.Hyper(0.5)))
network = tb.Network(tb.Dense(2), "mish", dense, inputs=1)
posterior = tb.Posterior(network, tb.Geometric(), [-1.0, 0.0, 1.0], [0.0, 1.0, 2.0])
tb.sample(posterior, chains=1, burn_in=5, draws=5, thin=1, path="run", progress=False)
ensemble = tb.load("run")
assert (ensemble.network, ensemble.likelihood) == (network, tb.Geometric())
print(tb.__file__, ensemble.predict([0.5]).mean.shape)
"""


@pytest.mark.slow
def test_new_classes_need_few_files(tmp_path):
    copy = Copy(tmp_path)
    added = {"activation": add_activation, "prior": add_prior, "likelihood": add_likelihood}
    for kind, add in added.items():
        copy.changed = set()
        add(copy)
        assert copy.changed == files_for(kind)
        assert len(copy.changed) <= 4
    result = subprocess.run(
        [sys.executable, "-c", USE],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{copy.package / '__init__.py'} (1,)\n"
