"""Run chains side by side.

Each chain is a task of its own: on a CPU one compiled program that advances a single chain is run
by as many threads as there are cores, so that a chain's draws do not depend on the number of cores;
nor do they depend on how a run is cut into calls, or on where it was stopped and taken up again. In
burn-in chains meet now and then (see `meeting`). An accelerator advances all chains at once.
"""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import DType
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.sampling.chains import ChainGroup, Pace
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.interrupt import Interrupts, Stop
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.pooling import Meetings
from tensorbnn.sampling.reporting import Reporter, Reporting
from tensorbnn.storage.store import Store
from tensorbnn.warning import warn

# How long a thread rests when all chains that no thread runs wait for others.
SECONDS_TO_REST = 0.001
_DONE = object()


class Outcome(NamedTuple):
    """How far chains came."""

    draws: int
    """Draws that every one of them has."""
    complete: bool
    signal: int | None
    """The signal that stopped them."""
    gradients: int
    """The most that one of them has spent."""
    checkpoints: Sequence[Checkpoint] = ()
    """Where they are, if they were run here."""


def run_chains(
    checkpoints: Sequence[Checkpoint],
    sampler: Sampler,
    plan: Plan,
    store: Store,
    *,
    reporting: Reporting,
    pace: Pace,
    dtype: DType,
    progress: bool,
    stop: Stop | None = None,
    bar: Bar | None = None,
    until_met: bool = False,
) -> Outcome:
    """Run chains from where they are to the end of `plan`; draws and reports go to `store`.

    These may be all chains of a run or some of them; one that is at its end is left as it is. An
    interrupt (Ctrl-C, SIGTERM) or an error stops every chain after the call it is in, and saves
    where it is. So does a second Ctrl-C, but without waiting for calls: chains then go on from
    where they were last saved. `stop` is looked at between calls, too. A chain that has spent
    ``plan.max_gradients`` stops by itself. Progress is shown by `bar`, where one is given. With
    `until_met` chains stop after the last meeting of their burn-in.
    """
    stop = Stop() if stop is None else stop
    with (
        precision(dtype),
        Interrupts(stop) as interrupts,
        _progress(checkpoints, plan, bar, show=progress) as bar,
    ):
        meetings = Meetings(checkpoints, sampler, plan)
        context = (sampler.step, plan, store)
        groups = [
            ChainGroup(at, *context, reporter, pace, stop, meetings, until_met=until_met)
            for at, reporter in zip(
                checkpoints, _reporters(checkpoints, reporting, plan, store, bar), strict=True
            )
        ]
        _show_first(groups, bar)
        _compile(groups)
        bar.describe("sampling")
        _run_all(groups, stop, dtype)
    for restart in meetings.restarts:
        warn(restart)
    return Outcome(
        draws=min(group.drawn for group in groups),
        complete=all(group.done for group in groups),
        signal=interrupts.received,
        gradients=max(int(group.at.gradients.max()) for group in groups),
        checkpoints=[group.at for group in groups],
    )


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _progress(
    checkpoints: Sequence[Checkpoint], plan: Plan, bar: Bar | None, *, show: bool
) -> contextlib.AbstractContextManager[Bar]:
    """A bar of transitions, or the one that is given, which who gave it closes."""
    if bar is not None:
        return contextlib.nullcontext(bar)
    total = sum(len(at.start.chains) for at in checkpoints) * plan.transitions
    return Bar("compiling", total, done=_transitions(checkpoints), show=show, delay=0.0)


def _reporters(
    checkpoints: Sequence[Checkpoint], reporting: Reporting, plan: Plan, store: Store, bar: Bar
) -> list[Reporter]:
    """Reporters of chains that may have run before."""
    spent = _seconds_spent(store) if _transitions(checkpoints) else {}
    return [
        Reporter(
            at.start,
            reporting,
            plan.transitions,
            store,
            bar,
            shown=at.transitions,
            seconds=max(spent.get(chain, 0.0) for chain in at.start.chains),
        )
        for at in checkpoints
    ]


def _transitions(checkpoints: Sequence[Checkpoint]) -> int:
    """Transitions that all chains together have made."""
    return sum(len(at.start.chains) * at.transitions for at in checkpoints)


def _seconds_spent(store: Store) -> dict[int, float]:
    """Seconds each chain has run for, as far as its reports say."""
    spent: dict[int, float] = {}
    for report in store.reports(skip_damaged=True):
        spent[report["chain"]] = max(spent.get(report["chain"], 0.0), report.get("seconds", 0.0))
    return spent


def _show_first(groups: Sequence[ChainGroup], bar: Bar) -> None:
    """Rows of the display before the first call."""
    for group in reversed(groups):  # of many rows, those set last are shown
        for chain in reversed(group.chains):
            bar.row(chain, {"chain": str(chain), "phase": "done" if group.done else "waiting"})


def _compile(groups: Sequence[ChainGroup]) -> None:
    """Compile what all of them run, if one has something to do."""
    unfinished = next((group for group in groups if not group.done), None)
    if unfinished is not None:
        unfinished.compile()


def _run_all(groups: list[ChainGroup], stop: Stop, dtype: DType) -> None:
    """Run all chains on the machine's cores; the first error, or an interrupt, stops them all.

    Where there are more chains than cores they take turns, so that all of them grow together and a
    run can be read, and judged, while it goes on.
    """
    waiting = collections.deque(group.calls() for group in groups)
    errors: list[BaseException] = []

    def work() -> None:
        with precision(dtype):
            while (calls := _take(waiting)) is not None:
                try:
                    worked = next(calls, _DONE)
                    if worked is not _DONE:
                        waiting.append(calls)
                    if worked is False:
                        time.sleep(SECONDS_TO_REST)
                except BaseException as error:
                    errors.append(error)
                    stop.asked = True

    workers: list[threading.Thread] = []
    try:
        for _ in range(min(len(groups), cores())):
            worker = threading.Thread(target=work, daemon=True)
            try:
                worker.start()
            except RuntimeError:  # a limit on threads; fewer do the same
                if not workers:
                    raise
                break
            workers.append(worker)
        for worker in workers:
            while worker.is_alive():  # in short waits: a signal is answered on every system
                worker.join(timeout=0.5)
    except BaseException:
        stop.asked = True
        for group in groups:
            group.abandon()
        raise
    if errors:
        raise errors[0]


def _take(waiting: "collections.deque[Iterator[bool]]") -> Iterator[bool] | None:
    try:
        return waiting.popleft()
    except IndexError:  # the rest are being run by other workers
        return None
