"""The network of a TensorBNN run, from the names of its layers and the shapes of its tensors."""

from collections.abc import Callable, Mapping
from typing import Any

from tensorbnn.errors import RunError
from tensorbnn.interop.original_files import OldRun
from tensorbnn.model import layers
from tensorbnn.model.layers import Layer, Parameter
from tensorbnn.model.network import Network

# The layers of TensorBNN by the names in its architecture files.
LAYERS: dict[str, type[Layer]] = {
    "denseGaussian": layers.GaussianDense,
    "dense": layers.CauchyDense,
    "Exp": layers.Exp,
    "relu": layers.ReLU,
    "sigmoid": layers.Sigmoid,
    "tanh": layers.Tanh,
    "elu": layers.ELU,
    "softmax": layers.Softmax,
    "leakyrelu": layers.LeakyReLU,
    "prelu": layers.PReLU,
    "squareprelu": layers.SquarePReLU,
}

Custom = Mapping[str, Layer | Callable[..., Layer]]
"""Layers by name: a layer, a layer's class, or a function of the number of units."""


def make_network(run: OldRun, custom: Custom) -> Network:
    """The network whose layers and shapes are written."""
    shapes = [each.shape[1:] for each in run.tensors]
    inputs = units = shapes[0][-1]
    made, used = [], 0
    for number, name in enumerate(run.names):
        rows = shapes[used][0] if used < len(shapes) else units
        layer = make_layer(name, rows, custom)
        own = list(layer.parameters(units).values())
        for parameter in own:
            shape = shapes[used] if used < len(shapes) else None
            if shape is None or not _fits(shape, parameter):
                raise RunError(
                    f"layer {number} of architecture.txt, {name!r}, has a parameter of shape "
                    f"{_written(parameter)}, but summary.txt has {shape or 'nothing'} for it"
                )
            used += 1
        units = layer.outputs(units)
        made.append(layer)
    if used < len(shapes):
        raise RunError(
            f"summary.txt has {len(shapes)} tensors, but the layers {list(run.names)} have {used}: "
            "is a layer of your own missing from `custom`?"
        )
    return Network(*made, inputs=inputs)


def make_layer(name: str, units: int, custom: Custom) -> Layer:
    """The layer of that name, of `units` units if it is dense.

    Examples
    --------
    >>> make_layer("tanh", 5, {}), make_layer("mine", 5, {"mine": layers.CauchyDense}).units
    (Tanh(), 5)
    """
    if name not in custom and name not in LAYERS:
        raise ValueError(
            f"there is a layer of another name, {name!r}: say what it is, such as "
            f"custom={{{name!r}: tb.GaussianDense}}"
        )
    maker: Any = custom[name] if name in custom else LAYERS[name]
    if isinstance(maker, Layer):
        return maker
    if isinstance(maker, type):
        has_units = "units" in getattr(maker, "__dataclass_fields__", {})
        made: Any = maker(units) if has_units else maker()
    else:
        made = maker(units)
    if not isinstance(made, Layer):
        raise TypeError(f"`custom` must make a tb.Layer of {name!r}, but it made {made!r}")
    return made


def _written(parameter: Parameter) -> tuple[int, ...]:
    """The shape in which a parameter is written: units first."""
    shape = parameter.shape
    return (*shape, 1) if len(shape) == 1 else shape[::-1]


def _fits(shape: tuple[int, ...], parameter: Parameter) -> bool:
    return shape in (_written(parameter), parameter.shape[:1] if len(parameter.shape) == 1 else ())
