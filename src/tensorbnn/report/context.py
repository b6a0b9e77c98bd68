"""What a report is about: a run, its data, the names of its columns, and rows to judge it by."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.messages import PYTHON, Words
from tensorbnn.model.noise import MeasuredGaussian
from tensorbnn.sampling.api import load
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.tables.encoding import Encoding, noted_encoding, noted_table, row_names

# Rows that are diagnosed, and networks and rows that predictions are shown and scored with.
DIAGNOSED_ROWS = 100
MOST_NETWORKS = 4000
MOST_ROWS = 1000


@dataclass(frozen=True)
class ReportContext:
    """All that the sections of a report look at."""

    path: Path
    manifest: Mapping[str, Any]
    ensemble: Ensemble
    data: dict[str, NDArray[Any]] | None
    """Of the run, with targets alone in ``y``, and in ``y_sd`` their standard deviations if any."""
    encoding: Encoding | None
    judged: Dataset
    """Rows whose targets are known, as `Ensemble.score` takes them."""
    judged_name: str
    unseen: bool | None
    """Whether the networks were not fitted to them; ``None`` where only the user knows."""
    points: Dataset
    diagnosis: Diagnosis
    words: Words
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
        columns = self.true.shape[1]
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
    def true(self) -> NDArray[Any]:
        """Targets of the rows to judge by, alone."""
        likelihood, outputs = self.ensemble.likelihood.plain, self.ensemble.network.outputs
        return likelihood.observed(self.judged.targets, outputs)

    @property
    def true_sd(self) -> NDArray[Any] | None:
        """Measured standard deviations of `true`, where there are any."""
        return _deviations(self.judged.targets, self.ensemble)

    @property
    def verdict(self) -> str:
        """In the words of whoever made the run."""
        by_fit = isinstance(self.manifest["notes"].get("command"), str)
        return self.diagnosis.verdict.message(self.words if by_fit else PYTHON)

    @property
    def worst_row(self) -> int:
        """The row that is diagnosed where chains agree least."""
        rhat = np.nan_to_num(self.diagnosis.rhat, nan=np.inf).max(axis=1)
        return int(np.argmax(rhat))


def read_context(
    path: Path,
    judged: Dataset | None = None,
    judged_name: str = "",
    *,
    words: Words = PYTHON,
    progress: bool = True,
) -> ReportContext:
    """A run to report on; `judged` are rows of the user's, if there are any."""
    store, ensemble = DirectoryStore(path), load(path)
    notes, kept = store.manifest["notes"], store.data()
    encoding, unseen = noted_encoding(notes), None
    if judged is None:
        if kept is None:
            raise ValueError(
                f"{path} keeps no data to look at its predictions by: give a table with "
                f"{words.option('data')}"
            )
        unseen = "validation_x" in kept
        kind, own = ("held-out", "validation_") if unseen else ("training", "")
        rows = Dataset(kept[f"{own}x"], ensemble.likelihood.unweighted(kept[f"{own}y"]))
        judged = rows.evenly(MOST_ROWS)
        of = "" if len(judged) == len(rows) else f" of {len(rows):,}"
        judged_name = f"{len(judged):,}{of} {kind} rows"
    data = kept
    if kept is None:
        some = judged.evenly(DIAGNOSED_ROWS)
        points = Dataset(some.x, names=row_names(some.x, encoding, some.rows.tolist()))
    else:
        points = diagnosed_rows(notes, kept["x"])
        # Targets apart from weights of rows and from measured standard deviations.
        observed, outputs = ensemble.likelihood.observed, ensemble.network.outputs
        data = kept | {name: observed(kept[name], outputs) for name in kept if name.endswith("y")}
        sds = _deviations(ensemble.likelihood.unweighted(kept["y"]), ensemble)
        if sds is not None:
            data["y_sd"] = sds
    return ReportContext(
        path=path,
        manifest=store.manifest,
        ensemble=ensemble,
        data=data,
        encoding=encoding,
        judged=judged,
        judged_name=judged_name,
        unseen=unseen,
        points=points,
        diagnosis=ensemble.diagnose(points.x, names=points.names, progress=progress),
        words=words,
        progress=progress,
    )


def diagnosed_rows(notes: Mapping[str, Any], x: NDArray[Any]) -> Dataset:
    """Training inputs at which a run is diagnosed, spread evenly over all."""
    some, numbers = Dataset(x).evenly(DIAGNOSED_ROWS), (noted_table(notes) or {}).get("diagnosed")
    names = row_names(some.x, noted_encoding(notes), numbers)
    return Dataset(some.x, rows=some.rows, names=names)


def _deviations(y: NDArray[Any], ensemble: Ensemble) -> NDArray[Any] | None:
    """Standard deviations ``(rows, outputs)`` of measured targets."""
    likelihood, outputs = ensemble.likelihood.plain, ensemble.network.outputs
    if not isinstance(likelihood, MeasuredGaussian):
        return None
    return likelihood.targets(y, outputs)[:, outputs:]
