"""Chains as tasks of an executor: submit, watch, restart, stop.

Each task runs one chain (`tensorbnn.sampling.worker`) and writes it; here, where the run was
started, nothing is computed. What the workers have done is read from the run directory. Where a worker is
lost its chain is submitted again and goes on from where it was last saved.
"""

import asyncio
import concurrent.futures
import contextlib
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from typing import Any, NamedTuple

from tensorbnn.progress import Bar
from tensorbnn.sampling.interrupt import Interrupts, Stop
from tensorbnn.sampling.local import Outcome
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.recipe import Recipe
from tensorbnn.sampling.reporting import cells
from tensorbnn.sampling.worker import ChainTask, make_task, run_chain
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import RunError, write_file
from tensorbnn.storage.lock import LockedError
from tensorbnn.warning import warn

POLL_SECONDS = 0.5
# How often a chain is submitted while nothing of the run gets further.
ATTEMPTS = 3


def check_executor(executor: object) -> None:
    """Raise where `executor` is none, or one that can't run chains."""
    if not isinstance(executor, Executor):
        raise TypeError(
            "`executor` must be a concurrent.futures.Executor, such as a ProcessPoolExecutor, or "
            f"client.get_executor() of a Dask client, got {executor!r}"
        )
    if isinstance(executor, ProcessPoolExecutor) and _start_method(executor) == "fork":
        raise ValueError(
            "the processes of `executor` are started by `fork`, which may hang since JAX uses "
            "threads: make it with "
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )


def check_sendable(executor: Executor, recipe: Recipe) -> None:
    """Raise where a part of a run can't be sent to the workers, before anything is started."""
    if isinstance(executor, ThreadPoolExecutor):
        return
    posterior, dumps = recipe.posterior, _pickler(executor)
    parts = {
        "the network": posterior.network,
        "the likelihood": posterior.likelihood,
        "the sampler": recipe.sampler,
    } | {f"the metric `{name}`": metric for name, metric in recipe.reporting.metrics.items()}
    for name, part in parts.items():
        try:
            dumps(part)
        except Exception as error:
            raise ValueError(
                f"{name} can't be sent to the workers of `executor` ({error}): define its class or "
                "function at the top of a module that the workers can import, not inside a "
                "function and not as a lambda"
            ) from error


def run_on(
    executor: Executor,
    recipe: Recipe,
    store: DirectoryStore,
    *,
    progress: bool = False,
    stop: Stop | None = None,
    bar: Bar | None = None,
) -> Outcome:
    """Run the chains of a locked run directory to their end, each as a task of `executor`.

    As without one, an interrupt or an error of a chain stops every chain after the call it is in,
    and saves where it is; so does `stop`. Progress is shown by `bar`, where one is given.
    """
    stop, plan = Stop() if stop is None else stop, recipe.plan
    reached = [store.transitions(chain) for chain in range(plan.chains)]
    with (
        Interrupts(stop) as interrupts,
        contextlib.nullcontext(bar)
        if bar is not None
        else Bar(
            "starting", plan.chains * plan.transitions, done=sum(reached), show=progress, delay=0.0
        ) as bar,
        contextlib.closing(_Farm(executor, make_task(recipe, store), store, stop)) as farm,
    ):
        display = _Display(bar, store, plan, reached)
        chains = range(plan.chains)
        farm.submit([each for each in chains if not plan.is_over(*store.progress(each))])
        while farm.is_busy():
            farm.wait(POLL_SECONDS)
            display.update()
            if stop.asked:
                farm.stop()
        display.update()
    for message in farm.warnings:
        warn(message)
    if farm.errors:
        raise farm.errors[0]
    progressed = [store.progress(chain) for chain in chains]
    reached, spent = [at for at, _ in progressed], [gradients for _, gradients in progressed]
    draws = plan.drawn(min(reached))
    return Outcome(
        draws,
        min(reached) >= plan.transitions,
        interrupts.received,
        max(spent),
    )


class _Submitted(NamedTuple):
    """A chain that is with an executor."""

    chain: int
    executor: Executor
    attempt: int
    """How often it was submitted while nothing got further."""
    progress: int
    """Transitions of all chains when it was submitted."""


class _Farm:
    """The chains of a run that are with an executor, which is replaced where it breaks."""

    def __init__(
        self, executor: Executor, task: ChainTask, store: DirectoryStore, stop: Stop
    ) -> None:
        self._executor, self._task, self._store, self._stop = executor, task, store, stop
        self._futures: dict[Future[list[str]], _Submitted] = {}
        self._own: ProcessPoolExecutor | None = None
        self._stopped = False
        self.errors: list[BaseException] = []
        """What ended chains, and with them the run."""
        self.warnings: dict[str, None] = {}
        """What workers warned of, each once, in order."""

    def is_busy(self) -> bool:
        """Whether a worker may still be writing."""
        chains = range(self._task.plan.chains)
        return bool(self._futures) or any(map(self._is_locked, chains))

    def submit(self, chains: Sequence[int]) -> None:
        """Give chains to the executor."""
        progress = self._progress()
        for chain in chains:
            if not self.errors:
                self._submit(_Submitted(chain, self._executor, 1, progress))

    def wait(self, seconds: float) -> None:
        """Wait until a chain ends, `seconds` at most, and see to those that have ended."""
        if not self._futures:  # only for one that was cancelled, and is saving where it is
            time.sleep(seconds)
        first = concurrent.futures.FIRST_COMPLETED
        for future in concurrent.futures.wait(self._futures, seconds, first).done:
            error = _error(future)
            if error is None:
                self.warnings |= dict.fromkeys(future.result())
            self._end(self._futures.pop(future), error)

    def stop(self) -> None:
        """Ask all workers to stop; those that have not begun need not."""
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(OSError):  # a full disk stops them, too
            write_file(self._store.stop_file, b"")
        # Dask says of any task that it is cancelled; the lock of a chain tells that it is running.
        self._futures = {each: of for each, of in self._futures.items() if not each.cancel()}

    def close(self) -> None:
        """Leave nothing behind: where this comes too early chains stop by themselves."""
        if self._futures:
            self.stop()
        if self._own is not None:
            self._own.shutdown(wait=not self._futures, cancel_futures=True)

    def _submit(self, what: _Submitted) -> None:
        # A task of Dask with the same arguments would be the same task, also if it has failed.
        options = {"pure": False} if _is_dask(self._executor) else {}
        try:
            future = self._executor.submit(run_chain, self._task, what.chain, **options)
        except BrokenExecutor as error:
            if self._renew(self._executor):
                self._submit(what)
            else:
                self._fail(self._lost("`executor` is broken", error))
        except Exception as error:  # chains that it has taken are to stop, and be saved
            self._fail(
                RunError(
                    f"`executor` takes no chain ({type(error).__name__}: {error}). All that was "
                    f"saved is whole; go on with tb.resume({str(self._store.path)!r})"
                )
            )
        else:
            self._futures[future] = what._replace(executor=self._executor)

    def _end(self, what: _Submitted, error: BaseException | None) -> None:
        """See to a chain whose task has ended: it is done, has failed, or goes on elsewhere."""
        if error is not None and not _is_of_executor(error):
            error.add_note(f"in chain {what.chain} of the run {self._store.path}")
            self._fail(error)
        elif not self._stop.asked and not self._is_done(what.chain):
            progress = self._progress()
            attempt = 1 if progress > what.progress else what.attempt + 1
            if attempt > ATTEMPTS:
                times = f"workers were lost {ATTEMPTS} times while no chain got further"
                self._fail(self._lost(times, error))
                return
            if isinstance(error, BrokenExecutor):
                self._renew(what.executor)
            self._submit(_Submitted(what.chain, self._executor, attempt, progress))

    def _fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self._stop.asked = True

    def _renew(self, broken: Executor) -> bool:
        """Replace a pool that has broken, unless that is done already; false where it can't be."""
        if broken is not self._executor:
            return True
        if not isinstance(broken, ProcessPoolExecutor):
            return False
        if self._own is not None:
            self._own.shutdown(wait=False)
        self._executor = self._own = _like(broken)
        return True

    def _lost(self, what: str, error: BaseException | None) -> RunError:
        name = "a worker stopped" if error is None else f"{type(error).__name__}: {error}"
        return RunError(
            f"{what} ({name}); what workers print says why. A script that starts processes needs "
            '`if __name__ == "__main__":`, and workers must be able to import its classes and '
            "functions. All that was saved is whole; go on with "
            f"tb.resume({str(self._store.path)!r})"
        )

    def _progress(self) -> int:
        return sum(map(self._store.transitions, range(self._task.plan.chains)))

    def _is_done(self, chain: int) -> bool:
        return self._task.plan.is_over(*self._store.progress(chain))

    def _is_locked(self, chain: int) -> bool:
        lock = self._store.chain_lock(chain)
        if not lock.file.exists():
            return False
        try:
            lock.acquire().release()  # removes what a killed worker has left
        except LockedError:
            return True
        return False


class _Display:
    """Progress as the reports of the chains tell it."""

    def __init__(self, bar: Bar, store: DirectoryStore, plan: Plan, reached: Sequence[int]) -> None:
        self._bar, self._store, self._plan = bar, store, plan
        self._reached = list(reached)
        self._divergences = [("", 0)] * plan.chains
        self._offset = store.new_reports(0)[1]
        for chain in reversed(range(plan.chains)):  # of many rows, those set last are shown
            phase = "done" if reached[chain] >= plan.transitions else "waiting"
            bar.row(chain, {"chain": str(chain), "phase": phase})

    def update(self) -> None:
        """Show what was reported since the last look."""
        reports, self._offset = self._store.new_reports(self._offset)
        for report in reports:
            self._show(report)

    def _show(self, report: dict[str, Any]) -> None:
        chain, epoch, phase = report["chain"], report["epoch"], report["phase"]
        new = epoch - self._reached[chain]
        if new <= 0:  # reported again by a chain that was taken up again
            return
        self._reached[chain] = epoch
        before, count = self._divergences[chain]
        count = report["divergences"] + (count if before == phase else 0)
        self._divergences[chain] = phase, count
        end = self._plan.transitions
        shown = report | {"phase": "done" if epoch == end else phase, "divergences": count}
        self._bar.describe("sampling")
        self._bar.row(chain, cells(shown))
        done = sum(each >= end for each in self._reached)
        note = f"{done} of {self._plan.chains} chains done"
        work = None if report["leapfrog_steps"] is None else new * report["leapfrog_steps"]
        self._bar.advance(new, note, work=work, growing=phase == "burn-in")


def _error(future: Future[list[str]]) -> BaseException | None:
    try:
        return future.exception()
    except concurrent.futures.CancelledError as error:
        return error


def _is_of_executor(error: BaseException) -> bool:
    """Whether a task failed because its worker was lost, and not by itself."""
    lost = (BrokenExecutor, concurrent.futures.CancelledError, asyncio.CancelledError, LockedError)
    return isinstance(error, lost) or type(error).__module__.startswith("distributed.")


def _is_dask(executor: Executor) -> bool:
    return type(executor).__module__.startswith("distributed.")


def _start_method(pool: Any) -> str:
    return str(pool._mp_context.get_start_method())


def _like(pool: Any) -> ProcessPoolExecutor:
    """A pool with the same number of processes, made in the same way."""
    return ProcessPoolExecutor(
        pool._max_workers,
        mp_context=pool._mp_context,
        initializer=pool._initializer,
        initargs=pool._initargs,
        max_tasks_per_child=pool._max_tasks_per_child,
    )


def _pickler(executor: Executor) -> Callable[[Any], bytes]:
    if not _is_dask(executor):
        return pickle.dumps
    import cloudpickle  # which Dask uses, so it is there

    return cloudpickle.dumps
