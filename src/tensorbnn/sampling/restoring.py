"""What a run on disk is made of: its recipe and its goal, restored from what it says."""

import dataclasses
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from tensorbnn.data import Dataset, unpack_dataset
from tensorbnn.ensemble.metrics import Metric, named_metrics, restore_metrics
from tensorbnn.inference.sampler import Sampler
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.recipe import (
    Recipe,
    make_pace,
    make_posterior,
    make_reporting,
)
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.stopping import Goal, check_gradients, make_goal
from tensorbnn.storage.description import restore
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.warning import warn


def read_recipe(
    store: DirectoryStore,
    *,
    draws: int | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    sampler: Sampler | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
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


def restore_goal(
    store: DirectoryStore, recipe: Recipe, until: Converged | None, max_minutes: float | None
) -> Goal:
    """When the run is to end: as is said now, or was when it began."""
    until = restore_until(store) if until is None else until
    if max_minutes is None:
        max_minutes = store.manifest["max_minutes"]
    return make_goal(until, max_minutes, recipe.posterior, recipe.plan)


def restore_until(store: DirectoryStore) -> Converged | None:
    """What the predictions of a run were to reach, if anything."""
    described = store.manifest["until"]
    found: Converged | None = restore(described, {"Converged": Converged})
    return found


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
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None,
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
        data = store.data()
        validation = unpack_dataset(data, "validation_")
        if named and data is None and _had_validation(store):
            warn(
                "the run does not keep its validation data, on which metrics are no longer "
                "reported: give them again with `validation`",
            )
    return make_reporting(
        posterior, named, validation if named else None, store.manifest["report_every"]
    )


def _had_validation(store: DirectoryStore) -> bool:
    reports = store.reports(skip_damaged=True)
    return any(name.startswith("validation.") for report in reports for name in report)
