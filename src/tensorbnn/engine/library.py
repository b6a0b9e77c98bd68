"""The compiled library of the native engine: loading it, and its settings.

It exists only if a C++ compiler was found when the package was installed, and it is used only if
its numbers agree with those of `engine.kernels`. Two environment variables configure it:
``TENSORBNN_INSTRUCTION_SET`` (``avx512``, ``avx2`` or ``portable``; by default the best of the
machine) and ``TENSORBNN_THREADS`` (threads that work on one call; by default, or if 0, a fair share
of the cores). The number of threads changes no bit of a result; the instruction set changes the
last digits.
"""

import ctypes
import functools
import os
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import jax

from tensorbnn.engine import kernels

HANDLERS = ("log_likelihood", "leapfrog")


class Library(NamedTuple):
    """The library, or why it can't be used."""

    handle: ctypes.CDLL | None
    problem: str | None


def problem() -> str | None:
    """Why the native engine can't be used here; ``None`` if it can."""
    return _library().problem


def instruction_sets() -> tuple[str, ...]:
    """The instruction sets of the library that the machine can run, best first."""
    handle = _library().handle
    return () if handle is None else tuple(handle.tensorbnn_instruction_sets().decode().split())


def instruction_set() -> str | None:
    """The instruction set in use; ``None`` without the library."""
    handle = _library().handle
    return None if handle is None else str(handle.tensorbnn_instruction_set().decode())


def use_instruction_set(name: str) -> None:
    """Use another instruction set from the next call on."""
    handle = _library().handle
    if handle is None or not handle.tensorbnn_use_instruction_set(name.encode()):
        raise ValueError(_unknown_set(name, instruction_sets()))


def use_threads(count: int) -> None:
    """Let `count` threads work on one call; 0 means a fair share of the cores."""
    handle = _library().handle
    if handle is not None:
        handle.tensorbnn_use_threads(count)


_LOADING = threading.Lock()


def _library() -> Library:
    with _LOADING:  # several threads may ask first
        return _load()


@functools.cache
def _load() -> Library:
    path = _path()
    if path is None:
        return Library(
            None,
            "it was not compiled when tensorbnn was installed: install a C++ compiler (g++ or "
            "clang++), then tensorbnn again",
        )
    try:
        handle = ctypes.CDLL(str(path))
        for name in ("numbers", "instruction_sets", "instruction_set"):
            getattr(handle, f"tensorbnn_{name}").restype = ctypes.c_char_p
        handle.tensorbnn_use_instruction_set.argtypes = [ctypes.c_char_p]
        handle.tensorbnn_use_threads.argtypes = [ctypes.c_int]
        handle.tensorbnn_use_threads.restype = None
        lines = map(str.split, handle.tensorbnn_numbers().decode().splitlines())
        difference = kernels.difference({name: int(number) for name, number in lines})
        if difference is not None:
            return Library(
                None,
                f"{path.name} was compiled from another version of tensorbnn ({difference}): "
                "install tensorbnn again",
            )
        for dtype in ("float32", "float64"):
            for name in HANDLERS:
                target = f"tensorbnn_{name}_{dtype}"
                capsule = jax.ffi.pycapsule(getattr(handle, target))  # type: ignore[no-untyped-call]
                jax.ffi.register_ffi_target(target, capsule, platform="cpu")
    except (OSError, AttributeError, RuntimeError, ValueError) as error:
        return Library(None, f"{path.name} can't be loaded ({error}): install tensorbnn again")
    return Library(handle, _set_from_environment(handle))


def _path() -> Path | None:
    places = (Path(__file__).with_name("_native" + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((place for place in places if place.exists()), None)


def _set_from_environment(handle: ctypes.CDLL) -> str | None:
    """Apply the environment variables; returns what is wrong with them."""
    name = os.environ.get("TENSORBNN_INSTRUCTION_SET", "")
    if name and not handle.tensorbnn_use_instruction_set(name.encode()):
        present = handle.tensorbnn_instruction_sets().decode().split()
        return "TENSORBNN_INSTRUCTION_SET: " + _unknown_set(name, present)
    threads = os.environ.get("TENSORBNN_THREADS") or "0"  # empty is unset
    if not threads.isdigit():
        return f"TENSORBNN_THREADS must be a whole number, got {threads!r}"
    handle.tensorbnn_use_threads(int(threads))
    return None


def _unknown_set(name: str, present: tuple[str, ...] | list[str]) -> str:
    choices = ", ".join(present) or "none"
    return f"the instruction set {name!r} is unavailable: choose from {choices}"
