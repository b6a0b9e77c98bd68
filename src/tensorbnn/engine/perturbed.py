"""The mean log-likelihood of Gaussian parameters, estimated with separate noise for each row.

Let every parameter be an independent Gaussian, ``w = m + s e`` with ``e ~ N(0, 1)``. A
log-likelihood is a sum over rows, so its mean over ``e`` stays the same if each row has its own
draw of the parameters. Errors of the rows then average out; with one shared draw they would add up.
For a dense layer with inputs ``h_n`` of row ``n``, this is done

by Flipout (Wen et al. 2018): one draw ``D`` of ``s e`` for all rows, with random signs for each,

    W_n.T h_n = M.T h_n + (D.T (h_n * r_n)) * q_n,        r_n, q_n random vectors of -1 and 1

or by the local reparametrization (Kingma et al. 2015), which draws the outputs of the layer,

    W_n.T h_n ~ N(M.T h_n, (S**2).T h_n**2)

Other layers, and positive parameters, have one draw for all rows.
"""

import itertools
from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data
from tensorbnn.model.layers import AbstractDense, Layer
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network

Estimator = Literal["flipout", "local", "shared"]

Named = Mapping[str, Array]


class Scatter(NamedTuple):
    """Gaussian parameters by name: their means, their sds, and one draw, in natural values.

    `sd` is used only for parameters on the real line. `side` is 1, or -1 in an estimate that is the
    mirror image of another: its `draw` is then reflected at the mean.
    """

    mean: Named
    sd: Named
    draw: Named
    side: Array

    def of_layer(self, name: str) -> "Scatter":
        """Those of one layer, by their short names."""
        start = f"{name}."
        mean, sd, draw = (
            {key.removeprefix(start): each[key] for key in each if key.startswith(start)}
            for each in (self.mean, self.sd, self.draw)
        )
        return Scatter(mean, sd, draw, self.side)


def log_likelihood(
    network: Network,
    likelihood: Likelihood,
    key: Array,
    scatter: Scatter,
    hypers: Named,
    data: Data,
    estimator: Estimator,
) -> Array:
    """An unbiased estimate of the mean log-likelihood, with unbiased derivatives.

    The network's parameters in `scatter` have full names; the rest is as for
    `forward.log_likelihood`. Rows get their noise by ``"flipout"``, by the ``"local"``
    reparametrization, or it is ``"shared"`` by all rows.
    """
    if estimator == "shared":
        return forward.log_likelihood(network, likelihood, scatter.draw, hypers, data)

    def block(key: Array, inputs: Array, targets: Array) -> Array:
        outputs = _outputs(network, estimator, key, scatter, inputs)[:, : targets.shape[1]]
        return jnp.sum(likelihood.bind(hypers).log_density(outputs, targets))

    total, tiles = jnp.zeros((), data.inputs.dtype), data.tile_targets.shape[0]
    if data.targets.shape[1]:
        total += block(jax.random.fold_in(key, 0), data.inputs, data.targets)
    if tiles:
        keys = jax.random.split(jax.random.fold_in(key, 1), tiles)
        each = (keys, data.tile_inputs, data.tile_targets)
        # Activations are recomputed for the gradient, tile by tile, rather than kept for all.
        total += jnp.sum(jax.lax.map(jax.checkpoint(lambda tile: block(*tile)), each))
    return total


def has_own_rows(layer: Layer) -> bool:
    """Whether each row can have its own parameters: those of dense layers, on the real line."""
    return (
        isinstance(layer, AbstractDense)
        and type(layer).apply is AbstractDense.apply
        and type(layer).parameters is AbstractDense.parameters
        and layer.weight_prior.support == layer.bias_prior.support == "real"
    )


def _flipout(own: Scatter, h: Array, signs: Array) -> Array:
    """Outputs of a dense layer for ``h`` of shape ``(inputs, rows)``, by Flipout."""
    mean = own.mean["weights"].T @ h + own.mean["biases"][:, None]
    weights, biases = (own.draw[name] - own.mean[name] for name in ("weights", "biases"))
    inputs, outputs, of_biases = jnp.split(signs, [len(h), len(h) + len(mean)])
    return mean + outputs * (weights.T @ (inputs * h)) + of_biases * biases[:, None]


def _local(own: Scatter, h: Array, normals: Array) -> Array:
    """Outputs of a dense layer for ``h`` of shape ``(inputs, rows)``, by local draws."""
    mean = own.mean["weights"].T @ h + own.mean["biases"][:, None]
    variance = jnp.square(own.sd["weights"]).T @ jnp.square(h)
    variance += jnp.square(own.sd["biases"])[:, None]
    return mean + own.side * jnp.sqrt(variance) * normals


def _signs(key: Array, count: int, rows: int) -> Array:
    """Random signs ``(count, rows)``, each from one random bit."""
    words = jax.random.bits(key, (-(-count // 32), 1, rows), jnp.uint32)
    bits = (words >> jnp.arange(32, dtype=jnp.uint32)[None, :, None]) & jnp.uint32(1)
    return 1 - 2 * bits.reshape(-1, rows)[:count].astype(float)


def _outputs(
    network: Network, estimator: Estimator, key: Array, scatter: Scatter, h: Array
) -> Array:
    """Outputs of the network, with separate noise for each row."""
    flipout = estimator == "flipout"
    pairs = zip(network.layers, itertools.pairwise(network.units), strict=True)
    counts = [
        (inputs + 2 * outputs if flipout else outputs) if has_own_rows(layer) else 0
        for layer, (inputs, outputs) in pairs
    ]
    # Drawn all at once, because every call of the generator takes long to compile.
    shape = sum(counts), h.shape[1]
    noise = _signs(key, *shape) if flipout else jax.random.normal(key, shape)
    parts = jnp.split(noise, np.cumsum(counts)[:-1])
    apply = _flipout if flipout else _local
    for name, layer, part in zip(network.names, network.layers, parts, strict=True):
        own = scatter.of_layer(name)
        h = apply(own, h, part) if has_own_rows(layer) else layer.apply(own.draw, h)
    return h
