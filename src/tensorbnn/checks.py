"""Checks of options: each returns the value, or raises an error that names the option.

This module checks single numbers and choices; `model/checks.py` checks arrays.
"""

import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from tensorbnn.errors import OptionError, OptionTypeError

# Compiled code holds counts in 32 bits.
LARGEST_COUNT = 2**31 - 1


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number and not a bool."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is a whole number and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_number(
    name: str,
    value: object,
    wanted: str = "a finite number",
    is_good: Callable[[float], bool] = math.isfinite,
    *,
    verb: str = "be",
) -> float:
    """A finite number that `is_good`."""
    if not is_number(value) or not is_good(value):
        raise OptionError(name, wanted, value, verb)
    return float(value)


def check_positive(name: str, value: object, *, such_as: str = "") -> float:
    """A positive finite number."""
    return check_number(name, value, "a positive number" + _example(such_as), lambda each: each > 0)


def check_fraction(name: str, value: object, *, such_as: str = "", zero: bool = False) -> float:
    """A number strictly between 0 and 1; `zero` allows 0."""
    if zero:
        return check_number(name, value, "in [0, 1)", lambda each: 0 <= each < 1, verb="lie")
    wanted = "between 0 and 1" + _example(such_as)
    return check_number(name, value, wanted, lambda each: 0 < each < 1, verb="lie")


def check_count(name: str, value: object, *, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """A whole number of at least `least`, and at most `most`."""
    if not is_whole(value) or value < least:
        raise OptionError(name, f"a whole number of at least {least}", value)
    if int(value) > most:
        raise OptionError(name, f"a whole number of at most {most}", value)
    return int(value)


def check_limit(name: str, value: object) -> float | None:
    """A positive number, or ``None`` for no limit, which infinity also means."""
    return None if value is None or value == math.inf else check_positive(name, value)


def check_choice(name: str, value: object, choices: Sequence[object]) -> Any:
    """One of some values."""
    if not any(value is each or (type(value) is type(each) and value == each) for each in choices):
        *others, last = map(repr, choices)
        raise OptionError(name, f"{', '.join(others)} or {last}", value)
    return value


def check_path(name: str, value: object) -> Path:
    """A path, as a text or as another object that stands for one."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise OptionTypeError(name, "a path", value)
    return Path(os.fspath(value))


def check_classes(name: str, value: object) -> Mapping[str, type]:
    """Classes by name; ``None`` for none."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(each, type) for each in value.values()):
        return value
    raise OptionTypeError(name, "classes by name, such as {'Mine': Mine}", value)


def check_type(name: str, value: object, kind: type | tuple[type, ...], wanted: str) -> Any:
    """An object of the type `kind`, which messages call `wanted`."""
    if not isinstance(value, kind):
        raise OptionTypeError(name, wanted, value)
    return value


def _example(such_as: str) -> str:
    return f", such as {such_as}" if such_as else ""
