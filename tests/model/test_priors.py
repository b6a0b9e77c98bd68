import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from tensorbnn.model.catalog import PRIORS
from tensorbnn.model.hyper import Hyper, Interval, Number, Prior, transform
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.priors import (
    Cauchy,
    Exponential,
    Gamma,
    GammaPrecision,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
    Uniform,
)
from tensorbnn.posterior import precision


@dataclass(frozen=True)
class Gumbel(Prior):
    """A user's own prior, with only the required methods."""

    loc: Number = 0.0
    scale: Number = 1.0
    positive_arguments: ClassVar[tuple[str, ...]] = ("scale",)

    def log_density(self, value):
        z = (value - self.loc) / self.scale
        return -z - jnp.exp(-z) - jnp.log(self.scale)

    def sample(self, key, shape):
        return self.loc + self.scale * jax.random.gumbel(key, shape)


class _InverseChi(stats.rv_continuous):
    """1 / sqrt(g) for a gamma variable g of shape a and mean 1; SciPy has it by no name."""

    def _logpdf(self, x, a):
        return a * np.log(a) - special.gammaln(a) + np.log(2) - (2 * a + 1) * np.log(x) - a / x**2

    def _pdf(self, x, a):
        return np.exp(self._logpdf(x, a))

    def _cdf(self, x, a):
        return special.gammaincc(a, a / x**2)

    def _ppf(self, q, a):
        return np.sqrt(a / special.gammainccinv(a, q))


inverse_chi = _InverseChi(a=0.0)


# Each prior with the same distribution in SciPy.
LIBRARY_PRIORS = [
    (Normal(), stats.norm()),
    (Normal(2, 3), stats.norm(2, 3)),
    (Normal(-1.5, 0.1), stats.norm(-1.5, 0.1)),
    (Cauchy(), stats.cauchy()),
    (Cauchy(0.3, 0.5), stats.cauchy(0.3, 0.5)),
    (StudentT(), stats.t(3)),
    (StudentT(5.0, 1, 2), stats.t(5, 1, 2)),
    (StudentT(0.7, -1.0, 0.2), stats.t(0.7, -1.0, 0.2)),
    (Laplace(), stats.laplace()),
    (Laplace(-2, 0.4), stats.laplace(-2, 0.4)),
    (Exponential(), stats.expon()),
    (Exponential(0.3), stats.expon(scale=1 / 0.3)),
    (Exponential(20), stats.expon(scale=1 / 20)),
    (LogNormal(), stats.lognorm(1)),
    (LogNormal(math.log(0.1), 0.5), stats.lognorm(0.5, scale=0.1)),
    (HalfNormal(), stats.halfnorm()),
    (HalfNormal(0.2), stats.halfnorm(scale=0.2)),
    (HalfCauchy(), stats.halfcauchy()),
    (HalfCauchy(0.2), stats.halfcauchy(scale=0.2)),
    (Gamma(), stats.gamma(1)),
    (Gamma(1.5, 3.0), stats.gamma(1.5, scale=1 / 3)),
    (Gamma(20.0, 5.0), stats.gamma(20, scale=0.2)),
    (InverseGamma(), stats.invgamma(1)),
    (InverseGamma(3.0, 0.5), stats.invgamma(3, scale=0.5)),
    (Uniform(), stats.uniform()),
    (Uniform(-2.0, 3.0), stats.uniform(-2, 5)),
    (GammaPrecision(), inverse_chi(0.5)),
    (GammaPrecision(0.05, 6.0), inverse_chi(3.0, scale=0.05)),
]
ALL_PRIORS = [*LIBRARY_PRIORS, (Gumbel(0.5, 2.0), stats.gumbel_r(0.5, 2.0))]
POSITIVE_ARGUMENTS = [(cls, name) for cls in PRIORS for name in cls.positive_arguments]
ALL_ARGUMENTS = [(cls, name) for cls in PRIORS for name in cls.arguments()]


all_priors = pytest.mark.parametrize(
    ("prior", "truth"), [pytest.param(*case, id=str(case[0])) for case in ALL_PRIORS]
)


# One protocol, for every prior.


@all_priors
@precision("float64")
def test_log_density_is_that_of_scipy(prior, truth):
    values = truth.ppf(np.linspace(1e-5, 1 - 1e-5, 41))
    log_density = prior.log_density(jnp.asarray(values))
    assert log_density.dtype == "float64"
    np.testing.assert_allclose(log_density, truth.logpdf(values), rtol=1e-12, atol=1e-12)


@all_priors
def test_log_density_in_float32(prior, truth):
    values = truth.ppf(np.linspace(1e-3, 1 - 1e-3, 41)).astype("float32")
    log_density = prior.log_density(jnp.asarray(values))
    assert log_density.dtype == "float32"
    # Some ten roundings of numbers below ten.
    np.testing.assert_allclose(log_density, truth.logpdf(np.float64(values)), rtol=1e-5, atol=1e-5)


def test_arguments_may_be_whole_numbers():
    value = jnp.asarray(0.7)
    for cls in PRIORS:
        numbers = dict.fromkeys(cls.arguments(), 2) | ({"low": 1} if cls is Uniform else {})
        whole, real = cls(**numbers), cls(**{name: float(each) for name, each in numbers.items()})
        assert whole.log_density(value) == real.log_density(value)
        assert whole == real


@all_priors
@precision("float64")
def test_density_integrates_to_one(prior, truth):
    density = jax.jit(lambda value: jnp.exp(prior.log_density(value)))
    lowest, highest = truth.support()
    below = integrate.quad(density, lowest, truth.median(), epsabs=1e-10)[0]
    above = integrate.quad(density, truth.median(), highest, epsabs=1e-10)[0]
    assert below + above == pytest.approx(1, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@all_priors
def test_draws_have_the_distribution_of_the_density(prior, truth, dtype):
    with precision(dtype):
        draws = np.asarray(prior.sample(jax.random.key(1), (200, 100)))
    assert draws.shape == (200, 100)
    assert draws.dtype == dtype
    assert stats.kstest(draws.ravel(), truth.cdf).pvalue > 1e-4


@all_priors
def test_draws_stay_in_the_support(prior, truth):
    draws = np.asarray(prior.sample(jax.random.key(2), (200, 100)))
    assert np.all(np.isfinite(draws))
    # SciPy returns a density of zero there; the prior has a support.
    low, high = truth.support()
    kind = "positive" if low == 0 else "real"
    assert prior.support == (kind if high == np.inf else Interval(low, high))
    assert np.all((draws > low) & (draws < high))


@all_priors
@precision("float64")
def test_gradient_is_that_of_central_differences(prior, truth):
    values = truth.ppf(np.linspace(0.01, 0.985, 41))
    gradient = jax.grad(lambda value: prior.log_density(value).sum())(jnp.asarray(values))
    step = 1e-5 * truth.ppf(0.75)  # the curvature of the density goes with its width
    above = prior.log_density(jnp.asarray(values + step))
    below = prior.log_density(jnp.asarray(values - step))
    # Rounding of the values, about 10 eps, is divided by the step.
    tolerance = 10 * np.finfo("float64").eps / abs(step)
    np.testing.assert_allclose(gradient, (above - below) / (2 * step), rtol=1e-6, atol=tolerance)


@all_priors
@precision("float64")
def test_arguments_may_be_one_number_per_element(prior, truth):
    values = truth.ppf(np.linspace(1e-3, 1 - 1e-3, 41))
    arrays = {name: jnp.full(41, float(getattr(prior, name))) for name in prior.arguments()}
    log_density = prior.bind(arrays).log_density(jnp.asarray(values))
    np.testing.assert_allclose(log_density, truth.logpdf(values), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [*PRIORS, Gumbel])
def test_each_element_is_drawn_with_its_own_numbers(cls):
    numbers = {name: jnp.repeat(jnp.asarray([0.5, 8.0]), 10_000) for name in cls.arguments()}
    if cls is Uniform:
        numbers["low"] = jnp.zeros(20_000)
    draws = np.asarray(cls().bind(numbers).sample(jax.random.key(3), (20_000,)))
    truth = {
        Normal: lambda number: stats.norm(number, number),
        Cauchy: lambda number: stats.cauchy(number, number),
        StudentT: lambda number: stats.t(number, number, number),
        Laplace: lambda number: stats.laplace(number, number),
        Exponential: lambda number: stats.expon(scale=1 / number),
        LogNormal: lambda number: stats.lognorm(number, scale=math.exp(number)),
        HalfNormal: lambda number: stats.halfnorm(scale=number),
        HalfCauchy: lambda number: stats.halfcauchy(scale=number),
        Gamma: lambda number: stats.gamma(number, scale=1 / number),
        InverseGamma: lambda number: stats.invgamma(number, scale=number),
        Uniform: lambda number: stats.uniform(0, number),
        GammaPrecision: lambda number: inverse_chi(0.5 * number, scale=number),
        Gumbel: lambda number: stats.gumbel_r(number, number),
    }[cls]
    assert stats.kstest(draws[:10_000], truth(0.5).cdf).pvalue > 1e-4
    assert stats.kstest(draws[10_000:], truth(8.0).cdf).pvalue > 1e-4


@all_priors
def test_prior_is_a_value(prior, truth):
    rebuilt = type(prior)(**{name: getattr(prior, name) for name in prior.arguments()})
    assert rebuilt == prior
    assert hash(rebuilt) == hash(prior)
    name = prior.arguments()[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(prior, name, 1.0)


STANDARD = [prior for prior, _ in LIBRARY_PRIORS if prior.standard() is not None]


@pytest.mark.parametrize("prior", STANDARD, ids=str)
@precision("float64")
def test_location_and_scale_standardize(prior):
    location, scale = prior.location_scale()
    z = jnp.linspace(-3.0, 3.0, 41)
    onto = transform(prior.support)
    real = location + scale * z
    in_z = prior.log_density(onto.from_real(real)) + onto.log_jacobian(real) + jnp.log(scale)
    standard = prior.standard()
    expected = standard.log_density(onto.from_real(z)) + onto.log_jacobian(z)
    np.testing.assert_allclose(in_z, expected, rtol=1e-12, atol=1e-12)
    assert standard.location_scale() == (0.0, 1.0)


@all_priors
@precision("float64")
def test_location_and_scale_are_of_the_right_size(prior, truth):
    """On the unconstrained scale: the quartiles are less than three widths from the center."""
    if isinstance(prior, Gumbel):
        return  # it has none
    real = transform(prior.support).to_real(jnp.asarray(truth.ppf([0.25, 0.75])))
    location, scale = prior.location_scale()
    z = (real - location) / scale
    assert -3 < z[0] < 0.5
    assert -0.5 < z[1] < 3
    assert 0.3 < z[1] - z[0] < 3


def test_defaults_for_a_users_prior():
    assert Gumbel(3.0, 2.0).location_scale() == (0.0, 1.0)
    assert Gumbel(3.0, 2.0).standard() is None
    assert Gumbel.support == "real"
    assert not Gumbel.heavy_tailed
    with pytest.raises(
        NotImplementedError, match=r"Gumbel can't be the prior of a positive number.*log_positive_m"
    ):
        Gumbel(3.0, 2.0).log_positive_mass()


def test_only_the_families_without_moments_are_heavy_tailed():
    assert {cls for cls in PRIORS if cls.heavy_tailed} == {Cauchy, StudentT}


# Mass above zero, for the priors that may be truncated.


@pytest.mark.parametrize("ratio", [-30.0, -8.0, -1.0, 0.0, 1e-3, 2.0, 30.0])
@pytest.mark.parametrize(
    ("prior", "truth"),
    [
        pytest.param(Normal(0.0, 0.5), stats.norm(0, 0.5), id="Normal"),
        pytest.param(Cauchy(0.0, 0.5), stats.cauchy(0, 0.5), id="Cauchy"),
        pytest.param(StudentT(3.0, 0.0, 0.5), stats.t(3, 0, 0.5), id="StudentT-3"),
        pytest.param(StudentT(30.0, 0.0, 2.0), stats.t(30, 0, 2), id="StudentT-30"),
        pytest.param(Laplace(0.0, 0.5), stats.laplace(0, 0.5), id="Laplace"),
    ],
)
def test_log_positive_mass_is_that_of_scipy(prior, truth, ratio):
    loc = ratio * prior.scale
    expected = truth.logsf(-loc)  # P(value + loc > 0)
    with precision("float64"):
        double = prior.bind({"loc": loc}).log_positive_mass()
    np.testing.assert_allclose(double, expected, rtol=1e-12, atol=1e-15)
    single = prior.bind({"loc": jnp.float32(loc)}).log_positive_mass()
    assert single.dtype == "float32"
    # A hundred roundings: the mass is a ratio of functions of `loc / scale`.
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)


def test_log_positive_mass_in_float32_where_little_is_left():
    prior = Cauchy().bind({"loc": jnp.float32(-3000), "scale": jnp.float32(1)})
    expected = stats.cauchy(-3000, 1).logsf(0)  # a mass of 1e-4, the least that is accepted
    np.testing.assert_allclose(prior.log_positive_mass(), expected, rtol=1e-5)


@pytest.mark.parametrize("loc", [-0.8, 0.0, 0.6])
@pytest.mark.parametrize(
    ("cls", "density"),
    [
        pytest.param(Normal, stats.norm, id="Normal"),
        pytest.param(Cauchy, stats.cauchy, id="Cauchy"),
        pytest.param(StudentT, stats.t(3), id="StudentT"),
        pytest.param(Laplace, stats.laplace, id="Laplace"),
    ],
)
@precision("float64")
def test_gradient_of_log_positive_mass(cls, density, loc):
    def log_mass(loc, scale):
        return cls().bind({"loc": loc, "scale": scale}).log_positive_mass()

    by_loc, by_scale = jax.grad(log_mass, argnums=(0, 1))(jnp.asarray(loc), jnp.asarray(0.4))
    # P = F(loc / scale), with F the distribution function of the symmetric standard density.
    z = loc / 0.4
    by_z = density.pdf(z) / density.cdf(z)
    np.testing.assert_allclose(by_loc, by_z / 0.4, rtol=1e-12)
    np.testing.assert_allclose(by_scale, -by_z * z / 0.4, rtol=1e-12, atol=1e-15)


# Hyper-parameters.


def test_hypers_are_the_sampled_arguments():
    loc, scale = Hyper(0.0, Normal(0.0, 0.1)), Hyper(1.0)
    assert Normal(loc, scale).hypers() == {"loc": loc, "scale": scale}
    assert StudentT(3.0, 0.0, scale).hypers() == {"scale": scale}
    assert Normal(0.0, 1.0).hypers() == {}


def test_bind_replaces_and_leaves_the_original():
    prior = StudentT(3.0, Hyper(0.5, Normal()), Hyper(1.0))
    bound = prior.bind({"loc": 0.25, "scale": 2.0})
    assert bound == StudentT(3.0, 0.25, 2.0)
    assert prior.hypers() == {"loc": Hyper(0.5, Normal()), "scale": Hyper(1.0)}


def test_bind_takes_proposals_of_a_sampler():
    # A sampler may propose anything: checks are at the boundary, not here.
    assert Normal().bind({"scale": -1.0}).scale == -1.0


@pytest.mark.parametrize("start", [1, 0.5, np.float32(0.5), np.float64(0.5), np.int64(1)])
def test_numbers_of_numpy_are_numbers(start):
    assert Normal(start, start).loc == start
    assert Hyper(start).start == start


@pytest.mark.parametrize(
    ("prior", "start"),
    [
        (Normal(1.0, 0.1), 1.0), (Normal(0.0, 2.0), 2.0), (Cauchy(0.5, 0.5), 0.5),
        (HalfNormal(2.0), 2.0), (HalfCauchy(0.1), 0.1), (Exponential(4.0), 0.25),
        (LogNormal(math.log(0.3), 2.0), 0.3), (Gamma(3.0, 2.0), 1.5), (InverseGamma(2.0, 6.0), 3.0),
        (Uniform(0.0, 5.0), 2.5), (GammaPrecision(0.05, 0.5), 0.05), (HalfNormal(HalfNormal(3)), 3),
    ],
    ids=str,
)  # fmt: skip
def test_a_bare_prior_is_a_hyper_that_starts_near_its_center(prior, start):
    assert Normal(0.0, prior) == Normal(0.0, Hyper(start, prior))
    assert Gaussian(sd=prior).hypers() == {"sd": Hyper(start, prior)}
    assert Gaussian(sd=[0.1, prior]).hypers() == {"sd.1": Hyper(start, prior)}


def test_a_bare_prior_of_a_location_starts_at_its_center():
    assert Normal(Normal(-0.5, 0.1)).loc == Hyper(-0.5, Normal(-0.5, 0.1))
    assert Normal(Uniform(-3.0, 1.0)).loc == Hyper(-1.0, Uniform(-3.0, 1.0))
    assert jax.jit(lambda: Normal(0.0, HalfNormal(0.1)).scale.start)() == np.float32(0.1)


def test_a_number_is_a_float_a_hyper_or_a_prior():
    assert typing.get_args(Number) == (float, Hyper, Prior)


def test_the_repr_of_a_hyper_shows_the_prior_in_force():
    assert repr(Hyper(0.1)) == "Hyper(start=0.1, prior=LogNormal(loc=log(0.1), scale=1.0))"
    assert repr(Hyper(1, HalfNormal())) == "Hyper(start=1.0, prior=HalfNormal(scale=1.0))"
    assert repr(Hyper(-1)) == "Hyper(start=-1.0, prior=None)"  # no argument accepts it


# Bad arguments.


@pytest.mark.parametrize("bound", ["low", "high"])
@pytest.mark.parametrize("value", [Hyper(0.5), Normal()], ids=str)
def test_the_bounds_of_uniform_are_numbers(bound, value):
    with pytest.raises(TypeError, match=rf"`{bound}` of Uniform must be a number, got .*sampled"):
        Uniform(**{bound: value})


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, -1.0)])
def test_the_bounds_of_uniform_are_in_order(bounds):
    with pytest.raises(ValueError, match=r"`low` of Uniform must be below `high`, got"):
        Uniform(*bounds)


@pytest.mark.parametrize("prior", [Hyper(0.5, Uniform(-1.0, 1.0)), Uniform(-1.0, 1.0)], ids=str)
def test_a_scale_needs_a_positive_prior(prior):
    message = r"`scale` of Normal must be positive, but its prior Uniform.* is not: give the prior"
    with pytest.raises(ValueError, match=message):
        Normal(0.0, prior)


@pytest.mark.parametrize("start", [0.0, 1.0, 2.0])
def test_a_hyper_starts_inside_a_uniform_prior(start):
    message = r"`start` of a Hyper must lie inside its prior, between 0 and 1, got"
    with pytest.raises(ValueError, match=message):
        Hyper(start, Uniform())


@pytest.mark.parametrize("value", [0.0, -1.0, -0.25])
@pytest.mark.parametrize(("cls", "name"), POSITIVE_ARGUMENTS)
def test_scales_must_be_positive(cls, name, value):
    message = rf"`{name}` of {cls.__name__} must be positive, got {value}"
    with pytest.raises(ValueError, match=message):
        cls(**{name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("cls", "name"), ALL_ARGUMENTS)
def test_numbers_must_be_finite(cls, name, value):
    message = rf"`{name}` of {cls.__name__} must be finite, got {value}"
    with pytest.raises(ValueError, match=message):
        cls(**{name: value})


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "True"), ("1.0", r"'1\.0'"), (None, "None"), ([1.0], r"\[1\.0\]"), (1j, "1j")],
)
@pytest.mark.parametrize(("cls", "name"), ALL_ARGUMENTS)
def test_arguments_must_be_numbers_or_hypers(cls, name, value, shown):
    message = rf"`{name}` of {cls.__name__} must be a number, a prior or a Hyper, got {shown}"
    with pytest.raises(TypeError, match=message):
        cls(**{name: value})


@pytest.mark.parametrize("cls", [Normal, Cauchy, StudentT, Laplace, LogNormal])
def test_a_hyper_of_a_location_needs_a_prior(cls):
    message = (
        rf"`loc` of {cls.__name__} is a Hyper without a prior: give it one, "
        r"such as Hyper\(0\.5, Normal\(0\.5, 0\.1\)\)"
    )
    with pytest.raises(ValueError, match=message):
        cls(loc=Hyper(0.5))


@pytest.mark.parametrize("start", [0.0, -0.5])
@pytest.mark.parametrize(("cls", "name"), POSITIVE_ARGUMENTS)
def test_the_hyper_of_a_scale_must_start_positive(cls, name, start):
    message = rf"start of the Hyper in `{name}` of {cls.__name__} must be positive, got {start}"
    with pytest.raises(ValueError, match=message):
        cls(**{name: Hyper(start, Normal())})


@pytest.mark.parametrize(
    ("start", "shown"),
    [(math.nan, "nan"), (math.inf, "inf"), (True, "True"), ("1", "'1'"), (None, "None")],
)
def test_a_hyper_starts_at_a_finite_number(start, shown):
    with pytest.raises(ValueError, match=rf"`start` of a Hyper must be a finite.*got {shown}"):
        Hyper(start)


@pytest.mark.parametrize("prior", [0.1, "normal", Normal])
def test_the_prior_of_a_hyper_must_be_a_prior(prior):
    with pytest.raises(TypeError, match=r"`prior` of a Hyper must be a prior such as Normal.*got"):
        Hyper(1.0, prior)
