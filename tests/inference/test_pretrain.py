"""Pre-training is AMSGrad, finds what it should, stops when it should, and starts chains."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import forward
from tensorbnn.inference import cycles
from tensorbnn.inference import pretrain as module
from tensorbnn.inference.pretrain import split

pytestmark = pytest.mark.slow

ROWS = 12
X = np.random.default_rng(0).normal(size=(ROWS, 2))
Y = X @ [1.5, -0.7] + 0.4 + 0.3 * np.random.default_rng(1).normal(size=ROWS)
SD, WIDTH = 0.5, 0.8
UNIT = tb.Normal(0.0, WIDTH)


def linear(x=X, y=Y, **options):
    """Linear regression: every loss has a closed form."""
    network = tb.Network(tb.Dense(1, weight_prior=UNIT, bias_prior=UNIT), inputs=x.shape[1])
    return tb.Posterior(network, tb.Gaussian(sd=SD), x, y, **{"dtype": "float64"} | options)


def train(posterior=None, **options):
    quick = {"chains": 1, "validation_fraction": 0, "progress": False}
    return tb.pretrain(linear() if posterior is None else posterior, **(quick | options))


def flat(posterior, result, chain=0):
    return posterior.flatten({name: value[chain] for name, value in result.items()})


def design(x=X):
    return np.column_stack([x, np.ones(len(x))])


def gradient(theta, x=X, y=Y):
    """Of minus the mean log-likelihood of a row."""
    return design(x).T @ (design(x) @ theta - y) / SD**2 / len(x)


def same(first, second):
    curves = ("training_loss", "validation_loss", "epochs", "best_loss")
    return all(np.array_equal(first[name], second[name]) for name in first) and all(
        np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True)
        for name in curves
    )


# What it does


def amsgrad(theta, rate, batches):
    """Reddi, Kale & Kumar (2018), with Adam's correction for the moments' start at zero."""
    m, v, u = np.zeros(3), np.zeros(3), np.zeros(3)
    for t, (x, y) in enumerate(batches, start=1):
        g = gradient(theta, x, y)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        u = np.maximum(u, v / (1 - 0.999**t))
        theta = theta - rate * m / (1 - 0.9**t) / (np.sqrt(u) + 1e-8)
    adam_differs = np.abs(u * (1 - 0.999**t) / v - 1).max() > 1e-3
    assert len(batches) == 1 or adam_differs
    return theta


@pytest.mark.parametrize("steps", [1, 6])
def test_a_step_is_one_of_amsgrad(steps):
    result = train(
        objective="likelihood",
        epochs=steps,
        cycles=1,
        learning_rate=0.3,
        start={"dense_0.weights": np.zeros((2, 1)), "dense_0.biases": [0.0]},
    )
    np.testing.assert_array_less(np.diff(result.training_loss[0, 0]), 0)  # the last is the best
    expected = amsgrad(np.zeros(3), 0.3, [(X, Y)] * steps)
    np.testing.assert_allclose(flat(linear(), result), expected, rtol=1e-12)


LONG = {"epochs": 2000, "patience": 100, "learning_rate": 0.1}


# Of 12 seeds the worst ended 6e-9 away with all rows in a batch, and 2e-3 with noisy batches.
@pytest.mark.parametrize(("batch_size", "tolerance"), [(None, 1e-7), (5, 0.01)])
def test_most_likely_is_least_squares(batch_size, tolerance):
    result = train(objective="likelihood", batch_size=batch_size, cycles=4, **LONG)
    expected, residual = np.linalg.lstsq(design(), Y)[:2]
    np.testing.assert_allclose(flat(linear(), result), expected, atol=tolerance)
    least = residual[0] / (2 * SD**2) / ROWS + np.log(SD * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(result.best_loss, [least], rtol=tolerance**2 * 10)


def test_most_probable_is_ridge_regression():
    result = train(objective="posterior", cycles=4, **LONG)
    precision_matrix = design().T @ design() / SD**2 + np.eye(3) / WIDTH**2
    expected = np.linalg.solve(precision_matrix, design().T @ Y / SD**2)
    np.testing.assert_allclose(flat(linear(), result), expected, atol=1e-7)
    assert np.abs(expected - np.linalg.lstsq(design(), Y)[0]).max() > 0.01


def test_the_validation_loss_is_the_mean_of_validation_rows():
    result = train(validation=(X[:5], Y[:5]), epochs=10, cycles=1)
    residuals = Y[:5] - design(X[:5]) @ flat(linear(), result)
    expected = (residuals**2).mean() / (2 * SD**2) + np.log(SD * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(result.best_loss, [expected], rtol=1e-12)


def test_rates_are_divided_and_the_optimizer_starts_anew():
    """The first step of AMSGrad moves every parameter by the rate."""
    start = {"dense_0.weights": np.zeros((2, 1)), "dense_0.biases": [-9.0]}
    options = {"epochs": 1, "learning_rate": 0.1, "learning_rate_factor": 0.25, "start": start}
    ends = [np.array([0.0, 0.0, -9.0])]
    ends += [flat(linear(), train(cycles=cycles, **options)) for cycles in (1, 2, 3)]
    steps = np.abs(np.diff(ends, axis=0))
    np.testing.assert_allclose(steps, np.outer([0.1, 0.025, 0.00625], np.ones(3)), rtol=1e-5)


# When it stops, and what it keeps


def test_a_cycle_stops_when_its_patience_is_over():
    result = train(learning_rate=1e-300, patience=7, epochs=30, cycles=3)
    np.testing.assert_array_equal(result.epochs, [[7, 7, 7]])
    assert result.validation_loss.shape == (1, 3, 30)
    for curves in (result.training_loss, result.validation_loss):
        np.testing.assert_array_equal(np.isnan(curves[0]), np.tile(np.arange(30) >= 7, (3, 1)))


def test_a_cycle_stops_at_its_last_epoch():
    result = train(patience=1000, epochs=70, cycles=2)
    np.testing.assert_array_equal(result.epochs, [[70, 70]])
    assert np.all(np.isfinite(result.validation_loss))


def test_patience_counts_from_the_last_fall():
    result = train(learning_rate=0.5, patience=3, epochs=500, cycles=1)
    curve = result.validation_loss[0, 0, : result.epochs[0, 0]]
    assert 4 < len(curve) < 500
    best = np.argmin(curve)
    assert len(curve) == best + 1 + 3


def test_the_best_by_validation_is_kept_and_starts_the_next_cycle():
    # Training pulls away from the start, which is best by these validation data.
    begin = np.array([0.3, -0.2, 0.1])
    start = {"dense_0.weights": begin[:2, None], "dense_0.biases": begin[2:]}
    options = {"validation": (X, design() @ begin), "start": start, "patience": 4, "epochs": 20}
    result = train(learning_rate=0.1, learning_rate_factor=1e-300, cycles=2, **options)
    np.testing.assert_array_equal(flat(linear(), result), begin)
    assert np.all(result.validation_loss[0, 0, :4] > result.best_loss)
    np.testing.assert_array_equal(result.epochs, [[4, 4]])
    np.testing.assert_allclose(result.validation_loss[0, 1, :4], result.best_loss[0], rtol=1e-14)


def test_a_better_network_on_the_way_is_kept():
    """Validation data whose best network the training passes and leaves."""
    way = train(learning_rate=0.05, epochs=12, cycles=1)
    middle = flat(linear(), train(learning_rate=0.05, epochs=5, cycles=1))
    result = train(
        learning_rate=0.05, epochs=12, cycles=1, validation=(X, design() @ middle), patience=50
    )
    assert np.nanargmin(result.validation_loss[0, 0]) == 4
    np.testing.assert_allclose(flat(linear(), result), middle, rtol=1e-12)
    assert np.abs(flat(linear(), way) - middle).max() > 0.1
    assert result.best_loss[0] == np.nanmin(result.validation_loss)


def test_diverging_training_returns_the_best_network():
    result = train(learning_rate=1e200, patience=2, cycles=2)
    assert np.all(np.isfinite(result.best_loss))
    assert all(np.all(np.isfinite(value)) for value in result.values())
    assert not np.all(np.isfinite(result.validation_loss[0, 0, :2]))


# Which rows


@pytest.mark.parametrize(
    ("rows", "fraction", "aside"), [(12, 0.2, 2), (12, 0.001, 1), (2, 0.9, 1), (5, 0.99, 4)]
)
def test_the_split_is_disjoint_and_complete(rows, fraction, aside):
    posterior = linear(X[:rows], Y[:rows])
    training, validation = split(posterior._prepare_own(), fraction, jax.random.key(3))
    assert len(validation.dataset) == len(validation.targets) == aside
    together = np.concatenate(
        [np.column_stack([part.dataset.x, part.targets]) for part in (training, validation)]
    )
    expected = np.column_stack([X[:rows], Y[:rows]])
    np.testing.assert_array_equal(
        together[together[:, 0].argsort()], expected[X[:rows, 0].argsort()]
    )


def keys_of(seed):
    """The key of the split, and those of one network for its start and its batches."""
    return module.split_keys(jax.random.key(seed, impl="threefry2x32"), module.STREAM, 1, 2)


@pytest.mark.parametrize(("rows", "fraction"), [(1, 0.5), (12, 0.0)])
def test_nothing_is_set_aside(rows, fraction):
    posterior = linear(X[:rows], Y[:rows])
    training, validation = split(posterior._prepare_own(), fraction, jax.random.key(3))
    assert validation is None
    assert len(training.dataset) == rows


def test_the_split_is_seeded_and_its_rows_only_validate():
    keys = [keys_of(seed)[0] for seed in (5, 5, 6)]
    parts = [split(linear()._prepare_own(), 0.25, key) for key in keys]
    for first, again, other in zip(*parts, strict=True):
        np.testing.assert_array_equal(first.inputs, again.inputs)
        assert not np.array_equal(first.inputs, other.inputs)
    training, validation = (part.dataset for part in parts[0])
    by_hand = train(
        linear(training.x, training.y), validation=(validation.x, validation.y), seed=5, epochs=20
    )
    assert same(by_hand, train(validation_fraction=0.25, seed=5, epochs=20))


def test_batches_of_equal_rows_equal_the_full_gradient():
    """The likelihood of a batch represents that of all rows; the prior counts once."""
    posterior = linear(np.tile(X[:1], (ROWS, 1)), np.tile(Y[:1], ROWS))
    start = {"dense_0.weights": np.zeros((2, 1)), "dense_0.biases": [0.0]}
    options = {"start": start, "cycles": 1, "learning_rate": 1e-3}
    whole = train(posterior, epochs=4, **options)
    # Two batches of five in each epoch; two rows are left out.
    batches = train(posterior, epochs=2, batch_size=5, **options)
    np.testing.assert_allclose(flat(posterior, batches), flat(posterior, whole), rtol=1e-10)


def test_each_epoch_goes_through_whole_batches_of_shuffled_rows():
    start = {"dense_0.weights": np.zeros((2, 1)), "dense_0.biases": [-9.0]}
    options = {"objective": "likelihood", "epochs": 2, "cycles": 1, "start": start}
    result = train(batch_size=5, learning_rate=0.1, seed=2, **options)
    key = keys_of(2)[1][1][0]
    epochs = [jax.random.fold_in(jax.random.fold_in(key, 0), i) for i in range(2)]
    orders = [
        np.asarray(jax.random.permutation(jax.random.split(each)[1], ROWS)) for each in epochs
    ]
    assert not np.array_equal(*orders)
    batches = [order[begin : begin + 5] for order in orders for begin in (0, 5)]
    expected = amsgrad([0.0, 0.0, -9.0], 0.1, [(X[rows], Y[rows]) for rows in batches])
    np.testing.assert_allclose(flat(linear(), result), expected, rtol=1e-10)


def test_batches_large_enough_for_tiles(monkeypatch):
    options = {"objective": "likelihood", "epochs": 3, "cycles": 1}
    expected = train(linear(engine="jax"), **options)
    monkeypatch.setattr(forward, "ROW_MULTIPLE", 5)
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 10)
    tiled = train(
        linear(engine="jax"), batch_size=ROWS, **options
    )  # two tiles of five rows, and two rows more
    np.testing.assert_allclose(tiled.best_loss, expected.best_loss, rtol=1e-12)


# Which networks


def test_networks_are_independent_or_the_same():
    apart = train(chains=2, epochs=5)
    first = apart["dense_0.weights"]
    assert first.shape == (2, 2, 1)
    assert np.abs(first[0] - first[1]).max() > 0.01
    together = train(chains=2, epochs=5, same_start=True)
    for name, value in together.items():
        assert value.shape == apart[name].shape
        np.testing.assert_allclose(value, np.repeat(apart[name][:1], 2, axis=0), rtol=1e-9)
    assert together.training_loss.shape == apart.training_loss.shape == (2, 3, 5)
    assert together.epochs.shape == (2, 3)
    assert together.best_loss.shape == (2,)


def test_networks_stop_independently():
    result = train(chains=2, learning_rate=0.5, patience=3, epochs=400, cycles=1)
    assert len(np.unique(result.epochs)) > 1
    for chain, (epochs,) in enumerate(result.epochs):
        curve = result.validation_loss[chain, 0]
        assert np.all(np.isnan(curve[epochs:]))
        assert not np.any(np.isnan(curve[:epochs]))
        assert epochs == np.argmin(curve[:epochs]) + 1 + 3


def test_the_same_seed_gives_the_same_bits(monkeypatch):
    options = {"batch_size": 5, "epochs": 40}
    reference = train(**options, seed=4)
    assert same(reference, train(**options, seed=4))
    assert not same(reference, train(**options, seed=5))
    monkeypatch.setattr(cycles, "SECONDS_PER_CALL", 0.0)  # one epoch in every call
    assert same(reference, train(**options, seed=4))


def test_the_users_own_start():
    network = tb.Network(tb.Dense(1, weight_prior=UNIT, bias_prior=UNIT), inputs=2)
    posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y, dtype="float64")
    weights, sd = np.array([[[1.0], [2.0]], [[3.0], [4.0]]]), 2.0
    start = {"dense_0.weights": weights, "dense_0.biases": [0.5], "likelihood.sd": sd}
    result = train(posterior, start=start, chains=2, learning_rate=1e-300, objective="likelihood")
    assert list(result) == ["dense_0.weights", "dense_0.biases"]
    np.testing.assert_array_equal(result["dense_0.weights"], weights)
    np.testing.assert_array_equal(result["dense_0.biases"], [[0.5], [0.5]])
    residuals = Y - (X @ weights[..., 0].T + 0.5).T
    expected = (residuals**2).mean(axis=1) / (2 * sd**2) + np.log(sd * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(result.best_loss, expected, rtol=1e-12)


def check_dtype(result, dtype):
    curves = (result.training_loss, result.validation_loss, result.best_loss)
    assert {value.dtype for value in (*result.values(), *curves)} == {np.dtype(dtype)}


def test_chains_start_from_it():
    posterior = linear(dtype="float32")
    result = train(posterior, chains=2, epochs=20)
    assert isinstance(result, tb.Pretrained)
    assert set(result) == set(posterior.network.parameters)
    assert len(result) == 2
    check_dtype(result, np.float32)
    check_dtype(train(), np.float64)
    still = tb.HMC(step_size=1e-6, num_steps=1)
    run = tb.sample(posterior, still, start=result, chains=2, burn_in=0, draws=1, progress=False)
    for name, value in result.items():
        np.testing.assert_allclose(run.parameters[name][:, 0], value, atol=1e-4)
    assert repr(result).startswith("Pretrained(2 networks, validation loss ")


@dataclass(frozen=True)
class Poisson(tb.Likelihood):
    def log_density(self, outputs, targets):
        return (targets * outputs - jnp.exp(outputs)).sum(axis=0)

    def mean(self, outputs):
        return jnp.exp(outputs)

    def variance(self, outputs):
        return jnp.exp(outputs)


POSITIVE = tb.Dense(3, weight_prior=tb.Exponential(1.0), bias_prior=tb.HalfNormal(1.0))


@pytest.mark.parametrize(
    ("layers", "likelihood", "y"),
    [
        ((tb.Sigmoid(), tb.Tanh(), tb.Softmax(), tb.Dense(1)), tb.Gaussian(tb.Hyper(0.3)), Y),
        ((tb.Exp(), tb.ReLU(), tb.LeakyReLU(), tb.Dense(1), tb.Sigmoid()), tb.Bernoulli(), Y > 0),
        (
            (tb.ELU(), tb.PReLU(), tb.SquarePReLU(), tb.Dense(3)),
            tb.Categorical(),
            np.arange(12) % 3,
        ),
        ((tb.Tanh(), POSITIVE, tb.CauchyDense(1)), Poisson(), np.arange(12)),
    ],
    ids=["gaussian", "bernoulli", "categorical", "poisson"],
)
def test_every_network_and_likelihood_trains(layers, likelihood, y):
    network = tb.Network(tb.Dense(6), *layers, inputs=2)
    posterior = tb.Posterior(network, likelihood, X, y)
    result = train(posterior, epochs=80, cycles=1, patience=80)
    start = train(posterior, learning_rate=1e-30, patience=80, cycles=1)
    held = posterior.flatten_hyperparameters(posterior.model.start_hypers())
    expected = -posterior.log_density(flat(posterior, result), held) / ROWS
    np.testing.assert_allclose(result.best_loss, [expected], rtol=1e-5)
    np.testing.assert_array_equal(result.training_loss, result.validation_loss)
    assert result.best_loss[0] < start.best_loss[0] - 0.1
    for name, value in result.items():
        assert np.all(np.isfinite(value))
        assert np.all(value != start[name]), name
        if posterior.network.parameters[name].prior.support == "positive":
            assert np.all(value > 0)


def test_a_positive_parameter_never_becomes_zero():
    network = tb.Network(tb.Dense(1), tb.PReLU(), inputs=1)
    model = tb.Posterior(network, tb.Gaussian(sd=SD)).model
    slopes = module.named_networks(model, jnp.full((1, 3), -1e4))["prelu_0.slopes"]
    assert np.asarray(slopes)[0, 0] > 0


def test_a_changed_number_recompiles_nothing():
    train(epochs=9)
    compiled = cycles._advance._cache_size()
    train(learning_rate=0.02, learning_rate_factor=1 / 3, patience=4, epochs=80, cycles=2, seed=8)
    assert cycles._advance._cache_size() == compiled


def test_progress_reaches_its_end(monkeypatch):
    seen = []

    class Recorder(module.Bar):
        def advance(self, steps, note=""):
            seen.append((steps, note))

    monkeypatch.setattr(module, "Bar", Recorder)
    result = train(cycles=2, epochs=90, patience=2, learning_rate=1e-300)
    assert sum(steps for steps, _ in seen) == 180
    assert seen[-1][1] == f"cycle 2, loss {result.best_loss[0]:.4g}"


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, "`chains` must be a whole number of at least 1, got 0"),
        ({"chains": True}, "`chains` must be a whole number of at least 1, got True"),
        ({"cycles": 0}, "`cycles` must be a whole number of at least 1, got 0"),
        ({"epochs": 1.5}, "`epochs` must be a whole number of at least 1, got 1.5"),
        ({"patience": 0}, "`patience` must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a positive number, got 0.0"),
        ({"learning_rate": np.inf}, "`learning_rate` must be a positive number, got inf"),
        ({"learning_rate_factor": -1}, r"`learning_rate_factor` must lie in \(0, 1\], got -1"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1, got 0"),
        ({"batch_size": 13}, r"`batch_size` \(13\) must not be above .* training rows, 12"),
        (
            {"batch_size": 11, "validation_fraction": 0.2},
            r"training rows, 10 \(validation rows not counted\)",
        ),
        ({"validation_fraction": 1.0}, r"`validation_fraction` must lie in \[0, 1\), got 1.0"),
        ({"validation_fraction": "a"}, r"`validation_fraction` must lie in \[0, 1\), got 'a'"),
        ({"objective": "map"}, "`objective` must be 'posterior' or 'likelihood', got 'map'"),
        (
            {"validation": (X[:, :1], Y)},
            "in `validation`, `x` has 1 columns but the network has 2 inputs",
        ),
        ({"validation": (X, np.ones((12, 3)))}, "in `validation`, `y` has 3 columns"),
        ({"validation": (X, Y[:3])}, "in `validation`, `x` has 12 rows but `y` has 3"),
        ({"validation": (X, Y * np.nan)}, "in `validation`, `y` must be finite"),
        (
            {"start": {"dense_9.weights": 0}},
            r"`start` names unknown parameters \['dense_9.weights'\]: the model has \['dense_0",
        ),
        ({"start": {"dense_0.biases": [1.0, 2.0]}}, r"it must be \(1,\), or \(2, 1\) for a value"),
        (
            {"start": {"dense_0.biases": [[1.0], [2.0]]}, "same_start": True},
            r"in the shape \(2, 1\): it must be \(1,\), or \(1, 1\) for a value per trained",
        ),
        ({"start": {"dense_0.biases": [np.nan]}}, "dense_0.biases must be finite"),
        (
            {"start": {"dense_0.weights": [[1.0], [2.0, 3.0]]}},
            "dense_0.weights in `start` must be an array of numbers: setting an array element",
        ),
        (
            {"start": {"dense_0.biases": [1e300]}},
            "validation loss at the start of network 0 is inf: standardize the data .*, or give",
        ),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        train(**({"chains": 2} | options))


def test_bad_types():
    with pytest.raises(TypeError, match=r"`posterior` must be a tb\.Posterior, got Network"):
        train(linear().network)
    with pytest.raises(TypeError, match=r"`validation` must be a pair .* got ndarray"):
        train(validation=X)
    with pytest.raises(TypeError, match="in `validation`, `y` must hold numbers"):
        train(validation=(X, ["a"] * 12))
    with pytest.raises(TypeError, match="`same_start` must be True or False, got 'no'"):
        train(same_start="no")
    with pytest.raises(TypeError, match=r"`start` must map names to values, .*, got int"):
        train(start=5)
    with pytest.raises(TypeError, match=r"dense_0.biases in `start` must hold numbers, got an"):
        train(start={"dense_0.biases": ["a"]})
    with pytest.raises(TypeError, match="unexpected keyword argument 'patiance'"):
        train(patiance=3)


def test_without_data_there_is_nothing_to_train():
    prior = tb.Posterior(linear().network, tb.Gaussian(sd=SD))
    with pytest.raises(ValueError, match=r"`posterior` has no data to train on: build it as tb\."):
        train(prior)
