"""Checks of arrays that a user gives: each error names the argument and says what to do."""

import contextlib
import types
from collections.abc import Mapping
from typing import Any, Literal, get_args

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_choice
from tensorbnn.model.hyper import is_inside, support_text
from tensorbnn.model.layout import Layout
from tensorbnn.model.network import Network

DType = Literal["float32", "float64"]
DTypeLike = DType | type[np.floating[Any]] | np.dtype[Any]
"""A name, or NumPy's type of that name: what a user may give as `dtype`."""


def named_dtype(dtype: DTypeLike) -> DType:
    """The name of the user's `dtype`, or an error.

    Examples
    --------
    >>> named_dtype("float32"), named_dtype(np.float64), named_dtype(np.dtype("float32"))
    ('float32', 'float64', 'float32')
    """
    name: Any = dtype
    if not isinstance(dtype, str | types.NoneType):
        with contextlib.suppress(TypeError):  # not a type at all
            name = np.dtype(dtype).name
    check_choice("dtype", name, get_args(DType))
    return name


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """User's numbers as an array, or an error that names them."""
    check_unmasked(name, values)
    if isinstance(values, jax.core.Tracer):
        raise TypeError(
            f"`{name}` must hold numbers, but JAX is tracing it: use it outside of jax.jit, "
            "jax.vmap and jax.grad"
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers, got an array of type {array.dtype}")
    return array


def as_rows(name: str, values: ArrayLike) -> NDArray[Any]:
    """User's rows as an array of numbers ``(rows, columns)``, or an error that names them."""
    array = as_array(name, values)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"`{name}` must be (rows, columns), got shape {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"`{name}` is empty, its shape is {array.shape}: give at least one row")
    return array


def check_rows(name: str, values: ArrayLike, dtype: DType) -> NDArray[np.generic]:
    """User's rows as a finite ``(rows, columns)`` array of `dtype`, or an error that names them."""
    array = as_rows(name, values)
    rows = cast(array, dtype)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        value = array[row, column]
        where = f"(first: {value} at row {row}, column {column})"
        if np.isfinite(value):
            raise ValueError(
                f"{len(bad)} values of `{name}` are too large for {dtype} {where}: scale them, "
                "or use `dtype='float64'`"
            )
        raise ValueError(
            f"`{name}` must be finite, but {len(bad)} of its values are not {where}: "
            "remove or fill them"
        )
    return rows


def check_unmasked(name: str, values: object) -> None:
    """Raise if values of a masked array are masked: their underlying data would be used."""
    masked = int(values.mask.sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if masked:
        raise ValueError(
            f"{masked} values of `{name}` are masked, so they are missing: remove or fill them"
        )


def cast(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """`array` in the type `dtype`."""
    with np.errstate(over="ignore"):  # values that overflow become infinite, which is reported
        return array.astype(dtype)


def _numbers(name: str, value: ArrayLike, dtype: DType) -> NDArray[Any]:
    """User's `value` as an array of `dtype`, or an error that names it."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got an array of type {array.dtype}")
    return cast(array, dtype)


def check_inputs(x: NDArray[np.generic], network: Network, name: str = "x") -> None:
    """Raise if ``x`` does not have one column per input of the network."""
    if x.shape[1] != network.inputs:
        raise ValueError(
            f"`{name}` has {x.shape[1]} columns but the network has {network.inputs} inputs: "
            f"build it with `inputs={x.shape[1]}`, or give `{name}` with {network.inputs} columns"
        )


def check_named(layout: Layout, named: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless `named` has one finite value of the right shape for every entry."""
    entries = {entry.name: entry for entry in layout.entries}
    if set(named) != set(entries):
        unknown, missing = sorted(set(named) - set(entries)), sorted(set(entries) - set(named))
        raise ValueError(
            f"values are needed for {sorted(entries)}: missing {missing}, unknown {unknown}"
        )
    for name, value in named.items():
        if value.shape != entries[name].shape:
            raise ValueError(f"{name} must have shape {entries[name].shape}, got {value.shape}")
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name} must be finite, but some of its values are not")
        support = entries[name].support
        outside = value[~is_inside(value, support)]
        if outside.size:
            raise ValueError(
                f"{name} must be {support_text(support)}, but one of its values is {outside[0]:g}"
            )


def check_starts(
    layouts: tuple[Layout, ...],
    start: Mapping[str, ArrayLike],
    *,
    count: int,
    each: str,
    dtype: DType,
) -> dict[str, NDArray[Any]]:
    """User's starting values by name, each ``(count, ...)``; shared ones are repeated."""
    if not isinstance(start, Mapping):
        raise TypeError(
            "`start` must map names to values, such as {'dense_0.biases': [0.0]}, "
            f"got {type(start).__name__}"
        )
    entries = {entry.name: entry for layout in layouts for entry in layout.entries}
    unknown = sorted(set(start) - set(entries))
    if unknown:
        raise ValueError(
            f"`start` names unknown parameters {unknown}: the model has {sorted(entries)}"
        )
    given = {}
    for name, value in start.items():
        array, shape = _numbers(f"{name} in `start`", value, dtype), entries[name].shape
        if array.shape == shape:
            array = np.broadcast_to(array, (count, *shape))
        if array.shape != (count, *shape):
            raise ValueError(
                f"`start` gives {name} in the shape {array.shape}: it must be {shape}, "
                f"or {(count, *shape)} for a value per {each}"
            )
        for own in array:
            check_named(Layout((entries[name],)), {name: own})
        given[name] = array
    return given
