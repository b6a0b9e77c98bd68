"""Targets with a known standard deviation each, against SciPy and against `Gaussian`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.model.rows import RowLikelihood
from tensorbnn.model.summary import summary
from tensorbnn.posterior import precision
from tensorbnn.report.context import read_context
from tensorbnn.report.predictions import calibration_section, predictions_section
from tensorbnn.storage.manifest import describe, restore

RNG = np.random.default_rng(0)
ROWS = 7
X = RNG.normal(size=(ROWS, 2))
Y = 3 + 2 * RNG.normal(size=(ROWS, 2))
SD = RNG.uniform(0.2, 3, size=(ROWS, 2))
UNKNOWN = (
    r"does not know the standard deviation of a new measurement: use predictions without noise"
)


def network(outputs):
    return tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(outputs), inputs=2)


def made(likelihood, y, y_sd=None, *, outputs=1, x=X, **options):
    rows = {"y_sd": y_sd, "dtype": "float64"}
    return tb.Posterior(network(outputs), likelihood, x, y, **rows, **options)


def vectors(posterior):
    rng = np.random.default_rng(1)
    return rng.normal(size=posterior.num_parameters), rng.normal(size=posterior.num_hyperparameters)


def expected_outputs(posterior, theta):
    """In the user's units, ``(rows, outputs)``."""
    own = posterior.unflatten(theta)
    inside = posterior.scaling.inputs(X, "float64")
    hidden = np.tanh(inside @ own["dense_0.weights"] + own["dense_0.biases"])
    return posterior.scaling.natural(hidden @ own["dense_1.weights"] + own["dense_1.biases"])


@pytest.mark.parametrize("engine", ["jax", "auto"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_log_likelihood(outputs, standardize, engine):
    """Per row in the user's units, whatever the scaling."""
    y, sd = Y[:, :outputs], SD[:, :outputs]
    likelihood = tb.MeasuredGaussian(tb.Hyper(1.3))
    options = {"outputs": outputs, "standardize": standardize, "engine": engine}
    posterior = made(likelihood, y, sd, **options)
    theta, phi = vectors(posterior)
    factor = posterior.unflatten_hyperparameters(phi)["likelihood.factor"]
    expected = stats.norm.logpdf(y, expected_outputs(posterior, theta), factor * sd).sum()
    found = posterior.log_likelihood(theta, phi) + ROWS * posterior.scaling.log_jacobian
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("standardize", [False, True])
def test_equal_deviations_are_one_gaussian(standardize):
    """Values and gradients, that of the factor, too."""
    same = made(tb.MeasuredGaussian(tb.Hyper(1.0)), Y[:, 0], np.full(ROWS, 0.7),
                standardize=standardize)  # fmt: skip
    sd = 0.7 / (same.scaling.y_scale or (1.0,))[0]
    prior = tb.LogNormal(np.log(sd), 1.0)  # that of the factor, times the sd
    plain = made(tb.Gaussian(tb.Hyper(sd, prior)), Y[:, 0], standardize=standardize)
    assert same.scaling == plain.scaling
    theta, phi = vectors(same)
    hypers = same.unflatten_hyperparameters(phi)
    hypers["likelihood.sd"] = sd * hypers.pop("likelihood.factor")
    value, gradients = same.value_and_grad(theta, phi)
    expected, others = plain.value_and_grad(theta, plain.flatten_hyperparameters(hypers))
    # The factor is log-normal around 1, the sd around its start: the densities differ by log(sd),
    # which is the Jacobian between them and cancels in log-coordinates.
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for ours, theirs in zip(gradients, others, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("standardize", [False, True])
def test_weights_of_measured_rows(standardize):
    """A row of integer weight counts as that many equal rows."""
    weights = np.array([2, 1, 0, 3, 1, 0, 1])
    again = np.repeat(np.arange(ROWS), weights)
    for y, sd, outputs in ((Y[:, 0], SD[:, 0], 1), (Y, SD, 2)):
        inside = tb.MeasuredGaussian(tb.Hyper(1.2))
        options = {"outputs": outputs, "standardize": standardize}
        weighted = made(inside, y, sd, sample_weight=weights, **options)
        repeated = made(inside, y[again], sd[again], x=X[again], **options)
        at = vectors(weighted)
        value, gradients = weighted.value_and_grad(*at)
        expected, others = repeated.value_and_grad(*at)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        for ours, theirs in zip(gradients, others, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@precision("float64")
def test_density_and_new_draws():
    likelihood = RowLikelihood(tb.MeasuredGaussian(factor=0.8), 2, False)
    outputs = jnp.asarray(Y.T + 0.3)
    targets = jnp.asarray(np.column_stack([Y, SD]).T)
    expected = stats.norm.logpdf(Y, Y + 0.3, 0.8 * SD).sum(axis=1)
    np.testing.assert_allclose(likelihood.log_density(outputs, targets), expected, rtol=1e-13)
    np.testing.assert_array_equal(likelihood.mean(outputs), outputs)
    # Draws measured in the same way: 20,000 of them have a mean and an sd within five errors.
    many = 20_000
    repeated = [jnp.repeat(each[:, 2:3], many, axis=1) for each in (outputs, targets)]
    draws = np.asarray(likelihood.sample_rows(jax.random.key(0), *repeated))
    sd = 0.8 * SD[2]
    assert np.all(np.abs(draws.mean(axis=1) - outputs[:, 2]) < 5 * sd / np.sqrt(many))
    assert np.all(np.abs(draws.std(axis=1) - sd) < 5 * sd / np.sqrt(2 * many))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:these weights can't be trusted")
@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_is_saved_scored_and_reported(tmp_path, weighted):
    """Everything that uses targets: metrics, scores, other models, ArviZ, reports."""
    y, sd, weights = Y[:, :1], SD[:, 0], np.array([2.0, 1.0, 0.5, 3.0, 1.0, 2.0, 1.0])
    likelihood = tb.MeasuredGaussian(tb.Hyper(1.0))
    powers = weights if weighted else None
    posterior = made(likelihood, y, sd, sample_weight=powers, standardize=True)
    tb.sample(
        posterior,
        tb.HMC(step_size=0.05, num_steps=5),
        chains=2,
        burn_in=5,
        draws=100,
        path=tmp_path / "run",
        metrics=[tb.MeanSquaredError()],
        validation=tb.Dataset(X, y, y_sd=sd, sample_weight=powers),
        progress=False,
    )
    loaded = tb.load(tmp_path / "run")
    assert loaded.likelihood == likelihood
    prediction = loaded.predict(X, progress=False)
    networks = prediction.samples[..., 0]
    factor = loaded.hyperparameters["likelihood.factor"].reshape(-1, 1)
    each = stats.norm.logpdf(y[:, 0], networks, factor * sd)

    last = [report for report in loaded.reports if report["chain"] == 0][-1]
    error = np.mean(np.square(networks[99] - y[:, 0]))
    np.testing.assert_allclose(last["training.mean_squared_error"], error, rtol=1e-6)
    np.testing.assert_allclose(last["validation.mean_squared_error"], error, rtol=1e-6)

    scores = loaded.evaluate(X, y, y_sd=sd, level=0.9, progress=False)
    log_score = np.mean(special.logsumexp(each, axis=0) - np.log(len(networks)))
    np.testing.assert_allclose(scores.log_score, log_score, rtol=1e-9)
    np.testing.assert_allclose(scores.rmse, np.sqrt(np.mean((prediction.mean - y) ** 2)))
    # New targets are measured as these were: a width of their 90 % is 3.29 sds of both together.
    # That of 200 draws is known to about 6 % for a row, 3 % for seven.
    total = np.sqrt(networks.var(axis=0) + np.mean(factor**2) * sd**2)
    np.testing.assert_allclose(scores.sharpness, 3.29 * total.mean(), rtol=0.2)
    assert scores.pit.shape == (ROWS, 1)

    powers = weights if weighted else 1.0
    tree = loaded.to_arviz(progress=False)
    np.testing.assert_array_equal(tree.observed_data["y"], y[:, 0])
    assert tree.posterior_predictive["y"].shape == (2, 100, ROWS)
    found = tree.log_likelihood["y"].to_numpy().reshape(200, ROWS)
    np.testing.assert_allclose(found, powers * each, rtol=1e-8, atol=1e-10)

    other = tb.MeasuredGaussian(1.1)
    again = loaded.reweight(likelihood=other, progress=False)
    under = stats.norm.logpdf(y[:, 0], networks, 1.1 * sd)
    expected = np.sum(powers * (under - each), axis=1)
    np.testing.assert_allclose(again._weights.log_ratios.ravel(), expected, rtol=1e-8, atol=1e-10)

    context = read_context(tmp_path / "run", progress=False)
    assert context.encoding.targets == ("y",)
    np.testing.assert_array_equal(context.judged.y, y)
    np.testing.assert_array_equal(context.judged.y_sd, sd[:, None])
    np.testing.assert_array_equal(context.data["y_sd"], sd[:, None])
    assert "of the data across, over networks upright" in str(predictions_section(context))
    assert "coverage" in str(calibration_section(context))


@pytest.fixture(scope="module")
def ensemble():
    posterior = made(tb.MeasuredGaussian(), Y[:, 0], SD[:, 0])
    return tb.sample(
        posterior,
        tb.HMC(step_size=0.05, num_steps=5),
        chains=2,
        burn_in=5,
        draws=20,
        progress=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda ensemble: ensemble.predict(X).sd_total,
        lambda ensemble: ensemble.predict(X).sd_noise,
        lambda ensemble: ensemble.predict(X).quantile(0.5, noise=True),
        lambda ensemble: ensemble.predict(X).interval(0.9, noise=True),
        lambda ensemble: ensemble.predict(X).density([0.0, 1.0], noise=True),
        lambda ensemble: ensemble.posterior_predictive(X),
    ],
)
def test_new_measurements_are_refused(ensemble, ask):
    with pytest.raises(ValueError, match=UNKNOWN):
        ask(ensemble)


def test_the_quantity_itself_is_predicted(ensemble):
    prediction = ensemble.predict(X, progress=False)
    np.testing.assert_allclose(prediction.mean, prediction.samples.mean(axis=0))
    np.testing.assert_allclose(prediction.sd, prediction.samples.std(axis=0), rtol=1e-9)
    lower, upper = prediction.interval(0.9, noise=False)
    assert np.all(lower < upper)
    assert not prediction.knows_noise


def test_scores_need_error_bars(ensemble):
    for ask in (ensemble.evaluate, lambda x, y: ensemble.predict(x).log_score(y)):
        with pytest.raises(tb.OptionError, match="`y_sd` must be given for a MeasuredGaussian"):
            ask(X, Y[:, 0])


def test_reweighting_to_scatter_on_top_of_the_error_bars(ensemble):
    networks = ensemble.predict(X, progress=False).samples.reshape(len(ensemble), -1)
    other = ensemble.reweight(likelihood=tb.Gaussian(0.1), progress=False)
    y, sd = Y[:, 0], SD[:, 0]
    under = stats.norm.logpdf(y, networks, np.hypot(0.1, sd)).sum(axis=1)
    expected = under - stats.norm.logpdf(y, networks, sd).sum(axis=1)
    np.testing.assert_allclose(other._weights.log_ratios.ravel(), expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(tb.OptionError, match="`y_sd` must be None for a StudentTNoise likelihood"):
        ensemble.reweight(likelihood=tb.StudentTNoise(), progress=False)


@pytest.mark.parametrize(
    ("y", "y_sd", "outputs", "message"),
    [
        (Y[:, 0], None, 1, "`y_sd` must be given for a MeasuredGaussian likelihood, got None"),
        (Y[:, 0], SD, 1, r"`y_sd` must have the shape of `y`, \(7,\), got \(7, 2\)"),
        (Y, SD[:, 0], 2, r"`y_sd` must have the shape of `y`, \(7, 2\), got \(7,\)"),
        (Y[:, 0], np.r_[-1.0, SD[1:, 0]], 1, "finite and positive in row 0, got -1"),
    ],
)
@pytest.mark.parametrize("standardize", [False, True])
def test_bad_error_bars(y, y_sd, outputs, message, standardize):
    with pytest.raises(tb.OptionError, match=message):
        made(tb.MeasuredGaussian(), y, y_sd, outputs=outputs, standardize=standardize)


def test_description():
    likelihood = tb.MeasuredGaussian(tb.Hyper(1.0))
    assert restore(describe(likelihood), {}) == likelihood
    assert list(likelihood.hypers()) == ["factor"]
    assert likelihood.real_targets
    assert not likelihood.knows_noise
    assert summary(likelihood) == "MeasuredGaussian(factor ~ around 1)"
    with pytest.raises(ValueError, match=r"`factor` of MeasuredGaussian must be positive, got -1"):
        tb.MeasuredGaussian(-1.0)
