"""`resume`: go on with a run from where it was last saved, to the bits it would have had."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from numpy.typing import ArrayLike

from tensorbnn.data import Dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import check_count
from tensorbnn.posterior import Posterior, check_posterior, precision
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.executor import check_executor, check_sendable
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.recipe import BY_BLACKJAX, Recipe, fingerprint, read_checkpoints, versions
from tensorbnn.sampling.restoring import read_recipe, restore_goal
from tensorbnn.sampling.running import carry_out
from tensorbnn.sampling.stopping import Goal
from tensorbnn.sampling.until import trim_reports
from tensorbnn.storage.description import describe
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import RunError
from tensorbnn.warning import warn


def resume(
    path: str | os.PathLike[str],
    *,
    draws: int | None = None,
    until: Converged | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    sampler: Sampler | None = None,
    seed: int | None = None,
    chains: int | None = None,
    burn_in: int | None = None,
    every: int | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    checkpoint_draws: int | None = None,
    checkpoint_seconds: float = 10.0,
    custom: Mapping[str, type] | None = None,
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
        `custom`.
    sampler, seed, chains, burn_in, every
        As in the run, which is where they are taken from if left out.
    metrics
        Metrics of the run that are functions of your own; the library's are known from the run.
    validation
        Data for metrics, where the run does not keep its data.
    checkpoint_draws, checkpoint_seconds
        How often chains are saved, as in `sample`.
    custom
        The user's own layers, priors, likelihoods and samplers in the run, by class name.
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
    if executor is not None:
        check_executor(executor)
    given = {"seed": seed, "chains": chains, "burn_in": burn_in, "every": every}
    total = None if draws is None else check_count("draws", draws, least=1)
    reader = DirectoryStore(path)
    _check_options(reader, given, sampler, posterior)
    goes_on = until is not None or total not in (None, reader.manifest["draws"])
    if goes_on:
        _check_not_imported(reader)
    elif reader.manifest["status"] == "complete":
        if posterior is None:
            return Ensemble._from_store(reader, custom or {})
        return Ensemble._from_posterior(reader, posterior)
    store = DirectoryStore.open_to_write(path)
    try:
        _check_options(store, given, sampler, posterior)
        recipe = read_recipe(
            store,
            draws=total,
            max_gradients=max_gradients,
            posterior=posterior,
            sampler=sampler,
            metrics=metrics,
            validation=validation,
            checkpoint_draws=checkpoint_draws,
            checkpoint_seconds=checkpoint_seconds,
            custom=custom,
        )
        goal = restore_goal(store, recipe, until, max_minutes)
        if executor is not None:
            check_sendable(executor, recipe)
        checkpoints = _take_up(store, recipe, goal)
    except BaseException:
        store.close()
        raise
    return carry_out(recipe, store, checkpoints, goal, progress=progress, executor=executor)


def _take_up(store: DirectoryStore, recipe: Recipe, goal: Goal) -> list[Checkpoint]:
    """Where the chains are; from here on the run is marked as one that goes on."""
    checkpoints = read_checkpoints(store, recipe, range(recipe.plan.chains))
    _check_draws(store, recipe.plan, checkpoints)
    with precision(recipe.posterior.dtype):
        recipe.reporting.check(checkpoints[0].start, checkpoints[0].transitions)
    _warn_of_versions(store)
    _warn_of_damage(store)
    # First how long the run is to be: readers don't look for a last report that is trimmed.
    store.update(
        draws=recipe.plan.draws,
        max_gradients=recipe.plan.max_gradients,
        until=describe(goal.until),
        max_minutes=goal.max_minutes,
        status="running",
    )
    reached = {chain: at.transitions for at in checkpoints for chain in at.start.chains}
    trim_reports(store, recipe, reached)
    return checkpoints


def _check_options(
    store: DirectoryStore,
    given: Mapping[str, int | None],
    sampler: Sampler | None,
    posterior: Posterior | None,
) -> None:
    """Raise where what is given is not what the run was begun with."""
    manifest = store.manifest
    wanted: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
    if sampler is not None:
        wanted["sampler"] = describe(sampler)
    if posterior is not None:
        check_posterior(posterior)
        wanted |= {
            "network": describe(posterior.network),
            "likelihood": describe(posterior.likelihood),
            "dtype": posterior.dtype,
            "engine": posterior.engine,
            "data": fingerprint(posterior),
            "scaling": describe(posterior.scaling),
        }
    for name, value in wanted.items():
        if value != manifest[name]:
            raise ValueError(
                f"the run {store.path} has another `{name}`: {_short(manifest[name])} there, "
                f"{_short(value)} here. A run goes on as it was begun; for another chain start a "
                "new run with tb.sample"
            )


def _check_not_imported(store: DirectoryStore) -> None:
    if "imported" in store.manifest:
        raise RunError(
            f"{store.path} was imported from {store.manifest['imported']}, which keeps nothing of "
            "its sampler, and can't go on: sample anew from where it ended, by "
            "tb.sample(posterior, start=tb.load(path))"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


def _check_draws(store: DirectoryStore, plan: Plan, checkpoints: Sequence[Checkpoint]) -> None:
    drawn = max(plan.drawn(at.transitions) for at in checkpoints)
    if plan.draws < drawn:
        raise ValueError(
            f"`draws` is {plan.draws}, but {store.path} has {drawn} draws of a chain already: "
            f"`draws` counts all of them, give at least {drawn}"
        )


def _warn_of_versions(store: DirectoryStore) -> None:
    for name, now in versions().items():
        then = store.manifest.get(name, now)  # an older run does not say
        matters = name != "blackjax" or store.manifest["sampler"].get("type") in BY_BLACKJAX
        if then != now and matters:
            warn(
                f"the run was begun with version {then} of {name}, this is {now}: draws from here "
                "on may differ in their last bits from those of an uninterrupted run",
            )


def _warn_of_damage(store: DirectoryStore) -> None:
    """Full files are not needed to go on; better known now than at the end."""
    try:
        for chain in range(store.manifest["chains"]):
            store.chunk_sizes(chain)
    except RunError as error:
        warn(f"the run goes on, but {error}")
