"""Sample until predictions are known well enough, or until a limit.

Chains are run to the number of draws that was asked for, and then made longer by a quarter again
and again, until R-hat and the effective sample size of their predictions are where they are to be.
That is looked at only where all chains are at such an end, and is computed from their draws alone:
so when a run ends depends neither on the clock nor on interruptions, unless a limit of time does
end it. Between these ends a thread looks now and then, to say how long it will take.
"""

import math
import numbers
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.converged import (
    POINTS_AT_ONCE,
    TRAINING_POINTS,
    Converged,
    Standing,
    stand,
)
from tensorbnn.ensemble.growing import GrowingPredictions
from tensorbnn.ensemble.verdict import point_names
from tensorbnn.model.checks import check_count, check_inputs
from tensorbnn.posterior import Posterior
from tensorbnn.progress import Bar
from tensorbnn.runs.checkpoint import Checkpoint
from tensorbnn.runs.farm import run_on
from tensorbnn.runs.files import RunError
from tensorbnn.runs.interrupt import Interrupts, Stop
from tensorbnn.runs.recipe import Recipe
from tensorbnn.runs.sample import Outcome
from tensorbnn.runs.start import Plan
from tensorbnn.runs.store import DirectoryStore, Store

# Draws of all chains together from which on it is said how long it will take.
FIRST_LOOK = 1000
# Seconds between two looks, and the most that looking may take of the time.
LOOK_SECONDS = 2.0
LOOK_SHARE = 0.02
# Points that a message names.
POINTS_NAMED = 5


class Points(NamedTuple):
    """Inputs at which predictions are looked at, and their numbers as the user knows them."""

    x: NDArray[Any]
    rows: NDArray[Any]


class Goal(NamedTuple):
    """When a run ends, besides its number of draws and gradients."""

    until: Converged | None = None
    points: Points | None = None
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


def run_to_goal(
    recipe: Recipe,
    store: Store,
    checkpoints: Sequence[Checkpoint],
    goal: Goal,
    *,
    progress: bool,
    executor: Executor | None,
) -> Ended:
    """Run all chains, here or by `executor`, and make them longer until `goal` is reached.

    An interrupt or a limit stops them, with all that they have drawn saved.
    """
    stop = Stop(also=lambda: goal.deadline is not None and time.monotonic() >= goal.deadline)
    done = sum(len(at.start.chains) * at.transitions for at in checkpoints)
    bar = Bar(
        "compiling" if executor is None else "starting",
        recipe.plan.chains * recipe.plan.transitions,
        done=done,
        show=progress,
        delay=0.0,
        deadline=goal.deadline,
    )
    with Interrupts(stop) as interrupts, bar, _Watch(recipe, store, goal, bar) as watch:
        if not progress:
            watch.close()
        while True:
            outcome = _run(recipe, store, checkpoints, stop, bar, executor)
            if goal.until is None or not outcome.complete:
                break
            reached = watch.decide()
            if reached or stop.asked:
                outcome = outcome._replace(complete=reached)
                break
            recipe, checkpoints = _longer(recipe, store), outcome.checkpoints
            watch.plan = recipe.plan
        outcome = outcome._replace(signal=outcome.signal or interrupts.received)
        limit = _limit_of(outcome, recipe.plan, goal)
        standing = None if limit is None else watch.whole()
    return Ended(outcome, recipe.plan, limit, standing)


def trim_reports(store: Store, recipe: Recipe, reached: Mapping[int, int]) -> None:
    """Leave out reports that will be written again, and those a longer run does not have.

    `reached` are transitions by chain.
    """
    every, end = recipe.reporting.every, recipe.plan.transitions
    store.replace_reports(
        [
            report
            for report in store.reports(skip_damaged=True)
            if report["epoch"] <= reached.get(report["chain"], -1)
            and (report["epoch"] % every == 0 or report["epoch"] == end)
        ]
    )


def check_drawn(ended: Ended, goal: Goal, path: Path | None) -> None:
    """Raise where a limit came before the first draw of some chain."""
    if ended.limit is not None and not ended.outcome.draws:
        burn_in = f"{ended.plan.burn_in:,} transitions of burn-in"
        raise RunError(
            f"{_limit(ended, goal)} came before the first draw (after {burn_in}) of some chain: "
            f"there is nothing to predict with yet; {_go_on(ended, goal, path, 2.0)}"
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
        return f"{text}, too few to judge predictions by; {_go_on(ended, goal, path, 2.0)}"
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
        f"{_go_on(ended, goal, path, times if math.isfinite(times) else 2.0)}"
    )


def _points(until: Converged, posterior: Posterior) -> Points:
    if until.at is not None:
        x = np.asarray(until.at, posterior.scaling.user_dtype(posterior.dtype))
        check_inputs(x, posterior.network, name="at")
        return Points(x, np.arange(len(x)))
    if posterior.x is None:
        raise ValueError(
            "`until` looks at predictions for the training data, but `posterior` has none: say "
            "where to look, such as `until=tb.Converged(at=x)`"
        )
    rows = np.arange(0, len(posterior.x), -(-len(posterior.x) // TRAINING_POINTS))
    return Points(posterior.x[rows], rows)


def _run(
    recipe: Recipe,
    store: Store,
    checkpoints: Sequence[Checkpoint],
    stop: Stop,
    bar: Bar,
    executor: Executor | None,
) -> Outcome:
    if executor is not None and isinstance(store, DirectoryStore):
        return run_on(executor, recipe, store, stop=stop, bar=bar)
    return recipe.run(store, checkpoints, stop=stop, bar=bar)


def _limit_of(outcome: Outcome, plan: Plan, goal: Goal) -> str | None:
    """The option that has ended a run, if one has."""
    if outcome.complete or outcome.signal is not None:
        return None
    if plan.is_spent(outcome.gradients):
        return "max_gradients"
    return None if goal.deadline is None else "max_minutes"


def _longer(recipe: Recipe, store: Store) -> Recipe:
    """The same run, longer by a quarter."""
    before = recipe.plan
    recipe = recipe._replace(plan=before.with_draws(-(-5 * before.draws // 4)))
    # First how long the run is to be: readers don't look for a last report that is trimmed.
    store.update(draws=recipe.plan.draws, status="running")
    trim_reports(store, recipe, dict.fromkeys(range(before.chains), before.transitions))
    return recipe


class _Watch:
    """Looks at predictions: now and then, to say how far they are, and at the ends to decide."""

    def __init__(self, recipe: Recipe, store: Store, goal: Goal, bar: Bar) -> None:
        self.plan = recipe.plan
        """How long the run is to be, as far as it is known."""
        self._bar, self._until = bar, goal.until
        self._known: Standing | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        if goal.points is not None:
            # Apart from the store that is written.
            reader = DirectoryStore(store.path) if isinstance(store, DirectoryStore) else store
            self._predictions = GrowingPredictions(
                reader,
                recipe.posterior,
                goal.points.x,
                chains=self.plan.chains,
                networks_per_file=self.plan.networks_per_file,
            )

    def __enter__(self) -> "_Watch":
        if self._until is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Look no more by itself."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def decide(self) -> bool:
        """Whether predictions are where they are to be, as all draws say."""
        if self._until is None:
            return True
        now = stand(self._predictions.update(), self._until, self._known)
        if now is None:
            return False
        reached = now.reached(self._until)
        self._show(now, reached=reached)
        return reached

    def whole(self) -> Standing | None:
        """Where predictions stand at every point."""
        if self._until is None:
            return None
        return stand(self._predictions.update(), self._until)

    def _look_on(self) -> None:
        pause = LOOK_SECONDS
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self._look()
            except (RunError, OSError):  # who decides will meet it, too
                return
            pause = max(LOOK_SECONDS, (time.monotonic() - began) / LOOK_SHARE)

    def _look(self) -> None:
        values = self._predictions.update()
        if self._until is None or values.shape[0] * values.shape[1] < FIRST_LOOK:
            return
        now = stand(values, self._until, self._known, most=POINTS_AT_ONCE)
        if now is not None:
            self._show(now, reached=False)

    def _show(self, now: Standing, *, reached: bool) -> None:
        self._known = now
        if self._until is None:
            return
        times = 1.0 if reached else now.times_longer(self._until)
        draws = self.plan.draws
        if math.isfinite(times):
            draws = max(draws, math.ceil(times * now.draws))
        steps = self.plan.chains * (self.plan.burn_in + draws * self.plan.every)
        self._bar.aim(steps, _in_words(now, self._until))


def _in_words(now: Standing, until: Converged) -> str:
    known = now.rhat[np.isfinite(now.rhat)]
    short, points = now.short(until).sum(), len(now.rhat)
    rhat = f"R-hat up to {known.max():.3f}" if len(known) else "R-hat unknown"
    text = f"{rhat}, ESS from {np.nan_to_num(now.ess).min():,.0f}, {short} of {points} x to go"
    return text if np.isfinite(now.times_longer(until)) else f"{text}, no telling how long"


def _limit(ended: Ended, goal: Goal) -> str:
    value = goal.max_minutes if ended.limit == "max_minutes" else ended.plan.max_gradients
    return f"`{ended.limit}` ({value:,g})"


def _worst(standing: Standing, until: Converged, points: Points) -> str:
    """The points that fall short most, in words."""
    short = np.flatnonzero(standing.short(until))
    worst = short[np.argsort(-standing.needs(until)[short], kind="stable")]
    label, names = point_names(worst[:POINTS_NAMED], points.x)
    if label == "row":
        names = [str(points.rows[row]) for row in worst[:POINTS_NAMED]]
    said = [
        f"{_numbers(standing.rhat[row], standing.ess[row])} at {label} {name}"
        for row, name in zip(worst, names, strict=False)
    ]
    more = len(worst) - len(said)
    return "; ".join([*said, *([f"and {more} more"] if more else [])])


def _numbers(rhat: float, ess: float) -> str:
    if not math.isfinite(rhat):
        return "a chain does not move"
    return f"R-hat {rhat:.3f} and ESS {ess:,.0f}"


def _go_on(ended: Ended, goal: Goal, path: Path | None, times: float) -> str:
    if path is None:
        return f"give more `{ended.limit}`, and a `path` for a run that can go on"
    if ended.limit == "max_gradients":
        option = f"max_gradients={_rounded_up(times * ended.outcome.gradients)}"
    else:
        option = f"max_minutes={goal.max_minutes:g}"
    return f"go on with tb.resume({str(path)!r}, {option})"


def _rounded_up(number: float) -> str:
    """Two digits, never below `number`."""
    digits = 10.0 ** (math.floor(math.log10(number)) - 1)
    rounded = math.ceil(number / digits - 1e-9) * digits
    return str(round(rounded)) if rounded >= 10 else f"{rounded:.1f}"
