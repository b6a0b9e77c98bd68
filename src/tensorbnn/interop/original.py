"""Runs of TensorBNN, the code of the paper's authors, as ensembles of this library.

A run is described by the paper's model: that of its layers, whatever the original's density was
(it differed from the paper's here and there). Networks are kept as they are, with weights as
``(inputs, units)``. Of the scales of dense layers and of a learned noise, which the original keeps
as square roots, the squares are taken.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.data import pack_dataset
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import RunError
from tensorbnn.interop.original_files import OldRun, read_run
from tensorbnn.interop.original_layers import Custom, make_network
from tensorbnn.model.checks import DType, cast
from tensorbnn.model.classes import Bernoulli, Categorical
from tensorbnn.model.hyper import Hyper
from tensorbnn.model.layers import AbstractDense, Parameter
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.restore import fingerprint, new_manifest
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import MemoryStore, Store
from tensorbnn.warning import NoiseAssumed, OriginalRunWarning, warn

# The paper's "reasonable" guess of the noise.
NOISE = 0.1
# The data of a run that does not say what they were.
UNKNOWN_DATA = {"shapes": {}, "sha256": "0" * 64}


def load_original(
    path: str | os.PathLike[str],
    *,
    likelihood: Likelihood | None = None,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    custom: Custom | None = None,
    dtype: DType = "float32",
) -> Ensemble:
    """Read a run directory of TensorBNN, the code of the paper's authors, into memory.

    Every network that is whole is read, those of a last file that was never filled too. What the
    directory does not say can be given.

    Parameters
    ----------
    path
        The directory, with ``architecture.txt`` and ``summary.txt``.
    likelihood
        The likelihood of the run. Left out, it is a `Gaussian` with a learned `sd` where there is
        one among the hyper-parameters, otherwise `Bernoulli` or `Categorical` after a last sigmoid
        or softmax, otherwise a `Gaussian` whose `sd` of 0.1 is a guess, of which a warning is
        given.
    data
        Its training data ``(x, y)``, to re-weight for another likelihood and for `Ensemble.loo`.
    custom
        Layers of your own in the run by the name in ``architecture.txt``: a layer, or a class or
        function that makes it of the number of units.
    dtype
        ``"float32"``, in which TensorBNN samples, or ``"float64"``.

    Returns
    -------
    Ensemble
        An ensemble of one chain, without records of the sampler.
    """
    found = _read(path, likelihood, data, custom or {}, dtype)
    manifest = {
        "chains": 1,
        "status": "complete",
        "sample_hyperparameters": not found.held,
        "data": fingerprint(found.posterior) or UNKNOWN_DATA,
    }
    store = MemoryStore(manifest, pack_dataset(found.posterior.dataset) or None)
    _write(store, found)
    return Ensemble._from_posterior(store, found.posterior)


def import_original(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    likelihood: Likelihood | None = None,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    custom: Custom | None = None,
    dtype: DType = "float32",
    overwrite: bool = False,
) -> Ensemble:
    """Turn a run directory of TensorBNN into one of this library, for `load`.

    It can't be resumed: TensorBNN keeps nothing of its sampler. Sample anew from where it ended by
    ``tb.sample(posterior, start=ensemble)``.

    Parameters
    ----------
    old
        The directory of TensorBNN; it stays as it is.
    new
        The directory to make.
    likelihood, data, custom, dtype
        As for `load_original`. Layers of your own must be classes that `load` can be given too.
    overwrite
        Whether a run that is already at `new` may be replaced.

    Returns
    -------
    Ensemble
        The ensemble in the new directory.
    """
    found = _read(old, likelihood, data, custom or {}, dtype)
    manifest, states = _manifest(found), [{"transitions": np.asarray(0)}]
    rows = pack_dataset(found.posterior.dataset) or None
    store = DirectoryStore.create(new, manifest, rows, states, overwrite=overwrite)
    try:
        _write(store, found)
        store.write_state(0, {"transitions": np.asarray(found.networks)})
        store.update(status="complete")
    finally:
        store.close()
    return Ensemble._from_posterior(DirectoryStore(new), found.posterior)


class _Found(NamedTuple):
    """An old run in the terms of this library."""

    posterior: Posterior
    arrays: dict[str, NDArray[Any]]
    """As a store wants them, each ``(networks, ...)``."""
    networks: int
    networks_per_file: int
    held: bool
    """Whether hyper-parameters never change."""


class _Scalar(NamedTuple):
    """A hyper-parameter, and how its value is found from what is written."""

    name: str
    natural: Callable[[NDArray[Any]], NDArray[Any]]


def _read(
    path: str | os.PathLike[str],
    likelihood: Likelihood | None,
    data: tuple[ArrayLike, ArrayLike] | None,
    custom: Custom,
    dtype: DType,
) -> _Found:
    run = read_run(path)
    network = make_network(run, custom)
    scalars = list(_layer_scalars(network))
    extra = run.hypers.shape[1] - len(scalars)
    if likelihood is None:
        likelihood = _guess_likelihood(run, extra)
    elif not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"`likelihood` must be a likelihood such as tb.Gaussian(sd=0.1), got {likelihood!r}"
        )
    learned = _likelihood_scalars(likelihood)
    if extra != len(learned):
        raise RunError(
            f"the networks in {path} have {run.hypers.shape[1]} hyper-parameters, but their layers "
            f"have {len(scalars)} and {likelihood} has {len(learned)}: give the `likelihood` of "
            "the run, with tb.Hyper for what was learned, and layers of your own as they were"
        )
    posterior = Posterior(network, likelihood, *(data or (None, None)), dtype=dtype)
    _warn_of_slopes(network, run)
    parameters = zip(network.parameters.items(), run.tensors, strict=True)
    arrays = {f"parameters/{name}": _arrange(each, own) for (name, own), each in parameters}
    arrays |= {
        f"hyperparameters/{scalar.name}": scalar.natural(column)
        for scalar, column in zip([*scalars, *learned], run.hypers.T, strict=True)
    }
    networks = len(run.hypers)
    return _Found(
        posterior,
        {name: cast(each, dtype) for name, each in arrays.items()},
        networks,
        run.networks_per_file,
        networks > 1 and not np.ptp(run.hypers, axis=0).any(),
    )


def _arrange(tensor: NDArray[Any], parameter: Parameter) -> NDArray[Any]:
    """``(networks, *shape)`` of our parameter."""
    if len(parameter.shape) == 2:
        return np.ascontiguousarray(tensor.swapaxes(1, 2))
    return tensor.reshape(len(tensor), *parameter.shape)


def _layer_scalars(network: Network) -> Iterable[_Scalar]:
    kinds = dict(zip(network.names, network.layers, strict=True))
    for name, parameter in network.parameters.items():
        # Dense layers are written as square roots, slopes as they are, of either sign.
        is_dense = isinstance(kinds[name.partition(".")[0]], AbstractDense)
        for argument in parameter.prior.hypers():
            if not parameter.prior.must_be_positive(argument):
                yield _Scalar(f"{name}.{argument}", np.asarray)
            else:
                yield _Scalar(f"{name}.{argument}", np.square if is_dense else np.abs)


def _likelihood_scalars(likelihood: Likelihood) -> list[_Scalar]:
    return [
        _Scalar(
            f"likelihood.{name}", np.square if likelihood.must_be_positive(name) else np.asarray
        )
        for name in likelihood.hypers()
    ]


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
        if parameter.prior.support == "positive" and negative:
            warn(
                OriginalRunWarning(
                    f"{name} has negative values in {negative} of {len(values)} networks, which "
                    "TensorBNN does not forbid: predictions are right, but under the paper's prior "
                    "such networks are impossible"
                )
            )


def _write(store: Store, found: _Found) -> None:
    size = found.networks_per_file
    for index, first in enumerate(range(0, found.networks, size)):
        own = slice(first, first + size)
        store.write_chunk(0, index, {name: each[own] for name, each in found.arrays.items()})


def _manifest(found: _Found) -> dict[str, Any]:
    plan = Plan(
        chains=1,
        burn_in=0,
        draws=found.networks,
        every=1,
        networks_per_file=found.networks_per_file,
        seed=0,
        sample_hyperparameters=not found.held,
    )
    manifest = new_manifest(found.posterior, {"type": "TensorBNN"}, plan)
    return manifest | {
        "imported": "TensorBNN",
        "data": manifest["data"] or UNKNOWN_DATA,
        "max_gradients": None,
        "metrics": {},
        "report_every": 1,
    }
