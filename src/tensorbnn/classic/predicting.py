"""The paper's `predictor`: predictions by the networks of a saved run."""

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.classic.arguments import as_dtype, as_inputs, as_targets, paper_names
from tensorbnn.classic.layers import Layer, as_paper
from tensorbnn.classic.likelihoods import as_likelihood
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.interop.original import LAYERS, load_original, make_layer
from tensorbnn.interop.original_files import read_architecture
from tensorbnn.model import layers
from tensorbnn.model.network import Network
from tensorbnn.sampling.api import load
from tensorbnn.warning import NoiseAssumed


class predictor:
    """The networks of a run of this library or of TensorBNN.

    Parameters
    ----------
    directoryPath
        The run directory.
    dtype
        Type of the predictions.
    customLayerDict
        Your own layers by their names in ``architecture.txt`` and in the file given to `reweight`:
        subclasses of `GaussianDenseLayer` or another layer of this interface, or layers of the
        library.
    likelihood
        For a run of TensorBNN, the likelihood it was trained with, which is not in its files. For a
        run of this library, another likelihood for `reweight`.

    Attributes
    ----------
    ensemble : Ensemble
        The same networks as the ensemble of the library.
    numNetworks : int
        Number of networks.
    """

    def __init__(
        self,
        directoryPath: str | os.PathLike[str],
        dtype: Any = "float32",
        customLayerDict: Mapping[str, Any] | None = None,
        likelihood: Any = None,
    ) -> None:
        self.directoryPath, self.dtype = Path(directoryPath), as_dtype(dtype)
        self._custom = {name: _maker(each) for name, each in (customLayerDict or {}).items()}
        given = None if likelihood is None else as_likelihood(likelihood)
        if (self.directoryPath / "run.json").exists():
            known = {
                each.__name__: each
                for each in (customLayerDict or {}).values()
                if isinstance(each, type) and issubclass(each, layers.Layer)
            }
            self.ensemble: Ensemble = load(self.directoryPath, custom_objects=known)
            self.likelihood = self.ensemble.likelihood if given is None else given
        else:
            with warnings.catch_warnings():
                # The likelihood only matters to `reweight`.
                warnings.simplefilter("ignore", NoiseAssumed)
                self.ensemble = load_original(
                    self.directoryPath,
                    likelihood=given,
                    custom_objects=self._custom,
                    dtype=self.dtype,
                )
            self.likelihood = self.ensemble.likelihood
        self.numNetworks = len(self.ensemble)

    def predict(self, inputData: ArrayLike, n: int = 1) -> list[NDArray[Any]]:
        """Outputs ``(outputs, rows)`` of every n-th network for inputs ``(rows, inputDims)``."""
        rows = as_inputs("inputData", inputData, self.ensemble.network.inputs)
        found = self.ensemble.thin(n).predict(rows)._samples
        return [each.T.astype(self.dtype) for each in found]

    def reweight(
        self,
        architecture: str | os.PathLike[str] | None = None,
        trainX: ArrayLike | None = None,
        trainY: ArrayLike | None = None,
        n: int = 1,
        likelihood: Any = None,
    ) -> NDArray[Any]:
        """Weights of every n-th network for other priors, another likelihood, or both.

        You get a warning if they can't be trusted.

        Parameters
        ----------
        architecture
            A file like ``architecture.txt`` with the names of layers with other priors. It may also
            be in the run directory.
        trainX, trainY
            Training data, if the run did not keep them and `likelihood` is given.
        n
            Only every n-th network gets a weight.
        likelihood
            Another likelihood.

        Returns
        -------
        ndarray
            Weights that sum to one, ``(networks,)``.
        """
        n = check_count("n", n, least=1)
        other = self.likelihood if likelihood is None else as_likelihood(likelihood)
        if architecture is None and other == self.ensemble.likelihood:
            raise ValueError(
                "give an `architecture` with other priors, another `likelihood`, or both"
            )
        if (trainX is None) != (trainY is None):
            raise ValueError("give both `trainX` and `trainY`, or neither")
        data = None
        if trainX is not None and trainY is not None:
            rows = as_inputs("trainX", trainX, self.ensemble.network.inputs)
            data = rows, as_targets("trainY", trainY, len(rows))
        with paper_names(**{"tb.load(path, data=(x, y))": "trainX, trainY"}):
            ensemble = self.ensemble if data is None else self.ensemble._with_data(data)
            found = ensemble.reweight(
                network=None if architecture is None else self._other(Path(architecture)),
                likelihood=None if other == self.ensemble.likelihood else other,
            )
        chosen = np.asarray(found.weights)[:, ::n].ravel()
        return chosen / chosen.sum()

    def autocorrelation(self, inputData: ArrayLike, nMax: int) -> list[float]:
        """Autocorrelation of the predictions at lags 1 to `nMax`, averaged over the inputs."""
        rows = as_inputs("inputData", inputData, self.ensemble.network.inputs)
        with paper_names(max_lag="nMax"):
            found = self.ensemble.autocorrelation(rows, nMax)[1:]
            return found.reshape(nMax, -1).mean(axis=1).tolist()

    def autoCorrelationLength(self, inputData: ArrayLike, nMax: int) -> float:
        """Autocorrelation length of the predictions in networks, averaged over the inputs.

        You get a warning if they are still correlated at lag `nMax`.
        """
        rows = as_inputs("inputData", inputData, self.ensemble.network.inputs)
        with paper_names(max_lag="nMax"):
            return float(np.mean(self.ensemble.autocorrelation_time(rows, nMax)))

    def extractParameters(self) -> list[NDArray[Any]]:
        """Parameters with the networks as first axis, such as ``(networks, outputs, inputs)``."""
        flat = (_flat(each) for each in self.ensemble.parameters.values())
        return [np.stack([as_paper(network) for network in each]) for each in flat]

    def extractHyperParameters(self) -> NDArray[Any]:
        """Hyper-parameters ``(networks, hyper-parameters)``: sds, not their square roots."""
        found = [_flat(each) for each in self.ensemble.hyperparameters.values()]
        return np.stack(found, axis=1) if found else np.zeros((self.numNetworks, 0), self.dtype)

    def parameterStatistics(self) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Means and sds of each parameter over the networks."""
        found = self.extractParameters()
        return [each.mean(axis=0) for each in found], [each.std(axis=0) for each in found]

    def hyperStatistics(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means and sds of each hyper-parameter over the networks."""
        found = self.extractHyperParameters()
        return found.mean(axis=0), found.std(axis=0)

    def _other(self, architecture: Path) -> Network:
        """The network of the run, with the layers that are named in a file."""
        inside = self.directoryPath / architecture
        if not architecture.is_file() and not inside.is_file():
            raise FileNotFoundError(
                f"there is no file {architecture}, either here or in {self.directoryPath}"
            )
        names = read_architecture(architecture if architecture.is_file() else inside)
        own = self.ensemble.network
        units = list(own.units)
        link = self.ensemble.likelihood.link  # the file may name the last activation or not
        if link is not None and LAYERS.get(names[-1]) is link:
            units.append(units[-1])
        if len(names) != len(units) - 1:
            raise ValueError(
                f"{architecture} names {len(names)} layers, but the network has {len(units) - 1}: "
                f"{list(own.names)}"
            )
        unknown = sorted(set(names) - set(LAYERS) - set(self._custom))
        if unknown:
            raise ValueError(
                f"{architecture} names unknown layers, {unknown}: give them to `predictor` in "
                "`customLayerDict`"
            )
        pairs = zip(names, units[1:], strict=True)
        made = [make_layer(name, count, self._custom) for name, count in pairs]
        return Network(*made, inputs=own.inputs)


def _maker(layer: Any) -> layers.Layer | Callable[..., layers.Layer]:
    """A layer of the library, or a function that makes it from a number of units."""
    if isinstance(layer, type) and issubclass(layer, Layer):
        return lambda units: layer(inputDims=units, outputDims=units).describe()
    if isinstance(layer, Layer):
        return layer.describe()
    if isinstance(layer, layers.Layer) or callable(layer):
        return layer
    raise TypeError(f"`customLayerDict` must hold layers by name, got {layer!r}")


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    """``(chains, draws, ...)`` as ``(networks, ...)``."""
    return values.reshape(-1, *values.shape[2:])
