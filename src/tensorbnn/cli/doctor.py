"""``tensorbnn doctor``: what this installation computes with."""

import argparse
from typing import Any

from tensorbnn.cli.output import add_json, print_result
from tensorbnn.doctor import doctor


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("doctor", help="say what this installation computes with")
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Say it in words, which are the same for scripts."""
    found = doctor()
    print_result(options, found, found)
    return 0
