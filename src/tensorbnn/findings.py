"""The verdict on a sample as data: findings, each with its numbers, a sentence and a remedy."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, dataclass_transform, final

from tensorbnn.messages import PYTHON, Message, Remedy, Words


@dataclass_transform(frozen_default=True)
class Finding(Message):
    """A finding of a diagnosis; subclasses become frozen dataclasses without a decorator.

    `text`, or `found`, describes the finding; `message` adds what to do about it.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    of_sampling: ClassVar[bool] = True
    """Whether it concerns the sample, rather than the data or the fit."""

    @property
    def doubtful(self) -> bool:
        """Whether the sample can't be trusted, even if chains agree."""
        return False

    @property
    def remedy(self) -> Remedy | None:
        """What to do about it."""
        return None

    def found(self) -> str:
        """The finding in words."""
        return super().message()

    def advice(self, words: Words = PYTHON) -> str:
        """The finding, and what to do about it."""
        text = self.found()
        return text if self.remedy is None else f"{text}: {words.remedy(self.remedy)}"

    def message(self, words: Words = PYTHON) -> str:
        return "but " * self.doubtful + self.advice(words)

    def to_dict(self) -> dict[str, Any]:
        """Kind and fields, for use by programs."""
        remedy = None if self.remedy is None else self.remedy.name.lower()
        kind = {"kind": type(self).__name__, "doubtful": self.doubtful}
        return {**kind, **vars(self), "remedy": remedy}


class Agree(Finding):
    """Chains agree about predictions, which are precise enough."""

    text = "trustworthy: {facts}"
    rhat: float
    ess: float

    @property
    def facts(self) -> str:
        """The same numbers without the judgment."""
        least = f"the ESS at least {self.ess:.0f} in bulk and tails"
        return f"R-hat is at most {self.rhat:.3f} and {least}"


class RunLonger(Finding):
    """Chains agree, but need to be `times` as long."""

    times: float
    rhat: float
    ess: float
    rhat_aim: float
    ess_aim: float

    def found(self) -> str:
        return (
            f"run about {rounded_up(self.times)} times longer: R-hat is up to {self.rhat:.3f} "
            f"(aim: below {self.rhat_aim}) and the ESS down to {self.ess:.0f} (aim: "
            f"{self.ess_aim:.0f})"
        )


class TooFewDraws(Finding):
    """Chains are too short to compare."""

    draws: int
    needed: int

    def found(self) -> str:
        least = f"a diagnosis needs at least {self.needed} draws of each chain"
        return f"run longer: {least}, and there are {self.draws}"


class InBurnIn(Finding):
    """The networks come from burn-in and are not draws, because a limit stopped the run there."""

    remedy = Remedy.FINISH_BURN_IN
    transition: int
    """The transition that the slowest chain has reached."""
    burn_in: int

    def found(self) -> str:
        return (
            "these are networks of burn-in, not draws from the posterior: a limit stopped the run "
            f"at transition {self.transition:,} of {self.burn_in:,}"
        )


class Disagree(Finding):
    """Chains disagree at some rows."""

    rows: int
    of: int
    rhat: float | None
    """The highest finite one, if it shows the disagreement."""
    worst: tuple[str, ...]
    """Names of the worst rows."""
    label: str
    """What precedes these names: ``x =``, ``row``, ``rows``, or nothing."""
    odd_chain: int | None = None
    """The one chain that differs from all others."""
    is_early: bool = False
    """Whether the second halves of the chains agree."""

    @property
    def remedy(self) -> Remedy:
        if self.is_early:
            return Remedy.LONGER_BURN_IN
        return Remedy.SEPARATE_MODES if self.odd_chain is None else Remedy.ODD_CHAIN

    def found(self) -> str:
        highest = "" if self.rhat is None else f"R-hat up to {self.rhat:.2f}, "
        names = f"{self.label} {', '.join(self.worst)}".lstrip()
        names += ", ..." * (self.rows > len(self.worst))
        found = f"chains disagree at {self.rows} of {self.of} rows ({highest}worst at {names})"
        if self.is_early:
            return f"{found}: the second halves of the chains agree, so the burn-in was too short"
        if self.odd_chain is not None:
            return f"{found}: chain {self.odd_chain} differs from the others, which agree"
        return found


class _OfChains(Finding):
    """Something about some of the chains, or all."""

    chains: tuple[int, ...]
    of: int

    @property
    def which(self) -> str:
        if len(self.chains) == self.of:
            return "the chain" if self.of == 1 else "all chains"
        if len(self.chains) == 1:
            return f"chain {self.chains[0]}"
        return f"chains {', '.join(map(str, self.chains[:-1]))} and {self.chains[-1]}"


class NotMoved(_OfChains):
    """Chains predict the same in every draw."""

    remedy = Remedy.FIND_STEPS

    def found(self) -> str:
        if len(self.chains) == self.of:
            return "no chain has moved"
        return f"{self.which} {'has' if len(self.chains) == 1 else 'have'} not moved"


class OneChain(Finding):
    """There is only one chain, and nothing to compare it with."""

    text = "one chain alone can't show that it has converged"
    remedy = Remedy.TWO_CHAINS


class WeightsUntrusted(Finding):
    """The weights of networks can't be trusted."""

    text = (
        "the weights can't be trusted (k-hat {pareto_k:.2f}, limit {limit:.2g}), so neither can "
        "these numbers"
    )
    doubtful = True
    remedy = Remedy.SAMPLE_OTHER
    pareto_k: float
    limit: float


class Divergences(Finding):
    """Too large a share of the draws had a divergent trajectory."""

    text = (
        "{share:.1%} of the draws had a divergent trajectory, so part of the posterior may be "
        "missed"
    )
    doubtful = True
    remedy = Remedy.SAFER_STEPS
    share: float


class LowAcceptance(_OfChains):
    """Chains reject nearly all proposals."""

    text = "{which} accepted only {acceptance:.0%} of the proposals or less"
    remedy = Remedy.SMALLER_STEPS
    acceptance: float
    """The highest among these chains."""


class SlowEnergies(_OfChains):
    """Chains move too slowly between levels of the density."""

    text = (
        "energies of {which} change too slowly (E-BFMI down to {ebfmi:.2f}, {limit} is the limit), "
        "so that tails may be missed"
    )
    remedy = Remedy.LONGER_TAILS
    ebfmi: float
    """The lowest among these chains."""
    limit: float


class HyperparametersDisagree(Finding):
    """Chains agree about predictions, but not about some hyper-parameters."""

    text = (
        "chains disagree about {number} of {of} hyper-parameters (R-hat up to {rhat:.2f}, of "
        "{worst})"
    )
    remedy = Remedy.DO_NOT_INTERPRET
    number: int
    of: int
    rhat: float
    worst: str


class EnergyErrors(Finding):
    """A sampler that rejects nothing is biased by the energy errors of its steps."""

    sampler: str
    error: float
    """The `share` of the draws with the smallest energy errors stays below this."""
    share: float
    limit: float
    exact: str
    """A sampler without a bias."""

    @property
    def doubtful(self) -> bool:
        return not self.error <= self.limit

    def found(self) -> str:
        judged = "so its bias should be small"
        if self.doubtful:
            exact = f"use smaller steps, or an exact sampler such as tb.{self.exact}()"
            judged = f"so its bias may be large: {exact}"
        return (
            f"{self.sampler} is not exact: the energy errors of its steps are up to "
            f"{self.error:.2g} per root of the dimension in {self.share:.0%} of the draws (limit "
            f"{self.limit}), {judged}"
        )


class KineticTemperature(Finding):
    """A sampler is approximate; its bias shows in a kinetic temperature that differs from 1."""

    sampler: str
    temperature: float
    limit: float
    """The largest acceptable difference from 1."""

    @property
    def doubtful(self) -> bool:
        return not abs(self.temperature - 1) <= self.limit

    @property
    def remedy(self) -> Remedy:
        return Remedy.LESS_NOISE if self.doubtful else Remedy.HALF_STEPS

    def found(self) -> str:
        if self.doubtful:
            return (
                f"{self.sampler} is approximate, and a kinetic temperature of "
                f"{self.temperature:.3f} instead of 1 shows its bias"
            )
        return (
            f"{self.sampler} is approximate (kinetic temperature {self.temperature:.3f}, 1 where "
            "exact), and its bias does not show"
        )


class Approximate(Finding):
    """Networks are draws from a fitted density, whose quality R-hat can't show."""

    elbo: float
    elbo_error: float
    pareto_k: float
    limit: float

    @property
    def remedy(self) -> Remedy | None:
        return None if self.pareto_k <= self.limit else Remedy.COMPARE_SAMPLE

    def found(self) -> str:
        judged = f"above {self.limit:.2g}, so the two differ, and means and sds may be wrong"
        if self.remedy is None:
            judged = "so the two are close"
        return (
            f"a variational approximation, not a sample of the posterior (ELBO {self.elbo:.2f} ± "
            f"{self.elbo_error:.2f}): k-hat is {self.pareto_k:.2f}, {judged}"
        )


class VerdictKind(enum.Enum):
    """The kinds of verdict."""

    TRUSTWORTHY = "trustworthy"
    USABLE = "usable"
    """Chains agree, but there is another reason for doubt."""
    NOT_YET = "not yet"
    DISAGREE = "disagree"
    NOT_MOVED = "not moved"
    ONE_CHAIN = "one chain"
    APPROXIMATION = "approximation"


@final
@dataclass(frozen=True)
class Verdict(Message):
    """Whether a sample can be trusted, and why.

    The first line of ``str()`` is the verdict; each further line is a finding.

    Attributes
    ----------
    kind
        Kind of verdict.
    findings
        The findings, those about predictions first.
    numbers
        Precision of the predictions: the highest ``rhat`` and the lowest ``ess``.
    """

    kind: VerdictKind
    findings: tuple[Finding, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether chains agree and nothing else about the sample is in doubt."""
        doubtful = any(each.doubtful and each.of_sampling for each in self.findings)
        return self.kind in (VerdictKind.TRUSTWORTHY, VerdictKind.USABLE) and not doubtful

    @property
    def trustworthy(self) -> bool:
        """Whether chains agree, predictions are precise enough, and nothing is in doubt."""
        return self.kind is VerdictKind.TRUSTWORTHY

    def message(self, words: Words = PYTHON) -> str:
        first, *rest = self.findings
        line = first.message(words)
        if self.kind is VerdictKind.USABLE and isinstance(first, Agree):
            line = f"usable with care: {first.facts}"
        return "\n- ".join([line, *(each.advice(words) for each in rest)])


def rounded_up(factor: float) -> str:
    """`factor` rounded up to two digits.

    Examples
    --------
    >>> rounded_up(1.21), rounded_up(2.0), rounded_up(1201)
    ('1.3', '2', '1300')
    """
    digits = 10.0 ** (math.floor(math.log10(factor)) - 1)
    rounded = math.ceil(factor / digits - 1e-9) * digits
    return str(round(rounded)) if rounded >= 10 else f"{rounded:.2g}"
