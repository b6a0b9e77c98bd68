"""A run as the commands see it: its networks, its manifest, and the table it was made from."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from tensorbnn.cli.expressions import read_likelihood, read_prior
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.reweight import Weights
from tensorbnn.model.layers import AbstractDense, Layer
from tensorbnn.model.likelihoods import Categorical
from tensorbnn.model.measured import MeasuredGaussian
from tensorbnn.model.network import Network
from tensorbnn.report.subject import DIAGNOSED_ROWS, spread
from tensorbnn.runs.directory import DirectoryStore
from tensorbnn.runs.new_directory import check_free
from tensorbnn.sampling import load
from tensorbnn.tables.encoding import Encoding, plain_encoding, restore_encoding
from tensorbnn.tables.reading import Table


class OpenedRun(NamedTuple):
    """A run that is there."""

    path: Path
    store: DirectoryStore
    ensemble: Ensemble

    @property
    def notes(self) -> dict[str, Any]:
        """What `fit` has kept."""
        found: dict[str, Any] = self.store.manifest["notes"]
        return found

    @property
    def encoding(self) -> Encoding | None:
        """How tables are turned into numbers; ``None`` for a run that was not made by `fit`."""
        table = self.notes.get("table")
        return restore_encoding(table) if isinstance(table, dict) else None

    def encoding_for(self, table: Table, *, targets: bool = False) -> Encoding:
        """The same, for a table whose columns may have to do."""
        count = self._target_columns() if targets else 0
        return self.encoding or plain_encoding(table, self.ensemble.network.inputs, count)

    def _target_columns(self) -> int:
        data = self.store.data()
        if data is not None:
            return int(self.ensemble.likelihood.unweighted(data["y"]).shape[1])
        likelihood, outputs = self.ensemble.likelihood.plain, self.ensemble.network.outputs
        if isinstance(likelihood, MeasuredGaussian):
            return 2 * outputs
        return 1 if isinstance(likelihood, Categorical) else outputs


def open_run(path: Path) -> OpenedRun:
    """A run with at least one draw of each chain."""
    check_run(path)
    ensemble = load(path)
    if not ensemble.num_draws:
        raise ValueError(
            f"{path} has no networks yet, its chains are in burn-in: see `tensorbnn info {path}`"
        )
    return OpenedRun(path, DirectoryStore(path), ensemble)


def check_run(path: Path) -> None:
    """Raise where there is nothing at `path`."""
    if not path.exists():
        raise FileNotFoundError(f"there is no run {path}")


def check_free_run(path: Path, *, force: bool, option: str, hint: str = "") -> None:
    """Raise where a run can't be made at `path`, which was given as `option`."""
    if (path / "run.json").is_file():
        if not force:
            raise FileExistsError(
                f"{path} already holds a run: choose another {option}, {hint}or replace it with "
                "--force"
            )
        return
    try:
        check_free(path, overwrite=force)
    except FileExistsError:
        raise FileExistsError(f"{path} exists and is not a run: choose another {option}") from None


def some_training_rows(store: DirectoryStore) -> NDArray[Any] | None:
    """Training inputs, spread evenly over them; ``None`` where the run keeps none."""
    data = store.data()
    return None if data is None else spread(data["x"], DIAGNOSED_ROWS)


def other_weights(
    run: OpenedRun, prior: str | None, likelihood: str | None, *, progress: bool
) -> Weights | None:
    """Weights for another prior or likelihood, where one is given."""
    if prior is None and likelihood is None:
        return None
    return run.ensemble.reweight(
        network=None if prior is None else with_prior(run.ensemble.network, prior),
        likelihood=None if likelihood is None else read_likelihood(likelihood),
        progress=progress,
    )


def with_prior(network: Network, text: str) -> Network:
    """The same network with another prior of all weights and biases."""
    prior = read_prior(text)
    layers: list[Layer] = []
    for layer in network.layers:
        if isinstance(layer, AbstractDense) and dataclasses.is_dataclass(layer):
            layer = dataclasses.replace(layer, weight_prior=prior, bias_prior=prior)
        layers.append(layer)
    return Network(*layers, inputs=network.inputs)
