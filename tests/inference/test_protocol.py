"""Every sampler keeps the protocol of `tensorbnn.inference.sampler`, and reports what it did."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.inference.sampler import TransitionInfo
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision
from tensorbnn.sampling.advance import advance
from tensorbnn.storage.manifest import KNOWN, describe

pytestmark = pytest.mark.slow

SAMPLERS = {
    "hmc": tb.HMC(),
    "ghmc": tb.GHMC(),
    "nuts": tb.NUTS(),
    "mclmc": tb.MCLMC(),
    "sghmc": tb.SGHMC(batch_size=8, num_steps=5),
}
# The same with other numbers.
OTHERS = {
    "hmc": [tb.HMC(step_size=0.02, num_steps=3)],
    "ghmc": [tb.GHMC(step_size=0.02, num_steps=3, decoherence_time=0.1, slice_step=0.2)],
    "nuts": [tb.NUTS(step_size=0.02), tb.NUTS(max_tree_depth=4, target_acceptance=0.7)],
    "mclmc": [tb.MCLMC(step_size=0.02, decoherence_time=0.1), tb.MCLMC(target_energy_error=0.1)],
    "sghmc": [tb.SGHMC(batch_size=8, num_steps=7, friction=1.0, step_size=0.001)],
}
SMALL_ADAPTIVE = tb.AdaptiveHMC(
    num_steps_start=5, num_steps_min=2, num_steps_max=10, num_steps_increment=1
)
UNIT = tb.Normal(0.0, 1.0)
X = np.linspace(-1, 1, 20)
POSTERIOR = {
    dtype: tb.Posterior(
        tb.Network(tb.Dense(2, UNIT, UNIT), tb.Tanh(), tb.Dense(1, UNIT, UNIT), inputs=1),
        tb.Gaussian(sd=tb.Hyper(0.3)),
        X,
        np.sin(3 * X),
        dtype=dtype,
    )
    for dtype in ("float32", "float64")
}


def some_target(dtype="float64"):
    posterior = POSTERIOR[dtype]
    return TargetDensity(posterior.model, posterior._arrays, None)


# Facts of each sampler, and the fields of its state, which are names on disk.
FACTS = {
    "HMC": (True, (), ("iteration", "tuning"), True),
    "GHMC": (True, (), ("iteration", "tuning"), True),
    "NUTS": (True, ("blackjax",), ("iteration",), False),
    "AdaptiveHMC": (True, (), ("iteration",), False),
    "MCLMC": (False, ("blackjax",), ("iteration",), False),
    "SGHMC": (False, (), ("iteration",), False),
    "MeanField": (False, (), (), False),
}
FIELDS = {
    "HMC": """
        position log_density gradient iteration tuning.averaging.log_step_size
        tuning.averaging.log_average tuning.averaging.mean_error tuning.averaging.updates
        tuning.averaging.log_anchor tuning.length tuning.lengths tuning.units.center
        tuning.units.scale tuning.record tuning.acceptance tuning.path
        tuning.settings.round_length tuning.settings.end tuning.settings.tunes_step_size
        tuning.settings.tunes_length tuning.settings.target_acceptance tuning.settings.max_steps
        tuning.settings.many_steps settings.num_steps settings.step_size_jitter
        settings.num_steps_jitter
    """,
    "GHMC": """
        position momentum log_density gradient slice iteration tuning.averaging.log_step_size
        tuning.averaging.log_average tuning.averaging.mean_error tuning.averaging.updates
        tuning.averaging.log_anchor tuning.length tuning.lengths tuning.units.center
        tuning.units.scale tuning.record tuning.acceptance tuning.path
        tuning.settings.round_length tuning.settings.end tuning.settings.tunes_step_size
        tuning.settings.tunes_length tuning.settings.target_acceptance tuning.settings.max_steps
        tuning.settings.many_steps settings.num_steps settings.num_steps_jitter
        settings.trajectory_length settings.slice_step
    """,
    "NUTS": """
        position log_density gradient iteration adaptation.log_step_size adaptation.log_average
        adaptation.mean_error adaptation.updates adaptation.log_anchor settings.adapt_steps
        settings.target_acceptance settings.max_tree_depth
    """,
    "AdaptiveHMC": """
        position log_density theta z_phi iteration adapter.step_size_min adapter.step_size_max
        adapter.step_size adapter.num_steps adapter.features adapter.weights adapter.covariance
        adapter.highest adapter.tried adapter.reward_sum adapter.trajectories adapter.rejected
        adapter.resets constants.step_sizes.features constants.step_sizes.squares
        constants.step_sizes.pairs constants.num_steps.features constants.num_steps.squares
        constants.num_steps.pairs
        constants.num_steps_min constants.num_steps_increment constants.averaging_steps constants.a
        constants.delta constants.k constants.strikes constants.random_steps hyper.log_step_size
        hyper.log_average hyper.mean_error hyper.updates hyper.log_anchor weaving.log_step_size
        weaving.log_average weaving.mean_error weaving.updates weaving.log_anchor settings.burn_in
        settings.hyper_adapt_steps settings.hyper_num_steps settings.hyper_target_acceptance
        settings.interweaves settings.step_size_jitter settings.rewards_function
    """,
    "MCLMC": """
        position momentum log_density gradient iteration adaptation.log_step_size
        adaptation.log_average adaptation.mean_error adaptation.updates adaptation.log_anchor
        spread.visits spread.mean spread.squares settings.step_size_adapt_steps
        settings.time_adapt_steps settings.target_energy_error settings.decoherence_time
        settings.max_steps
    """,
    "SGHMC": """
        position momentum log_density gradient rows noise iteration adaptation.log_step_size
        adaptation.log_average adaptation.mean_error adaptation.updates adaptation.log_anchor
        spread.visits spread.mean spread.squares settings.burn_in settings.adapt_steps
        settings.target_energy_error settings.friction_adapt_steps settings.friction
        settings.num_steps
    """,
    "MeanField": """
        position log_density normals.mean normals.log_sd record.elbos record.elbo
        record.elbo_error record.pareto_k record.ess record.history
    """,
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_and_fields_of_the_state(name):
    sampler = KNOWN[name]()
    assert issubclass(KNOWN[name], tb.Sampler)
    facts = (sampler.exact, sampler.packages, sampler.learned, sampler.share is not None)
    assert facts == FACTS[name]
    assert (sampler.share is None) == (sampler.pool is None)
    # Facts are of the class: what identifies a run is only its options.
    assert set(describe(sampler)) == {"type", *(each.name for each in dataclasses.fields(sampler))}
    facts = {"exact", "packages", "learned", "share", "pool", "most_gradients"}
    assert not facts & set(describe(sampler))
    with precision("float64"):
        target = some_target()
        state = sampler.init(target, jnp.full((1, target.dimension), 0.1), burn_in=200)
    paths = jax.tree_util.tree_leaves_with_path(state)
    assert [jax.tree_util.keystr(path)[1:] for path, _ in paths] == FIELDS[name].split()
    assert set(sampler.learned) <= set(state._fields)


def test_findings_are_of_samplers_that_are_not_exact():
    small = np.random.default_rng(0).normal(0, 0.01, (2, 100))
    info = {"energy_error_rms": small, "kinetic_temperature": 1 + small}
    for name, (exact, *_) in FACTS.items():
        found = KNOWN[name].findings(info)
        assert [each.sampler for each in found] == ([] if exact or name == "MeanField" else [name])
        assert not any(each.doubtful for each in found)
    far = np.random.default_rng(0).normal(0.5, 0.1, (2, 100))
    large = {"energy_error_rms": far, "kinetic_temperature": 1 + far}
    assert [each.doubtful for each in tb.MCLMC.findings(large)] == [True]
    assert [each.doubtful for each in tb.SGHMC.findings(large)] == [True]


def keys(chains, seed=0):
    return jax.random.split(jax.random.key(seed), chains)


def check_shapes(state, after, info, chains, dtype):
    """Chains are a leading axis of all, and a step keeps every shape and type."""
    assert isinstance(info, TransitionInfo)
    assert all(leaf.shape[0] == chains for leaf in jax.tree.leaves((after, info)))
    before_and_after = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, after))
    assert before_and_after[0] == before_and_after[1]
    assert after.position.dtype == dtype
    assert info.num_gradients.dtype == np.int32
    assert info.diverging.dtype == bool
    assert np.all(np.asarray(after.iteration) == 1)


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "hmc"])
def test_shapes_and_types_of_one_chain_in_float32(name):
    sampler = SAMPLERS[name]
    with precision("float32"):
        target = some_target("float32")
        state = sampler.init(target, jnp.full((1, target.dimension), 0.1), burn_in=10)
        after, info = jax.jit(sampler.step)(keys(1), state, target)
    check_shapes(state, after, info, 1, "float32")


MOVES = {"position", "momentum", "log_density", "gradient", "slice", "rows", "iteration"}


def learned(state):
    """The bits of all that does not move with the chain."""
    kept = {name: each for name, each in state._asdict().items() if name not in MOVES}
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(kept)]


@pytest.mark.parametrize("name", SAMPLERS)
def test_several_chains(name):
    """They keep the protocol, hold the density at their positions, and are as if alone."""
    # Batches of all rows, so that what SGHMC holds is no estimate.
    sampler = SAMPLERS[name] if name != "sghmc" else tb.SGHMC(num_steps=5)
    with precision("float64"):
        target = some_target()
        positions = jnp.asarray(np.random.default_rng(0).normal(0, 0.3, (3, target.dimension)))
        state = sampler.init(target, positions, burn_in=3)
        step = jax.jit(sampler.step)
        value_and_grad = jax.jit(jax.value_and_grad(target.log_density))
        after, info = step(keys(3), state, target)
        check_shapes(state, after, info, 3, "float64")
        own = jax.tree.map(lambda leaf: leaf[1:2], (keys(3), state))
        alone, _ = jax.jit(sampler.step)(*own, target)
        np.testing.assert_allclose(alone.position[0], after.position[1], rtol=1e-10)
        for index in range(6):  # burn-in ends among these
            before, (after, info) = after, step(keys(3, index), after, target)
            # Whatever is learned is learned in burn-in, which is 3 transitions.
            assert (
                learned(before) != learned(after)
                if index < 2
                else learned(before) == learned(after)
            )
            value, gradient = value_and_grad(after.position[0])
            np.testing.assert_allclose(after.log_density[0], value, rtol=1e-12)
            np.testing.assert_allclose(after.gradient[0], gradient, rtol=1e-9, atol=1e-9)
            assert info.lp[0] == after.log_density[0]


@dataclass(frozen=True)
class Counting:
    """A density that counts how often it is evaluated; it stands for a `TargetDensity`."""

    own: ClassVar[TargetDensity] = some_target()
    model, dimension = own.model, own.dimension
    vectors = own.vectors
    data: ClassVar[None] = None
    calls: ClassVar[list[int]] = []

    def log_density(self, position):
        jax.debug.callback(lambda: self.calls.append(1))
        return -0.5 * jnp.sum(position**2) - jnp.sum(position**4)

    @property
    def value_and_grad(self):
        return jax.value_and_grad(self.log_density)

    def batches_chains(self, chains):
        return False


jax.tree_util.register_static(Counting)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_gradients_that_are_counted_are_those_that_were_spent(name):
    """Over transitions in burn-in and after it, where some samplers spend less."""
    sampler, target, spent = SAMPLERS[name], Counting(), 0
    with precision("float64"):
        state = sampler.init(target, jnp.full((1, target.dimension), 0.3), burn_in=10)
        jax.effects_barrier()
        target.calls.clear()
        step = jax.jit(sampler.step)
        for index in range(20):
            state, info = step(keys(1, index), state, target)
            spent += int(info.num_gradients[0])
        jax.effects_barrier()
    assert len(target.calls) == spent > 20


@pytest.mark.parametrize("name", [*SAMPLERS, "adaptive"])
def test_no_transition_takes_more_gradients_than_announced(name):
    """In burn-in and after it; the bound is tight where nothing is random."""
    sampler, found = SAMPLERS.get(name, SMALL_ADAPTIVE), []
    with precision("float64"):
        target = some_target()
        positions = jnp.asarray(np.random.default_rng(0).normal(0, 0.3, (3, target.dimension)))
        state = sampler.init(target, positions, burn_in=20)
        step, most_gradients = jax.jit(sampler.step), jax.jit(sampler.most_gradients)
        for index in range(40):
            most = most_gradients(state)
            assert most.shape == (3,)
            assert most.dtype == np.int32
            state, info = step(keys(3, index), state, target)
            found.append(np.asarray(info.num_gradients / most))
    assert np.max(found) <= 1
    if name in ("adaptive", "mclmc", "sghmc"):
        assert np.min(found) == 1


def draw(sampler, **options):
    given = {"chains": 2, "burn_in": 12, "draws": 10, "progress": False}
    return tb.sample(POSTERIOR["float32"], sampler, **(given | options))


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "hmc"])
def test_numbers_recompile_nothing_and_adaptation_ends_with_burn_in(name):
    run = draw(SAMPLERS[name])
    assert np.all(run.sample_stats["step_size"] == run.sample_stats["step_size"][:, :1])
    compiled = advance._cache_size()
    for other in OTHERS[name]:
        draw(other, burn_in=9, draws=8, seed=3)
    assert advance._cache_size() == compiled


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "hmc"])
def test_a_step_far_too_large_leaves_finite_draws(name):
    """Given steps are used as they are; failed ones are rejected and reported as divergent."""
    sampler = dataclasses.replace(SAMPLERS[name], step_size=50.0)
    run = draw(sampler, burn_in=0, draws=10)
    assert all(np.all(np.isfinite(each)) for each in run.parameters.values())
    if name in ("ghmc", "nuts"):
        assert np.all(run.sample_stats["diverging"] == 1)
        weights = run.parameters["dense_0.weights"]
        assert np.all(weights == weights[:, :1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.GHMC(step_size=0.0), "`step_size` must be a positive number, got 0.0"),
        (lambda: tb.GHMC(decoherence_time=-1.0), "`decoherence_time` must be a positive number"),
        (lambda: tb.GHMC(trajectory_length=np.inf), "`trajectory_length` must be a positive"),
        (lambda: tb.GHMC(num_steps=2.5), "`num_steps` must be a whole number of at least 1"),
        (lambda: tb.GHMC(max_steps=True), "`max_steps` must be a whole number of at least 1"),
        (
            lambda: tb.GHMC(num_steps_jitter=1),
            r"`num_steps_jitter` must lie in \[0, 1\), got 1",
        ),
        (lambda: tb.GHMC(slice_step=1.0), "`slice_step` must lie between 0 and 1, got 1.0"),
        (lambda: tb.GHMC(target_acceptance=0), "`target_acceptance` must lie between 0 and 1"),
        (lambda: tb.NUTS(step_size="big"), "`step_size` must be a positive number, got 'big'"),
        (lambda: tb.NUTS(target_acceptance=1.5), "`target_acceptance` must lie between 0 and 1"),
        (lambda: tb.NUTS(max_tree_depth=0), "`max_tree_depth` must be a whole number of at least"),
        (
            lambda: tb.NUTS(max_tree_depth=16),
            "at most 15, got 16",
        ),
        (
            lambda: tb.MCLMC(target_energy_error=0),
            "`target_energy_error` must be a positive number, got 0",
        ),
        (
            lambda: tb.MCLMC(target_energy_error=None),
            "`target_energy_error` must be a positive number, got None",
        ),
        (
            lambda: tb.SGHMC(target_energy_error=None),
            "`target_energy_error` must be a positive number, got None",
        ),
        (
            lambda: tb.HMC(max_steps=10**12),
            "`max_steps` must be a whole number of at most 2147483647, got",
        ),
        (lambda: tb.MCLMC(decoherence_time=0), "`decoherence_time` must be a positive number"),
        (lambda: tb.MCLMC(max_steps=0), "`max_steps` must be a whole number of at least 1, got 0"),
        (lambda: tb.SGHMC(batch_size=0), "`batch_size` must be a whole number of at least 1"),
        (lambda: tb.SGHMC(friction=-2), "`friction` must be a positive number, got -2"),
        (lambda: tb.SGHMC(num_steps=1.5), "`num_steps` must be a whole number of at least 1"),
        (
            lambda: tb.SGHMC(step_size=float("nan")),
            "`step_size` must be a positive number, got nan",
        ),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()
