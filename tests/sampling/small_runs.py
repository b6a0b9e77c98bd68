"""Small runs that tests stop, damage and compare, and what the processes that run them do."""

import multiprocessing
import os
from pathlib import Path

import jax
import numpy as np

import tensorbnn as tb
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import read_manifest
from tests.sampled import sample_run

X = np.linspace(-1, 1, 9)
Y = np.sin(2 * X)
ADAPTIVE = tb.AdaptiveHMC(
    num_steps_start=5,
    num_steps_min=2,
    num_steps_max=10,
    num_steps_increment=1,
    step_size_options=10,
    random_steps=3,
)
FIXED = tb.HMC(step_size=0.01, num_steps=3)
SAMPLERS = {"hmc": tb.HMC(max_steps=20), "adaptive": ADAPTIVE, "fixed": FIXED}
# Three chains take turns on two cores, and pool in burn-in. They are saved after every call.
PLAN = {"chains": 3, "burn_in": 160, "draws": 30, "thin": 2, "networks_per_file": 4}
REPORTS = {"report_every": 4, "metrics": [tb.MeanSquaredError()], "validation": (X / 2, Y / 2)}
OFTEN = {"checkpoint_seconds": 1e-9, "progress": False}
GROUPS = ("parameters", "hyperparameters", "sample_stats")

# Children come from a process that has imported everything and started nothing.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tensorbnn"])


def posterior(**options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y, **options)


def draw(path, sampler="hmc", **options):
    return sample_run(posterior(), SAMPLERS[sampler], path=path, **PLAN | REPORTS | OFTEN | options)


def go_on(path, **options):
    return tb.resume(path, **OFTEN | options)


def start(work, *arguments):
    """Start a process that calls `work`."""
    process = PROCESSES.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def end(process, seconds=120):
    """Wait for a process; its exit code."""
    process.join(seconds)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    return code


def use_cache(cache, *, fill=False):
    """Take compiled programs from a folder, so that a new process need not compile them.

    Only `fill` writes there: a process that is killed while it does would leave half a program.
    """
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if fill else 1e9)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def make_reference(path, cache, sampler):
    """For a child: an uninterrupted run, which compiles all that similar runs need."""
    use_cache(cache, fill=True)
    draw(path, sampler)
    short = Path(f"{path}-short")
    draw(short, sampler, burn_in=1, draws=1)
    go_on(short, draws=2)


def begin_or_go_on(path, cache, sampler, errors, options):
    """For a child: sample to `path`, or continue the run that is there; messages go to a file."""
    use_cache(cache)
    descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 2)
    if (path / "run.json").exists():
        go_on(path, **options)
    else:
        draw(path, sampler, **options)


def transitions(path):
    """The progress of all chains of a run together; -1 if there is no run yet."""
    try:
        store = DirectoryStore(path)
    except FileNotFoundError:
        return -1
    states = (store.read_state(chain) for chain in range(store.manifest["chains"]))
    return sum(int(state["transitions"]) for state in states)


def contents(path):
    """Every file of a run whose bytes must be the same."""
    names = ("chain-*/*", "data.safetensors")
    files = [file for name in names for file in path.glob(name)]
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def arrays(ensemble):
    """All that was drawn, by group and name, each ``(chains, draws, ...)``."""
    return {
        f"{group}/{name}": values
        for group in GROUPS
        for name, values in getattr(ensemble, group).items()
    }


def assert_same_arrays(found, whole):
    """All names, types and bytes equal those of the first draws of `whole`."""
    assert found.keys() == whole.keys()
    for name, values in found.items():
        first = whole[name][:, : values.shape[1]]
        assert values.dtype == first.dtype
        assert values.shape == first.shape
        assert values.tobytes() == first.tobytes(), name


def by_epoch(reports):
    """What must be the same in reports, by chain and transition."""
    return {
        (report["chain"], report["transition"]): {k: v for k, v in report.items() if k != "seconds"}
        for report in reports
    }


def assert_same_run(path, reference):
    """A complete run, with the bytes of the reference, and nothing else in its directory."""
    one, two = (read_manifest(each) for each in (path, reference))
    assert one["status"] == "complete"
    assert one | {"created": ""} == two | {"created": ""}
    assert contents(path) == contents(reference)
    mine, other = tb.load(path), tb.load(reference)
    assert_same_arrays(arrays(mine), arrays(other))
    assert by_epoch(mine.reports) == by_epoch(other.reports)
    names = [{file.relative_to(each) for file in each.rglob("*")} for each in (path, reference)]
    assert names[0] == names[1]


def assert_part_of(path, whole, reports):
    """A run that was stopped in any way: its draws, if any, are the first ones of `whole`."""
    store = DirectoryStore(path)
    found = by_epoch(store.reports())
    assert found == {key: reports[key] for key in found}
    try:
        kept = tb.load(path)
    except tb.RunError as error:
        assert "the run holds no draws yet" in str(error)  # noqa: PT017
        return 0
    assert_same_arrays(arrays(kept), whole)
    return kept.num_draws
