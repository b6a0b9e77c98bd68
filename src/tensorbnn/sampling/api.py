"""`sample` and `load`: from a posterior, or from a run on disk, to an ensemble."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from tensorbnn.data import Dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Metric, named_metrics
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.sampler import MOST_SEED, MOST_TRANSITIONS, Sampler
from tensorbnn.model.checks import check_count
from tensorbnn.posterior import Posterior, check_posterior, precision
from tensorbnn.sampling.checkpoint import Checkpoint, first_checkpoint
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.executor import check_executor, check_sendable
from tensorbnn.sampling.plan import Plan, start_chains
from tensorbnn.sampling.recipe import Recipe, make_pace, make_reporting
from tensorbnn.sampling.running import carry_out
from tensorbnn.sampling.stopping import check_gradients, make_goal
from tensorbnn.sampling.storing import make_store
from tensorbnn.storage.creation import check_free
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import check_notes


def sample(
    posterior: Posterior,
    sampler: Sampler | None = None,
    *,
    start: Mapping[str, ArrayLike] | Ensemble | None = None,
    chains: int = 4,
    burn_in: int = 1000,
    draws: int = 1000,
    until: Converged | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    every: int = 1,
    path: str | os.PathLike[str] | None = None,
    networks_per_file: int = 100,
    checkpoint_draws: int | None = None,
    checkpoint_seconds: float = 10.0,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    report_every: int = 100,
    seed: int = 0,
    sample_hyperparameters: bool = True,
    store_data: bool = True,
    notes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: bool = True,
    executor: Executor | None = None,
) -> Ensemble:
    """Sample networks from a posterior with several chains.

    Parameters
    ----------
    posterior
        What to sample. Without data, the prior.
    sampler
        How to sample it; ``HMC()`` by default.
    start
        Natural values by name at which chains start, each of the parameter's shape (for all chains)
        or with the chains as first axis. What is left out starts as the layers say: weights and
        biases from Gaussian He, drawn anew for each chain. An `Ensemble` stands for the last draws
        of its chains: to sample a model that is not far from its own.
    chains
        Number of independent chains; they run side by side on the machine's cores.
    burn_in
        Transitions at the start of each chain that are not saved. All adaptation ends with them.
    draws
        Networks to save from each chain; with `until`, at least.
    until
        When to stop: chains are made longer until their predictions agree and are known well
        enough, such as ``tb.Converged(rhat=1.01, ess=400, at=x)``.
    max_minutes
        Stop when so many minutes are over, wherever chains are then.
    max_gradients
        Stop a chain when it has spent so many gradients, burn-in included. After a limit you get
        the networks that all chains have, and a warning that says what they fall short of.
    every
        Transitions between two saved networks.
    path
        Directory to save the run in; networks are written as they are drawn and can be read by
        `load` while the run goes on, and `resume` goes on with it. Left out, the run is kept in
        memory.
    networks_per_file
        Networks in a file of the run directory.
    checkpoint_draws, checkpoint_seconds
        A chain saves what it has drawn and where it is after so many draws, `networks_per_file` by
        default and at most, and after so many seconds, in burn-in too: so much is lost at most if
        the run is killed.
    metrics
        What to report of the networks while the chains run: `SquaredError`, `PercentError`,
        `Accuracy`, or functions ``(predictions, targets) -> float`` of your own, for the expected
        targets ``(rows, outputs)`` of one network.
    validation
        Data ``(x, y)`` on which metrics are reported too. They don't change the draws.
    report_every
        Transitions of a chain, burn-in included, between two reports; one more is made at its end.
        Reports are in `Ensemble.reports`, and in ``metrics.jsonl`` of the run directory.
    seed
        The same seed gives the same bits, whatever the number of cores.
    sample_hyperparameters
        Whether hyper-parameters are sampled; held at their start otherwise.
    store_data
        Whether the run directory keeps the data.
    notes
        What is to be kept with the run, such as where its data come from: texts, numbers, lists and
        dicts, in ``run.json``.
    overwrite
        Whether a run that is already at `path` may be replaced.
    progress
        Show a progress bar and, on a terminal, what each chain does.
    executor
        Where chains run instead of this process, each as a task of its own that writes to `path`:
        a ``ProcessPoolExecutor`` (not one that forks), ``client.get_executor()`` of a Dask client,
        or any other ``concurrent.futures.Executor``. All its workers must see `path`. A chain
        whose worker dies is taken up by another one.

    Returns
    -------
    Ensemble
        The sampled networks. Ctrl-C stops the chains: a run at `path` is saved and a message says
        how to go on; of a run in memory you get what all chains have drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 5)
    >>> network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
    >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
    >>> ensemble = tb.sample(posterior, chains=2, burn_in=50, draws=20, progress=False)
    >>> ensemble.parameters["dense_0.weights"].shape
    (2, 20, 1, 4)
    """
    check_posterior(posterior)
    if executor is not None:
        _check_workers(executor, path)
    sampler = _check_sampler(HMC() if sampler is None else sampler)
    plan = Plan(
        chains=check_count("chains", chains, least=1),
        burn_in=check_count("burn_in", burn_in, least=0, most=MOST_TRANSITIONS),
        draws=check_count("draws", draws, least=1),
        every=check_count("every", every, least=1, most=MOST_TRANSITIONS),
        networks_per_file=check_count("networks_per_file", networks_per_file, least=1),
        seed=check_count("seed", seed, least=0, most=MOST_SEED),
        sample_hyperparameters=bool(sample_hyperparameters),
        together=executor is None,
        max_gradients=check_gradients(max_gradients),
    )
    every_report = check_count("report_every", report_every, least=1)
    reporting = make_reporting(posterior, named_metrics(metrics), validation, every_report)
    pace = make_pace(plan, checkpoint_draws, checkpoint_seconds)
    if path is not None:
        check_free(Path(path), overwrite=overwrite)
    recipe = Recipe(posterior, sampler, plan, reporting, pace)
    goal = make_goal(until, max_minutes, posterior, plan)
    checkpoints = _first_checkpoints(recipe, start)
    if executor is not None:
        check_sendable(executor, recipe)
    store = make_store(
        recipe,
        goal,
        checkpoints,
        path,
        store_data=store_data,
        notes=check_notes(notes),
        overwrite=overwrite,
    )
    return carry_out(recipe, store, checkpoints, goal, progress=progress, executor=executor)


def load(
    path: str | os.PathLike[str],
    *,
    custom: Mapping[str, type] | None = None,
    skip_damaged: bool = False,
) -> Ensemble:
    """Read the networks of a run directory, also while the run goes on.

    Parameters
    ----------
    path
        The directory that was given to `sample`.
    custom
        The user's own layers, priors and likelihoods in the run, by class name.
    skip_damaged
        Leave out files that are damaged, with a warning, and those with the same number of the
        other chains. Otherwise they are an error when they are met.

    Returns
    -------
    Ensemble
        The draws that all chains have written so far; `Ensemble.refresh` looks for more.

    Examples
    --------
    >>> import tempfile
    >>> import tensorbnn as tb
    >>> prior = tb.Posterior(tb.Network(tb.Dense(2), inputs=1), tb.Gaussian(sd=0.1))
    >>> with tempfile.TemporaryDirectory() as path:
    ...     sampled = tb.sample(prior, chains=2, burn_in=20, draws=10, path=path, progress=False)
    ...     ensemble = tb.load(path)
    ...     print(ensemble, ensemble.parameters["dense_0.weights"].shape)
    Ensemble(20 networks: 2 chains of 10 draws) (2, 10, 1, 2)
    """
    return Ensemble._from_store(DirectoryStore(path), custom or {}, skip_damaged=skip_damaged)


def _check_workers(executor: Executor, path: str | os.PathLike[str] | None) -> None:
    check_executor(executor)
    if path is None:
        raise ValueError(
            "`executor` needs `path`: each chain is written by the worker that runs it, into a "
            "directory that all workers see"
        )


def _check_sampler(sampler: Sampler) -> Sampler:
    if isinstance(sampler, type) or not hasattr(sampler, "init") or not hasattr(sampler, "step"):
        raise TypeError(f"`sampler` must be a sampler such as tb.HMC(), got {sampler!r}")
    return sampler


def _first_checkpoints(
    recipe: Recipe, start: Mapping[str, ArrayLike] | Ensemble | None
) -> list[Checkpoint]:
    """Chains before their first transition, where metrics are known to work."""
    posterior, sampler, plan = recipe.posterior, recipe.sampler, recipe.plan
    started = start_chains(posterior, sampler, plan, _start_values(start, posterior, plan))
    with precision(posterior.dtype):
        recipe.reporting.check(started[0])
        return [first_checkpoint(each, sampler) for each in started]


def _start_values(
    start: Mapping[str, ArrayLike] | Ensemble | None, posterior: Posterior, plan: Plan
) -> Mapping[str, ArrayLike]:
    """Starting values by name; of an ensemble, those that the new model has."""
    if not isinstance(start, Ensemble):
        return {} if start is None else start
    parameters, hypers = start._last_draws(plan.chains)
    if not plan.sample_hyperparameters:  # they are held where the model says
        return parameters
    known = {entry.name for entry in posterior.model.phi.entries}
    return parameters | {name: each for name, each in hypers.items() if name in known}
