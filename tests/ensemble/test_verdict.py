"""The verdict is of the right kind, and its findings report the problem and its place."""

import math

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.diagnostics import diagnose
from tensorbnn.ensemble.verdict import pareto_k_limit
from tensorbnn.findings import (
    Agree,
    Disagree,
    Divergences,
    EnergyErrors,
    HyperparametersDisagree,
    KineticTemperature,
    LowAcceptance,
    NotMoved,
    OneChain,
    RunLonger,
    SlowEnergies,
    VerdictKind,
    WeightsUntrusted,
    rounded_up,
)
from tensorbnn.messages import Remedy

X = np.array([[-1.0], [0.25], [2.0]])


def info(chains, draws, **changed):
    rng = np.random.default_rng(1)
    return {
        "acceptance_rate": np.full((chains, draws), 0.9),
        "diverging": np.zeros((chains, draws), int),
        "energy": rng.normal(size=(chains, draws)),
        **changed,
    }


def noise(chains=4, draws=500, rows=3, seed=0):
    return np.random.default_rng(seed).normal(size=(chains, draws, rows, 1))


def verdict(values, x=None, hypers=None, sampler=None, **changed):
    numbers = info(*values.shape[:2], **changed)
    points = None if x is None else tb.Dataset(x)
    return diagnose(values, numbers, points=points, hyperparameters=hypers, sampler=sampler).verdict


@pytest.mark.parametrize(
    ("networks", "limit"),
    [(1, -math.inf), (10, 0.0), (100, 0.5), (1000, 2 / 3), (10**4, 0.7), (10**6, 0.7)],
)
def test_heavy_tails_need_many_networks(networks, limit):
    if math.isinf(limit):  # k-hat is -inf where all weights are the same, and else unknown
        assert -math.inf < pareto_k_limit(networks) < 0
    else:
        assert pareto_k_limit(networks) == pytest.approx(limit)


def test_weights_with_too_high_a_k_hat():
    values = noise()
    weights, untrusted = np.full((4, 500), 1 / 2000), WeightsUntrusted(0.6, 0.5)
    assert diagnose(values, info(4, 500), weights=weights).trustworthy
    found = diagnose(values, info(4, 500), weights=weights, untrusted=untrusted)
    assert not found.trustworthy
    assert found.verdict.kind is VerdictKind.USABLE
    assert found.verdict.findings[1] == untrusted


def test_trustworthy():
    found = verdict(noise())
    assert found.kind is VerdictKind.TRUSTWORTHY
    assert found.trustworthy
    (agree,) = found.findings
    assert isinstance(agree, Agree)
    assert agree.rhat < 1.01
    assert agree.ess > 1000
    assert found.numbers == {"rhat": agree.rhat, "ess": agree.ess}


def test_run_longer_estimates_how_much():
    """50 draws of each of 4 chains are worth about 200, half of what is needed."""
    values = noise(draws=50)
    d = diagnose(values, info(4, 50))
    needed = max((d.rhat.max() - 1) / 0.01, 400 / min(d.ess.min(), d.ess_tail.min()))
    assert d.verdict.kind is VerdictKind.NOT_YET
    (found,) = d.verdict.findings
    assert found.times == pytest.approx(needed)
    factor = float(rounded_up(found.times))
    assert factor == pytest.approx(needed, rel=0.1)
    assert factor >= needed


def test_running_that_much_longer_is_enough():
    rng = np.random.default_rng(3)

    def walk(draws):
        steps = rng.normal(size=(4, draws, 1, 1))
        for i in range(1, draws):
            steps[:, i] = 0.9 * steps[:, i - 1] + np.sqrt(0.19) * steps[:, i]
        return steps

    short = verdict(walk(1000))
    assert isinstance(short.findings[0], RunLonger)
    # Twice the estimate, since the factor is uncertain.
    assert verdict(walk(int(2000 * short.findings[0].times))).trustworthy


@pytest.mark.parametrize("draws", [10, 20, 50, 200])
def test_few_draws_are_not_mistaken_for_disagreement(draws):
    """Chains of independent draws disagree by chance only: in less than one of a hundred runs."""
    found = [verdict(noise(draws=draws, rows=5, seed=seed)) for seed in range(60)]
    assert sum(each.kind is VerdictKind.DISAGREE for each in found) <= 2


def test_the_outlying_chain_is_named():
    values = noise()
    values[2, :, 1:] += 3
    found = verdict(values, X)
    assert found.kind is VerdictKind.DISAGREE
    (disagree,) = found.findings
    assert (disagree.rows, disagree.of, disagree.label) == (2, 3, "x =")
    assert 1.05 < disagree.rhat < 2
    assert disagree.odd_chain == 2
    assert disagree.remedy is Remedy.ODD_CHAIN


def test_two_against_two_has_no_outlying_chain():
    values = noise()
    values[:2, :, 1] += 3
    (found,) = verdict(values, X).findings
    assert (found.rows, found.of, found.worst) == (1, 3, ("0.25",))
    assert found.remedy is Remedy.SEPARATE_MODES


def test_neither_of_two_chains_is_outlying():
    values = noise(chains=2)
    values[0] += 3
    assert verdict(values).findings[0].remedy is Remedy.SEPARATE_MODES


def test_a_short_burn_in_is_recognized():
    values = noise()
    values[:, :100, 0] += np.array([0.0, 4.0, 8.0, -4.0])[:, None, None]
    (found,) = verdict(values).findings
    assert found.is_early
    assert found.remedy is Remedy.LONGER_BURN_IN


def test_rows_are_named_by_number_for_many_inputs():
    values = noise(rows=8)
    values[:2] += 0.3 * np.arange(8.0)[:, None]
    x = np.arange(8 * 5.0).reshape(8, 5)
    assert "worst at rows 7, 6, 5, 4, ...)" in verdict(values, x).findings[0].found()
    few = verdict(values, np.arange(16.0).reshape(8, 2)).findings[0]
    assert "worst at x = (14, 15), (12, 13), (10, 11), (8, 9), ...)" in few.found()


def test_rows_have_the_names_that_are_given():
    values = noise(rows=8)
    values[:2] += 0.3 * np.arange(8.0)[:, None]
    names = [f"row {row} of July" for row in range(8)]
    found = diagnose(values, info(4, 500), points=tb.Dataset(np.arange(8.0), names=names))
    worst = tuple(f"row {row} of July" for row in (7, 6, 5, 4))
    assert found.verdict.findings[0].worst == worst


def test_chains_that_never_move_are_not_trusted():
    values = noise()
    values[1] = 0.5
    assert verdict(values).kind is VerdictKind.NOT_MOVED
    assert verdict(values).findings == (NotMoved((1,), 4),)
    values[3] = 0.5
    assert verdict(values).findings == (NotMoved((1, 3), 4),)
    stuck = np.ones((4, 100, 2, 1))
    found = verdict(stuck, energy=np.random.default_rng(0).normal(size=(4, 100)))
    assert found.findings == (NotMoved((0, 1, 2, 3), 4),)


def test_a_row_at_which_one_chain_is_stuck():
    values = noise()
    values[1, :, 2] = 7.0
    (found,) = verdict(values, X).findings
    assert isinstance(found, Disagree)
    assert (found.rows, found.of) == (1, 3)


def test_a_row_that_all_networks_agree_on_is_certain():
    values = noise()
    values[:, :, 1] = 0.0
    assert verdict(values).trustworthy


def test_one_chain_can_not_show_convergence():
    found = verdict(noise(chains=1))
    assert found.kind is VerdictKind.ONE_CHAIN
    assert found.findings == (OneChain(),)


def test_many_divergences_are_mentioned():
    divergent = np.zeros((4, 500), int)
    divergent[:, ::10] = 7  # of the transitions that led to the draw
    found = verdict(noise(), diverging=divergent)
    assert found.kind is VerdictKind.USABLE
    assert found.findings[1] == Divergences(0.1)


def test_slow_energies_are_mentioned():
    """AR(1) with correlation 0.95: the mean squared step is 0.1 of the variance."""
    energy = np.random.default_rng(0).normal(size=(4, 500))
    for i in range(1, 500):
        energy[1, i] = 0.95 * energy[1, i - 1] + np.sqrt(1 - 0.95**2) * energy[1, i]
    found = verdict(noise(), energy=energy)
    assert found.trustworthy
    slow = found.findings[1]
    assert isinstance(slow, SlowEnergies)
    assert slow.chains == (1,)
    assert slow.ebfmi < 0.1


def test_low_acceptance_is_mentioned():
    acceptance = np.full((4, 500), 0.9)
    acceptance[3] = 0.04
    found = verdict(noise(), acceptance_rate=acceptance)
    assert found.findings[1] == LowAcceptance((3,), 4, pytest.approx(0.04))


def test_hyperparameters_are_only_noted():
    hypers = {"a": noise()[..., 0, 0], "b": noise(seed=1)[..., 0, 0] + np.arange(4.0)[:, None]}
    found = verdict(noise(), hypers=hypers)
    assert found.trustworthy
    noted = found.findings[1]
    assert isinstance(noted, HyperparametersDisagree)
    assert (noted.number, noted.of, noted.worst) == (1, 2, "b")
    apart = noise()
    apart[:2] += 3
    assert len(verdict(apart, hypers=hypers).findings) == 1


def test_mclmc_is_reported_as_inexact():
    """By the 95 % quantile of the chain that errs most: the bias is in the tails."""
    error = np.full((4, 500), 0.004)
    error[:, ::25] = 5.0
    found = verdict(noise(), sampler=tb.MCLMC, energy_error_rms=error)
    assert found.trustworthy
    assert found.findings[1] == EnergyErrors("MCLMC", 0.004, 0.95, 0.1, "GHMC")
    error[2, ::10] = 0.3
    found = verdict(noise(), sampler=tb.MCLMC, energy_error_rms=error)
    assert found.kind is VerdictKind.USABLE
    assert found.findings[1].error == pytest.approx(0.3)
    for sampler in (tb.HMC, tb.GHMC, tb.NUTS, tb.AdaptiveHMC, None):
        assert len(verdict(noise(), sampler=sampler, energy_error=error).findings) == 1


def test_sghmc_is_reported_as_approximate():
    noisy = np.random.default_rng(0).normal(0.0, 0.2, (4, 500))
    few = np.random.default_rng(0).normal(0.2, 2.0, (4, 500))  # not known well enough
    wild = np.random.default_rng(0).exponential(3000.0, (4, 500)).cumsum(axis=1)  # nor can it be
    for excess, shows in (
        (noisy - noisy.mean() + 0.01, False),
        (noisy + 0.2, True),
        (few, False),
        (wild, True),
    ):
        found = verdict(noise(), sampler=tb.SGHMC, kinetic_temperature=1 + excess)
        assert isinstance(found.findings[1], KineticTemperature)
        assert found.findings[1].doubtful == shows
        assert found.trustworthy != shows


def test_energies_of_an_unadjusted_sampler_are_not_judged():
    energy = np.cumsum(np.random.default_rng(0).normal(size=(4, 500)), axis=1)
    small = np.zeros((4, 500))

    def kinds(sampler):
        found = verdict(noise(), sampler=sampler, energy=energy, energy_error_rms=small)
        return [type(each) for each in found.findings]

    assert kinds(tb.HMC) == [Agree, SlowEnergies]
    assert kinds(tb.MCLMC) == [Agree, EnergyErrors]
