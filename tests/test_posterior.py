import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tensorbnn as tb
from tensorbnn.posterior import precision

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 2)).astype("float32").astype("float64")
Y = RNG.normal(size=9).astype("float32").astype("float64")

# The paper's hierarchical prior, learned noise and positive slopes, in two layers.
HIERARCHICAL = tb.Network(
    tb.Dense(3), tb.PReLU(), tb.Dense(1, tb.Laplace(0.0, 0.5), tb.Normal(1.0, 2.0)), inputs=2
)
PARAMETERS = {
    "dense_0.weights": RNG.normal(size=(2, 3)),
    "dense_0.biases": RNG.normal(size=3),
    "prelu_0.slopes": RNG.exponential(size=3),
    "dense_1.weights": RNG.normal(size=(3, 1)),
    "dense_1.biases": RNG.normal(size=1),
}
HYPERS = {
    "dense_0.weights.loc": 0.1,
    "dense_0.weights.scale": 1.2,
    "dense_0.biases.loc": -0.05,
    "dense_0.biases.scale": 0.9,
    "prelu_0.slopes.rate": 0.7,
    "likelihood.sd": 0.4,
}


@pytest.fixture(scope="module")
def posterior():
    return tb.Posterior(HIERARCHICAL, tb.Gaussian(sd=tb.Hyper(0.3)), X, Y, dtype="float64")


@pytest.fixture(scope="module")
def single():
    return tb.Posterior(HIERARCHICAL, tb.Gaussian(sd=tb.Hyper(0.3)), X, Y)


# The three terms, each with SciPy.


def test_log_likelihood(posterior):
    h = X @ PARAMETERS["dense_0.weights"] + PARAMETERS["dense_0.biases"]
    h = np.where(h > 0, h, PARAMETERS["prelu_0.slopes"] * h)
    outputs = h @ PARAMETERS["dense_1.weights"] + PARAMETERS["dense_1.biases"]
    expected = stats.norm.logpdf(Y, outputs[:, 0], 0.4).sum()
    at = posterior.flatten(PARAMETERS), posterior.flatten_hyperparameters(HYPERS)
    assert float(posterior.log_likelihood(*at)) == pytest.approx(expected, rel=1e-12)


def test_log_prior(posterior):
    slopes = PARAMETERS["prelu_0.slopes"]
    expected = (
        stats.norm.logpdf(PARAMETERS["dense_0.weights"], 0.1, 1.2).sum()
        + stats.norm.logpdf(PARAMETERS["dense_0.biases"], -0.05, 0.9).sum()
        + stats.expon.logpdf(slopes, scale=1 / 0.7).sum()
        + np.log(slopes).sum()  # the Jacobian of exp
        + stats.laplace.logpdf(PARAMETERS["dense_1.weights"], 0, 0.5).sum()
        + stats.norm.logpdf(PARAMETERS["dense_1.biases"], 1, 2).sum()
    )
    at = posterior.flatten(PARAMETERS), posterior.flatten_hyperparameters(HYPERS)
    assert float(posterior.log_prior(*at)) == pytest.approx(expected, rel=1e-12)


def test_log_hyper_prior(posterior):
    expected = stats.norm.logpdf([0.1, -0.05], 0, 0.1).sum()
    for scale in (1.2, 0.9):  # truncated to positive values, with the Jacobian of exp
        expected += stats.norm.logpdf(scale, 1, 0.1) - stats.norm.logsf(0, 1, 0.1) + np.log(scale)
    expected += stats.expon.logpdf(0.7, scale=1 / 0.3) + np.log(0.7)
    expected += stats.lognorm.logpdf(0.4, 1, scale=0.3) + np.log(0.4)
    phi = posterior.flatten_hyperparameters(HYPERS)
    assert float(posterior.log_hyper_prior(phi)) == pytest.approx(expected, rel=1e-12)


def test_log_density_is_the_sum_of_the_three(posterior):
    at = posterior.flatten(PARAMETERS), posterior.flatten_hyperparameters(HYPERS)
    terms = [
        float(posterior.log_likelihood(*at)),
        float(posterior.log_prior(*at)),
        float(posterior.log_hyper_prior(at[1])),
    ]
    assert float(posterior.log_density(*at)) == pytest.approx(sum(terms), rel=1e-13)
    value, _ = posterior.value_and_grad(*at)
    assert float(value) == pytest.approx(sum(terms), rel=1e-13)


def test_without_data_it_is_the_prior(posterior):
    prior = tb.Posterior(HIERARCHICAL, tb.Gaussian(sd=tb.Hyper(0.3)), dtype="float64")
    at = posterior.flatten(PARAMETERS), posterior.flatten_hyperparameters(HYPERS)
    assert float(prior.log_likelihood(*at)) == 0
    expected = float(posterior.log_prior(*at)) + float(posterior.log_hyper_prior(at[1]))
    assert float(prior.log_density(*at)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("engine", ["jax", "auto"])
@pytest.mark.parametrize(
    ("family", "name"),
    [(tb.Gaussian, "sd"), (tb.MeasuredGaussian, "factor"), (tb.StudentTNoise, "scale")],
)
def test_columns_with_noises_of_their_own_are_models_of_their_own(family, name, engine):
    """Without a hidden layer, columns share nothing: their log-densities add up."""
    rng = np.random.default_rng(0)
    y, sds = rng.normal(size=(9, 2)), rng.uniform(0.5, 2, size=(9, 2))
    weights, biases, widths = rng.normal(size=(2, 2)), rng.normal(size=2), rng.uniform(0.2, 2, 2)
    prior = tb.Normal(0.0, 2.0)
    hypers = [tb.Hyper(0.3), tb.Hyper(0.8, tb.HalfNormal(1.0))]

    def log_density(likelihood, columns):
        network = tb.Network(tb.Dense(len(columns), prior, prior), inputs=2)
        own = sds[:, columns] if family is tb.MeasuredGaussian else None
        options = {"y_sd": own, "dtype": "float64", "engine": engine}
        posterior = tb.Posterior(network, likelihood, X, y[:, columns], **options)
        named = {"dense_0.weights": weights[:, columns], "dense_0.biases": biases[columns]}
        names = [f"likelihood.{each}" for each in likelihood.hypers()]
        own = dict(zip(names, widths[columns], strict=True))
        return posterior.log_density(
            posterior.flatten(named), posterior.flatten_hyperparameters(own)
        )

    together = log_density(family(**{name: hypers}), [0, 1])
    alone = [log_density(family(**{name: hypers[column]}), [column]) for column in (0, 1)]
    np.testing.assert_allclose(together, sum(alone), rtol=1e-12)


# Gradients: every activation, every prior and every likelihood is in one of these.
FIXED = tb.Normal(0.0, 1.0)
PRIORS = {  # activation, prior of the first weights
    "Sigmoid": (tb.Sigmoid(), tb.Normal(0.2, 0.8)),
    "Tanh": (tb.Tanh(), tb.Cauchy(tb.Hyper(0.1, tb.Laplace()), tb.Hyper(0.5))),
    "Softmax": (tb.Softmax(), tb.StudentT(tb.Hyper(3.0), 0.0, tb.Hyper(1.0, tb.Cauchy(0.5, 1)))),
    "Exp": (tb.Exp(), tb.Laplace(0.0, tb.Hyper(1.0, tb.StudentT(3.0, 0.5, 1.0)))),
    "ReLU": (tb.ReLU(), tb.Exponential(tb.Hyper(2.0, tb.HalfNormal(2.0)))),
    "LeakyReLU": (tb.LeakyReLU(), tb.LogNormal(tb.Hyper(-1.0, FIXED), 0.5)),
    "ELU": (tb.ELU(), tb.HalfNormal(tb.Hyper(0.5, tb.LogNormal(-1.0, 0.3)))),
    "PReLU": (tb.PReLU(), tb.Normal(0.0, tb.Hyper(1.0, tb.Normal(tb.Hyper(0.5, FIXED), 1.0)))),
    "SquarePReLU": (tb.SquarePReLU(), tb.Laplace(0.0, tb.Hyper(1.0, tb.Laplace(0.5, 0.5)))),
}
LIKELIHOODS = {  # likelihood, targets
    "Gaussian": (tb.Gaussian(sd=tb.Hyper(0.5, tb.HalfNormal(1.0))), RNG.normal(size=(9, 2))),
    "Bernoulli": (tb.Bernoulli(), RNG.integers(0, 2, size=(9, 2))),
    "Categorical": (tb.Categorical(), RNG.integers(0, 2, size=9)),
}


@pytest.mark.parametrize(
    ("activation", "likelihood"),
    [
        ("Sigmoid", "Gaussian"),
        ("Tanh", "Bernoulli"),
        ("Softmax", "Categorical"),
        ("Exp", "Gaussian"),
        ("ReLU", "Bernoulli"),
        ("LeakyReLU", "Categorical"),
        ("ELU", "Gaussian"),
        ("PReLU", "Bernoulli"),
        ("SquarePReLU", "Categorical"),
    ],
)
def test_gradient_is_that_of_central_differences(activation, likelihood):
    layer, prior = PRIORS[activation]
    network = tb.Network(tb.Dense(3, prior, FIXED), layer, tb.Dense(2, FIXED, FIXED), inputs=2)
    kind, y = LIKELIHOODS[likelihood]
    posterior = tb.Posterior(network, kind, X, y, dtype="float64")
    rng = np.random.default_rng(2)
    theta = rng.normal(size=posterior.num_parameters)
    # Around the starts, where a truncated prior has its mass.
    start = posterior.flatten_hyperparameters(posterior.model.start_hypers())
    phi = np.asarray(start) + 0.3 * rng.normal(size=posterior.num_hyperparameters)

    _, (by_theta, by_phi) = posterior.value_and_grad(theta, phi)
    step = 1e-5

    def difference(theta_step, phi_step):
        above = posterior.log_density(theta + theta_step, phi + phi_step)
        below = posterior.log_density(theta - theta_step, phi - phi_step)
        return (float(above) - float(below)) / (2 * step)

    theta_steps, phi_steps = step * np.eye(len(theta)), step * np.eye(len(phi))
    expected_by_theta = [difference(theta_step, 0 * phi) for theta_step in theta_steps]
    expected_by_phi = [difference(0 * theta, phi_step) for phi_step in phi_steps]
    # Values below a thousand are rounded by 1e-13, which the step makes 1e-8.
    np.testing.assert_allclose(by_theta, expected_by_theta, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(by_phi, expected_by_phi, rtol=1e-6, atol=1e-7)


# Float32 and float64.


def test_float32_agrees_with_float64(posterior, single):
    at = np.float32(single.flatten(PARAMETERS)), np.float32(single.flatten_hyperparameters(HYPERS))
    value, gradients = single.value_and_grad(*at)
    expected_value, expected_gradients = posterior.value_and_grad(*at)
    # A hundred roundings, relative to the largest.
    tolerance = float(100 * np.finfo("float32").eps)
    assert float(value) == pytest.approx(float(expected_value), rel=tolerance)
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        largest = np.max(np.abs(expected))
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance * largest)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_have_the_type_of_the_posterior(dtype, posterior, single):
    chosen = {"float32": single, "float64": posterior}[dtype]
    theta, phi = chosen.flatten(PARAMETERS), chosen.flatten_hyperparameters(HYPERS)
    results = [
        theta,
        phi,
        chosen.log_density(theta, phi),
        chosen.log_likelihood(theta, phi),
        chosen.log_prior(theta, phi),
        chosen.log_hyper_prior(phi),
        *jax.tree.leaves(chosen.value_and_grad(theta, phi)),
        *chosen.unflatten(theta).values(),
        *chosen.unflatten_hyperparameters(phi).values(),
        chosen.x,
        chosen.y,
    ]
    assert {result.dtype for result in results} == {np.dtype(dtype)}
    assert chosen.dtype == dtype


def test_the_switch_of_jax_is_left_alone():
    network, likelihood = tb.Network(tb.Dense(1), inputs=2), tb.Gaussian()
    before = jax.config.jax_enable_x64
    for outside in (False, True):
        with jax.enable_x64(outside):
            for dtype in ("float32", "float64"):
                chosen = tb.Posterior(network, likelihood, X, Y, dtype=dtype)
                value = chosen.log_density(np.zeros(3), np.zeros(4))
                assert value.dtype == dtype
                assert jax.config.jax_enable_x64 == outside
                with pytest.raises(ValueError, match="theta"):
                    chosen.log_density(np.zeros(2), np.zeros(4))
                assert jax.config.jax_enable_x64 == outside
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(()).dtype == "float32"


def test_precision_holds_inside_the_block():
    with precision("float64"):
        assert jnp.zeros(()).dtype == "float64"
        with precision("float32"):
            assert jnp.zeros(()).dtype == "float32"
        assert jnp.zeros(()).dtype == "float64"
    assert jnp.zeros(()).dtype == "float32"


# Flat vectors and names.


def test_unflatten_undoes_flatten(posterior):
    theta, phi = posterior.flatten(PARAMETERS), posterior.flatten_hyperparameters(HYPERS)
    assert theta.shape == (posterior.num_parameters,) == (6 + 3 + 3 + 3 + 1,)
    assert phi.shape == (posterior.num_hyperparameters,) == (6,)
    for named, back in (
        (PARAMETERS, posterior.unflatten(theta)),
        (HYPERS, posterior.unflatten_hyperparameters(phi)),
    ):
        assert set(back) == set(named)
        for name, value in named.items():
            np.testing.assert_allclose(back[name], value, rtol=1e-14)


def test_positive_values_are_represented_by_their_logarithm(posterior):
    theta = np.asarray(posterior.flatten(PARAMETERS))
    np.testing.assert_allclose(theta[9:12], np.log(PARAMETERS["prelu_0.slopes"]), rtol=1e-14)
    phi = np.asarray(posterior.flatten_hyperparameters(HYPERS))
    names = [entry.name for entry in posterior.model.phi.entries]
    assert phi[names.index("likelihood.sd")] == pytest.approx(np.log(0.4), rel=1e-14)
    assert phi[names.index("dense_0.weights.loc")] == 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dense_0.weights": np.zeros((3, 2))}, r"dense_0\.weights must have shape \(2, 3\), got "),
        ({"dense_0.biases": [0, np.nan, 0]}, r"dense_0\.biases must be finite"),
        ({"prelu_0.slopes": [1, -2, 1]}, r"prelu_0\.slopes must be positive, but.* is -2$"),
        ({"prelu_0.slopes": [1, 0, 1]}, r"prelu_0\.slopes must be positive, but.* is 0$"),
        ({"dense_7.weights": 1.0}, r"missing \[\], unknown \['dense_7\.weights'\]"),
    ],
)
def test_values_that_do_not_fit(posterior, change, message):
    with pytest.raises(ValueError, match=message):
        posterior.flatten(PARAMETERS | change)


def test_values_that_are_missing(posterior):
    with pytest.raises(ValueError, match=r"missing \['likelihood\.sd'\], unknown \[\]"):
        posterior.flatten_hyperparameters({k: v for k, v in HYPERS.items() if k != "likelihood.sd"})


# A last activation that the likelihood applies itself.


@pytest.mark.parametrize(
    ("last", "likelihood", "y"),
    [
        (tb.Sigmoid(), tb.Bernoulli(), np.arange(18).reshape(9, 2) % 2),
        (tb.Softmax(), tb.Categorical(), np.arange(9) % 2),
    ],
)
def test_a_last_link_is_folded_in(last, likelihood, y):
    network = tb.Network(tb.Dense(2), inputs=2)
    plain = tb.Posterior(network, likelihood, X, y)
    folded = tb.Posterior(tb.Network(tb.Dense(2), last, inputs=2), likelihood, X, y)
    assert folded.network == plain.network == network
    theta, phi = np.linspace(-1, 1, 6), np.linspace(-0.1, 0.1, 4)
    assert folded.log_density(theta, phi) == plain.log_density(theta, phi)

    weights, biases = theta[:4].reshape(2, 2), theta[4:]
    logits = X @ weights + biases
    if isinstance(last, tb.Sigmoid):
        expected = stats.bernoulli.logpmf(y, special.expit(logits)).sum()
    else:
        expected = special.log_softmax(logits, axis=1)[np.arange(9), y].sum()
    assert float(folded.log_likelihood(theta, phi)) == pytest.approx(expected, rel=1e-5)


def test_an_activation_that_is_not_a_link_stays():
    network = tb.Network(tb.Dense(1), tb.Sigmoid(), inputs=2)
    assert tb.Posterior(network, tb.Gaussian(), X, Y).network == network


@pytest.mark.parametrize(
    ("last", "likelihood", "message"),
    [
        (tb.Softmax(), tb.Bernoulli(), r"ends in Softmax\(\), but a Bernoulli.* applies Sigmoid"),
        (tb.Sigmoid(), tb.Categorical(), r"ends in Sigmoid\(\), but a Categorical.* applies Soft"),
    ],
)
def test_the_wrong_link_is_refused(last, likelihood, message):
    with pytest.raises(ValueError, match=message + r"\w* to its outputs: leave the last activ"):
        tb.Posterior(tb.Network(tb.Dense(2), last, inputs=2), likelihood)


def test_a_link_alone_is_not_a_network():
    with pytest.raises(ValueError, match="a network needs a layer before its last activation"):
        tb.Posterior(tb.Network(tb.Sigmoid(), inputs=2), tb.Bernoulli())


# Attributes.


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y", "shape"),
    [
        (tb.Gaussian(), 1, np.zeros(4), ()),
        (tb.Gaussian(), 1, np.zeros((4, 1)), (1,)),
        (tb.Gaussian(), 2, np.zeros((4, 2)), (2,)),
        (tb.HeteroscedasticGaussian(), 2, np.zeros(4), ()),
        (tb.Categorical(), 3, np.zeros(4), (3,)),
        (tb.Bernoulli(), 1, np.zeros(4, bool), ()),
        (tb.Gaussian(), 1, None, (1,)),
    ],
)
def test_predictions_take_the_shape_of_the_targets(likelihood, outputs, y, shape):
    network = tb.Network(tb.Dense(outputs), inputs=1)
    posterior = tb.Posterior(network, likelihood, None if y is None else np.arange(4.0), y)
    assert posterior.output_shape == shape
    assert np.shape(posterior.y) == np.shape(y)


def test_attributes(posterior):
    assert posterior.engine in ("jax", "native")
    assert tb.Posterior(HIERARCHICAL, tb.Gaussian(), engine="jax").engine == "jax"
    np.testing.assert_array_equal(posterior.x, X)
    np.testing.assert_array_equal(posterior.y, Y)
    assert repr(posterior) == (
        "Posterior(9 rows, 16 parameters, 6 hyper-parameters, "
        "Gaussian(sd=Hyper(start=0.3, prior=LogNormal(loc=log(0.3), scale=1.0))), float64)"
    )
    assert "no data" in repr(tb.Posterior(HIERARCHICAL, tb.Gaussian()))


def test_one_input_may_be_one_dimensional():
    network = tb.Network(tb.Dense(1), inputs=1)
    flat = tb.Posterior(network, tb.Gaussian(), X[:, 0], Y)
    column = tb.Posterior(network, tb.Gaussian(), X[:, :1], Y[:, None])
    np.testing.assert_array_equal(flat.x, column.x)
    theta, phi = np.array([0.5, -0.5]), np.zeros(4)
    assert flat.log_density(theta, phi) == column.log_density(theta, phi)


# Errors.


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X[:, :1], Y, ValueError, "`x` has 1 columns but the network has 2 inputs.*`inputs=1`"),
        (X[0], Y, ValueError, "`x` has 1 columns but the network has 2 inputs"),
        (X, Y[:5], ValueError, "`x` has 9 rows but `y` has 5"),
        (X, np.ones((9, 2)), ValueError, "`y` has 2 columns but the network has 1 outputs"),
        (X, None, ValueError, "`x` is given but `y` is not: give both or neither"),
        (None, Y, ValueError, "`y` is given but `x` is not: give both or neither"),
        (X[:0], Y[:0], ValueError, r"`x` is empty, its shape is \(0, 2\): give at least one row"),
        (X[:, :0], Y, ValueError, r"`x` is empty, its shape is \(9, 0\)"),
        (X, [], ValueError, r"`y` is empty, its shape is \(0, 1\)"),
        (X[None], Y, ValueError, r"`x` must be \(rows, columns\), got shape \(1, 9, 2\)"),
        (X, Y[:, None, None], ValueError, r"`y` must be \(rows, columns\), got shape \(9, 1, 1\)"),
        (1.0, 1.0, ValueError, r"`x` must be \(rows, columns\), got shape \(\)"),
        ([["a", "b"]], [1.0], TypeError, "`x` must hold numbers, got an array of type <U1"),
        (X, ["a"] * 9, TypeError, "`y` must hold numbers, got an array of type <U1"),
        ([[1j, 0]], [1.0], TypeError, "`x` must hold numbers, got an array of type complex128"),
        ([[None, 0]], [1.0], TypeError, "`x` must hold numbers, got an array of type object"),
    ],
)
def test_data_that_do_not_fit(x, y, error, message):
    with pytest.raises(error, match=message):
        tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(), x, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_must_be_finite(bad, dtype):
    network = tb.Network(tb.Dense(1), inputs=2)
    x, y = X.copy(), Y.copy()
    x[3, 1] = x[5, 0] = bad
    message = (
        rf"`x` must be finite, but 2 of its values are not \(first: {bad} at row 3, column 1\): "
        "remove or fill them"
    )
    with pytest.raises(ValueError, match=message):
        tb.Posterior(network, tb.Gaussian(), x, y, dtype=dtype)
    y[8] = bad
    with pytest.raises(ValueError, match=rf"`y` must be finite.*first: {bad} at row 8, column 0"):
        tb.Posterior(network, tb.Gaussian(), X, y, dtype=dtype)


def test_masked_values_are_missing():
    """NumPy would take what lies beneath the mask, such as 999."""
    network = tb.Network(tb.Dense(1), inputs=1)
    x = np.ma.masked_equal([0.0, 999.0, 1.0, 999.0], 999.0)
    with pytest.raises(ValueError, match="2 values of `x` are masked, so they are missing"):
        tb.Posterior(network, tb.Gaussian(), x, np.zeros(4))
    with pytest.raises(ValueError, match="2 values of `y` are masked, so they are missing"):
        tb.Posterior(network, tb.Gaussian(), np.zeros(4), x)
    none = np.ma.masked_equal([0.0, 1.0], 999.0)
    np.testing.assert_array_equal(tb.Posterior(network, tb.Gaussian(), none, none).y, [0, 1])


def test_data_too_large_for_float32():
    network = tb.Network(tb.Dense(1), inputs=2)
    x = X.copy()
    x[2, 0] = 1e300
    with pytest.raises(ValueError, match=r"`x` .*1e\+300 at row 2, column 0"):
        tb.Posterior(network, tb.Gaussian(), x, Y)
    assert tb.Posterior(network, tb.Gaussian(), x, Y, dtype="float64").x[2, 0] == 1e300


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (tb.Bernoulli(), np.full(9, 2), "`y` must hold only 0 and 1.*but has 2"),
        (tb.Bernoulli(), np.full(9, 0.5), r"`y` must hold only 0 and 1.*but has 0\.5"),
        (tb.Categorical(), np.zeros(9), "needs a network with one output per class.* has 1"),
    ],
)
def test_targets_that_do_not_fit(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        tb.Posterior(tb.Network(tb.Dense(1), inputs=2), likelihood, X, y)


@pytest.mark.parametrize("dtype", ["float16", "double", None, np.float16])
def test_an_unknown_type(dtype):
    with pytest.raises(ValueError, match="`dtype` must be 'float32' or 'float64', got "):
        tb.Posterior(HIERARCHICAL, tb.Gaussian(), dtype=dtype)


@pytest.mark.parametrize("engine", ["cuda", "JAX", None])
def test_an_unknown_engine(engine):
    with pytest.raises(ValueError, match=rf"`engine` must be 'auto'.* got .?{engine}"):
        tb.Posterior(HIERARCHICAL, tb.Gaussian(), engine=engine)


@pytest.mark.parametrize("network", [tb.Dense(1), [tb.Dense(1)], None, tb.Network])
def test_the_network_must_be_a_network(network):
    with pytest.raises(TypeError, match=r"`network` must be a tb\.Network, got "):
        tb.Posterior(network, tb.Gaussian())


@pytest.mark.parametrize("likelihood", [0.1, tb.Gaussian, tb.Normal(), None])
def test_the_likelihood_must_be_a_likelihood(likelihood):
    with pytest.raises(TypeError, match=r"`likelihood` must be a likelihood such as .*got "):
        tb.Posterior(HIERARCHICAL, likelihood)


@pytest.mark.parametrize("method", ["log_density", "log_likelihood", "log_prior"])
def test_vectors_of_the_wrong_length(posterior, method):
    function = getattr(posterior, method)
    with pytest.raises(ValueError, match=r"`theta` must have shape \(16,\), got \(15,\)"):
        function(np.zeros(15), np.zeros(6))
    with pytest.raises(ValueError, match=r"`theta` must have shape \(16,\), got \(2, 8\)"):
        function(np.zeros((2, 8)), np.zeros(6))
    with pytest.raises(ValueError, match=r"`phi` must have shape \(6,\), got \(7,\)"):
        function(np.zeros(16), np.zeros(7))


def test_other_vectors_of_the_wrong_length(posterior):
    with pytest.raises(ValueError, match=r"`theta` must have shape \(16,\), got \(\)"):
        posterior.value_and_grad(0.0, np.zeros(6))
    with pytest.raises(ValueError, match=r"`phi` must have shape \(6,\), got \(0,\)"):
        posterior.log_hyper_prior([])
    with pytest.raises(ValueError, match=r"`theta` must have shape \(16,\), got \(17,\)"):
        posterior.unflatten(np.zeros(17))
    with pytest.raises(ValueError, match=r"`phi` must have shape \(6,\), got \(1,\)"):
        posterior.unflatten_hyperparameters([0.0])


@pytest.mark.parametrize("standardize", [False, True])
def test_data_that_jax_traces_are_refused_in_words(standardize):
    network = tb.Network(tb.Dense(1), inputs=1)

    @jax.jit
    def traced(x):
        tb.Posterior(network, tb.Gaussian(), x, [0.0, 1.0], standardize=standardize)

    with pytest.raises(TypeError, match=r"`x` must hold numbers, but JAX is tracing it: use it"):
        traced(jnp.zeros(2))
