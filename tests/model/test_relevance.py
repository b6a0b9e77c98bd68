"""One scale for each input, against exact answers."""

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tests.oracle_cases import Case, check, mean, means, outputs, probability
from tests.oracles import oracles


def posterior(x=None, y=None, inputs=2, prior=None, **options):
    layers = (
        tb.Relevance() if prior is None else tb.Relevance(prior),
        tb.Dense(1, *[tb.Normal()] * 2),
    )
    network = tb.Network(*layers, inputs=inputs)
    return tb.Posterior(network, tb.Gaussian(sd=0.5), x, y, dtype="float64", **options)


def test_it_scales_each_input():
    model = posterior()
    named = {
        "relevance_0.scales": np.array([2.0, 0.5]),
        "dense_0.weights": np.array([[1.0], [3.0]]),
        "dense_0.biases": np.array([0.25]),
    }
    x = np.array([[1.0, 1.0], [2.0, -4.0]])
    found = model.network.apply(named, x.T)
    np.testing.assert_allclose(found, [[2.0 + 1.5 + 0.25, 4.0 - 6.0 + 0.25]])


@pytest.mark.slow
def test_prior_is_recovered_without_data():
    """Scales are half-normal, and so independent of the weights that E (s w)^2 is one."""

    def statistics(ensemble):
        scales = np.moveaxis(ensemble.parameters["relevance_0.scales"], -1, 0)
        weights = np.moveaxis(ensemble.parameters["dense_0.weights"][..., 0], -1, 0)
        return [
            *means(scales, [np.sqrt(2 / np.pi)] * 2),
            *means(np.square(scales * weights), [1.0] * 2),
            probability(scales[0], 0.1, stats.halfnorm.cdf(0.1)),
            mean(scales[0] * scales[1], 2 / np.pi),
        ]

    check(Case(posterior(), statistics))


@pytest.mark.slow
def test_linear_network_with_relevances():
    """Given the scales all is Gaussian; over the two of them the exact answer is a sum."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 2))
    y = 1.5 * x[:, 0] + 0.5 * rng.normal(size=12)
    xs = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 2.0]])
    exact = on_a_grid(x, y, xs, sd=0.5)

    def statistics(ensemble):
        scales = np.moveaxis(ensemble.parameters["relevance_0.scales"], -1, 0)
        found = outputs(ensemble, xs)
        return [
            *means(scales, exact["scales"]),
            *means(found, exact["mean"]),
            *means(found**2, exact["square"]),
        ]

    check(Case(posterior(x, y), statistics))
    assert exact["scales"][0] > 1.3 * exact["scales"][1]


def on_a_grid(x, y, xs, *, sd):
    """Posterior means of the scales, of the outputs at `xs`, and of their squares."""
    edges = np.linspace(0.0, 5.0, 161)
    middle = (edges[1:] + edges[:-1]) / 2
    design, at = oracles.add_bias(x), oracles.add_bias(xs)
    logs, rows = [], []
    for first in middle:
        for second in middle:
            widths = np.array([first, second, 1.0])
            covariance = sd**2 * np.eye(len(y)) + (design * widths**2) @ design.T
            precision = design.T @ design / sd**2 + np.diag(widths**-2)
            posterior_covariance = np.linalg.inv(precision)
            weights = posterior_covariance @ design.T @ y / sd**2
            value = at @ weights
            variance = np.einsum("ij,jk,ik->i", at, posterior_covariance, at)
            log_prior = stats.halfnorm.logpdf([first, second]).sum()
            logs.append(log_prior + stats.multivariate_normal.logpdf(y, cov=covariance))
            rows.append(np.concatenate([[first, second], value, value**2 + variance]))
    shares = np.exp(np.array(logs) - np.max(logs))
    found = shares @ np.array(rows) / shares.sum()
    return {"scales": found[:2], "mean": found[2:5], "square": found[5:]}


@pytest.mark.slow
def test_irrelevant_inputs_get_small_scales(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 4))
    network = tb.Network(tb.Relevance(), tb.Dense(6), "tanh", tb.Dense(1), inputs=4)
    built = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(2 * x[:, 1]))
    run = tb.sample(built, chains=2, burn_in=300, draws=150, path=tmp_path / "run", progress=False)
    scales = np.median(run.parameters["relevance_0.scales"], axis=(0, 1))
    assert np.all(scales[[0, 2, 3]] < 0.2 * scales[1])
    assert tb.load(tmp_path / "run").network == network  # its description can be read again


def test_bad_priors():
    with pytest.raises(
        ValueError, match=r"`scale_prior` of Relevance must be a prior over positive"
    ):
        tb.Relevance(tb.Normal(1.0, 0.1))
    with pytest.raises(TypeError, match=r"`scale_prior` of Relevance must be a prior such as"):
        tb.Relevance(1.0)
    with pytest.raises(ValueError, match="native"):
        posterior([[0.0, 0.0]], [0.0], engine="native")
