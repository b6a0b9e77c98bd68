"""Messages of the library in the wording of the command line, with its flags and commands."""

import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensorbnn.messages import Message, Remedy, Resume, Words, listed, use_words
from tensorbnn.tables.encoding import Encoding

REMEDIES = {
    Remedy.TWO_CHAINS: "fit again with --chains 2 or more",
    Remedy.FIND_STEPS: "fit again with a longer --burn-in, or with smaller steps (a higher "
    "--target-acceptance)",
    Remedy.LONGER_BURN_IN: "fit again with a longer --burn-in",
    Remedy.ODD_CHAIN: "look at its trace; fit again with a longer --burn-in or another --seed, and "
    "trust none of the chains until all agree",
    Remedy.SEPARATE_MODES: "run longer (tensorbnn resume), or fit again with a longer --burn-in; "
    "if they stay apart they are in different modes: fit a smaller network "
    "(--hidden-layer-sizes), or with another --seed",
    Remedy.SAMPLE_OTHER: "fit the other model",
    Remedy.SAMPLE_OTHER_FROM_HERE: "fit it with `tensorbnn fit`",
    Remedy.SAFER_STEPS: "fit again with smaller steps (a higher --target-acceptance)",
    Remedy.SMALLER_STEPS: "fit again with smaller steps (a higher --target-acceptance)",
    Remedy.STANDARDIZE: "change the unit",
    Remedy.MISSING_VALUES: "leave such cells empty, and use --missing drop, or add a column of 0 "
    "and 1 that says where",
    Remedy.LEAVE_COLUMN_OUT: "leave out what never varies with --ignore",
    Remedy.KEEP_ONE_COLUMN: "keep one of them, and leave out the others with --ignore",
    Remedy.NO_MEASUREMENT: "if it is not a measurement, leave it out with --ignore",
    Remedy.CATEGORIES: "if their order means nothing, use --categorical",
    Remedy.VARYING_TARGETS: "choose another --target, or say how it scatters, such as with "
    "--likelihood 'Gaussian(sd=0.1)'",
    Remedy.NOISE_FLOOR: "fix it, such as by --likelihood 'Gaussian(sd=0.01)', or give it a prior "
    "with a floor, such as by --likelihood 'Gaussian(sd=Uniform(0.01, 1))'",
    Remedy.OTHER_PRIOR: "give a wider prior (--prior or --likelihood)",
    Remedy.LEARN_NOISE: "learn it with --likelihood gaussian",
    Remedy.UNEVEN_NOISE: "try --likelihood heteroscedasticgaussian",
    Remedy.HEAVY_TAILS: "try --likelihood studenttnoise",
    Remedy.FINER_TYPE: "give a larger sd",
    Remedy.READ: "tensorbnn info, diagnose, predict and report can read it meanwhile",
}


@dataclass(frozen=True)
class CommandLine(Words):
    """The wording of a command."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """Keyed by the names of arguments in Python."""
    points: Sequence[str] = ()
    """Names of the rows at which predictions are compared."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the columns of ``x`` and ``y``."""
    rows: Sequence[int] = ()
    """Numbers of the training rows in the user's table."""

    def of_table(self, encoding: Encoding | None, rows: Sequence[int] = ()) -> "CommandLine":
        """A copy with the names of the table's columns, if the run was made from a table."""
        if encoding is None:
            return self
        names = {"x": encoding.columns, "y": encoding.targets}
        return replace(self, names=names, rows=rows)

    def option(self, name: str, value: str | None = None) -> str:
        """The flag of an option, with its value if given; if it has no flag, its name in Python."""
        if name not in self.flags:
            return super().option(name, value)
        return self.flags[name] if value is None else f"{self.flags[name]} {shlex.quote(value)}"

    def remedy(self, remedy: Remedy | Resume) -> str:
        if isinstance(remedy, Remedy):
            return REMEDIES.get(remedy) or super().remedy(remedy)
        aim = "" if remedy.option is None else f" {self.option(remedy.option)} {remedy.value}"
        return f"tensorbnn resume {shlex.quote(str(remedy.path))}{aim}"

    def columns(self, argument: str, columns: Sequence[int], of: int) -> str:
        if argument not in self.names:
            return super().columns(argument, columns, of)
        return listed([self.names[argument][column] for column in columns])

    def in_row(self, row: int) -> str:
        return f" in row {self.rows[row]}" if len(self.rows) else ""

    def reading(self, path: Path) -> str:
        quoted = shlex.quote(str(path))
        return f"tensorbnn info {quoted}\n\n# or in Python\n{super().reading(path)}"

    def point(self, row: int, name: str) -> str:
        return self.points[row] if self.points else super().point(row, name)


def render(message: object, words: Words) -> str:
    """An error, a warning or a verdict as one line."""
    text = message.message(words) if isinstance(message, Message) else str(message)
    return " ".join(text.split())


def printable(text: str) -> str:
    r"""Escape control characters, which names of columns or files may contain.

    Examples
    --------
    >>> printable("flow\x1b[31m")
    'flow\\x1b[31m'
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def print_error(message: object, words: Words | None = None) -> None:
    """Print one line on standard error."""
    print(printable(f"tensorbnn: {render(message, words or CommandLine())}"), file=sys.stderr)


@contextmanager
def warnings_as_lines(words: Words) -> Iterator[None]:
    """Print each warning as a line, and repeated ones only once."""
    printed = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := render(message, words)) not in printed:
            printed.add(text)
            print_error(f"warning: {text}")

    with use_words(words), warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
