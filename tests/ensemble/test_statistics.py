"""Weighted statistics against NumPy's own, and where weights are zero."""

import numpy as np
import pytest

from tensorbnn.ensemble import statistics

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(50, 4, 3))
WEIGHTS = RNG.dirichlet(np.full(50, 0.3))
WANTED = np.array([0.0, 0.01, 0.3, 0.5, 0.99, 1.0])


@pytest.mark.parametrize("at_once", [2**20, 1], ids=["at once", "column by column"])
def test_quantiles(monkeypatch, at_once):
    monkeypatch.setattr(statistics, "SORTED_AT_ONCE", at_once)
    expected = np.quantile(VALUES, WANTED, axis=0, weights=WEIGHTS, method="inverted_cdf")
    np.testing.assert_array_equal(statistics.quantile(VALUES, WANTED, WEIGHTS), expected)
    one = statistics.quantile(VALUES, WANTED[2], WEIGHTS)
    np.testing.assert_array_equal(one, expected[2])


def test_networks_without_weight_count_for_nothing():
    some = WEIGHTS * (np.arange(50) % 2)
    some /= some.sum()
    kept = slice(1, None, 2)
    for statistic in (
        lambda v, w: statistics.quantile(v, WANTED, w),
        lambda v, w: np.stack(statistics.moments(v, w)),
        lambda v, w: statistics.histogram(v, np.linspace(-2, 2, 7), w),
    ):
        found, expected = statistic(VALUES, some), statistic(VALUES[kept], some[kept])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_equal_weights_are_no_weights():
    equal = np.full(50, 0.02)
    for ours, plain in zip(
        statistics.moments(VALUES, equal), statistics.moments(VALUES, None), strict=True
    ):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-15)
    edges = np.linspace(-2, 2, 7)
    np.testing.assert_allclose(
        statistics.histogram(VALUES, edges, equal), statistics.histogram(VALUES, edges, None)
    )
    np.testing.assert_array_equal(
        statistics.quantile(VALUES, WANTED, None), np.quantile(VALUES, WANTED, axis=0)
    )
