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

from tensorbnn.engine.forward import pad_rows
from tensorbnn.ensemble.prediction import Batch
from tensorbnn.inference.sampler import root_key
from tensorbnn.model.checks import DType
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision


def log_likelihood(
    network: Network,
    likelihood: Likelihood,
    dtype: DType,
    batches: Iterable[Batch],
    x: NDArray[Any],
    targets: NDArray[Any],
) -> NDArray[Any]:
    """Log-density of each row's targets under each network, ``(networks, rows)``.

    Parameters
    ----------
    network, likelihood, dtype
        The model.
    batches
        The networks.
    x
        Inputs ``(rows, inputs)``.
    targets
        ``(rows, n)``, as `Likelihood.targets` returned them.
    """
    with precision(dtype):
        inputs, own = pad_rows(jnp.asarray(x.T)), jnp.asarray(targets.T.astype(dtype))
        found = [_log_likelihood(network, likelihood, *batch, inputs, own) for batch in batches]
        return np.concatenate(found)


def new_targets(
    network: Network,
    likelihood: Likelihood,
    dtype: DType,
    batches: Iterable[Batch],
    x: NDArray[Any],
    targets: NDArray[Any] | None = None,
    *,
    seed: int,
    first_row: int = 0,
    numbers: NDArray[np.intp] | None = None,
) -> NDArray[Any]:
    """A new target from each network for each row, noise included, ``(networks, rows, columns)``.

    Parameters
    ----------
    network, likelihood, dtype
        The model.
    batches
        The networks.
    x
        Inputs ``(rows, inputs)``.
    targets
        ``(rows, n)``, as `Likelihood.targets` returned them: new ones have the noise of these.
    seed
        Seed of the noise, which is drawn anew for each network.
    first_row
        Number of the first row, where `x` is a part of all rows: each part has noise of its own.
    numbers
        Numbers of the networks, ``(networks,)``, that noise is told apart by; 0, 1, ... by default.
    """
    with precision(dtype):
        inputs, key = jnp.asarray(x.T), jax.random.fold_in(root_key(seed), first_row)
        like = None if targets is None else jnp.asarray(targets.T.astype(dtype))
        found: list[NDArray[Any]] = []
        first = 0
        for batch in batches:
            count = len(next(iter(batch.parameters.values())))
            last = first + count
            own = jnp.arange(first, last) if numbers is None else jnp.asarray(numbers[first:last])
            found.append(
                np.asarray(_new_targets(network, likelihood, key, own, *batch, inputs, like))
            )
            first += count
        return np.concatenate(found).transpose(0, 2, 1)


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
