"""The model that `fit` samples; priors and likelihoods are written as in Python.

``Normal(0, Hyper(1))`` is parsed, not run. Only the library's priors and likelihoods and `Hyper`,
with numbers as arguments, are accepted. The most common ones have short lower-case names.
"""

import argparse
import ast
from typing import Any

from tensorbnn.model.discrete import Bernoulli
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import CauchyDense, Dense
from tensorbnn.model.likelihoods import Gaussian, Likelihood, for_each_column
from tensorbnn.model.noise import MeasuredGaussian, StudentTNoise
from tensorbnn.storage.manifest import KNOWN
from tensorbnn.tables.encoding import Encoding
from tensorbnn.tabular import TabularModel

PRIORS: dict[str, Prior] = {
    "gaussian": Dense(1).weight_prior,
    "cauchy": CauchyDense(1).weight_prior,
}
"""The paper's hierarchical priors."""

LEARNED_WIDTH = Hyper(0.3)
"""In units of the targets' standard deviation: near 0.3, within a factor of about e."""


def read_model(options: argparse.Namespace, encoding: Encoding) -> TabularModel:
    """The network and the likelihood that the options describe."""
    prior = read_prior(options.prior)
    return TabularModel(
        hidden_layer_sizes=options.hidden_layer_sizes,
        activation=options.activation,
        weight_prior=prior,
        bias_prior=prior,
        noise_sd=LEARNED_WIDTH,
        relevance=options.relevance,
        likelihood=_likelihood(options.likelihood, encoding),
    )


def read_prior(text: str) -> Prior:
    """Read a prior: a name, or a call.

    Examples
    --------
    >>> read_prior("Normal(0, 0.5)")
    Normal(loc=0.0, scale=0.5)
    """
    if text.lower() in PRIORS:
        return PRIORS[text.lower()]
    words = f"{', '.join(PRIORS)}, or a call such as 'Normal(0, 1)'"
    return _read(text, Prior, "a prior", words)


def read_likelihood(text: str, targets: int = 1) -> Likelihood:
    """Read a likelihood: a lower-case name, or a call.

    Examples
    --------
    >>> read_likelihood("Gaussian(sd=0.1)"), read_likelihood("bernoulli")
    (Gaussian(sd=0.1), Bernoulli())
    >>> read_likelihood("Gaussian(sd=[0.1, 0.2])", targets=2)
    Gaussian(sd=(0.1, 0.2))
    """
    kinds = {name.lower(): known for name, known in KNOWN.items() if issubclass(known, Likelihood)}
    words = f"{', '.join(kinds)}, or a call such as 'Gaussian(sd=0.1)'"
    width = for_each_column(LEARNED_WIDTH, targets)
    learned = {"gaussian": Gaussian(sd=width), "studenttnoise": StudentTNoise(scale=width)}
    if text.lower() in kinds:
        # Unknown noise is learned.
        return learned.get(text.lower()) or kinds[text.lower()]()
    return _read(text, Likelihood, "a likelihood", words)


def _likelihood(text: str | None, encoding: Encoding) -> Likelihood | None:
    """The likelihood of the option, checked against the targets."""
    if text is None:
        return None
    classes, likelihood = encoding.classes, read_likelihood(text, len(encoding.targets))
    is_measured = isinstance(likelihood, MeasuredGaussian)
    if encoding.target_sds and type(likelihood).sd_of_rows is Likelihood.sd_of_rows:
        raise ValueError(
            f"--likelihood {text} has no standard deviation to which those of --target-sd could be "
            "added: leave out one of them"
        )
    if classes is not None and not likelihood.predicts_classes:
        raise ValueError(
            f"--likelihood {text} is for numbers, but the target has classes: leave it out, or use "
            "bernoulli or categorical"
        )
    if is_measured and not encoding.target_sds:
        raise ValueError(
            f"--likelihood {text} needs the standard deviation of each target: name their columns "
            "with --target-sd, one for each --target"
        )
    if classes is None and likelihood.predicts_classes:
        raise ValueError(
            f"--likelihood {text} is for classes, but the target is a number: use --task "
            "classification, or leave it out"
        )
    if isinstance(likelihood, Bernoulli) and classes and len(classes) > 2:
        raise ValueError(
            f"--likelihood {text} is for two classes, but {encoding.targets[0]!r} has "
            f"{len(classes)}: use --likelihood categorical, or leave it out"
        )
    return likelihood


def _read(text: str, kind: type, what: str, words: str) -> Any:
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
            raise ValueError(f"{node.func.id} is unknown")
        named = {each.arg: _value(each.value) for each in node.keywords if each.arg is not None}
        takes = getattr(known, "__match_args__", ())  # its fields, in order
        for name in named:
            if name not in takes:
                given = ", ".join(takes) or "nothing"
                raise ValueError(f"{known.__name__} has no argument {name!r}, it takes {given}")
        if len(named) == len(node.keywords):
            return known(*map(_value, node.args), **named)
    raise ValueError("only numbers and classes of this library are allowed")
