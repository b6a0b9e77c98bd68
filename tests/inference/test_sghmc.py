"""Stochastic-gradient HMC: rows are taken rightly, and its bias falls with the step size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import forward
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision
from tests import oracle_cases as cases
from tests.oracles import oracles

pytestmark = pytest.mark.slow

UNIT = tb.Normal(0.0, 1.0)


def data_of(rows, inputs=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inputs))
    return x, x @ rng.normal(size=inputs) + 0.5 + 0.5 * rng.normal(size=rows)


@pytest.mark.parametrize("rows", [20, 6000, 5461])
def test_rows_are_taken_by_their_numbers(rows):
    """From small data, from tiles with a rest, and (5461 = 16 * 341 + 5) with a short one."""
    network = tb.Network(tb.Dense(50, UNIT, UNIT), tb.Tanh(), tb.Dense(1, UNIT, UNIT), inputs=3)
    x, y = data_of(rows)
    with precision("float64"):
        data = forward.arrange(network, x, y[:, None])
        assert (data.tile_inputs.shape[0] > 0) == (rows > 20)
        assert forward.num_rows(data) == rows
        numbers = np.array([0, rows - 1, 5, rows // 2, 5, 17, rows - 3])
        taken = jax.jit(forward.take_rows)(data, jnp.asarray(numbers, jnp.int32))
    assert taken.inputs.shape == (3, 16)
    np.testing.assert_array_equal(taken.inputs[:, :7], x[numbers].T)
    np.testing.assert_array_equal(taken.inputs[:, 7:], np.repeat(x[numbers[-1:]].T, 9, axis=1))
    np.testing.assert_array_equal(taken.targets, y[numbers][None])


@pytest.mark.parametrize("rows", [40, 6000])
def test_estimates_are_unbiased(rows):
    """All rows, each once, in batches: the mean of the estimates is the log-density, exactly."""
    network = tb.Network(tb.Dense(50, UNIT, UNIT), tb.Tanh(), tb.Dense(1, UNIT, UNIT), inputs=3)
    posterior = tb.Posterior(
        network, tb.Gaussian(sd=tb.Hyper(0.5)), *data_of(rows), dtype="float64"
    )
    with precision("float64"):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        position = jnp.full(target.dimension, 0.1)
        batches = jnp.arange(rows, dtype=jnp.int32).reshape(-1, 20)

        def estimate(batch):
            return target.estimate(position, forward.take_rows(target.data, batch), rows / 20)

        found = jnp.mean(jax.lax.map(estimate, batches))
        np.testing.assert_allclose(found, target.log_density(position), rtol=1e-10)


def test_full_batches_give_the_oracles():
    cases.check(
        cases.CASES["linear"](), tb.SGHMC(num_steps=20, target_energy_error=0.003), draws=2000
    )


def test_priors_are_recovered_without_data():
    cases.check(cases.CASES["prior, wide normal"](), tb.SGHMC(num_steps=20), draws=2000)


def bias_of_the_sd(sampler, rows=200):
    """Mean relative error of the standard deviations of linear coefficients, and its error."""
    x, y = data_of(rows)
    exact = oracles.linreg(x, y, 0.5)
    posterior = tb.Posterior(
        tb.Network(tb.Dense(1, UNIT, UNIT), inputs=3), tb.Gaussian(sd=0.5), x, y, dtype="float64"
    )
    run = tb.sample(posterior, sampler, burn_in=200, draws=1000, progress=False, seed=2)
    values = cases.coefficients(run)
    widths = np.sqrt(np.diag(exact.cov))
    ratios = [each.std() / width - 1 for each, width in zip(values, widths, strict=True)]
    errors = [1 / np.sqrt(2 * oracles.ess(each**2)) for each in values]
    center = (values.mean((1, 2)) - exact.mean) / widths
    return np.mean(ratios), np.sqrt(np.mean(np.square(errors))), np.abs(center).max(), run


def test_the_bias_falls_with_the_step_size():
    """Batches of a quarter of the rows: large steps heat the chain, the steps found do not."""
    options = {"batch_size": 50, "num_steps": 50}
    large, error, _, run = bias_of_the_sd(tb.SGHMC(step_size=0.02, **options))
    assert large > 0.2 + 5 * error
    assert run.diagnose(np.eye(3)).verdict.findings[1].doubtful
    small, error, _, _ = bias_of_the_sd(tb.SGHMC(step_size=0.01, **options))
    assert small < large / 1.5
    found, error, center, run = bias_of_the_sd(tb.SGHMC(**options))
    assert abs(found) < 0.02 + 3 * error
    assert center < 0.15
    assert not run.diagnose(np.eye(3)).verdict.findings[1].doubtful


def test_steps_and_friction_are_found_where_rows_are_many():
    """One row in twenty: the gradients' noise is large, and the posterior narrow."""
    found, error, center, run = bias_of_the_sd(tb.SGHMC(num_steps=100), rows=5000)
    assert abs(found) < 0.02 + 3 * error
    assert center < 0.15
    assert abs(np.mean(run.sample_stats["kinetic_temperature"]) - 1) < 0.02
    assert np.all(run.diagnose(np.eye(3)).rhat < 1.01)


def test_batches_are_drawn_evenly_from_all_rows():
    x, y = data_of(30)
    posterior = tb.Posterior(
        tb.Network(tb.Dense(1, UNIT, UNIT), inputs=3), tb.Gaussian(sd=0.5), x, y, dtype="float64"
    )
    sampler = tb.SGHMC(batch_size=10, num_steps=1)
    with precision("float64"):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        state = sampler.init(target, jnp.zeros((1, target.dimension)), burn_in=0)
        step, seen = jax.jit(sampler.step), []
        for index in range(600):
            state, _ = step(jax.random.split(jax.random.key(index), 1), state, target)
            seen.append(np.asarray(state.rows[0]))
    counts = np.bincount(np.concatenate(seen), minlength=30)
    assert len(counts) == 30
    # Chi-squared with 29 degrees of freedom: beyond 64 once in 5,000 times.
    assert np.sum((counts - 200) ** 2 / 200) < 64
