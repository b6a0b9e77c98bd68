"""The rule by which an engine is chosen."""

import pytest

import tensorbnn as tb
from tensorbnn.engine import library, native


def network(*units, inputs=1):
    return tb.Network(*(tb.Dense(each) for each in units), inputs=inputs)


@pytest.mark.parametrize(
    ("units", "inputs", "rows", "sets"),
    [
        ((10, 10, 10, 1), 1, 11, {"avx512", "avx2", "portable"}),  # the paper's sparse case
        ((10, 10, 10, 1), 1, 2055, {"avx512", "avx2"}),  # its variable case
        ((50, 50, 1), 13, 50, {"avx512", "avx2"}),
        ((50, 50, 1), 13, 1000, {"avx512"}),
        ((100, 100, 100, 1), 20, 10_000, {"avx512"}),
        ((150, 150, 1), 20, 1000, {"avx512"}),
        ((200, 200, 1), 20, 1000, set()),
        ((10, 10, 10, 1), 1, 0, set()),  # the prior has no likelihood
    ],
)
def test_sizes_decide(units, inputs, rows, sets):
    found = {
        each
        for each in native.FASTER_UP_TO
        if native.is_native_faster(network(*units, inputs=inputs), rows, each)
    }
    assert found == sets


def test_auto_follows_the_rule():
    small, large = network(4, 1), network(600, 600, 1)
    native = "jax" if library.problem() else "native"
    assert tb.Posterior(small, tb.Gaussian(), [0.0], [1.0]).engine == native
    assert tb.Posterior(large, tb.Gaussian(), [0.0], [1.0]).engine == "jax"
    assert tb.Posterior(small, tb.Gaussian()).engine == "jax"
    assert tb.Posterior(small, tb.Gaussian(), [0.0], [1.0], engine="jax").engine == "jax"
