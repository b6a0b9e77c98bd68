"""What a command prints: names and texts for people, or with ``--json`` an object for scripts.

Results go to standard output; progress, warnings and errors to standard error.
"""

import argparse
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

# The exit code of a command whose result is not to be trusted.
NOT_TRUSTWORTHY = 3


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
