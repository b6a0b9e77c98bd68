"""The verdict names what is wrong, where, and what to do."""

import math

import numpy as np
import pytest

from tensorbnn.ensemble.diagnostics import diagnose
from tensorbnn.ensemble.verdict import pareto_k_limit

X = np.array([[-1.0], [0.25], [2.0]])


def info(chains, draws, **changed):
    rng = np.random.default_rng(1)
    return {
        "acceptance": np.full((chains, draws), 0.9),
        "divergent": np.zeros((chains, draws), int),
        "energy": rng.normal(size=(chains, draws)),
        **changed,
    }


def noise(chains=4, draws=500, rows=3, seed=0):
    return np.random.default_rng(seed).normal(size=(chains, draws, rows, 1))


def verdict(values, x=None, hypers=None, sampler=None, **changed):
    numbers = info(*values.shape[:2], **changed)
    return diagnose(values, numbers, x=x, hyperparameters=hypers, sampler=sampler).verdict


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
    options = {"weights": np.full((4, 500), 1 / 2000), "pareto_k": 0.6}
    assert diagnose(values, info(4, 500), **options).trustworthy
    found = diagnose(values, info(4, 500), **options, pareto_k_limit=0.5)
    assert not found.trustworthy
    assert "but the weights can't be trusted (k-hat 0.60, 0.5 is the limit)" in found.verdict


def test_trustworthy():
    assert verdict(noise()).startswith("trustworthy: R-hat is at most 1.00")
    assert ";" not in verdict(noise())


def test_run_longer_says_how_much():
    """50 draws of each of 4 chains are worth about 200, half of what is needed."""
    values = noise(draws=50)
    found = verdict(values)
    d = diagnose(values, info(4, 50))
    needed = max((d.rhat.max() - 1) / 0.01, 400 / min(d.ess.min(), d.ess_tail.min()))
    assert found.startswith("run about ")
    assert float(found.split()[2]) == pytest.approx(needed, rel=0.1)
    assert float(found.split()[2]) >= needed


def test_running_that_much_longer_is_enough():
    rng = np.random.default_rng(3)

    def walk(draws):
        steps = rng.normal(size=(4, draws, 1, 1))
        for i in range(1, draws):
            steps[:, i] = 0.9 * steps[:, i - 1] + np.sqrt(0.19) * steps[:, i]
        return steps

    short = verdict(walk(1000))
    assert short.startswith("run about ")
    factor = float(short.split()[2])
    # Twice what it says, for the factor is itself an estimate.
    assert verdict(walk(int(2000 * factor))).startswith("trustworthy")


@pytest.mark.parametrize("draws", [10, 20, 50, 200])
def test_few_draws_are_not_taken_for_disagreement(draws):
    """Chains of independent draws disagree by chance only: in less than one of a hundred runs."""
    found = [verdict(noise(draws=draws, rows=5, seed=seed)) for seed in range(60)]
    assert sum(each.startswith("chains disagree") for each in found) <= 2


def test_the_odd_chain_is_named():
    values = noise()
    values[2, :, 1:] += 3
    found = verdict(values, X)
    assert found.startswith("chains disagree at 2 of 3 rows (R-hat up to 1.")
    assert "worst at x = " in found
    assert "chain 2 differs from the others, which agree" in found


def test_two_and_two_is_no_odd_chain():
    values = noise()
    values[:2, :, 1] += 3
    found = verdict(values, X)
    assert found.startswith("chains disagree at 1 of 3 rows (R-hat up to ")
    assert "worst at x = 0.25): run longer, with a longer burn-in; if they stay apart" in found


def test_neither_of_two_chains_is_the_odd_one():
    values = noise(chains=2)
    values[0] += 3
    assert "run longer, with a longer burn-in" in verdict(values)


def test_a_short_burn_in_is_recognised():
    values = noise()
    values[:, :100, 0] += np.array([0.0, 4.0, 8.0, -4.0])[:, None, None]
    assert "the burn-in was too short" in verdict(values)


def test_rows_are_named_by_number_for_many_inputs():
    values = noise(rows=8)
    values[:2] += 0.3 * np.arange(8.0)[:, None]
    x = np.arange(8 * 5.0).reshape(8, 5)
    assert "worst at rows 7, 6, 5, 4, ...)" in verdict(values, x)
    assert "worst at x = (14, 15), (12, 13), (10, 11), (8, 9), ...)" in verdict(
        values, np.arange(16.0).reshape(8, 2)
    )


def test_rows_have_the_names_that_are_given():
    values = noise(rows=8)
    values[:2] += 0.3 * np.arange(8.0)[:, None]
    names = [f"row {row} of July" for row in range(8)]
    found = diagnose(values, info(4, 500), x=np.arange(8.0)[:, None], names=names)
    assert (
        "worst at row 7 of July, row 6 of July, row 5 of July, row 4 of July, ...)" in found.verdict
    )


def test_chains_that_never_move_are_not_trusted():
    values = noise()
    values[1] = 0.5
    assert verdict(values).startswith("chain 1 has not moved: use smaller steps")
    values[3] = 0.5
    assert verdict(values).startswith("chains 1 and 3 have not moved")
    stuck = np.ones((4, 100, 2, 1))
    assert verdict(stuck, energy=np.random.default_rng(0).normal(size=(4, 100))).startswith(
        "no chain has moved: use smaller steps"
    )


def test_a_row_at_which_one_chain_is_stuck():
    values = noise()
    values[1, :, 2] = 7.0
    assert "chains disagree at 1 of 3 rows" in verdict(values, X)


def test_a_row_that_all_networks_agree_on_is_certain():
    values = noise()
    values[:, :, 1] = 0.0
    assert verdict(values).startswith("trustworthy")


def test_one_chain_can_not_show_convergence():
    assert verdict(noise(chains=1)).startswith("one chain alone")


def test_many_divergences_are_mentioned():
    divergent = np.zeros((4, 500), int)
    divergent[:, ::10] = 7  # of the transitions that led to the draw
    found = verdict(noise(), divergent=divergent)
    assert found.startswith("trustworthy")
    assert "10.0% of the draws saw a divergent trajectory" in found


def test_slow_energies_are_mentioned():
    """AR(1) with correlation 0.95: the mean squared step is 0.1 of the variance."""
    energy = np.random.default_rng(0).normal(size=(4, 500))
    for i in range(1, 500):
        energy[1, i] = 0.95 * energy[1, i - 1] + np.sqrt(1 - 0.95**2) * energy[1, i]
    found = verdict(noise(), energy=energy)
    assert "energies of chain 1 change too slowly (E-BFMI down to 0.0" in found


def test_low_acceptance_is_mentioned():
    acceptance = np.full((4, 500), 0.9)
    acceptance[3] = 0.04
    assert "chain 3 accepted only 4% of the proposals" in verdict(noise(), acceptance=acceptance)


def test_hyperparameters_are_only_noted():
    hypers = {"a": noise()[..., 0, 0], "b": noise(seed=1)[..., 0, 0] + np.arange(4.0)[:, None]}
    found = verdict(noise(), hypers=hypers)
    assert found.startswith("trustworthy")
    assert "chains disagree about 1 of 2 hyper-parameters (R-hat up to " in found
    assert found.endswith("of b): don't interpret these")
    apart = noise()
    apart[:2] += 3
    assert "hyper-parameters" not in verdict(apart, hypers=hypers)


def test_mclmc_is_said_to_be_inexact():
    """By the 95 % quantile of the chain that errs most: the bias is in the tails."""
    error = np.full((4, 500), 0.004)
    error[:, ::25] = 5.0
    found = verdict(noise(), sampler="MCLMC", energy_error=error)
    assert found.startswith("trustworthy")
    assert "MCLMC is not exact, and its bias, which should be small, does not show: " in found
    assert "up to 0.004 per root of the dimension in 95% of the draws (0.1 is the limit)" in found
    error[2, ::10] = 0.3
    found = verdict(noise(), sampler="MCLMC", energy_error=error)
    assert "its bias is to be feared: the energy errors of its steps are up to 0.3 per" in found
    assert found.endswith("or an exact sampler such as tb.GHMC()")
    for sampler in ("HMC", "GHMC", "NUTS", "AdaptiveHMC", "Other", None):
        assert "exact" not in verdict(noise(), sampler=sampler, energy_error=error)


def test_sghmc_is_said_to_be_approximate():
    noisy = np.random.default_rng(0).normal(0.0, 0.2, (4, 500))
    found = verdict(noise(), sampler="SGHMC", energy_error=noisy - noisy.mean() + 0.01)
    assert "SGHMC is approximate (kinetic temperature 1.010, 1 where exact)" in found
    assert found.endswith("compare with a run with half the step size")
    found = verdict(noise(), sampler="SGHMC", energy_error=noisy + 0.2)
    assert "instead of 1 shows its bias: use smaller" in found
    few = np.random.default_rng(0).normal(0.2, 2.0, (4, 500))  # not known well enough
    assert "shows its bias" not in verdict(noise(), sampler="SGHMC", energy_error=few)
    wild = np.random.default_rng(0).exponential(3000.0, (4, 500)).cumsum(axis=1)  # nor can it be
    assert "shows its bias" in verdict(noise(), sampler="SGHMC", energy_error=wild)


def test_energies_of_an_unadjusted_sampler_are_not_judged():
    energy = np.cumsum(np.random.default_rng(0).normal(size=(4, 500)), axis=1)
    small = np.zeros((4, 500))
    assert "E-BFMI" in verdict(noise(), sampler="HMC", energy=energy, energy_error=small)
    assert "E-BFMI" not in verdict(noise(), sampler="MCLMC", energy=energy, energy_error=small)
