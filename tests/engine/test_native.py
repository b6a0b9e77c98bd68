"""The native engine against the JAX engine in float64."""

import os
import subprocess
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbnn as tb
from tensorbnn.engine import library, native

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        library.problem() is not None, reason=f"no native engine: {library.problem()}"
    ),
]

FIXED = {"weight_prior": tb.Normal(), "bias_prior": tb.Normal()}
ACTIVATIONS = [
    *(tb.Sigmoid(), tb.Tanh(), tb.Softmax(), tb.Exp(), tb.ReLU(), tb.LeakyReLU(), tb.ELU()),
    *(tb.PReLU(), tb.SquarePReLU(), tb.LeakyReLU(-0.5), tb.LeakyReLU(0.0)),
]
LIKELIHOODS = [
    *(tb.Gaussian(0.3), tb.Gaussian(tb.Hyper(0.4)), tb.Bernoulli(), tb.Categorical()),
    *(tb.MeasuredGaussian(0.8), tb.MeasuredGaussian(tb.Hyper(1.2))),
]
# For two columns: a width of the noise for each.
OWN_WIDTHS = [
    *(tb.Gaussian([0.3, 0.7]), tb.Gaussian([tb.Hyper(0.4), tb.Hyper(0.9)])),
    *(tb.Gaussian([tb.Hyper(0.4), 0.7]), tb.MeasuredGaussian([0.8, tb.Hyper(1.2)])),
]
SETS = library.instruction_sets()


@pytest.fixture(autouse=True)
def as_before():
    """Tests may change the instruction set and the number of threads."""
    before = library.instruction_set()
    yield
    library.use_instruction_set(before)
    library.use_threads(0)


def targets(likelihood, rows, outputs, rng):
    """What a posterior takes besides `x`."""
    if isinstance(likelihood, tb.MeasuredGaussian):
        y, sds = rng.normal(size=(rows, outputs)), rng.uniform(0.1, 2, size=(rows, outputs))
        return {"y": y.astype("float32"), "y_sd": sds.astype("float32")}
    if isinstance(likelihood, tb.Gaussian):
        y = rng.normal(size=(rows, outputs)).astype("float32")
    elif isinstance(likelihood, tb.Bernoulli):
        y = rng.integers(0, 2, size=(rows, outputs))
    else:
        y = rng.integers(0, outputs, size=rows)
    return {"y": y}


def compiled(posterior):
    """Likelihood and gradient, without the prior, which would hide errors."""

    def log_likelihood(theta, phi):
        return posterior.model.log_likelihood(theta, phi, posterior._arrays)

    both = jax.jit(jax.value_and_grad(log_likelihood, argnums=(0, 1)))

    def evaluate(theta, phi):
        with tb.posterior.precision(posterior.dtype):
            arguments = (jnp.asarray(theta, posterior.dtype), jnp.asarray(phi, posterior.dtype))
            return jax.tree.map(np.asarray, both(*arguments))

    return evaluate


def check_agreement(network, likelihood, rows, dtypes=("float32", "float64"), scale=1.0):
    """Every instruction set in each type against the JAX engine in float64."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, network.inputs)).astype("float32")
    y = targets(likelihood, rows, network.outputs, rng)
    reference = tb.Posterior(network, likelihood, x, **y, dtype="float64", engine="jax")
    theta = scale * rng.normal(size=reference.num_parameters).astype("float32") / 2
    phi = 0.2 * rng.normal(size=reference.num_hyperparameters).astype("float32")
    expected = compiled(reference)(theta, phi)
    for dtype in dtypes:
        ours = tb.Posterior(network, likelihood, x, **y, dtype=dtype, engine="native")
        evaluate = compiled(ours)
        for name in SETS:
            library.use_instruction_set(name)
            check_close(evaluate(theta, phi), expected, dtype, f"{name}, {dtype}, {rows} rows")


def check_close(found, expected, dtype, what):
    # Each number is a sum of terms that went through every layer, each with its roundings.
    tolerance = 50 * np.finfo(dtype).eps
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == dtype
        assert np.all(np.isfinite(theirs))
        largest = np.max(np.abs(theirs), initial=1.0)
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=tolerance * largest, err_msg=what
        )


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_every_activation(activation):
    layers = (tb.Dense(7, **FIXED), activation, tb.Dense(6, **FIXED), activation)
    # An exponential of an exponential soon leaves the numbers of float32.
    scale = 0.3 if isinstance(activation, tb.Exp) else 1.0
    network = tb.Network(*layers, tb.Dense(2, **FIXED), inputs=3)
    check_agreement(network, tb.Gaussian(0.3), 37, scale=scale)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_every_likelihood(likelihood):
    for outputs, rows in ((2, 1), (5, 100), (2, 17)):
        network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(outputs), inputs=2)
        check_agreement(network, likelihood, rows)


@pytest.mark.parametrize("likelihood", OWN_WIDTHS, ids=repr)
def test_a_width_for_each_column(likelihood):
    network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(2), inputs=2)
    # The last number of rows makes pieces and tiles.
    for rows in (1, 17, 5000):
        check_agreement(network, likelihood, rows)


@pytest.mark.parametrize("rows", [1, 3, 8, 15, 16, 17, 33, 400, 1000])
def test_any_number_of_rows(rows):
    check_agreement(tb.Network(tb.Dense(11), tb.Tanh(), tb.Dense(1), inputs=1), tb.Gaussian(), rows)


@pytest.mark.parametrize("units", [1, 2, 3, 4, 9, 10, 17, 64])
def test_any_number_of_units(units):
    network = tb.Network(tb.Dense(units), tb.Tanh(), tb.Dense(units), inputs=units)
    for rows in (1, 70):
        check_agreement(network, tb.Gaussian(0.5), rows, ("float32",))


@pytest.mark.parametrize("likelihood", [tb.Gaussian(0.5), tb.MeasuredGaussian()], ids=repr)
def test_rows_in_tiles(likelihood):
    wide = tb.Network(tb.Dense(300), tb.Tanh(), tb.Dense(1), inputs=2)
    check_agreement(wide, likelihood, 1003, ("float32",), scale=0.2)


@pytest.mark.parametrize(
    "layers",
    [
        (tb.Dense(3),),
        (tb.Dense(3), tb.Dense(2)),
        (tb.Tanh(), tb.Dense(2)),
        (tb.PReLU(), tb.Dense(2), tb.Tanh(), tb.Tanh()),
        (tb.Dense(4), tb.PReLU(), tb.Softmax(), tb.SquarePReLU()),
        (tb.Tanh(),),
        (tb.Dense(3), tb.Exp(), tb.CauchyDense(2), tb.Sigmoid()),
    ],
    ids=str,
)
def test_unusual_networks(layers):
    check_agreement(tb.Network(*layers, inputs=2), tb.Gaussian(0.5), 21)


def test_positive_weights():
    dense = tb.Dense(3, tb.HalfNormal(1.0), tb.Normal())
    network = tb.Network(dense, tb.PReLU(), tb.Dense(1), inputs=2)
    check_agreement(network, tb.Gaussian(0.5), 20)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(st.integers(1, 24), st.sampled_from([None, *ACTIVATIONS])),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 300),
    st.sampled_from(LIKELIHOODS),
)
def test_random_architectures(inputs, hidden, rows, likelihood):
    layers = []
    for units, activation in hidden:
        layers.append(tb.Dense(units, **FIXED))
        # An exponential of an exponential leaves the numbers of any type.
        if activation is not None and not (isinstance(activation, tb.Exp) and len(layers) > 1):
            layers.append(activation)
    network = tb.Network(*layers, tb.Dense(2, **FIXED), inputs=inputs)
    check_agreement(network, likelihood, rows, scale=0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("likelihood", [LIKELIHOODS[0], *LIKELIHOODS[2:5]], ids=repr)
@pytest.mark.parametrize("activation", ACTIVATIONS[:9], ids=repr)
def test_extreme_parameters(activation, likelihood, dtype):
    """Saturation and overflow: the same infinities and NaNs as JAX in the same type.

    So are gradients where the likelihood is finite; where it is not, no sampler takes a step.
    """
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(18, 2)).astype("float32"), targets(likelihood, 18, 2, rng)
    network = tb.Network(tb.Dense(3, **FIXED), activation, tb.Dense(2, **FIXED), inputs=2)
    ours, theirs = (
        tb.Posterior(network, likelihood, x, **y, dtype=dtype, engine=engine)
        for engine in ("native", "jax")
    )
    evaluate, reference = compiled(ours), compiled(theirs)
    phi = np.zeros(ours.num_hyperparameters)
    for size in (30.0, 1e3, 1e10, 1e30, np.inf, -np.inf, np.nan):
        theta = rng.normal(size=ours.num_parameters)
        theta = theta * size if np.isfinite(size) else np.where(theta > 1, size, theta)
        if isinstance(activation, tb.PReLU):  # its slopes are given by their logarithms
            theta[9:12] = np.clip(theta[9:12], -50, 50)
        with np.errstate(over="ignore", invalid="ignore"):
            expected, (slope, _) = reference(theta.astype(dtype), phi.astype(dtype))
        for name in SETS:
            library.use_instruction_set(name)
            with np.errstate(over="ignore", invalid="ignore"):
                found, (own_slope, _) = evaluate(theta.astype(dtype), phi.astype(dtype))
            if name == "portable" and not np.isfinite(expected):
                # Without fused multiplications a product overflows before it is added.
                assert not np.isfinite(found)
                continue
            tolerance = 1e-4 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(
                found, expected, rtol=tolerance, err_msg=f"{name}, {size}", equal_nan=True
            )
            if np.isfinite(expected):
                largest = np.max(np.abs(slope), where=np.isfinite(slope), initial=0.0)
                np.testing.assert_allclose(
                    *(own_slope, slope),
                    rtol=tolerance,
                    atol=tolerance * largest,
                    err_msg=f"gradient, {name}, {size}",
                )


@pytest.mark.parametrize("rows", [11, 300, 5000])
def test_threads_change_no_bit(rows):
    rng = np.random.default_rng(1)
    network = tb.Network(tb.Dense(40), tb.Tanh(), tb.Dense(40), tb.Tanh(), tb.Dense(1), inputs=5)
    x, y = rng.normal(size=(rows, 5)), rng.normal(size=rows)
    posterior = tb.Posterior(network, tb.Gaussian(0.2), x, y, engine="native")
    thetas = rng.normal(size=(33, posterior.num_parameters)).astype("float32")
    phi = jnp.zeros(posterior.num_hyperparameters)

    def log_likelihood(theta):
        return posterior.model.log_likelihood(theta, phi, posterior._arrays)

    alone = jax.jit(jax.value_and_grad(log_likelihood))
    together = jax.jit(jax.vmap(jax.value_and_grad(log_likelihood)))
    results = []
    for threads in (1, 2, 3, 7):
        library.use_threads(threads)
        results.append(jax.tree.map(np.asarray, (alone(thetas[0]), together(thetas))))
    for result in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, result, results[0])


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_chains(dtype, likelihood):
    """With few rows there is one chain per lane; each is the same as alone, to rounding."""
    rng = np.random.default_rng(2)
    network = tb.Network(
        tb.Dense(6), tb.PReLU(), tb.Dense(7), tb.Tanh(), tb.Dense(5), tb.Softmax(), tb.Dense(2),
        inputs=2,
    )  # fmt: skip
    for rows in (1, 11, 100):
        x, y = rng.normal(size=(rows, 2)), targets(likelihood, rows, 2, rng)
        posterior = tb.Posterior(network, likelihood, x, **y, dtype=dtype, engine="native")
        model, data = posterior.model, posterior._arrays
        thetas = rng.normal(size=(35, posterior.num_parameters)).astype(dtype)
        phis = 0.3 * rng.normal(size=(35, posterior.num_hyperparameters)).astype(dtype)

        def log_likelihood(theta, phi, model=model, data=data):
            return model.log_likelihood(theta, phi, data)

        both = jax.value_and_grad(log_likelihood, argnums=(0, 1))
        together = jax.jit(jax.vmap(both))
        in_turn = jax.jit(lambda *each, both=both: jax.lax.map(lambda one: both(*one), each))
        for name in SETS:
            library.use_instruction_set(name)
            with tb.posterior.precision(dtype):
                found = jax.tree.map(np.asarray, together(thetas, phis))
                expected = jax.tree.map(np.asarray, in_turn(thetas, phis))
            check_close(found, expected, dtype, f"{name}, {rows} rows")


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_which_chains_are_together_changes_nothing(dtype, likelihood):
    """Of the kernels: XLA may round `exp` otherwise where there are fewer numbers."""
    rng = np.random.default_rng(2)
    network = tb.Network(tb.Dense(6), tb.PReLU(), tb.Dense(5), tb.Softmax(), tb.Dense(2), inputs=2)
    hypers = {name: hyper.start for name, hyper in likelihood.hypers().items()}
    for rows in (1, 11, 100):
        x, y = rng.normal(size=(rows, 2)), targets(likelihood, rows, 2, rng)
        posterior = tb.Posterior(network, likelihood, x, **y, dtype=dtype, engine="native")
        values = rng.normal(size=(35, posterior.num_parameters)).astype(dtype)

        def log_likelihood(own, data=posterior._arrays):
            return native.log_likelihood(network, likelihood, own, hypers, data)

        together = jax.jit(jax.vmap(jax.value_and_grad(log_likelihood)))
        for name in SETS:
            library.use_instruction_set(name)
            with tb.posterior.precision(dtype):
                found, few = together(values), together(values[:17])
            for all_of_them, some in zip(found, few, strict=True):
                np.testing.assert_array_equal(all_of_them[:17], some)


def test_nested_batches_and_batched_data():
    rng = np.random.default_rng(4)
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(0.3), rng.normal(size=9), rng.normal(size=9),
                             engine="native")  # fmt: skip
    phi = jnp.zeros(posterior.num_hyperparameters)
    thetas = jnp.asarray(rng.normal(size=(3, 4, posterior.num_parameters)).astype("float32"))

    def log_likelihood(theta, data):
        return posterior.model.log_likelihood(theta, phi, data)

    nested = jax.jit(jax.vmap(jax.vmap(log_likelihood, (0, None)), (0, None)))
    expected = [[log_likelihood(theta, posterior._arrays) for theta in row] for row in thetas]
    np.testing.assert_array_equal(nested(thetas, posterior._arrays), expected)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), posterior._arrays)
    by_data = jax.jit(jax.vmap(log_likelihood, (None, 0)))(thetas[0, 0], two)
    each = [
        log_likelihood(thetas[0, 0], jax.tree.map(lambda leaf, i=i: leaf[i], two)) for i in (0, 1)
    ]
    np.testing.assert_array_equal(by_data, each)


def test_second_derivatives_are_refused():
    network = tb.Network(tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(0.3), [0.0, 1.0], [0.0, 1.0], engine="native")

    def log_likelihood(theta):
        return posterior.model.log_likelihood(theta, jnp.zeros(4), posterior._arrays)

    with pytest.raises(NotImplementedError, match=r"first derivatives only.*engine='jax'"):
        jax.jacrev(jax.grad(log_likelihood))(jnp.zeros(2))


# The choice of the engine.


@dataclass(frozen=True)
class Own(tb.Layer):
    """A user's layer."""

    def apply(self, parameters, h):
        return h


def test_unsupported_models():
    network = tb.Network(tb.Dense(1), Own(), inputs=1)
    assert native.unsupported(network, tb.Gaussian()) == "the layer own_0, a Own"
    message = "`engine` can't be 'native': it does not compute the layer own_0, a Own; use 'auto'"
    with pytest.raises(ValueError, match=message):
        tb.Posterior(network, tb.Gaussian(), engine="native")
    assert tb.Posterior(network, tb.Gaussian()).engine == "jax"
    many = tb.Network(*[tb.Tanh()] * 129, inputs=1)
    assert native.unsupported(many, tb.Gaussian()) == "more than 128 layers"


def test_the_engine_can_be_set():
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(), [0.0], [1.0])
    for engine in ("native", "jax"):
        posterior.engine = engine
        assert posterior.engine == posterior.model.engine == engine
    with pytest.raises(ValueError, match="`engine` must be 'auto', 'jax' or 'native', got 'c'"):
        posterior.engine = "c"


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(library, "_load", lambda: library.Library(None, "it is not there"))
    network = tb.Network(tb.Dense(1), inputs=1)
    with pytest.raises(ValueError, match="can't be 'native': it is not there; use 'auto' or 'jax'"):
        tb.Posterior(network, tb.Gaussian(), engine="native")
    assert tb.Posterior(network, tb.Gaussian(), [0.0], [1.0]).engine == "jax"
    assert library.instruction_sets() == ()
    assert library.instruction_set() is None


def test_on_an_accelerator(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    network = tb.Network(tb.Dense(1), inputs=1)
    assert native.why_not_native(network, tb.Gaussian()) == "it runs on a CPU, and JAX uses a gpu"


# The environment.


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


ASK = "from tensorbnn.engine import library as l; print(l.problem(), l.instruction_set())"


@pytest.mark.parametrize("name", SETS)
def test_the_environment_chooses_the_instruction_set(name):
    assert run(ASK, TENSORBNN_INSTRUCTION_SET=name).stdout == f"None {name}\n"


def test_invalid_environment_variables():
    out = run(ASK, TENSORBNN_INSTRUCTION_SET="mmx").stdout
    assert (
        "TENSORBNN_INSTRUCTION_SET: the instruction set 'mmx' is unavailable: choose from " in out
    )
    assert "portable" in out
    out = run(ASK, TENSORBNN_THREADS="many").stdout
    assert "TENSORBNN_THREADS must be a whole number, got 'many'" in out
    assert run(ASK, TENSORBNN_THREADS="").stdout == run(ASK).stdout


def test_an_unknown_instruction_set():
    with pytest.raises(ValueError, match="the instruction set 'mmx' is unavailable: choose from"):
        library.use_instruction_set("mmx")
