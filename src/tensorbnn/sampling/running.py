"""Run the chains of a run to their goal, and record and say how that ended."""

import contextlib
import shlex
import signal
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NoReturn

from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.progress import say
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.recipe import Recipe
from tensorbnn.sampling.stopping import Ended, Goal, check_drawn, shortfall
from tensorbnn.sampling.until import run_to_goal
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store
from tensorbnn.warning import warn


def carry_out(
    recipe: Recipe,
    store: Store,
    checkpoints: Sequence[Checkpoint],
    goal: Goal,
    *,
    progress: bool,
    executor: Executor | None,
) -> Ensemble:
    """Run all chains to their goal, record how that ended, and close the store."""
    path = store.path if isinstance(store, DirectoryStore) else None
    with contextlib.closing(store):
        try:
            ended = run_to_goal(
                recipe, store, checkpoints, goal, progress=progress, executor=executor
            )
        except BaseException as error:
            with contextlib.suppress(RunError):  # the first error is the one to be told
                store.update(status="interrupted")
            if isinstance(error, KeyboardInterrupt) and path is not None:
                say(f"stopped at once; {_how_to_go_on(path)} from the last checkpoint")
            raise
        stopped = "interrupted" if ended.limit is None else "stopped"
        store.update(status="complete" if ended.outcome.complete else stopped)
    if ended.outcome.signal is not None:
        _answer_signal(ended, ended.outcome.signal, path)
    check_drawn(ended, goal, path)
    message = shortfall(ended, goal, path)
    if message is not None:
        warn(message)
    return Ensemble._from_posterior(store, recipe.posterior)


def _answer_signal(ended: Ended, number: int, path: Path | None) -> None:
    """Say how far a run came; only one in memory that Ctrl-C has stopped goes on from here."""
    if path is not None:
        say(_how_far(ended, path))
        _raise_signal(number)
    if number == signal.SIGTERM or not ended.outcome.draws:
        _raise_signal(number)
    warn(
        f"interrupted: the ensemble has the {ended.outcome.draws:,} of {ended.plan.draws:,} draws "
        "that all chains have",
    )


def _how_far(ended: Ended, path: Path) -> str:
    outcome, plan = ended.outcome, ended.plan
    if outcome.complete:
        return f"stopped, but all {plan.draws:,} draws of each chain are saved in {path}"
    return (
        f"stopped after {outcome.draws:,} of {plan.draws:,} draws of each chain, which are saved; "
        f"{_how_to_go_on(path)}"
    )


def _how_to_go_on(path: Path) -> str:
    return f"go on with tb.resume({str(path)!r}) or: tensorbnn resume {shlex.quote(str(path))}"


def _raise_signal(number: int) -> NoReturn:
    """What Python and shells expect of a program that a signal has stopped."""
    if number == signal.SIGTERM:
        raise SystemExit(128 + number)
    raise KeyboardInterrupt
