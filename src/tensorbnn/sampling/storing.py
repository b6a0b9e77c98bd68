"""Where a new run goes: a directory with all that says what it is, or memory."""

import dataclasses
import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tensorbnn.engine import choice
from tensorbnn.ensemble.metrics import describe_metrics
from tensorbnn.posterior import Posterior
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
        return MemoryStore(_short_manifest(recipe), _training_data(recipe.posterior))
    states = [state for each in checkpoints for state in pack_checkpoint(each)]
    data = _all_data(recipe) if store_data else None
    manifest = _manifest(recipe, goal, notes)
    return DirectoryStore.create(path, manifest, data, states, overwrite=overwrite)


def _training_data(posterior: Posterior) -> dict[str, NDArray[Any]] | None:
    if posterior.x is None or posterior.y is None:
        return None
    return {"x": posterior.x, "y": posterior.y}


def _all_data(recipe: Recipe) -> dict[str, NDArray[Any]] | None:
    """The data of training and of validation; ``None`` for the prior."""
    data = _training_data(recipe.posterior)
    if data is not None and "validation" in recipe.reporting.rows:
        rows = recipe.reporting.rows["validation"]
        data |= {"validation_x": rows.x, "validation_y": rows.y}
    return data


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
