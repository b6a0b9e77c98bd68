"""Rows with targets: the user's, or the training data that a run has kept."""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from tensorbnn.model.checks import DType, check_inputs, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.runs.store import Store


class Rows(NamedTuple):
    """Inputs and targets, each ``(rows, columns)``."""

    x: NDArray[Any]
    y: NDArray[Any]


def checked_rows(
    x: ArrayLike, y: ArrayLike, network: Network, likelihood: Likelihood, dtype: DType
) -> Rows:
    """The user's rows, or an error that says what does not fit the model."""
    rows = Rows(check_rows("x", x, dtype), check_rows("y", y, dtype))
    check_inputs(rows.x, network)
    if len(rows.x) != len(rows.y):
        raise ValueError(f"`x` has {len(rows.x)} rows but `y` has {len(rows.y)}")
    likelihood.targets(rows.y, network.outputs)
    return rows


def kept_rows(store: Store) -> Rows | None:
    """The training data of a run; ``None`` for the prior."""
    kept = store.data()
    if kept is not None:
        return Rows(kept["x"], kept["y"])
    if store.manifest.get("data") is not None:
        raise ValueError(
            "the run did not keep its training data (`store_data=False`): "
            "give them as `data=(x, y)`"
        )
    return None
