"""The paper's sampler: its epochs, its adaptation, and exact answers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision
from tests import oracle_cases as cases
from tests.oracle_cases import GIVEN, check

pytestmark = pytest.mark.slow

# Bounds that suit posteriors of a few parameters; the paper's are for its networks.
SMALL = tb.AdaptiveHMC(
    step_size_start=0.05,
    step_size_min=0.02,
    step_size_max=0.2,
    step_size_options=30,
    num_steps_start=10,
    num_steps_min=5,
    num_steps_max=40,
    num_steps_increment=1,
    hyper_step_size=0.1,
)
PRIOR = tb.AdaptiveHMC(
    step_size_start=0.2,
    step_size_min=0.05,
    step_size_max=0.8,
    step_size_options=30,
    num_steps_start=10,
    num_steps_min=3,
    num_steps_max=30,
    num_steps_increment=1,
    hyper_step_size=0.1,
)
STEADY = dataclasses.replace(SMALL, step_size_jitter=0.0)
WIDE = {"location": (0.0, 0.5), "scale": (0.5, 0.5)}
PAPER = {"location": (0.0, 0.1), "scale": (1.0, 0.1)}


@pytest.mark.parametrize("prior", [PAPER, WIDE], ids=["paper", "wide"])
def test_linear_network_with_hierarchical_prior(prior):
    case = GIVEN["lin_hier"]
    built = cases.linear_with_hierarchical_prior(case["X"], case["y"], sd=0.5, **prior)
    check(built, SMALL, draws=4000)


def test_linear_network_with_learned_noise():
    case = GIVEN["lin_noise"]
    prior, exact = tb.HalfNormal(1.0), ("halfnormal", 1.0)
    check(cases.linear_with_learned_noise(case["X"], case["y"], prior, exact), SMALL, draws=4000)


@pytest.mark.parametrize("units", [2, 50])
@pytest.mark.parametrize("prior", [PAPER, WIDE], ids=["paper", "wide"])
def test_gaussian_prior_is_recovered_without_data(units, prior):
    check(cases.gaussian_prior(units, **prior), PRIOR, draws=4000)


@pytest.mark.parametrize("units", [2, 50])
def test_cauchy_prior_is_recovered_without_data(units):
    check(cases.cauchy_prior(units), PRIOR, draws=10_000)


@pytest.mark.parametrize("units", [2, 50])
def test_prelu_prior_is_recovered_without_data(units):
    check(cases.prelu_prior(units), PRIOR, draws=10_000)


def test_the_papers_epoch_without_interweaving():
    """Exact as well, though it takes more epochs: fifty weights hold their scale fast."""
    alone = dataclasses.replace(PRIOR, interweave=False)
    check(cases.gaussian_prior(2, **PAPER), alone, draws=4000)
    assert draw(alone).sample_stats["num_gradients"].min() >= alone.num_steps_min + 1


def test_one_hidden_unit():
    case = GIVEN["one_unit"]
    check(cases.one_hidden_unit(case["x"], case["y"], case["xs"], sd=0.3), SMALL, draws=4000)


def test_deep_network_against_importance_sampling():
    case, truth = GIVEN["deep_is"], GIVEN["deep_is"]["truth"]
    data = case["x"], case["y"], case["xs"]
    built = cases.deep(*data, truth["pred_mean"], truth["se"], sd=0.3, hidden=[5])
    check(built, SMALL, draws=4000)


# More of the cases: sampler and draws.
OTHERS = {
    "linear": (SMALL, 4000),
    "linear, default noise": (SMALL, 4000),
    "prior, gamma precision, narrow": (PRIOR, 10_000),
    "prior, gamma precision": (PRIOR, 10_000),
    "prior, SquarePReLU": (PRIOR, 10_000),
    "logistic": (PRIOR, 4000),
    "softmax": (PRIOR, 4000),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", OTHERS)
def test_exact_answers(name):
    sampler, draws = OTHERS[name]
    check(cases.CASES[name](), sampler, draws=draws)


X = np.linspace(-1, 1, 9)


def small_posterior(**options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.2)), X, np.sin(2 * X), **options)


def draw(sampler=SMALL, **options):
    defaults = {"chains": 2, "burn_in": 60, "draws": 20, "progress": False}
    return tb.sample(small_posterior(), sampler, **(defaults | options))


def test_adaptation_ends_with_burn_in():
    info = draw(STEADY, burn_in=100, draws=50).sample_stats
    for name in ("step_size", "num_gradients"):
        assert np.all(info[name] == info[name][:, :1])
    low, high = SMALL.step_size_min, SMALL.step_size_max
    assert np.all((info["step_size"] >= 0.999 * low) & (info["step_size"] <= 1.001 * high))


def test_step_sizes_are_jittered():
    steady, wobbling = (
        draw(each, burn_in=0, draws=50).sample_stats["step_size"] for each in (STEADY, SMALL)
    )
    ratios = wobbling / steady
    assert 0.8 <= ratios.min() < 0.85
    assert 1.15 < ratios.max() <= 1.2


def test_candidates_change_during_burn_in_every_averaging_steps():
    """The chain before and after burn-in is one: a longer burn-in shows what a shorter one did."""
    posterior = small_posterior()
    with precision("float32"):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        state = STEADY.init(target, jnp.full((1, target.dimension), 0.1), burn_in=40)
        step = jax.jit(STEADY.step)
        sizes = []
        for index in range(40):
            keys = jax.random.split(jax.random.key(index), 1)
            state, info = step(keys, state, target)
            sizes.append((float(info.step_size[0]), int(info.num_gradients[0])))
        settled, _ = step(jax.random.split(jax.random.key(40), 1), state, target)
    jax.tree.map(np.testing.assert_array_equal, settled.adapter, state.adapter)
    jax.tree.map(np.testing.assert_array_equal, settled.hyper, state.hyper)
    jax.tree.map(np.testing.assert_array_equal, settled.weaving, state.weaving)
    pairs = [tuple(sizes[i : i + 2]) for i in range(0, 40, 2)]
    assert all(first == second for first, second in pairs)
    assert len({first for first, _ in pairs}) > 12
    # Ten steps and the gradient at the start; five and one more of the hyper-parameters.
    assert sizes[0] == (pytest.approx(0.05), 17)


@pytest.mark.parametrize("chains", [1, 3])
def test_protocol(chains):
    posterior = small_posterior(dtype="float64")
    with precision("float64"):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        state = SMALL.init(target, jnp.full((chains, target.dimension), 0.1), burn_in=10)
        keys = jax.random.split(jax.random.key(0), chains)
        after, info = jax.jit(SMALL.step)(keys, state, target)
        named, hypers = target.named(after.position[0])
    assert all(leaf.shape[0] == chains for leaf in jax.tree.leaves((after, info)))
    before_and_after = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, after))
    assert before_and_after[0] == before_and_after[1]
    theta = np.concatenate([np.ravel(value) for value in named.values()])
    np.testing.assert_allclose(theta, after.theta[0], rtol=1e-10)
    log_density = posterior.log_density(
        posterior.flatten(named), posterior.flatten_hyperparameters(hypers)
    )
    np.testing.assert_allclose(info.lp[0], log_density, rtol=1e-10)


@pytest.mark.parametrize("held", [False, True])
def test_the_energy_is_that_of_parameters_and_hyper_parameters(held):
    """E-BFMI is about the whole density: not about that of theta given phi, which phi changes."""
    posterior = small_posterior(dtype="float64")
    with precision("float64"):
        phi = jnp.full(posterior.num_hyperparameters, 0.1) if held else None
        target = TargetDensity(posterior.model, posterior._arrays, phi)
        state = SMALL.init(target, jnp.full((1, target.dimension), 0.3), burn_in=10)
        _, info = jax.jit(SMALL.step)(jax.random.key(0)[None], state, target)
        size = posterior.num_parameters
        count = size + 2 * (target.dimension - size)
        momentum = jax.random.normal(jax.random.split(jax.random.key(0), 3)[0], (count,))[:size]
        energy = 0.5 * jnp.sum(jnp.square(momentum)) - target.log_density(state.position[0])
    np.testing.assert_allclose(info.energy[0], energy, rtol=1e-10)


def test_hyper_parameters_can_be_held():
    run = draw(sample_hyperparameters=False)
    assert np.all(run.hyperparameters["dense_0.weights.scale"] == 1)
    assert np.std(run.parameters["dense_0.weights"]) > 0


def test_the_same_seed_gives_the_same_bits():
    first, second = draw(), draw()
    for name, values in first.parameters.items():
        assert np.array_equal(values, second.parameters[name])


def test_hopeless_bounds_are_left_behind():
    """Steps ten times too large are all rejected; resets halve them until some are accepted."""
    sampler = tb.AdaptiveHMC(
        step_size_start=2.0,
        step_size_min=1.0,
        step_size_max=4.0,
        step_size_options=10,
        num_steps_start=10,
        num_steps_min=5,
        num_steps_max=20,
        num_steps_increment=5,
        strikes=10,
        random_steps=3,
    )
    info = draw(sampler, burn_in=400, draws=100).sample_stats
    assert np.all(info["step_size"] < 1.0)
    assert np.all(info["acceptance_rate"].mean(axis=1) > 0.05)


def test_runs_are_saved_and_read(tmp_path):
    run = draw(path=tmp_path / "run")
    assert np.array_equal(
        tb.load(tmp_path / "run").parameters["dense_0.weights"], run.parameters["dense_0.weights"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size_min": 0.1}, r"between `step_size_min` \(0.1\) and `step_size_max` \(0.01\)"),
        ({"step_size_start": 0.5}, "`step_size_start` must lie between .*, got 0.5"),
        ({"num_steps_start": 5}, r"`num_steps_start` must lie between `num_steps_min` \(100\) and"),
        ({"num_steps_min": 0}, "`num_steps_min` must be a whole number of at least 1, got 0"),
        ({"averaging_steps": 1.5}, "`averaging_steps` must be a whole number"),
        ({"strikes": 0}, "`strikes` must be a whole number of at least 1, got 0"),
        ({"random_steps": -1}, "`random_steps` must be a whole number of at least 0, got -1"),
        ({"delta": 2.0}, "`delta` must lie between 0 and 1, got 2.0"),
        ({"step_size_jitter": 1.0}, r"`step_size_jitter` must lie in \[0, 1\), got 1.0"),
        ({"interweave": 1}, "`interweave` must be True or False, got 1"),
        ({"a": 0.0}, "`a` must be a positive number, got 0.0"),
        ({"hyper_step_size": True}, "`hyper_step_size` must be a positive number, got True"),
        ({"strikes": True}, "`strikes` must be a whole number of at least 1, got True"),
        ({"hyper_num_steps": 10**12}, "`hyper_num_steps` must be a whole number of at most"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tb.AdaptiveHMC(**options)


def test_numbers_of_numpy_are_numbers():
    assert tb.AdaptiveHMC(hyper_target_acceptance=np.float32(0.75), delta=np.float32(0.5)).k == 100
