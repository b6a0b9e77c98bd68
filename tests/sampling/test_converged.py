"""When predictions are precise enough, and how long that takes."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.diagnostics import convergence
from tensorbnn.sampling.converged import (
    POINTS_AT_ONCE,
    ConvergenceEstimate,
    estimate_convergence,
)


def series(chains=4, draws=500, points=30, outputs=2, seed=0):
    """Chains that agree, and are correlated by 0.9 at the first points and by 0 at the last."""
    rng = np.random.default_rng(seed)
    rho = np.linspace(0.9, 0.0, points)[:, None]
    noise = rng.normal(size=(draws, chains, points, outputs)) * np.sqrt(1 - rho**2)
    values = [rng.normal(size=(chains, points, outputs))]
    for each in noise[1:]:
        values.append(rho * values[-1] + each)
    return np.stack(values, axis=1).astype(np.float32)


def of(rhat, ess, rule=None, draws=100):
    rhat, ess, rule = np.array(rhat, float), np.array(ess, float), rule or tb.Converged()
    return ConvergenceEstimate(rule, draws, rhat, ess, np.ones(len(rhat), bool))


def test_the_numbers_are_those_of_the_diagnosis():
    values = series()
    found, own = estimate_convergence(values, tb.Converged()), convergence(values)
    np.testing.assert_array_equal(found.rhat, own.rhat.max(axis=1))
    np.testing.assert_array_equal(found.ess, np.minimum(own.ess, own.ess_tail).min(axis=1))
    assert found.exact.all()
    assert found.draws == 500


@pytest.mark.parametrize(("ess", "reached"), [(50.0, True), (400.0, False)])
def test_an_earlier_estimate_changes_the_work_but_not_the_answer(ess, reached):
    values, until = series(), tb.Converged(rhat=1.1, ess=ess)
    before = estimate_convergence(values[:, :300], until)
    found = estimate_convergence(values, until, before)
    assert found.converged == estimate_convergence(values, until).converged == reached
    # The worst points alone can show that it is not reached; only all of them show that it is.
    assert found.exact.sum() == (30 if reached else POINTS_AT_ONCE)
    exact = estimate_convergence(values, until)
    np.testing.assert_array_equal(found.rhat[found.exact], exact.rhat[found.exact])
    # The rest is extrapolated. ESS of 4 x 300 draws errs by some 10 to 20 % (here and there).
    np.testing.assert_allclose(found.ess, exact.ess, rtol=0.6)


def test_only_the_worst_points_are_checked_in_between():
    values, until = series(), tb.Converged(ess=1000)
    before = estimate_convergence(values[:, :300], until)
    found = estimate_convergence(values, until, before, most=8)
    assert found.exact.sum() == 8
    worst = np.argsort(-before.after(500).needed, kind="stable")[:8]
    assert found.exact[worst].all()
    assert not found.converged


def test_nearly_every_x():
    rhat, ess = np.full(100, 1.0), np.full(100, 500.0)
    rhat[3] = 1.2
    assert of(rhat, ess, tb.Converged()).converged
    assert not of(rhat, ess, tb.Converged(fraction=1.0)).converged
    ess[4] = 399.0
    assert not of(rhat, ess, tb.Converged()).converged
    assert of(rhat, ess, tb.Converged(fraction=0.98)).converged
    assert not of([1.01, 1.0], [500, 500], tb.Converged(rhat=1.01)).converged  # to be below it
    assert of([1.0, 1.0], [400, 400], tb.Converged(ess=400)).converged


def test_how_much_longer():
    until = tb.Converged(rhat=1.01, ess=400, fraction=1.0)
    assert of([1.03, 1.0], [400, 800], until).times_longer == pytest.approx(3)
    assert of([1.005, 1.0], [500, 100], until).times_longer == pytest.approx(4)
    assert of([1.0], [1e6], until).times_longer == 1
    assert of([np.nan, 1.0], [500, 500], until).times_longer == np.inf
    one_may = tb.Converged(fraction=0.5)
    assert of([np.nan, 1.02], [500, 500], one_may).times_longer == pytest.approx(2)
    later = of([1.03], [100]).after(300)
    assert (later.rhat[0], later.ess[0]) == pytest.approx((1.01, 300))
    assert not later.exact.any()


def test_a_tiny_fraction_still_asks_for_one_point():
    estimate = of([1.5, 1.2, 1.05], [10, 50, 100], tb.Converged(fraction=1e-12))
    assert not estimate.converged
    assert estimate.times_longer == pytest.approx(5)


def test_what_never_changes_is_certain_and_a_chain_that_never_moves_is_stuck():
    values = series(points=3)
    values[:, :, 1] = 0.5
    until = tb.Converged(rhat=1.1, ess=20, fraction=1.0)
    found = estimate_convergence(values, until)
    assert (found.rhat[1], found.ess[1]) == (1.0, np.inf)
    assert found.converged
    for stuck in (slice(2, 3), slice(None)):
        values[stuck] = values[0, :1]
        found = estimate_convergence(values, until)
        assert found.short[1]
        assert not found.converged


def test_too_few_draws_give_no_estimate():
    assert estimate_convergence(series(draws=3), tb.Converged()) is None
    assert estimate_convergence(series(draws=4), tb.Converged()) is not None


def test_a_description_compares():
    x = np.linspace(0, 1, 3)
    assert tb.Converged(x=x) == tb.Converged(x=x[:, None]) != tb.Converged()
    assert hash(tb.Converged(x=x)) == hash(tb.Converged(x=[0, 0.5, 1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rhat": 1.0}, "`rhat` must be a number above 1, such as 1.01, got 1.0"),
        ({"rhat": "1.01"}, "`rhat` must be a number above 1"),
        ({"rhat": np.nan}, "`rhat` must be a number above 1"),
        ({"ess": 0}, "`ess` must be a positive number, such as 400, got 0"),
        ({"ess": np.inf}, "`ess` must be a positive number"),
        ({"ess": True}, "`ess` must be a positive number"),
        ({"fraction": 0}, "`fraction` must be above 0 and at most 1, such as 0.99, got 0"),
        ({"fraction": 1.1}, "`fraction` must be above 0 and at most 1"),
        ({"x": [0.0, np.nan]}, r"`x` must be finite, but 1 of its values are not"),
        ({"x": []}, "`x` is empty"),
        ({"x": np.zeros((2500, 1))}, r"`x` has 2,500 rows, .* such as `x=x\[::3\]`"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        tb.Converged(**options)


def test_x_holds_numbers():
    with pytest.raises(TypeError, match="`x` must hold numbers"):
        tb.Converged(x=["a"])
