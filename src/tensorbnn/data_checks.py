"""Checks for problems with the data, made before sampling.

Each check is a function of the columns alone. Checks report only clear cases, on which experts
would agree: their limits are far beyond what real tables show by chance.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.data_findings import (
    CoarseNoise,
    ConstantColumns,
    ConstantTargets,
    CountsRows,
    DuplicateColumns,
    FarValue,
    FewRows,
    LooksCategorical,
    Sentinel,
    Unscaled,
)
from tensorbnn.findings import Finding
from tensorbnn.model.checks import DType
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.scaling import Scaling

# Columns whose typical size is between these suit the default priors, which have widths near one.
SMALL, LARGE = 0.01, 20.0
# A value is an extreme outlier if its distance from the others is this many times their range.
FAR = 5.0
# Checks need at least this many rows, since small tables can show anything by chance.
LEAST_ROWS = 10
# Learning the noise needs at least this many rows.
LEAST_TO_LEARN = 5
# Maximum number of categories in a column, and the z-score at which two of them differ.
MOST_CATEGORIES, CLEAR = 10, 4.0
# Rounding error of an output in units of the type's epsilon, after several operations.
ROUNDINGS = 4.0
# Rounding error of a log-density that is too large to judge proposals.
COARSE = 0.5


def check_data(
    dataset: Dataset | None,
    likelihood: Likelihood,
    scaling: Scaling,
    dtype: DType,
) -> tuple[Finding, ...]:
    """Findings about the rows that a posterior is built from; none for the prior."""
    if dataset is None or dataset.y is None:
        return ()
    kept = counted_rows(dataset)
    x, y = kept.x.astype(np.float64), kept.targets.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        found = [*_rows(len(x), likelihood), *_inputs(x, kept.rows, scaling)]
        found += _targets(y, kept.rows, likelihood, scaling)
        found += _categories(x, y, likelihood)
        found += _coarse(kept, likelihood, scaling, dtype)
    return tuple(found)


def counted_rows(dataset: Dataset) -> Dataset:
    """The rows whose weight is not 0."""
    weights = dataset.sample_weight
    return dataset if weights is None else dataset.take(weights > 0)


def _rows(rows: int, likelihood: Likelihood) -> Iterator[Finding]:
    least = LEAST_TO_LEARN if likelihood.hypers() else 2
    if rows < least:
        yield FewRows(rows, least)


def _inputs(x: NDArray[Any], rows: NDArray[Any], scaling: Scaling) -> Iterator[Finding]:
    count = x.shape[1]
    varies = np.ptp(x, axis=0) > 0
    constant = np.flatnonzero(~varies)
    if len(constant) and len(x) > 1:
        yield ConstantColumns("x", tuple(constant.tolist()), count)
    same: dict[bytes, list[int]] = {}
    for column in np.flatnonzero(varies).tolist() if len(x) >= LEAST_ROWS else ():
        same.setdefault(x[:, column].tobytes(), []).append(column)
    for columns in same.values():
        if len(columns) > 1:
            yield DuplicateColumns("x", tuple(columns), count)
    for column in range(count) if count > 1 and len(x) >= LEAST_TO_LEARN else ():
        if _only_counts(x[:, column]):
            yield CountsRows("x", (column,), count)
    yield from _values("x", x, rows, scaling.x_shift, scaling.x_scale)


def _targets(
    y: NDArray[Any], rows: NDArray[Any], likelihood: Likelihood, scaling: Scaling
) -> Iterator[Finding]:
    count = y.shape[1]
    for column in np.flatnonzero(np.ptp(y, axis=0) == 0).tolist() if len(y) > 1 else ():
        yield ConstantTargets("y", (column,), count, float(y[0, column]))
    if not likelihood.real_targets:
        return
    yield from _values("y", y, rows, scaling.y_shift, scaling.y_scale)


def _values(
    argument: str,
    values: NDArray[Any],
    rows: NDArray[Any],
    shift: tuple[float, ...],
    scale: tuple[float, ...],
) -> Iterator[Finding]:
    """Codes for missing values, extreme outliers, and the scale of the remaining values."""
    count = values.shape[1]
    codes: dict[float, dict[int, int]] = {}
    sizes: dict[int, float] = {}
    for column in range(count):
        own, numbers = values[:, column], rows
        while (code := _sentinel(own)) is not None:
            codes.setdefault(code, {})[column] = int(np.sum(own == code))
            own, numbers = own[own != code], numbers[own != code]
        far = _far_value(own)
        if far is not None:
            value, low, high = far
            row = int(numbers[np.argmax(own == value)])
            yield FarValue(argument, (column,), count, value, row, low, high)
        elif np.ptp(own) > 0:
            inside = own if not scale else (own - shift[column]) / scale[column]
            sizes[column] = float(np.sqrt(np.mean(np.square(inside))))
            if np.abs(inside).max() >= SMALL and sizes[column] <= LARGE:
                del sizes[column]
    for code, cells in codes.items():
        yield Sentinel(argument, tuple(cells), count, code, sum(cells.values()))
    for chosen in ([c for c in sizes if sizes[c] > 1], [c for c in sizes if sizes[c] <= 1]):
        if chosen:
            worst = max((sizes[c] for c in chosen), key=lambda size: abs(math.log(size)))
            yield Unscaled(argument, tuple(chosen), count, worst)


def _sentinel(values: NDArray[Any]) -> float | None:
    """The lowest or highest of the values, if it looks like a code for a missing one."""
    if len(values) < LEAST_TO_LEARN:
        return None
    for value in (float(values.min()), float(values.max())):
        if not _is_code(value):
            continue
        rest = values[values != value]
        if len(rest) < LEAST_TO_LEARN - 1 or np.ptp(rest) == 0:
            continue
        low, high = np.quantile(rest, (0.05, 0.95))
        is_apart = np.abs(rest - value).min() > max(high - low, np.abs(rest).max() / 100)
        is_only_negative = value < 0 <= rest.min() and len(values) - len(rest) > 2
        if is_apart or is_only_negative:
            return value
    return None


def _is_code(value: float) -> bool:
    """Whether a number is -99, 999, 9999, ..., or a power of ten from 1e8 on, of either sign."""
    size = abs(value)
    if size >= 1e8:
        nearest = round(math.log10(size))
        return math.isclose(size, 10.0**nearest, rel_tol=1e-6)
    nines = size == int(size) and set(str(int(size))) == {"9"}
    return nines and (size >= 999 or value == -99)


def _far_value(values: NDArray[Any]) -> tuple[float, float, float] | None:
    """The most extreme value if it is an outlier, and the range of the rest.

    Up to 1 % of the values, and at least one, may be outliers together.
    """
    if len(values) < LEAST_ROWS:
        return None
    some = values[:: -(-len(values) // 1000)]
    first, low, high, third = np.quantile(some, (0.1, 0.25, 0.75, 0.9))
    if low == high or np.ptp(values) < FAR * (third - first):
        return None  # mostly the same value, such as 0; or no outlier
    ordered, most = np.sort(values), max(1, len(values) // 100)
    for sign in (1, -1):
        own = ordered if sign == 1 else -ordered[::-1]
        for count in range(1, most + 1):
            inner = own[most : len(own) - count]
            if own[-count] - inner[-1] > FAR * (inner[-1] - inner[0]):
                ends = sorted((sign * float(inner[0]), sign * float(inner[-1])))
                return sign * float(own[-1]), ends[0], ends[1]
    return None


def _only_counts(column: NDArray[Any]) -> bool:
    """Whether it holds whole numbers that increase by one, apart from gaps of omitted rows."""
    steps = np.diff(column)
    grows = bool(np.all((steps >= 1) & (steps % 1 == 0)))
    return grows and float(np.median(steps)) == 1


def _categories(x: NDArray[Any], y: NDArray[Any], likelihood: Likelihood) -> Iterator[Finding]:
    """Columns of few whole numbers along which the mean target clearly turns at least twice."""
    if len(x) < LEAST_ROWS or not (likelihood.real_targets or set(np.unique(y)) == {0.0, 1.0}):
        return
    for column in range(x.shape[1]):
        own = x[:, column]
        if np.any(own[:LEAST_ROWS] % 1) or np.any(own % 1):
            continue
        levels, place, counts = np.unique(own, return_inverse=True, return_counts=True)
        if not 3 <= len(levels) <= MOST_CATEGORIES or counts.min() < 2:
            continue
        if any(_turns(each, place, counts) >= 2 for each in y.T):
            yield LooksCategorical("x", (column,), x.shape[1], len(levels))


def _turns(y: NDArray[Any], place: NDArray[Any], counts: NDArray[Any]) -> int:
    """How often the mean target clearly changes direction from level to level."""
    means = np.bincount(place, y) / counts
    variances = np.bincount(place, np.square(y - means[place])) / (counts - 1)
    errors = (variances + 1e-30) / counts
    turns, direction, start = 0, 0, 0
    for level in range(1, len(counts)):
        z = (means[level] - means[start]) / math.sqrt(errors[level] + errors[start])
        if abs(z) > CLEAR:
            turns += direction * z < 0
            direction, start = (1 if z > 0 else -1), level
        elif direction * z > 0 or not direction:
            start = level if direction else start
    return turns


def _coarse(
    rows: Dataset, likelihood: Likelihood, scaling: Scaling, dtype: DType
) -> Iterator[Finding]:
    """Whether known noise is so small that rounding of outputs affects the log-density.

    An output of size ``s`` has a rounding error of about ``4 eps s``; with residuals of about one
    sd, the error of the log-density is ``4 eps s sqrt(sum_i 1 / sd_i^2)``.
    """
    if not likelihood.real_targets:
        return
    y, numbers = scaling.targets(rows.targets.astype(np.float64)), likelihood.numbers()
    bars = 0.0 if rows.y_sd is None else rows.y_sd.reshape(y.shape) / (scaling.y_scale or 1.0)
    for column in range(y.shape[1]):
        known = [numbers.get(f"{n}{end}") for n in ("sd", "scale") for end in ("", f".{column}")]
        sd = next((each for each in known if each is not None), 0.0)
        if not isinstance(sd, float):
            continue  # it is learned
        sds = np.hypot(sd, np.broadcast_to(bars, y.shape)[:, column])
        size = math.sqrt(float(np.mean(np.square(y[:, column]))))
        if np.all(sds > 0):
            error = ROUNDINGS * float(np.finfo(dtype).eps) * size * float(np.linalg.norm(1 / sds))
            if error >= COARSE:
                yield CoarseNoise("y", (column,), y.shape[1], float(sds.min()), dtype, error)
