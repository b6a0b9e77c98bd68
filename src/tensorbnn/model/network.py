"""A network: layers in order, with named parameters and a forward pass."""

import difflib
from collections.abc import Iterator, Mapping

from jax import Array

from tensorbnn.checks import is_whole
from tensorbnn.model.layers import ACTIVATIONS, Layer, Parameter


class Network:
    """Layers in order; dimensions are checked as the network is built.

    Parameters
    ----------
    *layers
        `Layer` objects, or the names of activations (``"tanh"``).
    inputs
        Number of inputs, that is columns of ``x``.

    Attributes
    ----------
    layers : tuple of Layer
        The layers in order.
    names : tuple of str
        Their names, numbered by kind: ``dense_0``, ``tanh_0``, ``dense_1``, ...
    inputs, outputs : int
        Number of inputs and outputs.
    units : tuple of int
        Numbers of units: the inputs, then what comes out of each layer.
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

    def __init__(self, *layers: Layer | str, inputs: int) -> None:
        if not is_whole(inputs) or inputs < 1:
            raise ValueError(f"`inputs` must be a whole number of at least 1, got {inputs!r}")
        if not layers:
            raise ValueError("a network needs at least one layer, such as Dense(1)")
        self.inputs: int = int(inputs)
        self.layers: tuple[Layer, ...] = tuple(
            _as_layer(layer, position) for position, layer in enumerate(layers)
        )
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

    def without_last(self) -> "Network":
        """The same network without its last layer."""
        return Network(*self.layers[:-1], inputs=self.inputs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return (self.inputs, self.layers) == (other.inputs, other.layers)

    def __hash__(self) -> int:
        return hash((self.inputs, self.layers))

    def __repr__(self) -> str:
        layers = ", ".join(repr(layer) for layer in self.layers)
        return f"Network({layers}, inputs={self.inputs})"


def _as_layer(layer: object, position: int) -> Layer:
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
    name = layer.lower().replace("_", "")
    if name not in ACTIVATIONS:
        near = difflib.get_close_matches(name, ACTIVATIONS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ValueError(
            f"layer {position} is an unknown activation '{layer}': {hint}"
            f"choose from {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]()


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
