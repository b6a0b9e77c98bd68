"""`sample`, `resume` and `load`: from a posterior, or from a run on disk, to an ensemble."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from tensorbnn.checks import check_count
from tensorbnn.data import Dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Metric, named_metrics
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.sampler import MAX_SEED, MAX_TRANSITIONS, Sampler, check_sampler
from tensorbnn.posterior import Posterior, check_posterior, precision
from tensorbnn.sampling.checkpoint import Checkpoint, first_checkpoint
from tensorbnn.sampling.executor import check_executor, check_sendable, make_backend
from tensorbnn.sampling.plan import Checkpointing, Plan, initial_chains
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.restore import (
    check_not_imported,
    check_same,
    create_store,
    restore_run,
    take_up,
)
from tensorbnn.sampling.run import Run
from tensorbnn.sampling.stopping import StoppingRule, Until
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
    until: Until | Literal["converged"] | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    thin: int = 1,
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
        When to stop: ``"converged"`` or a `Converged` with your own numbers extends the chains
        until their predictions agree and are known well enough. Or your own stopping rule, an
        object with ``estimate(ensemble)``.
    max_minutes
        Stop after this many minutes.
    max_gradients
        Stop a chain when it has spent this many gradients, burn-in included. After a limit you get
        the networks that all chains have, and a warning that says what they fall short of.
    thin
        Transitions between two saved networks.
    path
        Directory to save the run in; networks are written as they are drawn and can be read by
        `load` while the run goes on, and `resume` goes on with it. Left out, the run is kept in
        memory.
    networks_per_file
        Networks in a file of the run directory.
    checkpoint_draws, checkpoint_seconds
        A chain saves what it has drawn and where it is after this many draws, `networks_per_file`
        by default and at most, and after this many seconds, in burn-in too: no more is lost if the
        run is killed.
    metrics
        What to report of the networks while the chains run: `MeanSquaredError`,
        `MeanAbsolutePercentageError`, `Accuracy`, or your own functions
        ``(predictions, targets) -> float``. Predictions are the expected targets of one network, in
        the shape of `y`.
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
    check_executor(executor)
    if executor is not None and path is None:
        raise ValueError(
            "`executor` needs `path`: each chain is written by the worker that runs it, into a "
            "directory that all workers see"
        )
    plan = Plan(
        chains=check_count("chains", chains, least=1),
        burn_in=check_count("burn_in", burn_in, least=0, most=MAX_TRANSITIONS),
        draws=check_count("draws", draws, least=1),
        thin=check_count("thin", thin, least=1, most=MAX_TRANSITIONS),
        networks_per_file=check_count("networks_per_file", networks_per_file, least=1),
        seed=check_count("seed", seed, least=0, most=MAX_SEED),
        sample_hyperparameters=bool(sample_hyperparameters),
        pooled=executor is None,
    )
    report_every = check_count("report_every", report_every, least=1)
    run = Run(
        posterior,
        check_sampler(HMC() if sampler is None else sampler),
        plan,
        StoppingRule.checked(until, max_minutes, max_gradients, posterior, plan),
        Reporting.checked(posterior, named_metrics(metrics), validation, report_every),
        Checkpointing.checked(plan, checkpoint_draws, checkpoint_seconds),
    )
    if path is not None:
        check_free(Path(path), overwrite=overwrite)
    notes = check_notes(notes)
    checkpoints = _first_checkpoints(run, start)
    check_sendable(executor, run)
    create_store(run, checkpoints, path, overwrite=overwrite, store_data=store_data, notes=notes)
    run.run(make_backend(executor, checkpoints), progress=progress)
    return Ensemble._from_posterior(run.store, posterior, run.sampler)


def resume(
    path: str | os.PathLike[str],
    *,
    draws: int | None = None,
    until: Until | Literal["converged"] | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    sampler: Sampler | None = None,
    seed: int | None = None,
    chains: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    checkpoint_draws: int | None = None,
    checkpoint_seconds: float = 10.0,
    custom_objects: Mapping[str, type] | None = None,
    progress: bool = True,
    executor: Executor | None = None,
) -> Ensemble:
    """Go on with a run that was stopped or killed, or make one that is complete longer.

    Every chain goes on from where it was last saved. The finished run is, bit for bit, the one that
    was never interrupted. What a chain is made of (model, data, sampler, seed, burn-in) can't be
    changed; given here, it is compared with the run's.

    Parameters
    ----------
    path
        The directory that was given to `sample`.
    draws
        Networks of each chain in all; as many as were asked for, if left out. With `until`, at
        least.
    until, max_minutes, max_gradients
        When to stop, as in `sample`; as was asked for there, if left out. Minutes are those of this
        call, gradients those of the whole run; ``math.inf`` lifts a limit.
    posterior
        The posterior of the run. Needed only where the run does not keep its data, or instead of
        `custom_objects`.
    sampler, seed, chains, burn_in, thin
        As in the run, which is where they are taken from if left out.
    metrics
        Metrics of the run that are functions of your own; the library's are known from the run.
    validation
        Data for metrics, where the run does not keep its data.
    checkpoint_draws, checkpoint_seconds
        How often chains are saved, as in `sample`.
    custom_objects
        Your own layers, priors, likelihoods, samplers and stopping rules in the run, by class name.
    progress
        Show a progress bar.
    executor
        Where chains run instead of this process, as in `sample`.

    Returns
    -------
    Ensemble
        All networks of the run.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 5)
    >>> network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
    >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
    >>> with tempfile.TemporaryDirectory() as path:
    ...     options = {"burn_in": 50, "path": path, "progress": False}
    ...     ensemble = tb.sample(posterior, chains=2, draws=20, **options)
    ...     longer = tb.resume(path, draws=30, progress=False)
    >>> ensemble, longer
    (Ensemble(40 networks: 2 chains of 20 draws), Ensemble(60 networks: 2 chains of 30 draws))
    """
    check_executor(executor)
    given = {"seed": seed, "chains": chains, "burn_in": burn_in, "thin": thin}
    total = None if draws is None else check_count("draws", draws, least=1)
    reader = DirectoryStore(path)
    check_same(reader, given, sampler, posterior)
    if until is not None or total not in (None, reader.manifest["draws"]):
        check_not_imported(reader)
    elif reader.manifest["status"] == "complete":
        if posterior is None:
            return Ensemble._from_store(reader, custom_objects or {})
        return Ensemble._from_posterior(reader, posterior, sampler)
    store = DirectoryStore.open_to_write(path)
    try:
        check_same(store, given, sampler, posterior)
        run = restore_run(
            store,
            draws=total,
            until=until,
            max_minutes=max_minutes,
            max_gradients=max_gradients,
            posterior=posterior,
            sampler=sampler,
            metrics=metrics,
            validation=validation,
            checkpoint_draws=checkpoint_draws,
            checkpoint_seconds=checkpoint_seconds,
            custom_objects=custom_objects,
        )
        check_sendable(executor, run)
        checkpoints = take_up(run, store)
        with run.recording_errors():
            backend = make_backend(executor, checkpoints)
    except BaseException:
        store.close()
        raise
    run.run(backend, progress=progress)
    return Ensemble._from_posterior(run.store, run.posterior, run.sampler)


def load(
    path: str | os.PathLike[str],
    *,
    custom_objects: Mapping[str, type] | None = None,
    skip_damaged: bool = False,
) -> Ensemble:
    """Read the networks of a run directory, also while the run goes on.

    Parameters
    ----------
    path
        The directory that was given to `sample`.
    custom_objects
        Your own layers, priors, likelihoods and samplers in the run, by class name.
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
    return Ensemble._from_store(
        DirectoryStore(path), custom_objects or {}, skip_damaged=skip_damaged
    )


def _first_checkpoints(
    run: Run, start: Mapping[str, ArrayLike] | Ensemble | None
) -> list[Checkpoint]:
    """Chains before their first transition."""
    values = _start_values(start, run.posterior, run.plan)
    chains = initial_chains(run.posterior, run.sampler, run.plan, values)
    with precision(run.posterior.dtype):
        run.reporting.scores(chains[0], 0)  # so that a bad metric is known at once
        return [first_checkpoint(each, run.sampler) for each in chains]


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
