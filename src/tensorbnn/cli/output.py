"""What a command prints: names and texts for people, or with ``--json`` an object for scripts.

Results go to standard output; progress, warnings and errors to standard error.
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np

from tensorbnn.report.advice import as_options

# The exit code of a command whose result is not to be trusted.
NOT_TRUSTWORTHY = 3


def add_json(parser: argparse.ArgumentParser) -> None:
    """The options that every command with a result has."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def print_result(
    options: argparse.Namespace, lines: Mapping[str, str], facts: Mapping[str, Any]
) -> None:
    """Print `facts` as JSON where that is asked for, `lines` otherwise."""
    if options.json:
        print(json.dumps(plain(facts), indent=2, allow_nan=False))
    else:
        print(text(lines))


def text(lines: Mapping[str, str]) -> str:
    """A line for each name."""
    width = max([12, *map(len, lines)])
    return "\n".join(
        f"{name:<{width}} {' '.join(value.splitlines())}".rstrip()  # a column's name may have two
        for name, value in lines.items()
    )


def plain(value: Any) -> Any:
    """`value` as JSON knows it: lists for arrays, ``None`` for what is not finite."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(each) for each in np.asarray(value, object).tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def complain(message: object) -> None:
    """One line on standard error."""
    print(f"tensorbnn: {as_options(' '.join(str(message).split()))}", file=sys.stderr)


@contextmanager
def warnings_as_lines(words: Callable[[str], str] = str) -> Iterator[None]:
    """Print each warning of the library as a line, once: a computation may warn for each row.

    `words` says it as the user of a command would.
    """
    told = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        del category, filename, lineno, file, line
        if str(message) not in told:
            told.add(str(message))
            complain(f"warning: {words(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
