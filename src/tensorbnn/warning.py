"""Warnings that name the user's line, from however deep inside the library they come."""

import sys
import warnings


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package that led here."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __package__
