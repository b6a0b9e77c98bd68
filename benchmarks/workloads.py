"""The four workloads, each written twice: for tensorbnn, and as a BlackJAX user would.

Networks are fully connected with tanh between the layers, the likelihood is Gaussian with a
standard deviation of 0.1, and data are random but the same in every run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from numpy.typing import NDArray

import tensorbnn as tb

NOISE = 0.1
SEED = 2009

Floats = NDArray[np.floating]
Parameters = list[dict[str, Array]]


@dataclass(frozen=True)
class Workload:
    """A network and data for it.

    With `steps` leapfrog steps, a call of one chain takes about 50 ms, so that the overhead of a
    call does not count.
    """

    name: str
    about: str
    units: tuple[int, ...]
    rows: int
    steps: int

    @property
    def flops(self) -> int:
        """Operations of a gradient: forward, by weights, and by activations except inputs."""
        pairs = list(zip(self.units[:-1], self.units[1:], strict=True))
        weights = sum(inputs * units for inputs, units in pairs)
        return 2 * self.rows * (3 * weights - pairs[0][0] * pairs[0][1])

    @property
    def tanhs(self) -> int:
        """Evaluated activations of one gradient."""
        return self.rows * sum(self.units[1:-1])

    @property
    def network(self) -> str:
        """Units of every layer, from the inputs on: ``1-10-10-10-1``."""
        return "-".join(str(units) for units in self.units)

    def data(self) -> tuple[Floats, Floats]:
        """Inputs ``(rows, inputs)`` and targets ``(rows, outputs)``."""
        rng = np.random.default_rng(SEED)
        x = rng.normal(size=(self.rows, self.units[0])).astype(np.float32)
        y = np.sin(x.sum(axis=1, keepdims=True)) + NOISE * rng.normal(size=(self.rows, 1))
        return x, y.astype(np.float32)

    def parameters(self, chains: int) -> list[dict[str, Floats]]:
        """A random point for each chain: weights ``(chains, inputs, units)`` and biases."""
        rng = np.random.default_rng(SEED + 1)
        layers = []
        for inputs, units in zip(self.units[:-1], self.units[1:], strict=True):
            weights = rng.normal(size=(chains, inputs, units)) / np.sqrt(inputs)
            biases = 0.5 * rng.normal(size=(chains, units))
            layers.append(
                {"weights": weights.astype(np.float32), "biases": biases.astype(np.float32)}
            )
        return layers


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("W1", "the paper's sparse case", (1, 10, 10, 10, 1), rows=11, steps=32_000),
        Workload("W2", "the paper's variable case", (1, 10, 10, 10, 1), rows=2055, steps=300),
        Workload("W3", "a table of the usual size", (13, 50, 50, 1), rows=1000, steps=120),
        Workload("W4", "a large table", (20, 100, 100, 100, 1), rows=10_000, steps=4),
    )
}


def posterior(workload: Workload, *, hierarchical: bool) -> tb.Posterior:
    """The posterior of tensorbnn: its default prior where `hierarchical`, otherwise N(0, 1)."""
    fixed = {"weight_prior": tb.Normal(), "bias_prior": tb.Normal()}
    priors = {} if hierarchical else fixed
    layers: list[tb.Layer] = []
    for units in workload.units[1:]:
        layers += [tb.Dense(units, **priors), tb.Tanh()]
    network = tb.Network(*layers[:-1], inputs=workload.units[0])
    return tb.Posterior(network, tb.Gaussian(sd=NOISE), *workload.data())


def plain_log_density(workload: Workload) -> Callable[[Parameters], Array]:
    """The posterior with N(0, 1) priors as a BlackJAX user writes it: rows first, a pytree."""
    x, y = (jnp.asarray(values) for values in workload.data())

    def log_density(parameters: Parameters) -> Array:
        h = x
        for layer in parameters[:-1]:
            h = jnp.tanh(h @ layer["weights"] + layer["biases"])
        outputs = h @ parameters[-1]["weights"] + parameters[-1]["biases"]
        log_likelihood = norm.logpdf(y, outputs, NOISE).sum()
        log_prior = sum(norm.logpdf(leaf).sum() for leaf in jax.tree.leaves(parameters))
        return log_likelihood + log_prior

    return log_density
