"""Results as pandas tables."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble import statistics
from tensorbnn.ensemble.diagnostics import convergence

if TYPE_CHECKING:
    from pandas import DataFrame

# Quantiles of a summary.
ENDS = 0.025, 0.975


def columns_frame(columns: Mapping[str, NDArray[Any]]) -> "DataFrame":
    """A table of ``(rows,)`` or ``(rows, outputs)`` by name; several outputs as ``mean_0``, ..."""
    from pandas import DataFrame

    found: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        each = values.reshape(len(values), -1).T
        names = [name] if len(each) == 1 else [f"{name}_{place}" for place in range(len(each))]
        found |= dict(zip(names, each, strict=True))
    return DataFrame(found)


def summary_frame(values: Mapping[str, NDArray[Any]], weights: NDArray[Any] | None) -> "DataFrame":
    """Statistics of each number in ``(chains, draws, ...)`` by name, one row for each."""
    from pandas import DataFrame, concat

    parts = []
    for name, each in values.items():
        flat = each.reshape(each.shape[0] * each.shape[1], -1)
        own = None if weights is None else weights.ravel()
        mean, variance = statistics.moments(flat, own)
        ends = statistics.quantile(flat, np.asarray(ENDS), own)
        found = convergence(each.reshape(*each.shape[:2], -1), weights)
        columns = {"mean": mean, "sd": np.sqrt(variance)}
        columns |= {f"q{end:g}": own_end for end, own_end in zip(ENDS, ends, strict=True)}
        columns |= found._asdict()
        parts.append(DataFrame(columns, index=_names(name, each.shape[2:])))
    return concat(parts)


def _names(name: str, shape: Sequence[int]) -> list[str]:
    """``weights[0, 1]``, ... for the numbers of an array of this shape."""
    places = np.ndindex(*shape)
    return [f"{name}[{', '.join(map(str, place))}]" if place else name for place in places]
