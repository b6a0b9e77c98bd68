from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from tensorbnn.model.discrete import Bernoulli, Categorical, Poisson
from tensorbnn.model.hyper import Hyper, Number
from tensorbnn.model.layers import Exp, Sigmoid, Softmax
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.noise import HeteroscedasticGaussian, StudentTNoise
from tensorbnn.model.priors import HalfNormal
from tensorbnn.model.rows import RowLikelihood
from tensorbnn.posterior import precision


@dataclass(frozen=True)
class Exposed(Likelihood):
    """A user's own likelihood: counts with rate `exposure * exp(output)`."""

    exposure: Number = 1.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("exposure",)

    def log_density(self, outputs, targets):
        rate = self.mean(outputs)
        return (targets * jnp.log(rate) - rate - jax.scipy.special.gammaln(targets + 1)).sum(axis=0)

    def mean(self, outputs):
        return self.exposure * jnp.exp(outputs)

    def variance(self, outputs):
        return self.mean(outputs)


# Two outputs, three rows.
OUTPUTS = np.array([[0.3, -1.2, 2.0], [-0.4, 0.8, 1.5]])
REAL = np.array([[0.5, -1.0, 2.5], [0.0, 0.7, -1.5]])
BINARY = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
LABELS = np.array([1, 0, 1])
ONE_HOT = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
COUNTS = np.array([[0.0, 1.0, 7.0], [3.0, 0.0, 2.0]])


# Log-densities against SciPy.


@precision("float64")
def test_gaussian_log_density():
    expected = stats.norm.logpdf(REAL, OUTPUTS, 0.7).sum(axis=0)
    log_density = Gaussian(sd=0.7).log_density(jnp.asarray(OUTPUTS), jnp.asarray(REAL))
    np.testing.assert_allclose(log_density, expected, rtol=1e-13)


@precision("float64")
def test_bernoulli_log_density():
    expected = stats.bernoulli.logpmf(BINARY, special.expit(OUTPUTS)).sum(axis=0)
    log_density = Bernoulli().log_density(jnp.asarray(OUTPUTS), jnp.asarray(BINARY))
    np.testing.assert_allclose(log_density, expected, rtol=1e-13)


@precision("float64")
def test_categorical_log_density():
    probabilities = special.softmax(OUTPUTS, axis=0)
    expected = np.log(probabilities[LABELS, [0, 1, 2]])
    log_density = Categorical().log_density(jnp.asarray(OUTPUTS), jnp.asarray(ONE_HOT))
    np.testing.assert_allclose(log_density, expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bernoulli_is_finite_at_extreme_logits(dtype):
    logits, targets = np.array([[-200.0, -200.0, 200.0, 200.0]]), np.array([[0.0, 1.0, 0.0, 1.0]])
    with precision(dtype):
        arrays = jnp.asarray(logits, dtype), jnp.asarray(targets, dtype)
        log_density = Bernoulli().log_density(*arrays)
        gradient = jax.grad(lambda logits: Bernoulli().log_density(logits, arrays[1]).sum())(
            arrays[0]
        )
    # log sigmoid(-200) = -200 to within exp(-200)
    np.testing.assert_allclose(log_density, [0, -200, -200, 0], atol=1e-30)
    np.testing.assert_allclose(gradient, [[0, 1, -1, 0]], atol=1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_categorical_is_finite_at_extreme_logits(dtype):
    logits, targets = np.array([[-200.0, 200.0], [200.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])
    with precision(dtype):
        arrays = jnp.asarray(logits, dtype), jnp.asarray(targets, dtype)
        log_density = Categorical().log_density(*arrays)
        gradient = jax.grad(lambda logits: Categorical().log_density(logits, arrays[1]).sum())(
            arrays[0]
        )
    np.testing.assert_allclose(log_density, [-400, 0], atol=1e-30)
    np.testing.assert_allclose(gradient, [[1, 0], [-1, 0]], atol=1e-30)


# A width of the noise for each column, known or learned.

SDS, DFS = [0.7, 2.0], [4.0, 12.0]
BY_COLUMN = [
    (Gaussian(sd=SDS), lambda j: stats.norm(OUTPUTS[j], SDS[j])),
    (StudentTNoise(4.0, SDS), lambda j: stats.t(4.0, OUTPUTS[j], SDS[j])),
    (StudentTNoise(DFS, SDS), lambda j: stats.t(DFS[j], OUTPUTS[j], SDS[j])),
]


@pytest.mark.parametrize(
    ("likelihood", "scipy"), BY_COLUMN, ids=[str(each[0]) for each in BY_COLUMN]
)
@precision("float64")
def test_a_width_for_each_column(likelihood, scipy):
    outputs, targets = jnp.asarray(OUTPUTS), jnp.asarray(REAL)
    noises = [scipy(0), scipy(1)]
    expected = sum(noise.logpdf(y) for noise, y in zip(noises, REAL, strict=True))
    np.testing.assert_allclose(likelihood.log_density(outputs, targets), expected, rtol=1e-13)
    expected = [noise.cdf(y) for noise, y in zip(noises, REAL, strict=True)]
    np.testing.assert_allclose(likelihood.cdf(outputs, targets), expected, rtol=1e-12)
    expected = [noise.var() for noise in noises]
    np.testing.assert_allclose(likelihood.variance(outputs), expected, rtol=1e-13)


def test_widths_of_columns_have_names():
    learned = Hyper(0.5, HalfNormal(1.0))
    likelihood = Gaussian(sd=[0.1, learned])
    assert likelihood == Gaussian(sd=(0.1, learned))
    assert likelihood == Gaussian(sd=np.array([0.1, learned]))
    assert hash(likelihood) == hash(Gaussian(sd=(0.1, learned)))
    assert likelihood.numbers() == {"sd.0": 0.1, "sd.1": learned}
    assert likelihood.hypers() == {"sd.1": learned}
    assert likelihood.bind({"sd.1": 0.2}) == Gaussian(sd=[0.1, 0.2])
    assert likelihood.hypers() == {"sd.1": learned}  # as it was
    assert StudentTNoise([4, Hyper(3.0)], 0.1).hypers() == {"df.1": Hyper(3.0)}


@pytest.mark.parametrize(
    ("sd", "error", "message"),
    [
        ([], ValueError, r"`sd` of Gaussian is empty: give a number"),
        ([0.1, 0.0], ValueError, r"`sd\.1` of Gaussian must be positive, got 0\.0"),
        ([0.1, Hyper(-1.0)], ValueError, r"Hyper in `sd\.1` of Gaussian must be positive"),
        (
            [[0.1, 0.2]],
            TypeError,
            r"`sd\.0` of Gaussian must be a number, a prior .*got \[0\.1",
        ),
        (
            [0.1, "low"],
            TypeError,
            r"`sd\.1` of Gaussian must be a number, a prior .*got 'low'",
        ),
    ],
)
def test_widths_of_columns_must_be_positive_numbers(sd, error, message):
    with pytest.raises(error, match=message):
        Gaussian(sd=sd)


def test_widths_of_columns_are_as_many_as_columns():
    message = r"`sd` of Gaussian has 3 numbers, one for each column of `y`, but the network predict"
    for likelihood in (
        Gaussian([0.1, 0.2, 0.3]),
        RowLikelihood(Gaussian([0.1, 0.2, 0.3]), 3, True),
    ):
        assert likelihood.columns(3) == 3
        with pytest.raises(ValueError, match=message):
            likelihood.columns(2)


# The density sums to one, and mean and variance are its moments.


@precision("float64")
def test_gaussian_density_and_moments():
    gaussian = Gaussian(sd=0.3)
    outputs = jnp.asarray([[1.7]])

    @jax.jit
    def density(y):
        return jnp.exp(gaussian.log_density(outputs, y.reshape(1, 1)))[0]

    def moment(function):
        return integrate.quad(lambda y: function(y) * density(np.float64(y)), -3, 7)[0]

    mean, variance = gaussian.mean(outputs).item(), gaussian.variance(outputs).item()
    assert (mean, variance) == pytest.approx((1.7, 0.09), rel=1e-14)
    # The bounds are 15 sd away; the tolerance of quad is 1.5e-8.
    assert moment(lambda y: 1.0) == pytest.approx(1.0, abs=1e-7)
    assert moment(lambda y: y) == pytest.approx(mean, abs=1e-7)
    assert moment(lambda y: (y - mean) ** 2) == pytest.approx(variance, abs=1e-7)


@precision("float64")
def test_bernoulli_density_and_moments():
    outputs = jnp.asarray(OUTPUTS)
    pairs = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    mass = np.array(
        [
            np.exp(Bernoulli().log_density(outputs, jnp.asarray(np.tile(pair[:, None], 3))))
            for pair in pairs
        ]
    )
    mean = np.einsum("pr,po->or", mass, pairs)
    variance = np.einsum("pr,por->or", mass, (pairs[:, :, None] - mean) ** 2)
    np.testing.assert_allclose(mass.sum(axis=0), np.ones(3), rtol=1e-13)
    np.testing.assert_allclose(Bernoulli().mean(outputs), mean, rtol=1e-13)
    np.testing.assert_allclose(Bernoulli().variance(outputs), variance, rtol=1e-13)


@precision("float64")
def test_categorical_density_and_moments():
    outputs = jnp.asarray(np.vstack([OUTPUTS, [[0.1, -3.0, 1.0]]]))
    classes = np.eye(3)
    mass = np.array(
        [
            np.exp(Categorical().log_density(outputs, jnp.asarray(np.tile(one_hot[:, None], 3))))
            for one_hot in classes
        ]
    )
    np.testing.assert_allclose(mass.sum(axis=0), np.ones(3), rtol=1e-13)
    np.testing.assert_allclose(Categorical().mean(outputs), mass, rtol=1e-13)
    variance = np.einsum("cr,cor->or", mass, (classes[:, :, None] - mass) ** 2)
    np.testing.assert_allclose(Categorical().variance(outputs), variance, rtol=1e-12)


def test_probabilities_at_extreme_logits():
    logits = jnp.asarray([[-200.0, 200.0], [0.0, 0.0]])
    for likelihood in (Bernoulli(), Categorical()):
        mean, variance = likelihood.mean(logits), likelihood.variance(logits)
        np.testing.assert_array_equal(mean[0], [0, 1])
        np.testing.assert_array_equal(variance[0], [0, 0])


# One protocol, for every likelihood: with targets as a user gives them, and as they are used.
PROTOCOL = [
    (Gaussian(sd=0.5), REAL.T, REAL),
    (Bernoulli(), BINARY.T, BINARY),
    (Categorical(), LABELS[:, None], ONE_HOT),
    (Exposed(2.0), COUNTS.T, COUNTS),
    (Poisson(), COUNTS.T, COUNTS),
    (StudentTNoise(3.0, 0.5), REAL.T, REAL),
    (HeteroscedasticGaussian(), REAL[:1].T, REAL[:1]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("likelihood", "y", "targets"), [pytest.param(*case, id=str(case[0])) for case in PROTOCOL]
)
def test_likelihood_protocol(likelihood, y, targets, dtype):
    np.testing.assert_array_equal(likelihood.targets(y, 2).T, targets)

    @jax.jit
    def everything(outputs, targets):
        log_density, pull_back = jax.vjp(likelihood.log_density, outputs, targets)
        gradient, _ = pull_back(jnp.ones_like(log_density))
        alone = likelihood.log_density(outputs[:, 1:2], targets[:, 1:2])
        moments = likelihood.mean(outputs), likelihood.variance(outputs)
        return log_density, gradient, alone, *moments

    with precision(dtype):
        results = everything(jnp.asarray(OUTPUTS, dtype), jnp.asarray(targets, dtype))
    log_density, gradient, alone, mean, variance = map(np.asarray, results)
    assert {result.dtype for result in results} == {np.dtype(dtype)}
    assert all(np.all(np.isfinite(result)) for result in results)
    assert log_density.shape == (3,)
    assert gradient.shape == (2, 3)
    assert mean.shape == (likelihood.columns(2), 3)
    assert np.broadcast_shapes(variance.shape, mean.shape) == mean.shape
    assert np.all(variance > 0)
    # Rows do not touch one another.
    np.testing.assert_allclose(alone, log_density[1:2], rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("likelihood", [case[0] for case in PROTOCOL], ids=str)
def test_likelihood_is_a_value(likelihood):
    rebuilt = type(likelihood)(**vars(likelihood))
    assert rebuilt == likelihood
    assert hash(rebuilt) == hash(likelihood)
    assert likelihood.hypers() == {}


def test_noise_may_be_learned():
    noise = Hyper(0.1, HalfNormal(1.0))
    assert Gaussian(sd=noise).hypers() == {"sd": noise}
    assert Gaussian(sd=noise).bind({"sd": 0.2}) == Gaussian(sd=0.2)
    assert Exposed(Hyper(2.0)).hypers() == {"exposure": Hyper(2.0)}


def test_links():
    assert (Gaussian.link, Bernoulli.link, Categorical.link) == (None, Sigmoid, Softmax)
    assert (Poisson.link, StudentTNoise.link, HeteroscedasticGaussian.link) == (Exp, None, None)
    assert [each[0].predicts_classes for each in PROTOCOL[:5]] == [False, True, True, False, False]


def test_noise_is_a_tenth_by_default():
    assert Gaussian() == Gaussian(sd=0.1)


# Errors.


@pytest.mark.parametrize(
    "likelihood", [Gaussian(), Bernoulli(), Exposed(), Poisson(), StudentTNoise()], ids=str
)
def test_targets_need_one_column_per_output(likelihood):
    message = (
        r"`y` has 3 columns but the network has 2 outputs: "
        r"end the network in Dense\(3\), or give `y` with 2 columns"
    )
    with pytest.raises(ValueError, match=message):
        likelihood.targets(np.ones((4, 3)), 2)


@pytest.mark.parametrize(
    ("y", "shown"),
    [
        ([[0.0], [2.0], [1.0]], "2:"),
        ([[0.5], [-1.0], [1.0]], "-1, 0.5:"),
        ([[5.0], [4.0], [3.0], [2.0]], r"2, 3, 4, \.\.\.:"),
    ],
)
def test_targets_of_bernoulli_are_zero_and_one(y, shown):
    message = rf"`y` must hold only 0 and 1 for a Bernoulli likelihood, but has {shown} encode"
    with pytest.raises(ValueError, match=message):
        Bernoulli().targets(np.array(y), 1)


@pytest.mark.parametrize(
    ("y", "shown"), [([[0], [3]], "3"), ([[-1], [0]], "-1"), ([[0.5], [1.5]], "0.5, 1.5")]
)
def test_targets_of_categorical_are_labels(y, shown):
    message = rf"class labels 0 to 2 for a network with 3 outputs, but has {shown}$"
    with pytest.raises(ValueError, match=message):
        Categorical().targets(np.array(y), 3)


def test_targets_of_categorical_are_one_column():
    message = r"one column of class labels.*got 3 columns: use `y.argmax\(axis=1\)` for one-hot"
    with pytest.raises(ValueError, match=message):
        Categorical().targets(np.eye(3), 3)


def test_categorical_needs_two_outputs():
    with pytest.raises(ValueError, match=r"one output per class, at least 2, but this one has 1"):
        Categorical().targets(np.array([[0], [1]]), 1)


@pytest.mark.parametrize(
    ("sd", "error", "message"),
    [
        (0.0, ValueError, r"`sd` of Gaussian must be positive, got 0\.0"),
        (-0.1, ValueError, r"`sd` of Gaussian must be positive, got -0\.1"),
        (np.nan, ValueError, r"`sd` of Gaussian must be finite, got nan"),
        (True, TypeError, r"`sd` of Gaussian must be a number, a prior or a Hyper, got True"),
        ("0.1", TypeError, r"`sd` of Gaussian must be a number, a prior or a Hyper, got '0\.1'"),
        (Hyper(-1.0), ValueError, r"Hyper in `sd` of Gaussian must be positive, got -1\.0"),
    ],
)
def test_noise_must_be_a_positive_number(sd, error, message):
    with pytest.raises(error, match=message):
        Gaussian(sd=sd)


# New targets.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(sd=0.7),
        Bernoulli(),
        Categorical(),
        Poisson(),
        StudentTNoise(12.0, 0.7),
        HeteroscedasticGaussian(),
        Gaussian(sd=SDS),
        StudentTNoise([12.0, 20.0], SDS),
    ],
    ids=str,
)
def test_new_targets_have_the_likelihoods_moments(likelihood, dtype):
    """Means within five standard errors; the log-density accepts what was drawn."""
    draws = 20_000
    with precision(dtype):
        outputs = jnp.asarray(OUTPUTS, dtype)
        keys = jax.random.split(jax.random.key(0), draws)
        drawn = jax.vmap(lambda key: likelihood.sample(key, outputs))(keys)
        assert drawn.dtype == dtype
        targets = likelihood.targets(np.asarray(drawn[0].T), 2).T.astype(dtype)
        assert np.all(np.isfinite(likelihood.log_density(outputs, jnp.asarray(targets))))
        mean = np.asarray(likelihood.mean(outputs), np.float64)
        sd = np.sqrt(np.broadcast_to(likelihood.variance(outputs), mean.shape))
    found = np.asarray(drawn, np.float64)
    if isinstance(likelihood, Categorical):
        assert found.shape == (draws, 1, 3)
        found = found == np.arange(2)[:, None]
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - mean), 5 * sd / np.sqrt(draws))
    np.testing.assert_allclose(found.std(axis=0), sd, rtol=0.05)


def test_a_likelihood_without_sample_has_a_clear_error():
    with pytest.raises(NotImplementedError, match="Exposed can't draw new targets: define its"):
        Exposed().sample(jax.random.key(0), jnp.asarray(OUTPUTS))
