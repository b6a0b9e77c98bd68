"""The program: its commands, and a one-line message for every error of the user.

Most commands are modules of this package with a ``COMMAND``: a table of options and a function.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import NoReturn

from tensorbnn.cli import diagnose, fit, info, predict, report, resume, reweight
from tensorbnn.cli.extras import COMPLETION, DEMO, DOCTOR, IMPORT
from tensorbnn.cli.messages import CommandLine, print_error, warnings_as_lines
from tensorbnn.cli.options import Command, nearest
from tensorbnn.errors import MetricError, RunError

# In the order of the help text.
_OF_TABLES = fit, resume, predict, diagnose, reweight, report, info
COMMANDS = (DEMO, *(each.COMMAND for each in _OF_TABLES), IMPORT, DOCTOR, COMPLETION)
# Flags for arguments that have other names in Python.
OTHER_FLAGS = {
    "until": "--ess (or --rhat)",
    "y_sd": "--target-sd",
    "sample_weight": "--weight",
    "path": "--out",
}
# Errors that the user can fix. Any other error is a bug and shows its traceback.
MISTAKES = ValueError, TypeError, ImportError, OSError, RunError, MetricError, NotImplementedError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code.

    0 for success, 1 for failure, 2 for wrong options, 3 from `diagnose` and `reweight` if the
    result can't be trusted, 130 if the command was interrupted, 143 if it was stopped by SIGTERM.
    """
    parser = make_parser()
    parser.check_names(sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(arguments)
    command: Command = given.command
    flags = {name: flag for each in COMMANDS for name, flag in each.flags.items()}
    words = CommandLine(flags | OTHER_FLAGS | command.flags)
    try:
        options = command.complete(given)
        options.words = words
        with warnings_as_lines(words):
            return command.run(options)
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MISTAKES as error:
        print_error(error, words)
        return 1
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with 2."""
        text = re.sub(r"^argument ([^:]+): (?=must)", r"\1 ", message).removeprefix("argument ")
        text = text.replace("the following arguments are required", "missing arguments")
        print_error(text.replace(": expected one argument", " needs a value"))
        sys.exit(2)

    def check_names(self, words: Sequence[str]) -> None:
        """Reject a command or a flag that does not exist, and suggest the most similar one."""
        commands = {each.name: each for each in COMMANDS}
        if not words:
            self.error("give a command, such as `tensorbnn fit`; `tensorbnn --help` lists them")
        name, *rest = words
        if name in ("-h", "--help", "--version"):
            return
        if name not in commands:
            kind = "option" if name.startswith("-") else "command"
            self.error(f"there is no {kind} {name}{_hint(name, commands, 'tensorbnn')}")
        flags = {*(f"--{each.name.replace('_', '-')}" for each in commands[name].options)}
        for word in rest:
            flag = word.partition("=")[0]
            if re.match(r"-+[a-zA-Z]", flag) and flag not in {"-h", "--help", *flags}:
                self.error(f"{name} has no option {flag}{_hint(flag, flags, f'tensorbnn {name}')}")


def _hint(wrong: str, known: Iterable[str], program: str) -> str:
    near = nearest(wrong, sorted(known))
    return f": did you mean {near}?" if near else f": `{program} --help` lists them"


def make_parser() -> Parser:
    """A parser for all commands and their options."""
    parser = Parser(
        allow_abbrev=False,
        prog="tensorbnn",
        description="Bayesian neural networks, sampled.",
        epilog="`tensorbnn COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"tensorbnn {version('tensorbnn')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    parser.set_defaults(program=parser)  # for shell completion
    return parser
