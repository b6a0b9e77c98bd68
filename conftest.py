"""Every test and doctest runs with JAX's strict checks: no silent promotion of type or rank."""

from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Forget what a file's tests compiled: all of it together is more than a process may map."""
    yield
    jax.clear_caches()
