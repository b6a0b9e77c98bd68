"""Run chains as tasks of an executor: submit, watch, resubmit, stop.

Each task runs one chain (`tensorbnn.sampling.worker`) and writes it to the run directory. The
process that started the run computes nothing; it reads the workers' progress from the directory. If
a worker is lost, its chain is submitted again and continues from where it was last saved.
"""

import asyncio
import concurrent.futures
import contextlib
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from typing import Any, ClassVar, NamedTuple, final

from tensorbnn.errors import ExecutorError, LockedError, OptionTypeError
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.sampling.burn_in import BurnInForecast, BurnInNetworks
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.interrupt import StopRequest
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.pooling import has_rounds_left
from tensorbnn.sampling.reporting import cells, show_first
from tensorbnn.sampling.restore import read_checkpoints
from tensorbnn.sampling.run import Backend, Run
from tensorbnn.sampling.stopping import Outcome
from tensorbnn.sampling.worker import ChainTask, make_task, run_chain
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import write_file
from tensorbnn.warning import warn

POLL_SECONDS = 0.5
# How often a chain is submitted while the run makes no progress.
ATTEMPTS = 3


def make_backend(executor: Executor | None, checkpoints: Sequence[Checkpoint]) -> Backend:
    """What advances the chains: `executor`, or this process."""
    local = LocalBackend(checkpoints)
    return local if executor is None else ExecutorBackend(executor, local)


def check_executor(executor: object) -> None:
    """Raise unless `executor` is ``None`` or can run chains."""
    if executor is None:
        return
    if not isinstance(executor, Executor):
        raise OptionTypeError(
            "executor",
            "a concurrent.futures.Executor, such as a ProcessPoolExecutor, or "
            "client.get_executor() of a Dask client",
            executor,
        )
    if isinstance(executor, ProcessPoolExecutor) and _start_method(executor) == "fork":
        raise ValueError(
            "the processes of `executor` are started by `fork`, which may hang since JAX uses "
            "threads: make it with "
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )


def check_sendable(executor: Executor | None, run: Run) -> None:
    """Raise if a part of a run can't be sent to the workers, before anything is started."""
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return
    posterior, dumps = run.posterior, pickle.dumps
    if _is_dask(executor):
        import cloudpickle  # a dependency of Dask

        dumps = cloudpickle.dumps
    parts = {
        "the network": posterior.network,
        "the likelihood": posterior.likelihood,
        "the sampler": run.sampler,
    } | {f"the metric `{name}`": metric for name, metric in run.reporting.metrics.items()}
    for name, part in parts.items():
        try:
            dumps(part)
        except Exception as error:
            raise ValueError(
                f"{name} can't be sent to the workers of `executor` ({error}): define its class or "
                "function at the top of a module that the workers can import, not inside a "
                "function and not as a lambda"
            ) from error


@final
class ExecutorBackend:
    """Runs each chain of a run directory as a task of an executor.

    If a run was begun without an executor, `local` completes the burn-in that chains do together.
    """

    doing: ClassVar[str] = "starting"

    def __init__(self, executor: Executor, local: LocalBackend) -> None:
        self._executor, self._local = executor, local

    @property
    def transitions(self) -> int:
        """Transitions of all chains together before this call."""
        return self._local.transitions

    def advance(self, run: Run, stop: StopRequest, bar: Bar) -> Outcome:
        """Run every chain to the end of the plan, or until `stop`."""
        store = run.store
        if not isinstance(store, DirectoryStore):
            raise TypeError("an executor needs a run directory")
        if any(has_rounds_left(at, run.plan) for at in self._local.checkpoints):
            reached = self._local.advance(run, stop, bar, until_pooled=True)
            if stop.requested:
                return reached
        with contextlib.closing(_Tasks(self._executor, run, store, stop)) as tasks:
            display, forecast = _Display(bar, store, run), BurnInForecast(run)
            tasks.submit()
            while tasks.are_running():
                tasks.wait(POLL_SECONDS)
                display.update()
                forecast.update(min(map(store.transitions, range(run.plan.chains))))
                if stop.requested:
                    tasks.stop()
            display.update()
        if stop.by_limit and not tasks.errors:
            self._keep_burn_in(run, store)
        for warning in tasks.warnings:
            warn(warning)
        if tasks.errors:
            raise tasks.errors[0]
        reached_by = [store.progress(chain) for chain in range(run.plan.chains)]
        least = min(transitions for transitions, _ in reached_by)
        return Outcome(
            draws=run.plan.drawn(least),
            complete=least >= run.plan.transitions,
            gradients=max(gradients for _, gradients in reached_by),
            transitions=least,
        )

    def _keep_burn_in(self, run: Run, store: DirectoryStore) -> None:
        """Keep the current networks of chains that have none: their workers could not keep any."""
        for chain in range(run.plan.chains):
            drawn = run.plan.drawn(store.transitions(chain))
            if not drawn and not store.read_burn_in(chain):
                (at,) = read_checkpoints(run, store, [chain])
                with precision(run.posterior.dtype):
                    BurnInNetworks(at).write(store, at, run)


class _Task(NamedTuple):
    """A chain that was submitted to an executor."""

    chain: int
    executor: Executor
    attempt: int
    """How often it was submitted while the run made no progress."""
    progress: int
    """Transitions of all chains when it was submitted."""


class _Tasks:
    """The submitted chains of a run, and their executor, which is replaced if it breaks."""

    def __init__(
        self, executor: Executor, run: Run, store: DirectoryStore, stop: StopRequest
    ) -> None:
        self._executor, self._run, self._store, self._stop = executor, run, store, stop
        self._chains = range(run.plan.chains)
        self._message: ChainTask = make_task(run, store)
        self._futures: dict[Future[list[Warning]], _Task] = {}
        self._own: ProcessPoolExecutor | None = None
        self._stopped = False
        self.errors: list[BaseException] = []
        """The errors that ended chains, and with them the run."""
        self.warnings: dict[Warning, None] = {}
        """The warnings of the workers, each once, in order."""

    def are_running(self) -> bool:
        """Whether a worker may still be writing."""
        return bool(self._futures) or any(map(self._is_locked, self._chains))

    def submit(self) -> None:
        """Submit all incomplete chains to the executor."""
        progress = self._progress()
        for chain in self._chains:
            if not self.errors and not self._is_done(chain):
                self._submit(_Task(chain, self._executor, 1, progress))

    def wait(self, seconds: float) -> None:
        """Wait until a chain ends, `seconds` at most, and handle those that have ended."""
        if not self._futures:  # a cancelled chain is still saving its state
            time.sleep(seconds)
        first = concurrent.futures.FIRST_COMPLETED
        for future in concurrent.futures.wait(self._futures, seconds, first).done:
            try:
                error = future.exception()
            except concurrent.futures.CancelledError as cancelled:
                error = cancelled
            if error is None:
                self.warnings |= dict.fromkeys(future.result())
            self._end(self._futures.pop(future), error)

    def stop(self) -> None:
        """Ask all workers to stop; cancel tasks that have not begun."""
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(OSError):  # a full disk stops them, too
            write_file(self._store.stop_file, b"")
        # Dask reports any task as cancelled; the lock of a chain shows whether it is running.
        self._futures = {each: of for each, of in self._futures.items() if not each.cancel()}

    def close(self) -> None:
        """Clean up; chains that are still running stop by themselves."""
        if self._futures:
            self.stop()
        if self._own is not None:
            self._own.shutdown(wait=not self._futures, cancel_futures=True)

    def _submit(self, task: _Task) -> None:
        # A task of Dask with the same arguments would be the same task, also if it has failed.
        options = {"pure": False} if _is_dask(self._executor) else {}
        try:
            message = self._message._replace(seconds=self._stop.seconds_left)
            future = self._executor.submit(run_chain, message, task.chain, **options)
        except BrokenExecutor as error:
            if self._renew(self._executor):
                self._submit(task)
            else:
                self._fail(self._lost("`executor` is broken", error))
        except Exception as error:  # submitted chains must stop and be saved
            reason = f"{type(error).__name__}: {error}"
            self._fail(ExecutorError(self._store.path, "", reason, refused=True))
        else:
            self._futures[future] = task._replace(executor=self._executor)

    def _end(self, task: _Task, error: BaseException | None) -> None:
        """Handle a chain whose task has ended: it is done, has failed, or continues elsewhere."""
        if error is not None and not _worker_was_lost(error):
            error.add_note(f"in chain {task.chain} of the run {self._store.path}")
            self._fail(error)
        elif not self._stop.requested and not self._is_done(task.chain):
            progress = self._progress()
            attempt = 1 if progress > task.progress else task.attempt + 1
            if attempt > ATTEMPTS:
                times = f"workers were lost {ATTEMPTS} times while no chain got further"
                self._fail(self._lost(times, error))
                return
            if isinstance(error, BrokenExecutor):
                self._renew(task.executor)
            self._submit(_Task(task.chain, self._executor, attempt, progress))

    def _fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self._stop.request()

    def _renew(self, broken: Executor) -> bool:
        """Replace a broken pool, unless that is done already; false if it can't be replaced."""
        if broken is not self._executor:
            return True
        new = _respawn(broken)
        if new is None:
            return False
        if self._own is not None:
            self._own.shutdown(wait=False)
        self._executor = self._own = new
        return True

    def _lost(self, what: str, error: BaseException | None) -> ExecutorError:
        reason = "a worker stopped" if error is None else f"{type(error).__name__}: {error}"
        return ExecutorError(self._store.path, what, reason)

    def _progress(self) -> int:
        return sum(map(self._store.transitions, self._chains))

    def _is_done(self, chain: int) -> bool:
        return self._run.is_over(*self._store.progress(chain))

    def _is_locked(self, chain: int) -> bool:
        lock = self._store.chain_lock(chain)
        if not lock.file.exists():
            return False
        try:
            lock.acquire().release()  # removes what a killed worker left behind
        except LockedError:
            return True
        return False


class _Display:
    """Progress according to the reports of the chains."""

    def __init__(self, bar: Bar, store: DirectoryStore, run: Run) -> None:
        self._bar, self._store, self._plan = bar, store, run.plan
        chains, end = run.plan.chains, run.plan.transitions
        self._reached = [store.transitions(chain) for chain in range(chains)]
        self._divergences = [("", 0)] * chains
        self._offset = store.new_reports(0)[1]
        show_first(bar, {chain: each >= end for chain, each in enumerate(self._reached)})

    def update(self) -> None:
        """Show what was reported since the last call."""
        reports, self._offset = self._store.new_reports(self._offset)
        for report in reports:
            self._show(report)

    def _show(self, report: dict[str, Any]) -> None:
        chain, transition, phase = report["chain"], report["transition"], report["phase"]
        new = transition - self._reached[chain]
        if new <= 0:  # reported again by a chain that was submitted again
            return
        self._reached[chain] = transition
        before, count = self._divergences[chain]
        count = report["divergences"] + (count if before == phase else 0)
        self._divergences[chain] = phase, count
        end = self._plan.transitions
        shown = report | {"phase": "done" if transition == end else phase, "divergences": count}
        self._bar.describe("sampling")
        self._bar.row(chain, cells(shown))
        done = sum(each >= end for each in self._reached)
        note = f"{done} of {self._plan.chains} chains done"
        work = None if report["num_gradients"] is None else new * report["num_gradients"]
        self._bar.advance(new, note, work=work, growing=phase == "burn-in")


def _worker_was_lost(error: BaseException) -> bool:
    """Whether a task failed because its worker was lost, not by an error of its own."""
    lost = (BrokenExecutor, concurrent.futures.CancelledError, asyncio.CancelledError, LockedError)
    return isinstance(error, lost) or type(error).__module__.startswith("distributed.")


def _is_dask(executor: Executor) -> bool:
    return type(executor).__module__.startswith("distributed.")


def _start_method(pool: Any) -> str:
    return str(pool._mp_context.get_start_method())


def _respawn(broken: Any) -> ProcessPoolExecutor | None:
    """A pool like one that has broken, or ``None``: Python has no public way to make one."""
    if not isinstance(broken, ProcessPoolExecutor):
        return None
    names = ("_max_workers", "_mp_context", "_initializer", "_initargs", "_max_tasks_per_child")
    if not all(hasattr(broken, name) for name in names):
        return None
    options = {name.lstrip("_"): getattr(broken, name) for name in names}
    return ProcessPoolExecutor(**options)
