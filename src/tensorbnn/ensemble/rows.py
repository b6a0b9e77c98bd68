"""Rows with targets, the user's or those a run has kept, and how they become what a model takes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data
from tensorbnn.model.checks import DType, check_inputs, check_pair, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import precision
from tensorbnn.storage.store import Store

Pair = tuple[ArrayLike, ArrayLike]


class Rows(NamedTuple):
    """Inputs and targets, each ``(rows, columns)``."""

    x: NDArray[Any]
    y: NDArray[Any]


class Units(NamedTuple):
    """The user's units on one side, those of a model on the other."""

    network: Network
    scaling: Scaling
    dtype: DType

    def check_inputs(self, x: ArrayLike) -> NDArray[Any]:
        """The user's inputs, or an error that says what does not fit the model."""
        rows = check_rows("x", x, self.scaling.user_dtype(self.dtype))
        check_inputs(rows, self.network)
        return rows

    def check(self, x: ArrayLike, y: ArrayLike, likelihood: Likelihood) -> Rows:
        """The user's rows, or an error that says what does not fit the model."""
        rows = Rows(*check_pair(x, y, self.network, self.scaling.user_dtype(self.dtype)))
        likelihood.targets(rows.y, self.network.outputs)
        return rows

    def inputs(self, x: NDArray[Any]) -> NDArray[Any]:
        """The user's inputs as the network takes them."""
        return self.scaling.inputs(x, self.dtype)

    def targets(self, y: NDArray[Any], likelihood: Likelihood) -> NDArray[Any]:
        """The user's `y` as the `likelihood` takes it."""
        outputs = self.network.outputs
        return likelihood.targets(likelihood.inside(y, self.scaling, outputs), outputs)

    def arrange(self, rows: Rows, likelihood: Likelihood) -> Data:
        """The user's rows as the engine takes them, in float64."""
        inputs = self.scaling.inputs(rows.x, "float64")
        targets = self.targets(rows.y, likelihood).astype(np.float64)
        with precision("float64"):
            return forward.arrange(self.network, inputs, targets)


def training_rows(
    given: Pair | None, store: Store, units: Units, likelihood: Likelihood
) -> Rows | None:
    """Training data of a run: those `given`, or those it has kept; ``None`` for the prior."""
    if given is None:
        return _kept_rows(store)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"`data` must be a pair (x, y), got {type(given).__name__}")
    return units.check(*given, likelihood)


def check_not_prior(store: Store) -> None:
    """Raise where a run had no data: they are asked for only to replace their likelihood."""
    if store.data() is None and not store.manifest.get("data"):
        raise ValueError(
            "these networks were sampled from the prior: no likelihood of `data` is in their "
            "density that could be replaced; sample the posterior instead"
        )


def _kept_rows(store: Store) -> Rows | None:
    kept = store.data()
    if kept is not None:
        return Rows(kept["x"], kept["y"])
    if store.manifest.get("data") is not None:
        raise ValueError(
            "the run did not keep its training data (`store_data=False`): "
            "give them as `data=(x, y)`"
        )
    return None
