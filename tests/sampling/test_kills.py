"""A process that samples is killed at random times, again and again; the run has the same bits."""

import contextlib
import itertools
import json
import os
import resource
import signal
import sys
import time

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import read_manifest
from tests.sampling import small_runs
from tests.sampling.small_runs import begin_or_go_on, transitions

pytestmark = pytest.mark.slow


class Reference:
    """An uninterrupted run, and how long such a run takes once it samples."""

    def __init__(self, folder, sampler):
        self.sampler, self.path, self.cache = sampler, folder / "reference", folder / "cache"
        process = small_runs.start(small_runs.make_reference, self.path, self.cache, sampler)
        assert small_runs.end(process) == 0
        timed = Life(self, folder / "timed")
        timed.wait_until_it_samples()
        began = time.monotonic()
        assert timed.end() == 0
        self.seconds = time.monotonic() - began
        small_runs.assert_same_run(folder / "timed", self.path)
        ensemble = tb.load(self.path)
        self.arrays = small_runs.arrays(ensemble)
        self.reports = small_runs.by_epoch(ensemble.reports)


class Life:
    """A process that begins or continues a run."""

    def __init__(self, reference, path, **options):
        self._path, self._before = path, transitions(path)
        self._errors = path.with_name(path.name + ".stderr")
        arguments = (path, reference.cache, reference.sampler, self._errors, options)
        self._process = small_runs.start(begin_or_go_on, *arguments)

    @property
    def has_sampled(self):
        return transitions(self._path) > max(self._before, 0)

    def wait_until_it_opens(self):
        """Wait until the process has created the directory, or locked the existing one."""
        self._wait_for_change("run.lock")

    def wait_until_it_samples(self):
        while not self.has_sampled and self._process.is_alive():
            self._wait_for_change("chain-*/state.safetensors")

    def _wait_for_change(self, pattern, seconds=120):
        before, deadline = self._look(pattern), time.monotonic() + seconds
        while self._look(pattern) == before and self._process.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def _look(self, pattern):
        with contextlib.suppress(FileNotFoundError):  # removed between two looks
            stats = ((file.name, file.stat()) for file in self._path.glob(pattern))
            return {(name, stat.st_ino, stat.st_mtime_ns) for name, stat in stats}

    def end(self, number=None):
        """Send a signal, if any; the exit code."""
        if number is not None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(self._process.pid, number)
        return small_runs.end(self._process)

    @property
    def said(self):
        return self._errors.read_text()


@pytest.fixture(scope="module", params=["hmc", "adaptive"])
def reference(request, tmp_path_factory):
    return Reference(tmp_path_factory.mktemp(request.param), request.param)


def test_killed_at_random_times(reference, tmp_path):
    """With both samplers, 14 times in all."""
    assert kill_again_and_again(reference, tmp_path, wanted=7) == 7


@pytest.mark.soak
def test_killed_at_random_times_for_long(reference, tmp_path):
    """With both samplers, 200 times in all."""
    assert kill_again_and_again(reference, tmp_path, wanted=100) == 100


def kill_again_and_again(reference, folder, wanted):
    """Runs that are killed and resumed until `wanted` kills have hit chains at work."""
    seed = np.random.SeedSequence().entropy
    generator = np.random.default_rng(seed)
    print(f"seed {seed}, {reference.seconds:.3f} seconds of sampling")
    kills, numbers = 0, itertools.count()
    while kills < wanted:
        path = folder / f"run-{next(numbers)}"
        while kills < wanted and not is_complete(path):
            kills += kill_once(reference, path, generator)
        if not is_complete(path):
            assert Life(reference, path).end() == 0
        small_runs.assert_same_run(path, reference.path)
    return kills


def kill_once(reference, path, generator):
    """Kill one process at a random time; whether chains were at work.

    Sometimes while the directory is created, or opened and read.
    """
    opening = generator.random() < (0.1 if path.exists() else 0.5)
    delay = generator.uniform(0, 0.1 if opening else reference.seconds / 3)
    life = Life(reference, path)
    if opening:
        life.wait_until_it_opens()
    else:
        life.wait_until_it_samples()
    time.sleep(delay)
    code = life.end(signal.SIGKILL)
    assert code in (0, -signal.SIGKILL), life.said
    print(f"{'opening' if opening else 'sampling'} and {delay:.4f} seconds, {code}", end=": ")
    if not (path / "run.json").exists():
        print("no run yet")
        return False
    draws = small_runs.assert_part_of(path, reference.arrays, reference.reports)
    print(f"{transitions(path)} transitions, {draws} draws that all chains have")
    return code != 0 and life.has_sampled


def is_complete(path):
    return (path / "run.json").exists() and read_manifest(path)["status"] == "complete"


def test_sigterm_at_random_times(reference, tmp_path):
    """Each process saves, prints how to resume and exits with 143."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    path, generator = tmp_path / "run", np.random.default_rng(seed)
    for _ in range(3):
        life = Life(reference, path, draws=10**6)
        life.wait_until_it_samples()
        time.sleep(generator.uniform(0, reference.seconds / 3))
        code = life.end(signal.SIGTERM)
        assert code == 128 + signal.SIGTERM, life.said
        drawn = [sum(DirectoryStore(path).chunk_sizes(chain).values()) for chain in range(3)]
        assert f"stopped after {min(drawn):,} of 1,000,000 draws of each chain" in life.said
        assert f"continue with tb.resume({str(path)!r})" in life.said
        assert read_manifest(path)["status"] == "interrupted"
        assert not list(path.rglob("*.tmp"))
        assert not (path / "run.lock").exists()
    for each in ("run", "whole"):
        assert Life(reference, tmp_path / each, draws=max(drawn) + 2).end() == 0
    small_runs.assert_same_run(path, tmp_path / "whole")


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("metrics.jsonl", {"report_every": 4}),
        # Draws in one file, larger than the state of this sampler.
        (
            "draws-00000.safetensors",
            {"sampler": "fixed", "draws": 60, "networks_per_file": 60, "report_every": 1000},
        ),
    ],
)
def test_a_disk_that_is_full_again_and_again(tmp_path, file, options):
    """Files can't grow beyond a limit, which rises a little each time."""
    messages = tmp_path / "messages.json"
    assert small_runs.end(small_runs.start(fill_the_disk, tmp_path, options, messages)) == 0
    small_runs.assert_same_run(tmp_path / "run", tmp_path / "reference")
    found = json.loads(messages.read_text())
    assert all("File too large" in message for message in found)
    for place in ("run.lock can't be written", "run can't be created", f"{file} can't be written"):
        assert any(place in message for message in found), place


def fill_the_disk(folder, options, messages):
    """For a child: sample where files may have this many bytes and no more."""
    path = folder / "run"
    whole = small_runs.draw(folder / "reference", **options)
    drawn, reports = small_runs.arrays(whole), small_runs.by_epoch(whole.reports)
    found, most = [], resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for room in itertools.accumulate(itertools.repeat(1.1), lambda a, b: a * b, initial=40):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), most))
        try:
            if (path / "run.json").exists():
                small_runs.go_on(path)
            else:
                small_runs.draw(path, **options)
            break
        except tb.RunError as error:
            found.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        assert not list(path.rglob("*.tmp"))
        if (path / "run.json").exists():
            assert "continue from there with tb.resume" in found[-1]
            small_runs.assert_part_of(path, drawn, reports)
    messages.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("draws", "part"), [(8000, 0.25), pytest.param(20_000, 0.1, marks=pytest.mark.soak)]
)
def test_memory_does_not_grow_with_the_draws(tmp_path, draws, part):
    """A few megabytes are allocated late in any case: a smaller share of more draws."""
    answer = tmp_path / "answer.json"
    process = small_runs.start(measure_memory, tmp_path / "run", draws, answer)
    assert small_runs.end(process, seconds=300) == 0
    growth, drawn = json.loads(answer.read_text())
    print(f"{growth / 1e6:.1f} MB of memory for {drawn / 1e6:.1f} MB of draws")
    assert drawn > 0.8 * 2 * 4 * 3001 * draws  # of 2 chains, with 4 bytes a parameter
    assert growth < part * drawn


def measure_memory(path, draws, answer):
    """For a child: the largest growth of memory, and the size of the draws, in bytes."""
    network = tb.Network(tb.Dense(1000), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), [-1.0, 0.0, 1.0], [0.0, 1.0, 0.5])
    sampler = tb.HMC(step_size=0.01, num_steps=1)
    options = {"chains": 2, "burn_in": 0, "path": path, "progress": False}
    tb.sample(posterior, sampler, draws=draws // 20, **options)
    tb.resume(path, draws=draws // 10, progress=False)
    before, size = memory(), size_of_draws(path)
    tb.resume(path, draws=draws, progress=False)
    answer.write_text(json.dumps([memory() - before, size_of_draws(path) - size]))


def memory():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def size_of_draws(path):
    return sum(file.stat().st_size for file in path.glob("chain-*/draws-*"))
