"""``tensorbnn doctor`` and ``tensorbnn completion``: an installation, and its shell."""

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax

from tensorbnn.cli.options import RESULT, Command, Option
from tensorbnn.cli.output import print_result
from tensorbnn.engine import library
from tensorbnn.sampling.local import usable_cores

PACKAGES = (
    *("tensorbnn", "jax", "jaxlib", "numpy", "optax", "blackjax", "safetensors"),
    *("arviz-base", "arviz-stats", "rich"),
)
# Each with the extra that brings it, and what it is for.
OPTIONAL = {
    "scikit-learn": ("sklearn", "the estimators"),
    "matplotlib": ("plots", "figures and reports"),
    "pyarrow": ("parquet", "Parquet tables"),
    "distributed": ("dask", "chains on a Dask cluster"),
    "shtab": ("completion", "completion in a shell"),
}
SHELLS = ("bash", "zsh", "tcsh")
HOW = """\
bash:
  tensorbnn completion bash > ~/.local/share/bash-completion/completions/tensorbnn
zsh:
  tensorbnn completion zsh > a file _tensorbnn in a directory of $fpath
"""


def doctor(options: argparse.Namespace) -> int:
    """Print engine, instruction set, cores, threads, versions and optional packages, in words."""
    problem, given = library.problem(), os.environ.get("TENSORBNN_THREADS") or "0"
    lines = {"native": "ready" if problem is None else f"not used: {problem}"}
    if library.instruction_sets():
        present = ", ".join(library.instruction_sets())
        lines["instructions"] = f"{library.instruction_set()} (there are {present})"
    threads = f"{given} of one call, by TENSORBNN_THREADS"
    if given == "0":
        threads = "of one call, a fair share of the cores (TENSORBNN_THREADS sets another number)"
    lines |= {
        "cores": str(usable_cores()),
        "threads": threads,
        "JAX on": jax.default_backend(),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    lines |= {name: version(name) for name in PACKAGES}
    lines |= {name: _optional(name) for name in OPTIONAL}
    print_result(options, lines, lines)
    return 0


def _optional(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        extra, purpose = OPTIONAL[package]
        return f"not installed, only for {purpose}: pip install 'tensorbnn[{extra}]'"


def complete(options: argparse.Namespace) -> int:
    """Print a script that lets a shell complete commands and options."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(
            "completion scripts need shtab: pip install 'tensorbnn[completion]'"
        ) from error
    print(shtab.complete(options.program, shell=options.shell))
    return 0


DOCTOR = Command("doctor", "say what this installation computes with", RESULT, doctor)
COMPLETION = Command(
    "completion",
    "print a completion script for a shell",
    (Option("shell", kind="positional", choices=SHELLS),),
    complete,
    epilog=HOW,
    formatter=argparse.RawDescriptionHelpFormatter,  # a path is not broken
)
