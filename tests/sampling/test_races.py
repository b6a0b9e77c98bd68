"""Several processes at once: one writes, the others get an error; readers see complete states."""

import errno
import fcntl
import json
import os
import signal
import traceback

import pytest

import tensorbnn as tb
from tensorbnn.storage import creation as new_directory
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.lock import Lock
from tensorbnn.storage.manifest import read_manifest
from tests.sampling import small_runs
from tests.sampling.small_runs import PROCESSES
from tests.storage.test_store import DATA, MANIFEST, chunk, create, state

pytestmark = pytest.mark.slow

RIVALS = 4
WORKED = "worked"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


class Rivals:
    """Processes that call ``work(number, barrier, *arguments)`` at once, and what they return."""

    def __init__(self, work, *arguments):
        self._results, self._barrier = PROCESSES.Queue(), PROCESSES.Barrier(RIVALS)
        self._processes = [
            small_runs.start(self.answer, self._results, work, number, self._barrier, *arguments)
            for number in range(RIVALS)
        ]

    @staticmethod
    def answer(results, work, *arguments):
        try:
            results.put(work(*arguments))
        except BaseException as error:
            traceback.print_exc()
            results.put(f"{type(error).__name__}: {error}")

    def results(self, count=RIVALS):
        return [self._results.get(timeout=60) for _ in range(count)]

    def end(self):
        codes = [small_runs.end(process) for process in self._processes]
        self._results.close()
        self._results.join_thread()
        assert codes == [0] * RIVALS


# Runs.


def write_when_others_were_refused(number, barrier, path, cache, refused, resumes):
    """For a child: write a run that continues once `refused` is set."""
    small_runs.use_cache(cache)

    def wait(predictions, targets):
        if holds(path / "run.lock"):  # it is tried before anything is written
            assert refused.wait(60)
        return 0.0

    barrier.wait(60)
    try:
        if resumes:
            small_runs.go_on(path, metrics=[wait], draws=8)
        else:
            small_runs.draw(path, metrics=[wait], draws=8)
    except (FileExistsError, tb.RunError) as error:
        return f"{type(error).__name__}: {error}"
    return WORKED


def holds(file):
    try:
        return json.loads(file.read_text())["pid"] == os.getpid()
    except (FileNotFoundError, ValueError):  # not there, or being written by another process
        return False


def wait(predictions, targets):
    return 0.0


@pytest.fixture(scope="module")
def reference(tmp_path_factory, cache):
    """What the rivals write, and a shorter run."""
    folder = tmp_path_factory.mktemp("reference")
    process = small_runs.start(make_reference, folder, cache)
    assert small_runs.end(process) == 0
    return folder


def make_reference(folder, cache):
    small_runs.use_cache(cache, fill=True)
    small_runs.draw(folder / "run", metrics=[wait], draws=8)
    small_runs.draw(folder / "short", metrics=[wait], draws=2)
    small_runs.draw(folder / "polled", draws=60, **SLOWLY)


@pytest.mark.parametrize("resumes", [True, False], ids=["resume", "sample"])
def test_one_of_several_writers_works_and_the_others_get_an_error(
    reference, cache, tmp_path, resumes
):
    path, refused = tmp_path / "run", PROCESSES.Event()
    if resumes:
        process = small_runs.start(make_short, path, cache)
        assert small_runs.end(process) == 0
    rivals = Rivals(write_when_others_were_refused, path, cache, refused, resumes)
    try:
        # These start while the writer pauses: none of them waits for it.
        answers = rivals.results(RIVALS - 1)
        refused.set()
        assert rivals.results(1) == [WORKED]
    finally:
        refused.set()
        rivals.end()
    for answer in answers:
        locked = answer.startswith("LockedError: ") and "is being written by" in answer
        there = answer.startswith("PathTakenError: ") and "already holds a run" in answer
        assert locked or (there and not resumes), answer
    small_runs.assert_same_run(path, reference / "run")


def make_short(path, cache):
    small_runs.use_cache(cache)
    small_runs.draw(path, metrics=[wait], draws=2)


# Directories.


def make_directories(number, barrier, folder, overwrite, rounds):
    """For a child: create the same directories as others; the rounds in which it succeeded."""
    won = []
    for each in range(rounds):
        path = folder / ("run" if overwrite else f"run-{each}")
        barrier.wait(60)
        try:
            manifest = MANIFEST | {"seed": number}
            store = DirectoryStore.create(path, manifest, DATA, [state()] * 2, overwrite=overwrite)
        except (FileExistsError, tb.RunError):
            barrier.wait(60)
            continue
        for chain in (0, 1):
            store.write_chunk(chain, 0, chunk(number))
            store.write_state(chain, state(9))
        barrier.wait(60)  # all others have tried by now
        mine = DirectoryStore(path)
        assert mine.manifest["seed"] == number
        assert mine.damage() == {}
        assert [mine.chunk_sizes(chain) for chain in (0, 1)] == [{0: 4}, {0: 4}]
        won.append(each)
        store.close()
    return won


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "overwrite"])
def test_only_one_of_several_processes_creates_a_directory(tmp_path, overwrite):
    rounds = 40
    if overwrite:
        create(tmp_path / "run", seed=99)
    rivals = Rivals(make_directories, tmp_path, overwrite, rounds)
    won = rivals.results()
    rivals.end()
    assert all(isinstance(each, list) for each in won), won
    assert sorted(each for rounds_won in won for each in rounds_won) == list(range(rounds))
    names = {"run"} if overwrite else {f"run-{each}" for each in range(rounds)}
    assert {each.name for each in tmp_path.iterdir()} == names


@pytest.mark.parametrize("moment", ["check_free", "Lock"])
def test_a_run_that_another_process_just_created_is_not_replaced(tmp_path, monkeypatch, moment):
    """Created, filled and closed between two checks of the directory."""
    original, path = getattr(new_directory, moment), tmp_path / "run"

    def slow(*arguments, **options):
        monkeypatch.undo()
        found = original(*arguments, **options)
        create(path, seed=99).write_chunk(0, 0, chunk(0))
        return found

    monkeypatch.setattr(new_directory, moment, slow)
    with pytest.raises(FileExistsError, match="already holds a run"):
        create(path)
    assert DirectoryStore(path).chunk_sizes(0) == {0: 4}
    assert read_manifest(path)["seed"] == 99
    assert not (path / "run.lock").exists()


# Locks.


def take_locks(number, barrier, file, locks, times):
    """For a child: take a lock many times; how often another process had it.

    The first holder is one that is gone.
    """
    if not locks:
        fcntl.flock = no_locks
    owner, taken, refused = file.with_name("owner"), 0, 0
    barrier.wait(60)
    while taken < times:
        try:
            lock = Lock(file, "it").acquire()
        except tb.RunError:
            refused += 1
            continue
        os.close(os.open(owner, os.O_CREAT | os.O_EXCL))  # fails where there is another
        owner.unlink()
        lock.release()
        taken += 1
    return refused


def no_locks(descriptor, operation):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no-locks"])
def test_a_lock_has_one_holder(tmp_path, locks):
    (tmp_path / "run.lock").write_text("of a process that was killed")
    os.utime(tmp_path / "run.lock", (0, 0))
    rivals = Rivals(take_locks, tmp_path / "run.lock", locks, 300)
    refused = rivals.results()
    rivals.end()
    assert all(isinstance(each, int) for each in refused), refused
    assert sum(refused) > 10
    assert not list(tmp_path.iterdir())


# Readers.


SLOWLY = {"thin": 100, "report_every": 47}


def write_slowly(path, cache, options):
    """For a child: sample with a longer way from draw to draw, or continue such a run."""
    small_runs.use_cache(cache)
    if path.exists():
        small_runs.go_on(path, **options)
    else:
        small_runs.draw(path, **SLOWLY | options)


def test_a_reader_sees_only_complete_states(reference, cache, tmp_path):
    """While a run begins, is killed, continues at another pace and is extended."""
    path, seen, reports = tmp_path / "run", [], []
    whole = small_runs.arrays(tb.load(reference / "polled"))
    refreshed = None
    for options, draws_to_kill in (
        ({"draws": 33, "checkpoint_seconds": 100.0}, 1),
        ({"draws": 33}, None),
        ({"draws": 60}, None),
    ):
        process = small_runs.start(write_slowly, path, cache, options)
        while process.is_alive():
            loaded = load_if_there(path)
            if loaded is None:
                continue
            refreshed = loaded if refreshed is None else refreshed.refresh()
            for ensemble in (loaded, refreshed):
                small_runs.assert_same_arrays(small_runs.arrays(ensemble), whole)
                seen.append(ensemble.num_draws)
            reports.append(small_runs.by_epoch(loaded.reports))
            if draws_to_kill is not None and loaded.num_draws >= draws_to_kill:
                process.kill()
                break
        assert small_runs.end(process) == (0 if draws_to_kill is None else -signal.SIGKILL)
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    small_runs.assert_same_run(path, reference / "polled")
    final = small_runs.by_epoch(tb.load(path).reports)
    shorter_end = small_runs.PLAN["burn_in"] + 33 * SLOWLY["thin"]
    assert shorter_end % SLOWLY["report_every"]
    for found in reports:
        same = {key: each for key, each in found.items() if key[1] != shorter_end}
        assert same == {key: final[key] for key in same}


def load_if_there(path):
    try:
        return tb.load(path)
    except FileNotFoundError:
        return None
    except tb.RunError as error:
        assert "the run holds no draws yet" in str(error)  # noqa: PT017
        return None


def test_what_a_reader_has_seen_stays(tmp_path, monkeypatch):
    """Draws that were saved when a process was killed, before their state was, stay readable."""
    path, seen = tmp_path / "run", []
    original = DirectoryStore.write_state

    def killed(self, chain, arrays):
        if arrays["transitions"] > small_runs.PLAN["burn_in"]:
            raise tb.RunError("killed")
        original(self, chain, arrays)

    monkeypatch.setattr(DirectoryStore, "write_state", killed)
    with pytest.raises(tb.RunError, match="killed"):
        small_runs.draw(path, chains=1, checkpoint_seconds=100.0)
    before = small_runs.arrays(tb.load(path))

    def look(self, chain, arrays):
        original(self, chain, arrays)
        seen.append(tb.load(path))
        small_runs.assert_same_arrays(before, small_runs.arrays(seen[-1]))

    monkeypatch.setattr(DirectoryStore, "write_state", look)
    small_runs.go_on(path)
    numbers = [each.num_draws for each in seen]
    assert numbers == sorted(numbers)
    assert numbers[0] == 4
    assert numbers[-1] == 30
