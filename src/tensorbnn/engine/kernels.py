"""Layers, priors and likelihoods of the native engine, and their numbers in its kernels.

``native/numbers.hpp`` has the same numbers; `engine.library` compares them when it loads it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from tensorbnn.model import layers, priors
from tensorbnn.model.discrete import Bernoulli, Categorical
from tensorbnn.model.hyper import Prior
from tensorbnn.model.layers import Layer
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.noise import MeasuredGaussian

DENSE: tuple[type[Layer], ...] = (layers.Dense, layers.CauchyDense)

# Activations whose derivative is a function of their output are fused with the dense layer before
# them; the others are separate stages. A `LeakyReLU` with a slope that is not positive is `SLOPED`.
IDENTITY, SLOPED = 0, 7
FUSED: dict[type[Layer], int] = {
    layers.Tanh: 1,
    layers.Sigmoid: 2,
    layers.Exp: 3,
    layers.ReLU: 4,
    layers.ELU: 5,
    layers.LeakyReLU: 6,
}
ALONE: dict[type[Layer], int] = {layers.PReLU: 8, layers.SquarePReLU: 9, layers.Softmax: 10}

LIKELIHOODS: dict[type[Likelihood], int] = {
    Gaussian: 0,
    Bernoulli: 1,
    Categorical: 2,
    MeasuredGaussian: 3,
}

# The location of a prior: the value of its argument, or the logarithm of it or of its inverse.
VALUE, LOGARITHM, NEGATIVE_LOGARITHM = 0, 1, 2


class Family(NamedTuple):
    """A prior in the kernels: its number, and the roles of its arguments."""

    number: int
    location: str
    location_kind: int
    scale: str | None
    log_constant: Callable[[float], float]
    """Logarithm of the density's constant at a scale of one, given the degrees of freedom."""


_NORMAL = Family(0, "loc", VALUE, "scale", lambda _: -0.5 * math.log(2 * math.pi))
FAMILIES: dict[type[Prior], Family] = {
    priors.Normal: _NORMAL,
    priors.LogNormal: _NORMAL,  # of the logarithm
    priors.Laplace: Family(1, "loc", VALUE, "scale", lambda _: -math.log(2)),
    priors.Cauchy: Family(2, "loc", VALUE, "scale", lambda _: -math.log(math.pi)),
    priors.StudentT: Family(
        *(3, "loc", VALUE, "scale"),
        lambda df: math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi),
    ),
    priors.Exponential: Family(4, "rate", NEGATIVE_LOGARITHM, None, lambda _: 0.0),
    priors.HalfNormal: Family(5, "scale", LOGARITHM, None, lambda _: 0.5 * math.log(2 / math.pi)),
    priors.GammaPrecision: Family(
        *(6, "width", LOGARITHM, None),
        lambda df: df / 2 * math.log(df / 2) - math.lgamma(df / 2) + math.log(2),
    ),
}

LIMITS = {
    "most_stages": 128,
    "most_hypers": 256,
    "most_entries": 512,
    "most_widths": 256,
    "most_rows_of_chains": 64,
}


def numbers() -> dict[str, int]:
    """Every number of this table by its name in ``native/numbers.hpp``."""
    activations = FUSED | ALONE
    return {
        "Activation.Identity": IDENTITY,
        "Activation.Sloped": SLOPED,
        **{f"Activation.{layer.__name__}": number for layer, number in activations.items()},
        **{f"Likelihood.{each.__name__}": number for each, number in LIKELIHOODS.items()},
        **{
            f"Family.{prior.__name__}": family.number
            for prior, family in FAMILIES.items()
            if prior is not priors.LogNormal
        },
        "LocationKind.Value": VALUE,
        "LocationKind.Logarithm": LOGARITHM,
        "LocationKind.NegativeLogarithm": NEGATIVE_LOGARITHM,
        **LIMITS,
        # How many numbers describe a stage of a network, and an entry of a prior.
        "stage_numbers": 4,
        "entry_numbers": 9,
        "entry_other_numbers": 3,
    }


def difference(compiled: dict[str, int]) -> str | None:
    """The first number in which the compiled kernels differ from this table, or ``None``."""
    table = numbers()
    for name in sorted(table.keys() | compiled.keys()):
        there, here = compiled.get(name, "missing"), table.get(name, "missing")
        if there != here:
            return f"{name} is {there} there and {here} here"
    return None
