"""An ensemble in memory can be resumed, with the bits of an uninterrupted run."""

import math

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.errors import FewerDrawsError
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.warning import Interrupted, StoppedByLimit
from tests.raising import raises, warns
from tests.sampling.small_runs import (
    ADAPTIVE,
    FIXED,
    arrays,
    assert_same_arrays,
    by_epoch,
    posterior,
)

SAMPLERS = {
    "hmc": tb.HMC(max_steps=20),
    "adaptive": ADAPTIVE,
    "ghmc": tb.GHMC(max_steps=20),
    "nuts": tb.NUTS(max_tree_depth=4),
    "mclmc": tb.MCLMC(max_steps=20),
    "sghmc": tb.SGHMC(batch_size=4, num_steps=10),
}
PLAN = {"chains": 2, "burn_in": 160, "thin": 2, "seed": 3, "progress": False}
METRICS = {"metrics": [tb.MeanSquaredError()]}


def assert_same(found, whole):
    assert found.num_draws == whole.num_draws
    assert_same_arrays(arrays(found), arrays(whole))
    assert by_epoch(found.reports) == by_epoch(whole.reports)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_longer_run_has_the_bits_of_one_that_was_longer_from_the_start(name):
    options = PLAN | METRICS | {"sampler": SAMPLERS[name]}
    whole = tb.sample(posterior(), draws=130, **options)
    short = tb.sample(posterior(), draws=11, **options)
    before = arrays(short)
    longer = tb.resume(short, draws=105, progress=False)
    assert short.num_draws == 11
    assert_same_arrays(arrays(short), before)
    assert_same(tb.resume(longer, draws=130, progress=False), whole)
    # The first ensemble can be resumed again.
    assert_same(tb.resume(short, draws=130, progress=False), whole)


def test_a_run_that_a_limit_has_stopped():
    options = PLAN | {"sampler": FIXED, "draws": 40}
    whole = tb.sample(posterior(), **options)
    with warns(StoppedByLimit, limit="max_gradients") as told:
        short = tb.sample(posterior(), max_gradients=540, **options)
    assert 0 < short.num_draws < 40
    assert "continue with tb.resume(ensemble, max_gradients=" in str(told[0].message)
    assert_same(tb.resume(short, max_gradients=math.inf, progress=False), whole)


def test_a_run_that_was_interrupted(monkeypatch):
    whole = tb.sample(posterior(), draws=40, **PLAN)

    def interrupt(group):
        if group.drawn >= 10:
            group.stop.signal = 2
            group.stop.request()

    with monkeypatch.context() as patch, warns(Interrupted):
        patch.setattr(ChainGroup, "after_call", interrupt)
        short = tb.sample(posterior(), draws=40, **PLAN)
    assert short.num_draws < 40
    assert_same(tb.resume(short, progress=False), whole)


def test_until_converged():
    options = PLAN | {"draws": 20, "until": tb.Converged(rhat=1.2, ess=150, x=[0.0])}
    whole = tb.sample(posterior(), **options)
    short = tb.sample(posterior(), **options | {"until": None})
    found = tb.resume(short, until=options["until"], progress=False)
    assert found.num_draws > 20
    assert_same(found, whole)


def test_a_complete_run_is_returned_as_it_is():
    short = tb.sample(posterior(), draws=5, **PLAN)
    assert_same(tb.resume(short, progress=False), short)
    assert_same(tb.resume(short, draws=5, progress=False), short)


def test_the_ensemble_of_a_directory_continues_there(tmp_path):
    short = tb.sample(posterior(), draws=5, path=tmp_path / "run", **PLAN)
    assert_same(tb.resume(short, draws=9, progress=False), tb.load(tmp_path / "run"))


def test_a_variational_fit_draws_more():
    options = {"epochs": 20, "cycles": 1, "progress": False}
    whole = tb.fit_variational(posterior(), draws=30, **options)
    short = tb.fit_variational(posterior(), draws=10, **options)
    longer = tb.resume(short, draws=30, progress=False)
    np.testing.assert_array_equal(
        longer.parameters["dense_0.weights"], whole.parameters["dense_0.weights"]
    )


def test_what_can_not_be_resumed():
    short = tb.sample(posterior(), draws=5, **PLAN)
    with raises(FewerDrawsError, draws=4, drawn=5, run="the ensemble"):
        tb.resume(short, draws=4, progress=False)
    with pytest.raises(ValueError, match="`posterior` is for a run directory: leave it out"):
        tb.resume(short, draws=6, posterior=posterior())
    assert short.num_draws == 5
