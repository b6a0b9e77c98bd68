"""The table of numbers that Python and the compiled kernels share."""

import _ctypes
from pathlib import Path

import pytest

import tensorbnn as tb
from tensorbnn.engine import kernels, library

NETWORK = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(1), inputs=1)


def test_numbers_are_unique():
    numbers = kernels.numbers()
    for kind in ("Activation", "Likelihood", "Family", "LocationKind"):
        found = [number for name, number in numbers.items() if name.startswith(f"{kind}.")]
        assert sorted(found) == list(range(len(found)))


def test_a_difference_is_named():
    table = kernels.numbers()
    assert kernels.difference(table) is None
    found = kernels.difference(table | {"Activation.Tanh": 2})
    assert found == "Activation.Tanh is 2 there and 1 here"
    found = kernels.difference(table | {"Family.Gumbel": 7})
    assert found == "Family.Gumbel is 7 there and missing here"
    del table["most_stages"]
    assert kernels.difference(table) == "most_stages is missing there and 128 here"


def refused(monkeypatch):
    """Why the native engine is refused when it is loaded again; the JAX engine takes its place."""
    monkeypatch.setattr(library, "_load", library._load.__wrapped__)
    posterior = tb.Posterior(NETWORK, tb.Gaussian(), [0.0], [1.0])
    assert posterior.engine == "jax"
    with pytest.raises(ValueError, match="`engine` can't be 'native': _"):
        posterior.engine = "native"
    assert library.instruction_set() is None
    return library.problem()


@pytest.mark.skipif(library.problem() is not None, reason="no native engine")
@pytest.mark.parametrize(
    ("table", "entry", "difference"),
    [
        ("FUSED", {tb.Tanh: 2}, "Activation.Tanh is 1 there and 2 here"),
        ("LIKELIHOODS", {tb.Poisson: 4}, "Likelihood.Poisson is missing there and 4 here"),
        ("LIMITS", {"most_widths": 512}, "most_widths is 256 there and 512 here"),
    ],
)
def test_a_library_of_another_version_is_refused(monkeypatch, table, entry, difference):
    for name, value in entry.items():
        monkeypatch.setitem(getattr(kernels, table), name, value)
    problem = refused(monkeypatch)
    assert f"was compiled from another version of tensorbnn ({difference}): install" in problem


def test_a_library_without_numbers_is_refused(monkeypatch):
    monkeypatch.setattr(library, "_path", lambda: Path(_ctypes.__file__))
    assert "can't be loaded" in refused(monkeypatch)
