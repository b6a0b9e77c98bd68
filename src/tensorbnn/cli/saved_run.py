"""A run as the commands use it: its networks, its manifest, and the table it was made from."""

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tensorbnn.cli.models import read_likelihood, read_prior
from tensorbnn.data import Dataset, unpack_dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import PathTakenError
from tensorbnn.model.discrete import Bernoulli, Categorical
from tensorbnn.model.layers import AbstractDense, Layer
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.noise import MeasuredGaussian
from tensorbnn.report.context import diagnosed_rows
from tensorbnn.sampling.api import load
from tensorbnn.storage.creation import check_free
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.tables.decimals import read_numbers
from tensorbnn.tables.encoding import Encoding, noted_encoding, noted_table, plain_encoding
from tensorbnn.tables.reading import Table, suffix


class SavedRun(NamedTuple):
    """A run with at least one draw of each chain."""

    store: DirectoryStore
    ensemble: Ensemble

    @property
    def encoding(self) -> Encoding | None:
        """How to convert tables to numbers; ``None`` for a run that `fit` did not create."""
        return noted_encoding(self.store.manifest["notes"])

    def read(self, file: Path, *, targets: bool = False) -> Iterator[Table]:
        """Read the rows of a table in parts, with the same decimal separator as in the fit."""
        noted, encoding = noted_table(self.store.manifest["notes"]) or {}, self.encoding
        return read_numbers(
            file,
            None if encoding is None else encoding.numbers(targets=targets),
            expected=noted.get("decimal") == ",",
        )

    def encoding_for(self, table: Table, *, targets: bool = False) -> Encoding:
        """The encoding; for a run that `fit` did not create, one from the columns of a table."""
        if self.encoding is not None:
            return self.encoding
        network = self.ensemble.network
        columns = self.ensemble.likelihood.columns(network.outputs)
        if targets:
            return plain_encoding(table, network.inputs, *self._target_columns())
        names = ("y",) if columns == 1 else tuple(f"y{n}" for n in range(columns))
        plain = plain_encoding(table, network.inputs)
        return dataclasses.replace(plain, targets=names, classes=self._classes())

    def _target_columns(self) -> tuple[int, int]:
        """The number of targets, and the number of their standard deviations."""
        likelihood, outputs = self.ensemble.likelihood, self.ensemble.network.outputs
        if isinstance(likelihood, MeasuredGaussian):
            return outputs, outputs
        known = unpack_dataset(self.store.data())
        if known is None:
            return 1 if isinstance(likelihood, Categorical) else likelihood.columns(outputs), 0
        count = known.targets.shape[1]
        return count, 0 if known.y_sd is None else count

    def _classes(self) -> tuple[str, ...] | None:
        """Numbers as labels for a likelihood of classes; ``None`` for several binary outputs."""
        likelihood, outputs = self.ensemble.likelihood, self.ensemble.network.outputs
        if isinstance(likelihood, Categorical):
            return tuple(map(str, range(outputs)))
        return ("0", "1") if isinstance(likelihood, Bernoulli) and outputs == 1 else None


def open_run(path: Path) -> SavedRun:
    """Open the run at `path`, which must have draws."""
    store = open_store(path)
    if not all(store.chunk_sizes(chain) for chain in range(store.manifest["chains"])):
        raise ValueError(
            f"some chain of {path} has no networks yet: see `tensorbnn info "
            f"{shlex.quote(str(path))}`"
        )
    return SavedRun(store, load(path))


def open_store(path: Path) -> DirectoryStore:
    """Open the files of a run."""
    if not path.exists():
        raise FileNotFoundError(f"there is no run {path}")
    return DirectoryStore(path)


def training_points(store: DirectoryStore) -> Dataset | None:
    """Training rows at which a run is diagnosed; ``None`` if it was saved without its data."""
    data = store.data()
    return None if data is None else diagnosed_rows(store.manifest["notes"], data["x"])


def check_free_run(path: Path, *, overwrite: bool, option: str, hint: str = "") -> None:
    """Raise if a run can't be created at `path`, the value of `option`."""
    try:
        check_free(path, overwrite=overwrite)
    except PathTakenError as error:
        if error.holds == "current directory":
            raise
        is_run = error.holds == "run"
        found = "already holds a run" if is_run else "exists and is not a run"
        replace = f", {hint}or replace it with --overwrite" if is_run else ""
        raise FileExistsError(f"{path} {found}: choose another {option}{replace}") from None


def check_free_file(file: Path, *, overwrite: bool, is_table: bool = True) -> None:
    """Raise if `file` can't be written, before anything is computed."""
    if is_table:
        suffix(file)
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a directory: choose a file for --out")
    if file.exists() and not overwrite:
        raise FileExistsError(
            f"{file} exists: choose another --out, or replace it with --overwrite"
        )
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{file} can't be written: there is no directory {file.parent}")


def reweighted(
    run: SavedRun, prior: str | None, likelihood: str | None, *, progress: bool
) -> Ensemble:
    """The ensemble, reweighted if another prior or likelihood is given."""
    if prior is None and likelihood is None:
        return run.ensemble
    network = None
    if prior is not None:
        both = dict.fromkeys(("weight_prior", "bias_prior"), read_prior(prior))
        layers: list[Layer] = []
        for layer in run.ensemble.network.layers:
            if isinstance(layer, AbstractDense) and dataclasses.is_dataclass(layer):
                layer = dataclasses.replace(layer, **both)
            layers.append(layer)
        network = Network(*layers, inputs=run.ensemble.network.inputs)
    return run.ensemble.reweight(
        network=network,
        likelihood=None if likelihood is None else _other_likelihood(run.ensemble, likelihood),
        progress=progress,
    )


def _other_likelihood(ensemble: Ensemble, text: str) -> Likelihood:
    """Parse another likelihood, and check it against the targets of the run."""
    likelihood = read_likelihood(text)
    if likelihood.real_targets != ensemble.likelihood.real_targets:
        of, has = ("numbers", "classes") if likelihood.real_targets else ("classes", "numbers")
        raise ValueError(f"--likelihood {text} is for {of}, but the run predicts {has}")
    if isinstance(likelihood, MeasuredGaussian) and "y_sd" not in (ensemble._store.data() or {}):
        raise ValueError(
            f"--likelihood {text} needs standard deviations of the targets, which the run does not "
            "have: fit it with --target-sd"
        )
    return likelihood
