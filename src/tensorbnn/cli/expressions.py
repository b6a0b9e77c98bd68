"""Priors and likelihoods written as in Python, ``Normal(0, Hyper(1))``, read without running it.

Only calls of the library's own priors, likelihoods and `Hyper`, with numbers as arguments, can be
written. A few lower-case words stand for what is used most.
"""

import ast
from typing import Any, TypeVar

from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import CauchyDense, Dense
from tensorbnn.model.likelihoods import Gaussian, Likelihood, for_each_column
from tensorbnn.model.robust import StudentTNoise
from tensorbnn.model.weighted import Weighted
from tensorbnn.storage.manifest import KNOWN

_T = TypeVar("_T")

PRIORS: dict[str, Prior] = {
    "gaussian": Dense(1).weight_prior,
    "cauchy": CauchyDense(1).weight_prior,
}
"""The paper's hierarchical priors."""

LEARNED_WIDTH = Hyper(0.3)
"""In units of the targets' standard deviation: around a third, give or take a factor of e."""


def read_prior(text: str) -> Prior:
    """A prior by its word or as a call.

    Examples
    --------
    >>> read_prior("Normal(0, 0.5)")
    Normal(loc=0.0, scale=0.5)
    """
    if text.lower() in PRIORS:
        return PRIORS[text.lower()]
    words = f"{', '.join(PRIORS)}, or such as 'Normal(0, 1)'"
    return _read(text, Prior, "a prior", words)  # type: ignore[type-abstract]


def learned_noise(targets: int) -> Gaussian:
    """Gaussian noise of each target that is learned."""
    return Gaussian(sd=for_each_column(LEARNED_WIDTH, targets))


def read_likelihood(text: str, targets: int = 1) -> Likelihood:
    """A likelihood by its lower-case name or as a call.

    Examples
    --------
    >>> read_likelihood("Gaussian(sd=0.1)"), read_likelihood("bernoulli")
    (Gaussian(sd=0.1), Bernoulli())
    >>> read_likelihood("Gaussian(sd=[0.1, 0.2])", targets=2)
    Gaussian(sd=(0.1, 0.2))
    """
    kinds = {
        name.lower(): known
        for name, known in KNOWN.items()
        if issubclass(known, Likelihood) and known is not Weighted  # which needs one inside
    }
    words = f"{', '.join(kinds)}, or such as 'Gaussian(sd=0.1)'"
    learned = {
        "gaussian": learned_noise(targets),
        "studenttnoise": StudentTNoise(scale=for_each_column(LEARNED_WIDTH, targets)),
    }
    if text.lower() in kinds:
        # Noise that is not known is learned.
        return learned.get(text.lower()) or kinds[text.lower()]()
    return _read(text, Likelihood, "a likelihood", words)  # type: ignore[type-abstract]


def _read(text: str, kind: type[_T], what: str, words: str) -> _T:
    try:
        found = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        reason = "" if isinstance(error, SyntaxError | RecursionError) else f" ({error})"
        raise ValueError(f"{text!r} is not {what}{reason}: use {words}") from error
    if not isinstance(found, kind):
        raise ValueError(f"{text!r} is not {what}: use {words}")
    return found


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        known = KNOWN.get(node.func.id)
        if known is None or not issubclass(known, Prior | Likelihood | Hyper):
            raise ValueError(f"{node.func.id} is not known")
        named = {each.arg: _value(each.value) for each in node.keywords if each.arg is not None}
        takes = getattr(known, "__match_args__", ())  # its fields, in order
        for name in named:
            if name not in takes:
                given = ", ".join(takes) or "nothing"
                raise ValueError(f"{known.__name__} has no {name!r}, it takes {given}")
        if len(named) == len(node.keywords):
            return known(*map(_value, node.args), **named)
    raise ValueError("only numbers and the library's own classes can be used")
