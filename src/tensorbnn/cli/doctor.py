"""``tensorbnn doctor``: what this installation computes with."""

import argparse

from tensorbnn.cli.options import RESULT, Command
from tensorbnn.cli.output import print_result
from tensorbnn.doctor import doctor


def run(options: argparse.Namespace) -> int:
    """Say it in words, which are the same for scripts."""
    found = doctor()
    print_result(options, found, found)
    return 0


COMMAND = Command("doctor", "say what this installation computes with", RESULT, run)
