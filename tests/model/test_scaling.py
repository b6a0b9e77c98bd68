"""Standardized data: the model sees columns of mean 0 and sd 1, the user never does."""

import json

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.model.scaling import standardization
from tests.ensemble.made import ensemble_of

RNG = np.random.default_rng(0)
# A constant column, and one that float32 could not hold: seconds of a day in 2020.
X = np.stack([RNG.uniform(10, 35, 30), np.full(30, 7.0), 1.6e9 + RNG.uniform(0, 60, 30)], axis=1)
Y = np.stack([500 + 80 * np.sin(X[:, 0] / 8), -0.001 * X[:, 0]], axis=1)
NEW = X[::3] + np.array([0.5, 0.0, 1.0])
NETWORK = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(2), inputs=3)
# A constant column is only shifted, and the targets have hardly any noise.
pytestmark = pytest.mark.filterwarnings("ignore::tensorbnn.warning.DataWarning")
OPTIONS = {"chains": 2, "burn_in": 40, "draws": 20, "progress": False}


def by_hand():
    mean, sd = X.mean(axis=0), X.std(axis=0)
    sd[1], mean[1] = 1.0, 7.0
    return (X - mean) / sd, (Y - Y.mean(axis=0)) / Y.std(axis=0), (NEW - mean) / sd


@pytest.fixture(scope="module")
def both():
    """The same run, standardized by the library and by hand."""
    x, y, _ = by_hand()
    likelihood = tb.Gaussian(sd=tb.Hyper(0.2))
    inside = tb.Posterior(NETWORK, likelihood, X, Y, standardize=True)
    outside = tb.Posterior(NETWORK, likelihood, x, y)
    return tb.sample(inside, **OPTIONS), tb.sample(outside, **OPTIONS)


def test_the_model_sees_standardized_columns():
    posterior = tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize=True, dtype="float64")
    x, y, _ = by_hand()
    np.testing.assert_allclose(posterior._arrays.inputs.T[:30], x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(posterior._arrays.targets.T, y, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(posterior.x, X)
    np.testing.assert_array_equal(posterior.y, Y)
    assert posterior.scaling.x_scale[1] == 1.0


def test_predictions_are_in_the_units_of_the_user(both):
    ours, theirs = both
    for name, values in ours.parameters.items():
        np.testing.assert_array_equal(values, theirs.parameters[name])
    p, q = ours.predict(NEW), theirs.predict(by_hand()[2])
    sd, mean = Y.std(axis=0), Y.mean(axis=0)
    np.testing.assert_allclose(p.samples, q.samples * sd + mean, rtol=1e-6)
    np.testing.assert_allclose(p.mean, q.mean * sd + mean, rtol=1e-6)
    np.testing.assert_allclose(p.sd, q.sd * sd, rtol=1e-4)
    np.testing.assert_allclose(p.sd_noise, q.sd_noise * sd, rtol=1e-6)
    np.testing.assert_allclose(
        p.quantile(0.3, noise=False), q.quantile(0.3, noise=False) * sd + mean, rtol=1e-6
    )
    noisy = q.quantile([0.1, 0.8], noise=True) * sd + mean
    np.testing.assert_allclose(p.quantile([0.1, 0.8], noise=True), noisy, rtol=1e-4)
    edges = np.linspace(300, 700, 9)
    for noise in (False, True):
        scaled = q.density((edges - mean[0]) / sd[0], noise=noise)[:, 0] / sd[0]
        found = p.density(edges, noise=noise)[:, 0]
        np.testing.assert_allclose(found, scaled, rtol=1e-3, atol=1e-7)


def test_densities_are_per_unit_of_the_user(both):
    ours, _ = both
    p = ours.predict(NEW)
    y = Y[::3]
    noise = ours.hyperparameters["likelihood.sd"].reshape(-1, 1, 1) * Y.std(axis=0)
    each = stats.norm.logpdf(y, p.samples, noise).sum(axis=2)
    expected = np.log(np.mean(np.exp(each - each.max(axis=0)), axis=0)) + each.max(axis=0)
    np.testing.assert_allclose(p.log_predictive(y), expected, rtol=1e-4, atol=1e-4)
    tree = ours.to_arviz()
    np.testing.assert_allclose(tree.observed_data["y"], Y)
    f = ours.predict(X).samples.reshape(2, 20, 30, 2)
    noise = noise.reshape(2, 20, 1, 2)
    rows = stats.norm.logpdf(Y, f, noise).sum(axis=3)
    np.testing.assert_allclose(tree.log_likelihood["y"], rows, rtol=1e-3, atol=1e-3)
    assert np.all(np.abs(tree.posterior_predictive["y"][..., 0] - 500) < 1000)


def test_scores_and_reports_are_in_the_units_of_the_user(both):
    ours, _ = both
    scores = ours.evaluate(X, Y)
    np.testing.assert_allclose(scores.rmse, np.sqrt(np.mean((ours.predict(X).mean - Y) ** 2, 0)))
    posterior = tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize=True)
    validation = (NEW, Y[::3])
    ensemble = tb.sample(
        posterior, **OPTIONS, metrics=[tb.MeanSquaredError()], validation=validation
    )
    last = [report for report in ensemble.reports if report["chain"] == 1][-1]
    for kind, x, y in (("training", X, Y), ("validation", *validation)):
        f = ensemble.predict(x).samples[-1]
        assert last[f"{kind}.mean_squared_error"] == pytest.approx(np.mean((f - y) ** 2), rel=1e-4)


def test_a_run_keeps_its_scaling_and_the_data_of_the_user(tmp_path):
    posterior = tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize=True)
    ensemble = tb.sample(posterior, **OPTIONS, path=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "run.json").read_text())["scaling"]
    assert kept["x_shift"] == list(posterior.scaling.x_shift)
    loaded = tb.load(tmp_path / "run")
    assert loaded.scaling == posterior.scaling
    np.testing.assert_array_equal(loaded.predict(NEW).mean, ensemble.predict(NEW).mean)
    np.testing.assert_array_equal(loaded._store.data()["x"], X)
    longer = tb.resume(tmp_path / "run", draws=30, progress=False)
    straight = tb.sample(posterior, **(OPTIONS | {"draws": 30}))
    np.testing.assert_array_equal(longer.predict(NEW).samples, straight.predict(NEW).samples)
    unscaled = tb.Posterior(NETWORK, tb.Gaussian(), X, Y, dtype="float32")
    with pytest.raises(ValueError, match=r"`(data|scaling)` is .* in the run .*, but you gave"):
        tb.resume(tmp_path / "run", draws=40, posterior=unscaled)


def test_a_scaling_can_be_given_and_shared():
    scaling = standardization(X, Y, targets=True)
    prior = tb.Posterior(NETWORK, tb.Gaussian(), standardize=scaling)
    shapes = {name: each.shape for name, each in NETWORK.parameters.items()}
    named = {name: np.zeros((2, 5, *shape)) for name, shape in shapes.items()}
    for entry in prior.model.phi.entries:
        named[entry.name] = np.ones((2, 5))
    mean = ensemble_of(prior, named).predict(NEW).mean
    np.testing.assert_allclose(mean, np.tile(Y.mean(axis=0), (10, 1)))


@pytest.mark.filterwarnings("ignore:these weights can.t be trusted")  # a short run: ratios only
def test_re_weighting_is_in_the_units_of_the_model(both):
    ours, theirs = both
    for ensemble in both:
        assert ensemble.hyperparameters["likelihood.sd"].max() < 2
    other = tb.Gaussian(sd=tb.Hyper(0.2, tb.HalfNormal(0.5)))
    w, v = ours.reweight(likelihood=other), theirs.reweight(likelihood=other)
    np.testing.assert_allclose(w._weights.log_ratios, v._weights.log_ratios, atol=1e-4)


def test_labels_are_not_scaled():
    network = tb.Network(tb.Dense(1), inputs=3)
    posterior = tb.Posterior(network, tb.Bernoulli(), X, X[:, 0] > 20, standardize=True)
    assert posterior.scaling.y_scale == ()
    np.testing.assert_array_equal(posterior._arrays.targets[0], X[:, 0] > 20)


def test_pretraining_is_on_scaled_data():
    x, y, _ = by_hand()
    options = {"chains": 1, "cycles": 1, "epochs": 5, "progress": False}
    scaled = tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize=True)
    given = tb.Posterior(NETWORK, tb.Gaussian(), x, y)
    ours = tb.pretrain(scaled, validation=(X, Y), **options)
    theirs = tb.pretrain(given, validation=(x, y), **options)
    np.testing.assert_allclose(ours.validation_loss, theirs.validation_loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Scaling(x_shift=(1.0,)), "`x_shift` has 1 numbers but `x_scale` 0"),
        (lambda: tb.Scaling((0.0,), (0.0,)), "`x_scale` of a Scaling must be positive"),
        (lambda: tb.Scaling((np.nan,), (1.0,)), "`x_shift` of a Scaling must be finite"),
        (
            lambda: tb.Posterior(NETWORK, tb.Gaussian(), standardize=True),
            "needs data: give `x` and `y`",
        ),
        (
            lambda: tb.Posterior(NETWORK, tb.Gaussian(), standardize=tb.Scaling((0.0,), (1.0,))),
            "scales 1 columns of `x`, but the network has 3",
        ),
        (
            lambda: tb.Posterior(
                tb.Network(tb.Dense(1), inputs=1),
                tb.Bernoulli(),
                standardize=tb.Scaling((), (), (0.0,), (1.0,)),
            ),
            "those of a Bernoulli likelihood are no real numbers",
        ),
        (
            lambda: tb.Posterior(NETWORK, tb.Gaussian(), X, Y[:, :1], standardize=True),
            "`y` has 1 columns but the network has 2 outputs",
        ),
        (
            lambda: tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize=True)._prepare(
                tb.Dataset(X, Y[:, :1])
            ),
            "`y` has 1 columns, but 2 were standardized",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_a_column_that_can_not_be_standardized_is_named(factor):
    message = r"column 2 of `x` can't be standardized: it goes from .* to .*, but its standard dev"
    with pytest.raises(ValueError, match=message):
        tb.Posterior(NETWORK, tb.Gaussian(), X * [1.0, 1.0, factor * 1e-9], Y, standardize=True)
    message = r"column 1 of `y` can't be .* between 1e-75 and 1e\+75; give it in another unit"
    with pytest.raises(ValueError, match=message):
        tb.Posterior(NETWORK, tb.Gaussian(), X, Y * [1.0, factor], standardize=True)


def test_a_constant_column_may_have_any_value():
    rows = np.column_stack([np.full(40, 1e308), np.arange(40.0)])
    assert standardization(rows, rows, targets=False).x_shift[0] == 1e308


def test_standardize_must_be_a_choice():
    with pytest.raises(TypeError, match=r"`standardize` must be True, False or a tb.Scaling"):
        tb.Posterior(NETWORK, tb.Gaussian(), X, Y, standardize="yes")
