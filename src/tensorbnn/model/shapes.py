"""Checks of the shapes that layers, priors and likelihoods return, mainly the user's own.

A density of the wrong shape would be broadcast and summed silently, and the wrong posterior would
be sampled. So a posterior traces everything once, without numbers, when it is made.
"""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.model.layout import Layout, bind_hypers
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.rows import RowLikelihood

# An unlikely number of units, so that rows are not taken for units.
ROWS = 37
ELEMENTS = 3


@functools.lru_cache(maxsize=64)
def check_shapes(
    network: Network, likelihood: Likelihood, theta: Layout, phi: Layout, num_targets: int | None
) -> None:
    """Raise if a layer, prior or likelihood returns an array of the wrong shape.

    `num_targets` is the number of columns that the likelihood takes; ``None`` without data.
    """

    def trace(theta_vector: Array, phi_vector: Array) -> None:
        hypers = phi.unflatten(phi_vector)
        for layout in (theta, phi):
            _check_priors(layout, hypers)
        outputs = _check_layers(network, theta.unflatten(theta_vector))
        if num_targets is not None:
            bound = bind_hypers("likelihood", likelihood, hypers)
            targets = jnp.zeros((num_targets, ROWS))
            if isinstance(bound, RowLikelihood):
                # With error bars, the likelihood's own density is not used.
                parts, bound = bound.split(targets), bound.likelihood
                if parts.y_sd is not None:
                    _check_sd(bound, outputs, parts.y_sd)
                    return
                targets = parts.targets
            _check(
                f"`log_density` of {type(bound).__name__}",
                bound.log_density(outputs, targets),
                (ROWS,),
                f"for outputs of shape {outputs.shape} and targets of shape {targets.shape}, one "
                "number for each row",
            )

    jax.eval_shape(trace, jnp.zeros(theta.size), jnp.zeros(phi.size))


def _check_priors(layout: Layout, hypers: dict[str, Array]) -> None:
    kinds = {type(entry.prior): entry for entry in reversed(layout.entries)}
    for entry in kinds.values():
        prior = bind_hypers(entry.name, entry.prior, hypers)
        kind = type(prior).__name__
        pair: Any = prior.location_scale()
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                f"`location_scale` of {kind}, the prior of {entry.name}, must return a pair, "
                f"center and width, but returned {pair!r}"
            )
        _check(
            f"`log_density` of {kind}, the prior of {entry.name},",
            prior.log_density(jnp.zeros(ELEMENTS)),
            (ELEMENTS,),
            f"for values of shape ({ELEMENTS},), one number for each",
        )


def _check_sd(likelihood: Likelihood, outputs: Array, y_sd: Array) -> None:
    name, given = type(likelihood).__name__, f"for error bars of shape {y_sd.shape}"
    _check(f"`sd_of_rows` of {name}", likelihood.sd_of_rows(outputs, y_sd), y_sd.shape, given)


def _check_layers(network: Network, parameters: dict[str, Array]) -> Array:
    h = jnp.zeros((network.inputs, ROWS))
    pairs = itertools.pairwise(network.units)
    each_layer = zip(network.each_layer(parameters), pairs, strict=True)
    for (name, layer, own), (units, outputs) in each_layer:
        h = layer.apply(own, h)
        _check(
            f"`apply` of {type(layer).__name__} ({name})",
            h,
            (outputs, ROWS),
            f"for inputs of shape ({units}, {ROWS}), as its `outputs({units})` is {outputs}",
        )
    return h


def _check(what: str, found: Any, shape: tuple[int, ...], given: str) -> None:
    if not hasattr(found, "shape") or not hasattr(found, "dtype"):
        raise TypeError(f"{what} must return an array of shape {shape}, but returned {found!r}")
    if found.shape != shape:
        raise ValueError(
            f"{what} must return an array of shape {shape} {given}, but its shape is {found.shape}"
        )
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise TypeError(f"{what} must return floating-point numbers, but returned {found.dtype}")
