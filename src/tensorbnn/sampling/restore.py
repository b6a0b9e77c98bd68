"""A run to disk and back: ``run.json`` from a run, and a run from ``run.json``.

A run continues as it began. What ``run.json`` can't hold (your own metrics, data that are not kept)
must be given again, and is compared as far as possible.
"""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from tensorbnn.data import ARRAYS, Dataset, fingerprint, pack_dataset, unpack_dataset
from tensorbnn.engine import native
from tensorbnn.ensemble.metrics import Metric, describe_metrics, named_metrics, restore_metrics
from tensorbnn.errors import (
    DamagedFileError,
    DescriptionError,
    FewerDrawsError,
    RunError,
    RunMismatchError,
)
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior, check_posterior, precision
from tensorbnn.sampling.checkpoint import Checkpoint, pack_checkpoint, read_checkpoint
from tensorbnn.sampling.converged import Converged
from tensorbnn.sampling.plan import CHECKPOINT_SECONDS, Plan
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.run import Run
from tensorbnn.sampling.stopping import StoppingRule, Until
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import FORMAT, Arrays
from tensorbnn.storage.manifest import describe, restore, restore_model
from tensorbnn.storage.store import MemoryStore, Store
from tensorbnn.warning import DamageWarning, MetricsLost, OtherVersion, warn

Custom = Mapping[str, type]


def create_store(
    run: Run,
    checkpoints: Sequence[Checkpoint],
    path: str | os.PathLike[str] | None,
    *,
    store_data: bool,
    notes: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Create the store of a new run: a directory that describes it, or memory."""
    posterior = run.posterior
    data = pack_dataset(posterior.data)
    states = [state for each in checkpoints for state in pack_checkpoint(each)]
    if path is None:
        # The fields that an ensemble needs if it has the posterior.
        manifest = {
            "chains": run.plan.chains,
            "burn_in": run.plan.burn_in,
            "networks_per_file": run.plan.networks_per_file,
            "status": "running",
            "sampler": {"type": type(run.sampler).__name__},
            "sample_hyperparameters": run.plan.sample_hyperparameters,
            "output_shape": list(posterior.output_shape),
        }
        run.store = store = MemoryStore(manifest, data or None)
        store.run = run
        for chain, state in enumerate(states):
            store.write_state(chain, state)
        return
    run.store = _create_directory(
        run, states, path, store_data=store_data, notes=notes, overwrite=overwrite
    )


def save_run(run: Run, path: Path, *, overwrite: bool) -> None:
    """Copy a run in memory to a new run directory."""
    states = [run.store.read_state(chain) for chain in range(run.plan.chains)]
    saved = _create_directory(run, states, path, store_data=True, notes={}, overwrite=overwrite)
    with contextlib.closing(saved):
        for chain in range(run.plan.chains):
            for index in run.store.chunk_sizes(chain):
                saved.write_chunk(chain, index, run.store.read_chunk(chain, index, ""))
        saved.replace_reports(run.store.reports())
        saved.update(status=run.store.manifest["status"])


def _create_directory(
    run: Run,
    states: Sequence[Arrays],
    path: str | os.PathLike[str],
    *,
    store_data: bool,
    notes: Mapping[str, Any],
    overwrite: bool,
) -> DirectoryStore:
    """A run directory with the description of a run."""
    data = pack_dataset(run.posterior.data)
    manifest = new_manifest(run.posterior, describe(run.sampler), run.plan) | {
        "until": describe(run.rule.until),
        "max_minutes": run.rule.max_minutes,
        "max_gradients": run.rule.max_gradients,
        "metrics": describe_metrics(run.reporting.metrics),
        "report_every": run.reporting.every,
        "notes": notes,
    }
    if data and "validation" in run.reporting.rows:
        data |= pack_dataset(run.reporting.rows["validation"], "validation_")
    kept = data if data and store_data else None
    return DirectoryStore.create(path, manifest, kept, states, overwrite=overwrite)


def new_manifest(posterior: Posterior, sampler: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The fields of ``run.json`` at the start of any run."""
    return {
        "format": FORMAT,
        **versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": "running",
        **_described(posterior),
        "instruction_set": native.instruction_set(posterior.engine),
        "sampler": sampler,
        **dataclasses.asdict(plan),
        **{"until": None, "max_minutes": None, "max_gradients": None},
        **{"metrics": {}, "report_every": 1, "notes": {}},
    }


def restore_run(
    store: DirectoryStore,
    *,
    draws: int | None = None,
    until: Until | Literal["converged"] | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    posterior: Posterior | None = None,
    metrics: Sequence[Metric] | None = None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    custom_objects: Custom | None = None,
) -> Run:
    """A run on disk, from its files and what they don't contain; nothing is written."""
    manifest, custom_objects = store.manifest, custom_objects or {}
    plan = Plan(**{field.name: manifest[field.name] for field in dataclasses.fields(Plan)})
    plan = plan if draws is None else dataclasses.replace(plan, draws=draws)
    posterior = restore_posterior(store, custom_objects) if posterior is None else posterior
    rule = StoppingRule.checked(
        restore_until(store, custom_objects) if until is None else until,
        manifest["max_minutes"] if max_minutes is None else max_minutes,
        manifest["max_gradients"] if max_gradients is None else max_gradients,
        posterior,
        plan,
    )
    run = Run(
        posterior,
        restore(manifest["sampler"], custom_objects, Sampler),
        plan,
        rule,
        _restore_reporting(store, posterior, metrics, validation),
        checkpoint_seconds,
        diagnoses=int("table" in manifest["notes"]),  # as the command line does after a run
    )
    run.store = store
    return run


def continue_run(
    before: Run,
    *,
    draws: int | None = None,
    until: Until | Literal["converged"] | None = None,
    max_minutes: float | None = None,
    max_gradients: float | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Run:
    """A run that continues one in memory, in a copy of its store."""
    plan = before.plan if draws is None else dataclasses.replace(before.plan, draws=draws)
    rule = StoppingRule.checked(
        before.rule.until if until is None else until,
        before.rule.max_minutes if max_minutes is None else max_minutes,
        before.rule.max_gradients if max_gradients is None else max_gradients,
        before.posterior,
        plan,
    )
    parts = (before.posterior, before.sampler, plan, rule, before.reporting)
    run = Run(*parts, checkpoint_seconds)
    if isinstance(before.store, MemoryStore):
        run.store = copy = before.store.copy()
        copy.run = run
    return run


def take_up(run: Run) -> list[Checkpoint]:
    """The states of the chains of a run, which is then marked as running."""
    store, plan = run.store, run.plan
    checkpoints = read_checkpoints(run, store, range(plan.chains))
    drawn = max(plan.drawn(at.transitions) for at in checkpoints)
    if plan.draws < drawn:
        raise FewerDrawsError(plan.draws, drawn, run.path)
    with precision(run.posterior.dtype):
        run.reporting.scores(checkpoints[0].chains, checkpoints[0].transitions)
    if isinstance(store, DirectoryStore):
        _warn_about_run(run, store)
    # First the new length: readers don't look for a last report that is trimmed.
    store.update(
        draws=plan.draws,
        max_gradients=run.rule.max_gradients,
        until=describe(run.rule.until) if run.path is not None else None,
        max_minutes=run.rule.max_minutes,
        status="running",
    )
    reached = {chain: at.transitions for at in checkpoints for chain in at.chains.numbers}
    with run.recording_errors():
        run.trim_reports(reached)
    return checkpoints


def _warn_about_run(run: Run, store: DirectoryStore) -> None:
    """Warn if draws may differ in their last bits, or if some can't be read."""
    _warn_of_versions(run, store)
    try:  # full files are not needed to continue, but warn now, not at the end
        for chain in range(run.plan.chains):
            store.chunk_sizes(chain)
    except RunError as error:
        warn(DamageWarning(error))


def read_checkpoints(run: Run, store: Store, chains: Sequence[int]) -> list[Checkpoint]:
    """The states of these chains of a run.

    Running a chain again from its state writes the same files, and does nothing for one that is
    complete.
    """
    parts = (run.posterior, run.sampler, run.plan)
    with precision(run.posterior.dtype):
        return [read_checkpoint(store, chain, *parts) for chain in chains]


def restore_until(store: DirectoryStore, custom_objects: Custom | None = None) -> Until | None:
    """The stopping rule of a run, if it has one."""
    known = {"Converged": Converged, **(custom_objects or {})}
    found: Until | None = restore(store.manifest["until"], known)
    return found


def restore_posterior(store: DirectoryStore, custom_objects: Custom) -> Posterior:
    """The posterior of a run that keeps its data."""
    manifest = store.manifest
    network, likelihood, _ = restore_model(manifest, custom_objects)
    _check_size(store, network)
    data = store.data()
    if data is None and manifest["data"] is not None:
        raise ValueError(
            f"the run {store.path} does not keep its data: give them as `posterior`, such as "
            "tb.resume(path, posterior=tb.Posterior(network, likelihood, x, y))"
        )
    return make_posterior(store, network, likelihood, data)


def make_posterior(
    store: DirectoryStore, network: Network, likelihood: Likelihood, data: Arrays | None
) -> Posterior:
    """The posterior of a run on disk with the `data` that it was begun with, or an error."""
    manifest, known = store.manifest, data or {}
    options: dict[str, Any] = {name: known[name] for name in ARRAYS if name in known}
    options |= {
        "dtype": manifest["dtype"],
        "engine": manifest["engine"],
        "standardize": restore(manifest["scaling"], {}, Scaling),
    }
    _check_engine(manifest, network, likelihood)
    try:
        posterior = Posterior(network, likelihood, **options)
    except (TypeError, ValueError) as error:
        raise DescriptionError(f"the run {store.path} describes no posterior: {error}") from error
    if fingerprint(posterior.data) != manifest["data"]:
        raise RunError(
            f"{store.path / 'data.safetensors'} does not hold the data of this run; its draws stay "
            "readable by tb.load"
        )
    return posterior


def check_same(store: DirectoryStore, posterior: Posterior | None) -> None:
    """Raise if the given posterior is not that of the run."""
    if posterior is None:
        return
    check_posterior(posterior)
    for name, value in _described(posterior).items():
        if value != store.manifest[name]:
            raise RunMismatchError(store.path, name, store.manifest[name], value)


def check_not_imported(store: DirectoryStore) -> None:
    """Raise if a run was made by another program, which keeps no sampler to continue with."""
    if "imported" in store.manifest:
        raise RunError(
            f"{store.path} was imported from {store.manifest['imported']}, which keeps nothing of "
            "its sampler, and can't be continued: sample anew from where it ended, by "
            "tb.sample(posterior, start=tb.load(path))"
        )


def versions() -> dict[str, str]:
    """Versions on which the bits of a run depend."""
    packages = {"library": "tensorbnn", "jax": "jax", "blackjax": "blackjax"}
    return {name: importlib.metadata.version(package) for name, package in packages.items()}


def _described(posterior: Posterior) -> dict[str, Any]:
    return {
        "network": describe(posterior.network),
        "likelihood": describe(posterior.likelihood),
        "dtype": posterior.dtype,
        "engine": posterior.engine,
        "data": fingerprint(posterior.data),
        "scaling": describe(posterior.scaling),
        "output_shape": list(posterior.output_shape),
    }


def _restore_reporting(
    store: DirectoryStore,
    posterior: Posterior,
    metrics: Sequence[Metric] | None,
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None,
) -> Reporting:
    described, given = store.manifest["metrics"], named_metrics(metrics)
    if unknown := sorted(set(given) - set(described)):
        raise ValueError(
            f"`metrics` has {unknown}, but the run reports {sorted(described)}: give only metrics "
            "of the run"
        )
    known = restore_metrics(described) | given
    if missing := [name for name in described if name not in known]:
        warn(MetricsLost(missing))
    named = {name: known[name] for name in described if name in known}
    if named and validation is None:
        data = store.data()
        validation = unpack_dataset(data, "validation_")
        if data is None:
            reports = store.reports(skip_damaged=True)
            if any(name.startswith("validation.") for report in reports for name in report):
                warn(MetricsLost())
    rows = validation if named else None
    return Reporting.checked(posterior, named, rows, store.manifest["report_every"])


def _check_size(store: DirectoryStore, network: Network) -> None:
    """Raise if the networks of a run are larger than its files, before memory is allocated."""
    size = sum(math.prod(parameter.shape) for parameter in network.parameters.values())
    position = store.read_state(0).get("state/position")
    if position is not None and position.size < size:  # one without is refused later
        raise DamagedFileError(
            store.path / "run.json",
            f"describes a network of {size:,} parameters, but chain 0 has saved {position.size:,}",
        )


def _check_engine(manifest: Mapping[str, Any], network: Network, likelihood: Likelihood) -> None:
    """A run keeps its engine: another one would change the last digits of its draws."""
    problem = native.why_not_native(network, likelihood)
    if manifest["engine"] == "native" and problem is not None:
        raise RunError(
            f"the run was begun with the native engine, which can't be used here: {problem}"
        )
    then, now = manifest["instruction_set"], native.instruction_set(manifest["engine"])
    if then is not None and then != now:
        warn(OtherVersion("instruction set", str(then), str(now)))


def _warn_of_versions(run: Run, store: DirectoryStore) -> None:
    for name, now in versions().items():
        then = store.manifest[name]
        matters = name != "blackjax" or name in type(run.sampler).packages
        if then != now and matters:
            warn(OtherVersion(name, str(then), now))
