"""Packages import one way (the contracts of pyproject.toml), and sampling needs few of them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tensorbnn"
# What sampling, saving, loading, predicting and diagnosing work without.
FRONT_ENDS = ("cli", "report", "tables", "classic", "interop", "estimators", "plots")

SAMPLING = f"""
import sys
import tensorbnn as tb

assert not tb.__file__.startswith({str(PACKAGE)!r}), tb.__file__
network = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(1), inputs=1)
posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), [-1.0, 0.0, 1.0], [-0.8, 0.0, 0.8])
quiet = {{"progress": False}}
tb.sample(posterior, chains=2, burn_in=5, draws=5, path="run", max_gradients=10**6, **quiet)
ensemble = tb.resume("run", draws=10, **quiet)
ensemble.predict([0.5], **quiet).interval(0.9)
assert not {{"sklearn", "matplotlib", "pyarrow"}} & set(sys.modules)
print(tb.load("run"), ensemble.diagnose([0.0, 0.5, 1.0], **quiet).rhat.shape)
"""


def run_python(*arguments, **options):
    """What a new process prints."""
    command = [sys.executable, *arguments]
    options |= {"capture_output": True, "text": True, "timeout": 300}
    result = subprocess.run(command, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_contracts_are_kept():
    command = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
    printed = run_python("-c", command, cwd=PACKAGE.parents[1])
    assert "3 kept, 0 broken" in printed


@pytest.mark.slow
def test_importing_the_package_is_light():
    heavy = {
        *("matplotlib", "pandas", "xarray", "sklearn", "arviz_stats", "arviz_base"),
        *("blackjax", "optax", "scipy.stats", "dask", "distributed", "pyarrow"),
        *(f"tensorbnn.{name}" for name in FRONT_ENDS),
    }
    loaded = set(run_python("-c", "import sys, tensorbnn; print(*sys.modules)").split())
    assert "tensorbnn.posterior" in loaded
    assert loaded & heavy == set()


def test_dir_lists_the_public_names():
    code = """
import tensorbnn as tb
names = {name for name in dir(tb) if not name.startswith("__")}
assert names == {*tb.__all__, "plots"}, names ^ {*tb.__all__, "plots"}
print(tb.plots.bands.__name__)
"""
    assert run_python("-c", code) == "bands\n"


def test_sampling_works_without_the_front_ends(tmp_path):
    copy = tmp_path / "tensorbnn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FRONT_ENDS:
        shutil.rmtree(copy / name)
    script = tmp_path / "script.py"  # beside the copy, which is then the one that is imported
    script.write_text(SAMPLING)
    assert "(3,)" in run_python(script, cwd=tmp_path)
