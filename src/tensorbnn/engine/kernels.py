"""What the native engine's kernels know, and the numbers by which they and Python name it.

``native/numbers.hpp`` has the same, and `engine.library` compares the two when it loads the latter.
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

# Activations whose derivative follows from their output join the dense layer before them; the
# others have a stage of their own, as has a `LeakyReLU` whose slope is not positive, as `SLOPED`.
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

# What of an argument is the location of a prior.
VALUE, LOGARITHM, NEGATIVE_LOGARITHM = 0, 1, 2


class Family(NamedTuple):
    """A prior as the kernels know it: its number, and what its arguments do."""

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
    """Every number of this table under the name that ``native/numbers.hpp`` has for it."""
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
