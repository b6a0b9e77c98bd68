"""What the documentation says of the command line is so: commands parse, options are all there."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from tensorbnn.cli.program import COMMANDS, make_parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
LINES = [
    line
    for text in (PAGE, (ROOT / "README.md").read_text(encoding="utf-8"))
    for line in re.findall(r"^(?:\| `)?(tensorbnn [a-z][^`\n#>]*)", text, re.MULTILINE)
]


def test_there_are_lines():
    assert len(LINES) > 15


@pytest.mark.parametrize("line", LINES)
def test_lines_of_the_page_can_be_typed(line):
    for command in line.split("&&"):
        make_parser().parse_args(shlex.split(command)[1:])


def test_every_option_is_on_the_page():
    shared = {"--help", "--out", "--seed", "--burn-in", "--chains", "--draws"}
    for module in COMMANDS:
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers()
        module.add(commands)
        ((name, own),) = commands.choices.items()
        assert f"`tensorbnn {name}" in PAGE
        options = {action.option_strings[-1] for action in own._actions if action.option_strings}
        missing = {each for each in options - shared if f"`{each}" not in PAGE}
        assert not missing, f"docs/cli.md does not tell of {missing} of {name}"
