"""Every test and doctest runs with JAX's strict checks: no silent promotion of type or rank.

Most of their time is compilation. XLA's older code generator compiles twice as fast, to programs
about as fast, so tests use it where XLA still has it; `make soak`, and `XLA_FLAGS= make test`, use
that of users.
"""

import os
from collections.abc import Iterator
from importlib.metadata import version

# XLA ends the process at a flag that it does not know.
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Forget what a file's tests compiled: all of it together is more than a process may map."""
    yield
    jax.clear_caches()
