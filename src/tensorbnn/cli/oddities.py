"""What is odd about the rows that `fit` is given: columns without use, targets that can't be."""

import argparse
import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.cli.output import complain
from tensorbnn.tables.encoding import Encoding


def say_what_is_odd(
    options: argparse.Namespace, encoding: Encoding, x: NDArray[Any], y: NDArray[Any]
) -> None:
    """Warn of columns that are of no use, and refuse targets that are."""
    named = list(zip(encoding.columns, x.T, strict=True))
    constant = [name for name, column in named if np.ptp(column) == 0]
    if constant:
        complain(f"warning: constant in all rows, and so of no use: {', '.join(constant)}")
    for name in [name for name, column in named if len(named) > 1 and _counts(column)]:
        complain(
            f"warning: {name} only counts the rows: if it is no measurement leave it out with "
            f"--ignore {shlex.quote(name)}"
        )
    if encoding.classes is None:
        _look_at_targets(options, encoding, y)


def _counts(column: NDArray[Any]) -> bool:
    """Whether it is whole numbers that grow by one, but for rows that were left out."""
    steps = np.diff(column)
    return len(steps) > 1 and bool(
        np.all((steps >= 1) & (steps % 1 == 0)) and np.median(steps) == 1
    )


def _look_at_targets(options: argparse.Namespace, encoding: Encoding, y: NDArray[Any]) -> None:
    """Complain about targets that are classes, or the same everywhere: no noise can be learned."""
    for name, column in zip(encoding.targets, y.T, strict=False):  # standard deviations follow
        different = len(np.unique(column))
        if different == 2 and len(column) > 2 and options.task is None:
            complain(
                f"warning: {name} has only two values, but is fitted as a number: for classes use "
                "--task classification"
            )
        elif different == 1 and len(column) > 1 and not (options.likelihood or encoding.target_sds):
            raise ValueError(
                f"the target {name!r} is {column[0]:g} in all {len(column):,} rows, from which "
                "nothing can be learned: choose another --target, or say how it scatters, such as "
                "by --likelihood 'Gaussian(sd=0.1)'"
            )
