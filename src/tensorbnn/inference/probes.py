"""Outputs of the network at a few inputs: what samplers are tuned to move.

Half of the probe inputs are training rows, half lie around them, where predictions are extrapolated
and chains mix least: a row plus half the difference of two others. Without data they are standard
normal. They follow from the data alone, so that a run that is taken up again has the same.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.engine.forward import Data
from tensorbnn.inference.target import TargetDensity

# Outputs in all, about: more of them say hardly more, fewer might miss a slow one.
FEATURES = 32
LEAST_PROBES = 8


def num_features(target: TargetDensity) -> int:
    """Number of values `features` has."""
    return _num_probes(target) * target.model.network.outputs


def features(target: TargetDensity, theta: Array) -> Array:
    """Outputs of the network with parameters `theta` at all probe inputs, ``(num_features,)``."""
    parameters = target.model.theta.unflatten(theta)
    return target.model.network.apply(parameters, probe_inputs(target)).reshape(-1)


def probe_inputs(target: TargetDensity) -> Array:
    """The probe inputs, ``(inputs, probes)``."""
    count = _num_probes(target)
    if target.data is None:
        shape = (target.model.network.inputs, count)
        return jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype=float)
    # Rows are picked evenly; the three that make a point around them are far from each other.
    half = count // 2
    picked = np.arange(count - half) / (count - half)
    places = [(np.arange(half) * ratio + 0.5 / half) % 1.0 for ratio in _RATIOS]
    base, plus, minus = (_rows(target.data, each) for each in places)
    return jnp.concatenate([_rows(target.data, picked), base + (plus - minus) / 2], axis=1)


# Fractional parts of powers of the plastic number: multiples of them are spread evenly in 3-D.
_RATIOS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)


def _num_probes(target: TargetDensity) -> int:
    return max(FEATURES // target.model.network.outputs, LEAST_PROBES)


def _rows(data: Data, places: NDArray[np.floating[Any]]) -> Array:
    """Rows at `places` in [0, 1) of all rows, ``(inputs, places)``."""
    tiles, _, size = data.tile_inputs.shape
    whole = tiles * size
    rows = (places * (whole + data.targets.shape[1])).astype(int)
    found = [
        data.tile_inputs[row // size, :, row % size] if row < whole else data.inputs[:, row - whole]
        for row in rows.tolist()
    ]
    return jnp.stack(found, axis=1)
