"""Models in few words, for people to read."""

from collections.abc import Mapping
from typing import Any

from tensorbnn.model.hyper import Hyper, Parametric
from tensorbnn.model.network import Network
from tensorbnn.model.weighted import Weighted


def in_words(model: Any) -> str:
    """A prior or likelihood; ``~`` says that a number is sampled, and from what.

    Examples
    --------
    >>> from tensorbnn.model.likelihoods import Gaussian
    >>> from tensorbnn.model.priors import Normal
    >>> in_words(Normal(0.0, Hyper(1.0, Normal(1.0, 0.1)))), in_words(Gaussian(Hyper(0.3)))
    ('Normal(loc 0, scale ~ Normal(loc 1, scale 0.1))', 'Gaussian(sd ~ around 0.3)')
    >>> in_words(Weighted(Gaussian(0.1))), in_words(Gaussian([0.1, Hyper(0.3)]))
    ('Weighted(Gaussian(sd 0.1))', 'Gaussian(sd.0 0.1, sd.1 ~ around 0.3)')
    """
    if isinstance(model, Weighted):
        return f"Weighted({in_words(model.likelihood)})"
    if not isinstance(model, Parametric):
        return str(model)
    inside = [f"{name} {_number(value)}" for name, value in model.numbers().items()]
    return f"{type(model).__name__}({', '.join(inside)})" if inside else type(model).__name__


def network_in_words(network: Network) -> str:
    """Layers without their priors.

    Examples
    --------
    >>> from tensorbnn.model.layers import Dense, Tanh
    >>> network_in_words(Network(Dense(5), Tanh(), Dense(1), inputs=2))
    '2 inputs → Dense(5) → Tanh → Dense(1)'
    """
    layers = [
        f"{type(layer).__name__}({units})"
        if (units := getattr(layer, "units", None)) is not None
        else type(layer).__name__
        for layer in network.layers
    ]
    plural = "" if network.inputs == 1 else "s"
    return " → ".join([f"{network.inputs} input{plural}", *layers])


def sampler_in_words(described: Mapping[str, Any]) -> str:
    """A sampler of ``run.json``, without the options that it found by itself.

    Examples
    --------
    >>> sampler_in_words({"type": "HMC", "step_size": None, "target_acceptance": 0.9})
    'HMC(target_acceptance 0.9)'
    """
    given = [f"{name} {value}" for name, value in described.items() if name != "type" and value]
    return f"{described['type']}({', '.join(given)})" if given else str(described["type"])


def _number(value: Any) -> str:
    if isinstance(value, Hyper):
        return f"~ around {value.start:g}" if value.prior is None else f"~ {in_words(value.prior)}"
    return f"{value:g}"
