"""When a run stops: a stopping rule, limits of time and gradients, and what is missing then."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from tensorbnn.checks import check_count, check_limit
from tensorbnn.data import Dataset
from tensorbnn.errors import OptionTypeError
from tensorbnn.findings import rounded_up
from tensorbnn.messages import Resume
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.converged import Converged, ConvergenceEstimate
from tensorbnn.sampling.plan import Plan
from tensorbnn.warning import (
    Point,
    RunWarning,
    StoppedByLimit,
    StoppedInBurnIn,
    StoppedUnconverged,
    StoppedUnsatisfied,
)

if TYPE_CHECKING:
    from tensorbnn.ensemble.ensemble import Ensemble

# Most points that a message names.
POINTS_NAMED = 5


class Estimate(Protocol):
    """The estimate of a stopping rule for an ensemble."""

    @property
    def converged(self) -> bool:
        """Whether the run may stop."""

    @property
    def times_longer(self) -> float:
        """How many times as many draws it needs, as an estimate; infinite if unknown."""


class Until(Protocol):
    """A stopping rule: any object with `estimate`. One that is saved is a frozen dataclass."""

    def estimate(self, ensemble: "Ensemble") -> Estimate | bool | None:
        """Whether a run with these networks may stop; ``None`` if it is too early to tell."""


class StoppingRule(NamedTuple):
    """When a run stops, besides its number of draws."""

    until: Until | None = None
    points: Dataset | None = None
    """The inputs at which a `Converged` checks predictions."""
    max_minutes: float | None = None
    max_gradients: int | None = None
    """Of each chain."""
    deadline: float | None = None
    """Monotonic time at which `max_minutes` end."""

    @classmethod
    def checked(
        cls,
        until: Until | Literal["converged"] | None,
        max_minutes: float | None,
        max_gradients: float | None,
        posterior: Posterior,
        plan: Plan,
    ) -> "StoppingRule":
        """The user's options, or an error; its minutes begin now."""
        minutes = check_limit("max_minutes", max_minutes)
        deadline = None if minutes is None else time.monotonic() + 60 * minutes
        if isinstance(until, str) and until == "converged":
            until = Converged()
        points = _check_until(until, posterior, plan)
        gradients = None
        if max_gradients is not None and max_gradients != math.inf:
            gradients = check_count("max_gradients", max_gradients)
        return cls(until, points, minutes, gradients, deadline)

    @property
    def has_limit(self) -> bool:
        """Whether a limit may stop the run before its end."""
        return self.max_gradients is not None or self.deadline is not None

    def is_spent(self, gradients: int) -> bool:
        """Whether a chain has spent as many gradients as it may."""
        return self.max_gradients is not None and gradients >= self.max_gradients

    def limit_of(self, gradients: int) -> "Limit | None":
        """The limit that has stopped a run, of which a chain has spent this many gradients."""
        if self.max_gradients is not None and gradients >= self.max_gradients:
            return Limit("max_gradients", self.max_gradients)
        if self.deadline is not None and self.max_minutes is not None:
            return Limit("max_minutes", self.max_minutes)
        return None


class Limit(NamedTuple):
    """An option that has stopped a run, and its value."""

    name: str
    value: float


class Outcome(NamedTuple):
    """How far chains got, and how a run ended."""

    complete: bool
    """Whether all reached the end of the plan, and a stopping rule, if any, is satisfied."""
    draws: int
    """Draws that all chains have."""
    gradients: int
    """The most gradients that a chain has spent."""
    transitions: int = 0
    """Transitions that all chains have made."""
    signal: int | None = None
    """The signal that stopped them."""
    limit: Limit | None = None
    """The limit that stopped them."""
    estimate: Estimate | None = None
    """The estimate of the stopping rule, if a limit came before it was satisfied."""


def stopped_early(
    outcome: Outcome, rule: StoppingRule, plan: Plan, path: Path | None
) -> RunWarning | None:
    """What is missing in a run that a limit has stopped; ``None`` if nothing is."""
    if outcome.limit is None:
        return None
    planned, estimate, times = plan.draws, outcome.estimate, None
    if not outcome.draws:
        resume = resumed(outcome.limit, outcome.gradients, path, None)
        return StoppedInBurnIn(*outcome.limit, outcome.transitions, plan.burn_in, resume)
    if rule.until is None:
        times = planned / outcome.draws
    elif estimate is not None and math.isfinite(estimate.times_longer):
        times = estimate.times_longer
    resume = resumed(outcome.limit, outcome.gradients, path, times)
    facts: dict[str, Any] = {"draws": outcome.draws, "planned": planned, "resume": resume}
    limit, value = outcome.limit
    if rule.until is None:
        return StoppedByLimit(limit, value, **facts)
    if not isinstance(rule.until, Converged):
        return StoppedUnsatisfied(limit, value, **facts, times=times)
    aims: dict[str, Any] = {"rhat": rule.until.rhat, "ess": rule.until.ess}
    if not isinstance(estimate, ConvergenceEstimate) or rule.points is None:
        return StoppedUnconverged(limit, value, **facts, **aims, points=0, short=0)
    if estimate.is_enough:
        return None
    short, rhat, ess = np.flatnonzero(estimate.short), estimate.rhat, estimate.ess
    worst = [
        Point(int(row), rule.points.row_name(row), float(rhat[row]), float(ess[row]))
        for row in short[np.argsort(-estimate.needed[short], kind="stable")][:POINTS_NAMED]
    ]
    facts |= {"points": len(rule.points), "short": len(short), "worst": worst, "times": times}
    return StoppedUnconverged(limit, value, **facts, **aims)


def resumed(limit: Limit, spent: int, path: Path | None, times: float | None) -> Resume:
    """How to resume a run that a limit has stopped, to have this many times the draws.

    A chain has `spent` this many gradients.
    """
    if limit.name == "max_minutes":
        return Resume(path, "max_minutes", f"{limit.value:g}")
    gradients = "..." if times is None else rounded_up(times * spent)
    return Resume(path, "max_gradients", gradients)


def _check_until(until: Until | None, posterior: Posterior, plan: Plan) -> Dataset | None:
    if until is None:
        return None
    if isinstance(until, type) or not callable(getattr(until, "estimate", None)):
        wanted = "'converged', or a rule such as tb.Converged(rhat=1.01, ess=400)"
        raise OptionTypeError("until", wanted, until)
    if not isinstance(until, Converged):
        return None
    if plan.chains < 2:
        raise ValueError(
            "`until` compares chains, one alone can't show that it has converged: use at least two"
        )
    return until._points(posterior, posterior.data)
