"""Rows that are held out: data to validate on, the user's own or split off the training data."""

from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_fraction
from tensorbnn.posterior import Given, Posterior


def training_rows(posterior: Posterior) -> Given:
    """The data of a posterior."""
    if posterior.x is None or posterior.y is None:
        raise ValueError(
            "`posterior` has no data to train on: build it as "
            "tb.Posterior(network, likelihood, x, y)"
        )
    return posterior.take(posterior.x, posterior.y)


def validation_rows(posterior: Posterior, validation: tuple[ArrayLike, ArrayLike]) -> Given:
    """The user's pair ``(x, y)``, checked as the posterior's own data are."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(f"`validation` must be a pair (x, y), got {type(validation).__name__}")
    try:
        return posterior.take(*validation)
    except (TypeError, ValueError) as error:
        raise type(error)(f"in `validation`, {error}") from error


def split(rows: Given, fraction: float, key: Array) -> tuple[Given, Given | None]:
    """Rows to train on, and a random `fraction` of them to validate on.

    At least one row is left to train on, and one is set aside unless `fraction` is 0.
    """
    check_fraction("validation_fraction", fraction, zero=True)
    count = len(rows.x)
    if fraction == 0 or count == 1:
        return rows, None
    aside = min(max(round(fraction * count), 1), count - 1)
    order = np.asarray(jax.random.permutation(key, count))
    return _take(rows, np.sort(order[aside:])), _take(rows, np.sort(order[:aside]))


def _take(rows: Given, chosen: NDArray[Any]) -> Given:
    return Given(*(each[chosen] for each in rows))
