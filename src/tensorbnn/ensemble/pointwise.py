"""What each network says about each row's targets: their log-likelihood, and new ones.

Networks are worked through one at a time, so that the answer is all that takes memory.
"""

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.data import Prepared
from tensorbnn.engine.forward import pad_rows
from tensorbnn.ensemble.draws import Batch
from tensorbnn.inference.sampler import root_key
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision


def log_likelihood(
    network: Network, likelihood: Likelihood, batches: Iterable[Batch], rows: Prepared
) -> NDArray[Any]:
    """Log-density of each row's targets under each network, ``(networks, rows)``."""
    with precision(rows.dtype):
        inputs, targets = pad_rows(jnp.asarray(rows.inputs.T)), jnp.asarray(rows.targets.T)
        found = [
            _log_likelihood(
                network,
                likelihood,
                batch.parameters,
                batch.of_likelihood(likelihood),
                inputs,
                targets,
            )
            for batch in batches
        ]
        return np.concatenate(found)


def new_targets(
    network: Network,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    rows: Prepared,
    *,
    seed: int,
    first_row: int = 0,
    numbers: NDArray[np.intp] | None = None,
) -> NDArray[Any]:
    """A new target from each network for each row, noise included, ``(networks, rows, columns)``.

    Parameters
    ----------
    network, likelihood
        The model.
    batches
        The networks.
    rows
        Where to draw. Where targets are known, new ones have the noise of these.
    seed
        Seed of the noise, which is drawn anew for each network.
    first_row
        Number of the first row, where `rows` are a part of all: each part has noise of its own.
    numbers
        Numbers of the networks, ``(networks,)``, that noise is told apart by; 0, 1, ... by default.
    """
    with precision(rows.dtype):
        inputs, key = jnp.asarray(rows.inputs.T), jax.random.fold_in(root_key(seed), first_row)
        like = jnp.asarray(rows.targets.T) if rows.targets.shape[1] else None
        found: list[NDArray[Any]] = []
        first = 0
        for batch in batches:
            hypers = batch.of_likelihood(likelihood)
            last = first + len(next(iter(batch.parameters.values())))
            own = jnp.arange(first, last) if numbers is None else jnp.asarray(numbers[first:last])
            drawn = _new_targets(
                network, likelihood, key, own, batch.parameters, hypers, inputs, like
            )
            found.append(np.asarray(drawn))
            first = last
        return np.concatenate(found).transpose(0, 2, 1)


def noise_numbers(places: NDArray[np.intp], networks: int) -> NDArray[np.intp]:
    """Numbers for `new_targets` with which a network that comes again has noise of its own.

    `places` are those of the networks among all `networks`.
    """
    order = np.argsort(places, kind="stable")
    ordered, times_before = places[order], np.empty_like(places)
    times_before[order] = np.arange(len(places)) - np.searchsorted(ordered, ordered)
    return places + networks * times_before


@functools.partial(jax.jit, static_argnums=(0, 1))
def _log_likelihood(
    network: Network,
    likelihood: Likelihood,
    parameters: dict[str, Array],
    hypers: dict[str, Array],
    inputs: Array,
    targets: Array,
) -> Array:
    def one(each: tuple[dict[str, Array], dict[str, Array]]) -> Array:
        outputs = network.apply(each[0], inputs)[:, : targets.shape[1]]
        return likelihood.bind(each[1]).log_density(outputs, targets)

    return jax.lax.map(one, (parameters, hypers))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _new_targets(
    network: Network,
    likelihood: Likelihood,
    key: Array,
    numbers: Array,
    parameters: dict[str, Array],
    hypers: dict[str, Array],
    inputs: Array,
    targets: Array | None,
) -> Array:
    def one(each: tuple[Array, dict[str, Array], dict[str, Array]]) -> Array:
        outputs, own = network.apply(each[1], inputs), jax.random.fold_in(key, each[0])
        bound = likelihood.bind(each[2])
        if targets is None:
            return bound.sample(own, outputs)
        return bound.sample_again(own, outputs, targets)

    return jax.lax.map(one, (numbers, parameters, hypers))
