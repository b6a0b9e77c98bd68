"""Sample until predictions are known well enough, or until a limit.

Chains are run to the number of draws that was asked for, and then made longer by a quarter again
and again, until R-hat and the effective sample size of their predictions are where they are to be.
That is looked at only where all chains are at such an end, and is computed from their draws alone:
so when a run ends depends neither on the clock nor on interruptions, unless a limit of time does
end it. Between these ends a thread looks now and then, to say how long it will take.
"""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from tensorbnn.progress import Bar
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.converged import POINTS_AT_ONCE, Standing, stand
from tensorbnn.sampling.executor import run_on
from tensorbnn.sampling.growing import GrowingPredictions
from tensorbnn.sampling.interrupt import Interrupts, Stop
from tensorbnn.sampling.local import Outcome
from tensorbnn.sampling.pooling import meet_again
from tensorbnn.sampling.recipe import Recipe
from tensorbnn.sampling.stopping import Ended, Goal, in_words, limit_of
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store

# Draws of all chains together from which on it is said how long it will take.
FIRST_LOOK = 1000
# Seconds between two looks, and the most that looking may take of the time.
LOOK_SECONDS = 2.0
LOOK_SHARE = 0.02


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
    watch = _Watch(recipe, store, goal, bar, looks_on=progress)
    with Interrupts(stop) as interrupts, bar, watch:
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
        limit = limit_of(outcome, recipe.plan, goal)
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


def _run(
    recipe: Recipe,
    store: Store,
    checkpoints: Sequence[Checkpoint],
    stop: Stop,
    bar: Bar,
    executor: Executor | None,
) -> Outcome:
    if executor is None or not isinstance(store, DirectoryStore):
        return recipe.run(store, checkpoints, stop=stop, bar=bar)
    if any(meet_again(at, recipe.plan) for at in checkpoints):
        # A run that was begun without an executor: chains tune themselves together to the end.
        met = recipe.run(store, checkpoints, stop=stop, bar=bar, until_met=True)
        if stop.asked:
            return met
    return run_on(executor, recipe, store, stop=stop, bar=bar)


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

    def __init__(
        self, recipe: Recipe, store: Store, goal: Goal, bar: Bar, *, looks_on: bool
    ) -> None:
        self.plan = recipe.plan
        """How long the run is to be, as far as it is known."""
        self._bar, self._until = bar, goal.until
        self._known: Standing | None = None
        self._looks_on = looks_on and goal.until is not None
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        if goal.points is not None:
            # Apart from the store that is written.
            reader = DirectoryStore(store.root) if isinstance(store, DirectoryStore) else store
            self._predictions = GrowingPredictions(
                reader,
                recipe.posterior,
                goal.points.x,
                chains=self.plan.chains,
                networks_per_file=self.plan.networks_per_file,
            )

    def __enter__(self) -> "_Watch":
        if self._looks_on:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._looks_on:
            self._thread.join()

    def decide(self) -> bool:
        """Whether predictions are where they are to be, as all draws say."""
        if self._until is None:
            return True
        with self._lock:
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
                with self._lock:
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
        self._bar.aim(steps, in_words(now, self._until))
