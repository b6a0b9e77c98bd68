"""The ELBO has the right value, and the fitted Gaussian is the best one.

Where the mean log-likelihood under a Gaussian has a closed form, or is a sum of integrals over one
variable, so has the ELBO: `best` maximizes it by SciPy. What is fitted errs by the random numbers
with which epochs are compared: the mean of ``e**2`` over K pairs moves the best log-sd by a normal
error of variance ``(2 / K) / 4`` at most, at which the ELBO is lower by ``1 / (2 K)`` on average,
that is by a chi-squared over 2 K for each parameter. (Means are not moved where the log-likelihood
is quadratic, and hardly otherwise.) The noise of the last steps adds ``rate / (4 sd)`` for each
parameter, for gradients that scatter by ``1 / sd``.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import tensorbnn as tb
from tensorbnn.engine import forward
from tensorbnn.inference import variational as module
from tensorbnn.inference.mean_field import MeanField, Normals
from tensorbnn.posterior import precision
from tests.oracles import oracles

pytestmark = pytest.mark.slow

ROWS, SD, WIDTH = 30, 0.5, 0.8
X = np.random.default_rng(0).normal(size=(ROWS, 2)) + np.array([0.7, 0.0])
Y = X @ [1.5, -0.7] + 0.4 + SD * np.random.default_rng(1).normal(size=ROWS)
UNIT = tb.Normal(0.0, WIDTH)
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


def line(x=X, y=Y, sd=SD):
    network = tb.Network(tb.Dense(1, weight_prior=UNIT, bias_prior=UNIT), inputs=2)
    return tb.Posterior(network, tb.Gaussian(sd=sd), x, y, dtype="float64")


def fitted(posterior, **options):
    chosen = {"start": {}, "hyperparameters": True, "seed": 0, "progress": False}
    extra = {name: options.pop(name) for name in list(options) if name in chosen}
    return module.fit(posterior, MeanField(**options), **chosen | extra)


def moments(found):
    return np.asarray(found.normals.mean), np.asarray(found.normals.sd)


def normal_mean(mean, sd, center, width):
    """``E log N(v; center, width)`` for ``v ~ N(mean, sd)``."""
    return stats.norm.logpdf(mean, center, width) - 0.5 * (sd / width) ** 2


def entropy(sd):
    return np.log(sd).sum() + 0.5 * len(sd) * np.log(2 * np.pi * np.e)


def line_elbo(mean, sd, x=X, y=Y, noise=None):
    """Closed form; `noise` holds mean and sd of log sigma, whose prior is N(log SD, 1)."""
    design = np.column_stack([x, np.ones(len(x))])
    squares = np.square(y - design @ mean[:3]).sum() + (sd[:3] ** 2) @ np.square(design).sum(axis=0)
    log_sigma, precision_ = np.log(SD), SD**-2
    total = normal_mean(mean[:3], sd[:3], 0.0, WIDTH).sum() + entropy(sd)
    if len(mean) == 4:
        log_sigma, precision_ = mean[3], np.exp(-2 * mean[3] + 2 * sd[3] ** 2)
        total += normal_mean(mean[3], sd[3], np.log(SD), 1.0)
    return total - 0.5 * precision_ * squares - len(y) * (log_sigma + 0.5 * np.log(2 * np.pi))


def best(elbo, size):
    """Means, sds and ELBO at its maximum."""

    def minus(vector):
        return -elbo(vector[:size], np.exp(vector[size:]))

    start = np.concatenate([np.zeros(size), np.full(size, -1.0)])
    found = optimize.minimize(minus, start, method="BFGS", options={"gtol": 1e-7})
    return found.x[:size], np.exp(found.x[size:]), -found.fun


def check(found, elbo, size):
    """The reported ELBO is that of the fitted density, which is the best within its error."""
    mean, sd = moments(found)
    error = found.log_ratios.std() / len(found.log_ratios) ** 0.5
    assert abs(found.log_ratios.mean() - elbo(mean, sd)) < 4 * error
    best_mean, best_sd, highest = best(elbo, size)
    most = stats.chi2.isf(1e-3, size) / (2 * module.EVALUATION_PAIRS)
    most += (1e-4 / (4 * best_sd)).sum()
    print(f"ELBO {elbo(mean, sd):.4f}, best {highest:.4f}, may be lower by {most:.4f}")
    assert -1e-6 < highest - elbo(mean, sd) < most
    # To second order, sum((m - m*)**2 / s*^2) / 2 + sum((log s - log s*)**2) of it is lost.
    np.testing.assert_allclose((mean - best_mean) / best_sd, 0, atol=(2 * most) ** 0.5)
    np.testing.assert_allclose(np.log(sd / best_sd), 0, atol=most**0.5)
    return highest, error


@pytest.mark.parametrize("estimator", ["flipout", "local"])
def test_the_best_gaussian_of_a_line(estimator):
    found = fitted(line(), estimator=estimator)
    highest, error = check(found, line_elbo, 3)
    exact = oracles.linreg(X, Y, SD, WIDTH, WIDTH)
    # Of all factorized Gaussians, the one with the diagonal of the precision.
    diagonal = np.diag(np.linalg.inv(exact.cov))
    divergence = 0.5 * (np.log(diagonal).sum() + np.linalg.slogdet(exact.cov)[1])
    assert divergence > 0.05
    assert highest == pytest.approx(exact.logZ - divergence, abs=1e-6)
    best_mean, best_sd, _ = best(line_elbo, 3)
    np.testing.assert_allclose(best_mean, exact.mean, atol=1e-5)
    np.testing.assert_allclose(best_sd, diagonal**-0.5, rtol=1e-5)
    assert found.log_ratios.mean() < exact.logZ - divergence + 4 * error


def test_the_bound_is_the_evidence_where_the_posterior_factorizes():
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * 7 + [[0.0, 0.0]] * 2)
    y = x @ [0.8, -0.2] + 0.3 + 0.4 * np.random.default_rng(3).normal(size=ROWS)
    found = fitted(line(x, y))
    exact = oracles.linreg(x, y, SD, WIDTH, WIDTH)
    highest, error = check(found, functools.partial(line_elbo, x=x, y=y), 3)
    assert highest == pytest.approx(exact.logZ, abs=1e-6)
    assert found.log_ratios.mean() < exact.logZ + 4 * error


def test_hyperparameters_are_part_of_it():
    """The noise: a Gaussian of its logarithm, independent of the weights."""
    posterior = line(sd=tb.Hyper(SD))
    assert posterior.num_hyperparameters == 1
    found = fitted(posterior, estimator="local")
    highest, _ = check(found, line_elbo, 4)
    prior = oracles.noise_logpdf("lognormal", np.log(SD), 1.0)
    assert highest < oracles.linreg_noise(X, Y, prior, WIDTH, WIDTH).logZ


def test_classes():
    x = np.array([-1.0, 0.5, 1.0, 2.0, -0.3, 1.5, 0.1, -2.0])
    t = np.array([0, 0, 1, 1, 1, 1, 0, 0])
    network = tb.Network(tb.Dense(1, tb.Normal(), tb.Normal()), inputs=1)

    def elbo(mean, sd):
        logits = mean[0] * x + mean[1] + np.sqrt((sd[0] * x) ** 2 + sd[1] ** 2) * NODES[:, None]
        rows = NODE_WEIGHTS @ -np.logaddexp(0, -(2 * t - 1) * logits)
        return rows.sum() + normal_mean(mean, sd, 0.0, 1.0).sum() + entropy(sd)

    found = fitted(tb.Posterior(network, tb.Bernoulli(), x, t, dtype="float64"))
    highest, _ = check(found, elbo, 2)
    assert highest < oracles.logistic_1d(x, t)["logZ"]


# Every prior


def prior_elbo(log_prior, mean, sd):
    """``E_q log p + H[q]`` for one number on the unconstrained scale, by a fine grid."""
    grid = np.linspace(-10, 10, 4001)
    weights = stats.norm.pdf(grid)
    return weights @ log_prior(mean + sd * grid) / weights.sum() + entropy(np.array([sd]))


PRIORS = {
    "normal": (tb.Normal(0.3, 1.2), stats.norm(0.3, 1.2), False),
    "cauchy": (tb.Cauchy(0.2, 0.5), stats.cauchy(0.2, 0.5), False),
    "student": (tb.StudentT(4.0, -0.1, 0.7), stats.t(4.0, -0.1, 0.7), False),
    "laplace": (tb.Laplace(0.1, 0.6), stats.laplace(0.1, 0.6), False),
    "exponential": (tb.Exponential(2.0), stats.expon(scale=0.5), True),
    "log-normal": (tb.LogNormal(-0.4, 0.8), stats.lognorm(0.8, scale=np.exp(-0.4)), True),
    "half-normal": (tb.HalfNormal(0.7), stats.halfnorm(scale=0.7), True),
}


def log_prior_of(name):
    _, twin, positive = PRIORS[name]
    if positive:
        return lambda u: twin.logpdf(np.exp(u)) + u
    return twin.logpdf


@pytest.mark.parametrize("name", PRIORS)
def test_the_term_of_each_prior(name):
    prior = PRIORS[name][0]
    model = tb.Posterior(
        tb.Network(tb.Dense(1, prior, prior), inputs=1), tb.Gaussian(), dtype="float64"
    ).model
    mean, sd = np.array([0.4, -0.8]), np.array([0.6, 0.3])
    with precision("float64"):
        task = module.Task(model, "flipout", 1, True, None, jax.random.key(0))
        normals = Normals(jnp.asarray(mean), jnp.log(jnp.asarray(sd)))

        def elbo(key):
            return task.elbo(key, jnp.ones(()), normals, jnp.zeros(0), None, 1)

        values = np.asarray(jax.jit(jax.vmap(elbo))(jax.random.split(jax.random.key(1), 20_000)))
    truth = sum(prior_elbo(log_prior_of(name), *each) for each in zip(mean, sd, strict=True))
    # A Gaussian prior is quadratic, and pairs leave only the scatter of squares.
    assert abs(oracles.z_mean(values, truth)) < oracles.z_crit(len(PRIORS))


def test_a_prior_is_fitted_number_by_number():
    """Without data every number has its own best Gaussian; the evidence is 1."""
    layers = (
        tb.Dense(1, PRIORS["cauchy"][0], PRIORS["student"][0]),
        tb.PReLU(PRIORS["exponential"][0]),
        tb.Dense(1, PRIORS["laplace"][0], PRIORS["normal"][0]),
    )
    order = ["cauchy", "student", "exponential", "laplace", "normal"]

    def elbo(mean, sd):
        each = zip(order, mean, sd, strict=True)
        return sum(prior_elbo(log_prior_of(name), m, s) for name, m, s in each)

    posterior = tb.Posterior(tb.Network(*layers, inputs=1), tb.Gaussian(), dtype="float64")
    found = fitted(posterior)
    highest, _ = check(found, elbo, 5)
    assert highest < 0
    # The Gaussian one is met: it adds nothing to what is missing.
    mean, sd = moments(found)
    missing = -prior_elbo(log_prior_of("normal"), mean[4], sd[4])
    assert 0 <= missing < stats.chi2.isf(1e-3, 5) / (2 * module.EVALUATION_PAIRS)


# How it is fitted


def test_batches_stand_for_all_rows():
    """Equal rows: every batch has the loss of all of them, except for the noise."""
    x, y = np.tile(X[:1], (ROWS, 1)), np.tile(Y[:1], ROWS)
    posterior = line(x, y)
    with precision("float64"):
        whole = module._batches(posterior, None)
        part = module._batches(posterior, 10)
        tasks = [
            module.Task(posterior.model, "local", 1, True, each, jax.random.key(0))
            for each in (whole, part)
        ]
        normals = Normals(jnp.array([0.1, -0.2, 0.3]), jnp.full(3, -20.0))  # hardly any noise
        batch = forward.arrange(posterior.network, x[:10], y[:10, None])
        key, phi = jax.random.key(1), jnp.zeros(0)
        losses = [
            tasks[0].loss(key, normals, phi, whole.data, ROWS),
            tasks[1].loss(key, normals, phi, batch, 10),
        ]
    assert losses[0] == pytest.approx(float(losses[1]), rel=1e-6)
    assert (tasks[0].evaluate_every, tasks[1].evaluate_every) == (25, 8)
