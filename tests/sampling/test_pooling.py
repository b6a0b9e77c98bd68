"""Pooling rounds: which chains are stuck, how they restart, and that interrupts change no bit."""

import shutil
import warnings

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.fit_checks import NoiseCollapse
from tensorbnn.findings import NotMoved
from tensorbnn.sampling.pooling import (
    FAR,
    FIRST_RESTART,
    LAST_RESTART,
    coarse_precision,
    restart_reason,
    stuck_reason,
)
from tensorbnn.warning import ChainRestarted, CoarsePrecision, DataWarning
from tests.sampled import sample_run
from tests.sampling import small_runs

pytestmark = pytest.mark.slow


def history(acceptance, log_density):
    """Acceptance and log-density in each round."""
    return np.stack(np.broadcast_arrays(acceptance, log_density), axis=-1).astype(float)


WELL = history(0.9, -100.0 + np.arange(10) % 3)
OTHERS = WELL + np.asarray([[[0.0, 0.0]], [[0.01, 1.0]], [[-0.02, -2.0]]])


def test_a_chain_that_moves_with_the_others_is_not_stuck():
    assert stuck_reason(WELL, OTHERS, dimension=50) is None


def test_a_chain_that_accepts_nothing_is_stuck():
    own = history([0.9] * 8 + [0.0, 0.0], -100.0)
    assert "accepted 0.0% of its proposals" in stuck_reason(own, OTHERS, dimension=50)
    assert (
        stuck_reason(own[:-1], OTHERS[:, :-1], dimension=50) is None
    )  # one bad round is not enough
    assert stuck_reason(own, OTHERS[:0], dimension=50)  # also a chain that is alone
    # If no chain accepts anything, the cause is the step size, not one of the chains.
    assert stuck_reason(own, np.stack([own, own]), dimension=50) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_chain_without_a_finite_log_density_is_stuck(value):
    own = history(0.9, [-100.0] * 9 + [value])
    assert "log-density of" in stuck_reason(own, OTHERS, dimension=50)


def test_a_chain_far_below_the_others_is_stuck_unless_it_climbs():
    spread = np.sqrt(50 / 2)
    low = history(0.9, -100.0 - 1.5 * FAR * spread)
    low = np.broadcast_to(low, (10, 2))
    assert "below that of the others" in stuck_reason(low, OTHERS, dimension=50)
    assert stuck_reason(low, OTHERS[:0], dimension=50) is None
    near = np.broadcast_to(history(0.9, -100.0 - 0.5 * FAR * spread), (10, 2))
    assert stuck_reason(near, OTHERS, dimension=50) is None
    climbing = history(0.9, -100.0 - 1.5 * FAR * spread - 100.0 * np.arange(10)[::-1])
    assert stuck_reason(climbing, OTHERS, dimension=50) is None


def test_chains_restart_only_in_the_middle_of_burn_in():
    own = history(np.zeros(20), -100.0)
    others = np.broadcast_to(history(0.9, -100.0), (3, 20, 2))
    found = [stuck_reason(own[:count], others[:, :count], 50) is not None for count in range(1, 21)]
    assert np.flatnonzero(found).tolist() == list(range(FIRST_RESTART, LAST_RESTART + 1))


def test_a_restarted_chain_has_time_to_arrive():
    """Three rounds to climb, two to accept something: earlier rounds do not count."""
    others = np.broadcast_to(history(0.9, -100.0), (3, 20, 2))
    rounds = np.zeros(20)

    def restarts(own):
        found = (restart_reason(own[:count], others[:, :count], 50) for count in range(1, 21))
        return [number for number, reason in enumerate(found) if reason is not None]

    assert restarts(history(0.9, rounds - 1e6)) == [5, 8, 11, 14]
    assert restarts(history(0.0, rounds - 100.0)) == [5, 7, 9, 11, 13]
    arrives = history(0.9, rounds - 1e6)
    arrives[8:, 1] = -100.0
    assert restarts(arrives) == [5]
    assert restarts(history(0.9, rounds - 100.0)) == []


def test_log_densities_that_are_rounded_too_much():
    """Above 2**22, floats of 32 bits are multiples of a half."""
    assert (
        coarse_precision(np.asarray([-(2.0**22), -(2.0**22) + 1], np.float32)) is None
    )  # one is below
    found = coarse_precision(np.asarray([-4.9e7, -1e9, np.nan], np.float32))
    assert (found.dtype, found.spacing) == ("float32", 4.0)
    assert found.size == pytest.approx(-4.9e7)
    assert coarse_precision(np.asarray([-4.9e7, -1e9])) is None
    assert coarse_precision(np.asarray([-1e17])).dtype == "float64"
    assert coarse_precision(np.asarray([np.nan, -np.inf], np.float32)) is None


def test_a_noise_that_is_far_too_small_is_reported():
    """A row is 10,000 sds off: chains do not move, and the warning says what to do."""
    y = np.append(small_runs.X[:-1], 100.0)
    layer = tb.Dense(1, tb.Normal(0, 100), tb.Normal(0, 100))
    model = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.01), small_runs.X, y)
    options = {"chains": 2, "burn_in": 160, "draws": 5, "progress": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tb.sample(model, tb.HMC(max_steps=20), **options)
    assert sum(each.category is CoarsePrecision for each in told) == 1


STUCK = tb.HMC(step_size=0.02, num_steps=5)


def sample_with_a_stuck_chain(path=None, **options):
    """One chain starts where the density is so steep that no such step is accepted."""
    model = small_runs.posterior()
    parameters = {
        name: np.zeros((3, *np.shape(value)))
        for name, value in model.unflatten(np.zeros(model.num_parameters)).items()
    }
    parameters["dense_1.weights"][1] = 1e3
    parameters["dense_0.weights"][1] = 1.0
    given = {"chains": 3, "burn_in": 400, "draws": 60, "progress": False, "seed": 3}
    return tb.sample(model, STUCK, start=parameters, path=path, **given | options)


def test_a_stuck_chain_is_reported_and_restarted():
    with pytest.warns(ChainRestarted) as told:
        ensemble = sample_with_a_stuck_chain()
    assert told[0].message.chain == 1
    assert [each.filename for each in told] == [__file__]
    assert ensemble.sample_stats["acceptance_rate"][1].mean() > 0.3
    first, *_, last = [each for each in ensemble.reports if each["chain"] == 1]
    assert first["acceptance_rate"] < 0.01  # it was stuck
    assert (first["restarts"], last["restarts"]) == (0, 1)


def test_without_pooling_nothing_is_restarted():
    ensemble = sample_with_a_stuck_chain(burn_in=159)
    assert ensemble.sample_stats["acceptance_rate"][1].mean() < 0.01
    assert NotMoved((1,), 3) in ensemble.diagnose(small_runs.X).verdict.findings


class Snapshots:
    """A metric that copies the run directory now and then, and reports nothing of interest."""

    name = "snapshots"

    def __init__(self, path, folder):
        self.path, self.folder, self.count = path, folder, 0

    def __call__(self, predictions, targets):
        if self.path.exists():
            self.count += 1
            # Files of another chain may be renamed during the copy.
            unfinished = shutil.ignore_patterns("*.tmp")
            copy = self.folder / str(self.count)
            shutil.copytree(self.path, copy, ignore=unfinished, dirs_exist_ok=True)
        return 0.0


@pytest.mark.parametrize("sampler", [tb.HMC(max_steps=20), STUCK])
def test_chains_saved_on_both_sides_of_a_round_resume_to_the_same_bits(sampler, tmp_path):
    """One chain was saved rounds after the other: it shares the same values again."""
    plan = {"chains": 2, "burn_in": 200, "draws": 10, "progress": False, "seed": 1}
    often = {"checkpoint_seconds": 1e-9, "report_every": 20}
    path = tmp_path / "run"
    metric = Snapshots(path, tmp_path)
    whole = sample_run(small_runs.posterior(), sampler, path=path, metrics=[metric], **plan | often)
    early, late = tmp_path / "4", tmp_path / str(metric.count - 4)
    mixed = tmp_path / "mixed"
    shutil.copytree(early, mixed)
    shutil.rmtree(mixed / "chain-01")
    shutil.copytree(late / "chain-01", mixed / "chain-01")
    (mixed / "run.lock").unlink(missing_ok=True)
    again = Snapshots(tmp_path / "none", tmp_path)
    resumed = tb.resume(mixed, metrics=[again], progress=False)
    for name, values in whole.parameters.items():
        np.testing.assert_array_equal(resumed.parameters[name], values)


def noise_posterior(noise):
    x = np.linspace(-2, 2, 60)
    y = np.sin(2 * x) + noise * np.random.default_rng(0).normal(size=60)
    network = tb.Network(tb.Dense(10), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.3)), x, y, standardize=True)


def test_noise_that_collapses_is_reported_within_burn_in():
    """As an error, since that ends a run which would take hours."""
    with pytest.raises(DataWarning) as caught:
        tb.sample(noise_posterior(0.0), chains=2, burn_in=10**6, draws=10, progress=False)
    assert isinstance(caught.value.finding, NoiseCollapse)
    assert caught.value.finding.share < 1e-3
    assert "a prior with a floor such as tb.Uniform" in str(caught.value)


def test_noise_that_is_there_does_not_collapse():
    tb.sample(noise_posterior(0.01), chains=2, burn_in=300, draws=10, progress=False)
