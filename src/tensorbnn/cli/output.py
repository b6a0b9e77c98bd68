"""What a command prints: names and texts for people, or with ``--json`` an object for scripts.

Results go to standard output; progress, warnings and errors to standard error.
"""

import argparse
import json
import math
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np

# The exit code of a command whose result is not to be trusted.
NOT_TRUSTWORTHY = 3
# Arguments in Python, and the options that stand for them.
_OPTIONS = {
    "max_minutes": "--minutes",
    "max_gradients": "--max-gradients",
    "burn_in": "--burn-in",
    "draws": "--draws",
    "chains": "--chains",
    "every": "--every",
    "rhat": "--rhat",
    "ess": "--ess",
    "until": "--ess (or --rhat)",
}
# What the library advises in Python, and what a user of the commands can do.
_ADVICE = {
    "sample it, starting from here, by tb.sample(posterior, start=ensemble) with a posterior of "
    "the other model": "fit it anew, by `tensorbnn fit`",
    "sample the other model, by tb.sample(posterior, start=ensemble)": "fit the other model anew",
    "sample the other model, tb.sample(posterior, start=ensemble)": "fit the other model anew",
    "start them from `pretrain`, use longer trajectories, or a smaller network": "fit a smaller "
    "network (--hidden), or with another --seed",
    "sample again with": "fit again with",
    "with a longer burn-in": "with a longer --burn-in",
}
# As the library writes it: with the path alone, or with one number more.
_RESUME = re.compile(
    r"tb\.resume\('(?P<path>[^']+)'(, (?P<name>\w+)=(?P<value>[\w.+-]+))?\)"
    r"( or: tensorbnn resume '?(?P=path)'?)?"
)


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


def as_options(message: str) -> str:
    """What the library says of its arguments, said of the options that stand for them.

    Examples
    --------
    >>> as_options("`burn_in` must be ..., got -1")
    '--burn-in must be ..., got -1'
    >>> as_options("go on with tb.resume('my run', max_minutes=10)")
    "go on with tensorbnn resume 'my run' --minutes 10"
    """
    message = _RESUME.sub(_resume, message)
    for name, option in _OPTIONS.items():
        message = message.replace(f"`{name}`", option)
    for python, advice in _ADVICE.items():
        message = message.replace(python, advice)
    return message


def _resume(found: re.Match[str]) -> str:
    path, name, value = found["path"], found["name"], found["value"]
    aim = f" {_OPTIONS.get(name, name)} {value}" if name else ""
    return f"tensorbnn resume {shlex.quote(path)}{aim}"


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning of the library as a line, once: a computation may warn for each row."""
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
            complain(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
