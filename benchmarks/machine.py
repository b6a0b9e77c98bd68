"""The machine on which numbers were measured, and how many cores they used."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

PACKAGES = (
    *("tensorbnn", "jax", "jaxlib", "numpy", "blackjax", "numpyro"),
    *("tensorflow", "tensorflow-probability"),
)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_cores(count: int) -> None:
    """Use only `count` cores. Call it before importing JAX, which counts them."""
    if count != cores():
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def describe() -> dict[str, Any]:
    """The description of the machine that is saved with results."""
    from tensorbnn.engine import library

    return {
        "processor": _processor(),
        "cores": cores(),
        "instruction_set": library.instruction_set(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def sentence(about: dict[str, Any]) -> str:
    """The machine in one sentence."""
    versions = ", ".join(
        f"{name} {about[name]}" for name in ("python", *PACKAGES) if about.get(name)
    )
    return (
        f"{about['processor']}, {about['cores']} cores, native engine: "
        f"{about['instruction_set'] or 'none'}, load {about['load']} at the start; {versions}"
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
