"""The native engine: a likelihood and its gradient by fused C++ kernels, through `jax.ffi`.

It computes networks of dense layers and the paper's nine activations with a `Gaussian`,
`MeasuredGaussian`, `Bernoulli` or `Categorical` likelihood; the JAX engine computes all others. One
call returns value and gradient, also for several chains (`jax.vmap`). The source is in
``engine/native``. A fixed rule chooses the engine of a model, so the same seed gives the same bits.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import custom_vmap

from tensorbnn.checks import check_choice
from tensorbnn.engine import kernels, library
from tensorbnn.engine.forward import Data
from tensorbnn.model.layers import LeakyReLU
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.noise import MeasuredGaussian
from tensorbnn.model.rows import RowLikelihood, without_rows

Engine = Literal["jax", "native"]

# The native engine is faster up to these sizes: of the largest weight matrix, and of all weight
# matrices times rows of data. Measured with `make bench` and its `--instruction-set`: it keeps
# activations in the cache but not large matrices, for which XLA calls a tuned library. It saves
# most if there is little to compute.
FASTER_UP_TO = {
    "avx512": ((22_500, math.inf),),
    "avx2": ((400, math.inf), (2_500, 300_000)),
    "portable": ((2_500, 50_000),),
}
# Lanes of the widest vectors.
LANES = 16

Shape: Any = jax.ShapeDtypeStruct  # JAX has no types for its arguments


class Program(NamedTuple):
    """A network as the kernels read it: four numbers and a slope a stage (native/network.hpp)."""

    stages: tuple[int, ...]
    slopes: tuple[float, ...]
    likelihood: int
    widths: int
    """Of the noise: 1 for all outputs, or one each."""


def choose(engine: str, network: Network, likelihood: Likelihood, rows: int) -> Engine:
    """The engine for a model with `rows` rows of data, given the user's option `engine`."""
    check_choice("engine", engine, ("auto", "jax", "native"))
    if engine == "jax":
        return "jax"
    problem = why_not_native(network, likelihood)
    if engine == "native":
        if problem is not None:
            raise ValueError(f"`engine` can't be 'native': {problem}; use 'auto' or 'jax'")
        return "native"
    own = library.instruction_set()
    if problem is not None or own is None:
        return "jax"
    return "native" if is_native_faster(network, rows, own) else "jax"


def why_not_native(network: Network, likelihood: Likelihood) -> str | None:
    """Why the native engine can't compute a model; ``None`` if it can."""
    part = unsupported(network, likelihood)
    if part is not None:
        return f"it does not compute {part}"
    problem = library.problem()
    if problem is not None:
        return problem
    if jax.default_backend() != "cpu":
        return f"it runs on a CPU, and JAX uses a {jax.default_backend()}"
    return None


def instruction_set(engine: Engine) -> str | None:
    """The instruction set, on which the last digits depend; ``None`` if JAX chooses it."""
    return library.instruction_set() if engine == "native" else None


def is_native_faster(network: Network, rows: int, instruction_set: str) -> bool:
    """The rule of ``engine="auto"`` for a model that the native engine can compute."""
    pairs = zip(network.layers, itertools.pairwise(network.units), strict=True)
    weights = [math.prod(pair) for layer, pair in pairs if isinstance(layer, kernels.DENSE)]
    largest, products = max(weights, default=0), sum(weights) * rows
    limits = FASTER_UP_TO[instruction_set]
    return rows > 0 and any(largest <= most and products <= few for most, few in limits)


def along_lanes(chains: int, data: Data | None) -> bool:
    """Whether the native engine puts one chain in each lane of a vector."""
    if data is None or data.tile_targets.shape[0]:
        return False
    most = kernels.LIMITS["most_rows_of_chains"]
    return chains >= LANES and data.targets.shape[1] <= most


def unsupported(network: Network, likelihood: Likelihood) -> str | None:
    """The part of a model that the kernels can't compute, or ``None``."""
    for name, layer in zip(network.names, network.layers, strict=True):
        if type(layer) not in (*kernels.DENSE, *kernels.FUSED, *kernels.ALONE):
            return f"the layer {name}, a {type(layer).__name__}"
    own = without_rows(likelihood)
    if type(own) not in kernels.LIKELIHOODS:
        return f"a {type(own).__name__} likelihood"
    if isinstance(likelihood, RowLikelihood):
        if likelihood.is_weighted:
            return "`sample_weight`"
        if not isinstance(own, MeasuredGaussian):
            return f"`y_sd` with a {type(own).__name__} likelihood"
    most = kernels.LIMITS["most_stages"]
    return f"more than {most} layers" if len(network.layers) > most else None


def log_likelihood(
    network: Network,
    likelihood: Likelihood,
    parameters: Array,
    hypers: Mapping[str, Array],
    data: Data,
) -> Array:
    """As `forward.log_likelihood`, for a model that is not `unsupported`.

    `parameters` ``(size,)`` are natural values in the order of the layers.
    """
    sd = widths(likelihood, hypers, parameters.dtype)
    found = _log_likelihood(program(network, likelihood), parameters, sd, data)
    constant = omitted_constant(likelihood, data)
    return found if constant is None else found + constant


def widths(likelihood: Likelihood, hypers: Mapping[str, Any], dtype: Any) -> Array:
    """Widths of the noise ``(widths,)``: sds, or factors of measured ones; 1 for classes."""
    numbers = list(likelihood.bind(hypers).numbers().values()) or [1.0]
    return jnp.stack([jnp.asarray(each, dtype) for each in numbers])


def omitted_constant(likelihood: Likelihood, data: Data) -> Array | None:
    """The part of the log-likelihood that the kernels leave out; it does not depend on parameters.

    For a `MeasuredGaussian`, minus the sum of the logarithms of the error bars.
    """
    if not isinstance(without_rows(likelihood), MeasuredGaussian):
        return None
    tiles, rest = (jnp.split(each, 2, axis=-2)[1] for each in (data.tile_targets, data.targets))
    return -jnp.sum(jnp.log(tiles)) - jnp.sum(jnp.log(rest))


@functools.lru_cache(maxsize=256)
def program(network: Network, likelihood: Likelihood) -> Program:
    """Layers as stages; most activations are fused with the dense layer before them."""
    stages: list[tuple[int, int, int, int]] = []
    slopes: list[float] = []
    pairs = itertools.pairwise(network.units)
    for layer, (units, outputs) in zip(network.layers, pairs, strict=True):
        is_dense, slope = isinstance(layer, kernels.DENSE), 0.0
        number = kernels.IDENTITY if is_dense else kernels.ALONE.get(type(layer), kernels.SLOPED)
        if isinstance(layer, LeakyReLU):
            slope = layer.negative_slope
        if type(layer) in kernels.FUSED and (slope > 0 or not isinstance(layer, LeakyReLU)):
            number = kernels.FUSED[type(layer)]
            if stages and stages[-1][:2] == (1, kernels.IDENTITY):
                stages[-1], slopes[-1] = (1, number, *stages[-1][2:]), slope
                continue
        stages.append((int(is_dense), number, units, outputs))
        slopes.append(slope)
    flat = tuple(itertools.chain.from_iterable(stages))
    count = len(likelihood.numbers()) or 1
    return Program(flat, tuple(slopes), kernels.LIKELIHOODS[type(without_rows(likelihood))], count)


class Evaluated(NamedTuple):
    """Log-likelihood and its gradients, of one chain or of several."""

    value: Array
    gradient: Array
    sd_gradient: Array


# Which of them a batched call returns for each element.
_ALL: Any = Evaluated(*(True for _ in Evaluated._fields))  # type: ignore[arg-type]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_likelihood(program: Program, parameters: Array, sd: Array, data: Data) -> Array:
    return _evaluate(program)(parameters, sd, data).value


def _forward(
    program: Program, parameters: Array, sd: Array, data: Data
) -> tuple[Array, tuple[Array, Array, Data]]:
    found = _evaluate(program)(parameters, sd, data)
    return found.value, (found.gradient, found.sd_gradient, data)


def _backward(
    program: Program, residuals: tuple[Array, Array, Data], cotangent: Array
) -> tuple[Any, ...]:
    del program
    gradient, sd_gradient, data = residuals
    # Data are constants: their gradient is zero, as in the tiled JAX engine.
    nothing = jax.tree.map(jnp.zeros_like, data)
    return cotangent * gradient, cotangent * sd_gradient, nothing


_log_likelihood.defvjp(_forward, _backward)


@functools.lru_cache(maxsize=256)
def _evaluate(program: Program) -> Any:
    """The call for one chain: parameters ``(size,)``, sd ``(widths,)``."""

    @custom_vmap
    def one(parameters: Array, sd: Array, data: Data) -> Evaluated:
        found = _call(program, parameters[None], sd[None], data)
        return Evaluated(*(leaf[0] for leaf in found))

    @custom_vmap
    def several(parameters: Array, sd: Array, data: Data) -> Evaluated:
        return _call(program, parameters, sd, data)

    @one.def_vmap
    def batch_one(size: int, batched: Any, parameters: Array, sd: Array, data: Data) -> Any:
        if any(jax.tree.leaves(batched[2])):
            return one_by_one(one, size, batched, (parameters, sd, data)), _ALL
        both = broadcast(size, batched[:2], (parameters, sd))
        return several(*both, data), _ALL

    @several.def_vmap
    def batch_several(size: int, batched: Any, parameters: Array, sd: Array, data: Data) -> Any:
        if any(jax.tree.leaves(batched[2])):
            return one_by_one(several, size, batched, (parameters, sd, data)), _ALL
        both = broadcast(size, batched[:2], (parameters, sd))
        chains = both[0].shape[1]
        merged = (leaf.reshape(size * chains, *leaf.shape[2:]) for leaf in both)
        found = several(*merged, data)
        apart = (leaf.reshape(size, chains, *leaf.shape[1:]) for leaf in found)
        return Evaluated(*apart), _ALL

    @jax.custom_jvp
    def once(parameters: Array, sd: Array, data: Data) -> Evaluated:
        return one(parameters, sd, data)

    @once.defjvp
    def twice(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(
            "the native engine has first derivatives only: for second ones use "
            "tb.Posterior(..., engine='jax')"
        )

    return once


def one_by_one(function: Any, size: int, batched: Any, arguments: Any) -> Any:
    """One call for each element, if the data are batched, too."""
    return jax.lax.map(lambda each: function(*each), broadcast(size, batched, arguments))


def broadcast(size: int, batched: Any, arguments: Any) -> Any:
    """Arguments of a batched call, with shared ones repeated."""
    return jax.tree.map(
        lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape)),
        tuple(arguments),
        tuple(batched),
    )


def _call(program: Program, parameters: Array, sd: Array, data: Data) -> Evaluated:
    """The call for several chains: parameters ``(chains, size)``, sd ``(chains, widths)``."""
    problem = library.problem()
    if problem is not None:  # compiled by JAX on another machine
        raise RuntimeError(f"the native engine is not available: {problem}")
    chains, dtype = parameters.shape[0], parameters.dtype
    call = jax.ffi.ffi_call(
        f"tensorbnn_log_likelihood_{dtype.name}",
        tuple(Shape(shape, dtype) for shape in ((chains,), parameters.shape, sd.shape)),
    )
    return Evaluated(*call(parameters, sd, *data, **attributes(program)))


def attributes(program: Program) -> dict[str, Any]:
    """A network as attributes of a call."""
    return {
        "stages": np.asarray(program.stages, np.int64),
        "slopes": np.asarray(program.slopes, np.float64),
        "likelihood": np.int64(program.likelihood),
        "widths": np.int64(program.widths),
    }
