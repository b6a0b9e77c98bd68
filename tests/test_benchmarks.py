"""The benchmark runs, and reports its results."""

import json
import os
import sys

import jax
import numpy as np
import pytest

import benchmarks.__main__ as program
from benchmarks import agreement, growth
from benchmarks.__main__ import main, save
from benchmarks.agreement import MismatchError, check_same_density, check_same_length
from benchmarks.contestants import STEP_SIZE, Outcome
from benchmarks.leapfrog import measure
from benchmarks.options import Options
from benchmarks.tables import Table, from_json, markdown, shown
from benchmarks.workloads import WORKLOADS, plain_log_density

pytestmark = pytest.mark.slow


def test_a_quick_run(tmp_path):
    """The leapfrog step of all that compute the same density; then what is saved."""
    # The others are less strict than we are.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        (found,) = measure(Options(quick=True))
    samplers = found.column("sampler")
    assert {"JAX engine", "BlackJAX", "NumPyro"} <= set(samplers)
    assert all(value > 0 for value in found.column("µs a step"))
    assert found.column("faster")[samplers.index("BlackJAX")] == 1
    grown = Table(
        "growth-width", "", "", ("width", "a", "b", "c", "JAX engine"), [(1, 2, 3, 4, 5.0)]
    )
    about = {"processor": "p", "cores": 1, "instruction_set": None, "load": 0.0, "python": "3"}
    names = ("tensorbnn", "jax", "jaxlib", "numpy", "blackjax", "numpyro")
    save({"leapfrog": found, "growth-width": grown}, about | dict.fromkeys(names, "1"), tmp_path)
    saved = json.loads((tmp_path / "results.json").read_text())
    assert from_json(saved["tables"][0]) == found
    assert (tmp_path / "results.png").stat().st_size > 10_000
    assert markdown(found) in (tmp_path / "results.md").read_text()


def test_another_density_is_not_timed(monkeypatch):
    """Off by one part in ten thousand, more than rounding is."""

    def other(workload):
        log_density = plain_log_density(workload)
        return lambda parameters: 1.0001 * log_density(parameters)

    monkeypatch.setattr(agreement, "plain_log_density", other)
    message = r"W1: the log-density of tensorbnn \(jax\) differs from BlackJAX's by 1\.0e-04 of its"
    with (
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        pytest.raises(MismatchError, match=message),
    ):
        check_same_density(WORKLOADS["W1"])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_another_number_of_steps_is_not_timed(steps):
    """A straight line of two steps, in two leaves, for one, two and three."""
    momenta = [np.random.default_rng(0).normal(size=shape) for shape in ((2, 20, 10), (2, 50))]
    start = [np.zeros_like(each) for each in momenta]
    outcome = Outcome(1.0, False, start, [2 * STEP_SIZE * each for each in momenta], ())
    if steps == 2:
        check_same_length("HMC", outcome, steps)
    else:
        with pytest.raises(MismatchError, match=f"HMC moved as far as .* instead of {steps}"):
            check_same_length("HMC", outcome, steps)


def test_a_part_that_fails(monkeypatch):
    """Its own traceback is on the terminal: ours would add nothing."""
    monkeypatch.setenv("XLA_FLAGS", "")
    failed = program.subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(program.subprocess, "run", lambda command, check: failed)
    with pytest.raises(SystemExit, match="growth has failed: see above; --only growth runs it"):
        main(["--only", "growth"])


def test_operations_of_a_gradient():
    """By hand: 2 operations a weight and row, three times, but for the inputs' own gradient."""
    w1 = WORKLOADS["W1"]
    assert w1.flops == 2 * 11 * (3 * (10 + 100 + 100 + 10) - 10)
    assert w1.tanhs == 11 * 30


def test_what_grows():
    for name, points in growth.cases(quick=False).items():
        values = [value for value, _, _ in points]
        assert values == sorted(values), name


@pytest.mark.parametrize(
    ("cell", "text"), [(None, ""), (3, "3"), (0.1234, "0.123"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_numbers(cell, text):
    assert shown(cell) == text


def test_only_a_whole_run_replaces_the_results(tmp_path, monkeypatch):
    """Some parts, a smoke test, or another instruction set are saved at a given path."""
    table = Table("growth-width", "t", "", ("width", "a", "b", "c", "d"), [(1, 2, 3, 4, 5.0)])
    seen, saved = [], []

    def run(part, options):
        seen.append((part, os.environ.get("TENSORBNN_INSTRUCTION_SET"), os.environ["XLA_FLAGS"]))
        return [table]

    monkeypatch.setattr(program, "_run", run)
    monkeypatch.setattr(program, "save", lambda found, about, folder: saved.append(folder))
    for name in ("XLA_FLAGS", "TENSORBNN_INSTRUCTION_SET"):
        monkeypatch.setenv(name, "")
    main(["--only", "growth"])
    main(["--quick"])
    assert not saved
    main(["--only", "growth", "--out", str(tmp_path)])
    main([])
    assert saved == [tmp_path, program.RESULTS]
    seen.clear()
    main(["--only", "growth", "--instruction-set", "portable"])
    assert seen == [("growth", "portable", "--xla_cpu_max_isa=SSE4_2")]
    assert len(saved) == 2


def test_what_is_missing_is_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    with pytest.raises(SystemExit, match=r"there is no concrete\.csv in"):
        main(["--data", str(tmp_path)])
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="--tensorflow needs tensorflow, tensorflow_prob") as error:
        main(["--tensorflow"])
    command = f"{sys.executable} -m pip install tensorflow-cpu tensorflow-probability tf-keras"
    assert command in str(error.value)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    with pytest.raises(SystemExit, match="XLA_FLAGS is set: unset it"):
        main([])


def test_unknown_parts(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "unknown parts speed: choose from leapfrog, growth" in capsys.readouterr().err
