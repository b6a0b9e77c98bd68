"""Checks of the options of a sampler: each error names the option and what was given."""

import math
import numbers
from dataclasses import fields
from typing import Any

# Counts are whole numbers of 32 bits where they are compiled.
LARGEST_COUNT = 2**31 - 1


def check_positive(options: Any, *names: str) -> None:
    """Raise unless each option is a positive finite number, or left out where it may be."""
    may_be_left_out = {field.name for field in fields(options) if field.default is None}
    for name in names:
        value = getattr(options, name)
        if value is None and name in may_be_left_out:
            continue
        if not (_is_number(value) and math.isfinite(value) and value > 0):
            raise ValueError(f"`{name}` must be a positive number, got {value!r}")


def check_counts(options: Any, *names: str, least: int = 1) -> None:
    """Raise unless each option is a whole number of at least `least`, of at most 32 bits."""
    for name in names:
        value = getattr(options, name)
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not (whole and int(value) >= least):
            raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}")
        if int(value) > LARGEST_COUNT:
            raise ValueError(f"`{name}` must be at most {LARGEST_COUNT:,}, got {value!r}")


def check_between_0_and_1(options: Any, *names: str) -> None:
    """Raise unless each option lies between 0 and 1, and is neither."""
    for name in names:
        value = getattr(options, name)
        if not (_is_number(value) and 0 < value < 1):
            raise ValueError(f"`{name}` must lie between 0 and 1, got {value!r}")


def check_jitter(options: Any, *names: str) -> None:
    """Raise unless each option is at least 0 and below 1."""
    for name in names:
        value = getattr(options, name)
        if not (_is_number(value) and 0 <= value < 1):
            raise ValueError(f"`{name}` must lie in [0, 1), got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
