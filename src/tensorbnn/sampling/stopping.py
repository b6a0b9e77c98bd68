"""What a run is to reach before it ends, and in words what it falls short of where it does not."""

import math
import numbers
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tensorbnn.data import Dataset
from tensorbnn.model.checks import check_count, check_inputs
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.converged import TRAINING_POINTS, Converged, Standing
from tensorbnn.sampling.local import Outcome
from tensorbnn.sampling.plan import Plan
from tensorbnn.storage.files import RunError

# Points that a message names.
POINTS_NAMED = 5


class Goal(NamedTuple):
    """When a run ends, besides its number of draws and gradients."""

    until: Converged | None = None
    points: Dataset | None = None
    """Rows at which predictions are looked at."""
    max_minutes: float | None = None
    deadline: float | None = None
    """Monotonic time at which `max_minutes` are over."""


class Ended(NamedTuple):
    """How a run has ended."""

    outcome: Outcome
    """Where predictions were to be good enough, `complete` says whether they are."""
    plan: Plan
    """As long as it has become."""
    limit: str | None = None
    """The option that has ended it."""
    standing: Standing | None = None
    """Where predictions stand, where they were to be good enough and a limit came before."""


def make_goal(
    until: Converged | None, max_minutes: float | None, posterior: Posterior, plan: Plan
) -> Goal:
    """When a run ends, checked; its minutes begin now."""
    minutes = check_minutes(max_minutes)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    if until is None:
        return Goal(max_minutes=minutes, deadline=deadline)
    if not isinstance(until, Converged):
        raise TypeError(
            f"`until` must be a tb.Converged, such as tb.Converged(rhat=1.01, ess=400), got "
            f"{until!r}"
        )
    if plan.chains < 2:
        raise ValueError(
            "`until` compares chains, one alone can't show that it has converged: use at least two"
        )
    return Goal(until, _points(until, posterior), minutes, deadline)


def check_minutes(max_minutes: float | None) -> float | None:
    """A positive number, or ``None`` for no limit."""
    if max_minutes is None:
        return None
    is_number = isinstance(max_minutes, numbers.Real) and not isinstance(max_minutes, bool)
    if not is_number or not max_minutes > 0:
        raise ValueError(f"`max_minutes` must be a positive number, got {max_minutes!r}")
    return float(max_minutes) if math.isfinite(max_minutes) else None


def check_gradients(max_gradients: float | None) -> int | None:
    """A whole number, or ``None`` for no limit."""
    if max_gradients is None or max_gradients == math.inf:
        return None
    return check_count("max_gradients", max_gradients, least=1)


def limit_of(outcome: Outcome, plan: Plan, goal: Goal) -> str | None:
    """The option that has ended a run, if one has."""
    if outcome.complete or outcome.signal is not None:
        return None
    if plan.is_spent(outcome.gradients):
        return "max_gradients"
    return None if goal.deadline is None else "max_minutes"


def check_drawn(ended: Ended, goal: Goal, path: Path | None) -> None:
    """Raise where a limit came before the first draw of some chain."""
    if ended.limit is not None and not ended.outcome.draws:
        burn_in = f"{ended.plan.burn_in:,} transitions of burn-in"
        raise RunError(
            f"{_limit(ended, goal)} came before the first draw (after {burn_in}) of some chain: "
            f"there is nothing to predict with yet; {_go_on(ended, goal, path, None)}"
        )


def shortfall(ended: Ended, goal: Goal, path: Path | None) -> str | None:
    """What a run that a limit has ended falls short of; ``None`` where it does not."""
    draws, until, standing = ended.outcome.draws, goal.until, ended.standing
    if ended.limit is None:
        return None
    if until is None or goal.points is None:
        text = f"stopped by {_limit(ended, goal)} after {draws:,} of {ended.plan.draws:,} draws of "
        return f"{text}each chain; {_go_on(ended, goal, path, ended.plan.draws / draws)}"
    text = f"stopped by {_limit(ended, goal)} after {draws:,} draws of each chain"
    if standing is None:
        return f"{text}, too few to judge predictions by; {_go_on(ended, goal, path, None)}"
    short = standing.short(until)
    if short.sum() <= until.allowed(len(short)):
        return None
    times = standing.times_longer(until)
    longer = ""
    if math.isfinite(times):
        longer = f"about {_rounded_up(times)} times as many draws are needed; "
    return (
        f"{text}: at {short.sum()} of {len(short)} x predictions are not known as well as wanted "
        f"(R-hat below {until.rhat:g}, ESS of at least {until.ess:g}): "
        f"{_worst(standing, until, goal.points)}; {longer}"
        f"{_go_on(ended, goal, path, times if math.isfinite(times) else None)}"
    )


def in_words(now: Standing, until: Converged) -> str:
    """Where a run that goes on stands."""
    known = now.rhat[np.isfinite(now.rhat)]
    short, points = now.short(until).sum(), len(now.rhat)
    rhat = f"R-hat up to {known.max():.3f}" if len(known) else "R-hat unknown"
    text = f"{rhat}, ESS from {np.nan_to_num(now.ess).min():,.0f}, {short} of {points} x to go"
    return text if np.isfinite(now.times_longer(until)) else f"{text}, no telling how long"


def _points(until: Converged, posterior: Posterior) -> Dataset:
    if until.at is not None:
        x = np.asarray(until.at, posterior.scaling.user_dtype(posterior.dtype))
        check_inputs(x, posterior.network, name="at")
        return Dataset(x)
    if posterior.dataset is None:
        raise ValueError(
            "`until` looks at predictions for the training data, but `posterior` has none: say "
            "where to look, such as `until=tb.Converged(at=x)`"
        )
    return posterior.dataset.evenly(TRAINING_POINTS)


def _limit(ended: Ended, goal: Goal) -> str:
    value = goal.max_minutes if ended.limit == "max_minutes" else ended.plan.max_gradients
    return f"`{ended.limit}` ({value:,g})"


def _worst(standing: Standing, until: Converged, points: Dataset) -> str:
    """The points that fall short most, in words."""
    short = np.flatnonzero(standing.short(until))
    worst = short[np.argsort(-standing.needs(until)[short], kind="stable")]
    said = [
        f"{_numbers(standing.rhat[row], standing.ess[row])} at {points.row_name(row)}"
        for row in worst[:POINTS_NAMED]
    ]
    more = len(worst) - len(said)
    return "; ".join([*said, *([f"and {more} more"] if more else [])])


def _numbers(rhat: float, ess: float) -> str:
    if not math.isfinite(rhat):
        return "a chain does not move"
    return f"R-hat {rhat:.3f} and ESS {ess:,.0f}"


def _go_on(ended: Ended, goal: Goal, path: Path | None, times: float | None) -> str:
    """What to do, to have so many times the draws, as far as that is known."""
    if path is None:
        return f"give more `{ended.limit}`, and a `path` for a run that can go on"
    if ended.limit == "max_minutes":
        return f"go on with tb.resume({str(path)!r}, max_minutes={goal.max_minutes:g})"
    if times is None:
        return f"go on with tb.resume({str(path)!r}, max_gradients=...)"
    gradients = _rounded_up(times * ended.outcome.gradients)
    return f"go on with tb.resume({str(path)!r}, max_gradients={gradients})"


def _rounded_up(number: float) -> str:
    """Two digits, never below `number`."""
    digits = 10.0 ** (math.floor(math.log10(number)) - 1)
    rounded = math.ceil(number / digits - 1e-9) * digits
    return str(round(rounded)) if rounded >= 10 else f"{rounded:.1f}"
