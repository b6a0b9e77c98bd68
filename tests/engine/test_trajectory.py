"""Whole trajectories of the native engine against the integrator of `hmc`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import library, trajectory
from tensorbnn.inference import hmc
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        library.problem() is not None, reason=f"no native engine: {library.problem()}"
    ),
]
Hyper = tb.Hyper

# Between them, every prior: of parameters, of hyper-parameters, truncated, and with each argument a
# number or a `Hyper`.
NETWORKS = {
    "default": tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(1), inputs=2),
    "Cauchy": tb.Network(
        *(tb.CauchyDense(5), tb.PReLU(), tb.CauchyDense(2), tb.SquarePReLU(), tb.Dense(1)),
        inputs=2,
    ),
    "others": tb.Network(
        tb.Dense(
            3,
            tb.StudentT(3.0, 0.0, Hyper(1.0, tb.StudentT(4.0, 0.5, 1.0))),
            tb.Laplace(Hyper(0.1, tb.Laplace()), 0.5),
        ),
        tb.Tanh(),
        tb.Dense(
            4,
            tb.LogNormal(Hyper(-1.0, tb.Normal()), 0.5),
            tb.HalfNormal(Hyper(0.5, tb.LogNormal(-1.0, 0.3))),
        ),
        tb.Tanh(),
        tb.Dense(
            4,
            tb.Normal(0.0, Hyper(0.5, tb.GammaPrecision(0.5, 2.0))),
            tb.Exponential(Hyper(2.0, tb.HalfNormal(2.0))),
        ),
        tb.Tanh(),
        tb.Dense(
            1,
            tb.Normal(
                Hyper(0.1, tb.Cauchy(Hyper(0.3, tb.Normal()), 0.7)), Hyper(1.0, tb.Cauchy(0.5, 1))
            ),
            tb.Cauchy(0.0, Hyper(1.0, tb.Laplace(0.5, 0.5))),
        ),
        inputs=2,
    ),
    "two columns": tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(2), inputs=2),
    "fixed": tb.Network(
        tb.Dense(3, tb.GammaPrecision(1.0, 2.0), tb.StudentT(5.0)),
        tb.Tanh(),
        tb.Dense(1, tb.Normal(0.5, 2.0), tb.Cauchy()),
        inputs=2,
    ),
}


@pytest.fixture(autouse=True)
def as_before():
    before = library.instruction_set()
    yield
    library.use_instruction_set(before)
    library.use_threads(0)


GAUSSIAN, MEASURED = tb.Gaussian(Hyper(0.5)), tb.MeasuredGaussian(Hyper(0.8))
# Widths of the noise for two columns, some learned.
OWN_GAUSSIAN = tb.Gaussian([Hyper(0.5), Hyper(0.9, tb.HalfNormal())])
OWN_MEASURED = tb.MeasuredGaussian([0.7, Hyper(0.8)])
LIKELIHOODS = [
    *((name, GAUSSIAN) for name in NETWORKS),
    *(("default", MEASURED), ("two columns", OWN_GAUSSIAN), ("two columns", OWN_MEASURED)),
]


def targets(network, dtype, *, held, rows=11, likelihood=GAUSSIAN):
    """The same density by both engines."""
    rng = np.random.default_rng(0)
    columns = network.outputs
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=(rows, columns))
    own = {"y_sd": rng.uniform(0.2, 2, size=(rows, columns))}
    own = own if isinstance(likelihood, tb.MeasuredGaussian) else {}
    found = []
    for engine in ("native", "jax"):
        posterior = tb.Posterior(network, likelihood, x, y, **own, dtype=dtype, engine=engine)
        hypers = posterior.flatten_hyperparameters(posterior.model.start_hypers())
        found.append(
            TargetDensity(posterior.model, posterior._arrays, jnp.asarray(hypers) if held else None)
        )
    return found


@pytest.mark.parametrize("held", [False, True], ids=["sampled", "held"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "likelihood"), LIKELIHOODS)
def test_trajectories_agree(name, likelihood, dtype, held):
    """One chain, and more than there are lanes, each with its own step size and count."""
    rng = np.random.default_rng(1)
    chains = 20
    with precision(dtype):
        ours, theirs = targets(NETWORKS[name], dtype, held=held, likelihood=likelihood)
        shape = (chains, ours.dimension)
        position, momentum = (
            jnp.asarray(scale * rng.normal(size=shape), dtype) for scale in (0.5, 1)
        )
        num_steps = jnp.asarray(rng.integers(1, 6, size=chains), jnp.int32)
        step_size = jnp.asarray(rng.uniform(0.01, 0.02, size=chains), dtype)
        value_and_grad = jax.value_and_grad(theirs.log_density)

        def plain(position, momentum, step_size, num_steps):
            value, gradient = value_and_grad(position)
            start = trajectory.Phase(position, momentum, value, gradient)
            return start, hmc.leapfrog(value_and_grad, start, step_size, num_steps)

        arguments = (position, momentum, step_size, num_steps)
        start, expected = jax.jit(jax.vmap(plain))(*arguments)
        follow = ours.value_and_grad.follow
        assert follow is not None
        together = jax.jit(jax.vmap(follow))
        alone = jax.jit(follow)
        first = jax.tree.map(lambda leaf: leaf[0], (start, step_size, num_steps))
        for instruction_set in library.instruction_sets():
            library.use_instruction_set(instruction_set)
            check(together(start, step_size, num_steps), expected, dtype)
            check(alone(*first), jax.tree.map(lambda leaf: leaf[0], expected), dtype)


def check(found, expected, dtype):
    # A few steps, each with the roundings of a gradient.
    tolerance = 100 * np.finfo(dtype).eps
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        largest = np.max(np.abs(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * largest)


@pytest.mark.parametrize("chains", [1, 17])
def test_diagonal_mass(chains):
    """A step size for each coordinate is HMC with a diagonal mass, and scaled momenta."""
    rng = np.random.default_rng(5)
    with precision("float64"):
        ours, theirs = targets(NETWORKS["default"], "float64", held=False)
        shape = (chains, ours.dimension)
        position, momentum = (jnp.asarray(0.5 * rng.normal(size=shape)) for _ in range(2))
        mass = np.broadcast_to(rng.uniform(0.5, 2, size=ours.dimension), shape)
        step_size, steps = 0.01, 5
        gradient = jax.jit(jax.vmap(jax.grad(theirs.log_density)))
        value = jax.jit(jax.vmap(theirs.log_density))
        q, p = position, momentum * np.sqrt(mass)
        for _ in range(steps):
            p = p + step_size / 2 * gradient(q)
            q = q + step_size * p / mass
            p = p + step_size / 2 * gradient(q)
        sizes = jnp.asarray(step_size / np.sqrt(mass))
        start = trajectory.Phase(position, momentum, value(position), gradient(position))
        follow = jax.jit(jax.vmap(ours.value_and_grad.follow))
        for instruction_set in library.instruction_sets():
            library.use_instruction_set(instruction_set)
            found = follow(start, sizes, jnp.full(chains, steps))
            check(found, (q, p / np.sqrt(mass), value(q), gradient(q)), "float64")


def test_batches_of_batches():
    ours, _ = targets(NETWORKS["default"], "float32", held=False)
    rng = np.random.default_rng(6)
    positions = jnp.asarray(0.3 * rng.normal(size=(2, 3, ours.dimension)), "float32")
    follow = ours.value_and_grad.follow

    def run(position):
        start = trajectory.Phase(position, position, *ours.value_and_grad(position))
        return follow(start, jnp.asarray(0.01), jnp.asarray(2))

    nested = jax.jit(jax.vmap(jax.vmap(run)))(positions)
    flat = jax.jit(jax.vmap(run))(positions.reshape(6, -1))
    for found, expected in zip(nested, flat, strict=True):
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_priors_are_described_within_vmap():
    """Numbers of priors are computed once: they must be, too, where that is under `vmap`."""
    truncated = tb.Normal(0.0, Hyper(0.5, tb.Normal(0.37, 1.3)))  # in no other test
    ours, _ = targets(tb.Network(tb.Dense(1, truncated), inputs=2), "float32", held=False)
    positions = jnp.zeros((2, ours.dimension))

    def run(position):
        density = ours.value_and_grad
        start = trajectory.Phase(position, position, *density(position))
        return hmc.leapfrog(density, start, jnp.asarray(0.01), jnp.asarray(1))

    ends = jax.jit(jax.vmap(run))(positions)
    assert np.all(np.isfinite(ends.log_density))
    assert not np.array_equal(ends.position, positions)
    np.testing.assert_allclose(jax.vmap(run)(positions).log_density, ends.log_density, rtol=1e-5)


@pytest.mark.parametrize("likelihood", [GAUSSIAN, MEASURED], ids=repr)
def test_no_steps_and_divergence(likelihood):
    ours, _ = targets(NETWORKS["default"], "float32", held=False, likelihood=likelihood)
    follow = jax.jit(ours.value_and_grad.follow)
    rng = np.random.default_rng(2)
    position = jnp.asarray(rng.normal(size=ours.dimension), "float32")
    value, gradient = jax.value_and_grad(ours.log_density)(position)
    start = trajectory.Phase(position, jnp.ones_like(position), value, gradient)
    end = follow(start, jnp.asarray(0.1), jnp.asarray(0))
    np.testing.assert_array_equal(end.position, start.position)
    assert end.log_density == start.log_density
    end = follow(start, jnp.asarray(1e3), jnp.asarray(50))
    assert not np.isfinite(end.log_density)


@pytest.mark.parametrize("likelihood", [GAUSSIAN, OWN_GAUSSIAN], ids=repr)
@pytest.mark.parametrize("rows", [11, 3000])
def test_threads_change_no_bit(rows, likelihood):
    hidden = (tb.Dense(30), tb.Tanh(), tb.Dense(30), tb.Tanh())
    network = tb.Network(*hidden, tb.Dense(2), inputs=2)
    ours, _ = targets(network, "float32", held=False, rows=rows, likelihood=likelihood)
    rng = np.random.default_rng(3)
    positions = jnp.asarray(0.3 * rng.normal(size=(18, ours.dimension)), "float32")
    steps, sizes = jnp.arange(1, 19), jnp.full(18, 1e-3)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(ours.log_density)))(positions)
    together = jax.jit(jax.vmap(ours.value_and_grad.follow))
    alone = jax.jit(ours.value_and_grad.follow)
    results = []
    for threads in (1, 2, 5):
        library.use_threads(threads)
        arguments = (trajectory.Phase(positions, positions, values, gradients), sizes, steps)
        single = jax.tree.map(lambda leaf: leaf[7], arguments)
        results.append(jax.tree.map(np.asarray, (together(*arguments), alone(*single))))
    for result in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, result, results[0])


def test_priors_outside():
    own = tb.Network(tb.Dense(1, tb.StudentT(Hyper(3.0))), inputs=1)
    posterior = tb.Posterior(own, tb.Gaussian(), [0.0], [1.0], engine="native")
    assert posterior.model.follow(None, posterior._arrays) is None
    truncated = tb.Normal(0.0, Hyper(1.0, tb.Normal(Hyper(1.0, tb.Normal()), 1.0)))
    network = tb.Network(tb.Dense(1, truncated), inputs=1)
    model = tb.Posterior(network, tb.Gaussian(), engine="native").model
    assert trajectory.describe(model.theta, model.phi, (), held=False) is None
    assert trajectory.describe(model.theta, model.phi, (), held=True) is not None


def test_a_network_without_parameters():
    network = tb.Network("tanh", inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(Hyper(1.0)), [0.5], [1.0], engine="native")
    assert posterior.model.follow(None, posterior._arrays) is not None
    assert posterior.model.follow(jnp.zeros(1), posterior._arrays) is None  # nothing moves


SHORT = {"num_steps_start": 10, "num_steps_min": 5, "num_steps_max": 20, "num_steps_increment": 5}
HMC, ADAPTIVE = tb.HMC(step_size=0.05, num_steps=5), tb.AdaptiveHMC(**SHORT)


@pytest.mark.parametrize(("sampler", "chains"), [(HMC, 1), (HMC, 17), (ADAPTIVE, 1)])
def test_samplers_move_alike(sampler, chains):
    """A transition by either engine, with the same random numbers, ends at the same point."""
    with precision("float64"):
        rng = np.random.default_rng(4)
        ends = []
        ours, theirs = targets(NETWORKS["default"], "float64", held=False)
        positions = jnp.asarray(0.3 * rng.normal(size=(chains, ours.dimension)))
        keys = jax.random.split(jax.random.key(1), chains)
        for target in (ours, theirs):
            state = sampler.init(target, positions, burn_in=10)
            state, info = jax.jit(sampler.step)(keys, state, target)
            ends.append((state.position, info.energy_error, info.acceptance_rate))
        for found, expected in zip(*ends, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
