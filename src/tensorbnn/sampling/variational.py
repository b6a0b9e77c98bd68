"""`fit_variational`: from a posterior to an ensemble of draws from the Gaussian nearest to it."""

import os
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tensorbnn.checks import check_count, check_path
from tensorbnn.engine.perturbed import Estimator
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.reweight import pareto_smooth
from tensorbnn.inference.mean_field import MeanField, MeanFieldState, Record
from tensorbnn.inference.pretrain import named_networks
from tensorbnn.inference.sampler import MAX_SEED
from tensorbnn.inference.variational import Fit, fit
from tensorbnn.posterior import Posterior, check_posterior, precision, warn_of_data
from tensorbnn.sampling.checkpoint import first_checkpoint
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.plan import NETWORKS_PER_FILE, ChainState, Plan, initial_chains
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.restore import create_store
from tensorbnn.sampling.run import Run
from tensorbnn.sampling.stopping import StoppingRule
from tensorbnn.storage.creation import check_free

# About the speed of a core on a narrow network: drawing shows a bar if it takes longer.
MULTIPLICATIONS_PER_SECOND = 1e9


def fit_variational(
    posterior: Posterior,
    *,
    draws: int = 1000,
    estimator: Estimator = "flipout",
    num_starts: int = 1,
    start: Mapping[str, ArrayLike] | None = None,
    start_sd: float = 0.05,
    cycles: int = 3,
    epochs: int = 1000,
    patience: int = 100,
    learning_rate: float = 0.01,
    learning_rate_factor: float = 0.1,
    batch_size: int | None = None,
    gradient_draws: int = 1,
    sample_hyperparameters: bool = True,
    path: str | os.PathLike[str] | None = None,
    store_data: bool = True,
    overwrite: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Ensemble:
    """Fit a mean-field Gaussian to a posterior and draw networks from it: fast, and approximate.

    Every parameter is an independent Gaussian, on the unconstrained scale. AMSGrad finds the means
    and sds with the highest evidence lower bound (ELBO), as for the TensorFlow Probability network
    of the paper's Figure 4. Dependence between parameters is lost, and so are all modes of the
    posterior but one: a baseline to compare a sample with, not a substitute for it.

    Parameters
    ----------
    posterior
        What to approximate. Without data, the prior.
    draws
        Networks to draw from the fitted density. They are independent.
    estimator
        How the noise of the parameters is drawn: ``"flipout"`` (one draw, with random signs
        for each row), ``"local"`` (the outputs of each dense layer are drawn, for each row), or
        ``"shared"`` (one draw for all rows), whose gradients scatter the most. All three have the
        same mean.
    num_starts
        Number of fits, each from another start; the one with the highest ELBO is kept.
    start
        Natural values by name at which the means start, as in `sample`, such as what `pretrain`
        returned: each of the parameter's shape, or with the starts as first axis. All others start
        as the layers define.
    start_sd
        Where the sds start.
    cycles, epochs, patience, learning_rate, learning_rate_factor, batch_size
        As in `pretrain`, with the paper's numbers for this method. The ELBO of all rows, estimated
        with the same random numbers each time, decides when to stop and which epoch was best.
    gradient_draws
        Number of estimates of the likelihood that each gradient averages.
    sample_hyperparameters
        Whether the Gaussian includes hyper-parameters. If false, they are fixed at their start.
    path, store_data, overwrite
        Where the networks are saved, as in `sample`; `load` reads them, and `resume` draws more.
    seed
        The same seed gives the same bits.
    progress
        Show a progress bar.

    Returns
    -------
    Ensemble
        The networks, in one chain. `Ensemble.approximation` has the ELBO, k-hat, the history of the
        fit, means and sds; `Ensemble.diagnose` reports that this is no sample of the posterior.

    References
    ----------
    Wen et al. (2018), "Flipout: efficient pseudo-independent weight perturbations on mini-batches",
    ICLR, https://arxiv.org/abs/1803.04386. Kingma, Salimans & Welling (2015), "Variational dropout
    and the local reparameterization trick", https://arxiv.org/abs/1506.02557. Yao et al. (2018),
    "Yes, but did it work?: evaluating variational inference", https://arxiv.org/abs/1802.02538.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 20)
    >>> layer = tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1))
    >>> posterior = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.5), x, 0.3 * x)
    >>> ensemble = tb.fit_variational(posterior, draws=200, progress=False)
    >>> ensemble.approximation.trustworthy, ensemble.predict(x).mean.shape
    (True, (20,))
    """
    check_posterior(posterior)
    options = MeanField(
        estimator=estimator,
        num_starts=num_starts,
        cycles=cycles,
        epochs=epochs,
        patience=patience,
        learning_rate=learning_rate,
        learning_rate_factor=learning_rate_factor,
        batch_size=batch_size,
        gradient_draws=gradient_draws,
        start_sd=start_sd,
    )
    plan = Plan(
        chains=1,
        burn_in=0,
        draws=check_count("draws", draws, least=1),
        thin=1,
        networks_per_file=NETWORKS_PER_FILE,
        seed=check_count("seed", seed, least=0, most=MAX_SEED),
        sample_hyperparameters=bool(sample_hyperparameters),
    )
    if path is not None:
        check_free(check_path("path", path), overwrite=overwrite)
    warn_of_data(posterior)
    found = fit(
        posterior,
        options,
        start={} if start is None else start,
        hyperparameters=plan.sample_hyperparameters,
        seed=plan.seed,
        progress=progress,
    )
    with precision(posterior.dtype):
        checkpoints = [first_checkpoint(_fitted(posterior, options, plan, found), options)]
    run = Run(posterior, options, plan, StoppingRule(), Reporting(plan.draws))
    create_store(run, checkpoints, path, store_data=store_data, notes={}, overwrite=overwrite)
    return run.run(LocalBackend(checkpoints), progress=progress and _takes_long(posterior, plan))


def _takes_long(posterior: Posterior, plan: Plan) -> bool:
    """Whether drawing the networks takes more than about a second."""
    rows = 1 if posterior.x is None else len(posterior.x)
    return plan.draws * rows * posterior.num_parameters > MULTIPLICATIONS_PER_SECOND


def _fitted(posterior: Posterior, options: MeanField, plan: Plan, found: Fit) -> ChainState:
    """The chain that draws from the fitted density, at its mean."""
    model = posterior.model
    theta = found.normals.mean[: model.theta.size]
    named = {name: each[0] for name, each in named_networks(model, theta[None]).items()}
    hypers = {} if plan.sample_hyperparameters else posterior.unflatten_hyperparameters(found.phi)
    (chain,) = initial_chains(posterior, options, plan, {**named, **hypers})
    smoothed, pareto_k = pareto_smooth(found.log_ratios[None])
    weights = np.exp(smoothed - smoothed.max())
    count = len(found.log_ratios)
    record = Record(
        elbos=found.elbos,
        elbo=found.log_ratios.mean(),
        elbo_error=found.log_ratios.std(ddof=1) / np.sqrt(count),
        pareto_k=pareto_k,
        ess=np.square(weights.sum()) / np.square(weights).sum(),
        history=found.history,
    )
    state: MeanFieldState = chain.state
    return chain._replace(
        state=state._replace(
            normals=type(found.normals)(*(each[None] for each in found.normals)),
            record=Record(*(jnp.asarray(each, dtype=float)[None] for each in record)),
        )
    )
