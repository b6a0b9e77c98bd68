"""The documentation of the command line is right: commands parse, and no option is missing."""

import re
import shlex
from pathlib import Path

import pytest

from tensorbnn.cli.program import COMMANDS, make_parser

pytestmark = pytest.mark.slow

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
    shared = {"--out", "--seed", "--burn-in", "--chains", "--draws"}
    for command in COMMANDS:
        assert f"`tensorbnn {command.name}" in PAGE
        flags = {each.flag for each in command.options if each.kind != "positional"}
        missing = {each for each in flags - shared if f"`{each}" not in PAGE}
        assert not missing, f"docs/cli.md does not tell of {missing} of {command.name}"
