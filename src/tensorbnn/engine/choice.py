"""Which engine computes a model: a fixed rule, so that the same seed gives the same bits."""

from typing import Literal

import jax

from tensorbnn.engine import library, native
from tensorbnn.engine.forward import Data
from tensorbnn.model.checks import DType
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network

Engine = Literal["jax", "native"]


def choose(
    engine: str, network: Network, likelihood: Likelihood, rows: int, dtype: DType
) -> Engine:
    """The engine for a model with `rows` rows of data, where the user asks for `engine`."""
    if engine not in ("auto", "jax", "native"):
        raise ValueError(f"`engine` must be 'auto', 'jax' or 'native', got {engine!r}")
    if engine == "jax":
        return "jax"
    problem = why_not_native(network, likelihood)
    if engine == "native" and problem is not None:
        raise ValueError(f"`engine` can't be 'native': {problem}; use 'auto' or 'jax'")
    if engine == "native" or (problem is None and is_native_faster(network, rows, dtype)):
        return "native"
    return "jax"


def why_not_native(network: Network, likelihood: Likelihood) -> str | None:
    """Why the native engine can't compute a model, or ``None`` where it can."""
    outside = native.outside(network, likelihood)
    if outside is not None:
        return f"it does not compute {outside}"
    problem = library.problem()
    if problem is not None:
        return problem
    if jax.default_backend() != "cpu":
        return f"it runs on a CPU, and JAX uses a {jax.default_backend()}"
    return None


def is_native_faster(network: Network, rows: int, dtype: DType) -> bool:
    """The rule of ``engine="auto"``, for a model that the native engine can compute."""
    del network, rows, dtype
    return False  # until it is calibrated


# As in native/batch.cpp.
MOST_ROWS_OF_CHAINS = 64
LANES = 16


def along_lanes(chains: int, data: Data | None) -> bool:
    """Whether the native engine has chains stand side by side in the lanes of a vector."""
    if data is None or data.tile_targets.shape[0]:
        return False
    return chains >= LANES and data.targets.shape[1] <= MOST_ROWS_OF_CHAINS
