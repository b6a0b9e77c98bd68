"""The paper's search for the step size and the number of leapfrog steps.

After Wang, Mohamed & de Freitas (2013), "Adaptive Hamiltonian and Riemann manifold Monte Carlo
samplers". Candidates are a grid of step sizes and leapfrog counts between bounds. The reward of a
candidate ``g`` is the squared jump of its trajectories over the square root of their number of
steps, averaged over a few of them. A Gaussian process over the grid, scaled to [-1, 1]^2, with
the kernel

    k(g, g') = exp(-|g - g'|^2 / (2 l^2)),      l = 0.2 times the range,

learns the reward, and the next candidate is the one with the highest

    s mean(g) + p sqrt(beta) sd(g),
    s = a / (highest reward so far),  p = max(i - k + 1, 1)^(-1/2),
    beta = 2 log((i + 1)^3 pi^2 / (3 delta)),

where ``i`` counts candidates. The paper makes two changes: after every (re)start, the first 20
candidates are random, and 50 consecutive rejections restart the search with both bounds of the step
size halved.

The kernel is so smooth that a dozen eigenvectors of each axis represent it up to float32 rounding.
With these as features, the process is a linear regression with a constant cost per candidate.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.inference.sampler import select

LENGTH_SCALE = 0.2 * 2  # of the range [-1, 1]
# Eigenvectors of an axis below this share of the largest are left out.
SMALLEST_EIGENVALUE = 1e-6
SMALLEST_SINGULAR_VALUE = 1e-7
SMALLEST_PIVOT = 1e-12
# Variance of a reward around its expectation, in units of the process's own variance.
NOISE_VARIANCE = 0.1


class Axis(NamedTuple):
    """One axis of the grid, in the eigenvectors of its kernel."""

    features: Array
    """``(points, features)``: their inner products are the kernel between the points."""
    squares: Array
    """``(points, rank)``: about twenty columns, a basis for the products of pairs of features."""
    pairs: Array
    """``(rank, features * features)``: ``squares @ pairs`` are the products."""


class Constants(NamedTuple):
    """Constants of the search: the grid, and the numbers of the paper."""

    step_sizes: Axis
    num_steps: Axis
    num_steps_min: Array
    num_steps_increment: Array
    averaging_steps: Array
    a: Array
    delta: Array
    k: Array
    strikes: Array
    random_steps: Array


class Adapter(NamedTuple):
    """State of the search of one chain.

    `weights` and `covariance` are the posterior mean and covariance of the regression's weights.
    """

    step_size_min: Array
    step_size_max: Array
    step_size: Array
    num_steps: Array
    features: Array
    weights: Array
    covariance: Array
    highest: Array
    tried: Array
    reward_sum: Array
    trajectories: Array
    rejected: Array
    resets: Array


def axis(count: int) -> Axis:
    """An axis of `count` evenly spaced points on [-1, 1].

    Examples
    --------
    >>> features, squares, pairs = axis(40)
    >>> bool(jnp.allclose(jnp.diag(features @ features.T), 1, atol=1e-4))
    True
    >>> products = features[:, :, None] * features[:, None, :]
    >>> bool(jnp.allclose(squares @ pairs, products.reshape(40, -1), atol=1e-5))
    True
    >>> features.shape, squares.shape
    ((40, 11), (40, 21))
    """
    points = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    # The singular vectors of a factor of the kernel are the kernel's eigenvectors.
    vectors, values, _ = np.linalg.svd(_factor(points), full_matrices=False)
    keep = values**2 > SMALLEST_EIGENVALUE * values[0] ** 2
    features = vectors[:, keep] * values[keep]
    products = (features[:, :, None] * features[:, None, :]).reshape(count, -1)
    left, values, right = np.linalg.svd(products, full_matrices=False)
    keep = values > SMALLEST_SINGULAR_VALUE * values[0]
    parts = (features, left[:, keep] * values[keep], right[keep])
    return Axis(*(jnp.asarray(part, dtype=float) for part in parts))


def _factor(points: NDArray[Any]) -> NDArray[Any]:
    """``(points, rank)`` whose square is the kernel up to rounding, by pivoted Cholesky.

    The kernel itself is never computed: for the paper's 9,901 numbers of steps it needs 800 MB.
    """
    factor, left = np.zeros((len(points), 0)), np.ones(len(points))
    while left.max() > SMALLEST_PIVOT:
        pivot = int(np.argmax(left))
        column = np.exp(-0.5 * np.square((points - points[pivot]) / LENGTH_SCALE))
        column = (column - factor @ factor[pivot]) / np.sqrt(left[pivot])
        factor = np.column_stack([factor, column])
        left = np.maximum(left - np.square(column), 0.0)
        left[pivot] = 0.0
    return factor


def init(
    constants: Constants,
    *,
    step_size_min: Array,
    step_size_max: Array,
    step_size: Array,
    num_steps: Array,
) -> Adapter:
    """Begin a search between bounds; the first candidate is the given one."""
    size = constants.step_sizes.features.shape[1] * constants.num_steps.features.shape[1]
    zero = jnp.zeros_like(step_size)
    count = jnp.zeros((), jnp.int32)
    adapter = Adapter(
        step_size_min=step_size_min,
        step_size_max=step_size_max,
        step_size=step_size,
        num_steps=num_steps,
        features=jnp.zeros(size, step_size.dtype),
        weights=jnp.zeros(size, step_size.dtype),
        covariance=jnp.eye(size, dtype=step_size.dtype),
        highest=zero,
        tried=count,
        reward_sum=zero,
        trajectories=count,
        rejected=count,
        resets=count,
    )
    size_index = jnp.argmin(jnp.abs(_step_sizes(adapter, constants) - step_size))
    distances = jnp.abs(_step_counts(constants) - num_steps.astype(step_size.dtype))
    return adapter._replace(features=_features(constants, size_index, jnp.argmin(distances)))


def update(
    key: Array, adapter: Adapter, constants: Constants, squared_jump: Array, accepted: Array
) -> Adapter:
    """Update with a trajectory of the current candidate, and choose the next one when due."""
    reward = squared_jump / jnp.sqrt(adapter.num_steps.astype(squared_jump.dtype))
    adapter = adapter._replace(
        reward_sum=adapter.reward_sum + reward,
        trajectories=adapter.trajectories + 1,
        rejected=jnp.where(accepted, 0, adapter.rejected + 1),
    )
    stuck = adapter.rejected >= constants.strikes
    due = adapter.trajectories >= constants.averaging_steps
    return jax.lax.cond(
        stuck,
        lambda: _reset(key, adapter, constants),
        lambda: jax.lax.cond(due, lambda: _next(key, adapter, constants), lambda: adapter),
    )


def settle(adapter: Adapter, constants: Constants) -> Adapter:
    """End the search at the candidate with the highest expected reward."""
    settled = _choose(adapter, constants, _highest(_on_grid(constants, adapter.weights)))
    return select(adapter.highest <= 0, adapter, settled)  # unchanged if nothing was accepted


def posterior(adapter: Adapter, constants: Constants) -> tuple[Array, Array]:
    """Mean and sd of the reward over the grid, each ``(step sizes, numbers of steps)``."""
    sizes, counts = constants.step_sizes, constants.num_steps
    # phi(g)^T C phi(g), where phi(g) is the outer product of the features of both axes, summed over
    # pairs of features first.
    shape = sizes.features.shape[1], counts.features.shape[1]
    covariance = adapter.covariance.reshape(*shape, *shape).transpose(0, 2, 1, 3)
    by_pairs = covariance.reshape(shape[0] ** 2, shape[1] ** 2)
    inner = sizes.pairs @ by_pairs @ counts.pairs.T
    variance = sizes.squares @ inner @ counts.squares.T
    return _on_grid(constants, adapter.weights), jnp.sqrt(jnp.maximum(variance, 0.0))


def _next(key: Array, adapter: Adapter, constants: Constants) -> Adapter:
    """Learn the reward of the current candidate and choose the next."""
    reward = adapter.reward_sum / adapter.trajectories.astype(adapter.reward_sum.dtype)
    # Condition a Gaussian on one more observation, phi . weights + noise = reward.
    phi = adapter.features
    toward = adapter.covariance @ phi
    variance = NOISE_VARIANCE + phi @ toward
    learned = adapter._replace(
        weights=adapter.weights + toward * (reward - phi @ adapter.weights) / variance,
        covariance=adapter.covariance - toward[:, None] * toward[None, :] / variance,
        highest=jnp.maximum(adapter.highest, reward),
        tried=adapter.tried + 1,
        reward_sum=jnp.zeros_like(reward),
        trajectories=jnp.zeros_like(adapter.trajectories),
    )
    return jax.lax.cond(
        learned.tried < constants.random_steps,
        lambda: _choose(learned, constants, _random(key, constants)),
        lambda: _choose(learned, constants, _highest(_upper_confidence_bound(learned, constants))),
    )


def _reset(key: Array, adapter: Adapter, constants: Constants) -> Adapter:
    """Begin again with both bounds of the step size halved, at a random candidate."""
    fresh = init(
        constants,
        step_size_min=0.5 * adapter.step_size_min,
        step_size_max=0.5 * adapter.step_size_max,
        step_size=adapter.step_size,
        num_steps=adapter.num_steps,
    )
    fresh = fresh._replace(resets=adapter.resets + 1)
    return _choose(fresh, constants, _random(key, constants))


def _upper_confidence_bound(adapter: Adapter, constants: Constants) -> Array:
    mean, sd = posterior(adapter, constants)
    tried = adapter.tried.astype(mean.dtype)
    beta = 2 * jnp.log((tried + 1) ** 3 * math.pi**2 / (3 * constants.delta))
    p = jnp.maximum(tried - constants.k + 1, 1.0) ** -0.5
    scale = jnp.where(adapter.highest > 0, constants.a / adapter.highest, 0.0)
    return scale * mean + p * jnp.sqrt(beta) * sd


def _on_grid(constants: Constants, weights: Array) -> Array:
    sizes, counts = constants.step_sizes.features, constants.num_steps.features
    return sizes @ weights.reshape(sizes.shape[1], counts.shape[1]) @ counts.T


def _highest(grid: Array) -> Array:
    """Flat index of the highest point of the grid, step sizes major."""
    # XLA vectorizes the maximum over step sizes, but searches a flat grid number by number.
    column = jnp.argmax(jnp.max(grid, axis=0))
    return jnp.argmax(grid[:, column]) * grid.shape[1] + column


def _random(key: Array, constants: Constants) -> Array:
    count = constants.step_sizes.features.shape[0] * constants.num_steps.features.shape[0]
    return jax.random.randint(key, (), 0, count)


def _choose(adapter: Adapter, constants: Constants, index: Array) -> Adapter:
    """Make the grid point number `index` (step sizes major) the current candidate."""
    columns = constants.num_steps.features.shape[0]
    size_index, count_index = index // columns, index % columns
    return adapter._replace(
        step_size=_step_sizes(adapter, constants)[size_index],
        num_steps=jnp.rint(_step_counts(constants)[count_index]).astype(jnp.int32),
        features=_features(constants, size_index, count_index),
    )


def _features(constants: Constants, size_index: Array, count_index: Array) -> Array:
    size = constants.step_sizes.features[size_index]
    count = constants.num_steps.features[count_index]
    return (size[:, None] * count[None, :]).reshape(-1)


def _step_sizes(adapter: Adapter, constants: Constants) -> Array:
    """The candidates' step sizes, evenly spaced between the current bounds."""
    count = constants.step_sizes.features.shape[0]
    fraction = jnp.arange(count, dtype=adapter.step_size.dtype) / max(count - 1, 1)
    return adapter.step_size_min + fraction * (adapter.step_size_max - adapter.step_size_min)


def _step_counts(constants: Constants) -> Array:
    count = constants.num_steps.features.shape[0]
    dtype = constants.num_steps.features.dtype
    return constants.num_steps_min + jnp.arange(count, dtype=dtype) * constants.num_steps_increment
