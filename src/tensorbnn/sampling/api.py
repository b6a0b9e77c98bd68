"""`sample`, `resume` and `load`: from a posterior, or from a run on disk, to an ensemble."""

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from numpy.typing import ArrayLike

from tensorbnn.checks import check_classes, check_count, check_path, check_positive
from tensorbnn.data import Dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Metric, named_metrics
from tensorbnn.errors import RunError
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.sampler import MAX_SEED, MAX_TRANSITIONS, Sampler, check_sampler
from tensorbnn.posterior import Posterior, check_posterior, precision, warn_of_data
from tensorbnn.sampling.checkpoint import Checkpoint, first_checkpoint
from tensorbnn.sampling.executor import check_executor, check_sendable, make_backend
from tensorbnn.sampling.plan import (
    CHECKPOINT_SECONDS,
    NETWORKS_PER_FILE,
    Plan,
    initial_chains,
)
from tensorbnn.sampling.reporting import REPORT_EVERY, Reporting
from tensorbnn.sampling.restore import (
    check_not_imported,
    check_same,
    continue_run,
    create_store,
    restore_run,
    take_up,
)
from tensorbnn.sampling.run import Backend, Run
from tensorbnn.sampling.stopping import StoppingRule, Until
from tensorbnn.storage.creation import check_free
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import check_notes
from tensorbnn.storage.store import MemoryStore, Store

_Start = Mapping[str, ArrayLike] | Ensemble | None


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
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    seed: int = 0,
    sample_hyperparameters: bool = True,
    store_data: bool = True,
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
        or with the chains as first axis. All others start as the layers define: weights and biases
        with Gaussian He initialization, drawn separately for each chain. An `Ensemble` starts the
        chains at its last draws: use it to sample a similar model.
    chains
        Number of independent chains; they run in parallel on the cores of the machine.
    burn_in
        Transitions at the start of each chain that are not saved. All adaptation ends with them.
    draws
        Networks to save from each chain; with `until`, at least.
    until
        When to stop: ``"converged"`` or a `Converged` with your own numbers extends the chains
        until their predictions agree and are precise enough. Or your own stopping rule, an object
        with ``estimate(ensemble)``.
    max_minutes
        Stop after this many minutes.
    max_gradients
        Stop a chain when it has spent this many gradients, burn-in included. After a limit you get
        the networks that all chains have, and a warning that says what is missing.
    thin
        Save every `thin`-th network.
    path
        Directory to save the run in. Networks are written as they are drawn; `load` reads them at
        any time, and `resume` continues the run. By default the run is kept in memory.
    checkpoint_seconds
        Each chain saves its draws and its state at least this often, also in burn-in: you lose no
        more than that if the run is killed.
    metrics
        What to report of the networks while the chains run: `MeanSquaredError`,
        `MeanAbsolutePercentageError`, `Accuracy`, or your own functions
        ``(predictions, targets) -> float``. Predictions are the expected targets of one network, in
        the shape of `y`. Each chain reports every 100 transitions and at its end, in
        `Ensemble.reports` and in ``metrics.jsonl`` of the run directory.
    validation
        Data ``(x, y)`` on which metrics are reported too. They don't change the draws.
    seed
        The same seed gives the same bits, whatever the number of cores.
    sample_hyperparameters
        Whether to sample the hyper-parameters. If false, they are fixed at their starting values.
    store_data
        Whether the run directory keeps the data.
    overwrite
        Whether to replace a run that is already at `path`.
    progress
        Show a progress bar and, on a terminal, a line for each chain.
    executor
        Runs the chains instead of this process, each as a task that writes to `path`: a
        ``ProcessPoolExecutor`` (not one that forks), ``client.get_executor()`` of a Dask client, or
        any other ``concurrent.futures.Executor``. All workers must see `path`. If a worker dies,
        another one continues its chain.

    Returns
    -------
    Ensemble
        The sampled networks. Ctrl-C stops the chains: a run at `path` is saved, and a message says
        how to resume it; for a run in memory you get the networks that all chains have.

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
    options = locals()
    del options["progress"]
    run, backend = begin_run(**options)
    return run.run(backend, progress=progress)


def begin_run(
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
    networks_per_file: int = NETWORKS_PER_FILE,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    report_every: int = REPORT_EVERY,
    seed: int = 0,
    sample_hyperparameters: bool = True,
    store_data: bool = True,
    notes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    diagnoses: int = 0,
) -> tuple[Run, Backend]:
    """A run by the options of `sample`, and where its chains will run.

    Other parts of the library also set the draws of a chain in a file, the transitions between two
    reports, `notes` for ``run.json`` (texts, numbers, lists and dicts), and how many diagnoses
    after the run should also end within `max_minutes`.
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
        _check_checkpoint_seconds(checkpoint_seconds),
        diagnoses,
    )
    if path is not None:
        check_free(check_path("path", path), overwrite=overwrite)
    notes = check_notes(notes)
    warn_of_data(posterior)
    checkpoints = _first_checkpoints(run, start)
    check_sendable(executor, run)
    create_store(run, checkpoints, path, overwrite=overwrite, store_data=store_data, notes=notes)
    return run, make_backend(executor, checkpoints)


def resume(
    run: str | os.PathLike[str] | Ensemble,
    *,
    draws: int | None = None,
    until: Until | Literal["converged"] | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    custom_objects: Mapping[str, type] | None = None,
    progress: bool = True,
    executor: Executor | None = None,
) -> Ensemble:
    """Continue a run that was stopped or killed, or extend a complete one.

    Every chain continues from where it was last saved, with the model, data, sampler, seed and
    burn-in of the run. The result is bit-identical to an uninterrupted run.

    Parameters
    ----------
    run
        The directory that you gave to `sample`, or the ensemble of a run in memory, which keeps its
        own draws: you get a new one.
    draws
        Total number of networks to save from each chain; by default as many as before. With
        `until`, at least.
    until, max_minutes, max_gradients
        When to stop, as in `sample`; by default as before. Minutes count from this call, gradients
        from the start of the run; ``math.inf`` removes a limit.
    posterior
        The posterior of the run: needed only if the run directory does not keep its data, or
        instead of `custom_objects`.
    metrics
        Your own functions among the metrics of a run directory; the others are known.
    validation
        Data for the metrics, if the run directory does not keep them.
    checkpoint_seconds
        How often chains are saved, as in `sample`.
    custom_objects
        Your own layers, priors, likelihoods, samplers and stopping rules in the run directory, by
        class name.
    progress
        Show a progress bar.
    executor
        Runs the chains of a run directory instead of this process, as in `sample`.

    Returns
    -------
    Ensemble
        All networks of the run.

    Examples
    --------
    >>> import tensorbnn as tb
    >>> prior = tb.Posterior(tb.Network(tb.Dense(2), inputs=1), tb.Gaussian(sd=0.1))
    >>> ensemble = tb.sample(prior, chains=2, burn_in=20, draws=20, progress=False)
    >>> tb.resume(ensemble, draws=30, progress=False)
    Ensemble(60 networks: 2 chains of 30 draws)
    """
    check_executor(executor)
    limits: dict[str, Any] = {
        "draws": None if draws is None else check_count("draws", draws, least=1),
        **{"until": until, "max_minutes": max_minutes, "max_gradients": max_gradients},
        "checkpoint_seconds": _check_checkpoint_seconds(checkpoint_seconds),
    }
    known: dict[str, Any] = {"posterior": posterior, "metrics": metrics, "validation": validation}
    check_classes("custom_objects", custom_objects)
    known |= {"custom_objects": custom_objects}
    place = run._whole_store("resume") if isinstance(run, Ensemble) else run
    if isinstance(place, Store) and not isinstance(place, DirectoryStore):
        given = known | {"executor": executor}
        _check_left_out(*(name for name, value in given.items() if value is not None))
        return _resume_memory(place, limits, progress=progress)
    path = place.path if isinstance(place, DirectoryStore) else check_path("run", place)
    reader = DirectoryStore(path)
    check_same(reader, posterior)
    if until is not None or limits["draws"] not in (None, reader.manifest["draws"]):
        check_not_imported(reader)
    elif reader.manifest["status"] == "complete":
        if posterior is None:
            return Ensemble._from_store(reader, custom_objects or {})
        return Ensemble._from_posterior(reader, posterior)
    store = DirectoryStore.open_to_write(path)
    try:
        check_same(store, posterior)
        continued = restore_run(store, **limits, **known)
        check_sendable(executor, continued)
        checkpoints = take_up(continued)
    except BaseException:
        store.close()
        raise
    return continued.run(make_backend(executor, checkpoints), progress=progress)


def _resume_memory(store: Store, limits: dict[str, Any], *, progress: bool) -> Ensemble:
    before = store.run if isinstance(store, MemoryStore) else None
    if not isinstance(before, Run):
        raise RunError(
            "this ensemble has no state from which its chains could continue: use the one that "
            "tb.sample returned, or sample again with tb.sample(posterior, start=ensemble)"
        )
    is_complete = before.store.manifest["status"] == "complete"
    if is_complete and limits["until"] is None and limits["draws"] in (None, before.plan.draws):
        return Ensemble._from_posterior(before.store, before.posterior, before.sampler)
    run = continue_run(before, **limits)
    return run.run(make_backend(None, take_up(run)), progress=progress)


def _check_left_out(*given: str) -> None:
    if given:
        raise ValueError(
            f"`{given[0]}` is for a run directory: leave it out for an ensemble in memory, which "
            "continues with its own posterior and metrics in this process"
        )


def _check_checkpoint_seconds(seconds: float) -> float:
    return math.inf if seconds == math.inf else check_positive("checkpoint_seconds", seconds)


def load(
    path: str | os.PathLike[str],
    *,
    data: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    custom_objects: Mapping[str, type] | None = None,
    skip_damaged: bool = False,
) -> Ensemble:
    """Read the networks of a run directory, even while it is being written.

    Parameters
    ----------
    path
        The directory that was given to `sample`.
    data
        The training data ``(x, y)``, for a run that did not keep them (``store_data=False``).
    custom_objects
        Your own layers, priors, likelihoods and samplers in the run, by class name.
    skip_damaged
        Leave out damaged files, and those with the same number of other chains, with a warning.

    Returns
    -------
    Ensemble
        The draws that all chains have written so far; `Ensemble.refresh` adds new ones.

    Examples
    --------
    >>> import tempfile
    >>> import tensorbnn as tb
    >>> prior = tb.Posterior(tb.Network(tb.Dense(2), inputs=1), tb.Gaussian(sd=0.1))
    >>> with tempfile.TemporaryDirectory() as path:
    ...     sampled = tb.sample(prior, chains=2, burn_in=20, draws=10, path=path, progress=False)
    ...     print(tb.load(path))
    Ensemble(20 networks: 2 chains of 10 draws)
    """
    custom, path = check_classes("custom_objects", custom_objects), check_path("path", path)
    return Ensemble._from_store(DirectoryStore(path), custom, data=data, skip_damaged=skip_damaged)


def _first_checkpoints(run: Run, start: _Start) -> list[Checkpoint]:
    """Chains before their first transition."""
    values = _start_values(start, run.posterior, run.plan)
    chains = initial_chains(run.posterior, run.sampler, run.plan, values)
    with precision(run.posterior.dtype):
        run.reporting.scores(chains[0], 0)  # so that a bad metric is known at once
        return [first_checkpoint(each, run.sampler) for each in chains]


def _start_values(start: _Start, posterior: Posterior, plan: Plan) -> Mapping[str, ArrayLike]:
    """Starting values by name; from an ensemble, those that the new model has."""
    if not isinstance(start, Ensemble):
        return {} if start is None else start
    parameters, hypers = start._last_draws(plan.chains)
    if not plan.sample_hyperparameters:  # they are fixed at the values in the model
        return parameters
    known = {entry.name for entry in posterior.model.phi.entries}
    return parameters | {name: each for name, each in hypers.items() if name in known}
