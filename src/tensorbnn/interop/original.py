"""Read runs of TensorBNN, the code of the paper's authors, as ensembles of this library.

A run gets the paper's model of its layers, although the density of the original code differs from
it in some details. Networks are kept as they are, with weights as ``(inputs, units)``. The original
code writes the square roots of the scales of dense layers and of a learned noise; they are squared.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_type
from tensorbnn.data import UNKNOWN_DATA, Dataset, as_dataset, fingerprint, pack_dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import RunError
from tensorbnn.interop.original_files import OldRun, read_run
from tensorbnn.model import layers
from tensorbnn.model.checks import DTypeLike, cast
from tensorbnn.model.discrete import Bernoulli, Categorical
from tensorbnn.model.hyper import Hyper, is_positive
from tensorbnn.model.layers import AbstractDense, Layer
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.restore import new_manifest
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import MemoryStore, Store
from tensorbnn.warning import NoiseAssumed, OriginalRunWarning, warn

# The paper calls this guess of the noise "reasonable".
NOISE = 0.1
# The layers of TensorBNN by the names in its architecture files.
LAYERS: dict[str, type[Layer]] = {
    "denseGaussian": layers.Dense,
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


def load_original(
    path: str | os.PathLike[str],
    *,
    likelihood: Likelihood | None = None,
    data: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    custom_objects: Custom | None = None,
    dtype: DTypeLike = "float32",
) -> Ensemble:
    """Read a run directory of TensorBNN, the code of the paper's authors, into memory.

    All complete networks are read, also from a last file that was never filled. You can give what
    the directory does not contain.

    Parameters
    ----------
    path
        The directory, with ``architecture.txt`` and ``summary.txt``.
    likelihood
        The likelihood of the run. The default is a `Gaussian` with a learned `sd` if there is one
        among the hyper-parameters, otherwise `Bernoulli` or `Categorical` after a last sigmoid or
        softmax, otherwise a `Gaussian` with an `sd` of 0.1. The last is a guess, and you get a
        warning.
    data
        Its training data ``(x, y)`` or a `Dataset`, to re-weight for another likelihood and for
        `Ensemble.loo`.
    custom_objects
        Your own layers by their names in ``architecture.txt``: a layer, or a class or function that
        makes one from the number of units.
    dtype
        ``"float32"``, as in TensorBNN, or ``"float64"``.

    Returns
    -------
    Ensemble
        An ensemble of one chain, without statistics of the sampler.
    """
    found = _read(path, likelihood, data, custom_objects, dtype)
    manifest = {
        "chains": 1,
        "status": "complete",
        "sampler": {"type": "TensorBNN"},
        "sample_hyperparameters": not found.held,
        "data": fingerprint(found.posterior.data) or UNKNOWN_DATA,
        "output_shape": list(found.posterior.output_shape),
    }
    store = MemoryStore(manifest, pack_dataset(found.posterior.data) or None)
    _write(store, found)
    return Ensemble._from_posterior(store, found.posterior)


def import_original(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    likelihood: Likelihood | None = None,
    data: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    custom_objects: Custom | None = None,
    dtype: DTypeLike = "float32",
    overwrite: bool = False,
) -> Ensemble:
    """Convert a run directory of TensorBNN to one of this library, which `load` can read.

    The run can't be resumed, because TensorBNN does not save its sampler. To sample from where it
    ended, use ``tb.sample(posterior, start=ensemble)``.

    Parameters
    ----------
    old
        The directory of TensorBNN. It is not changed.
    new
        The directory to create.
    likelihood, data, custom_objects, dtype
        As for `load_original`. Your own layers must be classes, which you also give to `load`.
    overwrite
        Whether to replace a run that is already at `new`.

    Returns
    -------
    Ensemble
        The ensemble in the new directory.
    """
    found = _read(old, likelihood, data, custom_objects, dtype, "old")
    plan = Plan(
        chains=1,
        burn_in=0,
        draws=found.networks,
        thin=1,
        networks_per_file=found.networks_per_file,
        seed=0,
        sample_hyperparameters=not found.held,
    )
    manifest = new_manifest(found.posterior, {"type": "TensorBNN"}, plan)
    manifest |= {"imported": "TensorBNN", "data": manifest["data"] or UNKNOWN_DATA}
    states = [{"transitions": np.asarray(0)}]
    rows = pack_dataset(found.posterior.data) or None
    store = DirectoryStore.create(new, manifest, rows, states, overwrite=overwrite)
    try:
        _write(store, found)
        store.write_state(0, {"transitions": np.asarray(found.networks)})
        store.update(status="complete")
    finally:
        store.close()
    return Ensemble._from_posterior(DirectoryStore(new), found.posterior)


def make_network(run: OldRun, custom_objects: Custom) -> Network:
    """The network with the layers and shapes in the files."""
    shapes = [each.shape[1:] for each in run.tensors]
    inputs = units = shapes[0][-1]
    made, used = [], 0
    for number, name in enumerate(run.names):
        rows = shapes[used][0] if used < len(shapes) else units
        layer = make_layer(name, rows, custom_objects)
        for parameter in layer.parameters(units).values():
            shape, own_shape = shapes[used] if used < len(shapes) else None, parameter.shape
            is_column = len(own_shape) == 1
            written = (*own_shape, 1) if is_column else own_shape[::-1]  # units first
            if shape != written and not (is_column and shape == own_shape):
                raise RunError(
                    f"layer {number} of architecture.txt, {name!r}, has a parameter of shape "
                    f"{written}, but its shape in summary.txt is {shape or 'missing'}"
                )
            used += 1
        units = layer.outputs(units)
        made.append(layer)
    if used < len(shapes):
        raise RunError(
            f"summary.txt has {len(shapes)} tensors, but the layers {list(run.names)} have {used}: "
            "give your own layers as `custom_objects`"
        )
    return Network(*made, inputs=inputs)


def make_layer(name: str, units: int, custom_objects: Custom) -> Layer:
    """The layer of that name, with `units` units if it is dense.

    Examples
    --------
    >>> make_layer("tanh", 5, {}), make_layer("mine", 5, {"mine": layers.CauchyDense}).units
    (Tanh(), 5)
    """
    if name not in custom_objects and name not in LAYERS:
        raise ValueError(
            f"architecture.txt names an unknown layer, {name!r}: give it as `custom_objects`, such "
            f"as custom_objects={{{name!r}: tb.Dense}}"
        )
    maker: Any = custom_objects[name] if name in custom_objects else LAYERS[name]
    if isinstance(maker, Layer):
        return maker
    fields = getattr(maker, "__dataclass_fields__", {})
    made: Any = maker() if isinstance(maker, type) and "units" not in fields else maker(units)
    if not isinstance(made, Layer):
        raise TypeError(f"`custom_objects` must make a tb.Layer of {name!r}, but it made {made!r}")
    return made


class _Found(NamedTuple):
    """A run of TensorBNN in the terms of this library."""

    posterior: Posterior
    arrays: dict[str, NDArray[Any]]
    """As in a chunk of a store, each ``(networks, ...)``."""
    networks: int
    networks_per_file: int
    held: bool
    """Whether hyper-parameters are the same in all networks."""


# The value of a hyper-parameter from that in the files.
_Natural = Callable[[NDArray[Any]], NDArray[Any]]


def _read(
    path: str | os.PathLike[str],
    likelihood: Likelihood | None,
    data: Dataset | tuple[ArrayLike, ArrayLike] | None,
    custom_objects: Custom | None,
    dtype: DTypeLike,
    name: str = "path",
) -> _Found:
    check_type(name, path, (str, os.PathLike), "the path of a run directory of TensorBNN")
    custom_objects = {} if custom_objects is None else custom_objects
    check_type("custom_objects", custom_objects, Mapping, "a dict of layers by name")
    rows = None if data is None else as_dataset("data", data)
    run = read_run(path)
    network = make_network(run, custom_objects)
    scalars = _layer_scalars(network)
    extra = run.hypers.shape[1] - len(scalars)
    if likelihood is None:
        likelihood = _guess_likelihood(run, extra)
    elif not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"`likelihood` must be a likelihood such as tb.Gaussian(sd=0.1), got {likelihood!r}"
        )
    learned: dict[str, _Natural] = {
        f"likelihood.{name}": np.square if likelihood._must_be_positive(name) else np.asarray
        for name in likelihood.hypers()
    }
    if extra != len(learned):
        raise RunError(
            f"the networks in {path} have {run.hypers.shape[1]} hyper-parameters, but their layers "
            f"have {len(scalars)} and {likelihood} has {len(learned)}: give the `likelihood` of "
            "the run, with tb.Hyper for what was learned, and your own layers"
        )
    given: dict[str, Any] = pack_dataset(rows)
    posterior = Posterior(network, likelihood, **given, dtype=dtype)
    _warn_of_slopes(network, run)
    arrays = {}
    for (name, own), each in zip(network.parameters.items(), run.tensors, strict=True):
        is_matrix = len(own.shape) == 2
        arranged = np.ascontiguousarray(each.swapaxes(1, 2)) if is_matrix else each
        arrays[f"parameters/{name}"] = arranged.reshape(len(each), *own.shape)
    for (name, natural), each in zip((scalars | learned).items(), run.hypers.T, strict=True):
        arrays[f"hyperparameters/{name}"] = natural(each)
    arrays = {name: cast(each, posterior.dtype) for name, each in arrays.items()}
    networks = len(run.hypers)
    held = networks > 1 and not np.ptp(run.hypers, axis=0).any()
    return _Found(posterior, arrays, networks, run.networks_per_file, held)


def _layer_scalars(network: Network) -> dict[str, _Natural]:
    kinds = dict(zip(network.names, network.layers, strict=True))
    found: dict[str, _Natural] = {}
    for name, parameter in network.parameters.items():
        # Scales of dense layers are written as square roots; slopes may have either sign.
        is_dense = isinstance(kinds[name.partition(".")[0]], AbstractDense)
        for argument in parameter.prior.hypers():
            positive = np.square if is_dense else np.abs
            must_be = parameter.prior._must_be_positive(argument)
            found[f"{name}.{argument}"] = positive if must_be else np.asarray
    return found


def _guess_likelihood(run: OldRun, extra: int) -> Likelihood:
    if extra:
        return Gaussian(sd=Hyper(NOISE))
    if run.names[-1] == "sigmoid":
        return Bernoulli()
    if run.names[-1] == "softmax":
        return Categorical()
    warn(NoiseAssumed(NOISE))
    return Gaussian(sd=NOISE)


def _warn_of_slopes(network: Network, run: OldRun) -> None:
    for (name, parameter), values in zip(network.parameters.items(), run.tensors, strict=True):
        negative = int(np.sum((values < 0).reshape(len(values), -1).any(axis=1)))
        if is_positive(parameter.prior.support) and negative:
            said = (
                f"{name} has negative values in {negative} of {len(values)} networks: predictions "
                "are right, but such networks have no density under the paper's prior"
            )
            warn(OriginalRunWarning(said))


def _write(store: Store, found: _Found) -> None:
    size = found.networks_per_file
    for index, first in enumerate(range(0, found.networks, size)):
        own = slice(first, first + size)
        store.write_chunk(0, index, {name: each[own] for name, each in found.arrays.items()})
