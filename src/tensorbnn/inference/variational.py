"""Variational inference: the mean-field Gaussian nearest to the posterior.

A density ``q`` over the parameters bounds the evidence of the data from below,

    ELBO(q) = E_q[log p(D | theta, phi)] + E_q[log p(theta | phi) + log p(phi)] + H[q]
            = log p(D) - KL(q || p(theta, phi | D))  <=  log p(D)

so the Gaussian with the highest bound is the one with the least divergence from the posterior.
``q = prod_i N(m_i, s_i)`` is a density of the unconstrained theta and phi, or of theta alone if
hyper-parameters are held (as in the paper's Figure 4). AMSGrad changes ``m`` and ``log s`` in
cycles, by gradients of an unbiased estimate of the bound: the first term with separate noise for
each row (`engine/perturbed.py`), the second over a few pairs of draws ``m + s e`` and ``m - s e``,
the entropy exactly. Hinton & van Camp (1993); Graves (2011); Blundell et al. (2015).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.density import Model
from tensorbnn.engine.forward import Data
from tensorbnn.engine.perturbed import Estimator
from tensorbnn.inference.cycles import Batches, Losses, begin, make_batches, run
from tensorbnn.inference.mean_field import MeanField, Normals
from tensorbnn.inference.pretrain import draw_starts, split_keys
from tensorbnn.inference.sampler import over_chains, root_key
from tensorbnn.model.checks import check_starts
from tensorbnn.posterior import Posterior, precision
from tensorbnn.progress import Bar

# Pairs of draws for the prior's term, which costs little compared with the likelihood.
PRIOR_PAIRS = 4
# Pairs of estimates, always with the same random numbers, that compare epochs, and the number of
# steps between two evaluations, which cost about as much as an evaluation.
EVALUATION_PAIRS, EVALUATION_STEPS = 32, 25
# Draws of a fitted density for its ELBO.
ELBO_DRAWS = 1000
# Keeps the random numbers apart from those that `sample` draws with the same seed.
STREAM = 0x7661726E


class Fit(NamedTuple):
    """The best of the fitted densities."""

    normals: Normals
    phi: NDArray[Any]
    """Unconstrained hyper-parameters, as they were at the start."""
    log_ratios: NDArray[Any]
    """``log p(D, v) - log q(v)`` at independent draws ``v``: their mean is the ELBO."""
    elbos: NDArray[Any]
    """ELBO from each start, ``(starts,)``."""
    history: NDArray[Any]
    """Estimates of the ELBO after epochs, ``(cycles, epochs)``; NaN if there is none."""


def fit(
    posterior: Posterior,
    options: MeanField,
    *,
    start: Mapping[str, ArrayLike],
    hyperparameters: bool,
    seed: int,
    progress: bool,
) -> Fit:
    """Fit a mean-field Gaussian from every start, and return the one with the highest ELBO.

    `hyperparameters` is whether it includes phi; the rest is as in `fit_variational`.
    """
    model, plan = posterior.model, options.plan
    layouts = (model.theta, model.phi)
    given = check_starts(
        layouts, start, count=options.num_starts, each="start", dtype=posterior.dtype
    )
    with precision(posterior.dtype), Bar("fitting", plan.total, show=progress) as bar:
        shared, keys = split_keys(root_key(seed), STREAM, options.num_starts, 3)
        key_start, key_fit, key_elbo = keys
        draws, batches = options.gradient_draws, _batches(posterior, options.batch_size)
        task = Task(model, options.estimator, draws, hyperparameters, batches, key=shared)
        thetas, phis = draw_starts(model, key_start, given)
        centers = jnp.concatenate([thetas, phis], axis=1) if hyperparameters else thetas
        first = Normals(centers, jnp.full_like(centers, np.log(options.start_sd)))
        trained = run(task, plan, key_fit, begin(None, first, phis), bar)
        if not np.any(np.isfinite(trained.best_loss)):
            raise ValueError(
                "the ELBO was never finite: standardize the data (`standardize=True` of "
                "tb.Posterior), give `start`, a smaller `start_sd` or a smaller `learning_rate`"
            )
        ratios = np.asarray(_log_ratios(task, key_elbo, trained.best, phis), np.float64)
    means = ratios.mean(axis=1)
    elbos = np.where(np.isfinite(trained.best_loss) & np.isfinite(means), means, -np.inf)
    best = int(np.argmax(elbos))
    return Fit(
        normals=jax.tree.map(lambda leaf: leaf[best], trained.best),
        phi=np.asarray(phis[best]),
        log_ratios=ratios[best],
        elbos=elbos,
        history=-trained.losses.training[best] * task.rows,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Task:
    """Minus the ELBO over the number of rows; a pytree."""

    model: Model = field(metadata={"static": True})
    estimator: Estimator = field(metadata={"static": True})
    draws: int = field(metadata={"static": True})
    """Estimates of the ELBO in a step."""
    hyperparameters: bool = field(metadata={"static": True})
    """Whether the density includes phi."""
    batches: Batches | None
    """The rows; ``None`` for the prior."""
    key: Array
    """Key of the random numbers with which epochs are compared."""

    @property
    def rows(self) -> int:
        """Number of rows; 1 for the prior."""
        return 1 if self.batches is None else self.batches.count

    @property
    def evaluate_every(self) -> int:
        """Number of epochs with about `EVALUATION_STEPS` steps."""
        steps, batches = 1, self.batches
        if batches is not None and batches.batch_size is not None:
            steps = batches.count // batches.batch_size
        return max(EVALUATION_STEPS // steps, 1)

    def loss(self, key: Array, normals: Normals, phi: Array, data: Data | None, rows: int) -> Array:
        one = jnp.ones(())
        keys = jax.random.split(key, self.draws)
        each = jax.vmap(lambda key: self.elbo(key, one, normals, phi, data, rows))(keys)
        return -jnp.mean(each) / self.rows

    def losses(self, normals: Normals, phi: Array) -> Losses:
        """The loss on all rows: the mean over a fixed set of pairs of estimates."""
        data = None if self.batches is None else self.batches.data

        def estimate(each: tuple[Array, Array]) -> Array:
            return self.elbo(*each, normals, phi, data, self.rows)

        keys = jnp.repeat(jax.random.split(self.key, EVALUATION_PAIRS), 2)
        sides = jnp.tile(jnp.array([1.0, -1.0]), EVALUATION_PAIRS)
        loss = -jnp.mean(jax.lax.map(estimate, (keys, sides))) / self.rows
        return Losses(loss, loss)

    def elbo(
        self, key: Array, side: Array, normals: Normals, phi: Array, data: Data | None, rows: int
    ) -> Array:
        """An unbiased estimate of the ELBO; `side` -1 reflects all noise."""
        key_draws, key_rows = jax.random.split(key)
        noise = side * jax.random.normal(key_draws, (1 + PRIOR_PAIRS, normals.mean.size))
        theta, own_phi = self.vectors(normals.at(noise[0]), phi)
        model, size = self.model, theta.size
        thetas = normals.mean[:size], normals.sd[:size], theta
        log_likelihood = model.mean_log_likelihood(
            key_rows, thetas, side, own_phi, data, self.estimator
        )

        def log_prior(standard: Array) -> Array:
            return self.log_prior(*self.vectors(normals.at(standard), phi))

        log_priors = jax.vmap(log_prior)(jnp.concatenate([noise[1:], -noise[1:]]))
        return log_likelihood * (self.rows / rows) + jnp.mean(log_priors) + normals.entropy()

    def log_prior(self, theta: Array, phi: Array) -> Array:
        """``log p(theta | phi) + log p(phi)``; the latter only if phi is sampled."""
        log_prior = self.model.log_prior(theta, phi)
        return log_prior + self.model.log_hyper_prior(phi) if self.hyperparameters else log_prior

    def vectors(self, vector: Array, phi: Array) -> tuple[Array, Array]:
        """Theta and phi of a draw; `phi` is the value at which phi is held."""
        size = self.model.theta.size
        return vector[:size], vector[size:] if self.hyperparameters else phi


@jax.jit
def _log_ratios(task: Task, keys: Array, normals: Normals, phis: Array) -> Array:
    """``log p(D, v) - log q(v)`` at draws of each density, ``(starts, draws)``."""
    data = None if task.batches is None else task.batches.data

    def of_start(key: Array, normals: Normals, phi: Array) -> Array:
        def of_draw(key: Array) -> Array:
            vector = normals.at(jax.random.normal(key, normals.mean.shape))
            theta, own_phi = task.vectors(vector, phi)
            log_likelihood = task.model.log_likelihood(theta, own_phi, data)
            log_joint = log_likelihood + task.log_prior(theta, own_phi)
            return log_joint - normals.log_density(vector)

        return jax.lax.map(of_draw, jax.random.split(key, ELBO_DRAWS))

    return over_chains(of_start, keys, normals, phis)


def _batches(posterior: Posterior, batch_size: int | None) -> Batches | None:
    if posterior.data is not None:
        return make_batches(posterior.network, posterior._prepare_own(), batch_size)
    if batch_size is not None:
        raise ValueError("`batch_size` is given, but `posterior` has no data: leave it out")
    return None
