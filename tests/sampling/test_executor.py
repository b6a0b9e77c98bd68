"""Chains as tasks of an executor have the bits of a run without one, even if workers die."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import tensorbnn as tb
from tensorbnn.errors import DamagedFileError, LockedError
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.sampling.restore import restore_run
from tensorbnn.sampling.worker import make_task, run_chain
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import read_manifest
from tensorbnn.warning import OtherVersion
from tests.sampled import sample_run

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 9)
Y = np.sin(2 * X)


@dataclass(frozen=True)
class Squash(tb.Layer):
    """A layer of the user's own, which workers know only because it is sent to them."""

    def apply(self, parameters, h):
        return jnp.tanh(h)


@dataclass(frozen=True)
class Mishap:
    """A metric that sends each of some signals once, the next one from a worker that is new.

    It does so at the worker's third report; `folder` keeps which have been sent.
    """

    folder: str = ""
    signals: tuple[int, ...] = ()
    to_coordinator: bool = False
    coordinator: int = os.getpid()
    name: ClassVar[str] = "mishap"

    def __call__(self, predictions, targets):
        if not self.signals or os.getpid() == self.coordinator:
            return 0.0
        CALLS.setdefault(self.folder, []).append(self.sent())
        number = CALLS[self.folder][0]
        # There are two calls a report, one for the training data and one for the others.
        if len(CALLS[self.folder]) >= 6 and number == self.sent() < len(self.signals):
            (Path(self.folder) / f"sent-{number}").touch()
            os.kill(self.coordinator if self.to_coordinator else os.getpid(), self.signals[number])
            deadline = time.monotonic() + 120
            while self.to_coordinator and not (Path(self.folder) / "run/stop").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        return 0.0

    def sent(self):
        return len(list(Path(self.folder).glob("sent-*")))


CALLS = {}  # of this process
CUSTOM = {"Squash": Squash}
SAMPLER = tb.HMC(max_steps=20)
# 29 transitions and 8 reports of each chain.
PLAN = {"chains": 2, "burn_in": 14, "draws": 5, "thin": 3, "networks_per_file": 2}
TRANSITIONS, REPORTS = 29, 8


def posterior():
    network = tb.Network(tb.Dense(3), Squash(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y)


def draw(path, executor=None, *, mishap=None, **options):
    given = {
        "path": path,
        "executor": executor,
        "report_every": 4,
        "metrics": [tb.MeanSquaredError(), Mishap() if mishap is None else mishap],
        "validation": (X / 2, Y / 2),
        "checkpoint_seconds": 1e-9,
        "progress": False,
    }
    return sample_run(posterior(), SAMPLER, **(PLAN | given | options))


def go_on(path, executor=None, **options):
    given = {"custom_objects": CUSTOM, "metrics": [Mishap()], "progress": False}
    return tb.resume(path, executor=executor, **(given | options))


def contents(path):
    """The arrays in each file of the chains; the description of the run names the executor."""
    return {
        file.relative_to(path).as_posix(): {n: a.tobytes() for n, a in load_file(file).items()}
        for file in path.glob("chain-*/*.safetensors")
    }


def numbers(path):
    reports = tb.load(path, custom_objects=CUSTOM).reports
    return [{name: each for name, each in r.items() if name != "seconds"} for r in reports]


def assert_same(path, reference):
    assert contents(path) == contents(reference)
    assert numbers(path) == numbers(reference)
    # Chains of an executor never pool; the burn-in of the reference is too short for that.
    apart = {"created": "", "pooled": None}
    mine, other = (read_manifest(each) | apart for each in (path, reference))
    assert mine == other
    assert not (path / "stop").exists()
    assert not (path / "run.lock").exists()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    draw(path)
    return path


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class Serial(Executor):
    """Runs a task while it is submitted."""

    def submit(self, function, /, *arguments, **options):
        future = Future()
        future.set_result(function(*arguments, **options))
        return future


# The same bits.


@pytest.mark.parametrize("executor", [Serial(), ThreadPoolExecutor(1), ThreadPoolExecutor(3)])
def test_threads(reference, tmp_path, executor, capsys):
    with executor:
        draw(tmp_path / "run", executor, progress=True)
    assert_same(tmp_path / "run", reference)
    total = 2 * TRANSITIONS
    assert f"sampling 100 %, {total} of {total}, 2 of 2 chains done" in capsys.readouterr().err


def test_processes_that_are_sent_the_data(reference, tmp_path, pool):
    draw(tmp_path / "run", pool, store_data=False)
    assert_same(tmp_path / "run", reference)


def test_dask(reference, tmp_path, dask):
    """A run that is made longer, with a metric that only Dask can send."""
    draw(tmp_path / "run", draws=2)
    mishap = lambda predictions, targets: 0.0  # noqa: E731
    mishap.name = "mishap"
    go_on(tmp_path / "run", dask.get_executor(), draws=5, metrics=[mishap])
    assert_same(tmp_path / "run", reference)


def open_task(path):
    """A locked run that continues to five draws, and the message to its workers."""
    store = DirectoryStore.open_to_write(path)
    run = restore_run(store, draws=5, custom_objects=CUSTOM, metrics=[Mishap()])
    return store, make_task(run, store)


def test_a_complete_chain_is_left_as_it_is(reference, tmp_path):
    path = tmp_path / "run"
    draw(path, draws=2)
    store, task = open_task(path)
    for _ in range(2):
        run_chain(task, 1)
        before = contents(path)
    assert contents(path) == before
    store.close()
    with ThreadPoolExecutor(1) as executor:
        go_on(path, executor, draws=5)
    assert_same(path, reference)


# Stopping.


@pytest.fixture
def interruptible():
    """In the background of a shell, interrupts are ignored unless a handler is set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", ["pool", "dask"])
def test_ctrl_c_where_the_run_was_started(reference, tmp_path, capsys, request, kind):
    executor, path = request.getfixturevalue(kind), tmp_path / "run"
    executor = executor if kind == "pool" else executor.get_executor()
    mishap = Mishap(str(tmp_path), (signal.SIGINT,), to_coordinator=True)
    with pytest.raises(KeyboardInterrupt):
        draw(path, executor, mishap=mishap)
    message = capsys.readouterr().err
    assert "of 5 draws of each chain, which are saved; continue with tb.resume" in message
    assert read_manifest(path)["status"] == "interrupted"
    assert any(12 <= DirectoryStore(path).transitions(chain) < TRANSITIONS for chain in range(2))
    assert not list(path.rglob("*.lock"))
    go_on(path)
    assert_same(path, reference)


SCRIPT = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import tensorbnn as tb

def main():
    x = np.linspace(-1, 1, 9)
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), x, np.sin(2 * x))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        options = {"path": sys.argv[1], "executor": executor, "progress": False}
        if os.path.exists(sys.argv[1]):
            tb.resume(options.pop("path"), **options)
        else:
            tb.sample(posterior, chains=2, burn_in=20, draws=10**8, **options)

if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
"""


def test_signals_to_all_processes_and_the_end_of_the_first(tmp_path):
    """A batch system's SIGTERM, Ctrl-C in a terminal, and a kill of the coordinator alone."""
    path, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT)
    for number, status in [(signal.SIGTERM, 143), (signal.SIGINT, -2), (signal.SIGKILL, -9)]:
        before = DirectoryStore(path).transitions(0) if path.exists() else 0
        process = subprocess.Popen(
            [sys.executable, str(script), str(path)],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        until(lambda: (path / "run.json").exists())
        until(lambda before=before: DirectoryStore(path).transitions(0) > before)
        worker = DirectoryStore(path).chain_lock(0).holder()["pid"]
        (os.kill if number == signal.SIGKILL else os.killpg)(process.pid, number)
        _, error = process.communicate(timeout=120)
        assert process.returncode == status, error
        until(lambda: not (path / "chain-00/chain.lock").exists())
        until(lambda worker=worker: not Path(f"/proc/{worker}").exists())
        if number != signal.SIGKILL:
            assert "stopped after 0 of 100,000,000 draws of each chain" in error
            assert error.count("Traceback") == (number == signal.SIGINT)  # and none of a worker
            assert read_manifest(path)["status"] == "interrupted"
    DirectoryStore.open_to_write(path).close()


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_metric_that_fails_stops_the_run_and_names_the_chain(reference, tmp_path):
    calls, path = [], tmp_path / "run"

    def mishap(predictions, targets):
        calls.append(1)
        if len(calls) == 9:
            raise ValueError("no good")
        return 0.0

    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(RuntimeError, match="16 of chain 0: ValueError: no good") as caught,
    ):
        draw(path, executor, mishap=mishap)
    assert caught.value.__notes__ == [f"in chain 0 of the run {path}"]
    assert read_manifest(path)["status"] == "interrupted"
    assert [DirectoryStore(path).transitions(chain) for chain in range(2)] == [16, 0]
    go_on(path)
    assert_same(path, reference)


def test_one_coordinator_at_a_time(reference, tmp_path):
    path, release = tmp_path / "run", threading.Event()

    def mishap(predictions, targets):
        if threading.current_thread().name != "first":
            assert release.wait(120)
        return 0.0

    with ThreadPoolExecutor(2) as executor:
        first = threading.Thread(
            target=draw, args=(path, executor), kwargs={"mishap": mishap}, name="first"
        )
        first.start()
        while not list(path.glob("chain-*/chain.lock")):
            time.sleep(0.01)
        for options in ({}, {"executor": executor}):
            with pytest.raises(LockedError):
                go_on(path, **options)
        release.set()
        first.join()
    assert_same(path, reference)


def test_workers_that_outlive_their_coordinator_are_not_disturbed(reference, tmp_path):
    path = tmp_path / "run"
    draw(path, draws=2)
    with (
        DirectoryStore(path).chain_lock(1),
        pytest.raises(LockedError),
    ):
        go_on(path, draws=5)
    with (
        DirectoryStore(path).chain_lock(1),
        pytest.raises(LockedError),
    ):
        draw(path, overwrite=True)
    go_on(path, draws=5)
    assert_same(path, reference)


# Workers that die.


def lines(path):
    return (path / "metrics.jsonl").read_bytes().splitlines()


def test_processes_that_die_half_way(reference, tmp_path, pool):
    """If one of them dies the pool breaks: another pool replaces it, and chains continue."""
    mishap = Mishap(str(tmp_path), (signal.SIGKILL, signal.SIGTERM))
    draw(tmp_path / "run", pool, mishap=mishap)
    assert mishap.sent() == 2
    assert_same(tmp_path / "run", reference)
    # A chain that had started over would have reported again.
    assert len(lines(tmp_path / "run")) <= 2 * REPORTS + 1


def test_a_dask_worker_that_is_killed_half_way(reference, tmp_path, dask):
    mishap = Mishap(str(tmp_path), (signal.SIGKILL,))
    before = set(dask.run(os.getpid).values())
    draw(tmp_path / "run", dask.get_executor(), mishap=mishap)
    assert mishap.sent() == 1
    assert_same(tmp_path / "run", reference)
    assert len(lines(tmp_path / "run")) <= 2 * REPORTS + 1
    dask.wait_for_workers(2, timeout=120)
    assert set(dask.run(os.getpid).values()) != before


class Lossy(Executor):
    """Loses the tasks it is given, and in the end breaks."""

    def __init__(self, most):
        self.submitted, self.most = 0, most

    def submit(self, function, /, *arguments, **options):
        if self.submitted == self.most:
            raise BrokenExecutor("gone")
        self.submitted += 1
        future = Future()
        future.set_exception(BrokenExecutor("a worker was lost"))
        return future


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (6, r"workers were lost 3 times while no chain got further \(BrokenExecutor: a worker"),
        (3, r"`executor` is broken \(BrokenExecutor: gone\).*workers must be able to import"),
        (
            0,
            r"`executor` is broken \(BrokenExecutor: gone\).*is whole; continue with tb.resume",
        ),
    ],
)
def test_workers_that_are_lost_again_and_again(reference, tmp_path, most, message):
    executor, path = Lossy(most), tmp_path / "run"
    with pytest.raises(tb.RunError, match=message):
        draw(path, executor)
    assert executor.submitted == most
    assert read_manifest(path)["status"] == "interrupted"
    go_on(path)
    assert_same(path, reference)


class Choosy(ThreadPoolExecutor):
    """Accepts one chain, and no other."""

    def __init__(self):
        super().__init__(1)
        self.submitted = 0

    def submit(self, function, /, *arguments, **options):
        self.submitted += 1
        if self.submitted > 1:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(function, *arguments, **options)


def test_an_executor_that_accepts_no_more_chains(reference, tmp_path):
    path = tmp_path / "run"
    with Choosy() as executor:
        message = r"takes no chain \(RuntimeError: cannot schedule .*\).*continue with tb.resume"
        with pytest.raises(tb.RunError, match=message):
            draw(path, executor)
        assert executor.submitted == 2
        # The chain that it accepted has stopped by then.
        assert not list(path.glob("chain-*/chain.lock"))
    assert read_manifest(path)["status"] == "interrupted"
    go_on(path)
    assert_same(path, reference)


class Forgetful(Serial):
    """Reports every second task as cancelled, or with another given error."""

    def __init__(self, error):
        self.count, self.error = 0, error

    def submit(self, function, /, *arguments, **options):
        self.count += 1
        if self.count % 2:
            future = Future()
            if self.error is None:
                future.cancel()
                future.set_running_or_notify_cancel()
            else:
                future.set_exception(self.error)
            return future
        return super().submit(function, *arguments, **options)


@pytest.mark.parametrize("kind", ["cancelled", "KilledWorker"])
def test_tasks_that_the_executor_gave_up_are_submitted_again(reference, tmp_path, kind):
    error = None
    if kind != "cancelled":
        scheduler = pytest.importorskip("distributed.scheduler")
        error = scheduler.KilledWorker("task", scheduler.WorkerState, 3)
    draw(tmp_path / "run", Forgetful(error))
    assert_same(tmp_path / "run", reference)


# Refusals.


def test_what_is_refused(tmp_path, reference):
    threads, fork = ThreadPoolExecutor(1), multiprocessing.get_context("fork")
    with pytest.raises(ValueError, match="`executor` needs `path`"):
        draw(None, threads)
    for run in (draw, go_on):
        path = tmp_path / "run" if run is draw else reference
        with pytest.raises(TypeError, match=r"must be a concurrent.futures.Executor.*got 4"):
            run(path, 4)
        with pytest.raises(ValueError, match=r"started by `fork`.*get_context\(\"spawn\"\)"):
            run(path, ProcessPoolExecutor(2, fork))
    assert not (tmp_path / "run").exists()


def test_what_can_not_be_sent_is_named(tmp_path):
    @dataclass(frozen=True)
    class Local(tb.Layer):
        def apply(self, parameters, h):
            return h

    processes = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    path = tmp_path / "run"
    message = r"the metric `<lambda>` can't be sent.*at the top of a module"
    with pytest.raises(ValueError, match=message):
        draw(path, processes, mishap=lambda predictions, targets: 0.0)
    network = tb.Network(tb.Dense(1), Local(), inputs=1)
    target = tb.Posterior(network, tb.Gaussian(), X, Y)
    with pytest.raises(ValueError, match="the network can't be sent to the workers"):
        tb.sample(target, path=path, executor=processes, progress=False)
    assert not path.exists()
    processes.shutdown()


@pytest.fixture
def begun(tmp_path):
    """A locked run, and the message to its workers."""
    path = tmp_path / "run"
    draw(path, draws=2)
    store, task = open_task(path)
    yield store, task
    store.close()


def test_a_worker_checks_what_it_finds(begun, tmp_path):
    store, task = begun
    before = contents(store.path)
    for changes, message in [
        ({"path": tmp_path / "nowhere"}, "must be a directory that all workers share"),
        ({"coordinator": {"pid": 1}}, "share; or whoever started the chain is gone"),
        ({"versions": {"jax": "0.1"}}, "the run was started with {'jax': '0.1'}: install the same"),
        ({"data": {"x": X, "y": X}}, "does not hold the data of this run"),
    ]:
        with pytest.raises(tb.RunError, match=message):
            run_chain(task._replace(**changes), 0)
    store.stop_file.touch()
    run_chain(task, 0)
    assert contents(store.path) == before


def test_a_worker_waits_for_the_previous_one(begun):
    store, task = begun
    with store.chain_lock(0) as lock:
        thread = threading.Thread(target=run_chain, args=(task, 0))
        thread.start()
        time.sleep(0.3)
        assert store.transitions(0) == 20
        lock.release()
        thread.join()
    assert store.transitions(0) == TRANSITIONS
    with store.chain_lock(1), pytest.raises(LockedError):
        run_chain(task._replace(patience_seconds=0.0), 1)


def test_errors_of_workers_are_returned(begun, monkeypatch):
    class LocalError(Exception):
        """Can't be pickled."""

    def fail(group):
        raise LocalError("bad luck")

    monkeypatch.setattr(ChainGroup, "after_call", fail)
    with pytest.raises(RuntimeError, match="LocalError: bad luck"):
        run_chain(begun[1], 0)
    error = pickle.loads(pickle.dumps(DamagedFileError(Path("a"), "is damaged")))
    assert str(error) == "a is damaged"


def test_warnings_of_workers_are_issued_once(tmp_path):
    """Workers return their warnings: both chains run on a machine that differs."""
    path = tmp_path / "run"
    draw(path, draws=2)
    store = DirectoryStore.open_to_write(path)
    store.update(instruction_set="another")
    store.close()
    with ThreadPoolExecutor(2) as pool, pytest.warns(OtherVersion) as told:
        go_on(path, pool, draws=3, posterior=posterior())
    assert [each.message.then for each in told] == ["another"]
    assert told[0].filename == __file__
