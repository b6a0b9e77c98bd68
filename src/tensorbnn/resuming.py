"""`resume`: go on with a run from where it was last saved, to the bits it would have had."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from numpy.typing import ArrayLike

from tensorbnn.ensemble.converged import Converged
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.metrics import named_metrics, restore_metrics
from tensorbnn.goal import Goal, check_gradients, make_goal
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import check_count
from tensorbnn.posterior import Posterior, precision
from tensorbnn.runs.checkpoint import Checkpoint
from tensorbnn.runs.description import describe, restore
from tensorbnn.runs.directory import DirectoryStore
from tensorbnn.runs.farm import check_executor, check_sendable
from tensorbnn.runs.files import RunError
from tensorbnn.runs.recipe import (
    BY_BLACKJAX,
    Recipe,
    fingerprint,
    make_pace,
    make_posterior,
    make_reporting,
    read_checkpoints,
    validation_rows,
    versions,
)
from tensorbnn.runs.report import Metric, Reporting
from tensorbnn.runs.start import Plan
from tensorbnn.sampling import carry_out
from tensorbnn.until import trim_reports
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
    validation: tuple[ArrayLike, ArrayLike] | None = None,
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
    complete = reader.manifest["status"] == "complete"
    goes_on = until is not None or total not in (None, reader.manifest["draws"])
    if "imported" in reader.manifest and goes_on:
        raise RunError(
            f"{path} was imported from {reader.manifest['imported']}, which keeps nothing of its "
            "sampler, and can't go on: sample anew from where it ended, by "
            "tb.sample(posterior, start=tb.load(path))"
        )
    if complete and not goes_on:
        if posterior is None:
            return Ensemble.from_store(reader, custom or {})
        return Ensemble.of(reader, posterior)
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
        goal = _restore_goal(store, recipe, until, max_minutes)
        if executor is not None:
            check_sendable(executor, recipe)
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
    except BaseException:
        store.close()
        raise
    return carry_out(recipe, store, checkpoints, goal, progress=progress, executor=executor)


def read_recipe(
    store: DirectoryStore,
    *,
    draws: int | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    sampler: Sampler | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    checkpoint_draws: int | None = None,
    checkpoint_seconds: float = 10.0,
    custom: Mapping[str, type] | None = None,
) -> Recipe:
    """What the chains of a run on disk do, from what the run says and what it can't."""
    manifest = store.manifest
    plan = Plan(**{name: manifest[name] for name in Plan.__dataclass_fields__ if name in manifest})
    plan = plan if draws is None else plan.with_draws(draws)
    if max_gradients is not None:
        plan = dataclasses.replace(plan, max_gradients=check_gradients(max_gradients))
    if posterior is None:
        posterior = _restore_posterior(store, custom or {})
    if sampler is None:
        sampler = restore(manifest["sampler"], custom or {})
    return Recipe(
        posterior,
        sampler,
        plan,
        _restore_reporting(store, posterior, metrics, validation),
        make_pace(plan, checkpoint_draws, checkpoint_seconds),
    )


def restore_until(store: DirectoryStore) -> Converged | None:
    """What the predictions of a run were to reach, if anything."""
    described = store.manifest["until"]
    found: Converged | None = restore(described, {"Converged": Converged})
    return found


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
        if not isinstance(posterior, Posterior):
            raise TypeError(f"`posterior` must be a tb.Posterior, got {posterior!r}")
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


def _check_draws(store: DirectoryStore, plan: Plan, checkpoints: Sequence[Checkpoint]) -> None:
    drawn = max(max(at.transitions - plan.burn_in, 0) // plan.every for at in checkpoints)
    if plan.draws < drawn:
        raise ValueError(
            f"`draws` is {plan.draws}, but {store.path} has {drawn} draws of a chain already: "
            f"`draws` counts all of them, give at least {drawn}"
        )


def _restore_goal(
    store: DirectoryStore, recipe: Recipe, until: Converged | None, max_minutes: float | None
) -> Goal:
    """When the run is to end: as is said now, or was when it began."""
    until = restore_until(store) if until is None else until
    if max_minutes is None:
        max_minutes = store.manifest["max_minutes"]
    return make_goal(until, max_minutes, recipe.posterior, recipe.plan)


def _restore_posterior(store: DirectoryStore, custom: Mapping[str, type]) -> Posterior:
    manifest = store.manifest
    network, likelihood = restore([manifest["network"], manifest["likelihood"]], custom)
    data = store.data()
    if data is None and manifest["data"] is not None:
        raise ValueError(
            f"the run {store.path} does not keep its data: give them as `posterior`, such as "
            "tb.resume(path, posterior=tb.Posterior(network, likelihood, x, y))"
        )
    return make_posterior(store, network, likelihood, data)


def _restore_reporting(
    store: DirectoryStore,
    posterior: Posterior,
    metrics: Sequence[Metric] | None,
    validation: tuple[ArrayLike, ArrayLike] | None,
) -> Reporting:
    described, given = store.manifest["metrics"], named_metrics(metrics)
    unknown = sorted(set(given) - set(described))
    if unknown:
        raise ValueError(
            f"`metrics` has {unknown}, but the run reports {sorted(described)}: a run goes on with "
            "its own metrics"
        )
    known = restore_metrics(described) | given
    missing = [name for name in described if name not in known]
    if missing:
        warn(
            f"the metrics {missing} are functions of your own and no longer reported: give them "
            "again with `metrics`",
        )
    named = {name: known[name] for name in described if name in known}
    if validation is None:
        validation = validation_rows(store.data())
    return make_reporting(
        posterior, named, validation if named else None, store.manifest["report_every"]
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
