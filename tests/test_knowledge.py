"""Which code may know what, checked in the strings and calls of the package.

Words of the command line stay in it, names of samplers stay with them, and no code searches
messages to find out what happened: errors, warnings and verdicts have types and fields.
"""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tensorbnn"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text()) for file in FILES}

COMMAND_LINE = re.compile(
    r"(?<![\w-])--[a-z][a-z-]+"
    r"|tensorbnn (fit|resume|predict|diagnose|reweight|report|info|import|demo|doctor|completion)\b"
)
SAMPLERS = re.compile(r"\b(AdaptiveHMC|GHMC|HMC|NUTS|MCLMC|SGHMC|MeanField)\b")
# The list of public names; a stylesheet, which has variables that look like flags.
NAMES_SAMPLERS = ("__init__.py",)
NAMES_FLAGS = ("report/style.py",)

SEARCHES = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "replace", "translate"),
    *("split", "rsplit", "partition", "rpartition", "find", "rfind", "index", "rindex", "count"),
}


def strings(tree):
    """Strings that are not docstrings, with their lines."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_string and id(node) not in documented:
            yield node.lineno, node.value


def found(tree, pattern):
    return [(line, match[0]) for line, text in strings(tree) for match in pattern.finditer(text)]


def said(tree):
    """Whether an expression is a message: the text of an exception or a verdict."""
    raised = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} - {None}
    raised |= {"verdict", "warning"}

    def is_raised(node):
        if isinstance(node, ast.Attribute):
            return node.attr == "verdict"
        return isinstance(node, ast.Name) and node.id in raised

    def is_text(node):
        if isinstance(node, ast.Name):
            return node.id in texts
        if isinstance(node, ast.Subscript):
            return is_text(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr == "args" and is_raised(node.value)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "message":
            return is_raised(node.func.value)
        return getattr(node.func, "id", "") in ("str", "repr") and is_raised(node.args[0])

    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_text(node.value):
            texts |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return lambda node: is_text(node) or (is_raised(node) and "verdict" in ast.unparse(node))


def parsed(tree):
    """Lines that search messages."""
    is_said = said(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides, tests = (node.left, *node.comparators), (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
            if isinstance(node.ops[0], tests) and any(map(is_said, sides)):
                yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        function, attribute = node.func, getattr(node.func, "attr", "")
        if attribute in SEARCHES and is_said(function.value):
            yield node.lineno
        by_message = len(node.args) > 1 or any(each.arg == "message" for each in node.keywords)
        if attribute == "filterwarnings" and by_message:
            yield node.lineno
        is_pattern = isinstance(function, ast.Attribute) and (
            attribute in ("search", "match", "fullmatch", "sub", "findall", "finditer")
        )
        if is_pattern and any(map(is_said, node.args)):
            yield node.lineno


@pytest.mark.parametrize("name", TREES)
def test_only_the_command_line_knows_its_words(name):
    if not name.startswith("cli/") and name not in NAMES_FLAGS:
        assert not found(TREES[name], COMMAND_LINE)


@pytest.mark.parametrize("name", TREES)
def test_samplers_are_named_where_they_are_written(name):
    if not name.startswith("inference/") and name not in NAMES_SAMPLERS:
        assert not found(TREES[name], SAMPLERS)


@pytest.mark.parametrize("name", TREES)
def test_no_code_searches_messages(name):
    assert not list(parsed(TREES[name]))


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept ValueError as error:\n    if 'first draw' in str(error): pass",
        "try: f()\nexcept ValueError as error:\n    told = str(error)\n    re.sub('a', 'b', told)",
        "try: f()\nexcept ValueError as error:\n    error.args[0].startswith('a')",
        "warnings.filterwarnings('ignore', 'stopped by')",
        "warnings.filterwarnings('ignore', message='stopped by')",
        "diagnosis.verdict.startswith('trustworthy')",
        "str(diagnosis.verdict).removeprefix('trustworthy')",
        "'; but ' in verdict",
        "text = verdict.message(words)\nPATTERN.search(text)",
    ],
)
def test_searches_are_found(code):
    assert list(parsed(ast.parse(code)))


@pytest.mark.parametrize("code", ["f('use --minutes')", "f('or: tensorbnn resume x')"])
def test_words_of_the_command_line_are_found(code):
    assert found(ast.parse(code), COMMAND_LINE)
    assert not found(ast.parse(f'def g():\n    """{code}"""'), COMMAND_LINE)
