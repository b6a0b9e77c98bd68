"""The program: its commands, and one line for every mistake.

Most commands are a module here with a ``COMMAND``: the table of its options, and what runs it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from tensorbnn.cli import diagnose, fit, info, predict, report, resume, reweight
from tensorbnn.cli.extras import COMPLETION, DEMO, DOCTOR, IMPORT
from tensorbnn.cli.messages import CommandLine, print_error, warnings_as_lines
from tensorbnn.cli.options import Command
from tensorbnn.errors import MetricError, RunError

# In the order in which help lists them.
_OF_TABLES = fit, resume, predict, diagnose, reweight, report, info
COMMANDS = (DEMO, *(each.COMMAND for each in _OF_TABLES), IMPORT, DOCTOR, COMPLETION)
# What a user can do something about; all else is a mistake of ours, shown with its traceback.
MISTAKES = ValueError, TypeError, ImportError, OSError, RunError, MetricError, NotImplementedError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code.

    0 if it succeeded, 1 if it failed, 2 for options that can't be, 3 from `diagnose` and `reweight`
    where the answer is that something can't be trusted, 130 if it was interrupted. One that is
    stopped by SIGTERM exits with 143.
    """
    given = make_parser().parse_args(arguments)
    command: Command = given.command
    flags = {name: flag for each in COMMANDS for name, flag in each.flags.items()}
    words = CommandLine(flags | {"until": "--ess (or --rhat)"} | command.flags)
    try:
        options = command.complete(given)
        options.words = words
        with warnings_as_lines(words):
            return command.run(options)
    except BrokenPipeError:  # who reads the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MISTAKES as error:
        print_error(error, words)
        return 1
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="tensorbnn",
        description="Bayesian neural networks, sampled.",
        epilog="`tensorbnn COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"tensorbnn {version('tensorbnn')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    parser.set_defaults(program=parser)  # for completion
    return parser
