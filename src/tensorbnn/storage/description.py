"""Descriptions (networks, priors, likelihoods, samplers) to JSON and back.

A description is a frozen dataclass, so it is written as its class name and its fields. Reading one
back looks the name up in a fixed table and in the user's own `custom` classes; nothing else can be
named, and nothing is executed.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any

from tensorbnn.inference.adaptive_hmc import AdaptiveHMC
from tensorbnn.inference.ghmc import GHMC
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.mclmc import MCLMC
from tensorbnn.inference.mean_field import MeanField
from tensorbnn.inference.nuts import NUTS
from tensorbnn.inference.sampler import Sampler
from tensorbnn.inference.sghmc import SGHMC
from tensorbnn.model.catalogue import CLASSES
from tensorbnn.model.network import Network

SAMPLERS: tuple[type, ...] = (HMC, AdaptiveHMC, GHMC, NUTS, MCLMC, SGHMC, MeanField)
KNOWN = {known.__name__: known for known in (*CLASSES, *SAMPLERS)}


def describe(value: Any) -> Any:
    """JSON-ready description of a network, layer, prior, likelihood, sampler or plain value.

    Examples
    --------
    >>> from tensorbnn.model.hyper import Hyper
    >>> from tensorbnn.model.priors import Normal
    >>> describe(Normal(0.0, Hyper(1.0)))
    {'type': 'Normal', 'loc': 0.0, 'scale': {'type': 'Hyper', 'start': 1.0, 'prior': None}}
    """
    if isinstance(value, Network):
        described = [describe(layer) for layer in value.layers]
        return {"type": "Network", "inputs": value.inputs, "layers": described}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        _check_name(type(value))
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__} | {k: describe(v) for k, v in fields.items()}
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, tuple | list):
        return [describe(each) for each in value]
    raise TypeError(
        f"{value!r} can't be saved with a run: make a layer, prior, likelihood or sampler of your "
        "own a frozen dataclass whose fields are numbers, texts or other descriptions"
    )


def restore(description: Any, custom: Mapping[str, type]) -> Any:
    """The object that `describe` described; classes of the user's own come from `custom`."""
    unknown = sorted(_names(description) - {"Network"} - set(KNOWN) - set(custom))
    if unknown:
        wanted = ", ".join(f'"{name}": {name}' for name in unknown)
        raise ValueError(
            f"this run uses classes that the library does not know, {', '.join(unknown)}: "
            f"load it with `custom={{{wanted}}}`"
        )
    return _restore(description, custom)


def sampler_class(manifest: Mapping[str, Any]) -> type[Sampler] | None:
    """The class of a run's sampler, if it is the library's."""
    found = KNOWN.get(manifest.get("sampler", {}).get("type"), object)
    return found if issubclass(found, Sampler) else None


def _check_name(own: type) -> None:
    """Raise where a class of the user's own would be taken for one of the library's."""
    if (KNOWN | {"Network": Network}).get(own.__name__, own) is not own:
        raise TypeError(
            f"the class {own.__module__}.{own.__qualname__} can't be saved with a run: the library "
            f"has a {own.__name__}, too, which would take its place; give it another name"
        )


def _names(description: Any) -> set[str]:
    """Names of all classes in a description."""
    if isinstance(description, list):
        return set().union(*(_names(each) for each in description))
    if not isinstance(description, dict):
        return set()
    inside: set[str] = set().union(*(_names(each) for each in description.values()))
    return inside | {str(description.get("type"))}


def _restore(description: Any, custom: Mapping[str, type]) -> Any:
    if isinstance(description, list):
        return tuple(_restore(each, custom) for each in description)
    if not isinstance(description, dict):
        return description
    fields = {
        name: _restore(value, custom) for name, value in description.items() if name != "type"
    }
    name = str(description.get("type"))
    if name == "Network":
        return Network(*fields["layers"], inputs=fields["inputs"])
    cls = custom[name] if name in custom else KNOWN[name]
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"this run describes a {name} that can't be made: {error}") from error
