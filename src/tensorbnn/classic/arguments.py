"""Convert types, arrays and option names between the paper's interface and the library."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.errors import DataNotKeptError, OptionError, PathTakenError
from tensorbnn.messages import Words
from tensorbnn.model.checks import DType, check_rows


def as_dtype(dtype: Any) -> DType:
    """``"float32"`` or ``"float64"`` from a string, or a type of NumPy or TensorFlow.

    Examples
    --------
    >>> as_dtype(np.float32), as_dtype("float64")
    ('float32', 'float64')
    """
    try:
        name = np.dtype(getattr(dtype, "as_numpy_dtype", dtype)).name
    except TypeError:
        name = ""
    if dtype is None or name not in ("float32", "float64"):
        raise ValueError(f"`dtype` must be float32 or float64, got {dtype!r}")
    return name


def as_numbers(what: str, values: ArrayLike) -> NDArray[Any]:
    """An array of numbers, none of them masked, or an error in which the values are `what`."""
    masked = int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if masked:
        raise ValueError(f"{masked} values of {what} are masked (missing): remove or fill them")
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{what} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, got an array of type {array.dtype}")
    return array


def as_inputs(name: str, values: ArrayLike, inputs: int) -> NDArray[Any]:
    """Inputs ``(rows, inputs)`` from an array of any shape with the rows as first axis."""
    array = as_numbers(f"`{name}`", values)
    if not array.ndim or array.size != len(array) * inputs:
        raise ValueError(f"`{name}` must be (rows, {inputs}), got shape {array.shape}")
    array = array.reshape(len(array), inputs)
    check_rows(name, array, "float64")
    return array


def as_targets(name: str, values: ArrayLike, rows: int) -> NDArray[Any]:
    """Targets ``(rows, outputs)``; a single output may also be ``(rows,)`` or ``(1, rows)``."""
    array = as_numbers(f"`{name}`", values)
    if array.shape in ((rows,), (1, rows)):
        array = array.reshape(rows, 1)
    if array.ndim != 2 or len(array) != rows:
        raise ValueError(
            f"`{name}` must be ({rows}, outputs), with a row for each row of inputs, got shape "
            f"{array.shape}"
        )
    check_rows(name, array, "float64")
    return array


class _PaperWords(Words):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def option(self, name: str, value: str | None = None) -> str:
        camel = re.sub("_(.)", lambda letter: letter[1].upper(), name)
        return super().option(self._names.get(name, camel), value)


@contextlib.contextmanager
def paper_names(**names: str) -> Iterator[None]:
    """Inside the block, errors name options as the caller does: ``thin="n"``.

    Those with other `names` apart, ``step_size`` is ``stepSize``.

    Examples
    --------
    >>> with paper_names(thin="n"):
    ...     raise OptionError("thin", "a whole number", 0.5)
    Traceback (most recent call last):
    ValueError: `n` must be a whole number, got 0.5
    """
    try:
        yield
    except (OptionError, PathTakenError, DataNotKeptError) as error:
        kinds = FileExistsError, TypeError, ValueError
        kind = next(each for each in kinds if isinstance(error, each))
        raise kind(error.message(_PaperWords(names))) from None
