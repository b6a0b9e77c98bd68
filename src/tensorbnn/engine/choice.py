"""Which engine computes a model: a fixed rule, so that the same seed gives the same bits."""

import itertools
import math
from typing import Literal

import jax

from tensorbnn.checks import check_choice
from tensorbnn.engine import kernels, library, native
from tensorbnn.engine.forward import Data
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network

Engine = Literal["jax", "native"]


def choose(engine: str, network: Network, likelihood: Likelihood, rows: int) -> Engine:
    """The engine for a model with `rows` rows of data, where the user asks for `engine`."""
    check_choice("engine", engine, ("auto", "jax", "native"))
    if engine == "jax":
        return "jax"
    problem = why_not_native(network, likelihood)
    if engine == "native" and problem is not None:
        raise ValueError(f"`engine` can't be 'native': {problem}; use 'auto' or 'jax'")
    if engine == "native":
        return "native"
    own = library.instruction_set()
    if problem is not None or own is None:
        return "jax"
    return "native" if is_native_faster(network, rows, own) else "jax"


def why_not_native(network: Network, likelihood: Likelihood) -> str | None:
    """Why the native engine can't compute a model, or ``None`` where it can."""
    unsupported = native.unsupported(network, likelihood)
    if unsupported is not None:
        return f"it does not compute {unsupported}"
    problem = library.problem()
    if problem is not None:
        return problem
    if jax.default_backend() != "cpu":
        return f"it runs on a CPU, and JAX uses a {jax.default_backend()}"
    return None


def instruction_set(engine: Engine) -> str | None:
    """The instruction set on which the last digits depend; ``None`` where JAX chooses it."""
    return library.instruction_set() if engine == "native" else None


# Up to how many numbers in the largest matrix of weights, with up to how many in all matrices times
# rows of data, the native engine is the faster one. Measured (the growth of `make bench`, with its
# `--instruction-set`): it keeps activations in the cache but not large matrices, and for those XLA
# calls a library that does; what it saves is most where there is little to do.
FASTER_UP_TO = {
    "avx512": ((22_500, math.inf),),
    "avx2": ((400, math.inf), (2_500, 300_000)),
    "portable": ((2_500, 50_000),),
}


def is_native_faster(network: Network, rows: int, instruction_set: str) -> bool:
    """The rule of ``engine="auto"``, for a model that the native engine can compute."""
    pairs = zip(network.layers, itertools.pairwise(network.units), strict=True)
    weights = [math.prod(pair) for layer, pair in pairs if isinstance(layer, kernels.DENSE)]
    largest, products = max(weights, default=0), sum(weights) * rows
    limits = FASTER_UP_TO[instruction_set]
    return rows > 0 and any(largest <= most and products <= few for most, few in limits)


# Of the widest vectors.
LANES = 16


def along_lanes(chains: int, data: Data | None) -> bool:
    """Whether the native engine has chains stand side by side in the lanes of a vector."""
    if data is None or data.tile_targets.shape[0]:
        return False
    most = kernels.LIMITS["most_rows_of_chains"]
    return chains >= LANES and data.targets.shape[1] <= most
