"""From arrays to networks: the same bits, however the run is divided; and every bad input."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.errors import NoDrawsError
from tensorbnn.inference.sampler import root_key
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.warning import StoppedInBurnIn
from tests.raising import raises, warns
from tests.sampled import sample_run

X = np.linspace(-1, 1, 9)
Y = np.sin(2 * X)


def posterior(**options):
    network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y, **options)


def draw(target=None, **options):
    defaults = {"chains": 2, "burn_in": 30, "draws": 12, "progress": False}
    return sample_run(posterior() if target is None else target, **(defaults | options))


def same(first: tb.Ensemble, second: tb.Ensemble) -> bool:
    groups = ("parameters", "hyperparameters", "sample_stats")
    pairs = [(getattr(first, group), getattr(second, group)) for group in groups]
    return all(
        one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)
        for one, two in pairs
    )


@pytest.fixture(scope="module")
def reference():
    return draw()


def test_names_and_shapes(reference):
    shapes = {name: value.shape for name, value in reference.parameters.items()}
    assert shapes == {
        "dense_0.weights": (2, 12, 1, 4),
        "dense_0.biases": (2, 12, 4),
        "dense_1.weights": (2, 12, 4, 1),
        "dense_1.biases": (2, 12, 1),
    }
    expected = {f"{name}.{kind}" for name in shapes for kind in ("loc", "scale")} | {
        "likelihood.sd"
    }
    assert set(reference.hyperparameters) == expected
    assert all(value.shape == (2, 12) for value in reference.hyperparameters.values())
    assert all(value.shape == (2, 12) for value in reference.sample_stats.values())
    assert np.all(reference.hyperparameters["dense_0.weights.scale"] > 0)
    assert len(reference) == 24


def test_the_same_seed_gives_the_same_bits(reference):
    assert same(reference, draw())


def test_another_seed_or_chain_gives_others(reference):
    weights = reference.parameters["dense_0.weights"]
    assert not np.array_equal(weights, draw(seed=1).parameters["dense_0.weights"])
    assert not np.array_equal(weights[0], weights[1])


def test_all_64_bits_of_a_seed_count(reference):
    seeds = (2**32, 2**63, 2**64 - 1)
    runs = [reference, *(draw(seed=seed) for seed in seeds)]
    starts = [run.parameters["dense_0.weights"][0, 0].tobytes() for run in runs]
    assert len(set(starts)) == len(runs)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_a_seed_gives_the_key_that_jax_gives_it(seed):
    expected = jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))
    assert np.array_equal(jax.random.key_data(root_key(seed)), expected)


class SlowToBegin(tb.HMC):
    """A sampler that takes a second before the first transition."""

    def init(self, target, positions, burn_in):
        time.sleep(1.0)
        return super().init(target, positions, burn_in)


def test_minutes_begin_with_the_call():
    """What is done before the first transition, such as compiling, counts."""
    with warns(StoppedInBurnIn, limit="max_minutes", transitions=0):
        assert draw(sampler=SlowToBegin(), max_minutes=0.01).in_burn_in


@pytest.mark.parametrize("verb", [tb.sample, tb.pretrain, tb.fit_variational])
def test_inside_of_a_compiled_function_nothing_is_sampled(verb):
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(), [0.0], [1.0])
    with pytest.raises(TypeError, match=r"call this outside of jax\.jit"):
        jax.jit(lambda: verb(posterior))()


def test_a_chain_does_not_depend_on_how_many_there_are(reference):
    alone = draw(chains=1).parameters["dense_1.weights"]
    assert np.array_equal(alone[0], reference.parameters["dense_1.weights"][0])


@pytest.mark.slow
@pytest.mark.parametrize("networks_per_file", [1, 5, 100, 10**9])
def test_files_do_not_change_the_draws(reference, tmp_path, networks_per_file):
    run = draw(path=tmp_path / "run", networks_per_file=networks_per_file)
    assert same(reference, run)
    assert same(reference, tb.load(tmp_path / "run"))
    files = list((tmp_path / "run" / "chain-01").glob("draws-*.safetensors"))
    assert len(files) == -(-12 // networks_per_file)


@pytest.mark.slow
def test_files_that_hold_more_than_a_call_do_not_change_the_draws(tmp_path):
    """A call keeps 1,000 draws at most."""
    options = {"sampler": tb.HMC(step_size=0.05, num_steps=2), "burn_in": 0, "draws": 2700}
    reference = draw(**options)
    options |= {"networks_per_file": 2500}
    assert same(reference, draw(path=tmp_path / "run", **options))
    draw(path=tmp_path / "resumed", **options | {"draws": 1700})
    assert same(reference, tb.resume(tmp_path / "resumed", draws=2700, progress=False))


@pytest.mark.slow
@pytest.mark.parametrize("saved", [True, False])
def test_noises_come_in_the_order_of_the_columns(tmp_path, saved):
    network = tb.Network(tb.Dense(11), inputs=1)
    prior = tb.Posterior(network, tb.Gaussian(sd=[tb.Hyper(0.5)] * 11))
    path = tmp_path / "run" if saved else None
    run = tb.sample(prior, chains=1, burn_in=2, draws=2, path=path, progress=False)
    run = tb.load(path) if saved else run
    expected = [f"likelihood.sd.{column}" for column in range(11)]
    assert [name for name in run.hyperparameters if name.startswith("like")] == expected


def test_thin_takes_every_other_draw(reference):
    thinned = draw(draws=6, thin=2)
    for name, values in reference.parameters.items():
        assert np.array_equal(thinned.parameters[name], values[:, 1::2])
    steps = reference.sample_stats["num_gradients"].reshape(2, 6, 2).sum(axis=2)
    assert np.array_equal(thinned.sample_stats["num_gradients"], steps)
    acceptance = reference.sample_stats["acceptance_rate"].reshape(2, 6, 2).mean(axis=2)
    np.testing.assert_allclose(thinned.sample_stats["acceptance_rate"], acceptance, rtol=1e-6)


def test_burn_in_only_shifts_a_chain_that_does_not_adapt():
    sampler = tb.HMC(step_size=0.05, num_steps=5)
    whole = draw(sampler=sampler, burn_in=0, draws=12).parameters["dense_0.weights"]
    part = draw(sampler=sampler, burn_in=5, draws=7).parameters["dense_0.weights"]
    assert np.array_equal(whole[:, 5:], part)


@pytest.mark.slow
def test_the_number_of_cores_does_not_change_the_bits(tmp_path):
    """The same run pinned to one core and on all cores, each in its own process."""
    code = (
        "import os, sys, hashlib\n"
        "if sys.argv[1] == 'one' and hasattr(os, 'sched_setaffinity'):\n"
        "    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import numpy as np, tensorbnn as tb\n"
        "x = np.random.default_rng(0).normal(size=(3000, 5))\n"
        "network = tb.Network(tb.Dense(100), 'tanh', tb.Dense(1), inputs=5)\n"
        "posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, x.sum(axis=1))\n"
        "sampler = tb.HMC(step_size=1e-3, num_steps=4)\n"
        "run = tb.sample(posterior, sampler, chains=3, burn_in=0, draws=3, progress=False)\n"
        "weights = run.parameters['dense_0.weights'].tobytes()\n"
        "print(hashlib.sha256(weights).hexdigest())\n"
    )
    hashes = [
        subprocess.run(
            [sys.executable, "-c", code, cores], capture_output=True, text=True, check=True
        ).stdout
        for cores in ("one", "all")
    ]
    assert len(hashes[0].strip()) == 64
    assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_all_chains_at_once_as_on_an_accelerator(reference, monkeypatch):
    """There one program advances all chains by vmap: the same chains, to rounding."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = draw(burn_in=3, draws=2, sampler=tb.HMC(step_size=0.01, num_steps=5))
    monkeypatch.undo()
    alone = draw(burn_in=3, draws=2, sampler=tb.HMC(step_size=0.01, num_steps=5))
    for name, values in alone.parameters.items():
        np.testing.assert_allclose(together.parameters[name], values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(together.predict(X).mean, alone.predict(X).mean, atol=1e-4)


def test_memory_and_directory_agree_in_float64(tmp_path):
    target = posterior(dtype="float64")
    run = draw(target, path=tmp_path / "run")
    assert run.parameters["dense_0.weights"].dtype == np.float64
    assert same(run, tb.load(tmp_path / "run"))
    assert not jax.config.jax_enable_x64


@pytest.mark.slow
def test_hyper_parameters_can_be_held():
    run = draw(sample_hyperparameters=False)
    assert np.all(run.hyperparameters["dense_0.weights.scale"] == 1)
    np.testing.assert_allclose(run.hyperparameters["likelihood.sd"], 0.1, rtol=1e-6)
    held = draw(sample_hyperparameters=False, start={"likelihood.sd": 0.3})
    np.testing.assert_allclose(held.hyperparameters["likelihood.sd"], 0.3, rtol=1e-6)


def test_chains_start_at_given_values():
    values = np.arange(8.0).reshape(2, 1, 4)
    still = tb.HMC(step_size=1e-9, num_steps=1)
    run = draw(
        sampler=still,
        burn_in=0,
        draws=1,
        start={"dense_0.weights": values, "dense_1.biases": [0.5], "likelihood.sd": 0.2},
    )
    np.testing.assert_allclose(run.parameters["dense_0.weights"][:, 0], values, atol=1e-5)
    np.testing.assert_allclose(run.parameters["dense_1.biases"], 0.5, atol=1e-5)
    np.testing.assert_allclose(run.hyperparameters["likelihood.sd"], 0.2, rtol=1e-5)


@pytest.mark.slow
def test_chains_start_from_the_last_draws_of_an_ensemble(reference):
    still = tb.HMC(step_size=1e-9, num_steps=1)
    run = draw(sampler=still, burn_in=0, draws=1, start=reference)
    for name, values in reference.parameters.items():
        np.testing.assert_allclose(run.parameters[name][:, 0], values[:, -1], atol=1e-4)
    for name, values in reference.hyperparameters.items():
        np.testing.assert_allclose(run.hyperparameters[name][:, 0], values[:, -1], rtol=1e-4)
    # More chains than it has: the others from further back, no two from the same network.
    more = draw(sampler=still, burn_in=0, draws=1, chains=5, start=reference)
    starts = more.parameters["dense_0.weights"][:, 0]
    np.testing.assert_allclose(starts[:2], run.parameters["dense_0.weights"][:, 0], atol=1e-4)
    assert len(np.unique(starts.round(4), axis=0)) == 5
    # Another model: hyper-parameters that it does not have are left out, held ones stay.
    fewer = tb.Posterior(reference.network, tb.Gaussian(sd=0.2), X, Y)
    other = draw(fewer, sampler=still, burn_in=0, draws=1, start=reference)
    assert "likelihood.sd" not in other.hyperparameters
    held = draw(sampler=still, burn_in=0, draws=1, start=reference, sample_hyperparameters=False)
    assert np.all(held.hyperparameters["dense_0.weights.scale"] == 1)
    np.testing.assert_allclose(
        held.parameters["dense_0.weights"][:, 0],
        reference.parameters["dense_0.weights"][:, -1],
        atol=1e-4,
    )


@pytest.mark.slow
def test_weights_start_from_he_drawn_separately_for_each_chain():
    network = tb.Network(tb.Dense(200), tb.Dense(200), inputs=50)
    target = tb.Posterior(network, tb.Gaussian(sd=0.1))
    still = tb.HMC(step_size=1e-9, num_steps=1)
    run = tb.sample(target, still, chains=2, burn_in=0, draws=1, progress=False)
    for name, fan_in in (
        ("dense_0.weights", 50),
        ("dense_1.weights", 200),
        ("dense_1.biases", 200),
    ):
        first, second = run.parameters[name][:, 0].reshape(2, -1)
        sd = np.sqrt(2 / fan_in)
        assert abs(first.std() / sd - 1) < 4 / np.sqrt(2 * first.size)
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(first.size)


@pytest.mark.slow
def test_a_run_can_be_read_while_it_is_written(tmp_path):
    path = tmp_path / "run"
    options = {"draws": 400, "networks_per_file": 20, "path": path}
    thread = threading.Thread(target=lambda: draw(**options))
    thread.start()
    seen = []
    while thread.is_alive():
        try:
            seen.append(tb.load(path))
        except (FileNotFoundError, tb.RunError) as error:
            assert "no run.json" in str(error) or "no draws yet" in str(error)  # noqa: PT017
        time.sleep(0.02)
    thread.join()
    whole = tb.load(path)
    assert whole.num_draws == 400
    assert any(0 < early.num_draws < 400 for early in seen)
    for early in seen:
        weights = early.parameters["dense_0.weights"]
        assert np.array_equal(weights, whole.parameters["dense_0.weights"][:, : early.num_draws])


@pytest.mark.slow
def test_more_chains_than_cores_grow_together(tmp_path, monkeypatch):
    """On one core four chains take turns: a running run has draws of all of them."""
    monkeypatch.setattr(LocalBackend, "cores", lambda self: 1)
    thread = threading.Thread(
        target=lambda: draw(
            chains=4, draws=3000, networks_per_file=20, path=tmp_path / "run", burn_in=5
        )
    )
    thread.start()
    counts = []
    while thread.is_alive():
        files = [len(list(tmp_path.glob(f"run/chain-0{c}/draws-*"))) for c in range(4)]
        counts.append(files)
        time.sleep(0.05)
    thread.join()
    halfway = [files for files in counts if 30 <= max(files) < 150]
    assert halfway
    assert all(min(files) > 0 for files in halfway)


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_drawn(tmp_path):
    path = tmp_path / "run"

    def interrupt():
        while not list(path.glob("chain-0*/draws-00003.safetensors")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    # In the background of a shell, interrupts are ignored unless a handler is set.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            draw(draws=100_000_000, networks_per_file=10, path=path)
    finally:
        signal.signal(signal.SIGINT, before)
    kept = tb.load(path)
    assert kept.num_draws > 0
    assert DirectoryStore(path).manifest["status"] == "interrupted"
    short = draw(draws=min(kept.num_draws, 200)).parameters["dense_0.weights"]
    assert np.array_equal(kept.parameters["dense_0.weights"][:, : short.shape[1]], short)


def test_an_error_in_one_chain_stops_all(tmp_path, monkeypatch):
    def fail(self, chain, index, arrays):
        raise tb.RunError(f"no room for chain {chain}")

    monkeypatch.setattr(DirectoryStore, "write_chunk", fail)
    with pytest.raises(tb.RunError, match="no room for chain"):
        draw(draws=100_000_000, networks_per_file=10, path=tmp_path / "run")


@pytest.mark.parametrize("most", [0, 1])
def test_a_limit_on_threads(reference, tmp_path, monkeypatch, most):
    """With fewer threads than cores a run is the same; without any it can be resumed later."""
    start, started = threading.Thread.start, []

    def limited(thread):
        if "_work" in str(thread._target):
            started.append(thread)
            if len(started) > most:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(LocalBackend, "cores", lambda self: 4)
    monkeypatch.setattr(threading.Thread, "start", limited)
    if not most:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            draw(path=tmp_path / "run")
        monkeypatch.undo()
        found = tb.resume(tmp_path / "run", progress=False)
    else:
        found = draw(path=tmp_path / "run")
    assert same(found, reference)


@pytest.mark.slow
def test_the_manifest_describes_the_run(tmp_path):
    draw(path=tmp_path / "run", seed=5, sampler=tb.HMC(step_size=0.1, num_steps=3))
    manifest = DirectoryStore(tmp_path / "run").manifest
    assert manifest["status"] == "complete"
    assert manifest["seed"] == 5
    assert manifest["sampler"]["num_steps"] == 3
    assert manifest["library"] == tb.__version__
    assert manifest["data"]["shapes"] == {"x": [9, 1], "y": [9]}
    draw(path=tmp_path / "again")
    draw(tb.Posterior(posterior().network, tb.Gaussian(), X, Y + 1e-6), path=tmp_path / "other")
    again, other = (DirectoryStore(tmp_path / name).manifest["data"] for name in ("again", "other"))
    assert manifest["data"] == again
    assert manifest["data"]["sha256"] != other["sha256"]


def test_data_are_stored_by_default(tmp_path):
    draw(path=tmp_path / "with")
    draw(path=tmp_path / "without", store_data=False)
    np.testing.assert_allclose(DirectoryStore(tmp_path / "with").data()["x"][:, 0], X, rtol=1e-6)
    assert DirectoryStore(tmp_path / "without").data() is None


WIDE = tb.LogNormal(0.0, 0.5)


@dataclass(frozen=True)
class Factor(tb.Layer):
    """Multiplies each input by its own positive factor."""

    prior: tb.Prior = WIDE

    def parameters(self, inputs):
        return {"factors": tb.Parameter((inputs,), self.prior, start=1.0)}

    def apply(self, parameters, h):
        return parameters["factors"][:, None] * h


@dataclass(frozen=True)
class Logistic(tb.Prior):
    """A prior of the user's own."""

    loc: tb.Number = 0.0
    scale: tb.Number = 1.0
    positive_arguments = ("scale",)

    def log_density(self, value):
        z = (value - self.loc) / self.scale
        return -z - 2 * jax.nn.softplus(-z) - jnp.log(self.scale)

    def sample(self, key, shape):
        return self.loc + self.scale * jax.random.logistic(key, shape)


@dataclass(frozen=True)
class Counts(tb.Likelihood):
    """Counts with rate exp(output) times an exposure that may be learned."""

    exposure: tb.Number = 1.0
    positive_arguments = ("exposure",)

    def log_density(self, outputs, targets):
        log_rate = outputs + jnp.log(self.exposure)
        terms = targets * log_rate - jnp.exp(log_rate) - jax.scipy.special.gammaln(targets + 1)
        return terms.sum(axis=0)

    def mean(self, outputs):
        return self.exposure * jnp.exp(outputs)

    def variance(self, outputs):
        return self.mean(outputs)


@pytest.mark.slow
def test_layer_prior_and_likelihood_of_the_users_own(tmp_path):
    prior = Logistic(0.0, tb.Hyper(0.5, tb.HalfNormal(1.0)))
    network = tb.Network(Factor(), tb.Dense(3, prior, prior), tb.Tanh(), tb.Dense(1), inputs=1)
    counts = np.random.default_rng(0).poisson(np.exp(1 + X))
    target = tb.Posterior(network, Counts(tb.Hyper(1.0)), X, counts)
    run = draw(target, draws=200, burn_in=300, path=tmp_path / "run")
    assert np.all(run.parameters["factor_0.factors"] > 0)
    assert run.hyperparameters["dense_0.weights.scale"].shape == (2, 200)
    mean = run.predict(X).mean
    assert np.all(np.abs(mean - np.exp(1 + X)) < 3 * np.sqrt(np.exp(1 + X)))
    custom = {"Factor": Factor, "Logistic": Logistic, "Counts": Counts}
    assert same(run, tb.load(tmp_path / "run", custom_objects=custom))
    with pytest.raises(ValueError, match="not part of the library, Counts, Factor, Logistic"):
        tb.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, "`chains` must be a whole number of at least 1, got 0"),
        ({"chains": 2.0}, "`chains` must be a whole number of at least 1, got 2.0"),
        ({"burn_in": -1}, "`burn_in` must be a whole number of at least 0, got -1"),
        ({"draws": 0}, "`draws` must be a whole number of at least 1, got 0"),
        ({"thin": 0}, "`thin` must be a whole number of at least 1, got 0"),
        ({"networks_per_file": 0}, "`networks_per_file` must be a whole number"),
        ({"seed": -5}, "`seed` must be a whole number of at least 0, got -5"),
        ({"seed": 2**64}, "`seed` must be a whole number of at most 18446744073709551615, got"),
        ({"thin": 2**31}, "`thin` must be a whole number of at most 2147483647, got 2147483648"),
        ({"burn_in": 10**12}, "`burn_in` must be a whole number of at most 2147483647, got"),
        ({"start": {"dense_9.weights": 0}}, r"unknown parameters \['dense_9.weights'\]"),
        ({"start": {"dense_0.weights": [0.0]}}, r"it must be \(1, 4\), or \(2, 1, 4\)"),
        ({"start": {"dense_0.biases": np.zeros((3, 4))}}, r"in the shape \(3, 4\)"),
        ({"start": {"dense_0.biases": [np.nan] * 4}}, "dense_0.biases must be finite"),
        ({"start": {"likelihood.sd": -1.0}}, "likelihood.sd must be positive"),
        (
            {"start": {"likelihood.sd": [0.1, 0.2]}, "sample_hyperparameters": False},
            "a value per chain, but hyper-parameters are held",
        ),
        ({"start": {"dense_1.biases": [1e30]}}, "log-density at the start of chain 0 is -inf"),
    ],
    ids=str,
)
def test_bad_options(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        draw(path=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_nothing_to_sample():
    x, network = np.linspace(-1, 1, 5), tb.Network("tanh", inputs=1)
    with pytest.raises(ValueError, match="there is nothing to sample: the network has no param"):
        draw(tb.Posterior(network, tb.Gaussian(sd=0.1), x, x))
    learned = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), x, x)
    with pytest.raises(ValueError, match="and no hyper-parameter is sampled: add a layer"):
        draw(learned, sample_hyperparameters=False)
    assert draw(learned).hyperparameters["likelihood.sd"].shape == (2, 12)


def test_bad_types():
    with pytest.raises(TypeError, match=r"`posterior` must be a tb\.Posterior"):
        tb.sample(posterior().network)
    with pytest.raises(TypeError, match=r"`sampler` must be a sampler such as tb.HMC\(\)"):
        tb.sample(posterior(), tb.HMC)
    with pytest.raises(TypeError, match=r"`start` must map names to values, .*, got ndarray"):
        tb.sample(posterior(), start=np.zeros(3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'burnin'"):
        tb.sample(posterior(), burnin=10)


def test_an_existing_run_is_refused_before_anything_is_computed(tmp_path):
    draw(path=tmp_path / "run")
    began = time.monotonic()
    with pytest.raises(FileExistsError, match=r"already holds a run.*overwrite=True"):
        draw(path=tmp_path / "run", draws=10_000_000)
    assert time.monotonic() - began < 1
    draw(path=tmp_path / "run", draws=3, overwrite=True)
    assert tb.load(tmp_path / "run").num_draws == 3


def test_reading_a_run_without_draws_has_a_clear_error(tmp_path, monkeypatch):
    def fail(self, chain, index, arrays):
        raise tb.RunError("no room")

    monkeypatch.setattr(DirectoryStore, "write_chunk", fail)
    with pytest.raises(tb.RunError, match="no room"):
        draw(path=tmp_path / "run")
    with raises(NoDrawsError, damaged=False):
        tb.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"report_every": 0}, ValueError, "`report_every` must be a whole number of at least 1"),
        ({"metrics": tb.MeanSquaredError()}, TypeError, "`metrics` must be a list"),
        ({"metrics": None}, ValueError, "`validation` is given but `metrics` is not: say what"),
        ({"validation": X}, TypeError, r"`validation` must be a pair .* got ndarray"),
        ({"validation": (X, Y, Y)}, TypeError, r"`validation` must be a pair .* got tuple"),
        ({"validation": (X, None)}, TypeError, "in `validation`, `y` must hold numbers"),
        ({"validation": (X, Y[1:])}, ValueError, "in `validation`, `x` has 9 rows but `y` has 8"),
        ({"validation": (np.c_[X, X], Y)}, ValueError, "in `validation`, `x` has 2 columns but"),
        ({"validation": (X, np.c_[Y, Y])}, ValueError, "in `validation`, `y` has 2 columns but"),
        (
            {"validation": (X, np.full(9, np.inf))},
            ValueError,
            "in `validation`, `y` must be finite",
        ),
    ],
    ids=str,
)
def test_bad_metrics_and_validation_data(options, error, message, tmp_path):
    given = {"metrics": [tb.MeanSquaredError()], "validation": (X, Y)} | options
    with pytest.raises(error, match=message):
        draw(path=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_metrics_need_data():
    prior = tb.Posterior(posterior().network, tb.Gaussian(sd=0.1))
    with pytest.raises(ValueError, match="`metrics` compare predictions with targets, but"):
        draw(prior, metrics=[tb.MeanSquaredError()])
    assert draw(prior, draws=2).reports[-1]["transition"] == 32


@pytest.mark.slow
def test_metrics_that_do_not_fit_the_targets_are_refused_before_the_run(tmp_path):
    network = tb.Network(tb.Dense(3), inputs=1)
    target = tb.Posterior(network, tb.Categorical(), X, np.arange(9) % 3)
    with pytest.raises(RuntimeError, match=r"`mean_squared_error` failed.*use Accuracy"):
        draw(target, path=tmp_path / "run", metrics=[tb.MeanSquaredError()])
    assert not (tmp_path / "run").exists()
