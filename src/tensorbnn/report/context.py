"""What a report is about: a run, its data, the names of its columns, and rows to judge it by."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.messages import PYTHON, Words
from tensorbnn.model.checks import as_rows
from tensorbnn.model.noise import MeasuredGaussian
from tensorbnn.sampling.api import load
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.tables.encoding import (
    Encoding,
    noted_encoding,
    noted_table,
    row_names,
    unnamed_encoding,
)

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
    encoding: Encoding
    judged: Dataset
    """Rows whose targets are known, as `Ensemble.evaluate` takes them."""
    judged_name: str
    true: NDArray[Any]
    """Their targets alone."""
    true_sd: NDArray[Any] | None
    """Measured standard deviations of these, where there are any."""
    unseen: bool | None
    """Whether the networks were not fitted to them; ``None`` where only the user knows."""
    points: Dataset
    diagnosis: Diagnosis
    words: Words
    progress: bool

    @property
    def thinned(self) -> Ensemble:
        """The networks that predictions are shown with."""
        return self.ensemble.thin(-(-len(self.ensemble) // MOST_NETWORKS))

    @property
    def outputs(self) -> tuple[str, ...]:
        """A name for each column of predictions: of its target, or of its class."""
        classes = self.encoding.classes
        names = self.encoding.targets if classes is None else classes
        count = self.ensemble.likelihood.columns(self.ensemble.network.outputs)
        if classes is not None and count == 1:  # the probability of the second of two
            return classes[1:]
        return names if len(names) == count else tuple(f"output {each}" for each in range(count))


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
    likelihood, outputs, unseen = ensemble.likelihood, ensemble.network.outputs, None
    if judged is None:
        if kept is None:
            raise ValueError(
                f"{path} keeps no data to look at its predictions by: give a table with "
                f"{words.option('validation')}"
            )
        unseen = "validation_x" in kept
        kind, own = ("held-out", "validation_") if unseen else ("training", "")
        rows = Dataset(kept[f"{own}x"], likelihood.unweighted(as_rows("y", kept[f"{own}y"])))
        judged = rows.evenly(MOST_ROWS)
        of = "" if len(judged) == len(rows) else f" of {len(rows):,}"
        judged_name = f"{len(judged):,}{of} {kind} rows"
    data, true = kept, likelihood.plain.observed(judged.targets, outputs)
    encoding = noted_encoding(notes) or unnamed_encoding(ensemble.network.inputs, true.shape[1])
    if kept is None:
        some = judged.evenly(DIAGNOSED_ROWS)
        points = Dataset(some.x, names=row_names(some.x, encoding, some.rows.tolist()))
    else:
        points = diagnosed_rows(notes, kept["x"])
        # Targets apart from weights of rows and from measured standard deviations.
        columns = {name: as_rows("y", kept[name]) for name in kept if name.endswith("y")}
        data = kept | {name: likelihood.observed(y, outputs) for name, y in columns.items()}
        sds = _deviations(likelihood.unweighted(columns["y"]), ensemble)
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
        true=true,
        true_sd=_deviations(judged.targets, ensemble),
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


def _deviations(y: NDArray[Any], ensemble: Ensemble) -> NDArray[Any] | None:
    """Standard deviations ``(rows, outputs)`` of measured targets."""
    likelihood, outputs = ensemble.likelihood.plain, ensemble.network.outputs
    if not isinstance(likelihood, MeasuredGaussian):
        return None
    return likelihood.targets(y, outputs)[:, outputs:]
