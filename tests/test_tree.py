"""Files, functions and the call stack of a transition are short enough to be read."""

import ast
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensorbnn as tb
from examples.metropolis import Metropolis
from tensorbnn.sampling.chains import ChainGroup

SOURCE = Path(__file__).parents[1] / "src" / "tensorbnn"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}

MAX_FILE, MAX_FUNCTION, MAX_FRAMES = 400, 50, 9
# Longer only by the docstrings of public methods, which may have this many lines besides.
DOCUMENTED = {
    "ensemble/ensemble.py": 430,  # the methods of `tb.Ensemble`, and their signatures
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


def frames():
    """Functions of the package that are being called, the outermost first."""
    return [each.name for each in traceback.extract_stack() if SOURCE.as_posix() in each.filename]


def test_the_call_stack_of_a_transition_is_short(monkeypatch):
    """In the calling thread, which compiles, and in those that run the chains."""
    compiling, running = [], []

    @dataclass(frozen=True)
    class Traced(Metropolis):
        @staticmethod
        def step(keys, state, target):
            compiling.append(frames())
            return Metropolis.step(keys, state, target)

    monkeypatch.setattr(ChainGroup, "after_call", lambda group: running.append(frames()))
    x = np.linspace(-1, 1, 5)
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(), x, x)
    tb.sample(posterior, Traced(), chains=2, burn_in=5, draws=5, progress=False)
    assert compiling[-1] == ["sample", "run", "advance", "compile", "advance", "transition"]
    assert running[-1] == ["_work", "calls"]  # and from there `_call`, and the compiled `advance`
    # The thread is begun by `advance` of the backend; then comes `step` of the sampler.
    path = [*compiling[-1][:3], *running[-1], "_call", *compiling[-1][-2:], "step"]
    assert len(path) <= MAX_FRAMES
