"""Run chains side by side in this process.

On a CPU, each chain is a separate task: a compiled program advances a single chain, and as many
threads as there are cores run it. So the draws of a chain depend neither on the number of cores nor
on how a run is divided into calls, stopped and resumed. In burn-in, chains learn from each other
(see `pooling`). An accelerator advances all chains at once.
"""

import collections
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, final

from tensorbnn.model.checks import DType
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.sampling.burn_in import BurnInForecast
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.sampling.checkpoint import Checkpoint, merge_equal
from tensorbnn.sampling.interrupt import StopRequest
from tensorbnn.sampling.plan import are_batched
from tensorbnn.sampling.pooling import Pooling
from tensorbnn.sampling.reporting import Reporter, show_first
from tensorbnn.sampling.run import Run
from tensorbnn.sampling.stopping import Outcome
from tensorbnn.storage.store import Store

# Seconds that a thread sleeps if all chains without a thread wait for others.
_REST_SECONDS = 0.001


def usable_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@final
class LocalBackend:
    """Runs chains, all of a run or some of them, by the threads of this process."""

    doing: ClassVar[str] = "compiling"
    call_seconds: ClassVar[float] = 0.25
    """About how long one call of a compiled program takes; tests set it."""

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.checkpoints = checkpoints

    def cores(self) -> int:
        """The largest number of threads; tests replace it."""
        return usable_cores()

    @property
    def transitions(self) -> int:
        """Transitions of all chains together."""
        return sum(len(at.chains.numbers) * at.transitions for at in self.checkpoints)

    def advance(
        self, run: Run, stop: StopRequest, bar: Bar, *, until_pooled: bool = False
    ) -> Outcome:
        """Run the chains to the end of the plan; complete chains stay as they are.

        `stop` or an error stops every chain after its current call, and saves its state. After an
        exception in this thread, such as a second Ctrl-C, nothing waits for calls: chains then
        continue from where they were last saved. A chain that has spent its gradients stops by
        itself. With `until_pooled` chains stop after the last pooling round.
        """
        errors: list[BaseException] = []
        with precision(run.posterior.dtype):
            if are_batched():
                self.checkpoints = merge_equal(self.checkpoints)
            pooling = Pooling(self.checkpoints, run.sampler, run.plan)
            groups = self._groups(run, pooling, stop, bar, until_pooled=until_pooled)
            show_first(bar, {chain: each.is_done for each in groups for chain in each.chains})
            unfinished = next((group for group in groups if not group.is_done), None)
            if unfinished is not None:
                unfinished.compile()
            bar.describe("sampling")
            waiting = collections.deque(group.calls() for group in groups)
            work = functools.partial(self._work, waiting, errors, stop, run.posterior.dtype)
            forecast = BurnInForecast(run)
            try:
                for thread in _start_threads(work, min(len(groups), self.cores())):
                    while thread.is_alive():  # short waits, so that every system handles signals
                        thread.join(timeout=0.5)
                        forecast.update(min(group.at.transitions for group in groups))
                        pooling.warn()
            except BaseException:
                stop.request()
                for group in groups:
                    group.abandon()
                raise
            if stop.by_limit and not errors:
                for group in groups:
                    group.keep_burn_in()
        if errors:
            raise errors[0]
        pooling.warn()
        self.checkpoints = [group.at for group in groups]
        return Outcome(
            draws=min(group.drawn for group in groups),
            complete=all(group.is_done for group in groups),
            gradients=max(int(group.at.gradients.max()) for group in groups),
            transitions=min(group.at.transitions for group in groups),
        )

    def _groups(
        self, run: Run, pooling: Pooling, stop: StopRequest, bar: Bar, *, until_pooled: bool
    ) -> list[ChainGroup]:
        spent = _seconds_spent(run.store) if self.transitions else {}
        groups = []
        for at in self.checkpoints:
            seconds = max(spent.get(chain, 0.0) for chain in at.chains.numbers)
            reporter = Reporter(at, run.reporting, run.plan, run.store, bar, seconds)
            group = ChainGroup(
                at,
                run,
                reporter,
                pooling,
                stop,
                call_seconds=self.call_seconds,
                until_pooled=until_pooled,
            )
            groups.append(group)
        return groups

    def _work(
        self,
        waiting: "collections.deque[Iterator[bool]]",
        errors: list[BaseException],
        stop: StopRequest,
        dtype: DType,
    ) -> None:
        """The work of a thread: advance any waiting chain; an error stops all chains.

        If there are more chains than threads, they take turns, so that all of them grow together
        and you can analyze a run while it continues.
        """
        with precision(dtype):
            while True:
                try:
                    calls = waiting.popleft()
                except IndexError:  # other threads run the rest
                    return
                try:
                    has_worked = next(calls, None)
                    if has_worked is not None:
                        waiting.append(calls)
                    if has_worked is False:
                        time.sleep(_REST_SECONDS)
                except BaseException as error:
                    errors.append(error)
                    stop.request()


def _start_threads(work: Callable[[], None], count: int) -> list[threading.Thread]:
    """Start threads; fewer if the system allows no more."""
    threads: list[threading.Thread] = []
    for _ in range(count):
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not threads:
                raise
            break
        threads.append(thread)
    return threads


def _seconds_spent(store: Store) -> Mapping[int, float]:
    """Seconds that each chain has run, according to its reports."""
    spent: dict[int, float] = {}
    for report in store.reports(skip_damaged=True):
        spent[report["chain"]] = max(spent.get(report["chain"], 0.0), report.get("seconds", 0.0))
    return spent
