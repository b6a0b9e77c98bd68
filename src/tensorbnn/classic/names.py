"""Errors of the library in the words of the paper's interface."""

import contextlib
import re
from collections.abc import Iterator


@contextlib.contextmanager
def paper_names(**names: str) -> Iterator[None]:
    """Inside the block, errors name arguments as the caller does: ``every="n"``.

    Examples
    --------
    >>> with paper_names(every="n"):
    ...     raise ValueError("`every` must be a whole number")
    Traceback (most recent call last):
    ValueError: `n` must be a whole number
    """
    try:
        yield
    except (TypeError, ValueError, FileExistsError) as error:
        told = str(error)
        meant = re.sub(r"`([^`]+)`", lambda found: f"`{names.get(found[1], found[1])}`", told)
        if meant == told:
            raise
        raise type(error)(meant) from None
