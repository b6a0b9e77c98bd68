"""Posteriors: a network, a likelihood and the user's data, checked, scaled and of one type."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_type
from tensorbnn.data import Dataset, Prepared, as_dataset, in_argument, prepare
from tensorbnn.data_checks import check_data
from tensorbnn.density import Model
from tensorbnn.engine import forward, native
from tensorbnn.engine.forward import Data
from tensorbnn.engine.native import Engine
from tensorbnn.errors import OptionError
from tensorbnn.findings import Finding
from tensorbnn.model.checks import (
    DType,
    DTypeLike,
    as_rows,
    cast,
    check_inputs,
    check_named,
    check_rows,
    named_dtype,
)
from tensorbnn.model.layers import Sigmoid, Softmax
from tensorbnn.model.layout import Layout
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling, standardization
from tensorbnn.model.shapes import check_shapes
from tensorbnn.warning import DataWarning, warn


@final
class Posterior:
    """The density that is sampled: a network and its priors, a likelihood, and data.

    Parameters
    ----------
    network
        The network and its priors. If it ends in the link of the likelihood (`Sigmoid` for
        `Bernoulli`, `Softmax` for `Categorical`, `Exp` for `Poisson`), that layer is left out,
        since the likelihood applies it.
    likelihood
        How targets scatter around the network's outputs.
    x
        Inputs ``(rows, inputs)``, or ``(rows,)`` for a network with one input. Without data the
        posterior is the prior.
    y
        Targets ``(rows,)`` or ``(rows, outputs)``; class labels ``(rows,)`` for `Categorical`, half
        as many columns as outputs for `HeteroscedasticGaussian`.
    y_sd
        Error bars: standard deviations of the targets, in the shape and unit of `y`. Their
        variances and those of the likelihood's own Gaussian noise add; likelihoods without a
        standard deviation, such as `Poisson`, refuse them.
    sample_weight
        Weights of the rows ``(rows,)``, which multiply their log-likelihoods: a row of weight 2
        counts as two equal rows, a row of weight 0 does not count.
    standardize
        Whether to shift and scale the columns of `x` to mean 0 and standard deviation 1, and those
        of `y`, with `y_sd`, if targets are real numbers (`Gaussian`). Constant columns are only
        shifted. The priors, and numbers of the likelihood such as ``sd``, are then about these
        columns, while predictions are in your own units. A `Scaling` is used as it is.
    dtype
        ``"float32"`` (fast, enough for sampling) or ``"float64"``, or the NumPy type of that name.
    engine
        What computes the likelihood and its gradient: ``"jax"``, ``"native"`` (compiled kernels for
        the library's own layers and likelihoods), or ``"auto"``, which chooses the native engine if
        it is available, can compute the model, and is faster for its size.

    Attributes
    ----------
    engine : str
        The engine in use, ``"jax"`` or ``"native"``; it can be set.
    scaling : Scaling
        The shifts and scales of `standardize`.
    data : Dataset or None
        The rows, in your units; ``None`` without data.
    num_parameters, num_hyperparameters : int
        Lengths of theta and phi.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> network = tb.Network(tb.Dense(5), tb.Tanh(), tb.Dense(1), inputs=1)
    >>> x = np.linspace(-1, 1, 7)
    >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
    >>> posterior.num_parameters, posterior.num_hyperparameters
    (16, 8)
    >>> theta, phi = np.zeros(16), np.zeros(8)
    >>> parts = (posterior.log_likelihood, posterior.log_prior)
    >>> total = sum(part(theta, phi) for part in parts) + posterior.log_hyper_prior(phi)
    >>> bool(np.isclose(total, posterior.log_density(theta, phi)))
    True
    """

    def __init__(
        self,
        network: Network,
        likelihood: Likelihood,
        x: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        y_sd: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        standardize: bool | Scaling = False,
        dtype: DTypeLike = "float32",
        engine: Literal["auto", "jax", "native"] = "auto",
    ) -> None:
        check_type("network", network, Network, "a tb.Network")
        wanted = "a likelihood such as tb.Gaussian(sd=0.1)"
        check_type("likelihood", likelihood, Likelihood, wanted)
        self.network = _fold_link(network, likelihood)
        likelihood.columns(self.network.outputs)  # or an error, without data, too
        self.likelihood = likelihood
        self.dtype: DType = named_dtype(dtype)
        given = _given(x, y, y_sd, sample_weight, self.network)
        self.scaling = _scaling(standardize, given, likelihood, self.network)
        own = None if given is None else self._prepare(given)
        self.data = None if own is None else own.dataset
        self._arrays = None if own is None else self._arrange(own)
        self._row_likelihood = likelihood if own is None else own.likelihood
        self.engine = engine
        self.num_parameters = self.model.theta.size
        self.num_hyperparameters = self.model.phi.size
        columns = None if own is None else own.targets.shape[1]
        with precision(self.dtype):
            model = self.model
            check_shapes(self.network, model.likelihood, model.theta, model.phi, columns)

    @property
    def x(self) -> NDArray[Any] | None:
        """Inputs ``(rows, inputs)``; ``None`` for the prior."""
        return None if self.data is None else self.data.x

    @property
    def y(self) -> NDArray[Any] | None:
        """Targets in the shape they were given in; ``None`` for the prior."""
        return None if self.data is None else self.data.y

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of a prediction for one row.

        ``()`` where `y` is ``(rows,)`` and there is one output for each row, ``(outputs,)``
        otherwise.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> network, x = tb.Network(tb.Dense(1), inputs=1), [[1.0], [2.0]]
        >>> tb.Posterior(network, tb.Gaussian(), x, [1.0, 2.0]).output_shape
        ()
        >>> tb.Posterior(network, tb.Gaussian(), x, [[1.0], [2.0]]).output_shape
        (1,)
        """
        outputs = self.likelihood.columns(self.network.outputs)
        follows = outputs == 1 and self.y is not None and self.y.ndim == 1
        return () if follows else (outputs,)

    @property
    def engine(self) -> Engine:
        """What computes the likelihood and its gradient."""
        return self.model.engine

    @engine.setter
    def engine(self, engine: Literal["auto", "jax", "native"]) -> None:
        rows = 0 if self.data is None else len(self.data)
        chosen = native.choose(engine, self.network, self._row_likelihood, rows)
        self.model = Model(self.network, self._row_likelihood, chosen)

    def log_density(self, theta: ArrayLike, phi: ArrayLike) -> NDArray[Any]:
        """Log posterior density (up to the evidence) at unconstrained `theta` and `phi`."""
        with precision(self.dtype):
            return _concrete(_log_density(self.model, *self._vectors(theta, phi), self._arrays))

    def log_likelihood(self, theta: ArrayLike, phi: ArrayLike) -> NDArray[Any]:
        """``log p(D | theta, phi)``: the sum over rows; zero without data."""
        with precision(self.dtype):
            return _concrete(_log_likelihood(self.model, *self._vectors(theta, phi), self._arrays))

    def log_prior(self, theta: ArrayLike, phi: ArrayLike) -> NDArray[Any]:
        """``log p(theta | phi)``, normalized, with the log-Jacobians of positive parameters."""
        with precision(self.dtype):
            return _concrete(_log_prior(self.model, *self._vectors(theta, phi)))

    def log_hyper_prior(self, phi: ArrayLike) -> NDArray[Any]:
        """``log p(phi)``, normalized, with the log-Jacobians of positive hyper-parameters."""
        with precision(self.dtype):
            return _concrete(_log_hyper_prior(self.model, self._check("phi", phi)))

    def value_and_grad(
        self, theta: ArrayLike, phi: ArrayLike
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], NDArray[Any]]]:
        """`log_density` and its gradients with respect to `theta` and `phi`."""
        with precision(self.dtype):
            return _concrete(_value_and_grad(self.model, *self._vectors(theta, phi), self._arrays))

    def flatten(self, named: Mapping[str, ArrayLike]) -> NDArray[Any]:
        """The unconstrained theta of natural values of the network's parameters by name.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> layer = tb.Dense(1, weight_prior=tb.Normal(), bias_prior=tb.Normal())
        >>> posterior = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=tb.Hyper(0.5)))
        >>> theta = posterior.flatten({"dense_0.weights": [[2.0]], "dense_0.biases": [1.0]})
        >>> theta.tolist()
        [2.0, 1.0]
        >>> posterior.flatten_hyperparameters({"likelihood.sd": 1.0}).tolist()
        [0.0]
        """
        return self._flatten(self.model.theta, named)

    def unflatten(self, theta: ArrayLike) -> dict[str, NDArray[Any]]:
        """Natural values of the network's parameters by name, from the unconstrained theta."""
        with precision(self.dtype):
            return _concrete(self.model.theta.unflatten(self._check("theta", theta)))

    def flatten_hyperparameters(self, named: Mapping[str, ArrayLike]) -> NDArray[Any]:
        """The unconstrained phi of natural values of the hyper-parameters by name."""
        return self._flatten(self.model.phi, named)

    def unflatten_hyperparameters(self, phi: ArrayLike) -> dict[str, NDArray[Any]]:
        """Natural values of the hyper-parameters by name, from the unconstrained phi."""
        with precision(self.dtype):
            return _concrete(self.model.phi.unflatten(self._check("phi", phi)))

    def _prepare(self, dataset: Dataset) -> Prepared:
        """Rows, checked, in the units and the type of the model."""
        return prepare(dataset, self.network, self.likelihood, self.scaling, self.dtype)

    def _prepare_own(self) -> Prepared:
        """The training rows of this posterior; an error for the prior."""
        if self.data is None:
            raise ValueError(
                "`posterior` has no data to train on: build it as "
                "tb.Posterior(network, likelihood, x, y)"
            )
        return self._prepare(self.data)

    def _prepare_validation(self, validation: Dataset | tuple[ArrayLike, ArrayLike]) -> Prepared:
        """The rows that the user gave as `validation`."""
        dataset = as_dataset("validation", validation)
        with in_argument("validation"):
            return self._prepare(dataset)

    def check_data(self) -> tuple[Finding, ...]:
        """Findings about the rows, such as codes for missing values; `sample` warns of them."""
        return check_data(self.data, self.likelihood, self.scaling, self.dtype)

    def _arrange(self, rows: Prepared) -> Data:
        """Rows as the engine takes them."""
        with precision(self.dtype):
            return forward.arrange(self.network, rows.inputs, rows.targets)

    def _model_of(self, rows: Prepared) -> Model:
        """The density for other rows, which may have other error bars and weights."""
        if rows.likelihood == self.model.likelihood:
            return self.model
        problem = native.unsupported(self.network, rows.likelihood)
        return Model(self.network, rows.likelihood, self.engine if problem is None else "jax")

    def __repr__(self) -> str:
        rows = "no data" if self.data is None else f"{len(self.data)} rows"
        return (
            f"Posterior({rows}, {self.num_parameters} parameters, "
            f"{self.num_hyperparameters} hyper-parameters, {self.likelihood}, {self.dtype})"
        )

    def _vectors(self, theta: ArrayLike, phi: ArrayLike) -> tuple[Array, Array]:
        return self._check("theta", theta), self._check("phi", phi)

    def _check(self, name: Literal["theta", "phi"], vector: ArrayLike) -> Array:
        vector = jnp.asarray(vector, dtype=self.dtype)
        size = self.num_parameters if name == "theta" else self.num_hyperparameters
        if vector.shape != (size,):
            raise ValueError(f"`{name}` must have shape ({size},), got {vector.shape}")
        return vector

    def _flatten(self, layout: Layout, named: Mapping[str, ArrayLike]) -> NDArray[Any]:
        with precision(self.dtype):
            values = {name: cast(np.asarray(value), self.dtype) for name, value in named.items()}
            check_named(layout, values)
            return _concrete(layout.flatten(values))


def check_posterior(posterior: object) -> None:
    """Raise if `posterior` is not a `Posterior`, or if JAX is tracing."""
    check_type("posterior", posterior, Posterior, "a tb.Posterior")
    if isinstance(jnp.zeros(()), jax.core.Tracer):
        raise TypeError(
            "networks can't be sampled or trained inside a function that JAX compiles: call this "
            "outside of jax.jit"
        )


def warn_of_data(posterior: Posterior) -> None:
    """Warn of the findings about the data of `posterior`."""
    for finding in posterior.check_data():
        warn(DataWarning(finding))


def precision(dtype: DType) -> AbstractContextManager[None]:
    """A context in which `dtype` is JAX's default floating type."""
    return jax.enable_x64(dtype == "float64")


def _concrete(result: Any) -> Any:
    """NumPy arrays, which keep their type; tracers of a JAX transformation stay as they are."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.core.Tracer) else np.asarray(leaf)[()], result
    )


def _given(
    x: ArrayLike | None,
    y: ArrayLike | None,
    y_sd: ArrayLike | None,
    sample_weight: ArrayLike | None,
    network: Network,
) -> Dataset | None:
    if x is None and y is None:
        for name, value in (("y_sd", y_sd), ("sample_weight", sample_weight)):
            if value is not None:
                raise OptionError(name, "None without `x` and `y`", np.shape(value))
        return None
    if x is None or y is None:
        known, missing = ("y", "x") if x is None else ("x", "y")
        raise ValueError(f"`{known}` is given but `{missing}` is not: give both or neither")
    check_inputs(as_rows("x", x), network)  # before rows are counted: `x` may be one row
    return Dataset(x, y, y_sd=y_sd, sample_weight=sample_weight)


def _scaling(
    standardize: bool | Scaling, given: Dataset | None, likelihood: Likelihood, network: Network
) -> Scaling:
    if isinstance(standardize, Scaling):
        _check_scaling(standardize, likelihood, network)
        return standardize
    check_type("standardize", standardize, bool, "True, False or a tb.Scaling")
    if not standardize:
        return Scaling()
    if given is None or given.y is None:
        raise ValueError("`standardize=True` needs data: give `x` and `y`, or a tb.Scaling")
    x, y = check_rows("x", given.x, "float64"), check_rows("y", given.y, "float64")
    scaled = likelihood.real_targets
    return standardization(x, y, targets=scaled, weights=given.sample_weight)


def _check_scaling(scaling: Scaling, likelihood: Likelihood, network: Network) -> None:
    for name, count, wanted in (
        ("x", len(scaling.x_scale), network.inputs),
        ("y", len(scaling.y_scale), likelihood.columns(network.outputs)),
    ):
        if count not in (0, wanted):
            raise ValueError(
                f"`standardize` scales {count} columns of `{name}`, but the network has {wanted}"
            )
    if scaling.y_scale and not likelihood.real_targets:
        raise ValueError(
            f"`standardize` scales targets, but those of a {type(likelihood).__name__} likelihood "
            "are no real numbers in some unit: leave `y_shift` and `y_scale` out"
        )


def _fold_link(network: Network, likelihood: Likelihood) -> Network:
    last = network.layers[-1]
    if likelihood.link is not None:
        if isinstance(last, likelihood.link):
            if len(network.layers) == 1:
                raise ValueError("a network needs a layer before its last activation")
            return network._without_last()
        if isinstance(last, Sigmoid | Softmax):
            raise ValueError(
                f"the network ends in {last}, but a {type(likelihood).__name__} likelihood applies "
                f"{likelihood.link.__name__} to its outputs: leave the last activation out"
            )
    return network


_log_density = jax.jit(Model.log_density, static_argnums=0)
_log_likelihood = jax.jit(Model.log_likelihood, static_argnums=0)
_log_prior = jax.jit(Model.log_prior, static_argnums=0)
_log_hyper_prior = jax.jit(Model.log_hyper_prior, static_argnums=0)
_value_and_grad = jax.jit(jax.value_and_grad(Model.log_density, argnums=(1, 2)), static_argnums=0)
