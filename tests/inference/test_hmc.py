"""The integrator on closed-form orbits, the Metropolis step, and the sampler's protocol."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import tensorbnn as tb
from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference import hmc
from tensorbnn.inference.sampler import TransitionInfo
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision

UNIT = tb.Normal(0.0, 1.0)


def oscillator(position):
    """Log-density of a unit Gaussian: the orbit of (q, p) is a circle."""
    return -0.5 * jnp.sum(position**2)


def quartic(position):
    return -jnp.sum(position**4) - 0.5 * jnp.sum(position[:-1] * position[1:])


def phase(log_density, position, momentum):
    return Phase(position, momentum, *jax.value_and_grad(log_density)(position))


def energy(point):
    return 0.5 * np.sum(np.square(point.momentum)) - float(point.log_density)


def integrate(log_density, start, step_size, num_steps):
    with precision("float64"):
        value_and_grad = jax.value_and_grad(log_density)
        run = jax.jit(lambda *arguments: hmc.leapfrog(value_and_grad, *arguments))
        return run(start, jnp.asarray(step_size), jnp.asarray(num_steps))


@pytest.fixture
def start():
    with precision("float64"):
        return phase(quartic, jnp.asarray([0.3, -0.4, 0.5]), jnp.asarray([1.0, 0.2, -0.7]))


def test_leapfrog_follows_the_circle():
    with precision("float64"):
        begin = phase(oscillator, jnp.asarray([1.0, 0.0]), jnp.asarray([0.0, 1.0]))
    end = integrate(oscillator, begin, 1e-3, 1000)
    np.testing.assert_allclose(end.position, [np.cos(1.0), np.sin(1.0)], atol=1e-6)
    np.testing.assert_allclose(end.momentum, [-np.sin(1.0), np.cos(1.0)], atol=1e-6)


def test_leapfrog_is_the_textbook_integrator(start):
    """Merged kicks are the half kicks of the definition, to rounding."""
    end = integrate(quartic, start, 0.05, 7)
    position, momentum = np.asarray(start.position), np.asarray(start.momentum)
    gradient = jax.grad(quartic)
    with precision("float64"):
        for _ in range(7):
            momentum = momentum + 0.025 * np.asarray(gradient(jnp.asarray(position)))
            position = position + 0.05 * momentum
            momentum = momentum + 0.025 * np.asarray(gradient(jnp.asarray(position)))
    np.testing.assert_allclose(end.position, position, rtol=1e-13)
    np.testing.assert_allclose(end.momentum, momentum, rtol=1e-13)


def test_leapfrog_is_reversible(start):
    end = integrate(quartic, start, 0.05, 40)
    back = integrate(quartic, end._replace(momentum=-end.momentum), 0.05, 40)
    np.testing.assert_allclose(back.position, start.position, atol=1e-12)
    np.testing.assert_allclose(-back.momentum, start.momentum, atol=1e-12)


def test_leapfrog_is_second_order(start):
    """Halving the step size divides the energy error over a fixed time by four."""
    errors = []
    for step_size, num_steps in ((0.02, 50), (0.01, 100), (0.005, 200)):
        end = integrate(quartic, start, step_size, num_steps)
        errors.append(abs(energy(end) - energy(start)))
    ratios = np.asarray(errors[:-1]) / np.asarray(errors[1:])
    np.testing.assert_allclose(ratios, 4.0, rtol=0.02)


@pytest.mark.slow
def test_leapfrog_preserves_volume(start):
    def end(flat):
        position, momentum = jnp.split(flat, 2)
        last = hmc.leapfrog(
            jax.value_and_grad(quartic),
            phase(quartic, position, momentum),
            jnp.asarray(0.1),
            5,
        )
        return jnp.concatenate([last.position, last.momentum])

    with precision("float64"):
        flat = jnp.concatenate([start.position, start.momentum])
        determinant = jnp.linalg.det(jax.jacfwd(end)(flat))
    assert float(determinant) == pytest.approx(1.0, abs=1e-12)


def linear_target(dtype="float64"):
    network = tb.Network(tb.Dense(1, UNIT, UNIT), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.5), [0.0, 1.0], [1.0, 2.0], dtype=dtype)
    return TargetDensity(posterior.model, posterior._arrays, None)


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_protocol(chains, dtype):
    """Chains are a leading axis of state and info; a step keeps every shape and type."""
    with precision(dtype):
        target = linear_target(dtype)
        state = tb.HMC().init(target, jnp.zeros((chains, target.dimension)), burn_in=10)
        keys = jax.random.split(jax.random.key(0), chains)
        after, info = jax.jit(tb.HMC().step)(keys, state, target)
    assert isinstance(info, TransitionInfo)
    assert all(leaf.shape[0] == chains for leaf in jax.tree.leaves((after, info)))
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, after))
    assert shapes[0] == shapes[1]
    assert after.position.dtype == dtype
    assert np.all(np.asarray(after.iteration) == 1)


@pytest.mark.slow
def test_chains_do_not_depend_on_each_other():
    with precision("float64"):
        target = linear_target()
        positions = jnp.asarray([[0.1, 0.2], [-0.3, 0.4], [1.0, -1.0]])
        keys = jax.random.split(jax.random.key(1), 3)
        step = jax.jit(tb.HMC.step)
        state = tb.HMC(step_size=0.3, num_steps=4).init(target, positions, burn_in=0)
        together = step(keys, state, target)[0].position
        for chain in range(3):
            own = jax.tree.map(lambda leaf, row=chain: leaf[row : row + 1], (keys, state))
            alone = step(*own, target)[0].position
            np.testing.assert_allclose(alone[0], together[chain], rtol=1e-13)


def test_number_of_steps_and_step_size_are_used_as_given():
    with precision("float64"):
        target = linear_target()
        sampler = tb.HMC(step_size=0.07, num_steps=9)
        state = sampler.init(target, jnp.zeros((2, 2)), burn_in=100)
        _, info = jax.jit(sampler.step)(jax.random.split(jax.random.key(0)), state, target)
    np.testing.assert_allclose(info.step_size, 0.07)
    assert info.num_gradients.tolist() == [9, 9]


def run_linear(sampler, **options):
    x = np.linspace(-1, 1, 8)
    network = tb.Network(tb.Dense(1, UNIT, UNIT), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, 2 * x - 1)
    return tb.sample(posterior, sampler, progress=False, **options)


@pytest.mark.slow
def test_jitter_spreads_steps_evenly():
    sampler = tb.HMC(step_size=0.01, num_steps=20, step_size_jitter=0.2, num_steps_jitter=0.5)
    info = run_linear(sampler, burn_in=0, draws=2000).sample_stats
    assert info["step_size"].min() == pytest.approx(0.008, rel=0.01)
    assert info["step_size"].max() == pytest.approx(0.012, rel=0.01)
    assert info["step_size"].mean() == pytest.approx(0.01, rel=0.01)
    assert (info["num_gradients"].min(), info["num_gradients"].max()) == (10, 30)
    assert info["num_gradients"].mean() == pytest.approx(20, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("target_acceptance", [0.6, 0.9])
def test_step_size_reaches_the_wanted_acceptance(target_acceptance):
    x = np.random.default_rng(0).normal(size=(60, 30))
    network = tb.Network(tb.Dense(1, UNIT, UNIT), inputs=30)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.3), x, 0.3 * x.sum(axis=1))
    sampler = tb.HMC(target_acceptance=target_acceptance)
    info = tb.sample(posterior, sampler, burn_in=1000, draws=1000, progress=False).sample_stats
    # One trajectory in five takes half the step, and has a quarter of the error.
    expected = 0.8 * target_acceptance + 0.2 * 2 * norm.cdf(norm.ppf(target_acceptance / 2) / 4)
    # The step rests on 2,400 transitions, the later ones more: four standard errors, and of these.
    error = 4 * info["acceptance_rate"].std() * np.sqrt(1 / 1800 + 1 / 4000)
    assert info["acceptance_rate"].mean() == pytest.approx(expected, abs=error)


@pytest.mark.slow
def test_adaptation_ends_with_burn_in():
    step_size = run_linear(tb.HMC(), burn_in=200, draws=50).sample_stats["step_size"]
    assert np.all(step_size == step_size[:, :1])
    assert len(np.unique(step_size)) == 1  # which all chains share


def test_trajectory_length_gives_the_number_of_steps():
    sampler = tb.HMC(step_size=0.02, trajectory_length=0.5, num_steps_jitter=0.0)
    assert np.all(run_linear(sampler, burn_in=0, draws=5).sample_stats["num_gradients"] == 25)
    capped = tb.HMC(step_size=1e-4, trajectory_length=10.0, max_steps=30, num_steps_jitter=0)
    assert np.all(run_linear(capped, burn_in=0, draws=5).sample_stats["num_gradients"] == 30)


def test_divergence_is_reported_and_rejected():
    """A step far too large ends in infinity; the chain stays where it is and reports it."""
    ensemble = run_linear(tb.HMC(step_size=50.0, num_steps=40), burn_in=0, draws=20)
    assert np.all(ensemble.sample_stats["diverging"] == 1)
    assert np.all(ensemble.sample_stats["acceptance_rate"] == 0)
    weights = ensemble.parameters["dense_0.weights"]
    assert np.all(weights == weights[:, :1])
    assert np.all(np.isfinite(weights))


@pytest.mark.parametrize("after", [np.nan, -np.inf, np.inf])
def test_nan_energies_are_never_accepted(after):
    """NaN, and a density that is infinite at a point, which no chain would leave."""
    assert hmc.acceptance_of(jnp.asarray(3.0), jnp.asarray(after)) == 0


def test_a_density_of_zero_is_left():
    nowhere = jnp.asarray(np.inf)
    assert hmc.acceptance_of(nowhere, jnp.asarray(3.0)) == 1
    assert hmc.acceptance_of(nowhere, nowhere) == 0


def test_acceptance_is_that_of_metropolis():
    errors = jnp.asarray([-1e30, -1.0, 0.0, 0.5])
    found = hmc.acceptance_of(jnp.zeros(4), errors)
    np.testing.assert_allclose(found, [1, 1, 1, np.exp(-0.5)], rtol=1e-6)


def test_numbers_recompile_nothing():
    from tensorbnn.sampling.advance import advance

    # Twice at most: a number of steps that is given needs no records of a search.
    run_linear(tb.HMC(step_size=0.01, num_steps=3), burn_in=5, draws=5)
    run_linear(tb.HMC(), burn_in=5, draws=5)
    compiled = advance._cache_size()
    run_linear(tb.HMC(step_size=0.02, num_steps=7), burn_in=9, draws=8, seed=3)
    run_linear(tb.HMC(target_acceptance=0.7, step_size_jitter=0.1), burn_in=7, draws=3, thin=2)
    assert advance._cache_size() == compiled


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "`step_size` must be a positive number, got 0.0"),
        ({"step_size": float("nan")}, "`step_size` must be a positive number, got nan"),
        ({"trajectory_length": -1.0}, "`trajectory_length` must be a positive number, got -1.0"),
        ({"num_steps": 0}, "`num_steps` must be a whole number of at least 1, got 0"),
        ({"num_steps": 2.5}, "`num_steps` must be a whole number of at least 1, got 2.5"),
        ({"max_steps": -3}, "`max_steps` must be a whole number of at least 1, got -3"),
        ({"target_acceptance": 1.0}, "`target_acceptance` must lie between 0 and 1, got 1.0"),
        ({"step_size_jitter": 1.0}, r"`step_size_jitter` must lie in \[0, 1\), got 1.0"),
        ({"num_steps_jitter": -0.1}, r"`num_steps_jitter` must lie in \[0, 1\), got -0.1"),
        ({"step_size": "big"}, "`step_size` must be a positive number, got 'big'"),
        ({"num_steps": True}, "`num_steps` must be a whole number of at least 1, got True"),
        (
            {"num_steps": 5, "trajectory_length": 0.5},
            r"`num_steps` \(5\) and `trajectory_length` \(0.5\) both say .*: leave one out",
        ),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tb.HMC(**options)
