"""Training and test rows: the protocols of the published tables.

UCI regression: ``NAME.csv``, a header and numbers, the target last, and ``NAME.splits.csv``, a
column for every split: 1 for test rows, 0 for training rows. Scores are in the units of the target.

``airfoil.csv``: one split with a fifth of the rows for testing, which is that of scikit-learn's
``train_test_split(test_size=0.2, random_state=0)``, and five seeds of the model. Scores are in
units of the standard deviation of the training targets.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Names of the published tables; a folder may have others, with their own splits.
SETS = (
    "yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power", "naval", "protein",
    "airfoil",
)  # fmt: skip
AIRFOIL_SEEDS = 5


class DataError(ValueError):
    """A folder that can't be used; the message says which file, and what it should be."""


class Case(NamedTuple):
    """One fit: training and test rows."""

    name: str
    split: int
    """Number of the split, and seed of the model."""
    x: Floats
    y: Floats
    x_test: Floats
    y_test: Floats
    unit: float = 1.0
    """What scores are divided by."""


def find_sets(folder: Path, wanted: list[str] | None) -> list[str]:
    """The sets that were named, or all published tables that the folder has."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}: give one with CSV files by --data")
    found = wanted or [name for name in SETS if (folder / f"{name}.csv").exists()]
    if not found:
        raise DataError(f"{folder} has none of {', '.join(f'{name}.csv' for name in SETS)}")
    for name in found:
        for file in _files(folder, name):
            if not file.is_file():
                raise DataError(f"there is no file {file}: {_about(file)}")
    return found


def read_cases(folder: Path, name: str, most: int | None = None) -> list[Case]:
    """The splits of a set in order, at most `splits` of them."""
    table = _read(folder / f"{name}.csv")
    if table.shape[1] < 2:
        raise DataError(f"{folder / name}.csv has one column: it needs inputs, and the target last")
    x, y = table[:, :-1], table[:, -1]
    if name == "airfoil":
        tested = _airfoil_test(len(table))
        unit = float(y[~tested].std())
        return [_case(name, seed, x, y, tested, unit) for seed in range(AIRFOIL_SEEDS)][:most]
    splits = _read_splits(folder / f"{name}.splits.csv", len(table))
    return [_case(name, at, x, y, column == 1) for at, column in enumerate(splits.T)][:most]


def read_paired(folder: Path) -> dict[tuple[str, int], tuple[float, float]]:
    """RMSE and log score of MC dropout by set and split, if the folder has this file.

    ``ref_mcdropout_per_split.csv`` with the columns dataset, split, rmse_mc and ll.
    """
    file = folder / "ref_mcdropout_per_split.csv"
    if not file.is_file():
        return {}
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").split()[1:]]
    return {(name, int(split)): (float(rmse), float(ll)) for name, split, rmse, ll in rows}


def _files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.csv"] + [folder / f"{name}.splits.csv"] * (name != "airfoil")


def _about(file: Path) -> str:
    if file.name.endswith(".splits.csv"):
        return "it should have a column for every split, 1 for test rows, otherwise 0"
    return "it should have a header and numbers, the target last"


def _read(file: Path) -> Floats:
    try:
        table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise DataError(f"{file} can't be read ({error}): {_about(file)}") from None
    if not np.isfinite(table).all():
        raise DataError(f"{file} has missing or infinite numbers: leave such rows out")
    return table


def _read_splits(file: Path, rows: int) -> Floats:
    splits = _read(file)
    if len(splits) != rows:
        raise DataError(f"{file} has {len(splits)} rows, but the table has {rows}")
    tested = (splits == 1).sum(axis=0)
    if not np.isin(splits, (0, 1)).all() or (tested == 0).any() or (tested == rows).any():
        raise DataError(f"{file} is not right: {_about(file)}, and some rows of each")
    return splits


def _airfoil_test(rows: int) -> NDArray[np.bool_]:
    tested = np.zeros(rows, bool)
    # The legacy generator is part of the protocol.
    order = np.random.RandomState(0).permutation(rows)
    tested[order[: math.ceil(0.2 * rows)]] = True
    return tested


def _case(
    name: str, split: int, x: Floats, y: Floats, tested: NDArray[Any], unit: float = 1.0
) -> Case:
    return Case(name, split, x[~tested], y[~tested], x[tested], y[tested], unit)
