"""Predictions against plain NumPy, in one block or in many, and the mistakes a user can make."""

import tracemalloc

import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.ensemble import prediction as prediction_module
from tests.ensemble.made import coefficients, ensemble_of, linear
from tests.sampled import sample_run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
NEW = RNG.normal(size=(45, 2))


def sampled(last, likelihood, y, **options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), *last, inputs=2)
    posterior = tb.Posterior(network, likelihood, X, y, **options)
    return sample_run(
        posterior, chains=3, burn_in=50, draws=17, networks_per_file=5, progress=False
    )


def outputs_by_hand(ensemble, x):
    """Outputs ``(networks, rows, outputs)`` in plain NumPy, before any link."""
    p = {name: value.reshape(-1, *value.shape[2:]) for name, value in ensemble.parameters.items()}
    h = np.tanh(x @ p["dense_0.weights"] + p["dense_0.biases"][:, None])
    return h @ p["dense_1.weights"] + p["dense_1.biases"][:, None]


@pytest.fixture(scope="module")
def gaussian():
    y = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    return sampled([tb.Dense(2)], tb.Gaussian(sd=tb.Hyper(0.3)), y, dtype="float64")


@pytest.fixture(scope="module")
def bernoulli():
    return sampled([tb.Dense(1), tb.Sigmoid()], tb.Bernoulli(), X[:, 0] > 0)


@pytest.fixture(scope="module")
def categorical():
    labels = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    return sampled([tb.Dense(3), tb.Softmax()], tb.Categorical(), labels)


@pytest.fixture(params=[None, 1], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    """Run a test with all rows in one block, and again with blocks of 16 rows."""
    if request.param:
        monkeypatch.setattr(prediction_module, "BLOCK_BYTES", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
def test_gaussian_statistics(gaussian):
    p = gaussian.predict(NEW)
    f = outputs_by_hand(gaussian, NEW)
    sd = gaussian.hyperparameters["likelihood.sd"].ravel()
    assert (p.num_samples, p.num_rows) == (51, 45)
    np.testing.assert_allclose(p.samples, f, rtol=1e-10)
    np.testing.assert_allclose(p.mean, f.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(p.sd, f.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(p.sd_noise, np.full((45, 2), np.sqrt(np.mean(sd**2))), rtol=1e-10)
    np.testing.assert_allclose(p.sd_total**2, f.var(axis=0) + np.mean(sd**2), rtol=1e-10)
    np.testing.assert_allclose(
        p.quantile(0.9, noise=False), np.quantile(f, 0.9, axis=0), rtol=1e-10
    )
    np.testing.assert_allclose(
        p.quantile([0.1, 0.5], noise=False), np.quantile(f, [0.1, 0.5], axis=0), rtol=1e-10
    )
    lower, upper = p.interval(0.8, noise=False)
    np.testing.assert_allclose(lower, np.quantile(f, 0.1, axis=0), rtol=1e-10)
    np.testing.assert_allclose(upper, np.quantile(f, 0.9, axis=0), rtol=1e-10)


@pytest.mark.usefixtures("blocks")
def test_log_score_is_that_of_the_mixture(gaussian):
    y = RNG.normal(size=(45, 2))
    f = outputs_by_hand(gaussian, NEW)
    sd = gaussian.hyperparameters["likelihood.sd"].reshape(-1, 1, 1)
    each = stats.norm.logpdf(y, f, sd).sum(axis=2)
    expected = special.logsumexp(each, axis=0) - np.log(51)
    p = gaussian.predict(NEW)
    np.testing.assert_allclose(p.log_predictive(y), expected, rtol=1e-10)
    assert p.log_score(y) == pytest.approx(expected.mean(), rel=1e-10)


@pytest.mark.usefixtures("blocks")
def test_density_is_a_normalized_histogram(gaussian):
    edges = np.array([-10.0, -1.0, 0.0, 0.25, 1.0, 10.0])
    density = gaussian.predict(NEW).density(edges, noise=False)
    assert density.shape == (45, 2, 5)
    np.testing.assert_allclose((density * np.diff(edges)).sum(axis=-1), 1.0, rtol=1e-12)
    values = outputs_by_hand(gaussian, NEW)[:, 7, 1]
    np.testing.assert_allclose(
        density[7, 1], np.histogram(values, edges, density=True)[0], rtol=1e-12
    )


@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
def test_bernoulli_predicts_probabilities(bernoulli):
    p = bernoulli.predict(NEW)
    probability = special.expit(outputs_by_hand(bernoulli, NEW))[..., 0]
    np.testing.assert_allclose(p.samples, probability, rtol=2e-5, atol=1e-6)
    mean = probability.mean(axis=0)
    # A 0/1 target has the variance of its mean probability, however that is split.
    np.testing.assert_allclose(p.sd_total, np.sqrt(mean * (1 - mean)), rtol=1e-4)
    targets = NEW[:, 0] > 0
    expected = np.log(np.where(targets, mean, 1 - mean))
    np.testing.assert_allclose(p.log_predictive(targets), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
def test_categorical_predicts_probabilities(categorical):
    p = categorical.predict(NEW)
    probability = special.softmax(outputs_by_hand(categorical, NEW), axis=2)
    np.testing.assert_allclose(p.samples, probability, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(p.mean.sum(axis=1), 1.0, rtol=1e-5)
    labels = np.arange(45) % 3
    expected = np.log(probability.mean(axis=0)[np.arange(45), labels])
    np.testing.assert_allclose(p.log_predictive(labels), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("every", [2, 5, 17, 100])
def test_views_are_some_of_the_draws_and_chains(gaussian, every):
    f = outputs_by_hand(gaussian, NEW).reshape(3, 17, 45, 2)
    for view, expected in (
        (gaussian.thin(every), f[:, ::every]),
        (gaussian.discard(3).thin(every), f[:, 3::every]),
        (gaussian.thin(2).thin(every).sel(chain=2), f[2:, :: 2 * every]),
        (gaussian.sel(chain=[2, 0]).thin(every), f[[2, 0]][:, ::every]),
        (gaussian.sel(chain=[2, 1]).sel(chain=1).discard(every % 17), f[[1], every % 17 :]),
    ):
        p, (chains, draws) = view.predict(NEW), expected.shape[:2]
        assert (view.num_chains, view.num_draws, len(view)) == (chains, draws, chains * draws)
        np.testing.assert_allclose(p.samples, expected.reshape(-1, 45, 2), rtol=1e-10)
        np.testing.assert_allclose(p.samples_by_chain, expected, rtol=1e-10)
        np.testing.assert_array_equal(p.x, NEW)


def test_views_share_the_draws_and_choose_all_that_belongs_to_them(gaussian):
    view = gaussian.discard(2).thin(3).sel(chain=[0, 2])
    assert view._store is gaussian._store
    for name in ("parameters", "hyperparameters", "sample_stats"):
        for key, values in getattr(gaussian, name).items():
            np.testing.assert_array_equal(getattr(view, name)[key], values[[0, 2], 2::3])
    assert len(gaussian) == 51


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.thin(0), "`n` must be a whole number of at least 1, got 0"),
        (lambda e: e.discard(-1), "`n` must be a whole number of at least 0, got -1"),
        (lambda e: e.discard(17), "`n` must be below the number of draws a chain, which is 17"),
        (lambda e: e.sel(chain=3), "`chain` must be numbers of chains, from 0 to 2, got 3"),
        (lambda e: e.sel(chain=[0, -1]), "`chain` must be numbers of chains, from 0 to 2"),
        (lambda e: e.sel(chain=[]), "`chain` must be numbers of chains, from 0 to 2"),
        (lambda e: e.sel(chain="0"), "`chain` must be numbers of chains, from 0 to 2"),
        (lambda e: e.sel(chain=[1, 1]), r"`chain` must be different .*got \[1, 1\]"),
    ],
)
def test_bad_views(gaussian, call, message):
    with pytest.raises(tb.OptionError, match=message):
        call(gaussian)


@pytest.mark.slow
def test_one_input_may_be_given_as_a_flat_array():
    network = tb.Network(tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(), [0.0, 1.0], [0.0, 1.0])
    ensemble = tb.sample(posterior, chains=1, burn_in=5, draws=5, progress=False)
    flat, column = ensemble.predict([0.5, 2.0]), ensemble.predict([[0.5], [2.0]])
    np.testing.assert_array_equal(flat.mean, column.mean)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_rows(gaussian, monkeypatch):
    monkeypatch.setattr(prediction_module, "BLOCK_BYTES", 2**20)

    def peak(rows):
        x = np.ones((rows, 2))
        tracemalloc.start()
        answer = gaussian.predict(x, progress=False).interval(0.9, noise=False)[0]
        extra = tracemalloc.get_traced_memory()[1] - 4 * answer.nbytes - x.nbytes
        tracemalloc.stop()
        return extra

    peak(20_000)
    small, large = peak(20_000), peak(200_000)
    assert 200_000 * 51 * 2 * 8 > 2**27  # all networks for all rows would take 160 MB
    assert large < 2 * small + 2**20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.predict(np.ones((3, 4))), "`x` has 4 columns but the network has 2 inputs"),
        (lambda e: e.predict([[1.0, np.nan]]), "`x` must be finite.*row 0, column 1"),
        (lambda e: e.predict(np.ones((0, 2))), "`x` is empty"),
        (lambda e: e.predict(NEW).quantile(1.5), "`probability` must lie between 0 and 1, got 1.5"),
        (lambda e: e.predict(NEW).quantile([]), "`probability` must lie between 0 and 1"),
        (lambda e: e.predict(NEW).interval(95), "`level` must lie between 0 and 1.*got 95"),
        (lambda e: e.predict(NEW).density([0.0]), "`edges` must be at least two increasing"),
        (lambda e: e.predict(NEW).density([1.0, 0.0]), "`edges` must be at least two increasing"),
        (lambda e: e.predict(NEW).log_score(np.ones((45, 1))), "`y` has 1 columns"),
        (lambda e: e.predict(NEW).log_score(np.ones((3, 2))), "`x` has 45 rows but `y` has 3"),
    ],
)
def test_bad_input(gaussian, call, message):
    with pytest.raises(ValueError, match=message):
        call(gaussian)


@pytest.mark.slow
@pytest.mark.usefixtures("blocks")
def test_quantiles_and_densities_of_new_targets_are_those_of_the_mixture(gaussian):
    p = gaussian.predict(NEW)
    f = outputs_by_hand(gaussian, NEW)
    sd = gaussian.hyperparameters["likelihood.sd"].reshape(-1, 1, 1)

    def mixture_cdf(y):
        return stats.norm.cdf(y, f, sd).mean(axis=0)

    found = p.quantile([0.025, 0.5, 0.975], noise=True)
    assert found.shape == (3, 45, 2)
    for probability, each in zip((0.025, 0.5, 0.975), found, strict=True):
        np.testing.assert_allclose(mixture_cdf(each), probability, rtol=1e-9)
    np.testing.assert_array_equal(p.quantile(0.5), found[1])
    lower, upper = p.interval()
    np.testing.assert_allclose(lower, found[0], rtol=1e-9)
    np.testing.assert_allclose(upper, found[2], rtol=1e-9)
    edges = np.array([-2.0, 0.0, 0.5, 3.0])
    density = p.density(edges)
    assert density.shape == (45, 2, 3)
    expected = mixture_cdf(0.5) - mixture_cdf(0.0)
    np.testing.assert_allclose(density[..., 1] * 0.5, expected, rtol=1e-9, atol=1e-14)


def test_noise_of_a_million_to_one(gaussian):
    """Far tails, where the first interval of the bisection is widest."""
    p = gaussian.predict(NEW[:2])
    f = outputs_by_hand(gaussian, NEW[:2])
    sd = gaussian.hyperparameters["likelihood.sd"].reshape(-1, 1, 1)
    found = p.quantile([1e-6, 1 - 1e-6], noise=True)
    np.testing.assert_allclose(stats.norm.cdf(found[0], f, sd).mean(axis=0), 1e-6, rtol=1e-6)
    np.testing.assert_allclose(stats.norm.sf(found[1], f, sd).mean(axis=0), 1e-6, rtol=1e-6)


@pytest.mark.usefixtures("blocks")
def test_new_targets_of_very_many_networks():
    """Their shares are small: in float32 a plain sum of them would be off by 0.001."""
    posterior = tb.Posterior(linear(tb.Normal(0, 1), tb.Normal(0, 1)), tb.Gaussian(sd=0.3))
    draws = np.random.default_rng(0).normal(size=(100_000, 2)).astype(np.float32)
    p = ensemble_of(posterior, coefficients(draws)).predict([0.5], progress=False)
    means = p.samples[:, 0, 0].astype(np.float64)
    for wanted in (0.025, 0.5, 0.975, 0.9999):
        value = p.quantile(wanted, noise=True).item()
        # Weights are logarithms of about -12 in float32, which has seven digits.
        assert stats.norm.cdf(value, means, 0.3).mean() == pytest.approx(wanted, abs=3e-6)
    assert p.density([-50.0, 50.0], noise=True).item() * 100 == pytest.approx(1, abs=3e-6)


def test_entropy_and_mutual_information(categorical, bernoulli):
    probability = special.softmax(outputs_by_hand(categorical, NEW), axis=2)
    p = categorical.predict(NEW)
    whole = stats.entropy(probability.mean(axis=0), axis=1)
    own = stats.entropy(probability, axis=2).mean(axis=0)
    np.testing.assert_allclose(p.entropy, whole, rtol=1e-4)
    np.testing.assert_allclose(p.mutual_information, whole - own, rtol=1e-2, atol=1e-5)
    one = special.expit(outputs_by_hand(bernoulli, NEW))[..., 0]
    both = np.stack([one, 1 - one])
    p = bernoulli.predict(NEW)
    whole = stats.entropy(both.mean(axis=1), axis=0)
    assert p.entropy.shape == p.mutual_information.shape == (45,)
    np.testing.assert_allclose(p.entropy, whole, rtol=1e-4)
    own = stats.entropy(both, axis=0).mean(axis=0)
    np.testing.assert_allclose(p.mutual_information, whole - own, rtol=1e-2, atol=1e-5)


def test_what_a_likelihood_does_not_have(gaussian, bernoulli):
    with pytest.raises(ValueError, match=r"are of classes, but the targets of a Gaussian .*numb"):
        gaussian.predict(NEW).entropy  # noqa: B018
    with pytest.raises(ValueError, match="are of classes"):
        gaussian.predict(NEW).mutual_information  # noqa: B018
    with pytest.raises(NotImplementedError, match=r"Bernoulli does not have: define its `cdf"):
        tb.Bernoulli().cdf(np.zeros(1), np.zeros(1))
    # Probabilities have no additional noise.
    p = bernoulli.predict(NEW)
    np.testing.assert_array_equal(p.quantile(0.3), p.quantile(0.3, noise=False))
    np.testing.assert_array_equal(p.density([0, 1]), p.density([0, 1], noise=False))
    with pytest.raises(ValueError, match="must lie within 0 and 1, or use noise=False"):
        gaussian.predict(NEW).quantile(1.0, noise=True)
