"""``tensorbnn doctor``: what this installation computes with."""

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax

from tensorbnn.cli.options import RESULT, Command
from tensorbnn.cli.output import print_result
from tensorbnn.engine import library
from tensorbnn.sampling.local import usable_cores

PACKAGES = (
    *("tensorbnn", "jax", "jaxlib", "numpy", "optax", "blackjax"),
    *("safetensors", "arviz-base", "arviz-stats", "rich"),
)
# Each with the extra that brings it, and what it is for.
OPTIONAL = {
    "scikit-learn": ("sklearn", "the estimators"),
    "matplotlib": ("plots", "figures and reports"),
    "pyarrow": ("parquet", "Parquet tables"),
    "distributed": ("dask", "chains on a Dask cluster"),
    "shtab": ("completion", "completion in a shell"),
}


def run(options: argparse.Namespace) -> int:
    """Say it in words, which are the same for scripts."""
    found = doctor()
    print_result(options, found, found)
    return 0


def doctor() -> dict[str, str]:
    """Engine, instruction set, cores, threads, versions and optional packages, each in words."""
    problem = library.problem()
    lines = {"native": "ready" if problem is None else f"not used: {problem}"}
    if library.instruction_sets():
        present = ", ".join(library.instruction_sets())
        lines["instructions"] = f"{library.instruction_set()} (there are {present})"
    lines |= {
        "cores": str(usable_cores()),
        "threads": _threads(),
        "JAX on": jax.default_backend(),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    lines |= {name: version(name) for name in PACKAGES}
    return lines | {name: _optional(name) for name in OPTIONAL}


def _threads() -> str:
    given = os.environ.get("TENSORBNN_THREADS") or "0"
    if given == "0":
        return "of one call, a fair share of the cores (TENSORBNN_THREADS sets another number)"
    return f"{given} of one call, by TENSORBNN_THREADS"


def _optional(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        extra, purpose = OPTIONAL[package]
        return f"not installed, only for {purpose}: pip install 'tensorbnn[{extra}]'"


COMMAND = Command("doctor", "say what this installation computes with", RESULT, run)
