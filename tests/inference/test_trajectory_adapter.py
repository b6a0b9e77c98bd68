"""The search against exact Gaussian-process algebra, on known rewards, and its resets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tensorbnn.inference import trajectory_adapter as ta

STEPS, COUNTS = 20, 30


def make_constants(**changes):
    constants = ta.Constants(
        step_sizes=ta.axis(STEPS),
        num_steps=ta.axis(COUNTS),
        num_steps_min=jnp.asarray(10.0),
        num_steps_increment=jnp.asarray(5.0),
        averaging_steps=jnp.asarray(2),
        a=jnp.asarray(4.0),
        delta=jnp.asarray(0.1),
        k=jnp.asarray(100.0),
        strikes=jnp.asarray(50),
        random_steps=jnp.asarray(20),
    )
    return constants._replace(**{name: jnp.asarray(value) for name, value in changes.items()})


def begin(constants):
    return ta.init(
        constants,
        step_size_min=jnp.asarray(0.01),
        step_size_max=jnp.asarray(0.2),
        step_size=jnp.asarray(0.05),
        num_steps=jnp.asarray(50, jnp.int32),
    )


UPDATE = jax.jit(ta.update)


def squared_distance(count):
    axis = np.linspace(-1, 1, count)
    return (axis[:, None] - axis) ** 2


def carried_kernel():
    """The kernel between all points of the grid, as the features carry it."""
    axes = make_constants().step_sizes.features, make_constants().num_steps.features
    return jnp.kron(*(features @ features.T for features in axes))


def exact_kernel():
    """exp(-|g - g'|^2 / (2 l^2)) over the grid, step sizes major, l = 0.4."""
    distance = (
        squared_distance(STEPS)[:, None, :, None] + squared_distance(COUNTS)[None, :, None, :]
    )
    return np.exp(-0.5 * distance / 0.4**2).reshape(STEPS * COUNTS, -1)


def test_features_carry_the_distance_kernel():
    np.testing.assert_allclose(carried_kernel(), exact_kernel(), atol=2e-5)


@pytest.mark.slow
def test_covariance_is_positive_definite():
    """The kernel itself, and the regression's covariance after many candidates, in float32."""
    kernel = np.asarray(carried_kernel(), np.float64)
    assert np.linalg.eigvalsh(kernel + ta.NOISE_VARIANCE * np.eye(len(kernel))).min() > 0.09
    constants = make_constants(random_steps=1_000_000, averaging_steps=1)
    adapter = begin(constants)
    rewards = np.random.default_rng(0).exponential(size=600)
    for index, reward in enumerate(rewards):
        adapter = UPDATE(jax.random.key(index), adapter, constants, jnp.asarray(reward), True)
    assert int(adapter.tried) == 600
    assert np.linalg.eigvalsh(np.asarray(adapter.covariance, np.float64)).min() > 0


def tell(adapter, constants, rewards, seed=0):
    """Let candidates have the given rewards; returns the adapter and the grid points tried."""
    tried = []
    for index, reward in enumerate(rewards):
        tried.append(grid_index(adapter))
        jump = reward * np.sqrt(float(adapter.num_steps))
        for part in range(int(constants.averaging_steps)):
            key = jax.random.fold_in(jax.random.key(seed), 10 * index + part)
            adapter = UPDATE(key, adapter, constants, jnp.asarray(jump), jnp.asarray(True))
    return adapter, np.asarray(tried)


def grid_index(adapter):
    low, high = float(adapter.step_size_min), float(adapter.step_size_max)
    step = round((float(adapter.step_size) - low) / (high - low) * (STEPS - 1))
    return step * COUNTS + round((int(adapter.num_steps) - 10) / 5)


def test_posterior_is_that_of_the_gaussian_process():
    constants = make_constants()
    rewards = np.random.default_rng(1).uniform(0.5, 2.0, 15)
    adapter, tried = tell(begin(constants), constants, rewards)
    kernel = exact_kernel()
    gram = kernel[np.ix_(tried, tried)] + ta.NOISE_VARIANCE * np.eye(15)
    cross = kernel[:, tried]
    mean = cross @ np.linalg.solve(gram, rewards)
    variance = 1 - np.einsum("gi,ig->g", cross, np.linalg.solve(gram, cross.T))
    found_mean, found_sd = ta.posterior(adapter, constants)
    np.testing.assert_allclose(np.ravel(found_mean), mean, atol=2e-3)
    np.testing.assert_allclose(np.ravel(found_sd), np.sqrt(variance), atol=2e-3)


@pytest.mark.slow
def test_next_candidate_has_the_highest_bound():
    constants = make_constants(random_steps=3, k=5)
    rewards = np.random.default_rng(2).uniform(0.5, 2.0, 9)
    adapter, _ = tell(begin(constants), constants, rewards)
    mean, sd = (np.asarray(each, np.float64) for each in ta.posterior(adapter, constants))
    beta = 2 * np.log(10**3 * np.pi**2 / 0.3)
    bound = 4 / rewards.max() * mean + (9 - 5 + 1) ** -0.5 * np.sqrt(beta) * sd
    assert bound.ravel()[grid_index(adapter)] == pytest.approx(bound.max(), rel=1e-4)


def test_finds_the_best_of_a_known_reward():
    """A noisy reward with its peak inside the grid: the search settles where it is high."""
    constants = make_constants()
    adapter = begin(constants)
    sizes, counts = np.linspace(-1, 1, STEPS), np.linspace(-1, 1, COUNTS)
    truth = np.exp(
        -((sizes[:, None] - 0.3) ** 2) / 0.3 - (counts[None, :] + 0.4) ** 2 / 0.5
    ).ravel()
    rng = np.random.default_rng(3)
    for index in range(150):
        reward = truth[grid_index(adapter)] * rng.uniform(0.7, 1.3)
        adapter, _ = tell(adapter, constants, [reward], seed=index)
    late = grid_index(adapter)
    assert truth[late] > 0.5
    assert truth[grid_index(ta.settle(adapter, constants))] > 0.9


def test_first_candidates_are_random():
    constants = make_constants()
    _, tried = tell(begin(constants), constants, np.ones(20))
    assert len(set(tried[1:].tolist())) > 15
    assert np.abs(np.corrcoef(tried[1:] // COUNTS, tried[1:] % COUNTS)[0, 1]) < 0.7


def test_fifty_rejections_start_the_search_again():
    constants = make_constants()
    adapter, _ = tell(begin(constants), constants, np.ones(5))
    for index in range(49):
        adapter = UPDATE(jax.random.key(index), adapter, constants, jnp.asarray(0.0), False)
    assert int(adapter.resets) == 0
    assert int(adapter.rejected) == 49
    adapter = UPDATE(jax.random.key(99), adapter, constants, jnp.asarray(0.0), False)
    assert int(adapter.resets) == 1
    assert (int(adapter.tried), int(adapter.rejected)) == (0, 0)
    np.testing.assert_allclose([adapter.step_size_min, adapter.step_size_max], [0.005, 0.1])
    assert 0.0049 < float(adapter.step_size) < 0.1001  # the new grid is searched
    np.testing.assert_array_equal(adapter.weights, 0)
    adapter, tried = tell(adapter, constants, np.ones(20), seed=5)
    assert len(set(tried.tolist())) > 15  # and its first candidates are random again


def test_an_acceptance_starts_the_count_of_rejections_anew():
    constants = make_constants()
    adapter = begin(constants)
    for index in range(120):
        accepted = jnp.asarray(index % 40 == 39)
        adapter = UPDATE(jax.random.key(index), adapter, constants, jnp.asarray(0.1), accepted)
    assert int(adapter.resets) == 0


def test_settling_without_any_acceptance_changes_nothing():
    constants = make_constants()
    adapter = begin(constants)
    settled = ta.settle(adapter, constants)
    assert float(settled.step_size) == float(adapter.step_size)
    assert int(settled.num_steps) == int(adapter.num_steps)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 40, 991])
def test_features_of_any_length_carry_the_kernel(count):
    points = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    kernel = np.exp(-0.5 * np.square((points[:, None] - points) / ta.LENGTH_SCALE))
    features = np.asarray(ta.axis(count).features, np.float64)
    # What is left out of the kernel are its parts below a millionth of the largest.
    values = np.linalg.eigvalsh(kernel)
    left_out = ta.SMALLEST_EIGENVALUE * values[-1]
    error = np.linalg.norm(features @ features.T - kernel, 2)
    assert error < left_out + 10 * values[-1] * np.finfo(np.float32).eps
