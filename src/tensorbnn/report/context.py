"""The subject of a report: a run, its data, the names of columns, and rows for scoring it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tensorbnn.data import Dataset, unpack_dataset
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.messages import PYTHON, Words
from tensorbnn.model.checks import as_rows
from tensorbnn.plots.figure import name_of
from tensorbnn.sampling.api import load
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.tables.encoding import (
    Encoding,
    noted_encoding,
    noted_table,
    row_names,
    unnamed_encoding,
)

# Maximum numbers: of rows to diagnose, and of networks and rows to show predictions for.
DIAGNOSED_ROWS = 100
MOST_NETWORKS = 4000
MOST_ROWS = 1000


@dataclass(frozen=True)
class ReportContext:
    """The data that all sections of a report use."""

    path: Path
    manifest: Mapping[str, Any]
    ensemble: Ensemble
    data: dict[str, NDArray[Any]] | None
    """Training data, with targets and their standard deviations as ``(rows, columns)``."""
    encoding: Encoding
    judged: Dataset
    """Rows with known targets ``(rows, columns)``."""
    judged_name: str
    unseen: bool | None
    """Whether the networks were not fitted to these rows; ``None`` if only the user knows."""
    points: Dataset
    diagnosis: Diagnosis
    words: Words
    progress: bool

    @property
    def thinned(self) -> Ensemble:
        """The networks used to show predictions."""
        return self.ensemble.thin(-(-len(self.ensemble) // MOST_NETWORKS))

    @property
    def outputs(self) -> tuple[str, ...]:
        """A name for each column of predictions: that of its target or its class."""
        classes = self.encoding.classes
        names = self.encoding.targets if classes is None else classes
        count = self.ensemble.likelihood.columns(self.ensemble.network.outputs)
        if classes is not None and count == 1:  # the probability of the second of two
            return classes[1:]
        return names if len(names) == count else tuple(f"output {each}" for each in range(count))

    @property
    def labels(self) -> dict[str, str]:
        """The names of columns, keyed by those that `plots` uses."""
        kinds = {"x": self.encoding.columns, "y": self.outputs}
        return {
            name_of(kind, number, len(names), None): name
            for kind, names in kinds.items()
            for number, name in enumerate(names)
        }


def read_context(
    path: Path,
    judged: Dataset | None = None,
    judged_name: str = "",
    *,
    words: Words = PYTHON,
    progress: bool = True,
) -> ReportContext:
    """Read the run to report on; `judged` are rows from the user for scoring it, if any."""
    store, ensemble = DirectoryStore(path), load(path)
    notes, kept = store.manifest["notes"], store.data()
    unseen = None
    if judged is None:
        if kept is None:
            raise ValueError(
                f"{path} does not contain its data: give a table of rows with targets, by "
                f"{words.option('validation')}"
            )
        unseen = "validation_x" in kept
        kind, own = ("held-out", "validation_") if unseen else ("training", "")
        rows = unpack_dataset(kept, own)
        assert rows is not None
        judged = rows.evenly(MOST_ROWS)
        of = "" if len(judged) == len(rows) else f" of {len(rows):,}"
        judged_name = f"{len(judged):,}{of} {kind} rows"
    judged = Dataset(
        judged.x,
        judged.targets,
        y_sd=None if judged.y_sd is None else as_rows("y_sd", judged.y_sd),
        sample_weight=judged.sample_weight,
        rows=judged.rows,
    )
    columns = judged.targets.shape[1]
    data, encoding = kept, noted_encoding(notes)
    encoding = encoding or unnamed_encoding(ensemble.network.inputs, columns)
    if kept is None:
        some = judged.evenly(DIAGNOSED_ROWS)
        points = Dataset(some.x, names=row_names(some.x, encoding, some.rows.tolist()))
    else:
        points = diagnosed_rows(notes, kept["x"])
        data = kept | {name: as_rows(name, kept[name]) for name in ("y", "y_sd") if name in kept}
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
    names = row_names(some.x, noted_encoding(notes) or unnamed_encoding(x.shape[1]), numbers)
    return Dataset(some.x, rows=some.rows, names=names)
