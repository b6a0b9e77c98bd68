"""The verdict on a sample: turns the numbers of a diagnosis into findings.

Predictions decide. Divergences, energies, acceptance and hyper-parameters add findings.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import INPUTS_SHOWN, Dataset
from tensorbnn.findings import (
    Agree,
    Approximate,
    Disagree,
    Divergences,
    Finding,
    HyperparametersDisagree,
    LowAcceptance,
    NotMoved,
    OneChain,
    RunLonger,
    SlowEnergies,
    Verdict,
    VerdictKind,
    WeightsUntrusted,
)
from tensorbnn.inference.sampler import Sampler

RHAT_LIMIT = 1.01
# Above this, chains disagree; between the two limits, they are only too short. For n independent
# draws per chain, R-hat - 1 is about 1 / n times a chi-squared variable divided by its degrees of
# freedom (for the halves of split chains), which rarely exceeds the second number.
DISAGREEMENT = 1.05
CHANCE = 3.5
ESS_LIMIT = 400.0
DIVERGENCE_LIMIT = 0.01
EBFMI_LIMIT = 0.3
ACCEPTANCE_LIMIT = 0.1
# The limit for any number of networks: above it, weights converge too slowly.
PARETO_K_LIMIT = 0.7
# Least number of draws per chain for which comparing second halves makes sense.
LEAST_DRAWS = 20
# Rows named in a verdict, and rows compared to find a chain that differs.
ROWS_NAMED = 4
ROWS_COMPARED = 16

Rhat = Callable[[NDArray[Any]], NDArray[Any]]


class Evidence(NamedTuple):
    """The data on which a verdict is based."""

    values: NDArray[Any]  # predictions (chains, draws, rows, outputs); weighted: their influences
    rhat: NDArray[Any]  # (rows, outputs)
    ess: NDArray[Any]  # the smaller of bulk and tail, (rows, outputs)
    acceptance_rate: NDArray[Any]  # (chains,)
    diverging: NDArray[Any]  # divergent transitions that led to each draw, (chains, draws)
    ebfmi: NDArray[Any]  # (chains,)
    hyper_rhat: Mapping[str, float]
    points: Dataset | None = None  # the rows; without them, rows are named by their numbers
    untrusted: WeightsUntrusted | None = None  # if weights of networks can't be trusted
    sampler: type[Sampler] | None = None
    sample_stats: Mapping[str, NDArray[Any]] = MappingProxyType(
        {}
    )  # its records, each (chains, draws)
    approximation: Approximate | None = None  # if draws come from an approximate density
    about_data: tuple[Finding, ...] = ()  # findings about the training data
    too_early: Finding | None = None  # why these are not yet draws of the posterior
    about_fit: Callable[[], tuple[Finding, ...]] = tuple  # findings about how the model fits them


def judge(evidence: Evidence, rhat: Rhat) -> Verdict:
    """The verdict; `rhat` computes R-hat of some of the chains, draws and rows."""
    if evidence.approximation is not None:  # agreement of chains means nothing
        found = evidence.approximation, *evidence.about_data
        return Verdict(VerdictKind.APPROXIMATION, found)
    if evidence.too_early is not None:
        return Verdict(VerdictKind.NOT_YET, (evidence.too_early, *evidence.about_data))
    decisive = _on_predictions(evidence, rhat)
    findings = (decisive, *_on_sampling(evidence), *evidence.about_data)
    if isinstance(decisive, Agree | RunLonger):
        findings += evidence.about_fit()
    kind = _KINDS[type(decisive)]
    if kind is VerdictKind.TRUSTWORTHY and any(each.doubtful for each in findings):
        kind = VerdictKind.USABLE
    worst, least = float(evidence.rhat.max()), float(evidence.ess.min())
    if isinstance(decisive, Agree | RunLonger):  # these exclude predictions that are certain
        worst, least = decisive.rhat, decisive.ess
    known = {"rhat": worst, "ess": least}
    return Verdict(kind, findings, {n: each for n, each in known.items() if math.isfinite(each)})


def pareto_k_limit(networks: int) -> float:
    """The k-hat up to which the weights of this many networks can be trusted.

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
    return np.ptp(values, axis=1).any(axis=(1, 2))


def without_certain(
    values: NDArray[Any], rhat: NDArray[Any], ess: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """R-hat and ESS in which a prediction that is the same for every network does no harm.

    If the chains move otherwise, such a prediction is certain, not stuck.
    """
    certain = np.ptp(values, axis=(0, 1)) == 0
    return np.where(certain, 1.0, rhat), np.where(certain, np.inf, ess)


_KINDS: dict[type[Finding], VerdictKind] = {
    Agree: VerdictKind.TRUSTWORTHY,
    RunLonger: VerdictKind.NOT_YET,
    Disagree: VerdictKind.DISAGREE,
    NotMoved: VerdictKind.NOT_MOVED,
    OneChain: VerdictKind.ONE_CHAIN,
}


def _on_predictions(evidence: Evidence, rhat: Rhat) -> Finding:
    if evidence.values.shape[0] < 2:
        return OneChain()
    moved = have_moved(evidence.values)
    if not moved.all():
        return NotMoved(*_chosen(~moved))
    known, ess = without_certain(evidence.values, evidence.rhat, evidence.ess)
    if not np.all(known < _limit(evidence.values)):  # NaN counts: some chain is stuck there
        return _disagreement(evidence._replace(rhat=known), rhat)
    worst, least = float(known.max()), float(ess.min())
    if worst < RHAT_LIMIT and least >= ESS_LIMIT:
        return Agree(worst, least)
    # If chains agree, the ESS grows in proportion to their length, and R-hat - 1 falls likewise.
    times = max((worst - 1) / (RHAT_LIMIT - 1), ESS_LIMIT / least)
    return RunLonger(times, worst, least, RHAT_LIMIT, ESS_LIMIT)


def _disagreement(evidence: Evidence, rhat: Rhat) -> Disagree:
    badness = np.where(np.isnan(evidence.rhat), np.inf, evidence.rhat).max(axis=1)
    limit = _limit(evidence.values)
    bad = np.flatnonzero(badness >= limit)
    worst = bad[np.argsort(-badness[bad], kind="stable")]
    finite = evidence.rhat[np.isfinite(evidence.rhat)]
    label, names = _names(worst, evidence.points)
    is_early, odd_chain = _reason(evidence.values[:, :, worst[:ROWS_COMPARED]], rhat)
    highest = float(finite.max()) if np.any(finite >= limit) else None
    return Disagree(len(bad), len(badness), highest, tuple(names), label, odd_chain, is_early)


def _reason(values: NDArray[Any], rhat: Rhat) -> tuple[bool, int | None]:
    """Whether only the first halves disagree; if not, the chain that differs, if there is one."""
    chains, draws = values.shape[:2]
    halves = values[:, draws // 2 :]
    if halves.shape[1] >= LEAST_DRAWS and np.all(rhat(halves) < _limit(halves)):
        return True, None
    # With two chains, neither is the odd one.
    without = [rhat(np.delete(values, chain, axis=0)).max() for chain in range(chains)]
    odd = int(np.argmin(without))
    return False, odd if chains > 2 and without[odd] < _limit(values) else None


def _on_sampling(evidence: Evidence) -> Iterable[Finding]:
    """Findings about everything but predictions."""
    if evidence.sampler is not None and evidence.sample_stats:
        # The bias of an approximate sampler, which no other number here shows.
        yield from evidence.sampler.findings(evidence.sample_stats)
    if evidence.untrusted is not None:
        yield evidence.untrusted
    share = float(np.mean(evidence.diverging > 0))  # a draw may be several transitions
    if share > DIVERGENCE_LIMIT:
        yield Divergences(share)
    low = evidence.acceptance_rate < ACCEPTANCE_LIMIT
    if low.any():
        yield LowAcceptance(*_chosen(low), float(evidence.acceptance_rate[low].max()))
    slow = evidence.ebfmi < EBFMI_LIMIT
    # E-BFMI does not apply to the energies of an approximate sampler, which rejects nothing.
    if slow.any() and (evidence.sampler is None or evidence.sampler.exact):
        yield SlowEnergies(*_chosen(slow), float(evidence.ebfmi[slow].min()), EBFMI_LIMIT)
    limit = _limit(evidence.values)
    apart = {name: each for name, each in evidence.hyper_rhat.items() if each >= limit}
    if apart and not np.any(evidence.rhat >= limit):  # otherwise predictions are the main problem
        worst = max(apart, key=lambda name: apart[name])
        yield HyperparametersDisagree(
            len(apart), len(evidence.hyper_rhat), float(apart[worst]), worst
        )


def _limit(values: NDArray[Any]) -> float:
    """The R-hat from which chains disagree; higher for few draws, where it can occur by chance."""
    return max(DISAGREEMENT, 1 + CHANCE / values.shape[1])


def _chosen(chains: NDArray[np.bool_]) -> tuple[tuple[int, ...], int]:
    """The selected chains, and the number of all chains."""
    return tuple(np.flatnonzero(chains).tolist()), len(chains)


def _names(rows: NDArray[Any], points: Dataset | None) -> tuple[str, list[str]]:
    """A prefix for the names of rows, and the names of the first rows."""
    named = rows[:ROWS_NAMED].tolist()
    if points is None or (points.names is None and points.x.shape[1] > INPUTS_SHOWN):
        return "rows" if len(rows) > 1 else "row", list(map(str, named))
    names = [points.row_name(row) for row in named]
    if points.names is not None:
        return "", names
    return "x =", [name.removeprefix("x = ") for name in names]
