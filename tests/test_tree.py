"""Files and functions of the package are small enough to be read."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tensorbnn"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}

MAX_FILE, MAX_FUNCTION = 350, 50
# Longer only by the docstrings of public methods, which may have this many lines besides.
DOCUMENTED = {
    "ensemble/ensemble.py": 430,  # the methods of `tb.Ensemble`, and their signatures
    "ensemble/scores.py": MAX_FILE,
    "classic/training.py": MAX_FILE,
    "sampling/api.py": MAX_FILE,
}


def lines_of_docstring(node):
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or not node.body:
        return 0
    first = node.body[0]
    is_text = ast.get_docstring(node, clean=False) is not None
    return first.end_lineno - first.lineno + 1 if is_text else 0


def code_lines(function, text):
    """Lines of a function's body, without its docstring, comments and empty lines."""
    start = function.body[0].lineno - 1 + lines_of_docstring(function)
    body = text.splitlines()[start : function.end_lineno]
    return sum(not line.strip().startswith("#") and line.strip() != "" for line in body)


def test_files_are_short():
    for file, text in FILES.items():
        lines = len(text.splitlines())
        if file in DOCUMENTED:
            assert lines > MAX_FILE, f"{file} is short by now: take it out of DOCUMENTED"
            lines -= sum(map(lines_of_docstring, ast.walk(ast.parse(text))))
        assert lines <= DOCUMENTED.get(file, MAX_FILE), file


def test_functions_are_short():
    for file, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = code_lines(node, text)
                assert length <= MAX_FUNCTION, f"{file}:{node.lineno} {node.name}: {length} lines"


def test_what_is_counted():
    text = 'def f(a):\n    """A.\n\n    B.\n    """\n    # why\n\n    return (\n        a\n    )\n'
    assert code_lines(ast.parse(text).body[0], text) == 3
    assert lines_of_docstring(ast.parse(text).body[0]) == 4
