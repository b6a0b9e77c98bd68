"""Tuning against exact answers: acceptance, autocorrelation, and the best length on a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import norm

import tensorbnn as tb
from tensorbnn.inference import length_search, tuning
from tensorbnn.inference.sampler import POOLING_ROUNDS, pooling_rounds
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision

UNIT = tb.Normal(0.0, 1.0)
# Acceptance that is aimed at: 0.9 of the trajectories, more of those that take half the step.
OVERALL = (1 - tuning.HALVED) * 0.9 + tuning.HALVED * 2 * norm.cdf(norm.ppf(0.45) / 4)


def linear_prior():
    return tb.Posterior(tb.Network(tb.Dense(1, UNIT, UNIT), inputs=3), tb.Gaussian(sd=1.0))


def make(burn_in=1000, **options):
    posterior = linear_prior()
    given = {
        "step_size": None,
        "length": None,
        "search": True,
        "target_acceptance": 0.9,
        "max_steps": 1024,
    }
    target = TargetDensity(posterior.model, None, None)
    return tuning.init(target, burn_in, **(given | options))


def test_chains_pool_after_equal_rounds():
    assert pooling_rounds(1000) == tuple(range(50, 1001, 50))
    assert pooling_rounds(1019) == tuple(range(50, 1001, 50))
    assert len(pooling_rounds(160)) == POOLING_ROUNDS
    assert pooling_rounds(159) == ()


def fitting(acceptance, steps, number):
    """The step size after round `number` for what chains had, both ``(chains, POOLING_ROUNDS)``."""
    weights = tuning._weights(jnp.asarray(number), float)
    now = jnp.log(steps[0, number])
    return np.exp(tuning.fit_step_size(jnp.log(steps), acceptance, weights, now, jnp.asarray(0.9)))


@pytest.mark.slow
def test_step_size_is_exact_where_errors_are_normal():
    """With acceptance 2 Phi(-c step^2), for any c of each chain and round: the next step fits."""
    rng = np.random.default_rng(0)
    c = np.exp(rng.normal(0, 0.2, size=(6, POOLING_ROUNDS))) * 3000.0
    steps = np.broadcast_to(np.exp(rng.uniform(-0.3, 0.3, size=POOLING_ROUNDS)) * 0.006, c.shape)
    accepted = 2 * norm.cdf(-c * steps**2)
    for number in (tuning.SEARCH, 12, POOLING_ROUNDS - 1):
        found = fitting(np.where(np.arange(POOLING_ROUNDS) <= number, accepted, 0.3), steps, number)
        seen = c[:, tuning.SEARCH : number + 1]
        weights = np.arange(1, seen.shape[1] + 1)  # later rounds count more
        mean = np.average(2 * norm.cdf(-seen * found**2), axis=1, weights=weights).mean()
        assert mean == pytest.approx(OVERALL, abs=1e-4)


@pytest.mark.slow
def test_one_chain_that_accepts_little_decides_on_the_step_size():
    c = np.full((8, POOLING_ROUNDS), 100.0)
    c[3] *= 16.0
    steps = np.full(c.shape, 0.015)
    found = fitting(2 * norm.cdf(-c * steps**2), steps, POOLING_ROUNDS - 1)
    assert 2 * norm.cdf(-1600.0 * found**2) == pytest.approx(OVERALL - tuning.LAGGING, abs=1e-4)


def share(state):
    return ravel_pytree(tuning._report(state))[0]


def shared_by(state, record):
    """What a chain shares whose outputs in a round were `record`."""
    return share(state._replace(record=jnp.asarray(record, dtype=float)))


def autoregression(rng, correlation, chains, count):
    """Stationary AR(1) series ``(chains, RECORD, count)`` of unit variance."""
    values = rng.normal(size=(chains, length_search.RECORD, count))
    for row in range(1, length_search.RECORD):
        values[:, row] *= np.sqrt(1 - correlation**2)
        values[:, row] += correlation * values[:, row - 1]
    return values


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.3, 0.7, 0.95])
def test_scores_are_effective_draws(correlation):
    """Outputs of known autocorrelation: draws (1 - rho) / (1 + rho) over a power of the length."""
    chains, length = 40, 0.7
    state = make(burn_in=POOLING_ROUNDS * length_search.RECORD)
    # Small against the bound, so that it does not distort them.
    state = state._replace(
        units=state.units._replace(scale=jnp.full_like(state.units.scale, 20.0)),
        path=jnp.asarray(length * length_search.RECORD),
    )
    rng = np.random.default_rng(3)
    series = autoregression(rng, correlation, chains, state.record.shape[1])
    shared = jnp.zeros((chains, POOLING_ROUNDS, share(state).size))
    shared = shared.at[:, tuning.SEARCH].set(jax.vmap(lambda each: shared_by(state, each))(series))
    reports = tuning._unravel(shared, state)
    tried = jnp.arange(POOLING_ROUNDS) == tuning.SEARCH
    found = length_search.scores(reports.outputs, reports.path, tried, state.settings.round_length)
    score = float(found[tuning.SEARCH])
    draws = (1 - correlation) / (1 + correlation)
    expected = draws / length ** np.interp(draws, length_search.FEW_MANY_DRAWS, [0.5, 1.0])
    # Over 40 chains and 32 outputs the autocorrelation is known within about a percent.
    assert score == pytest.approx(expected, rel=0.1)


def search(monkeypatch, score, step_sizes, *, end=tuning.FINAL, **options):
    """The lengths of a search whose scores are known, with a step size for each round.

    Chains accept as they should with the last of them.
    """
    state = make(burn_in=1000, **options)
    best_and_next = length_search.best_and_next
    monkeypatch.setattr(
        length_search,
        "best_and_next",
        lambda scored, lengths, *others: best_and_next(
            jnp.asarray(score(np.asarray(lengths)), dtype=float), lengths, *others
        ),
    )
    state = state._replace(averaging=tuning.DualAveraging.begin(jnp.asarray(step_sizes[0])))
    shared = jnp.zeros((1, POOLING_ROUNDS, share(state).size))
    shared = shared.at[:, :, 1].set(np.log(step_sizes))
    accepted = 2 * norm.cdf(norm.ppf(OVERALL / 2) * (step_sizes / step_sizes[-1]) ** 2)
    shared = shared.at[:, :, 2].set(accepted)
    for number in range(POOLING_ROUNDS):
        state = tuning.pool(state, shared, jnp.asarray(number))
    return np.asarray(state.lengths[tuning.SEARCH : end]), float(state.length)


@pytest.mark.slow
def test_search_climbs_to_the_best_length(monkeypatch):
    """Scores that are a known function of the length: the best is found from far away."""

    def score(length):
        return np.exp(-(np.log(length / 4.0) ** 2))

    tried, found = search(monkeypatch, score, np.full(POOLING_ROUNDS, 0.004))
    assert tried[0] == pytest.approx(length_search.MIN_LENGTH, rel=1e-5)
    assert max(score(tried)) > score(4.0 * 2**0.25)  # the best is tried, to half a rung
    assert found == pytest.approx(tried[np.argmax(score(tried))])


@pytest.mark.slow
def test_a_length_does_not_stay_short_where_steps_have_grown(monkeypatch):
    """What is many steps while steps are tiny may be a single one at the end."""
    step_sizes = np.where(np.arange(POOLING_ROUNDS) < tuning.FINAL, 1e-4, 1e-3)
    tried, found = search(monkeypatch, lambda length: 1 / length, step_sizes)
    assert max(tried) < 3 * length_search.MANY_STEPS * 1e-4
    assert found == pytest.approx(length_search.MANY_STEPS * 1e-3, rel=0.05)


@pytest.mark.slow
def test_a_length_becomes_longer_in_the_end(monkeypatch):
    """Rounds are too short to show slow motion, whatever their scores; steps have a limit."""
    tiny = np.full(POOLING_ROUNDS, 1e-5)
    tried, found = search(
        monkeypatch, lambda length: 1 / length, tiny, end=tuning.LAST, many_steps=4000
    )
    assert max(tried) < 3 * length_search.MANY_STEPS * 1e-5  # burn-in is not to take most gradients
    assert found == pytest.approx(4000 * 1e-5, rel=1e-5)
    small = np.full(POOLING_ROUNDS, 1e-3)
    _, found = search(monkeypatch, lambda length: 1 / length, small, many_steps=4000)
    assert found == pytest.approx(length_search.MIN_LENGTH, rel=1e-5)


def gaussian_efficiency(length):
    """Effective draws per unit length of HMC on a unit Gaussian, lengths jittered by a half.

    Swinging to the other side is no gain: it helps means, not spreads.
    """
    correlation = np.maximum((np.sin(1.5 * length) - np.sin(0.5 * length)) / length, 0.02)
    return (1 - correlation) / (1 + correlation) / length


@pytest.mark.slow
def test_tuned_length_is_efficient_on_a_gaussian():
    """Every output is Gaussian under the prior: the length that is found is close to the best."""
    ensemble = tb.sample(
        linear_prior(), tb.HMC(step_size=0.2), chains=4, burn_in=1000, draws=100, progress=False
    )
    steps = np.mean(
        [each["num_gradients"] for each in ensemble.reports if each["transition"] > 1000]
    )
    best = max(gaussian_efficiency(np.linspace(0.5, 4, 100)))
    # Neighboring lengths differ by the root of two, over which efficiency falls to 0.7.
    assert gaussian_efficiency(0.2 * steps) > 0.7 * best


def small_posterior():
    x = np.linspace(-2, 2, 12)
    network = tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.2), x, np.sin(2 * x))


@pytest.mark.slow
def test_one_step_size_for_all_chains_and_acceptance_as_aimed_at():
    ensemble = tb.sample(small_posterior(), chains=4, burn_in=600, draws=400, progress=False)
    reports = [each for each in ensemble.reports if each["transition"] > 600]
    assert len({each["step_size"] for each in reports}) == 1
    # Transitions of a chain in a narrow region are alike, so that chains are what is independent:
    # four standard errors, of the draws and of the rounds on which the step rests, about as many.
    accepted = ensemble.sample_stats["acceptance_rate"]
    error = 4 * accepted.mean(axis=1).std(ddof=1) / np.sqrt(4) * np.sqrt(2)
    assert 0 < error < 0.15
    assert accepted.mean() == pytest.approx(OVERALL, abs=error)


@pytest.mark.slow
def test_given_options_are_not_tuned():
    sampler = tb.HMC(step_size=0.03, trajectory_length=0.3)
    ensemble = tb.sample(
        small_posterior(), sampler, chains=2, burn_in=200, draws=100, progress=False
    )
    assert [each["step_size"] for each in ensemble.reports] == pytest.approx([0.03] * 6)
    steps = [each["num_gradients"] for each in ensemble.reports]
    # Jittered by half: the mean of 100 lies within 4 of its standard errors.
    assert np.all(np.abs(np.asarray(steps) - 10) < 4 * 10 / np.sqrt(12) / np.sqrt(100))


@pytest.mark.slow
def test_chains_that_share_the_same_continue_alike():
    """What a chain does next depends on what all shared, not on which of them it is."""
    with precision("float32"):
        posterior = small_posterior()
        target = TargetDensity(posterior.model, posterior._arrays, None)
        state = tb.HMC().init(target, jnp.zeros((3, target.dimension)), burn_in=400)
        shared = np.random.default_rng(0).uniform(0.1, 1, size=(3, POOLING_ROUNDS, 4 + 10 * 32))
        after = tb.HMC.pool(state, jnp.asarray(shared, dtype=float), jnp.asarray(9))
    for leaf in jax.tree.leaves((after.tuning.averaging, after.tuning.length)):
        assert len(np.unique(np.asarray(leaf))) == 1
