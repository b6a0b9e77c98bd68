"""The benchmark runs, and says what it found."""

import json
import os

import jax
import pytest

import benchmarks.__main__ as program
from benchmarks import growth
from benchmarks.__main__ import main, save
from benchmarks.leapfrog import measure
from benchmarks.options import Options
from benchmarks.tables import Table, from_json, markdown, shown
from benchmarks.workloads import WORKLOADS


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
    """Some parts, a smoke test, or another instruction set are saved where one says."""
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


def test_what_is_missing_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    with pytest.raises(SystemExit, match=r"there is no concrete\.csv in"):
        main(["--data", str(tmp_path)])
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="--tensorflow needs tensorflow, tensorflow_probability"):
        main(["--tensorflow"])
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    with pytest.raises(SystemExit, match="XLA_FLAGS is set: unset it"):
        main([])


def test_unknown_parts(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "unknown parts speed: choose from leapfrog, growth" in capsys.readouterr().err
