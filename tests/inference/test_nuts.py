"""The no-U-turn sampler: BlackJAX's transitions, and exact answers."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision
from tests import oracle_cases as cases

pytestmark = pytest.mark.slow

QUICK = (
    "linear",
    "linear, wide prior",
    "prior, Cauchy",
    "five hidden units",
)
LONGER = {"one hidden unit": 8000}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.soak, id=name)
        for name in cases.CASES
    ],
)
def test_exact_answers(name):
    cases.check(cases.CASES[name](), tb.NUTS(), draws=LONGER.get(name, 2000))


def small_target():
    unit = tb.Normal(0.0, 1.0)
    x = np.linspace(-1, 1, 9)
    network = tb.Network(tb.Dense(3, unit, unit), tb.Tanh(), tb.Dense(1, unit, unit), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.2), x, np.sin(2 * x), dtype="float64")
    return TargetDensity(posterior.model, posterior._arrays, None)


@pytest.mark.parametrize("depth", [3, 10])
def test_trajectories_are_those_of_blackjax(depth):
    """From the same state by the same key: the same point, steps and statistics."""
    sampler = tb.NUTS(step_size=0.05, max_tree_depth=depth)
    with precision("float64"):
        target = small_target()
        position = jnp.full(target.dimension, 0.2)
        state = sampler.init(target, position[None], burn_in=0)
        step = jax.jit(sampler.step)
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            kernel = blackjax.nuts.build_kernel()
            theirs = blackjax.nuts.init(position, target.log_density)
            their_step = jax.jit(
                lambda key, state: kernel(
                    key, state, target.log_density, 0.05, jnp.ones(target.dimension), depth
                )
            )
            lengths = set()
            for index in range(10):
                key = jax.random.key(index)
                state, mine = step(key[None], state, target)
                before = theirs.logdensity
                theirs, info = their_step(key, theirs)
                np.testing.assert_allclose(state.position[0], theirs.position, rtol=1e-9)
                assert mine.num_gradients[0] == info.num_integration_steps
                np.testing.assert_allclose(mine.acceptance_rate[0], info.acceptance_rate, rtol=1e-9)
                energy = 0.5 * jnp.sum(info.momentum**2) - before
                np.testing.assert_allclose(mine.energy[0], energy, rtol=1e-9)
                np.testing.assert_allclose(
                    mine.energy[0] + mine.energy_error[0], info.energy, rtol=1e-9
                )
                lengths.add(int(mine.num_gradients[0]))
    assert max(lengths) <= 2**depth - 1
    assert len(lengths) > 1 or depth == 3


def test_trees_are_shallow_while_steps_are_sought():
    sampler = tb.NUTS()
    with precision("float64"):
        target = small_target()
        state = sampler.init(target, jnp.zeros((1, target.dimension)), burn_in=9)
        step, steps = jax.jit(sampler.step), []
        for index in range(12):
            tiny = state.adaptation._replace(
                log_step_size=jnp.full(1, -12.0), log_average=jnp.full(1, -12.0)
            )
            state, info = step(
                jax.random.split(jax.random.key(index), 1), state._replace(adaptation=tiny), target
            )
            steps.append(int(info.num_gradients[0]))
    assert steps == [15] * 3 + [255] * 3 + [1023] * 6


def test_a_distant_start_is_left():
    """Prior draws of a network with narrow noise: the first steps diverge, the draws do not."""
    x = np.linspace(-2, 2, 11)
    network = tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
    info = tb.sample(
        posterior, tb.NUTS(), burn_in=300, draws=100, progress=False, chains=2
    ).sample_stats
    assert info["diverging"].mean() < 0.05
    assert 0.6 < info["acceptance_rate"].mean() < 0.95
