"""MCLMC: small bias at its default steps, a large one at large steps, and both are reported."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.findings import EnergyErrors
from tests import oracle_cases as cases

pytestmark = pytest.mark.slow

QUICK = (
    "linear",
    "prior, Cauchy",
)
# Draws for which the effective sample size suffices.
LONGER = {"one hidden unit": 40_000, "linear, wide prior": 8000}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.soak, id=name)
        for name in cases.CASES
    ],
)
def test_bias_does_not_show_at_default_steps(name):
    cases.check(cases.CASES[name](), tb.MCLMC(), draws=LONGER.get(name, 5000))


def test_bias_shows_at_large_steps_and_in_the_verdict():
    case = cases.CASES["linear"]()
    run = tb.sample(
        case.posterior, tb.MCLMC(step_size=0.2), burn_in=200, draws=5000, progress=False
    )
    z = max(abs(statistic.z) for statistic in case.statistics(run))
    assert z > 8
    x = np.asarray(cases.GIVEN["lin_fixed"]["xs"])
    assert run.diagnose(x).verdict.findings[1].doubtful


def small_posterior(**options):
    x = np.linspace(-1, 1, 9)
    network = tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(2 * x), **options)


def test_steps_reach_the_target_energy_error():
    """A tenth of the limit makes steps smaller; most transitions keep to it."""
    sizes = []
    for limit in (0.01, 0.001):
        info = tb.sample(
            small_posterior(),
            tb.MCLMC(target_energy_error=limit),
            chains=2,
            burn_in=400,
            draws=200,
            progress=False,
        ).sample_stats
        sizes.append(info["step_size"][:, 0].mean())
        # The root mean square of a transition is at most the limit where all of its steps are.
        assert 0.3 * limit / 10 < np.median(info["energy_error_rms"]) < limit
        assert np.all(info["diverging"] == 0)
    # The error of a step of this integrator goes with its third power.
    assert 1.5 < sizes[0] / sizes[1] < 4


def test_the_verdict_reports_that_it_is_not_exact(tmp_path):
    """Also of a run that was read from disk."""
    tb.sample(
        small_posterior(),
        tb.MCLMC(),
        chains=2,
        burn_in=300,
        draws=300,
        progress=False,
        path=tmp_path / "run",
    )
    verdict = tb.load(tmp_path / "run").diagnose([0.0, 0.5]).verdict
    assert isinstance(verdict.findings[1], EnergyErrors)
    assert not verdict.findings[1].doubtful


def test_times_follow_the_width_of_the_posterior():
    """Without data the width is one, and so the momentum is forgotten in 0.4."""
    network = tb.Network(tb.Dense(20, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1)
    prior = tb.Posterior(network, tb.Gaussian(sd=1.0), dtype="float64")
    sampler = tb.MCLMC(step_size=0.05)
    info = tb.sample(prior, sampler, burn_in=1000, draws=5, progress=False, chains=2).sample_stats
    # Steps are whole: 0.4 is 8 of them, and one more or less for an error of the width of 6 %.
    assert np.all(np.abs(info["num_gradients"] / 2 - 8) <= 1)


def test_one_parameter_is_too_few():
    network = tb.Network(tb.PReLU(), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=1.0), [0.5, 1.0], [1.0, 0.5])
    with pytest.raises(ValueError, match=r"needs at least two parameters, but this .* use tb.HMC"):
        tb.sample(posterior, tb.MCLMC(), sample_hyperparameters=False, progress=False)
