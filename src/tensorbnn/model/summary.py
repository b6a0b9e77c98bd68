"""One-line summaries of models and samplers."""

from collections.abc import Mapping
from typing import Any

from tensorbnn.model.hyper import Hyper, Parametric
from tensorbnn.model.network import Network


def summary(part: Any) -> str:
    """One line for a network, a prior, a likelihood, or a sampler as ``run.json`` describes it.

    Priors of a network and tuned options of a sampler are left out. A ``~`` marks a number that is
    sampled, and is followed by its prior.

    Examples
    --------
    >>> from tensorbnn.model.layers import Dense, Tanh
    >>> from tensorbnn.model.likelihoods import Gaussian
    >>> from tensorbnn.model.priors import Normal
    >>> summary(Network(Dense(5), Tanh(), Dense(1), inputs=2))
    '2 inputs → Dense(5) → Tanh → Dense(1)'
    >>> summary(Normal(0.0, Hyper(1.0, Normal(1.0, 0.1)))), summary(Gaussian([0.1, Hyper(0.3)]))
    ('Normal(loc 0, scale ~ Normal(loc 1, scale 0.1))', 'Gaussian(sd.0 0.1, sd.1 ~ around 0.3)')
    >>> summary({"type": "HMC", "step_size": None, "target_acceptance": 0.9})
    'HMC(target_acceptance 0.9)'
    """
    if isinstance(part, Network):
        plural = "" if part.inputs == 1 else "s"
        units = [getattr(layer, "units", None) for layer in part.layers]
        layers = [
            _call(type(layer).__name__, [] if count is None else [str(count)])
            for layer, count in zip(part.layers, units, strict=True)
        ]
        return " → ".join([f"{part.inputs} input{plural}", *layers])
    if isinstance(part, Parametric):
        numbers = [f"{name} {_number(each)}" for name, each in part.numbers().items()]
        return _call(type(part).__name__, numbers)
    if isinstance(part, Mapping):
        given = [f"{name} {each}" for name, each in part.items() if name != "type" and each]
        return _call(str(part["type"]), given)
    return str(part)


def _call(name: str, inside: list[str]) -> str:
    return f"{name}({', '.join(inside)})" if inside else name


def _number(value: Any) -> str:
    if isinstance(value, Hyper):
        return f"~ around {value.start:g}" if value.prior is None else f"~ {summary(value.prior)}"
    return f"{value:g}"
