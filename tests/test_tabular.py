"""The command line and the estimators make the same posterior of a table's columns."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.estimators import base
from tensorbnn.tabular import TabularModel, scaled_prior
from tests.cli.running import write

RNG = np.random.default_rng(0)
X, Y = RNG.normal(3, 2, (12, 2)), RNG.normal(50, 9, (12, 1))
PRIOR = tb.Normal(0, 0.5)


NOISE = tb.Hyper(0.3)


def made(noise_sd=NOISE, **options):
    return TabularModel(
        **{"hidden_layer_sizes": (3,), "activation": tb.ReLU(), "noise_sd": noise_sd}
        | {"weight_prior": PRIOR, "bias_prior": PRIOR}
        | options
    )


def test_numbers():
    posterior = made(relevance=True).posterior(X, Y)
    layers = [tb.Relevance(), tb.Dense(3, PRIOR, PRIOR), tb.ReLU(), tb.Dense(1, PRIOR, PRIOR)]
    assert posterior.network == tb.Network(*layers, inputs=2)
    assert posterior.likelihood == tb.Gaussian(sd=tb.Hyper(0.3))
    np.testing.assert_allclose(posterior.scaling.y_scale, Y.std())
    assert made().posterior(X, np.hstack([Y, Y])).likelihood == tb.Gaussian(sd=(tb.Hyper(0.3),) * 2)


def test_noise_that_is_known_is_in_the_units_of_the_targets():
    posterior = made(noise_sd=(4.5, 9.0)).posterior(X, np.hstack([Y, Y]))
    np.testing.assert_allclose(posterior.likelihood.sd, np.array([4.5, 9.0]) / Y.std())
    posterior = made().posterior(X, Y, y_sd=np.full_like(Y, 2.0))
    assert posterior.likelihood == tb.MeasuredGaussian()
    np.testing.assert_allclose(posterior._arrays.targets[1], 2 / Y.std(), rtol=1e-6)


@pytest.mark.parametrize(("classes", "outputs"), [(2, 1), (3, 3)])
def test_classes(classes, outputs):
    posterior = made().posterior(X, np.arange(12.0)[:, None] % classes, classes=classes)
    assert posterior.likelihood == (tb.Bernoulli() if classes == 2 else tb.Categorical())
    assert posterior.network.outputs == outputs
    assert posterior.scaling.y_scale == ()


def test_weights_count_in_the_scaling_too():
    weights = np.r_[np.zeros(6), np.full(6, 2.0)]
    posterior = made().posterior(X, Y, sample_weight=weights)
    assert posterior.likelihood == tb.Gaussian(sd=tb.Hyper(0.3))
    np.testing.assert_array_equal(posterior.data.sample_weight, weights)
    np.testing.assert_allclose(posterior.scaling.x_shift, X[6:].mean(axis=0))


def test_priors_by_the_number_of_inputs():
    network = made(hidden_layer_sizes=(9,), weight_prior=None).posterior(X, Y).network
    first, _, last = network.layers
    assert (first.weight_prior, last.weight_prior) == (scaled_prior(2), scaled_prior(9))


def test_command_line_and_estimator_agree(tmp_path, monkeypatch):
    """Where they are given the same options."""
    posteriors = []

    def keep(posterior, *sampler, **options):
        posteriors.append(posterior)
        raise KeyboardInterrupt

    for function in ("tensorbnn.cli.fit.begin_run", f"{base.__name__}.begin_run"):
        monkeypatch.setattr(function, keep)
    columns = dict(zip("abcy", [*X.T, X[:, 0] ** 2, *Y.T], strict=True))
    file = str(write(tmp_path / "t.csv", columns))
    options = [
        "--hidden-layer-sizes",
        "4,3",
        "--activation",
        "relu",
        "--prior",
        "Normal(0, 0.5)",
        "--quiet",
    ]
    options += ["--relevance", "--likelihood", "Gaussian(sd=Hyper(0.5))"]
    assert main(["fit", file, "--target", "y", "--out", str(tmp_path / "run"), *options]) == 130
    priors = {"weight_prior": PRIOR, "bias_prior": PRIOR}
    estimator = tb.BNNRegressor((4, 3), activation="relu", relevance=True, **priors)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(np.column_stack([columns[name] for name in "abc"]), Y[:, 0])
    one, other = posteriors
    assert (one.network, one.likelihood, one.scaling) == (
        other.network,
        other.likelihood,
        other.scaling,
    )
    np.testing.assert_array_equal(one._arrays.inputs, other._arrays.inputs)
