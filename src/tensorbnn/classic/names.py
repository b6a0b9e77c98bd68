"""Errors of the library in the words of the paper's interface."""

import contextlib
from collections.abc import Iterator, Mapping

from tensorbnn.errors import DataNotKeptError, OptionError, PathTakenError
from tensorbnn.messages import Words


class _PaperWords(Words):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def option(self, name: str, value: str | None = None) -> str:
        return super().option(self._names.get(name, name), value)


@contextlib.contextmanager
def paper_names(**names: str) -> Iterator[None]:
    """Inside the block, errors name options as the caller does: ``every="n"``.

    Examples
    --------
    >>> with paper_names(every="n"):
    ...     raise OptionError("every", "a whole number", 0.5)
    Traceback (most recent call last):
    ValueError: `n` must be a whole number, got 0.5
    """
    try:
        yield
    except (OptionError, PathTakenError, DataNotKeptError) as error:
        kinds = FileExistsError, TypeError, ValueError
        kind = next(each for each in kinds if isinstance(error, each))
        raise kind(error.message(_PaperWords(names))) from None
