"""One writer at a time; a lock ends with its holder, even if the file system has no locks."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import tensorbnn as tb
from tensorbnn.storage import lock as lock_module
from tensorbnn.storage.lock import Lock

HOLD = (
    "import sys; from pathlib import Path; from tensorbnn.storage.lock import Lock\n"
    "Lock(Path(sys.argv[1]), 'it').acquire(); print('held', flush=True); sys.stdin.read()"
)

# No process has this number, but a signal to it would go to all of them.
NOBODY = json.dumps({"host": socket.gethostname(), "pid": -1, "started": None, "since": "now"})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.lock"


@pytest.fixture
def without_locks(monkeypatch):
    def unsupported(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)


def hold_in_another_process(file):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_writer_gets_an_error_that_names_the_first(file):
    with Lock(file, "the run x"):
        message = rf"the run x is being written by process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(tb.RunError, match=message):
            Lock(file, "the run x").acquire()
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert not file.exists()
    with Lock(file, "the run x"):
        assert file.exists()


def test_ctrl_c_during_release_leaves_the_lock_free(file, monkeypatch):
    def interrupted(file):
        raise KeyboardInterrupt

    lock = Lock(file, "it").acquire()
    monkeypatch.setattr(lock_module, "_remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    monkeypatch.undo()
    with Lock(file, "it"):
        assert file.exists()


@pytest.mark.parametrize("locks", [True, False])
def test_a_lock_ends_with_its_process(file, locks, request):
    process = hold_in_another_process(file)
    try:
        if not locks:
            request.getfixturevalue("without_locks")
        with pytest.raises(tb.RunError, match=f"written by process {process.pid} on .*, since 2"):
            Lock(file, "it").acquire()
    finally:
        end(process)
    assert file.exists()
    with Lock(file, "it"):
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert not file.exists()


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_second_writer_is_refused_too(file):
    with Lock(file, "it"), pytest.raises(tb.RunError, match="it is being written by process"):
        Lock(file, "it").acquire()
    assert not file.exists()


@pytest.mark.usefixtures("without_locks")
def test_a_reused_pid_is_not_the_holder(file):
    with Lock(file, "it"):
        holder = json.loads(file.read_text())
    if holder["started"] is None:
        pytest.skip("the start of processes is not known here")
    file.write_text(json.dumps(holder | {"started": holder["started"] - 1}))
    with Lock(file, "it"):
        assert json.loads(file.read_text())["started"] == holder["started"]


@pytest.mark.usefixtures("without_locks")
def test_a_holder_on_another_machine_is_gone_after_a_while_without_a_heartbeat(file, monkeypatch):
    with Lock(file, "it"):
        holder = json.loads(file.read_text())
    file.write_text(json.dumps(holder | {"host": "elsewhere"}))
    with pytest.raises(tb.RunError, match="on elsewhere, since"):
        Lock(file, "it").acquire()
    long_ago = time.time() - lock_module.STALE_SECONDS - 10
    os.utime(file, (long_ago, long_ago))
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.01)
    with Lock(file, "it"):
        os.utime(file, (long_ago, long_ago))
        deadline = time.monotonic() + 10
        while file.stat().st_mtime < long_ago + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert file.stat().st_mtime > long_ago + 1
    assert not list(file.parent.iterdir())


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("content", ["", "not JSON", "[1]", '{"pid": "x"}', "[" * 9000, NOBODY])
def test_a_lock_without_a_holder_counts_while_it_is_fresh(file, content):
    file.write_text(content)
    with pytest.raises(tb.RunError, match="it is being written by another process"):
        Lock(file, "it").acquire()
    os.utime(file, (0, 0))
    with Lock(file, "it"):
        pass


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(tb.RunError, match=r"run.lock can't be written, so it can't be either"):
        Lock(tmp_path / "nowhere" / "run.lock", "it").acquire()


def test_a_leftover_file_is_not_a_lock(file):
    file.write_text("of a process that was killed")
    with Lock(file, "it"):
        pass


@pytest.mark.usefixtures("without_locks")
def test_a_clock_that_is_ahead_does_not_end_the_lock_of_another_machine(file, monkeypatch):
    with Lock(file, "it"):
        holder = json.loads(file.read_text())
    content = json.dumps(holder | {"host": "elsewhere"})
    file.write_text(content)
    now = time.time()
    monkeypatch.setattr(lock_module.time, "time", lambda: now + 3600.0)
    with pytest.raises(tb.RunError, match="on elsewhere, since"):
        Lock(file, "it").acquire()
    assert file.read_text() == content
    assert [each.name for each in file.parent.iterdir()] == [file.name]


FORK = (
    "import os, signal, sys, time, warnings; from pathlib import Path\n"
    "warnings.simplefilter('ignore'); from tensorbnn.storage.lock import Lock\n"
    "lock = Lock(Path(sys.argv[1]), 'it').acquire(); child = os.fork()\n"
    "if child == 0:\n"
    "    lock.release(); print(os.getpid(), flush=True); time.sleep(600)\n"
    "time.sleep(600)"
)


def test_a_forked_process_does_not_keep_a_lock(file):
    holder = subprocess.Popen(
        [sys.executable, "-c", FORK, str(file)], stdout=subprocess.PIPE, text=True
    )
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(tb.RunError, match=f"written by process {holder.pid} on"):
            Lock(file, "it").acquire()
        holder.kill()
        holder.wait()
        with Lock(file, "it"):
            assert json.loads(file.read_text())["pid"] == os.getpid()
    finally:
        holder.kill()
        os.kill(child, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
