"""Runs that decide when to stop: the bits of a run of that length, even after interruptions."""

import math
import re
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import StringIO
from typing import ClassVar, NamedTuple

import jax
import numpy as np
import pytest
from rich.console import Console

import tensorbnn as tb
from tensorbnn import progress
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.sampling.converged import estimate_convergence
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.monitor import GrowingPredictions, Monitor
from tensorbnn.sampling.stopping import POINTS_NAMED
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import describe, read_manifest
from tensorbnn.warning import (
    Interrupted,
    StoppedByLimit,
    StoppedInBurnIn,
    StoppedUnconverged,
    StoppedUnsatisfied,
)
from tests.raising import warns
from tests.sampled import sample_run
from tests.sampling.small_runs import arrays, assert_same_arrays, by_epoch, contents

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 20)
Y = 0.7 * X + 0.2 + np.random.default_rng(0).normal(0, 0.5, 20)
AT = np.array([-2.0, 0.0, 1.0])
# Short trajectories of random length: draws that are correlated, and gradients to be counted.
SLOW = tb.HMC(step_size=0.15, num_steps=4, num_steps_jitter=0.5)
QUIET = {"chains": 2, "burn_in": 10, "progress": False, "networks_per_file": 64}


def posterior(**options):
    layer = tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1))
    network = tb.Network(layer, inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.5), X, Y, **options)


def exact(x):
    """Mean and sd of the prediction: a linear model with normal priors of width one."""
    design = np.stack([X, np.ones_like(X)], axis=1)
    covariance = np.linalg.inv(np.eye(2) + design.T @ design / 0.25)
    rows = np.stack([x, np.ones_like(x)], axis=1)
    mean = rows @ covariance @ design.T @ Y / 0.25
    return mean, np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))


def draw(path=None, target=None, **options):
    return sample_run(target or posterior(), SLOW, path=path, **QUIET | options)


TARGET = tb.Converged(rhat=1.02, ess=250, x=AT)


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    path = tmp_path_factory.mktemp("until") / "run"
    return path, draw(path, draws=100, until=TARGET)


@pytest.fixture(scope="module")
def fixed(reached, tmp_path_factory):
    """A run with as many draws as the other one reached."""
    path = tmp_path_factory.mktemp("fixed") / "run"
    return path, draw(path, draws=reached[1].num_draws)


def test_the_target_is_reached_and_predictions_are_right(reached):
    ensemble = reached[1]
    found = ensemble.diagnose(AT, progress=False)
    assert found.rhat.max() < 1.02
    assert min(found.ess.min(), found.ess_tail.min()) >= 250
    mean, sd = exact(AT)
    predicted = ensemble.predict(AT)
    # Within five Monte Carlo errors of so many independent networks.
    assert np.all(np.abs(predicted.mean - mean) < 5 * sd / np.sqrt(250))
    assert np.all(np.abs(predicted.sd / sd - 1) < 5 / np.sqrt(2 * 250))


def test_it_stops_at_the_first_length_that_is_long_enough(reached):
    lengths = [100]
    while lengths[-1] < reached[1].num_draws:
        lengths.append(math.ceil(1.25 * lengths[-1]))
    assert len(lengths) > 3  # it was made longer, more than once
    assert lengths[-1] == reached[1].num_draws
    values = reached[1].predict(AT).samples.reshape(2, -1, 3, 1)
    for length in lengths:
        found = estimate_convergence(values[:, :length], TARGET)
        assert found.converged == (length == lengths[-1])


def test_its_bits_are_those_of_a_run_of_that_length(reached, fixed):
    assert contents(reached[0]) == contents(fixed[0])
    assert_same_arrays(arrays(reached[1]), arrays(fixed[1]))
    assert by_epoch(tb.load(reached[0]).reports) == by_epoch(tb.load(fixed[0]).reports)
    kept = [read_manifest(each[0]) | {"created": "", "until": None} for each in (reached, fixed)]
    assert kept[0] == kept[1]
    assert kept[0]["status"] == "complete"
    text = (reached[0] / "run.json").read_text()
    assert re.search(r'"x": \[\s+\[-2\.0\],\s+\[0\.0\],\s+\[1\.0\]\s+\]', text)
    assert '"x": [20, 1]' in text  # lists of numbers in a line


def test_in_memory_it_is_the_same(reached):
    mine = draw(draws=100, until=TARGET)
    assert_same_arrays(arrays(mine), arrays(reached[1]))
    assert mine.num_draws == reached[1].num_draws
    assert by_epoch(mine.reports) == by_epoch(reached[1].reports)


def test_with_an_executor_it_is_the_same(reached, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        mine = draw(tmp_path / "run", draws=100, until=TARGET, executor=executor)
    assert mine.num_draws == reached[1].num_draws
    assert_same_arrays(arrays(mine), arrays(tb.load(reached[0])))


@dataclass(frozen=True)
class Failing:
    """As `TARGET`, but its third estimate fails."""

    asked: ClassVar[list[int]] = []

    def estimate(self, ensemble):
        self.asked.append(ensemble.num_draws)
        if len(self.asked) == 3:
            raise RuntimeError("killed")
        return TARGET.estimate(ensemble)


@pytest.mark.parametrize("at", ["while it draws", "while it decides"])
def test_a_run_killed_while_it_is_extended_resumes_to_the_same_end(
    reached, tmp_path, monkeypatch, at
):
    path = tmp_path / "run"
    Failing.asked.clear()

    def fail(group):
        if group.at.transitions > 150:
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        if at == "while it draws":
            patch.setattr(ChainGroup, "after_call", fail)
        rule = TARGET if at == "while it draws" else Failing()
        with pytest.raises(RuntimeError, match="killed"):
            draw(path, draws=100, until=rule)
    store = DirectoryStore.open_to_write(path)
    assert 100 < store.manifest["draws"] < reached[1].num_draws
    store.update(status="running")  # as a kill leaves it
    store.close()
    mine = tb.resume(path, until=TARGET, progress=False)
    assert mine.num_draws == reached[1].num_draws
    assert contents(path) == contents(reached[0])
    assert read_manifest(path)["status"] == "complete"


@dataclass(frozen=True)
class KnownMean:
    """A stopping rule of the user's own: the mean prediction at zero is known to `error`."""

    error: float
    numbers: bool = False

    def estimate(self, ensemble):
        found = ensemble.diagnose([0.0], progress=False).mcse_mean[0]
        if not self.numbers:
            return bool(found < self.error)
        return Found(bool(found < self.error), float((found / self.error) ** 2))


class Found(NamedTuple):
    converged: bool
    times_longer: float


@pytest.mark.parametrize("numbers", [False, True])
def test_a_rule_of_the_users_own(tmp_path, numbers):
    """It decides, is saved with the run, and continues to the same end after a limit."""
    path, rule = tmp_path / "run", KnownMean(0.008, numbers)
    with pytest.warns(StoppedInBurnIn):
        assert draw(tmp_path / "none", draws=40, until=rule, max_gradients=5).in_burn_in
    mine = draw(tmp_path / "reference", draws=40, until=rule)
    assert mine.diagnose([0.0], progress=False).mcse_mean[0] < 0.008
    assert mine.num_draws > 40
    with pytest.warns(StoppedUnsatisfied) as told:
        draw(path, draws=40, until=rule, max_gradients=400)
    assert (told[0].message.times is not None) == numbers
    with pytest.raises(
        ValueError, match=r"load it with `custom_objects=\{\"KnownMean\": KnownMean\}`"
    ):
        tb.resume(path, max_gradients=math.inf, progress=False)
    custom = {"KnownMean": KnownMean}
    again = tb.resume(path, max_gradients=math.inf, custom_objects=custom, progress=False)
    assert again.num_draws == mine.num_draws
    assert contents(path) == contents(tmp_path / "reference")
    assert_same_arrays(arrays(tb.load(path)), arrays(mine))


def test_the_rule_of_the_library_can_be_called_directly(reached):
    assert TARGET.estimate(reached[1]).converged
    own = tb.Converged(rhat=1.02, ess=10)
    assert own.estimate(tb.load(reached[0])).rhat.shape == (20,)


def test_converged_is_a_rule_by_its_name(tmp_path):
    path = tmp_path / "run"
    with pytest.warns(tb.ConvergenceWarning, match="R-hat below 1.01, ESS of at least 400"):
        draw(path, draws=20, until="converged", max_gradients=400)
    assert read_manifest(path)["until"] == describe(tb.Converged())
    tb.resume(path, until=tb.Converged(rhat=2, ess=1), max_gradients=10**6, progress=False)
    with pytest.warns(tb.ConvergenceWarning, match="R-hat below 1.01, ESS of at least 400"):
        tb.resume(path, until="converged", max_gradients=400, progress=False)


def test_a_complete_run_continues_only_to_a_new_target(reached, fixed, tmp_path):
    path = tmp_path / "run"
    draw(path, draws=100)
    assert tb.resume(path, until=tb.Converged(rhat=2, ess=1), progress=False).num_draws == 100
    longer = tb.resume(path, until=TARGET, progress=False)
    assert contents(path) == contents(reached[0])
    assert tb.resume(path, progress=False).num_draws == longer.num_draws
    assert read_manifest(path)["until"] == read_manifest(reached[0])["until"]


def whole(draws=400, **options):
    """Each transition of a run without a limit is a draw."""
    return draw(draws=draws, **{"burn_in": 0} | options)


@pytest.mark.parametrize(("thin", "seconds"), [(1, 0.25), (1, 0.0), (3, 0.25)])
def test_gradients_end_each_chain_where_they_must(tmp_path, monkeypatch, thin, seconds):
    """After the transition in which they are spent, however the run is divided into calls."""
    monkeypatch.setattr(LocalBackend, "call_seconds", seconds)
    every_transition = whole().sample_stats["num_gradients"]
    ends = [int(np.argmax(np.cumsum(each) >= 300)) + 1 for each in every_transition]
    assert ends[0] != ends[1]
    path = tmp_path / "run"
    options = {"burn_in": 0, "thin": thin}
    with warns(StoppedByLimit, limit="max_gradients", value=300) as warned:
        mine = draw(path, draws=100, max_gradients=300, **options)
    assert mine.num_draws == min(ends) // thin
    store = DirectoryStore(path)
    assert [store.progress(chain) for chain in (0, 1)] == [
        (end, int(each[:end].sum())) for end, each in zip(ends, every_transition, strict=True)
    ]
    assert store.manifest["status"] == "stopped"
    command = re.search(r"continue with (tb\.resume\(.*\))$", str(warned[0].message))[1]
    assert f"{mine.num_draws} of 100 draws of each chain" in str(warned[0].message)
    with pytest.warns(StoppedByLimit):  # nothing more may be spent
        assert tb.resume(path, progress=False).num_draws == mine.num_draws
    assert eval(command, {"tb": tb}).num_draws == 100
    tb.resume(path, max_gradients=math.inf, progress=False)
    reference = tmp_path / "reference"
    draw(reference, draws=100, **options)
    assert contents(path) == contents(reference)


def test_gradients_end_chains_that_are_advanced_together(monkeypatch):
    every_transition = whole().sample_stats["num_gradients"]
    ends = [int(np.argmax(np.cumsum(each) >= 300)) + 1 for each in every_transition]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with warns(StoppedByLimit, limit="max_gradients"):
        assert draw(draws=100, max_gradients=300, burn_in=0).num_draws == min(ends)


def test_an_executor_counts_gradients_too(tmp_path):
    paths = tmp_path / "one", tmp_path / "two"
    with warns(StoppedByLimit, limit="max_gradients"):
        here = draw(paths[0], draws=100, max_gradients=300)
    with ThreadPoolExecutor(2) as executor, warns(StoppedByLimit, limit="max_gradients"):
        there = draw(paths[1], draws=100, max_gradients=300, executor=executor)
    assert_same_arrays(arrays(there), arrays(here))
    assert read_manifest(paths[1])["status"] == "stopped"


def test_chains_that_wait_for_one_that_has_spent_all_stop_too(tmp_path):
    """In burn-in chains wait for each other; one without gradients left does not come."""
    path = tmp_path / "run"
    options = {"chains": 3, "burn_in": 100, "draws": 10, "progress": False}
    with pytest.warns(StoppedInBurnIn):
        tb.sample(posterior(), path=path, max_gradients=150, **options)
    spent = [DirectoryStore(path).progress(chain) for chain in range(3)]
    assert all(transitions < 100 for transitions, _ in spent)
    mine = tb.resume(path, max_gradients=math.inf, progress=False)
    assert_same_arrays(arrays(mine), arrays(tb.sample(posterior(), **options)))


def test_minutes_stop_a_run_that_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalBackend, "call_seconds", 0.0)
    paths = tmp_path / "run", tmp_path / "executor"
    draw(draws=1)  # so that all is compiled
    for path, workers in zip(paths, (None, ThreadPoolExecutor(2)), strict=True):
        began = time.monotonic()
        with warns(StoppedByLimit, limit="max_minutes", value=0.04):
            mine = draw(path, draws=10**6, max_minutes=0.04, executor=workers)
        assert time.monotonic() - began > 2.4
        if workers is not None:
            workers.shutdown()
        assert read_manifest(path)["status"] == "stopped"
        assert 0 < mine.num_draws < 10**6
        assert read_manifest(path)["max_minutes"] == 0.04
        assert_same_arrays(arrays(mine), arrays(draw(draws=mine.num_draws)))


def test_a_target_that_is_not_reached_is_reported_x_by_x(tmp_path):
    path = tmp_path / "run"
    options = {"until": tb.Converged(rhat=1.001, ess=1e5, x=AT), "max_gradients": 2000}
    with pytest.warns(StoppedByLimit) as warned:
        mine = draw(path, draws=100, **options)
    found = mine.diagnose(AT, progress=False)
    text = str(warned[0].message)
    assert f"stopped by `max_gradients` (2,000) after {mine.num_draws} draws of each chain" in text
    assert "at 3 of 3 x predictions are not known as well as wanted" in text
    assert "(R-hat below 1.001, ESS of at least 100000)" in text
    least = np.minimum(found.ess, found.ess_tail)
    for x, rhat, ess in zip(("-2", "0", "1"), found.rhat, least, strict=True):
        assert f"R-hat {rhat:.3f} and ESS {ess:,.0f} at x = {x}" in text
    needed = max(1e5 / least.min(), (found.rhat.max() - 1) / 0.001)
    assert 1 <= float(re.search(r"about ([\d.]+) times as many", text)[1]) / needed <= 1.1
    assert re.search(r"continue with tb\.resume\('.*run', max_gradients=\d+\)$", text)
    easier = tb.Converged(rhat=1.5, ess=10, x=AT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = tb.resume(path, until=easier, max_gradients=10**6, progress=False)
    assert again.num_draws >= mine.num_draws


def test_of_many_inputs_rows_are_named():
    x = np.random.default_rng(1).normal(size=(250, 4))
    network = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=4)
    target = tb.Posterior(network, tb.Gaussian(sd=0.5), x, x[:, 0])
    small, never = tb.HMC(step_size=0.03, num_steps=4), tb.HMC(step_size=1.0, num_steps=4)
    options = {"until": tb.Converged(ess=1e5), "max_gradients": 200}
    with pytest.warns(StoppedByLimit) as warned:
        sample_run(target, small, draws=20, **QUIET | options)
    rows = [int(each) for each in re.findall(r"ESS \d+ at row (\d+)", str(warned[0].message))]
    assert len(rows) == POINTS_NAMED
    assert all(row % 3 == 0 for row in rows)  # of 250 rows, 84 are checked
    assert "at 84 of 84 x" in str(warned[0].message)
    assert "and 79 more" in str(warned[0].message)
    with pytest.warns(UserWarning, match=": a chain does not move at row 0; a chain") as warned:
        sample_run(target, never, draws=20, **QUIET | options)
    assert "times as many" not in str(warned[0].message)


def test_few_draws_are_not_judged():
    with warns(StoppedUnconverged, short=0):
        draw(draws=100, until=TARGET, max_gradients=45)


def test_predictions_of_a_run_that_grows():
    target = posterior(standardize=True)
    run = draw(target=target, draws=150)
    grown = GrowingPredictions(run._store, target, AT[:, None])
    expected = run.predict(AT).samples.reshape(2, 150, 3, 1)
    np.testing.assert_allclose(grown.update(), expected, rtol=1e-6)
    assert grown.update().shape == (2, 150, 3, 1)


def test_what_is_shown_during_the_run(monkeypatch):
    console = Console(file=StringIO(), width=200)
    monkeypatch.setattr(progress, "_standard_error", lambda: console)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(Monitor, "pause", lambda self, took: 0.01)
    target = tb.Converged(rhat=1.005, ess=4000, x=AT)
    draw(draws=600, until=target, progress=True, checkpoint_seconds=1e-9)
    lines = console.file.getvalue().splitlines()
    known = [line for line in lines if "R-hat" in line]
    form = r"R-hat up to 1\.\d{3}, ESS from [\d,]+, \d of 3 x to go.* \d:\d\d:\d\d left$"
    assert len([line for line in known if re.search(form, line)]) > 3
    done = [int(re.search(r"([\d,]+) of [\d,]+,", line)[1].replace(",", "")) for line in known]
    # Not before a thousand draws and the burn-in of two chains.
    assert done[0] >= 1020
    totals = [int(re.search(r"of ([\d,]+),", line)[1].replace(",", "")) for line in known]
    assert totals[0] > 2 * (10 + 600)
    assert re.search(r"sampling 100 %.* 0 of 3 x to go, .* in all$", lines[-1])


@pytest.fixture
def interruptible():
    """Ctrl-C comes to this process, also where it was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Interrupting:
    """Ctrl-C comes while it decides."""

    def estimate(self, ensemble):
        signal.raise_signal(signal.SIGINT)
        return False


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("path", [None, "run"])
def test_ctrl_c_while_it_decides_keeps_everything(tmp_path, path, capfd):
    target = Interrupting()
    if path is None:
        with warns(Interrupted, draws=100):
            assert draw(draws=100, until=target).num_draws == 100
        return
    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path / path, draws=100, until=target)
    assert "stopped after 100" in capfd.readouterr().err
    assert read_manifest(tmp_path / path)["status"] == "interrupted"
    assert tb.load(tmp_path / path).num_draws == 100


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"until": 1.01}, TypeError, r"`until` must be 'converged', or a rule .*, got 1.01"),
        ({"until": tb.Converged}, TypeError, r"`until` must be 'converged', or a rule such as"),
        ({"until": "convergence"}, TypeError, r"`until` must be 'converged', .*got 'convergence'"),
        ({"until": tb.Converged(), "chains": 1}, ValueError, "`until` compares chains"),
        (
            {"until": tb.Converged(x=np.zeros((3, 2)))},
            ValueError,
            "`x` has 2 columns but the network has 1 inputs",
        ),
        ({"max_minutes": 0}, ValueError, "`max_minutes` must be a positive number, got 0"),
        ({"max_minutes": "1"}, ValueError, "`max_minutes` must be a positive number, got '1'"),
        ({"max_minutes": math.nan}, ValueError, "`max_minutes` must be a positive number"),
        ({"max_gradients": 0}, ValueError, "`max_gradients` must be a whole number of at least 1"),
        ({"max_gradients": 1.5}, ValueError, "`max_gradients` must be a whole number"),
    ],
)
def test_wrong_options(tmp_path, options, kind, message):
    with pytest.raises(kind, match=message):
        draw(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_the_prior_has_no_inputs_to_check():
    network = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1)
    prior = tb.Posterior(network, tb.Gaussian(sd=0.5))
    with pytest.raises(ValueError, match=r"say where to look, such as `until=tb\.Converged\(x=x"):
        draw(target=prior, until=tb.Converged())
    target = tb.Converged(rhat=1.1, ess=50, x=AT)
    found = draw(target=prior, draws=50, until=target).diagnose(AT, progress=False)
    assert found.rhat.max() < 1.1
