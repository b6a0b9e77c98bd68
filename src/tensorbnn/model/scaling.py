"""Scaling: the user's units outside, columns of mean 0 and standard deviation 1 inside.

The default priors expect inputs and outputs of about one. A `Scaling` maps the user's columns to
that and back, ``inside = (outside - shift) / scale``; the model never sees anything else.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.model.checks import DType, as_array, cast

# Largest standard deviations, and the inverses of the smallest: float64 holds the squares of those
# of inputs, and the fourth powers of those of targets, which errors of sds need.
WIDEST_INPUTS, WIDEST_TARGETS = 1e150, 1e75


@final
@dataclass(frozen=True)
class Scaling:
    """Shifts and scales of the columns of ``x`` and ``y``; none by default.

    ``Posterior(..., standardize=True)`` makes one. You can also pass one as `standardize`, such as
    that of another posterior, so that two models share their units.

    Parameters
    ----------
    x_shift, x_scale
        One number for each column of ``x``; empty to leave it as it is.
    y_shift, y_scale
        The same for ``y``.

    Examples
    --------
    >>> scaling = Scaling(x_shift=(20.0,), x_scale=(5.0,))
    >>> scaling.inputs(np.array([[20.0], [30.0]]), "float32").tolist()
    [[0.0], [2.0]]
    """

    x_shift: tuple[float, ...] = ()
    x_scale: tuple[float, ...] = ()
    y_shift: tuple[float, ...] = ()
    y_scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("x_shift", "x_scale", "y_shift", "y_scale"):
            values = as_array(name, getattr(self, name))
            if values.ndim != 1 or not np.all(np.isfinite(values)):
                got = getattr(self, name)
                raise ValueError(f"`{name}` of a Scaling must be finite numbers, got {got!r}")
            object.__setattr__(self, name, tuple(values.astype(float).tolist()))
        for kind in ("x", "y"):
            shift, scale = getattr(self, f"{kind}_shift"), getattr(self, f"{kind}_scale")
            if len(shift) != len(scale):
                raise ValueError(
                    f"`{kind}_shift` has {len(shift)} numbers but `{kind}_scale` {len(scale)}: "
                    "give one of each for every column"
                )
            if not all(each > 0 for each in scale):
                raise ValueError(f"`{kind}_scale` of a Scaling must be positive, got {scale}")

    def user_dtype(self, dtype: DType) -> DType:
        """The type of the user's rows: all digits are kept until they are scaled."""
        return dtype if self == Scaling() else "float64"

    def inputs(self, x: NDArray[Any], dtype: DType) -> NDArray[Any]:
        """The user's inputs ``(rows, inputs)`` as the model takes them."""
        return cast(_to_inside("x", x, self.x_shift, self.x_scale), dtype)

    def targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """The user's targets ``(..., columns)`` as the likelihood takes them."""
        count = len(self.y_scale)
        if y.shape[-1] <= count or not count:
            return _to_inside("y", y, self.y_shift, self.y_scale)
        inside = _to_inside("y", y[..., :count], self.y_shift, self.y_scale)
        return np.concatenate([inside, y[..., count:]], axis=-1)

    def natural(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Targets ``(..., columns)`` of the model in the user's units: undoes `targets`."""
        if not self.y_scale:
            return targets
        return targets * np.asarray(self.y_scale) + np.asarray(self.y_shift)

    def natural_variance(self, variance: NDArray[Any]) -> NDArray[Any]:
        """Variances ``(..., columns)`` of targets of the model in the user's units."""
        return variance * np.square(self.y_scale) if self.y_scale else variance

    @property
    def log_jacobian(self) -> float:
        """``log |d inside / d outside|`` of a row of targets: what its log-density gains."""
        return -float(np.sum(np.log(self.y_scale))) if self.y_scale else 0.0


def standardization(
    x: NDArray[Any],
    y: NDArray[Any],
    *,
    targets: bool,
    weights: NDArray[Any] | None = None,
    inputs_name: str = "x",
) -> Scaling:
    """The scaling to mean 0 and standard deviation 1; constant columns are only shifted.

    `targets` says whether `y` is scaled, too; means are weighted by `weights` ``(rows,)``.
    """
    x_shift, x_scale = _moments(inputs_name, x, weights, WIDEST_INPUTS)
    y_shift, y_scale = _moments("y", y, weights, WIDEST_TARGETS) if targets else ((), ())
    return Scaling(x_shift, x_scale, y_shift, y_scale)


def _moments(
    name: str, values: NDArray[Any], weights: NDArray[Any] | None, widest: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = values.astype(np.float64)
    if weights is not None:
        rows, weights = rows[weights > 0], weights[weights > 0].astype(np.float64)
    low, high = rows.min(axis=0), rows.max(axis=0)
    varies = high > low
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, if it varies at all
        mean = np.average(rows, axis=0, weights=weights)
        sd = np.sqrt(np.average(np.square(rows - mean), axis=0, weights=weights))
    fits = (sd >= 1 / widest) & (sd <= widest)
    for column in np.flatnonzero(varies & ~fits):
        raise ValueError(
            f"column {column} of `{name}` can't be standardized: it goes from {low[column]:g} to "
            f"{high[column]:g}, but its standard deviation must lie between {1 / widest:g} and "
            f"{widest:g}; give it in another unit"
        )
    shift, scale = np.where(varies, mean, rows[0]), np.where(varies, sd, 1.0)
    return tuple(shift.tolist()), tuple(scale.tolist())


def _to_inside(
    name: str, values: NDArray[Any], shift: tuple[float, ...], scale: tuple[float, ...]
) -> NDArray[Any]:
    if not scale:
        return values
    if values.shape[-1] != len(scale):
        raise ValueError(
            f"`{name}` has {values.shape[-1]} columns, but {len(scale)} were standardized"
        )
    return (values - np.asarray(shift)) / np.asarray(scale)
