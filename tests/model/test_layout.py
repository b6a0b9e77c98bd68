from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tensorbnn.model.hyper import Hyper, Number, Prior
from tensorbnn.model.layers import (
    CauchyDense,
    Dense,
    Layer,
    Parameter,
    PReLU,
    SquarePReLU,
    Tanh,
)
from tensorbnn.model.layout import Entry, Layout, bind_hypers, hyper_layout, parameter_layout
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.model.priors import (
    Cauchy,
    Exponential,
    Gamma,
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


@dataclass(frozen=True)
class Scales(Layer):
    """A user's own layer, with positive parameters that start at a given value."""

    prior: Prior
    start: float | Prior | None = None

    def parameters(self, inputs):
        return {"scales": Parameter((inputs,), self.prior, self.start)}

    def apply(self, parameters, h):
        return parameters["scales"][:, None] * h


NETWORK = Network(
    Dense(3, Normal(0.5, Hyper(1.0, Normal(1.0, 0.5))), Normal(-0.5, 2.0)),
    PReLU(),
    CauchyDense(2),
    SquarePReLU(),
    Dense(1, Laplace(0.0, Hyper(1.0, Normal(Hyper(0.5, Normal(0.0, 1.0)), 2.0))), StudentT(4.0)),
    inputs=2,
)
OWNERS = {name: parameter.prior for name, parameter in NETWORK.parameters.items()} | {
    "likelihood": Gaussian(sd=Hyper(0.1))
}


def random_parameters():
    rng = np.random.default_rng(0)
    named = {
        name: rng.normal(size=parameter.shape) for name, parameter in NETWORK.parameters.items()
    }
    named["prelu_0.slopes"] = rng.exponential(size=3)
    return named


HYPERS = {
    "dense_0.weights.scale": 0.8,
    "prelu_0.slopes.rate": 2.5,
    "dense_1.weights.loc": 0.1,
    "dense_1.weights.scale": 0.4,
    "dense_1.biases.loc": -0.2,
    "dense_1.biases.scale": 0.7,
    "squareprelu_0.slopes.loc": 0.15,
    "squareprelu_0.slopes.scale": 0.35,
    "dense_2.weights.scale": 1.3,
    "dense_2.weights.scale.loc": -0.6,
    "likelihood.sd": 0.25,
}


# Flat vectors and names.


@precision("float64")
def test_parameters_are_in_the_order_of_the_layers():
    named = random_parameters()
    layout = parameter_layout(NETWORK)
    assert layout.size == 6 + 3 + 3 + 6 + 2 + 2 + 2 + 1
    flat = layout.flatten(named)
    assert flat.shape == (layout.size,)
    pieces = {**named, "prelu_0.slopes": np.log(named["prelu_0.slopes"])}
    expected = np.concatenate([pieces[name].ravel() for name in NETWORK.parameters])
    np.testing.assert_allclose(flat, expected, rtol=1e-15)


@precision("float64")
def test_unflatten_undoes_flatten():
    for layout, named in (
        (parameter_layout(NETWORK), random_parameters()),
        (hyper_layout(OWNERS), HYPERS),
    ):
        back = layout.unflatten(layout.flatten(named))
        assert set(back) == set(named)
        for name, value in named.items():
            assert back[name].shape == np.shape(value)
            np.testing.assert_allclose(back[name], value, rtol=1e-14)


def test_the_order_of_names_does_not_matter():
    layout = hyper_layout(OWNERS)
    turned = dict(reversed(HYPERS.items()))
    assert jnp.array_equal(layout.flatten(turned), layout.flatten(HYPERS))


def test_hypers_follow_those_of_their_own_prior():
    names = [entry.name for entry in hyper_layout(OWNERS).entries]
    assert set(names) == set(HYPERS)
    assert names[0] == "dense_2.weights.scale.loc"


@precision("float64")
def test_the_order_of_entries_does_not_matter():
    layout = hyper_layout(OWNERS)
    turned = hyper_layout(dict(reversed(OWNERS.items())))
    assert layout.entries != turned.entries
    first, second = (
        jax.jit(lambda hypers, layout=layout: layout.log_density(layout.flatten(hypers), hypers))
        for layout in (layout, turned)
    )
    np.testing.assert_allclose(first(HYPERS), second(HYPERS), rtol=1e-13)


def test_a_layout_may_be_empty():
    layout = hyper_layout({"likelihood": Gaussian(sd=0.1)})
    assert layout.size == 0
    flat = layout.flatten({})
    assert flat.shape == (0,)
    assert layout.unflatten(flat) == {}
    assert layout.log_density(flat, {}) == 0
    assert layout.from_standard(flat, {})[0].shape == (0,)


def test_bind_hypers():
    prior = StudentT(3.0, Hyper(0.0, Normal()), Hyper(1.0))
    hypers = {"dense_0.weights.loc": 0.5, "dense_0.weights.scale": 2.0, "dense_0.biases.loc": 9.0}
    assert bind_hypers("dense_0.weights", prior, hypers) == StudentT(3.0, 0.5, 2.0)


# Densities, element by element with SciPy.


@precision("float64")
def test_log_density_of_the_parameters():
    named, h = random_parameters(), HYPERS
    slopes = named["prelu_0.slopes"]
    terms = [
        stats.norm.logpdf(named["dense_0.weights"], 0.5, h["dense_0.weights.scale"]),
        stats.norm.logpdf(named["dense_0.biases"], -0.5, 2.0),
        stats.expon.logpdf(slopes, scale=1 / h["prelu_0.slopes.rate"]),
        np.log(slopes),  # d slope / d log slope
        stats.cauchy.logpdf(
            named["dense_1.weights"], h["dense_1.weights.loc"], h["dense_1.weights.scale"]
        ),
        stats.cauchy.logpdf(
            named["dense_1.biases"], h["dense_1.biases.loc"], h["dense_1.biases.scale"]
        ),
        stats.norm.logpdf(
            named["squareprelu_0.slopes"],
            h["squareprelu_0.slopes.loc"],
            h["squareprelu_0.slopes.scale"],
        ),
        stats.laplace.logpdf(named["dense_2.weights"], 0.0, h["dense_2.weights.scale"]),
        stats.t.logpdf(named["dense_2.biases"], 4.0),
    ]
    layout = parameter_layout(NETWORK)
    log_density = jax.jit(layout.log_density)(layout.flatten(named), HYPERS)
    assert log_density == pytest.approx(sum(term.sum() for term in terms), rel=1e-13)


@precision("float64")
def test_log_density_of_the_hyper_parameters():
    h = HYPERS
    truncated = [  # value, mean, sd
        (h["dense_0.weights.scale"], 1.0, 0.5),
        (h["dense_1.weights.scale"], 0.5, 0.5),
        (h["dense_1.biases.scale"], 0.5, 0.5),
        (h["squareprelu_0.slopes.scale"], 0.3, 0.3),
        (h["dense_2.weights.scale"], h["dense_2.weights.scale.loc"], 2.0),
    ]
    expected = sum(
        stats.norm.logpdf(value, mean, sd) - stats.norm.logsf(0, mean, sd) + np.log(value)
        for value, mean, sd in truncated
    )
    expected += stats.norm.logpdf(h["dense_1.weights.loc"], 0, 0.2)
    expected += stats.norm.logpdf(h["dense_1.biases.loc"], 0, 0.2)
    expected += stats.norm.logpdf(h["squareprelu_0.slopes.loc"], 0, 0.1)
    expected += stats.norm.logpdf(h["dense_2.weights.scale.loc"], 0, 1)
    rate, sd = h["prelu_0.slopes.rate"], h["likelihood.sd"]
    expected += stats.expon.logpdf(rate, scale=1 / 0.3) + np.log(rate)
    expected += stats.norm.logpdf(np.log(sd), np.log(0.1), 1)  # log-normal around its start

    layout = hyper_layout(OWNERS)
    log_density = jax.jit(layout.log_density)(layout.flatten(HYPERS), HYPERS)
    assert log_density == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    ("prior", "truth"),
    [
        pytest.param(Normal(0.3, 0.5), stats.norm(0.3, 0.5), id="Normal"),
        pytest.param(Normal(-0.5, 0.5), stats.norm(-0.5, 0.5), id="Normal below zero"),
        pytest.param(Cauchy(-0.5, 0.5), stats.cauchy(-0.5, 0.5), id="Cauchy"),
        pytest.param(StudentT(3.0, -0.5, 0.5), stats.t(3, -0.5, 0.5), id="StudentT"),
        pytest.param(Laplace(0.2, 0.5), stats.laplace(0.2, 0.5), id="Laplace"),
    ],
)
@precision("float64")
def test_a_truncated_prior_is_renormalized(prior, truth):
    layout = hyper_layout({"likelihood": Gaussian(sd=Hyper(1.0, prior))})
    assert layout.entries[0].truncated
    # The integral over the unconstrained value, from exp(-30) to exp(45), by the trapezoid rule,
    # which for a smooth function that vanishes at both ends errs by less than it is rounded.
    u = np.linspace(-30.0, 45.0, 30_001)
    log_density = jax.jit(jax.vmap(lambda u: layout.log_density(u[None], {})))(jnp.asarray(u))
    # Laplace has a kink: there the rule errs by step^2.
    tolerance = 1e-5 if isinstance(prior, Laplace) else 1e-12
    assert np.trapezoid(np.exp(log_density), u) == pytest.approx(1, abs=tolerance)
    near = u < 5  # farther out SciPy takes the logarithm of zero
    expected = truth.logpdf(np.exp(u[near])) - truth.logsf(0) + u[near]
    np.testing.assert_allclose(log_density[near], expected, rtol=1e-12, atol=1e-12)


@precision("float64")
def test_priors_with_their_own_numbers_are_kept_apart():
    # Neighbors of one family are evaluated in one go, each with its own numbers.
    network = Network(Dense(2, Normal(1, 2), Normal(-1.0, 0.5)), inputs=2)
    layout = parameter_layout(network)
    flat = jnp.arange(6.0)
    expected = stats.norm.logpdf(np.arange(4), 1, 2).sum()
    expected += stats.norm.logpdf([4, 5], -1, 0.5).sum()
    assert jax.jit(layout.log_density)(flat, {}) == pytest.approx(expected, rel=1e-14)


def prior_with_slope(slope):
    @dataclass(frozen=True)
    class Slope(Prior):
        def log_density(self, value):
            return slope * value

        def sample(self, key, shape):
            return jax.random.normal(key, shape)

    return Slope()


def test_priors_of_one_name_are_kept_apart():
    network = Network(Dense(1, prior_with_slope(1.0), prior_with_slope(10.0)), inputs=1)
    assert parameter_layout(network).log_density(jnp.ones(2), {}) == 11


# Standard coordinates.

# Priors of three numbers, each in its own layer.
FAMILIES = [
    Normal(2, 3),
    Cauchy(-1.0, 0.5),
    StudentT(3.0, 1.0, 2.0),
    Laplace(0.3, 0.2),
    Exponential(4.0),
    LogNormal(-1.0, 0.3),
    HalfNormal(0.2),
    HalfCauchy(0.2),
    Gamma(3.0, 0.5),
    InverseGamma(0.7, 2.0),
    Uniform(-1.0, 3.0),
    Uniform(0.0, 0.5),
    Gumbel(1.0, 0.4),
]
TRUNCATED = {  # each family, with scales below and above the start
    "a": Normal(0.0, Hyper(0.5, Cauchy(0.2, 0.1))),
    "b": Normal(0.0, Hyper(0.5, StudentT(4.0, -0.2, 3.0))),
    "c": Normal(0.0, Hyper(0.5, Laplace(1.0, 0.2))),
    "d": Normal(0.0, Hyper(0.5, Normal(0.0, 1.0))),
}
NESTED = {  # three levels: each depends on those below it
    "a": Normal(
        Hyper(0.0, Cauchy(Hyper(0.1, Normal(0.0, 0.5)), Hyper(0.4))),
        Hyper(1.0, Normal(Hyper(0.5, Laplace()), Hyper(2.0, LogNormal(0.0, Hyper(0.5))))),
    )
}


@pytest.mark.parametrize(
    ("layout", "others"),
    [
        *(
            pytest.param(parameter_layout(Network(Scales(prior), inputs=3)), {}, id=str(prior))
            for prior in FAMILIES
        ),
        pytest.param(parameter_layout(NETWORK), HYPERS, id="network"),
        pytest.param(hyper_layout(OWNERS), {}, id="hypers"),
        pytest.param(hyper_layout(TRUNCATED), {}, id="truncated"),
        pytest.param(hyper_layout(NESTED), {}, id="nested"),
    ],
)
@precision("float64")
def test_standard_coordinates(layout, others):
    z = jnp.asarray(np.random.default_rng(1).normal(size=layout.size))

    @jax.jit
    def everything(z):
        flat, log_density = layout.from_standard(z, others)
        jacobian = jax.jacfwd(lambda z: layout.from_standard(z, others)[0])(z)
        hypers = others | layout.unflatten(flat)
        expected = layout.log_density(flat, hypers) + jnp.linalg.slogdet(jacobian)[1]
        return log_density, expected, layout.to_standard(flat, hypers)

    log_density, expected, back = everything(z)
    np.testing.assert_allclose(log_density, expected, rtol=1e-12, atol=1e-12)
    # Cancellation in flat - location loses the digits of location / scale, here below 100.
    np.testing.assert_allclose(back, z, rtol=1e-12, atol=1e-12)


@precision("float64")
def test_standard_coordinates_are_standard():
    # Gaussian: z itself is standard Gaussian. Cauchy: sinh(z) is standard Cauchy.
    z = np.array([-2.0, 0.3, 1.7])
    normal = parameter_layout(Network(Scales(Normal(5.0, 0.01)), inputs=3))
    flat, log_density = jax.jit(normal.from_standard)(jnp.asarray(z), {})
    np.testing.assert_allclose(flat, 5 + 0.01 * z, rtol=1e-14)
    assert log_density == pytest.approx(stats.norm.logpdf(z).sum(), rel=1e-13)

    cauchy = parameter_layout(Network(Scales(Cauchy(5.0, 0.01)), inputs=3))
    flat, log_density = jax.jit(cauchy.from_standard)(jnp.asarray(z), {})
    np.testing.assert_allclose(flat, 5 + 0.01 * np.sinh(z), rtol=1e-14)
    expected = stats.cauchy.logpdf(np.sinh(z)) + np.log(np.cosh(z))
    assert log_density == pytest.approx(expected.sum(), rel=1e-13)


@precision("float64")
def test_a_truncated_scale_is_measured_from_its_start():
    layout = hyper_layout({"likelihood": Gaussian(sd=Hyper(2.0, Normal(1.0, 0.5)))})
    flat, _ = jax.jit(layout.from_standard)(jnp.asarray([1.0]), {})
    np.testing.assert_allclose(flat, [np.log(2.0) + 0.5 / 2.0], rtol=1e-14)
    wide = hyper_layout({"likelihood": Gaussian(sd=Hyper(2.0, Normal(1.0, 100.0)))})
    flat, _ = jax.jit(wide.from_standard)(jnp.asarray([1.0]), {})
    np.testing.assert_allclose(flat, [np.log(2.0) + 1.0], rtol=1e-14)


def test_heavy_tails_do_not_overflow():
    layout = parameter_layout(Network(Scales(Cauchy()), inputs=2))
    flat, log_density = jax.jit(layout.from_standard)(jnp.asarray([-40.0, 40.0]), {})
    assert np.all(np.isfinite(flat))
    # log cosh(z) - log(1 + sinh(z)^2) - log(pi) = -log cosh(z) - log(pi)
    assert log_density == pytest.approx(2 * (np.log(2 / np.pi) - 40), rel=1e-6)


# Starts.


def test_starts_are_drawn_or_given():
    layout = parameter_layout(Network(Dense(400), PReLU(), Scales(HalfNormal(3.0)), inputs=50))
    start = jax.jit(layout.draw_start)(jax.random.key(0), {})
    assert {name: value.shape for name, value in start.items()} == {
        "dense_0.weights": (50, 400),
        "dense_0.biases": (400,),
        "prelu_0.slopes": (400,),
        "scales_0.scales": (400,),
    }
    assert {value.dtype for value in start.values()} == {np.dtype("float32")}
    he = stats.norm(0, np.sqrt(2 / 50))
    assert stats.kstest(np.ravel(start["dense_0.weights"]), he.cdf).pvalue > 1e-4
    assert stats.kstest(start["dense_0.biases"], he.cdf).pvalue > 1e-4
    assert stats.kstest(start["scales_0.scales"], stats.halfnorm(scale=3).cdf).pvalue > 1e-4
    np.testing.assert_array_equal(start["prelu_0.slopes"], np.full(400, 0.2, "float32"))


def test_starts_are_drawn_with_the_hyper_parameters():
    network = Network(Scales(Normal(Hyper(0.0, Normal()), Hyper(1.0))), inputs=2000)
    hypers = {"scales_0.scales.loc": 5.0, "scales_0.scales.scale": 0.1}
    start = jax.jit(parameter_layout(network).draw_start)(jax.random.key(0), hypers)
    assert stats.kstest(start["scales_0.scales"], stats.norm(5, 0.1).cdf).pvalue > 1e-4


def test_starts_depend_on_the_key():
    layout = parameter_layout(Network(Dense(3), Tanh(), Dense(3), inputs=3))
    draw_start = jax.jit(layout.draw_start)
    first, again, other = (draw_start(jax.random.key(seed), {}) for seed in (0, 0, 1))
    for name, value in first.items():
        assert jnp.array_equal(value, again[name])
        assert not jnp.any(value == other[name])
    # Two arrays of one shape do not share their numbers.
    assert not jnp.any(first["dense_0.biases"] == first["dense_1.biases"])


def test_weights_with_a_positive_prior_start_positive():
    layers = [Dense(20, prior) for prior in (HalfNormal(1.0), Exponential(1.0), LogNormal())]
    layout = parameter_layout(Network(*layers, inputs=20))
    start = jax.jit(layout.draw_start)(jax.random.key(0), {})
    for name in ("dense_0.weights", "dense_1.weights", "dense_2.weights"):
        assert np.all(start[name] > 0)


@pytest.mark.parametrize("start", [np.float32(0.25), np.float64(0.25), np.int64(1), 1], ids=repr)
def test_a_start_may_be_a_number_of_numpy(start):
    layout = parameter_layout(Network(Scales(Normal(), start), inputs=3))
    drawn = layout.draw_start(jax.random.key(0), {})
    np.testing.assert_array_equal(drawn["scales_0.scales"], np.full(3, start))


@pytest.mark.parametrize("start", [np.float32(0.25), np.float64(0.25), np.int64(1), 1], ids=repr)
def test_a_hyper_may_start_at_a_number_of_numpy(start):
    layout = hyper_layout({"likelihood": Gaussian(sd=Hyper(start, Normal(1.0, 0.5)))})
    assert layout.entries[0].start == start


# Errors.


@pytest.mark.parametrize("prior", [HalfNormal(1.0), Exponential(1.0), LogNormal()], ids=str)
@pytest.mark.parametrize("start", [-1.0, 0.0])
def test_a_hyper_with_a_positive_prior_must_start_positive(prior, start):
    message = (
        r"dense_0\.weights\.loc has a prior over positive values "
        rf"but starts at {start}: give its Hyper a positive start"
    )
    with pytest.raises(ValueError, match=message):
        hyper_layout({"dense_0.weights": Normal(Hyper(start, prior), 1.0)})


@pytest.mark.parametrize("start", [-1.0, 0.0, np.nan, "high"])
def test_a_parameter_with_a_positive_prior_must_start_positive(start):
    with pytest.raises((ValueError, TypeError), match=rf"start.*{start}"):
        parameter_layout(Network(Scales(Exponential(1.0), start), inputs=2))


@pytest.mark.parametrize(
    "prior", [Normal(-5.0, 1.0), Cauchy(-4e3, 1.0), Laplace(-9.0, 1.0), StudentT(3.0, -30.0, 1.0)]
)
def test_a_truncated_prior_needs_mass_above_zero(prior):
    name = type(prior).__name__
    message = (
        rf"the prior {name}\(.*\) of likelihood\.sd, which must be positive, "
        r"has only \S+ of its mass above zero: move it up"
    )
    with pytest.raises(ValueError, match=message):
        hyper_layout({"likelihood": Gaussian(sd=Hyper(1.0, prior))})


def test_the_mass_above_zero_is_that_at_the_start():
    # The prior's own hyper-parameter starts at -5: there the mass is 3e-7.
    prior = Normal(Hyper(-5.0, Normal()), 1.0)
    with pytest.raises(ValueError, match="has only 3e-07 of its mass above zero"):
        hyper_layout({"likelihood": Gaussian(sd=Hyper(1.0, prior))})


def test_a_users_prior_of_a_positive_number_needs_its_mass():
    message = "Gumbel can't be the prior of a positive number: define its `log_positive_mass`"
    with pytest.raises(NotImplementedError, match=message):
        hyper_layout({"likelihood": Gaussian(sd=Hyper(1.0, Gumbel()))})


def test_entries():
    entry = Entry("a", (2, 3), Normal(), "positive", 1.0)
    assert entry.size == 6
    assert entry.truncated
    assert not Entry("a", (), Exponential(), "positive", 1.0).truncated
    assert not Entry("a", (), Normal(), "real", 1.0).truncated
    assert Layout((entry, entry)).size == 12
