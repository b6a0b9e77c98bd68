"""Problems of a fit are found where they were planted, and not in good fits."""

import json
import math
import pickle

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli.messages import CommandLine
from tensorbnn.data_findings import AboutColumns, Unscaled
from tensorbnn.ensemble.diagnostics import diagnose
from tensorbnn.ensemble.fit_checks import (
    NoiseCollapse,
    NoiseTooSmall,
    Outliers,
    PriorConflict,
    SkewedResiduals,
    UnevenNoise,
    check_residuals,
    noise_collapse,
    prior_conflict,
)
from tensorbnn.findings import VerdictKind
from tensorbnn.model.layout import hyper_layout

ROWS = 600


def residuals(noise, rows=ROWS, seed=0, *, sd=1.0, is_known=False):
    """What is found where targets are ``3 x`` and `noise`, and the model knows ``3 x``."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rows)
    mean = 3 * x[:, None]
    data = tb.Dataset(x, mean[:, 0] + noise(rng, x))
    return [*check_residuals(data, mean, np.full_like(mean, sd), is_known=is_known)]


@pytest.mark.parametrize("rows", [30, 100, 1000])
def test_gaussian_noise_is_as_it_should_be(rows):
    for seed in range(60):
        assert residuals(lambda rng, x: rng.normal(size=len(x)), rows, seed) == []


@pytest.mark.parametrize("rows", [200, 2000])
def test_a_small_deviation_is_not_reported(rows):
    for seed in range(20):
        assert residuals(lambda rng, x: rng.standard_t(20, size=len(x)), rows, seed) == []
        assert residuals(lambda rng, x: rng.normal(size=len(x)) * (1 + x / 5), rows, seed) == []
        assert residuals(lambda rng, x: rng.gamma(50, size=len(x)), rows, seed) == []
        assert residuals(lambda rng, x: np.round(rng.normal(size=len(x)) + x) - x, rows, seed) == []


@pytest.mark.parametrize(
    ("noise", "kind"),
    [
        (lambda rng, x: rng.standard_t(2, size=len(x)), Outliers),
        (lambda rng, x: (1 + 20 * (rng.random(len(x)) < 0.03)) * rng.normal(size=len(x)), Outliers),
        (lambda rng, x: rng.normal(size=len(x)) * np.exp(2 * x), UnevenNoise),
        (lambda rng, x: rng.normal(size=len(x)) * (0.1 + np.abs(x)), UnevenNoise),
        (lambda rng, x: rng.exponential(size=len(x)), SkewedResiduals),
        (lambda rng, x: -rng.lognormal(size=len(x)), SkewedResiduals),
    ],
)  # fmt: skip
def test_noise_of_another_likelihood(noise, kind):
    for seed in range(5):
        (found,) = residuals(noise, seed=seed)
        assert isinstance(found, kind)
        assert (found.argument, found.columns, found.of) == ("y", (0,), 1)
        assert not found.doubtful


def test_numbers_of_residuals():
    def spread(rng, x):
        return rng.normal(size=len(x)) * np.where(x > 0, 4, 1)

    (uneven,) = residuals(spread, 3000)
    assert 3 < uneven.ratio < 5
    (skewed,) = residuals(lambda rng, x: rng.exponential(size=len(x)), 3000)
    assert skewed.skewness == pytest.approx(0.566, abs=0.1)  # log 20 + log(20/19) - 2 log 2, ...
    (tails,) = residuals(
        lambda rng, x: np.where(np.arange(len(x)) < 12, 50, rng.normal(size=len(x)))
    )
    assert (tails.rows, tails.among) == (12, ROWS)


@pytest.mark.parametrize(("sd", "kinds"), [(1.0, []), (0.6, []), (0.3, [NoiseTooSmall])])
def test_known_noise_that_is_too_small(sd, kinds):
    found = residuals(lambda rng, x: rng.normal(size=len(x)), sd=sd, is_known=True)
    assert [type(each) for each in found] == kinds
    for each in found:
        assert each.factor == pytest.approx(1 / sd, rel=0.1)
        assert each.doubtful


@pytest.mark.parametrize(
    ("hyper", "value", "far"),
    [
        (tb.Hyper(1.0, tb.Normal(1.0, 0.1)), 1.35, False),
        (tb.Hyper(1.0, tb.Normal(1.0, 0.1)), 1.45, True),
        (tb.Hyper(1.0, tb.Normal(1.0, 0.1)), 0.55, True),
        (tb.Hyper(0.3), 0.3 * math.exp(3.7), False),
        (tb.Hyper(0.3), 0.3 * math.exp(4.3), True),
        (tb.Hyper(1.0, tb.HalfNormal(1.0)), 1e-3, False),
        (tb.Hyper(1.0, tb.HalfNormal(1.0)), 3.8, False),
        (tb.Hyper(1.0, tb.HalfNormal(1.0)), 4.5, True),
        (tb.Hyper(1.0, tb.HalfCauchy(1.0)), 1000.0, False),
        (tb.Hyper(0.5, tb.Uniform(0.0, 1.0)), 0.999, False),
    ],
)
def test_prior_and_data_in_conflict(hyper, value, far):
    layout = hyper_layout({"likelihood": tb.Gaussian(sd=hyper)})
    found = [*prior_conflict(layout, {"likelihood.sd": value})]
    assert len(found) == far
    for each in found:
        assert (each.name, each.value, each.number, each.of) == ("likelihood.sd", value, 1, 1)
        assert each.low < each.high


def test_the_prior_of_a_hyper_parameter_may_have_its_own():
    prior = tb.Normal(0.0, tb.Hyper(1.0, tb.Normal(1.0, 0.1)))
    layout = hyper_layout({"weights": tb.Normal(tb.Hyper(0.0, prior), 1.0)})
    for own, far in ((1.0, 2), (2.0, 1)):
        medians = {"weights.loc": 5.0, "weights.loc.scale": own}
        found = [*prior_conflict(layout, medians)]
        names = {"weights.loc": far == 2, "weights.loc.scale": own == 2}
        assert sum(each.number for each in found) == sum(names.values())


@pytest.mark.parametrize(("sd", "collapsed"), [(0.1, False), (2e-3, False), (4e-4, True)])
def test_noise_that_collapses(sd, collapsed):
    likelihood, spread = tb.Gaussian(sd=[0.1, tb.Hyper(0.3)]), np.array([100.0, 1.0])
    found = [*noise_collapse(likelihood, {"likelihood.sd.1": sd}, spread)]
    assert found == [NoiseCollapse("y", (1,), 2, sd)] * collapsed
    assert [*noise_collapse(tb.Gaussian(sd=1e-5), {}, spread[:1])] == []


def sampled(y, likelihood, x=None, **options):
    x = np.linspace(-1, 1, len(y)) if x is None else x
    network = tb.Network(tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, likelihood, x, y, **options)
    return tb.sample(posterior, chains=2, burn_in=300, draws=300, progress=False)


def verdict(ensemble):
    return ensemble.diagnose(np.array([-1.0, 0.0, 1.0]), progress=False).verdict


def kinds(found):
    """Those of findings about the data and the fit."""
    about = AboutColumns, PriorConflict
    return [type(each) for each in found.findings if isinstance(each, about)]


def test_a_good_fit_has_no_findings():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 200)
    y = x + rng.normal(0, 0.3, 200)
    found = verdict(sampled(y, tb.Gaussian(sd=tb.Hyper(0.3)), x))
    assert kinds(found) == []


def test_outliers_are_in_the_verdict():
    rng = np.random.default_rng(0)
    y = np.linspace(-1, 1, 200) + 0.1 * rng.standard_t(1.5, size=200)
    found = verdict(sampled(y, tb.Gaussian(sd=tb.Hyper(0.3)), standardize=True))
    assert kinds(found) == [Outliers]
    assert "try tb.StudentTNoise" in str(found)
    assert kinds(verdict(sampled(y, tb.StudentTNoise(scale=tb.Hyper(0.3))))) == []


def test_targets_near_5000_are_not_trustworthy():
    y = 5000 + np.random.default_rng(0).normal(size=100)
    with pytest.warns(tb.RunWarning, match="far from unit scale"):
        ensemble = sampled(y, tb.Gaussian(sd=tb.Hyper(1.0)))
    found = verdict(ensemble)
    assert kinds(found)[:2] == [Unscaled, PriorConflict]
    assert not found.trustworthy
    (conflict,) = (each for each in found.findings if isinstance(each, PriorConflict))
    assert conflict.value > 20 * conflict.high
    # Standardized, all is well.
    assert kinds(verdict(sampled(y, tb.Gaussian(sd=tb.Hyper(1.0)), standardize=True))) == []


def test_only_chains_that_agree_are_judged_by_their_fit():
    def fail():
        raise AssertionError("not to be computed")

    values = np.random.default_rng(0).normal(size=(4, 500, 3, 1))
    found = diagnose(values + np.arange(4)[:, None, None, None], {}, about_fit=fail).verdict
    assert found.kind is VerdictKind.DISAGREE


def test_findings_are_data_and_words():
    conflict = PriorConflict(2, 5, "likelihood.sd", 5115.0, 0.04, 2.1)
    tails = Outliers("y", (0,), 1, 12, 600)
    assert pickle.loads(pickle.dumps((conflict, tails))) == (conflict, tails)
    described = json.loads(json.dumps(conflict.to_dict()))
    assert (described["kind"], described["doubtful"]) == ("PriorConflict", True)
    assert (described["value"], described["remedy"]) == (5115.0, "other_prior")
    assert str(conflict).startswith(
        "but data and prior are in conflict: likelihood.sd is 5.12e+03, but its prior expects 0.04 "
        "to 2.1, and 1 more such: give"
    )
    words = CommandLine(names={"y": ("price",)})
    assert tails.message(words) == (
        "12 of 600 residuals of price are beyond 5 sds, too many for Gaussian noise: try "
        "--likelihood studenttnoise"
    )
