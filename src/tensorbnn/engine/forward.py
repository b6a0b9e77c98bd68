"""The JAX engine: any network and likelihood, feature-major.

Rows are the last axis, padded to a multiple of 16 (a vector of the widest instruction set) with
copies of the last row; the padding is cut off before the likelihood. If the activations of all rows
would not fit into the cache, rows are processed in tiles, each with its own gradient, and the
gradients are summed. The likelihood is a sum over rows, so this is exact.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network

ROW_MULTIPLE = 16
# Activations of one layer, in elements: above the first number rows are tiled, into tiles of about
# the second (measured: at 100 units and 10,000 rows tiles of 512-1024 rows are 1.5 times faster,
# below 200,000 elements a tile costs more than it saves).
TILE_ABOVE = 2**18
TILE_ELEMENTS = 2**16


class Data(NamedTuple):
    """Training data as the engine takes them.

    Whole tiles are ``(tiles, columns, tile rows)``; the rest is ``(columns, rows)``, its inputs
    padded to a multiple of 16 rows. Small data have no tiles.
    """

    tile_inputs: Array
    tile_targets: Array
    inputs: Array
    targets: Array


def arrange(
    network: Network, x: NDArray[np.generic] | Array, targets: NDArray[np.generic] | Array
) -> Data:
    """Arrange ``x`` of shape ``(rows, inputs)`` and targets ``(rows, columns)`` for the engine."""
    widest, tiles, tile = max(network.units), 0, 0
    if widest * len(x) > TILE_ABOVE:
        tile = max(TILE_ELEMENTS // widest // ROW_MULTIPLE, 1) * ROW_MULTIPLE
        tiles = len(x) // tile
    whole = tiles * tile

    def in_tiles(values: NDArray[np.generic] | Array) -> Array:
        shape = (tiles, tile, values.shape[1])
        return jnp.asarray(values[:whole].reshape(shape).transpose(0, 2, 1))

    return Data(
        tile_inputs=in_tiles(x),
        tile_targets=in_tiles(targets),
        inputs=pad_rows(jnp.asarray(x[whole:].T)),
        targets=jnp.asarray(targets[whole:].T),
    )


def pad_rows(inputs: Array) -> Array:
    """Repeat the last column of ``(inputs, rows)`` up to the next multiple of 16 rows."""
    missing = -inputs.shape[1] % ROW_MULTIPLE
    return jnp.pad(inputs, ((0, 0), (0, missing)), mode="edge") if missing else inputs


def num_rows(data: Data) -> int:
    """Number of rows, padding not counted."""
    tiles, _, tile = data.tile_targets.shape
    return tiles * tile + data.targets.shape[1]


def take_rows(data: Data, rows: Array) -> Data:
    """Some rows of `data` by their positions, as data without tiles; `rows` may be traced.

    Positions count the rows as they were given to `arrange`.
    """
    tiles, _, tile = data.tile_targets.shape
    whole = tiles * tile

    def take(in_tiles: Array, rest: Array) -> Array:
        if not tiles:
            return rest[:, rows]
        tiled = jnp.minimum(rows, whole - 1)
        found = in_tiles[tiled // tile, :, tiled % tile].T
        if not rest.shape[1]:
            return found
        return jnp.where(rows < whole, found, rest[:, jnp.maximum(rows - whole, 0)])

    inputs = take(data.tile_inputs, data.inputs)
    targets = take(data.tile_targets, data.targets)
    return Data(
        tile_inputs=jnp.zeros((0, inputs.shape[0], 0), inputs.dtype),
        tile_targets=jnp.zeros((0, targets.shape[0], 0), targets.dtype),
        inputs=pad_rows(inputs),
        targets=targets,
    )


def log_likelihood(
    network: Network,
    likelihood: Likelihood,
    parameters: Mapping[str, Array],
    hypers: Mapping[str, Array],
    data: Data,
) -> Array:
    """Sum over rows of the log-density of the targets.

    The network's `parameters` are by full name, in natural values, the likelihood's own `hypers` by
    argument name.
    """
    arguments = (dict(parameters), dict(hypers))
    total = jnp.zeros((), data.inputs.dtype)
    if data.targets.shape[1]:
        total += _block(network, likelihood, arguments, (data.inputs, data.targets))
    if data.tile_targets.shape[0]:
        tiles = (data.tile_inputs, data.tile_targets)
        total += _tiled(network, likelihood, arguments, tiles)
    return total


class Outputs(NamedTuple):
    """Outputs of a network for all rows of some `Data`, in its arrangement."""

    tiles: Array
    rest: Array


def outputs(network: Network, parameters: Mapping[str, Array], data: Data) -> Outputs:
    """Outputs for all rows, for use with several values of the likelihood's numbers."""
    return Outputs(
        tiles=jax.lax.map(lambda tile: network.apply(parameters, tile), data.tile_inputs),
        rest=network.apply(parameters, data.inputs)[:, : data.targets.shape[1]],
    )


def log_likelihood_of_outputs(
    likelihood: Likelihood, hypers: Mapping[str, Array], found: Outputs, data: Data
) -> Array:
    """`log_likelihood` where the network's outputs are already known."""
    bound = likelihood.bind(hypers)
    total = jnp.sum(bound.log_density(found.rest, data.targets))
    if data.tile_targets.shape[0]:
        tiles = (found.tiles, data.tile_targets)
        total += jnp.sum(jax.lax.map(lambda tile: jnp.sum(bound.log_density(*tile)), tiles))
    return total


# The network's parameters and the likelihood's hyper-parameters; inputs and targets of some rows.
_Arguments = tuple[dict[str, Array], dict[str, Array]]
_Rows = tuple[Array, Array]


def _block(network: Network, likelihood: Likelihood, arguments: _Arguments, rows: _Rows) -> Array:
    (parameters, hypers), (inputs, targets) = arguments, rows
    outputs = network.apply(parameters, inputs)[:, : targets.shape[1]]
    return jnp.sum(likelihood.bind(hypers).log_density(outputs, targets))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _tiled(network: Network, likelihood: Likelihood, arguments: _Arguments, tiles: _Rows) -> Array:
    def add(total: Array, tile: _Rows) -> tuple[Array, None]:
        return total + _block(network, likelihood, arguments, tile), None

    return jax.lax.scan(add, jnp.zeros((), tiles[0].dtype), tiles)[0]


def _tiled_forward(
    network: Network, likelihood: Likelihood, arguments: _Arguments, tiles: _Rows
) -> tuple[Array, tuple[Any, _Rows]]:
    # The gradient is taken tile by tile on the way forward, while a tile is still in the cache.
    value_and_grad = jax.value_and_grad(functools.partial(_block, network, likelihood))

    def add(total: Any, tile: _Rows) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, value_and_grad(arguments, tile)), None

    zero = (jnp.zeros((), tiles[0].dtype), jax.tree.map(jnp.zeros_like, arguments))
    (value, gradient), _ = jax.lax.scan(add, zero, tiles)
    return value, (gradient, tiles)


def _tiled_backward(
    network: Network, likelihood: Likelihood, residuals: tuple[Any, _Rows], cotangent: Array
) -> tuple[Any, ...]:
    del network, likelihood
    gradient, tiles = residuals
    scaled = jax.tree.map(lambda each: cotangent * each, gradient)
    return scaled, jax.tree.map(jnp.zeros_like, tiles)


_tiled.defvjp(_tiled_forward, _tiled_backward)
