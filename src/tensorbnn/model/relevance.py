"""Automatic relevance determination: one scale for each input.

Neal (1996) gives the weights of each input a width of their own, so that those of an input that
does not matter can become small together. Here that width is the product of the width of the
layer's prior and a factor of the input, which is a parameter and multiplies the input itself: the
weights of ``W.T (s x)`` are ``s_i W_ij``, and their prior is ``s_i`` times as wide as that of
``W_ij``. Scales and weights are independent under the prior: no funnel stands between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from jax import Array

from tensorbnn.model.hyper import Prior
from tensorbnn.model.layers import Layer, Parameter, check_positive_prior
from tensorbnn.model.priors import HalfNormal

RELEVANCE_PRIOR = HalfNormal(1.0)


@final
@dataclass(frozen=True)
class Relevance(Layer):
    """``s_i h_i``, with one sampled scale ``s_i > 0`` for each input: how much it matters.

    It stands before a dense layer, most often the first. The parameter is named ``scales``; all of
    them start at 1. Only their ratios say something: what is common to all, the weights of the next
    layer can undo.

    Parameters
    ----------
    scale_prior
        Prior of the scales, over positive numbers.

    Examples
    --------
    >>> from tensorbnn.model.layers import Dense, Tanh
    >>> from tensorbnn.model.network import Network
    >>> network = Network(Relevance(), Dense(10), Tanh(), Dense(1), inputs=4)
    >>> network.parameters["relevance_0.scales"].shape
    (4,)
    """

    scale_prior: Prior = RELEVANCE_PRIOR

    def __post_init__(self) -> None:
        check_positive_prior(self, "scale_prior", "HalfNormal(1.0)")

    def parameters(self, inputs: int) -> dict[str, Parameter]:
        return {"scales": Parameter((inputs,), self.scale_prior, start=1.0)}

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        return parameters["scales"][:, None] * h
