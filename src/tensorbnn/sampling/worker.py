"""What a worker of an executor does: run one chain of a run directory from where it was last saved.

Model, sampler and metrics come pickled from whoever started the run, the rest from the directory,
of which nothing is executed. A worker holds the lock of its chain. It may die at any time and its
chain be run again by another one, or be given twice: the files come out the same. How far a chain
came is on the disk, so only warnings are returned.
"""

import contextlib
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

from tensorbnn import warning
from tensorbnn.data import pack_dataset, unpack_dataset
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.sampling.chains import Pace
from tensorbnn.sampling.interrupt import Stop
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.recipe import (
    Recipe,
    make_posterior,
    make_reporting,
    read_checkpoints,
    versions,
)
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import Arrays, RunError
from tensorbnn.storage.lock import HEARTBEAT_SECONDS, STALE_SECONDS, Lock, LockedError

# For how long a worker waits for the one before it, which may be saving its last draws, or be dead
# without the file system knowing it.
_PATIENCE_SECONDS = STALE_SECONDS + 2 * HEARTBEAT_SECONDS


class ChainTask(NamedTuple):
    """What the workers of a run are told."""

    path: Path
    coordinator: dict[str, Any] | None
    """Who holds the lock of the run."""
    versions: dict[str, str]
    network: Network
    likelihood: Likelihood
    sampler: Sampler
    metrics: Mapping[str, Metric]
    plan: Plan
    pace: Pace
    data: Arrays | None
    """The data, where the run directory does not keep them."""


def make_task(recipe: Recipe, store: DirectoryStore) -> ChainTask:
    """What workers are told of a run that is locked."""
    posterior, rows = recipe.posterior, recipe.reporting.rows
    data: dict[str, Any] = {}
    if store.data() is None:
        validation = pack_dataset(rows.get("validation"), "validation_")
        data = pack_dataset(posterior.dataset) | validation
    return ChainTask(
        path=store.root,
        coordinator=store.writer(),
        versions=versions(),
        network=posterior.network,
        likelihood=posterior.likelihood,
        sampler=recipe.sampler,
        metrics=dict(recipe.reporting.metrics),
        plan=recipe.plan,
        pace=recipe.pace,
        data=data or None,
    )


def run_chain(task: ChainTask, chain: int) -> list[str]:
    """Run one chain to its end, or until it is asked to stop; it is saved in any case.

    What there is to warn of is returned: a worker has nobody to tell it.

    SIGTERM, where a worker can handle it, ends the worker when the chain is saved. So does the end
    of the process whose pool it belongs to.
    """
    try:
        with _without_ctrl_c(), warning.kept() as warnings:
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
    # A file system that fails for a moment asks for nothing.
    stop = Stop(also=lambda: os.path.exists(store.stop_file) or is_abandoned())
    lock = _lock_patiently(store.chain_lock(chain), stop)
    if lock is None:
        return None
    with lock:
        _check_coordinator(task, store)
        if stop.asked or task.plan.is_over(*store.progress(chain)):
            return None
        store.remove_leftovers(chain)
        recipe = _make_recipe(task, store)
        outcome = recipe.run(store, read_checkpoints(store, recipe, [chain]), stop=stop)
    return signal.SIGTERM if is_abandoned() else outcome.signal


def _open(task: ChainTask) -> DirectoryStore:
    if task.versions != versions():
        raise RunError(
            f"the worker on {socket.gethostname()} has {versions()}, but the run was started with "
            f"{task.versions}: install the same versions, or the chains would not be the same"
        )
    try:
        return DirectoryStore(task.path)
    except FileNotFoundError as error:
        raise RunError(_not_shared(task)) from error


def _check_coordinator(task: ChainTask, store: DirectoryStore) -> None:
    """Raise where this is a task of a run that is gone, or another directory of the same name."""
    if store.writer() != task.coordinator:
        raise RunError(
            f"{_not_shared(task)}; or whoever started the chain is gone, then go on with tb.resume"
        )


def _not_shared(task: ChainTask) -> str:
    return (
        f"{task.path}, as the worker on {socket.gethostname()} sees it, is not the run that was "
        "started: `path` must be a directory that all workers share"
    )


def _lock_patiently(lock: Lock, stop: Stop) -> Lock | None:
    """The lock of a chain, or ``None`` where chains are to stop."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not stop.asked:
        try:
            return lock.acquire()
        except LockedError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
    return None


def _make_recipe(task: ChainTask, store: DirectoryStore) -> Recipe:
    data = store.data() if task.data is None else task.data
    posterior = make_posterior(store, task.network, task.likelihood, data)
    validation = unpack_dataset(data, "validation_") if task.metrics else None
    reporting = make_reporting(posterior, task.metrics, validation, store.manifest["report_every"])
    return Recipe(posterior, task.sampler, task.plan, reporting, task.pace)


def _is_child() -> bool:
    """Whether this is the main thread of a process of a pool."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and multiprocessing.parent_process() is not None


def _is_abandoned() -> bool:
    """Whether the process that made this one is gone: then nobody will resume its chains."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ctrl-C comes to all processes of a terminal; a pool's are stopped by whoever started them."""
    if not _is_child():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _portable(error: Exception) -> Exception:
    """An error that can be sent, as it is if possible."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
