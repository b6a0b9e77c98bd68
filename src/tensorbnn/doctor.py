"""What an installation computes with: shown by ``tensorbnn doctor``."""

import platform
from importlib.metadata import version

import jax

from tensorbnn.engine import library
from tensorbnn.runs.sample import cores

PACKAGES = ("tensorbnn", "jax", "jaxlib", "numpy")


def doctor() -> dict[str, str]:
    """Engine, instruction set, cores and versions, each in words."""
    problem = library.problem()
    lines = {"native": "ready" if problem is None else f"not used: {problem}"}
    if library.instruction_sets():
        present = ", ".join(library.instruction_sets())
        lines["instructions"] = f"{library.instruction_set()} (there are {present})"
    lines |= {
        "cores": f"{cores()} (TENSORBNN_THREADS sets the threads of one call)",
        "JAX on": jax.default_backend(),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    return lines | {name: version(name) for name in PACKAGES}
