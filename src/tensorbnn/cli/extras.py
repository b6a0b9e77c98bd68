"""Commands that need no table: `demo`, `import`, `doctor` and `completion`."""

import argparse
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tensorbnn import plots
from tensorbnn.cli import output
from tensorbnn.cli.models import read_likelihood
from tensorbnn.cli.options import RESULT, Command, Option, whole_number
from tensorbnn.cli.saved_run import check_free_run
from tensorbnn.engine import library
from tensorbnn.interop.original import import_original
from tensorbnn.model.layers import Dense, Tanh
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.model.summary import summary
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import sample
from tensorbnn.sampling.local import usable_cores

PACKAGES = (
    *("tensorbnn", "jax", "jaxlib", "numpy", "optax", "blackjax", "safetensors"),
    *("arviz-base", "arviz-stats", "rich"),
)
# The extra that installs each package, and its purpose.
OPTIONAL = {
    "scikit-learn": ("sklearn", "the estimators"),
    "matplotlib": ("plots", "figures and reports"),
    "pyarrow": ("parquet", "Parquet tables"),
    "distributed": ("dask", "chains on a Dask cluster"),
    "shtab": ("completion", "completion in a shell"),
}
HOW = """\
bash:
  tensorbnn completion bash > ~/.local/share/bash-completion/completions/tensorbnn
zsh:
  tensorbnn completion zsh > _tensorbnn   # in a directory of $fpath
"""


def demo(options: argparse.Namespace) -> int:
    """Sample the sparse case into ``out/run``, and draw ``out/sparse.png``.

    Eleven evenly spaced points on [-2, 2], a 1-10-10-10-1 tanh network with the paper's priors, and
    a Gaussian likelihood with a known sd of 0.1; the figure shows [-3, 3].
    """
    figure, ax = plots.new_figure()  # first, so that a missing Matplotlib is reported at once
    x, grid = np.linspace(-2, 2, 11), np.linspace(-3, 3, 301)
    network = Network(Dense(10), Tanh(), Dense(10), Tanh(), Dense(10), Tanh(), Dense(1), inputs=1)
    directory, progress = options.out / "run", not options.quiet
    began = time.monotonic()
    ensemble = sample(
        Posterior(network, Gaussian(sd=0.1), x, truth(x)),
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.draws,
        seed=options.seed,
        path=directory,
        overwrite=True,
        progress=progress,
    )
    seconds = time.monotonic() - began
    prediction = ensemble.predict(grid, progress=progress)
    plots.bands(prediction, data=(x, truth(x)), truth=truth, ax=ax)
    ax.set_title(f"sparse case: {len(ensemble):,} networks from {options.chains} chains")
    picture = options.out / "sparse.png"
    figure.savefig(picture, dpi=150)
    diagnosis = ensemble.diagnose(grid[::5], progress=progress)
    verdict, verdict_facts = output.convergence(diagnosis, options.words)
    gradients = int(ensemble.sample_stats["num_gradients"].sum())
    spent = f"{seconds:.1f} s for burn-in and {gradients:,} gradients after it"
    lines = output.sampled(ensemble, spent) | verdict
    lines |= {"figure": str(picture)} | output.where(directory)
    facts = {"run": str(directory), "figure": str(picture), "networks": len(ensemble)}
    output.print_result(options, lines, facts | {"seconds": seconds} | verdict_facts)
    return 0


def truth(x: NDArray[Any]) -> NDArray[Any]:
    """The paper's curve, ``x sin(2 pi x) - cos(pi x)``."""
    return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)


def import_run(options: argparse.Namespace) -> int:
    """Import the run, and print a summary."""
    check_free_run(options.new, overwrite=options.overwrite, option="directory")
    likelihood = None if options.likelihood is None else read_likelihood(options.likelihood)
    ensemble = import_original(
        options.old, options.new, likelihood=likelihood, overwrite=options.overwrite
    )
    model = {"network": summary(ensemble.network), "likelihood": summary(ensemble.likelihood)}
    facts = {"run": str(options.new), "networks": len(ensemble)} | model
    lines = output.sampled(ensemble) | model | output.where(options.new)
    output.print_result(options, lines, facts)
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Print the engine, instruction set, cores, threads, versions and optional packages."""
    problem, given = library.problem(), os.environ.get("TENSORBNN_THREADS") or "0"
    lines = {"native": "ready" if problem is None else f"not used: {problem}"}
    if library.instruction_sets():
        present = ", ".join(library.instruction_sets())
        lines["instructions"] = f"{library.instruction_set()} (available: {present})"
    threads = f"{given} for each call, set by TENSORBNN_THREADS"
    if given == "0":
        threads = "a fair share of the cores for each call (TENSORBNN_THREADS sets another number)"
    lines |= {
        "cores": str(usable_cores()),
        "threads": threads,
        "JAX device": jax.default_backend(),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    lines |= {name: version(name) for name in PACKAGES}
    lines |= {name: _optional(name) for name in OPTIONAL}
    output.print_result(options, lines, lines)
    return 0


def _optional(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        extra, purpose = OPTIONAL[package]
        return f"not installed, only for {purpose}: pip install 'tensorbnn[{extra}]'"


def complete(options: argparse.Namespace) -> int:
    """Print a script for shell completion of commands and options."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(
            "completion scripts need shtab: pip install 'tensorbnn[completion]'"
        ) from error
    print(shtab.complete(options.program, shell=options.shell))
    return 0


DEMO = Command(
    "demo",
    "sample the paper's sparse example and draw its figure",
    (
        Option(
            "out",
            "directory for the figure and the run",
            Path,
            default=Path("demo"),
            path="directory",
        ),
        Option("chains", "number of chains", whole_number, default=4),
        Option("burn_in", "transitions that are not saved", whole_number, default=1000),
        Option("draws", "networks to save from each chain", whole_number, default=1000),
        Option("seed", "seed of all random numbers", whole_number, default=0),
        *RESULT,
    ),
    demo,
)
IMPORT = Command(
    "import",
    "convert a run of TensorBNN, the paper's own library",
    (
        Option("old", "the run directory of TensorBNN", Path, kind="positional", path="directory"),
        Option("new", "the run directory to create", Path, kind="positional", path="directory"),
        Option("likelihood", "that of the run; for known noise, such as 'Gaussian(sd=0.1)'"),
        Option("overwrite", "replace a run at `new`", kind="switch"),
        *RESULT,
    ),
    import_run,
    description="Convert a run directory of TensorBNN, the paper's own library. The old directory "
    "stays as it is; the new run can't be resumed.",
)
DOCTOR = Command("doctor", "show what this installation computes with", RESULT, doctor)
COMPLETION = Command(
    "completion",
    "print a completion script for a shell",
    (Option("shell", kind="positional", choices=("bash", "zsh", "tcsh")),),
    complete,
    epilog=HOW,
    formatter=argparse.RawDescriptionHelpFormatter,  # keeps paths on one line
)
