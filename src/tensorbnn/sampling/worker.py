"""The task of a worker of an executor: run one chain of a run directory from its saved state.

The process that started the run pickles model, sampler and metrics. Everything else comes from the
directory, and nothing in it is executed. A worker holds the lock of its chain. If it dies, or a
chain is submitted twice, another worker runs the chain again and writes the same files. Progress is
on disk, so only warnings are returned.
"""

import contextlib
import math
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tensorbnn.data import pack_dataset, unpack_dataset
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.errors import LockedError, NotSharedError, RunError
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.progress import Bar
from tensorbnn.sampling.interrupt import StopRequest, catch_signals
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.restore import make_posterior, read_checkpoints, versions
from tensorbnn.sampling.run import Run
from tensorbnn.sampling.stopping import StoppingRule
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import Arrays
from tensorbnn.storage.lock import HEARTBEAT_SECONDS, STALE_SECONDS, Lock
from tensorbnn.warning import collect_warnings


class ChainTask(NamedTuple):
    """What the workers of a run need to know."""

    path: Path
    coordinator: dict[str, Any] | None
    """The holder of the lock of the run."""
    versions: dict[str, str]
    network: Network
    likelihood: Likelihood
    sampler: Sampler
    metrics: Mapping[str, Metric]
    plan: Plan
    max_gradients: int | None
    seconds: float
    """Until the time limit, from when the task is submitted."""
    checkpoint_seconds: float
    data: Arrays | None
    """The data, if the run directory does not keep them."""
    patience_seconds: float = STALE_SECONDS + 2 * HEARTBEAT_SECONDS
    """Seconds to wait for the previous worker of the chain, which may be saving its last draws, or
    may have died without the file system noticing."""


def make_task(run: Run, store: DirectoryStore) -> ChainTask:
    """What workers need to know of a run that is locked."""
    posterior, rows = run.posterior, run.reporting.rows
    data: dict[str, Any] = {}
    if posterior.x is not None and store.data() is None:
        data = pack_dataset(posterior.data)
        if "validation" in rows:
            data |= pack_dataset(rows["validation"], "validation_")
    return ChainTask(
        path=store.root,
        coordinator=store.writer(),
        versions=versions(),
        network=posterior.network,
        likelihood=posterior.likelihood,
        sampler=run.sampler,
        metrics=dict(run.reporting.metrics),
        plan=run.plan,
        max_gradients=run.rule.max_gradients,
        seconds=math.inf,
        checkpoint_seconds=run.checkpoint_seconds,
        data=data or None,
    )


def run_chain(task: ChainTask, chain: int) -> list[Warning]:
    """Run one chain to its end, or until it is asked to stop; it is saved in any case.

    Returns warnings, which the process that started the run shows to the user.

    SIGTERM, if a worker can handle it, ends the worker after the chain is saved. So does the end of
    the process that owns its pool.
    """
    try:
        with _without_ctrl_c(), collect_warnings() as warnings:
            received = _run(task, chain)
    except Exception as error:
        portable = _portable(error)
        if portable is error:
            raise
        raise portable from error
    if received is not None:
        signal.raise_signal(received)
    return warnings


def _run(task: ChainTask, chain: int) -> int | None:
    store = _open(task)
    is_abandoned = _is_abandoned if _is_child() else lambda: False
    # A file system that fails for a moment is no request to stop.
    deadline = None if math.isinf(task.seconds) else time.monotonic() + task.seconds
    stop = StopRequest(lambda: os.path.exists(store.stop_file) or is_abandoned(), deadline)
    lock = _lock_patiently(store.chain_lock(chain), task.patience_seconds, stop)
    if lock is None:
        return None
    with lock:
        if store.writer() != task.coordinator:  # a run that is gone, or another of the same name
            raise NotSharedError(task.path, socket.gethostname(), is_run=True)
        run = _restore(task, store, deadline)
        if stop.requested or run.is_over(*store.progress(chain)):
            return None
        store.remove_leftovers(chain)
        backend = LocalBackend(read_checkpoints(run, store, [chain]))
        with catch_signals(stop):
            backend.advance(run, stop, Bar("", run.plan.transitions, show=False))
    return signal.SIGTERM if is_abandoned() else stop.signal


def _open(task: ChainTask) -> DirectoryStore:
    if task.versions != versions():
        raise RunError(
            f"the worker on {socket.gethostname()} has {versions()}, but the run was started with "
            f"{task.versions}: install the same versions, or the chains would not be the same"
        )
    try:
        return DirectoryStore(task.path)
    except FileNotFoundError as error:
        raise NotSharedError(task.path, socket.gethostname()) from error


def _restore(task: ChainTask, store: DirectoryStore, deadline: float | None) -> Run:
    data = store.data() if task.data is None else task.data
    posterior = make_posterior(store, task.network, task.likelihood, data)
    validation = unpack_dataset(data, "validation_") if task.metrics else None
    reporting = Reporting.checked(
        posterior, task.metrics, validation, store.manifest["report_every"]
    )
    rule = StoppingRule(max_gradients=task.max_gradients, deadline=deadline)
    run = Run(posterior, task.sampler, task.plan, rule, reporting, task.checkpoint_seconds)
    run.store = store
    return run


def _lock_patiently(lock: Lock, seconds: float, stop: StopRequest) -> Lock | None:
    """The lock of a chain, or ``None`` if chains should stop."""
    deadline = time.monotonic() + seconds
    while not stop.requested:
        try:
            return lock.acquire()
        except LockedError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
    return None


def _is_child() -> bool:
    """Whether this is the main thread of a process of a pool."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and multiprocessing.parent_process() is not None


def _is_abandoned() -> bool:
    """Whether the process that made this one is gone, and with it the run."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C in processes of a pool; a terminal sends it to all of its processes."""
    if not _is_child():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _portable(error: Exception) -> Exception:
    """The error if it can be pickled, otherwise one that can."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
