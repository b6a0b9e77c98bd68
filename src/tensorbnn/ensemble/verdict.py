"""The verdict on a sample, in words: trustworthy, run longer, or chains disagree, and what to do.

Predictions decide. Divergences, energies, acceptance and hyper-parameters add notes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RHAT_LIMIT = 1.01
# Above this, chains tell different stories; between the two, they are only short. Of n independent
# draws a chain, R-hat - 1 is about 1 / n times a chi-squared over its degrees of freedom (split
# chains have halves), which hardly exceeds the second number.
DISAGREEMENT = 1.05
CHANCE = 3.5
ESS_LIMIT = 400.0
DIVERGENCE_LIMIT = 0.01
EBFMI_LIMIT = 0.3
ACCEPTANCE_LIMIT = 0.1
# At most, however many networks there are: above, weights converge too slowly.
PARETO_K_LIMIT = 0.7
# Samplers that reject nothing; their energies are not what E-BFMI is about.
APPROXIMATE = ("MCLMC", "SGHMC")
# Up to which their bias is small (measured, docs/samplers.md): the energy error of steps of MCLMC
# per root of the dimension, in 95 % of the draws; the kinetic temperature of SGHMC minus one, and
# how far few draws may make it seem off.
ENERGY_ERROR_LIMIT = 0.1
ENERGY_ERROR_SHARE = 0.95
TEMPERATURE_LIMIT = 0.05
TEMPERATURE_MOST = 0.2
# Draws a chain for which second halves can say something.
LEAST_DRAWS = 20
# Rows named in a verdict, rows looked at to find an odd chain, inputs for which x is shown.
ROWS_NAMED = 4
ROWS_COMPARED = 16
INPUTS_SHOWN = 3

Rhat = Callable[[NDArray[Any]], NDArray[Any]]


class Evidence(NamedTuple):
    """What a verdict rests on."""

    values: NDArray[Any]
    """Predictions ``(chains, draws, rows, outputs)``."""
    rhat: NDArray[Any]
    """``(rows, outputs)``."""
    ess: NDArray[Any]
    """The lesser of bulk and tail effective sample size, ``(rows, outputs)``."""
    acceptance: NDArray[Any]
    """``(chains,)``."""
    divergent: NDArray[Any]
    """Divergent transitions that led to each draw, ``(chains, draws)``."""
    ebfmi: NDArray[Any]
    """``(chains,)``."""
    hyper_rhat: Mapping[str, float]
    x: NDArray[Any] | None = None
    """``(rows, inputs)``."""
    pareto_k: float | None = None
    """k-hat of the weights, where networks have any; `values` are then their influences."""
    pareto_k_limit: float = PARETO_K_LIMIT
    """Up to which it is trusted."""
    sampler: str | None = None
    """Name of the sampler's class, where it is known."""
    energy_error: NDArray[Any] | None = None
    """As the sampler records it, ``(chains, draws)``."""
    energy_error_mcse: float = 0.0
    """Monte Carlo standard error of its mean."""
    approximation: str | None = None
    """What the networks are draws of, in words, where that is not the posterior."""
    names: Sequence[str] | None = None
    """What the user calls each row."""


def judge(evidence: Evidence, rhat: Rhat) -> str:
    """The verdict; `rhat` computes R-hat of some of the chains, draws and rows."""
    if evidence.approximation is not None:  # chains that agree would say nothing
        return evidence.approximation
    return "; ".join([_on_predictions(evidence, rhat), *_notes(evidence)])


def pareto_k_limit(networks: int) -> float:
    """Up to which k-hat the weights of so many networks can be trusted.

    ``min(1 - 1 / log10(networks), 0.7)``: the heavier the tail, the more draws it takes (Vehtari et
    al. 2024, JMLR 25:72).

    Examples
    --------
    >>> [round(pareto_k_limit(networks), 3) for networks in (100, 1000, 4000)]
    [0.5, 0.667, 0.7]
    """
    return min(1 - 1 / math.log10(max(networks, 2)), PARETO_K_LIMIT)


def have_moved(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which chains of predictions ``(chains, draws, rows, outputs)`` have moved, ``(chains,)``."""
    moved: NDArray[np.bool_] = np.ptp(values, axis=1).any(axis=(1, 2))
    return moved


def without_certain(
    values: NDArray[Any], rhat: NDArray[Any], ess: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """R-hat and ESS for which a prediction that is the same for every network is no trouble.

    Of chains that move such a prediction is certain, not stuck.
    """
    certain = np.ptp(values, axis=(0, 1)) == 0
    return np.where(certain, 1.0, rhat), np.where(certain, np.inf, ess)


def point_names(rows: NDArray[Any], x: NDArray[Any] | None) -> tuple[str, list[str]]:
    """Rows by their inputs where these are few, by their numbers otherwise; and what that is."""
    if x is None or x.shape[1] > INPUTS_SHOWN:
        return "row", [str(row) for row in rows]
    points = [", ".join(f"{each:.3g}" for each in x[row].tolist()) for row in rows]
    return "x =", points if x.shape[1] == 1 else [f"({point})" for point in points]


def _on_predictions(evidence: Evidence, rhat: Rhat) -> str:
    if evidence.values.shape[0] < 2:
        return "one chain alone can't show that it has converged: run at least two"
    moved = have_moved(evidence.values)
    if not moved.all():
        stuck = f"{_chains(~moved)} {'has' if sum(~moved) == 1 else 'have'} not"
        return (
            f"{stuck if moved.any() else 'no chain has'} moved: use smaller steps, or a longer "
            "burn-in in which to find them"
        )
    rhat_known, ess_known = without_certain(evidence.values, evidence.rhat, evidence.ess)
    evidence = evidence._replace(rhat=rhat_known, ess=ess_known)
    if not np.all(evidence.rhat < _limit(evidence.values)):  # NaN counts: some chain is stuck there
        return _disagreement(evidence, rhat)
    worst, least = evidence.rhat.max(), evidence.ess.min()
    if worst < RHAT_LIMIT and least >= ESS_LIMIT:
        return (
            f"trustworthy: R-hat is at most {worst:.3f} and the ESS at least {least:.0f} in bulk "
            "and tails"
        )
    return _run_longer(worst, least)


def _run_longer(worst: float, least: float) -> str:
    # For chains that agree, R-hat - 1 falls and the ESS grows in proportion to their length.
    factor = max((worst - 1) / (RHAT_LIMIT - 1), ESS_LIMIT / least)
    return (
        f"run about {_rounded_up(factor)} times longer: R-hat is up to {worst:.3f} (aim: below "
        f"{RHAT_LIMIT}) and the ESS down to {least:.0f} (aim: {ESS_LIMIT:.0f})"
    )


def _disagreement(evidence: Evidence, rhat: Rhat) -> str:
    badness = np.where(np.isnan(evidence.rhat), np.inf, evidence.rhat).max(axis=1)
    limit = _limit(evidence.values)
    bad = np.flatnonzero(badness >= limit)
    worst = bad[np.argsort(-badness[bad], kind="stable")]
    finite = evidence.rhat[np.isfinite(evidence.rhat)]
    highest = f"R-hat up to {finite.max():.2f}, " if np.any(finite >= limit) else ""
    where = (
        f"chains disagree at {len(bad)} of {len(badness)} rows "
        f"({highest}worst at {_rows(worst, evidence)})"
    )
    return f"{where}: {_remedy(evidence.values[:, :, worst[:ROWS_COMPARED]], rhat)}"


def _remedy(values: NDArray[Any], rhat: Rhat) -> str:
    """What to do about predictions of chains that disagree."""
    chains, draws = values.shape[:2]
    halves = values[:, draws // 2 :]
    if halves.shape[1] >= LEAST_DRAWS and np.all(rhat(halves) < _limit(halves)):
        return (
            "the second halves of the chains agree, so the burn-in was too short: "
            "sample again with a longer one"
        )
    # With two chains, neither is the odd one.
    without = [rhat(np.delete(values, chain, axis=0)).max() for chain in range(chains)]
    odd = int(np.argmin(without))
    if chains > 2 and without[odd] < _limit(values):
        return (
            f"chain {odd} differs from the others, which agree: look at its trace; sample again "
            "with a longer burn-in or another seed, and trust none of the chains until all agree"
        )
    return (
        "run longer, with a longer burn-in; if they stay apart they sit in different modes: "
        "start them from `pretrain`, use longer trajectories, or a smaller network"
    )


def _notes(evidence: Evidence) -> Iterable[str]:
    yield from _on_bias(evidence)
    if evidence.pareto_k is not None and not evidence.pareto_k <= evidence.pareto_k_limit:
        yield (
            f"but the weights can't be trusted (k-hat {evidence.pareto_k:.2f}, "
            f"{evidence.pareto_k_limit:.2g} is the limit), and these numbers with them: "
            "sample the other model, tb.sample(posterior, start=ensemble)"
        )
    share = np.mean(evidence.divergent > 0)  # a draw may be several transitions
    if share > DIVERGENCE_LIMIT:
        yield (
            f"but {share:.1%} of the draws saw a divergent trajectory, near which the posterior "
            "may be missed: use smaller steps (a higher `target_acceptance`, or lower bounds)"
        )
    low = evidence.acceptance < ACCEPTANCE_LIMIT
    if low.any():
        yield (
            f"{_chains(low)} accepted only {evidence.acceptance[low].max():.0%} of the proposals "
            "or less: use smaller steps"
        )
    slow = evidence.ebfmi < EBFMI_LIMIT
    if slow.any() and evidence.sampler not in APPROXIMATE:
        yield (
            f"energies of {_chains(slow)} change too slowly (E-BFMI down to "
            f"{evidence.ebfmi[slow].min():.2f}, {EBFMI_LIMIT} is the limit), so that tails may be "
            "missed: run longer, and look for a hyper-parameter that comes close to zero"
        )
    limit = _limit(evidence.values)
    apart = {name: each for name, each in evidence.hyper_rhat.items() if each >= limit}
    if apart and not np.any(evidence.rhat >= limit):  # else there is more to worry about
        worst = max(apart, key=lambda name: apart[name])
        yield (
            f"chains disagree about {len(apart)} of {len(evidence.hyper_rhat)} hyper-parameters "
            f"(R-hat up to {apart[worst]:.2f}, of {worst}): don't interpret these"
        )


def _on_bias(evidence: Evidence) -> Iterable[str]:
    """What a sampler that is not exact adds: no number above shows its bias."""
    if evidence.energy_error is None:
        return
    if evidence.sampler == "MCLMC":
        # The tail matters: where the integrator fails, there is the bias. Of the worst chain.
        error = np.quantile(evidence.energy_error, ENERGY_ERROR_SHARE, axis=1).max()
        size = (
            f"the energy errors of its steps are up to {error:.2g} per root of the dimension in "
            f"{ENERGY_ERROR_SHARE:.0%} of the draws ({ENERGY_ERROR_LIMIT} is the limit)"
        )
        if error <= ENERGY_ERROR_LIMIT:
            yield f"MCLMC is not exact, and its bias, which should be small, does not show: {size}"
        else:
            yield (
                f"but MCLMC is not exact, and its bias is to be feared: {size}: use smaller steps, "
                "or an exact sampler such as tb.GHMC()"
            )
    if evidence.sampler == "SGHMC":
        temperature = 1 + evidence.energy_error.mean()
        by_chance = TEMPERATURE_LIMIT + 3 * evidence.energy_error_mcse
        if abs(temperature - 1) <= min(by_chance, TEMPERATURE_MOST):
            yield (
                f"SGHMC is approximate (kinetic temperature {temperature:.3f}, 1 where exact), and "
                "its bias does not show: compare with a run with half the step size"
            )
        else:
            yield (
                f"but SGHMC is approximate, and a kinetic temperature of {temperature:.3f} instead "
                "of 1 shows its bias: use smaller steps, larger batches or more friction"
            )


def _limit(values: NDArray[Any]) -> float:
    """The R-hat from which chains disagree: what so few draws show by chance is not enough."""
    return max(DISAGREEMENT, 1 + CHANCE / values.shape[1])


def _chains(chosen: NDArray[np.bool_]) -> str:
    numbers = [str(each) for each in np.flatnonzero(chosen)]
    if len(numbers) == len(chosen):
        return "the chain" if len(chosen) == 1 else "all chains"
    if len(numbers) == 1:
        return f"chain {numbers[0]}"
    return f"chains {', '.join(numbers[:-1])} and {numbers[-1]}"


def _rows(rows: NDArray[Any], evidence: Evidence) -> str:
    """Some rows in words."""
    more = ", ..." if len(rows) > ROWS_NAMED else ""
    if evidence.names is not None:
        return ", ".join(evidence.names[row] for row in rows[:ROWS_NAMED]) + more
    label, names = point_names(rows[:ROWS_NAMED], evidence.x)
    if label == "row" and len(rows) > 1:
        label = "rows"
    return f"{label} {', '.join(names)}{more}"


def _rounded_up(factor: float) -> str:
    """A factor with two digits, never below what is needed."""
    digits = 10.0 ** (np.floor(np.log10(factor)) - 1)
    return f"{np.ceil(factor / digits) * digits:g}"
