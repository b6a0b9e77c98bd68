"""HMC with persistent momentum: its moves leave the density unchanged, and exact answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference import ghmc
from tensorbnn.posterior import precision
from tests import oracle_cases as cases
from tests.oracles import oracles

pytestmark = pytest.mark.slow

QUICK = (
    "linear",
    "linear, wide prior",
    "prior, wide normal",
    "prior, Cauchy",
    "one hidden unit",
    "five hidden units",
)
LONGER = {"one hidden unit": 4000}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.soak, id=name)
        for name in cases.CASES
    ],
)
def test_exact_answers(name):
    cases.check(cases.CASES[name](), tb.GHMC(), draws=LONGER.get(name, 2000))


def test_exact_answers_with_given_steps_that_are_often_rejected():
    """Half of the moves are reversed; the slice changes fast and the momentum persists for long."""
    sampler = tb.GHMC(
        step_size=0.11, num_steps=1, decoherence_time=3.0, slice_step=0.3, trajectory_length=2.0
    )
    case = cases.CASES["linear"]()
    cases.check(case, sampler, draws=4000)
    run = tb.sample(case.posterior, sampler, burn_in=100, draws=2000, progress=False)
    assert 0.4 < run.sample_stats["acceptance_rate"].mean() < 0.6
    assert abs(oracles.creutz_z(run.sample_stats["energy_error"][:, ::5].ravel())) < 4


def quartic(position):
    return -jnp.sum(position**4) - 0.5 * jnp.sum(position[:-1] * position[1:])


def made(flat, step_size, slice_step=0.0, persistence=1.0):
    """A move without noise as a map of (position, momentum, slice)."""
    position, momentum = jnp.split(flat[:-1], 2)
    start = Phase(position, momentum, *jax.value_and_grad(quartic)(position))
    return ghmc.move(
        jax.value_and_grad(quartic),
        start,
        flat[-1],
        fresh=jnp.zeros_like(momentum),
        slice_step=jnp.asarray(slice_step),
        step_size=jnp.asarray(step_size),
        num_steps=jnp.asarray(3, jnp.int32),
        persistence=jnp.asarray(persistence),
    )


def flattened(moves):
    return jnp.concatenate([moves.phase.position, moves.phase.momentum, moves.slice[None]])


@pytest.mark.parametrize("start", [-0.9, -0.3, 0.05, 0.6])
@pytest.mark.parametrize("step_size", [0.1, 0.45])
def test_a_move_leaves_the_joint_density_unchanged(start, step_size):
    """Density times Jacobian after the move is the density before, slice variable included."""
    with precision("float64"):
        flat = jnp.asarray([0.3, -0.4, 0.5, 1.0, 0.2, -1.4, start])
        moves = made(flat, step_size)
        jacobian = jax.jacfwd(lambda each: flattened(made(each, step_size)))(flat)
        log_determinant = jnp.linalg.slogdet(jacobian)[1]
        before = 0.5 * jnp.sum(flat[3:6] ** 2) - quartic(flat[:3])
        after = 0.5 * jnp.sum(moves.phase.momentum**2) - moves.phase.log_density
    np.testing.assert_allclose(log_determinant - after, -before, atol=1e-10)
    assert abs(float(moves.slice)) <= 1


def test_some_of_these_moves_are_accepted_and_some_rejected():
    with precision("float64"):
        accepted = set()
        for start in (-0.9, -0.3, 0.05, 0.6):
            flat = jnp.asarray([0.3, -0.4, 0.5, 1.0, 0.2, -1.4, start])
            moves = made(flat, 0.45)
            rejected = bool(jnp.all(moves.phase.position == flat[:3]))
            if rejected:
                assert jnp.all(moves.phase.momentum == -flat[3:6])
                assert moves.slice == flat[6]
            accepted.add(not rejected)
    assert accepted == {True, False}


def test_the_slice_goes_round():
    """From 0.99 by 0.04 to -0.97."""
    with precision("float64"):
        flat = jnp.asarray([0.3, -0.4, 0.5, 1.0, 0.2, -0.7, 0.99])
        moves = made(flat, 1e-6, slice_step=0.04)
    assert float(moves.slice) == pytest.approx(-0.97, abs=1e-4)


def test_the_momentum_persists():
    """Over moves of tiny steps momenta are correlated by exp(-time / decoherence time)."""
    prior = tb.Posterior(
        tb.Network(tb.Dense(200, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1),
        tb.Gaussian(sd=1.0),
        dtype="float64",
    )
    from tensorbnn.inference.target import TargetDensity

    sampler = tb.GHMC(step_size=1e-4, num_steps=5, decoherence_time=1e-3, trajectory_length=5e-4)
    with precision("float64"):
        target = TargetDensity(prior.model, prior.data, None)
        state = sampler.init(target, jnp.zeros((1, target.dimension)), burn_in=0)
        step, momenta = jax.jit(sampler.step), []
        for index in range(60):
            state, _ = step(jax.random.split(jax.random.key(index), 1), state, target)
            momenta.append(np.asarray(state.momentum[0]))
    momenta = np.stack(momenta)
    # 59 x 400 pairs: the standard error of their correlation is 0.005.
    found = np.mean(momenta[1:] * momenta[:-1])
    assert found == pytest.approx(np.exp(-0.5), abs=0.03)
    assert np.mean(momenta**2) == pytest.approx(1.0, abs=0.05)


def test_moves_of_a_transition():
    x = np.linspace(-1, 1, 8)
    network = tb.Network(tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, x)
    options = {"burn_in": 0, "draws": 3, "progress": False, "chains": 2}
    steady = {"num_steps": 4, "num_steps_jitter": 0.0, "trajectory_length": 0.4}
    sampler = tb.GHMC(step_size=0.01, **steady)
    assert np.all(tb.sample(posterior, sampler, **options).sample_stats["num_gradients"] == 40)
    sampler = tb.GHMC(step_size=1e-4, max_steps=50, **steady)
    assert np.all(tb.sample(posterior, sampler, **options).sample_stats["num_gradients"] == 48)
    sampler = tb.GHMC(step_size=0.01, num_steps=20, trajectory_length=0.2)
    steps = tb.sample(posterior, sampler, **options | {"draws": 500}).sample_stats["num_gradients"]
    assert (steps.min(), steps.max()) == (10, 30)
    assert steps.mean() == pytest.approx(20, rel=0.03)
