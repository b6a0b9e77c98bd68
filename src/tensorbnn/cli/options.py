"""Tables of options, which define the parser, the TOML settings and the line of a command.

An option that you don't pass is looked up in the settings, if the command has any, and then in the
defaults of the table. Names are those of Python, with dashes in flags.
"""

import argparse
import difflib
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Option:
    """One option of a command."""

    name: str  # as in Python and in settings; the flag has dashes
    help: str = ""
    type: Callable[[str], Any] = str
    default: Any = None
    kind: Literal["value", "list", "switch", "positional"] = "value"
    choices: Sequence[str] | None = None
    group: str | None = None  # the heading in the help
    required: bool = False
    path: Literal["file", "directory"] | None = None  # what a shell completes
    in_settings: bool = True
    in_line: bool = True  # whether the line that repeats a command contains it

    @property
    def flag(self) -> str:
        """The flag, such as ``--burn-in``."""
        return f"--{self.name.replace('_', '-')}"

    def add_to(self, parser: Any, *, may_be_in_settings: bool) -> None:
        """Declare the option; a missing one is ``None``, which `Command.complete` reports."""
        needs_note = self.required and (may_be_in_settings or self.kind != "positional")
        shown = f"{self.help} (required)" if needs_note else self.help
        if self.kind not in ("list", "switch") and self.default is not None:
            shown = f"{shown} (default: {_text(self.default)})".strip()
        given: dict[str, Any] = {"help": shown, "default": None}
        if self.kind == "switch":
            given["action"] = "store_true"
        else:
            given |= {"type": self._checked, "metavar": self._metavar}
        if self.kind == "list":
            given["action"] = "append"
        if self.kind == "positional":
            given["nargs"] = "?" if may_be_in_settings else None
            action = parser.add_argument(self.name, **given)
        else:
            action = parser.add_argument(self.flag, dest=self.name, **given)
        if self.path is not None:
            action.complete = self.path  # for shtab

    def read(self, value: Any) -> Any:
        """Convert a value from a settings file to the type that the command line produces."""
        if self.kind == "list":
            return [str(each) for each in value] if isinstance(value, list) else [str(value)]
        if self.kind == "switch":
            if not isinstance(value, bool):
                raise ValueError(f"must be true or false, got {value!r}")
            return value
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        try:
            return self._checked(text)
        except argparse.ArgumentTypeError as error:
            raise ValueError(str(error)) from error

    def words(self, value: Any) -> list[str]:
        """The words on a command line that set the option to this value."""
        if self.kind == "positional":
            return [str(value)]
        if value is None or value is False or value == self.default:
            return []
        if self.kind == "switch":
            return [self.flag]
        each_time = value if self.kind == "list" else [value]
        return [word for each in each_time for word in (self.flag, _text(each))]

    @property
    def _metavar(self) -> str:
        """The placeholder for its value in the help."""
        if self.kind == "positional":
            return self.name
        if self.choices is not None and len(self.choices) < 5:
            return "{" + ",".join(self.choices) + "}"
        if self.kind == "list" or self.name == "weight":
            return "COLUMN"
        known: dict[Any, str] = {whole_number: "N", whole_numbers: "N,N", Path: "PATH", str: "TEXT"}
        return known.get(self.type, "NUMBER")

    def _checked(self, text: str) -> Any:
        made = self.type(text)
        if self.choices is not None and made not in self.choices:
            raise argparse.ArgumentTypeError(
                f"must be one of {', '.join(self.choices)}, got {text!r}"
            )
        return made


@dataclass(frozen=True)
class Command:
    """One command; `run` returns the exit code."""

    name: str
    help: str
    options: tuple[Option, ...]
    run: Callable[[argparse.Namespace], int]
    description: str | None = None
    epilog: str | None = None
    formatter: type[argparse.HelpFormatter] = argparse.HelpFormatter

    @property
    def flags(self) -> dict[str, str]:
        """Flags by the names of arguments in Python."""
        return {each.name: each.flag for each in self.options if each.kind != "positional"}

    def add_to(self, commands: Any) -> None:
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=self.epilog,
            formatter_class=self.formatter,
            allow_abbrev=False,
        )
        may_be_in_settings = any(each.name == "settings" for each in self.options)
        groups: dict[str | None, Any] = {None: parser}
        for each in self.options:
            if each.group not in groups:
                groups[each.group] = parser.add_argument_group(each.group)
            each.add_to(groups[each.group], may_be_in_settings=may_be_in_settings)
        parser.set_defaults(command=self, parser=parser)

    def complete(self, given: argparse.Namespace) -> argparse.Namespace:
        """All options: as passed, otherwise from the settings, otherwise the defaults."""
        empty: dict[str, Any] = {"list": (), "switch": False}
        found = {each.name: empty.get(each.kind, each.default) for each in self.options}
        if getattr(given, "settings", None) is not None:
            found |= _read_settings(given.settings, self.options)
        found |= {name: value for name, value in vars(given).items() if value is not None}
        for each in self.options:
            if each.required and not found[each.name]:
                name = each.name if each.kind == "positional" else each.flag
                given.parser.error(f"{name} is required: {each.help}")
        return argparse.Namespace(**found)

    def line(self, options: argparse.Namespace) -> str:
        """The command line that repeats the command, including the settings."""
        words = ["tensorbnn", self.name]
        for each in self.options:
            if each.in_line:
                words += each.words(getattr(options, each.name))
        return shlex.join(words)


RUN = Option("run", "the run directory", Path, kind="positional", path="directory")
OVERWRITE = Option("overwrite", "replace what is at --out", kind="switch", in_settings=False)
DATA = Option("data", "a CSV, TSV or Parquet file", Path, kind="positional", path="file")
# Options for a single call, which the repeated command omits.
once = partial(Option, in_settings=False, in_line=False)
RESULT = (
    once("json", "print the result as JSON", kind="switch"),
    once("quiet", "show no progress", kind="switch"),
)
"""Options of every command that prints a result."""


def grouped(heading: str, *options: Option) -> Iterator[Option]:
    """Options under a heading of the help."""
    return (replace(each, group=heading) for each in options)


def other_model(purpose: str) -> tuple[Option, Option]:
    """Options for another prior or likelihood, by reweighting."""
    return (
        Option("prior", f"{purpose} this prior of weights and biases"),
        Option("likelihood", f"{purpose} this likelihood"),
    )


def _checked(
    read: Callable[[str], Any], is_good: Callable[[Any], bool], expected: str
) -> Callable[[str], Any]:
    """A function that parses a value; its error says what is expected."""

    def checked(text: str) -> Any:
        try:
            value = read(text)
        except ValueError:
            value = None
        if value is None or not is_good(value):
            raise argparse.ArgumentTypeError(f"must be {expected}, got {text!r}")
        return value

    return checked


whole_number = _checked(int, lambda _: True, "a whole number")
number = _checked(float, lambda _: True, "a number")
whole_numbers = _checked(
    lambda text: tuple(int(part) for part in text.split(",") if part.strip()),
    lambda found: all(each >= 1 for each in found),
    "whole numbers such as 50,50",
)
probabilities = _checked(
    lambda text: tuple(map(float, text.split(","))),
    lambda found: all(0 < each < 1 for each in found),
    "numbers between 0 and 1 such as 0.05,0.5,0.95",
)
fraction = _checked(float, lambda found: 0 <= found < 1, "a number such as 0.2")
UNTIL = (
    Option("rhat", "continue until R-hat of the predictions is below this", number),
    Option("ess", "continue until their effective sample size is at least this", number),
    Option("max_minutes", "stop after this many minutes", number),
    Option("max_gradients", "stop a chain after this many, with those of burn-in", whole_number),
)
"""Options for when a run stops, shared by `fit` and `resume`."""


def _read_settings(file: Path, options: Iterable[Option]) -> dict[str, Any]:
    try:
        content: Mapping[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not TOML: {error}") from error
    known = {each.name: each for each in options if each.in_settings}
    found = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"{file} has the unknown setting {key!r}: {hint}")
        try:
            found[name] = known[name].read(value)
        except ValueError as error:
            raise ValueError(f"{file}: {key} {error}") from error
    return found


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a wrong one; ``None`` if no name is similar.

    Examples
    --------
    >>> nearest("--gradients", ["--out", "--max-gradients"]), nearest("--bogus", ["--quiet"])
    ('--max-gradients', None)
    """
    listed = list(known)
    parts = [each for each in listed if name.lstrip("-") in each]
    return next(iter(parts or difflib.get_close_matches(name, listed, n=1)), None)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
