"""Limits: the user always gets networks, and `max_minutes` holds."""

import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.findings import InBurnIn, TooFewDraws, VerdictKind
from tensorbnn.sampling.burn_in import MOST_KEPT
from tensorbnn.sampling.pace import Pace
from tensorbnn.warning import BurnInTooSlow, StoppedByLimit, StoppedInBurnIn
from tests.raising import warns
from tests.sampling.small_runs import FIXED, X, arrays, assert_same_arrays, posterior

# Of several chains, the first that has spent its gradients in burn-in stops the others.
PLAN = {"chains": 1, "burn_in": 100, "draws": 6, "progress": False}


def stopped_in_burn_in(transitions, **options):
    """A run that has spent its gradients, three in each transition."""
    limit = 3 * transitions
    facts = {"limit": "max_gradients", "value": limit, "transitions": transitions}
    with warns(StoppedInBurnIn, burn_in=100, **facts):
        return tb.sample(posterior(), FIXED, max_gradients=limit, **PLAN | options)


@pytest.mark.parametrize("path", [None, "run"])
def test_a_limit_in_burn_in_gives_the_networks_of_its_second_half(tmp_path, path):
    options = {} if path is None else {"path": tmp_path / path}
    found = stopped_in_burn_in(50, **options)
    assert found.in_burn_in
    assert repr(found) == "Ensemble(25 networks of burn-in: 1 chain of 25)"
    # A sampler that adapts nothing makes the same transitions without burn-in.
    options_of_all = PLAN | {"burn_in": 0, "draws": 50}
    every = arrays(tb.sample(posterior(), FIXED, **options_of_all))
    latest = {name: each[:, 25:] for name, each in every.items()}
    assert_same_arrays(arrays(found), latest)
    if path is not None:
        loaded = tb.load(tmp_path / path)
        assert loaded.in_burn_in
        assert_same_arrays(arrays(loaded), latest)


@pytest.mark.parametrize("path", [None, "run"])
def test_resume_continues_the_burn_in_and_drops_its_networks(tmp_path, path):
    options = {} if path is None else {"path": tmp_path / path}
    first = stopped_in_burn_in(30, **options)
    before = arrays(first)
    with warns(StoppedInBurnIn, transitions=70):
        second = tb.resume(first, max_gradients=210, progress=False)
    assert second.in_burn_in
    assert second.num_draws == 35
    whole = tb.sample(posterior(), FIXED, **PLAN)
    mine = tb.resume(second, max_gradients=math.inf, progress=False)
    assert not mine.in_burn_in
    assert_same_arrays(arrays(mine), arrays(whole))
    assert_same_arrays(arrays(first), before)
    assert not list(tmp_path.rglob("burn-in.safetensors"))


def test_the_verdict_reports_networks_of_burn_in():
    verdict = stopped_in_burn_in(60).diagnose(X, progress=False).verdict
    assert verdict.kind is VerdictKind.NOT_YET
    assert verdict.findings[0] == InBurnIn(60, 100)
    assert "not draws from the posterior" in str(verdict)
    assert "at transition 60 of 100" in str(verdict)


def test_one_network_is_enough_for_predictions_and_a_verdict():
    found = stopped_in_burn_in(1)
    assert found.num_draws == 1
    assert np.all(np.isfinite(found.predict(X, progress=False).mean))
    diagnosis = found.diagnose(X, progress=False)
    assert np.all(np.isnan(diagnosis.rhat))
    assert diagnosis.verdict.findings[0] == InBurnIn(1, 100)


def test_few_draws_have_a_verdict():
    few = tb.sample(posterior(), FIXED, **PLAN | {"draws": 2, "burn_in": 5})
    verdict = few.diagnose(X, progress=False).verdict
    assert verdict.kind is VerdictKind.NOT_YET
    assert verdict.findings[0] == TooFewDraws(2, 4)


def test_no_more_networks_of_burn_in_are_kept_than_needed():
    options = {"burn_in": 100_000, "chains": 1, "draws": 1, "progress": False}
    with pytest.warns(StoppedInBurnIn):
        found = tb.sample(posterior(), FIXED, max_gradients=3000, **options)
    assert MOST_KEPT / 8 < found.num_draws <= MOST_KEPT


@pytest.mark.parametrize("workers", [None, 2])
def test_no_time_at_all_gives_the_networks_at_which_chains_start(tmp_path, workers):
    executor = None if workers is None else ThreadPoolExecutor(workers)
    plan = PLAN | {"chains": 3}
    options = plan | {"path": tmp_path / "run", "executor": executor}
    with warns(StoppedInBurnIn, limit="max_minutes", transitions=0):
        found = tb.sample(posterior(), FIXED, max_minutes=1e-9, **options)
    assert (found.in_burn_in, found.num_draws) == (True, 1)
    mine = tb.resume(tmp_path / "run", max_minutes=math.inf, progress=False)
    assert_same_arrays(arrays(mine), arrays(tb.sample(posterior(), FIXED, **plan)))


# Time.

SECONDS = 0.5
"""Of a transition of these samplers; they sleep, which a busy machine does not slow down."""


@dataclass(frozen=True)
class Sleepy(tb.Sampler):
    """Does not announce its gradients."""

    def init(self, target, positions, burn_in):
        return FIXED.init(target, positions, burn_in)

    @staticmethod
    def step(keys, state, target):
        def sleep(value):
            time.sleep(SECONDS)
            return np.zeros_like(value)

        state, info = tb.HMC.step(keys, state, target)
        kind = jax.ShapeDtypeStruct(info.lp.shape, info.lp.dtype)
        return state, info._replace(lp=info.lp + jax.pure_callback(sleep, kind, info.lp))


@dataclass(frozen=True)
class Announcing(Sleepy):
    """Announces how many gradients a transition takes."""

    most_gradients = staticmethod(tb.HMC.most_gradients)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Sleepy(), Announcing()])
def test_minutes_hold_and_no_transition_begins_that_would_end_too_late(sampler):
    """All is compiled before, since the time for that depends on the machine."""
    options = {"chains": 1, "burn_in": 1, "progress": False}
    tb.sample(posterior(), sampler, draws=1, **options)
    limit, began = 6.3, time.monotonic()
    with warns(StoppedByLimit, limit="max_minutes"):
        found = tb.sample(posterior(), sampler, draws=1000, max_minutes=limit / 60, **options)
    took = time.monotonic() - began
    # Transitions are half a second long: the last that fits ends within this of the limit.
    assert (found.num_draws + 1) * SECONDS <= limit
    assert limit - 3 * SECONDS < took < 1.25 * limit


@pytest.mark.slow
def test_a_burn_in_that_is_too_slow_is_announced_in_its_first_seconds():
    options = {"chains": 1, "draws": 1, "progress": False}
    tb.sample(posterior(), Announcing(), burn_in=1, **options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = tb.sample(posterior(), Announcing(), burn_in=240, max_minutes=0.1, **options)
    assert found.in_burn_in
    announced, stopped = (each.message for each in told)
    assert isinstance(announced, BurnInTooSlow)
    assert isinstance(stopped, StoppedInBurnIn)
    # 240 transitions of half a second take two minutes; a busy machine takes longer.
    assert 1.9 < announced.minutes < 4
    assert "about 2" in str(announced) or "about 3" in str(announced)


def test_a_budget_is_what_fits_into_the_time_left():
    announcing, plain = Pace(announces=True), Pace(announces=False)
    for pace in (announcing, plain):
        assert pace.budget(math.inf).gradients < 0
        assert pace.budget(5.0).transitions == 1  # nothing is known yet
        pace.add(transitions=10, gradients=1000, seconds=1.0)
    assert 900 <= announcing.budget(1.0).gradients <= 1000
    assert 9 <= plain.budget(1.0).transitions <= 10
    assert plain.budget(0.05).transitions == 0
    # What becomes slower counts at once.
    announcing.add(transitions=1, gradients=100, seconds=0.2)
    assert announcing.budget(1.0).gradients <= 500
