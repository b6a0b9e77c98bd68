"""Warnings with fields, and a `warn` that always points at the user's line of code."""

import contextlib
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import NamedTuple

from tensorbnn.errors import DamagedFileError, RunError
from tensorbnn.findings import Finding, rounded_up
from tensorbnn.messages import PYTHON, Message, Raised, Remedy, Resume, Words, words_in_use

_collected: ContextVar[list[Warning] | None] = ContextVar("collected", default=None)


def warn(warning: Warning) -> None:
    """Issue a warning at the caller's line outside this package, or collect it."""
    collected = _collected.get()
    if collected is not None:
        collected.append(warning)
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level + 1)


@contextlib.contextmanager
def collect_warnings() -> Iterator[list[Warning]]:
    """Collect the warnings of this thread, so that the caller can show them to the user."""
    collected: list[Warning] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __package__


class RunWarning(Message, UserWarning):
    """Something a user should know about a run; warnings with the same text are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))


class ConvergenceWarning(RunWarning):
    """Predictions are less precise than requested."""


class StoppedByLimit(Raised, RunWarning):
    """A limit ended a run before it had all its draws."""

    limit: str
    value: float
    draws: int
    planned: int
    resume: Resume

    def message(self, words: Words = PYTHON) -> str:
        return self._stopped(words, f" of {self.planned:,} draws of each chain; ")

    def _stopped(self, words: Words, rest: str, times: float | None = None) -> str:
        stopped = f"stopped by {words.option(self.limit)} ({self.value:,g}) after {self.draws:,}"
        if times is not None:
            rest += f"about {rounded_up(times)} times as many draws are needed; "
        return f"{stopped}{rest}continue with {words.remedy(self.resume)}"


class StoppedInBurnIn(Raised, RunWarning):
    """A limit ended a run in burn-in, so it only has networks from burn-in."""

    limit: str
    value: float
    transitions: int
    """Transitions that the slowest chain has made."""
    burn_in: int
    resume: Resume

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"stopped by {words.option(self.limit)} ({self.value:,g}) after {self.transitions:,} "
            f"of {self.burn_in:,} transitions of burn-in: you get networks of burn-in, which are "
            f"not draws from the posterior; continue with {words.remedy(self.resume)}"
        )


class BurnInTooSlow(Raised, RunWarning):
    """Burn-in will take longer than the time limit allows."""

    text = (
        "burn-in will take about {about}, which is more than {words[max_minutes]} ({limit:g}) "
        "leaves time for: raise it, or use a smaller network or a shorter {words[burn_in]}"
    )
    limit: float
    """The time limit in minutes."""
    minutes: float
    """The estimate, measured from the start of the run."""

    @property
    def about(self) -> str:
        if self.minutes < 1.5:
            return f"{60 * self.minutes:.0f} seconds"
        large = self.minutes >= 100
        return f"{self.minutes / 60:.2g} hours" if large else f"{self.minutes:.2g} minutes"


class Point(NamedTuple):
    """How precise predictions are at point number `row` of those that are compared."""

    row: int
    name: str
    rhat: float
    """Not finite if a chain does not move."""
    ess: float

    @property
    def known(self) -> str:
        """The precision, in words."""
        if not math.isfinite(self.rhat):
            return "a chain does not move"
        return f"R-hat {self.rhat:.3f} and ESS {self.ess:,.0f}"


class StoppedUnconverged(StoppedByLimit, ConvergenceWarning):
    """A limit ended a run before predictions had the requested precision."""

    rhat: float
    ess: float
    points: int
    short: int
    """How many of the `points` have imprecise predictions; 0 if unknown."""
    worst: Sequence[Point] = ()
    times: float | None = None
    """How many times as many draws are needed, if known."""

    def message(self, words: Words = PYTHON) -> str:
        if not self.short:
            return self._stopped(words, " draws of each chain, too few to judge predictions by; ")
        known = [f"{each.known} at {words.point(each.row, each.name)}" for each in self.worst]
        if self.short > len(known):
            known.append(f"and {self.short - len(known)} more")
        rest = (
            f" draws of each chain: at {self.short} of {self.points} x predictions are not known "
            f"as well as wanted (R-hat below {self.rhat:g}, ESS of at least {self.ess:g}): "
            f"{'; '.join(known)}; "
        )
        return self._stopped(words, rest, self.times)


class StoppedUnsatisfied(StoppedByLimit, ConvergenceWarning):
    """A limit ended a run before your own stopping rule was satisfied."""

    times: float | None = None
    """How many times as many draws are needed, if known."""

    def message(self, words: Words = PYTHON) -> str:
        rest = f" draws of each chain, before {words['until']} was satisfied; "
        return self._stopped(words, rest, self.times)


class Interrupted(Raised, RunWarning):
    """Ctrl-C ended a run in memory."""

    text = "interrupted: the ensemble has the {draws:,} of {planned:,} draws that all chains have"
    draws: int
    planned: int


class ChainRestarted(Raised, RunWarning):
    """A chain got stuck in burn-in and was restarted."""

    text = (
        "chain {chain} {reason} after {after:,} transitions of burn-in, and was started again from "
        "another point"
    )
    chain: int
    reason: str
    after: int


class CoarsePrecision(Raised, RunWarning):
    """Log-densities are too large: rounding hides the differences that decide on proposals."""

    text = (
        "log-densities are about {size:.2g}, which {dtype} rounds to multiples of {spacing:.2g}, "
        "too coarsely to accept or reject by: give tb.Posterior {other}a noise that suits the "
        "targets (`standardize=True`, or one that is learned)"
    )
    size: float
    dtype: str
    spacing: float

    @property
    def other(self) -> str:
        return "dtype='float64', or " * (self.dtype == "float32")


class DataWarning(Raised, RunWarning):
    """A problem with the data that is detected before sampling."""

    finding: Finding

    def __post_init__(self) -> None:
        self._words = words_in_use.get()  # they name the columns

    def message(self, words: Words = PYTHON) -> str:
        return self.finding.advice(words)

    def __str__(self) -> str:
        return self.message(self._words)


class OtherVersion(Raised, RunWarning):
    """A run continues with another version of a library, or another ``instruction set``."""

    text = (
        "the run was begun with {what}: draws from here on may differ in their last bits from "
        "those of an uninterrupted run"
    )
    name: str
    then: str
    now: str

    @property
    def what(self) -> str:
        if self.name == "instruction set":
            return f"the instruction set {self.then}, this machine uses {self.now}"
        return f"version {self.then} of {self.name}, this is {self.now}"


class DamageWarning(Raised, RunWarning):
    """A run continues, although part of it can't be read."""

    text = "the run continues, but {error}"
    error: RunError


class FilesLeftOut(Raised, RunWarning):
    """Damaged files of draws are skipped."""

    number: int
    first: str

    def message(self, words: Words = PYTHON) -> str:
        more = ", ..." * (self.number > 1)
        return f"{self.number} damaged files are left out, in all chains: {self.first}{more}"


class ReportsLeftOut(Raised, RunWarning):
    """Damaged lines in a file of reports are skipped."""

    text = "{error}: left out"
    error: DamagedFileError


class MetricsLost(Raised, RunWarning):
    """These metrics are no longer reported; if none are named, all on validation data."""

    names: Sequence[str] = ()

    def message(self, words: Words = PYTHON) -> str:
        if self.names:
            return (
                f"the metrics {list(self.names)} are functions of your own and no longer reported: "
                f"give them again with {words['metrics']}"
            )
        return (
            "the run does not keep its validation data, on which metrics are no longer reported: "
            f"give them again with {words['validation']}"
        )


class ReweightingWarning(Raised, RunWarning):
    """Weights can't be trusted."""

    text = "these weights can't be trusted: {reason}: {remedy}"
    remedy = Remedy.SAMPLE_OTHER_FROM_HERE
    networks: int
    worth: float
    """The effective number of networks."""
    pareto_k: float
    """NaN if there are fewer than `needed` networks."""
    limit: float
    needed: int
    too_few: bool
    """Whether more networks might be enough."""

    @property
    def reason(self) -> str:
        far = "the other model is too far from the one that was sampled"
        more_draws = f"more draws may settle it; if they don't, {far}"
        if math.isnan(self.pareto_k):
            few = f"{self.networks} networks are too few to tell, {self.needed} are needed"
            return f"{few}: {more_draws}"
        above = f"Pareto k-hat is {self.pareto_k:.2f}, above {self.limit:.2g}"
        networks = f"{above}, and the {self.networks} networks"
        if self.too_few:
            return f"{networks}, though worth {self.worth:.0f}, are too few to tell: {more_draws}"
        return f"{networks} are worth only {self.worth:.0f}: {far}"


class LagWarning(Raised, ConvergenceWarning):
    """An autocorrelation was cut off before it had decayed."""

    text = (
        "the autocorrelation has not died down within {max_lag} draws at {rows} of {of} rows, so "
        "that its length is underestimated: look at larger lags ({words[max_lag]}), or run longer"
    )
    max_lag: int
    rows: int
    of: int


class OriginalRunWarning(RunWarning):
    """A run of the original TensorBNN lacks information that this library records."""


class NoiseAssumed(Raised, OriginalRunWarning):
    """The run does not record the noise of its targets."""

    text = (
        "the run does not say how targets scatter: tb.Gaussian(sd={sd}) is assumed. It matters for "
        "noise, scores and other likelihoods; give the {words[likelihood]} of the run"
    )
    sd: float
