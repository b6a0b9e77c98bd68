"""Warnings that name the user's line, from however deep inside the library they come."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

_kept: ContextVar[list[str] | None] = ContextVar("kept", default=None)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package that led here, or keep it, within `kept`."""
    kept_here = _kept.get()
    if kept_here is not None:
        kept_here.append(message)
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


@contextlib.contextmanager
def kept() -> Iterator[list[str]]:
    """Keep what this thread warns of, for whoever has a user to tell it."""
    messages: list[str] = []
    token = _kept.set(messages)
    try:
        yield messages
    finally:
        _kept.reset(token)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __package__
