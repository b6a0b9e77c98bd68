"""The verdict on a sample as data: what was found, with its numbers, its sentence and a remedy."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, final

from tensorbnn.messages import PYTHON, Message, Remedy, Words


@dataclass(frozen=True)
class Finding(Message):
    """Something that a diagnosis has found; its `text` states the facts."""

    @property
    def doubtful(self) -> bool:
        """Whether the sample is not to be trusted, even where chains agree."""
        return False

    @property
    def remedy(self) -> Remedy | None:
        """What to do about it."""
        return None

    def message(self, words: Words = PYTHON) -> str:
        text = ("but " if self.doubtful else "") + super().message(words)
        return text if self.remedy is None else f"{text}: {words.remedy(self.remedy)}"

    def to_dict(self) -> dict[str, Any]:
        """Kind and fields, for a program."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        remedy = None if self.remedy is None else self.remedy.name.lower()
        return {"kind": type(self).__name__, "doubtful": self.doubtful, **found, "remedy": remedy}


@dataclass(frozen=True)
class Agree(Finding):
    """Chains agree about predictions, which are known well enough."""

    text = "trustworthy: {facts}"
    rhat: float
    ess: float

    @property
    def facts(self) -> str:
        least = f"the ESS at least {self.ess:.0f} in bulk and tails"
        return f"R-hat is at most {self.rhat:.3f} and {least}"


@dataclass(frozen=True)
class RunLonger(Finding):
    """Chains agree, but are too short by this factor."""

    text = (
        "run about {factor} times longer: R-hat is up to {rhat:.3f} (aim: below {rhat_aim}) and "
        "the ESS down to {ess:.0f} (aim: {ess_aim:.0f})"
    )
    times: float
    rhat: float
    ess: float
    rhat_aim: float
    ess_aim: float

    @property
    def factor(self) -> str:
        return rounded_up(self.times)


@dataclass(frozen=True)
class Disagree(Finding):
    """Chains tell different stories at some rows."""

    text = "chains disagree at {rows} of {of} rows ({highest}worst at {names}){reason}"
    rows: int
    of: int
    rhat: float | None
    """The highest that is finite, if it shows the disagreement."""
    worst: tuple[str, ...]
    """What the worst rows are called."""
    label: str
    """What these names are: ``x =``, ``row``, ``rows``, or nothing."""
    odd_chain: int | None = None
    """The one chain that differs from all others."""
    is_early: bool = False
    """Whether the second halves of the chains agree."""

    @property
    def remedy(self) -> Remedy:
        if self.is_early:
            return Remedy.LONGER_BURN_IN
        return Remedy.SEPARATE_MODES if self.odd_chain is None else Remedy.ODD_CHAIN

    @property
    def highest(self) -> str:
        return "" if self.rhat is None else f"R-hat up to {self.rhat:.2f}, "

    @property
    def names(self) -> str:
        more = ", ..." if self.rows > len(self.worst) else ""
        return f"{self.label} {', '.join(self.worst)}{more}".lstrip()

    @property
    def reason(self) -> str:
        if self.is_early:
            return ": the second halves of the chains agree, so the burn-in was too short"
        if self.odd_chain is not None:
            return f": chain {self.odd_chain} differs from the others, which agree"
        return ""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class NotMoved(_OfChains):
    """Chains say the same in every draw."""

    text = "{who} moved"
    remedy = Remedy.FIND_STEPS

    @property
    def who(self) -> str:
        if len(self.chains) == self.of:
            return "no chain has"
        return f"{self.which} {'has' if len(self.chains) == 1 else 'have'} not"


@dataclass(frozen=True)
class OneChain(Finding):
    """There is nothing to compare the only chain with."""

    text = "one chain alone can't show that it has converged"
    remedy = Remedy.TWO_CHAINS


@dataclass(frozen=True)
class WeightsUntrusted(Finding):
    """The weights of networks can't be relied on."""

    text = (
        "the weights can't be trusted (k-hat {pareto_k:.2f}, {limit:.2g} is the limit), and these "
        "numbers with them"
    )
    doubtful = True
    remedy = Remedy.SAMPLE_OTHER
    pareto_k: float
    limit: float


@dataclass(frozen=True)
class Divergences(Finding):
    """Too large a share of the draws saw a divergent trajectory."""

    text = (
        "{share:.1%} of the draws saw a divergent trajectory, near which the posterior may be "
        "missed"
    )
    doubtful = True
    remedy = Remedy.SAFER_STEPS
    share: float


@dataclass(frozen=True)
class LowAcceptance(_OfChains):
    """Chains reject nearly all proposals."""

    text = "{which} accepted only {acceptance:.0%} of the proposals or less"
    remedy = Remedy.SMALLER_STEPS
    acceptance: float
    """The highest of these chains."""


@dataclass(frozen=True)
class SlowEnergies(_OfChains):
    """Chains move too slowly between levels of the density."""

    text = (
        "energies of {which} change too slowly (E-BFMI down to {ebfmi:.2f}, {limit} is the limit), "
        "so that tails may be missed"
    )
    remedy = Remedy.LONGER_TAILS
    ebfmi: float
    """The lowest of these chains."""
    limit: float


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class EnergyErrors(Finding):
    """A sampler rejects nothing, so that energy errors of its steps are a bias."""

    text = (
        "{sampler} is not exact, and its bias{judged}: the energy errors of its steps are up to "
        "{error:.2g} per root of the dimension in {share:.0%} of the draws ({limit} is the limit)"
        "{advice}"
    )
    sampler: str
    error: float
    """Exceeded in no more than the rest of the draws."""
    share: float
    limit: float
    exact: str
    """A sampler without a bias."""

    @property
    def doubtful(self) -> bool:
        return not self.error <= self.limit

    @property
    def judged(self) -> str:
        return " is to be feared" if self.doubtful else ", which should be small, does not show"

    @property
    def advice(self) -> str:
        exact = f": use smaller steps, or an exact sampler such as tb.{self.exact}()"
        return exact if self.doubtful else ""


@dataclass(frozen=True)
class KineticTemperature(Finding):
    """A sampler is approximate; how far its kinetic temperature is from 1 shows its bias."""

    text = "{sampler} is approximate{judged}"
    sampler: str
    temperature: float
    limit: float
    """How far from 1 it may be."""

    @property
    def doubtful(self) -> bool:
        return not abs(self.temperature - 1) <= self.limit

    @property
    def remedy(self) -> Remedy:
        return Remedy.LESS_NOISE if self.doubtful else Remedy.HALF_STEPS

    @property
    def judged(self) -> str:
        is_at = f"kinetic temperature {'of ' * self.doubtful}{self.temperature:.3f}"
        if self.doubtful:
            return f", and a {is_at} instead of 1 shows its bias"
        return f" ({is_at}, 1 where exact), and its bias does not show"


@dataclass(frozen=True)
class Approximate(Finding):
    """Networks are draws of a fitted density, about which chains that agree say nothing."""

    text = (
        "a variational approximation, not a sample of the posterior (ELBO {elbo:.2f} ± "
        "{elbo_error:.2f}): k-hat is {pareto_k:.2f}, {judged}"
    )
    elbo: float
    elbo_error: float
    pareto_k: float
    limit: float

    @property
    def remedy(self) -> Remedy | None:
        return None if self.pareto_k <= self.limit else Remedy.COMPARE_SAMPLE

    @property
    def judged(self) -> str:
        if self.remedy is None:
            return "so the two are close"
        return f"above {self.limit:.2g}, so the two differ, and means and sds may be wrong"


class VerdictKind(enum.Enum):
    """What a verdict comes to."""

    TRUSTWORTHY = "trustworthy"
    USABLE = "usable"
    """Chains agree, but there is something else to doubt."""
    NOT_YET = "not yet"
    DISAGREE = "disagree"
    NOT_MOVED = "not moved"
    ONE_CHAIN = "one chain"
    APPROXIMATION = "approximation"


@final
@dataclass(frozen=True)
class Verdict(Message):
    """Whether a sample can be trusted, and why; ``str()`` says it in a sentence.

    Attributes
    ----------
    kind
        What it comes to.
    findings
        What was found: about predictions first, then what else there is to note.
    numbers
        How well predictions are known: the highest ``rhat`` and the lowest ``ess``.
    """

    kind: VerdictKind
    findings: tuple[Finding, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def trustworthy(self) -> bool:
        """Whether chains agree, predictions are known well enough, and nothing is in doubt."""
        return self.kind is VerdictKind.TRUSTWORTHY

    def message(self, words: Words = PYTHON) -> str:
        return "; ".join(each.message(words) for each in self.findings)


def rounded_up(factor: float) -> str:
    """Two digits, never below `factor`.

    Examples
    --------
    >>> rounded_up(1.21), rounded_up(2.0), rounded_up(1201)
    ('1.3', '2', '1300')
    """
    digits = 10.0 ** (math.floor(math.log10(factor)) - 1)
    rounded = math.ceil(factor / digits - 1e-9) * digits
    return str(round(rounded)) if rounded >= 10 else f"{rounded:.2g}"
