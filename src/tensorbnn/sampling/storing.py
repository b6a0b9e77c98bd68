"""Where a new run goes: a directory with all that says what it is, or memory."""

import dataclasses
import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tensorbnn.data import pack_dataset
from tensorbnn.engine import choice
from tensorbnn.ensemble.metrics import describe_metrics
from tensorbnn.sampling.checkpoint import Checkpoint, pack_checkpoint
from tensorbnn.sampling.recipe import Recipe, fingerprint, versions
from tensorbnn.sampling.stopping import Goal
from tensorbnn.storage.description import describe
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import FORMAT
from tensorbnn.storage.store import MemoryStore, Store


def make_store(
    recipe: Recipe,
    goal: Goal,
    checkpoints: Sequence[Checkpoint],
    path: str | os.PathLike[str] | None,
    *,
    store_data: bool,
    notes: Mapping[str, Any],
    overwrite: bool,
) -> Store:
    """Where the run goes: a directory, or memory without `path`."""
    if path is None:
        own = pack_dataset(recipe.posterior.dataset)
        return MemoryStore(_short_manifest(recipe), own or None)
    states = [state for each in checkpoints for state in pack_checkpoint(each)]
    data = _all_data(recipe) if store_data else None
    manifest = _manifest(recipe, goal, notes)
    return DirectoryStore.create(path, manifest, data, states, overwrite=overwrite)


def _all_data(recipe: Recipe) -> dict[str, NDArray[Any]] | None:
    """The data of training and of validation; ``None`` for the prior."""
    validation = recipe.reporting.rows.get("validation")
    return pack_dataset(recipe.posterior.dataset) | pack_dataset(validation, "validation_") or None


def _short_manifest(recipe: Recipe) -> dict[str, Any]:
    """What an ensemble asks of a run whose posterior is at hand."""
    return {
        "chains": recipe.plan.chains,
        "status": "running",
        "sampler": {"type": type(recipe.sampler).__name__},
        "sample_hyperparameters": recipe.plan.sample_hyperparameters,
    }


def _manifest(recipe: Recipe, goal: Goal, notes: Mapping[str, Any]) -> dict[str, Any]:
    """What was run, for ``run.json``."""
    posterior, reporting = recipe.posterior, recipe.reporting
    return {
        "format": FORMAT,
        **versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": "running",
        "network": describe(posterior.network),
        "likelihood": describe(posterior.likelihood),
        "dtype": posterior.dtype,
        "engine": posterior.engine,
        "instruction_set": choice.instruction_set(posterior.engine),
        "data": fingerprint(posterior),
        "scaling": describe(posterior.scaling),
        "sampler": describe(recipe.sampler),
        **dataclasses.asdict(recipe.plan),
        "until": describe(goal.until),
        "max_minutes": goal.max_minutes,
        "metrics": describe_metrics(reporting.metrics),
        "report_every": reporting.every,
        "notes": notes,
    }
