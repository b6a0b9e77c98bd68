"""The paper's `network`: add layers, choose a sampler, and train."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count
from tensorbnn.classic.arguments import as_dtype, as_inputs, as_targets, paper_names
from tensorbnn.classic.layers import Layer, as_library, as_paper, draw_start
from tensorbnn.classic.likelihoods import as_likelihood, as_metrics
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.inference.adaptive_hmc import AdaptiveHMC
from tensorbnn.interop.original import LAYERS
from tensorbnn.model import layers
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior, precision
from tensorbnn.sampling.api import begin_run
from tensorbnn.storage.files import write_file

# The paper's names of options, unless they are those of the library in camel case.
_NAMES = {
    "hyper_step_size": "hyperStep",
    "hyper_num_steps": "hyperLeapfrog",
    **{
        f"num_steps_{end}": f"leapfrog{end.title()}" for end in ("start", "min", "max", "increment")
    },
}


class network:
    """A Bayesian neural network in the paper's interface.

    Parameters
    ----------
    dtype
        ``"float32"`` or ``"float64"``, or a type of NumPy or TensorFlow.
    inputDims
        Number of inputs.
    trainX, trainY
        Training data, ``(rows, inputDims)`` and ``(rows, outputs)``; a single column may be
        ``(rows,)``.
    validateX, validateY
        Data on which metrics are also reported.

    Attributes
    ----------
    ensemble : Ensemble
        The sampled networks, after `train`.

    Examples
    --------
    >>> from tensorbnn.classic import FixedGaussianLikelihood, GaussianDenseLayer, Tanh, network
    >>> x = np.linspace(-1, 1, 11)
    >>> model = network("float32", 1, x, np.sin(x), x, np.sin(x))
    >>> model.add(GaussianDenseLayer(1, 5, seed=0))
    >>> model.add(Tanh())
    >>> model.add(GaussianDenseLayer(5, 1, seed=1))
    >>> model.setupMCMC(
    ...     0.02, 0.01, 0.05, leapfrogMin=5, leapfrogStart=10, leapfrogMax=20, burnin=50
    ... )
    >>> model.train(150, 2, FixedGaussianLikelihood(sd=0.1), progress=False)
    Ensemble(50 networks: 1 chain of 50 draws)
    """

    ensemble: Ensemble

    def __init__(
        self,
        dtype: Any,
        inputDims: int,
        trainX: ArrayLike,
        trainY: ArrayLike,
        validateX: ArrayLike,
        validateY: ArrayLike,
    ) -> None:
        self.dtype = as_dtype(dtype)
        self.inputDims = check_count("inputDims", inputDims, least=1)
        self.trainX = as_inputs("trainX", trainX, self.inputDims)
        self.trainY = as_targets("trainY", trainY, len(self.trainX))
        self.validateX = as_inputs("validateX", validateX, self.inputDims)
        self.validateY = as_targets("validateY", validateY, len(self.validateX))
        self.layers: list[layers.Layer] = []
        self._names: list[str] = []
        self._start: dict[str, NDArray[Any]] = {}
        self._units = self.inputDims
        self._sampler: tuple[AdaptiveHMC, int] | None = None

    @property
    def states(self) -> list[NDArray[Any]]:
        """Parameters of the current network: weights ``(outputs, inputs)``, biases, slopes."""
        return [as_paper(each) for each in self._start.values()]

    def add(
        self, layer: Layer | layers.Layer, parameters: Sequence[ArrayLike] | None = None
    ) -> None:
        """Add a layer or an activation.

        Parameters
        ----------
        layer
            A layer of this interface or of the library.
        parameters
            Its starting values in order, instead of its own.
        """
        if not isinstance(layer, Layer | layers.Layer):
            raise TypeError(
                "`layer` must be a layer such as GaussianDenseLayer(1, 10) or Tanh(), got "
                f"{layer!r}"
            )
        described = layer.describe() if isinstance(layer, Layer) else layer
        if isinstance(layer, Layer) and layer.inputDims not in (None, self._units):
            raise ValueError(
                f"layer {len(self.layers)}, {layer.name!r}, takes {layer.inputDims} inputs, but "
                f"the layers before it have {self._units} outputs"
            )
        # Layers with the same seed start at different values.
        key = jax.random.fold_in(jax.random.key(getattr(layer, "seed", 0)), len(self.layers))
        start = draw_start(key, described, self._units, self.dtype)
        if isinstance(layer, Layer):
            start |= layer.start(self._units)
        if parameters is not None:
            start = _in_place_of(start, "parameters", parameters)
        network = Network(*self.layers, described, inputs=self.inputDims)
        for parameter, each in start.items():
            self._start[f"{network.names[-1]}.{parameter}"] = each.astype(self.dtype)
        kinds = {kind: name for name, kind in LAYERS.items()}
        name = kinds.get(type(described), type(described).__name__)
        self._names.append(layer.name if isinstance(layer, Layer) else name)
        self._units = network.outputs
        self.layers.append(described)

    def setupMCMC(
        self,
        stepSizeStart: float = 1e-3,
        stepSizeMin: float = 1e-4,
        stepSizeMax: float = 1e-2,
        stepSizeOptions: int = 40,
        leapfrogStart: int = 1000,
        leapfrogMin: int | None = None,
        leapfrogMax: int | None = None,
        leapfrogIncrement: int = 10,
        hyperStep: float | None = None,
        hyperLeapfrog: int = 100,
        burnin: int = 1000,
        cores: int = 4,
        averagingSteps: int = 10,
        a: float = 4,
        delta: float = 0.1,
        strikes: int = 50,
        randomSteps: int = 20,
        *,
        leapfogMin: int | None = None,
        leapFrogMax: int | None = None,
        hyperStepSize: float | None = None,
    ) -> None:
        """Choose the options of the sampler, which are explained in ``tb.AdaptiveHMC``.

        Parameters
        ----------
        stepSizeStart, stepSizeMin, stepSizeMax, stepSizeOptions
            Step size: first value, bounds, and number of candidates between them.
        leapfrogStart, leapfrogMin, leapfrogMax, leapfrogIncrement
            Number of leapfrog steps: first value, bounds (100 and 10000 by default), and distance
            between candidates.
        hyperStep, hyperLeapfrog
            First step size (0.01 by default) and number of steps for the hyper-parameters.
        burnin
            Epochs at the start that are not saved.
        cores
            Ignored, for old programs: the search takes no noticeable time on a single core.
        averagingSteps
            Trajectories for each candidate.
        a, delta
            Constants of the search.
        strikes
            The search starts again after this many trajectories that are all rejected.
        randomSteps
            Number of random candidates at the start of each search.
        leapfogMin, leapFrogMax, hyperStepSize
            The spellings in TensorBNN of `leapfrogMin`, `leapfrogMax` and `hyperStep`.
        """
        check_count("cores", cores, least=1)
        burn_in = check_count("burnin", burnin, least=0)
        averaging = check_count("averagingSteps", averagingSteps, least=1)
        with paper_names(**_NAMES):
            sampler = AdaptiveHMC(
                step_size_start=stepSizeStart,
                step_size_min=stepSizeMin,
                step_size_max=stepSizeMax,
                step_size_options=stepSizeOptions,
                num_steps_start=leapfrogStart,
                num_steps_min=_either(100, leapfrogMin=leapfrogMin, leapfogMin=leapfogMin),
                num_steps_max=_either(10_000, leapfrogMax=leapfrogMax, leapFrogMax=leapFrogMax),
                num_steps_increment=leapfrogIncrement,
                hyper_step_size=_either(0.01, hyperStep=hyperStep, hyperStepSize=hyperStepSize),
                hyper_num_steps=hyperLeapfrog,
                averaging_steps=averaging,
                a=float(a),
                delta=float(delta),
                k=max(burn_in // averaging, 1),
                strikes=strikes,
                random_steps=randomSteps,
            )
        self._sampler = sampler, burn_in

    def train(
        self,
        epochs: int,
        samplingStep: int,
        likelihood: Any,
        metricList: Sequence[Any] = (),
        adjustHypers: bool = True,
        scaleExp: bool = False,
        folderName: str | None = None,
        networksPerFile: int = 1000,
        displaySkip: int = 100,
        *,
        chains: int = 1,
        seed: int = 0,
        overwrite: bool = False,
        progress: bool = True,
    ) -> Ensemble:
        """Sample networks.

        Parameters
        ----------
        epochs
            Total number of epochs, burn-in included.
        samplingStep
            Epochs between two saved networks.
        likelihood
            A likelihood of this interface or of the library.
        metricList
            Metrics to report on training and validation data.
        adjustHypers
            Whether hyper-parameters are sampled; held at their start otherwise.
        scaleExp
            Whether metrics compare exponentials, whatever their own `scaleExp`.
        folderName
            Directory to save the run in; by default, the run stays in memory.
        networksPerFile
            Networks in a file.
        displaySkip
            Epochs between two reports.
        chains, seed, overwrite, progress
            As for ``tb.sample``. One chain, as in the paper, can't show whether it has converged.

        Returns
        -------
        Ensemble
            The sampled networks, which are also in `ensemble`.
        """
        if self._sampler is None:
            raise ValueError("`train` needs a sampler: call setupMCMC first")
        sampler, burn_in = self._sampler
        thin = check_count("samplingStep", samplingStep, least=1)
        draws = (check_count("epochs", epochs, least=1) - burn_in) // thin
        if draws < 1:
            raise ValueError(
                f"`epochs` ({epochs}) must be above `burnin` ({burn_in}) by at least one "
                f"`samplingStep` ({thin}): no network would be saved"
            )
        metrics = as_metrics(metricList, exp=bool(scaleExp))
        own = as_likelihood(likelihood)
        posterior = Posterior(self._network(), own, self.trainX, self.trainY, dtype=self.dtype)
        try:
            with paper_names(path="folderName", report_every="displaySkip", metrics="metricList"):
                run, backend = begin_run(
                    posterior,
                    sampler,
                    start=self._start,
                    chains=chains,
                    burn_in=burn_in,
                    draws=draws,
                    thin=thin,
                    path=folderName,
                    networks_per_file=networksPerFile,
                    metrics=metrics,
                    validation=(self.validateX, self.validateY) if metrics else None,
                    report_every=displaySkip,
                    seed=seed,
                    sample_hyperparameters=bool(adjustHypers),
                    overwrite=overwrite,
                )
                self.ensemble = run.run(backend, progress=progress)
        except (KeyboardInterrupt, SystemExit):
            self._write_architecture(folderName)
            raise
        self._write_architecture(folderName)
        parameters, _ = self.ensemble._last_draws(1)
        self._start = {name: parameters[name][0] for name in self._start}
        return self.ensemble

    def predict(self, train: bool, tensors: Sequence[ArrayLike] | None = None) -> NDArray[Any]:
        """Outputs ``(outputs, rows)`` of the current network, or with `tensors` as parameters.

        Parameters
        ----------
        train
            Whether to predict the training inputs; otherwise, the validation inputs.
        tensors
            Parameters in the order and with the shapes of `states`.
        """
        model, named = self._network(), self._start
        if tensors is not None:
            named = _in_place_of(named, "tensors", tensors)
        rows = self.trainX if train else self.validateX
        with precision(self.dtype):
            arrays = {name: jnp.asarray(each, self.dtype) for name, each in named.items()}
            return np.asarray(model.apply(arrays, jnp.asarray(rows.T, self.dtype)))

    def _network(self) -> Network:
        return Network(*self.layers, inputs=self.inputDims)

    def _write_architecture(self, folder: str | None) -> None:
        if folder is not None and (Path(folder) / "run.json").exists():
            names = "".join(f"{name}\n" for name in self._names)
            write_file(Path(folder) / "architecture.txt", names.encode())


def _in_place_of(
    own: dict[str, NDArray[Any]], name: str, given: Sequence[ArrayLike]
) -> dict[str, NDArray[Any]]:
    """The user's arrays, which have the paper's shapes, with the names and shapes of `own`."""
    if len(given) != len(own):
        raise ValueError(f"`{name}` must hold {len(own)} arrays: {list(own)}")
    return {
        key: as_library(key, array, each.shape)
        for (key, each), array in zip(own.items(), given, strict=True)
    }


def _either(default: Any, **given: Any) -> Any:
    """The value of the spelling that was used."""
    used = {name: value for name, value in given.items() if value is not None}
    if len(used) > 1:
        raise TypeError(
            f"{' and '.join(f'`{name}`' for name in used)} are the same option: give one of them"
        )
    return next(iter(used.values()), default)
