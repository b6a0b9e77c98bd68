"""What a report is about: a run, its data, the names of its columns, and rows to judge it by."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.measured import MeasuredGaussian
from tensorbnn.report.advice import as_options
from tensorbnn.sampling.api import load
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.tables.encoding import Encoding, noted_table, restore_encoding
from tensorbnn.tables.naming import row_names

# Rows that are diagnosed, and networks and rows that predictions are shown and scored with.
DIAGNOSED_ROWS = 100
MOST_NETWORKS = 4000
MOST_ROWS = 1000


class Points(NamedTuple):
    """Inputs at which a run is diagnosed."""

    x: NDArray[Any]
    names: list[str]
    """What the user calls each."""
    places: NDArray[Any] | None = None
    """Which training rows they are, from 0, where they are any."""


class Judged(NamedTuple):
    """Rows whose targets are known."""

    x: NDArray[Any]
    y: NDArray[Any]
    """As `Ensemble.score` takes it: without weights, with measured standard deviations."""
    name: str
    """What they are, in words."""
    unseen: bool | None
    """Whether the networks were not fitted to them; ``None`` where only the user knows."""
    numbers: NDArray[Any] | None = None
    """The number of each in the user's table, from 1, where they come from one."""


class Subject(NamedTuple):
    """All that the sections of a report look at."""

    path: Path
    manifest: dict[str, Any]
    ensemble: Ensemble
    data: dict[str, NDArray[Any]] | None
    """Of the run, with targets alone in ``y``, and in ``y_sd`` their standard deviations if any."""
    encoding: Encoding | None
    judged: Judged | None
    points: Points
    diagnosis: Diagnosis
    progress: bool

    @property
    def every(self) -> int:
        """So many draws apart are the networks that predictions are shown with."""
        return -(-len(self.ensemble) // MOST_NETWORKS)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each input."""
        if self.encoding is not None:
            return self.encoding.columns
        return tuple(f"x{number}" for number in range(self.ensemble.network.inputs))

    @property
    def targets(self) -> tuple[str, ...]:
        """A name for each target."""
        if self.encoding is not None:
            return self.encoding.targets
        known = self.true if self.judged is not None else (self.data or {}).get("y")
        columns = 1 if known is None else known.shape[1]
        return ("y",) if columns == 1 else tuple(f"y{number}" for number in range(columns))

    @property
    def outputs(self) -> tuple[str, ...]:
        """A name for each column of predictions: of its target, or of its class."""
        classes = None if self.encoding is None else self.encoding.classes
        names = self.targets if classes is None else classes
        count = self.ensemble.likelihood.columns(self.ensemble.network.outputs)
        if classes is not None and count == 1:  # the probability of the second of two
            return classes[1:]
        return names if len(names) == count else tuple(f"output {each}" for each in range(count))

    @property
    def target_sds(self) -> tuple[str, ...]:
        """A name for the measured standard deviations of each target."""
        if self.encoding is not None and self.encoding.target_sds:
            return self.encoding.target_sds
        return tuple(f"{name} sd" for name in self.targets)

    @property
    def true(self) -> NDArray[Any] | None:
        """Targets of the rows to judge by, alone."""
        if self.judged is None:
            return None
        ensemble = self.ensemble
        return ensemble.likelihood.plain.observed(self.judged.y, ensemble.network.outputs)

    @property
    def true_sd(self) -> NDArray[Any] | None:
        """Measured standard deviations of `true`, where there are any."""
        if self.judged is None:
            return None
        return _deviations(self.judged.y, self.ensemble)

    @property
    def worst_row(self) -> int:
        """The row that is diagnosed where chains agree least."""
        rhat = np.nan_to_num(self.diagnosis.rhat, nan=np.inf).max(axis=1)
        return int(np.argmax(rhat))


def read_subject(path: Path, judged: Judged | None, *, progress: bool) -> Subject:
    """A run to report on; `judged` are rows of the user's, if there are any."""
    store, ensemble = DirectoryStore(path), load(path)
    kept = store.data()
    table = noted_table(store.manifest["notes"])
    if judged is None:
        judged = _own_rows(kept, ensemble.likelihood)
    data = _targets_alone(kept, ensemble)
    points = _points(judged, data, store.manifest)
    if points is None:
        raise ValueError(
            f"{path} keeps no data to look at its predictions by: give a table with --data"
        )
    diagnosis = ensemble.diagnose(points.x, names=points.names, progress=progress)
    if isinstance(store.manifest["notes"].get("command"), str):  # made by `fit`
        diagnosis = dataclasses.replace(diagnosis, verdict=as_options(diagnosis.verdict))
    return Subject(
        path=path,
        manifest=store.manifest,
        ensemble=ensemble,
        data=data,
        encoding=None if table is None else restore_encoding(table),
        judged=judged,
        points=points,
        diagnosis=diagnosis,
        progress=progress,
    )


def training_points(manifest: Mapping[str, Any], x: NDArray[Any]) -> Points:
    """Training inputs at which a run is diagnosed, spread evenly over all."""
    table = noted_table(manifest["notes"])
    rows, places = spread(x, DIAGNOSED_ROWS), spread(np.arange(len(x)), DIAGNOSED_ROWS)
    if table is None:
        return Points(rows, row_names(rows, None), places)
    names = row_names(rows, restore_encoding(table), table.get("diagnosed"))
    return Points(rows, names, places)


def _points(
    judged: Judged | None, data: dict[str, NDArray[Any]] | None, manifest: Mapping[str, Any]
) -> Points | None:
    """Where to diagnose: at training rows, or where the run keeps none at those of the user."""
    if data is not None:
        return training_points(manifest, data["x"])
    if judged is None:
        return None
    table = noted_table(manifest["notes"])
    encoding = None if table is None else restore_encoding(table)
    rows, numbers = spread(judged.x, DIAGNOSED_ROWS), judged.numbers
    own = None if numbers is None else spread(numbers, DIAGNOSED_ROWS).tolist()
    return Points(rows, row_names(rows, encoding, own))


def _targets_alone(
    data: dict[str, NDArray[Any]] | None, ensemble: Ensemble
) -> dict[str, NDArray[Any]] | None:
    """Targets apart from weights of rows and from measured standard deviations."""
    if data is None:
        return None
    observed, outputs = ensemble.likelihood.observed, ensemble.network.outputs
    alone = data | {name: observed(data[name], outputs) for name in data if name.endswith("y")}
    sds = _deviations(ensemble.likelihood.unweighted(data["y"]), ensemble)
    return alone if sds is None else alone | {"y_sd": sds}


def _deviations(y: NDArray[Any], ensemble: Ensemble) -> NDArray[Any] | None:
    """Standard deviations ``(rows, outputs)`` of measured targets."""
    likelihood, outputs = ensemble.likelihood.plain, ensemble.network.outputs
    if not isinstance(likelihood, MeasuredGaussian):
        return None
    return likelihood.targets(y, outputs)[:, outputs:]


def _own_rows(data: dict[str, NDArray[Any]] | None, likelihood: Likelihood) -> Judged | None:
    if data is None:
        return None
    held_out = "validation_x" in data
    x, y = ("validation_x", "validation_y") if held_out else ("x", "y")
    name = "held-out rows" if held_out else "training rows"
    return _some(data[x], likelihood.unweighted(data[y]), name, unseen=held_out)


def _some(x: NDArray[Any], y: NDArray[Any], name: str, *, unseen: bool) -> Judged:
    some, targets = spread(x, MOST_ROWS), spread(y, MOST_ROWS)
    shown = (
        f"{len(some):,} {name}" if len(some) == len(x) else f"{len(some):,} of {len(x):,} {name}"
    )
    return Judged(some, targets, shown, unseen)


def spread(rows: NDArray[Any], most: int) -> NDArray[Any]:
    """At most so many rows, evenly over all."""
    return np.asarray(rows[:: -(-len(rows) // most)])
