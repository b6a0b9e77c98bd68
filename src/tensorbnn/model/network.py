"""A network: layers in order, with named parameters and a forward pass."""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jax import Array

from tensorbnn.checks import is_whole
from tensorbnn.model.hyper import Prior
from tensorbnn.model.layers import Layer, Parameter, activation_named

# Of the repr of a network.
MOST_LINES, WIDTH = 6, 88


class Network:
    """Layers in order; dimensions are checked as the network is built.

    Parameters
    ----------
    *layers
        `Layer` objects, or the names of activations (``"tanh"``); ``"linear"`` adds no layer. One
        list of layers does as well.
    inputs
        Number of inputs: the columns of ``x``.

    Attributes
    ----------
    layers : tuple of Layer
        The layers in order.
    names : tuple of str
        Their names, numbered by kind: ``dense_0``, ``tanh_0``, ``dense_1``, ...
    inputs, outputs : int
        Number of inputs and outputs.
    units : tuple of int
        Numbers of units: the inputs, then the outputs of each layer.
    parameters : dict of str to Parameter
        Every parameter by full name, such as ``dense_0.weights``.

    Examples
    --------
    >>> from tensorbnn.model.layers import Dense, Tanh
    >>> network = Network(Dense(10), Tanh(), Dense(1), inputs=2)
    >>> {name: parameter.shape for name, parameter in network.parameters.items()}
    {'dense_0.weights': (2, 10), 'dense_0.biases': (10,),
     'dense_1.weights': (10, 1), 'dense_1.biases': (1,)}
    """

    def __init__(self, *layers: Layer | str | Sequence[Layer | str], inputs: int) -> None:
        if not is_whole(inputs) or inputs < 1:
            raise ValueError(f"`inputs` must be a whole number of at least 1, got {inputs!r}")
        self.inputs: int = int(inputs)
        self.layers: tuple[Layer, ...] = _as_layers(layers)
        kinds = [layer.kind for layer in self.layers]
        self.names: tuple[str, ...] = tuple(
            f"{kind}_{kinds[:place].count(kind)}" for place, kind in enumerate(kinds)
        )
        self.parameters: dict[str, Parameter] = {}
        self._parameter_names: list[tuple[str, ...]] = []
        units = [self.inputs]
        for name, layer in zip(self.names, self.layers, strict=True):
            own = _checked_parameters(name, layer, units[-1])
            self.parameters |= {f"{name}.{key}": parameter for key, parameter in own.items()}
            self._parameter_names.append(tuple(own))
            units.append(_checked_outputs(name, layer, units[-1]))
        self.units: tuple[int, ...] = tuple(units)
        self.outputs: int = units[-1]

    def apply(self, parameters: Mapping[str, Array], h: Array) -> Array:
        """Outputs ``(outputs, rows)`` for feature-major inputs `h` of shape ``(inputs, rows)``.

        `parameters` maps each full name in `Network.parameters` to its natural (constrained) value.
        """
        for _, layer, own in self.each_layer(parameters):
            h = layer.apply(own, h)
        return h

    def each_layer(
        self, parameters: Mapping[str, Array]
    ) -> Iterator[tuple[str, Layer, dict[str, Array]]]:
        """Name of each layer, the layer, and its own of `parameters`, by their short names."""
        for name, layer, keys in zip(self.names, self.layers, self._parameter_names, strict=True):
            yield name, layer, {key: parameters[f"{name}.{key}"] for key in keys}

    def _without_last(self) -> "Network":
        """The same network without its last layer."""
        return Network(*self.layers[:-1], inputs=self.inputs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return (self.inputs, self.layers) == (other.inputs, other.layers)

    def __hash__(self) -> int:
        return hash((self.inputs, self.layers))

    def __repr__(self) -> str:
        for form in (_without_defaults, _without_priors):
            lines = _lines([f"{form(layer)}," for layer in self.layers], self.inputs)
            if len(lines) <= MOST_LINES:
                return "\n".join(lines)
        note = f"    ... {len(self.layers)} layers in all ..."
        return "\n".join([*lines[: MOST_LINES - 2], note, lines[-1]])


def _lines(parts: list[str], inputs: int) -> list[str]:
    """The lines of a repr; only long layers are broken."""
    whole = [part if len(part) > WIDTH // 2 else part.replace(" ", "\0") for part in parts]
    text = f"Network({' '.join(whole)} inputs={inputs})"
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="    ", **options)
    return [line.replace("\0", " ") for line in lines]


def _without_defaults(layer: Layer) -> str:
    """A layer as it is written: ``Dense(10)``."""
    if not dataclasses.is_dataclass(layer):
        return repr(layer)
    shown = []
    for field in dataclasses.fields(layer):
        value = getattr(layer, field.name)
        if field.default is dataclasses.MISSING:
            shown.append(repr(value))
        elif value != field.default:
            shown.append(f"{field.name}={value!r}")
    return f"{type(layer).__name__}({', '.join(shown)})"


def _without_priors(layer: Layer) -> str:
    """A layer with its priors left out: ``Dense(10, weight_prior=...)``."""
    short = _without_defaults(layer)
    for value in vars(layer).values():
        if isinstance(value, Prior):
            short = short.replace(repr(value), "...")
    return short


def _as_layers(given: tuple[Any, ...]) -> tuple[Layer, ...]:
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    found = [_as_layer(layer, position) for position, layer in enumerate(given)]
    layers = tuple(layer for layer in found if layer is not None)
    if not layers:
        raise ValueError("a network needs at least one layer, such as Dense(1)")
    return layers


def _as_layer(layer: object, position: int) -> Layer | None:
    if isinstance(layer, Layer):
        try:
            hash(layer)
        except TypeError as error:
            raise TypeError(
                f"layer {position}, {layer!r}, can't be hashed ({error}): "
                "make it a frozen dataclass, with tuples in place of lists"
            ) from error
        return layer
    if isinstance(layer, type) and issubclass(layer, Layer):
        raise TypeError(f"layer {position} is a class: write {layer.__name__}(...)")
    if not isinstance(layer, str):
        raise TypeError(
            f"layer {position} must be a layer such as Dense(10) or the name of an activation "
            f"such as 'tanh', got {layer!r}"
        )
    try:
        return activation_named(layer)
    except ValueError as error:
        raise ValueError(f"layer {position} is an {error}") from None


def _checked_parameters(name: str, layer: Layer, units: int) -> dict[str, Parameter]:
    found: object = layer.parameters(units)
    if not isinstance(found, dict) or not all(
        isinstance(each, Parameter) for each in found.values()
    ):
        raise TypeError(
            f"`parameters` of {type(layer).__name__} ({name}) must return a dictionary of "
            f"tb.Parameter, such as {{'factors': tb.Parameter((3,), tb.Normal())}}, got {found!r}"
        )
    return found


def _checked_outputs(name: str, layer: Layer, units: int) -> int:
    found: object = layer.outputs(units)
    if not is_whole(found) or found < 1:
        raise ValueError(
            f"`outputs` of {type(layer).__name__} ({name}) must return a whole number of at least "
            f"1 for {units} inputs, got {found!r}"
        )
    return int(found)
