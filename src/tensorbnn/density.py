"""The one density: likelihood + prior + hyper-prior, over flat unconstrained vectors.

    log p(theta, phi | D) = log p(D | theta, phi)      likelihood (the paper's Eq. 7)
                          + log p(theta | phi)         prior of the network's parameters (Eq. 8)
                          + log p(phi)                 hyper-prior (Eq. 9)
                          + constant

`theta` holds the network's parameters, `phi` the hyper-parameters. They contain the logarithms of
positive quantities, and each term includes the log-Jacobian of that change of variable. The whole
library takes its log-probabilities from here.
"""

import functools
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jax import Array

from tensorbnn.engine import forward, native, perturbed, trajectory
from tensorbnn.engine.forward import Data, Outputs
from tensorbnn.engine.native import Engine
from tensorbnn.engine.trajectory import Follow
from tensorbnn.model.layout import Layout, hyper_layout, own_hypers, parameter_layout
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network


@final
@dataclass(frozen=True)
class Model:
    """The density as pure functions of ``(theta, phi, data)``; hashable, so that it compiles once.

    `data` is ``None`` for the prior. Arrays have JAX's default floating type at the time of the
    call (see `posterior.precision`). `engine` is the engine that computes the likelihood.
    """

    network: Network
    likelihood: Likelihood
    engine: Engine = "jax"

    @functools.cached_property
    def theta(self) -> Layout:
        """The place of each network parameter in theta."""
        return parameter_layout(self.network)

    @functools.cached_property
    def phi(self) -> Layout:
        """The place of each hyper-parameter in phi."""
        priors = {name: parameter.prior for name, parameter in self.network.parameters.items()}
        return hyper_layout({**priors, "likelihood": self.likelihood})

    def log_likelihood(self, theta: Array, phi: Array, data: Data | None) -> Array:
        """``log p(D | theta, phi)``; zero without data."""
        if data is None:
            return jnp.zeros((), theta.dtype)
        own = own_hypers("likelihood", self.likelihood, self.phi.unflatten(phi))
        if self.engine == "native":
            natural = self.theta.natural(theta)
            return native.log_likelihood(self.network, self.likelihood, natural, own, data)
        parameters = self.theta.unflatten(theta)
        return forward.log_likelihood(self.network, self.likelihood, parameters, own, data)

    def outputs(self, theta: Array, data: Data) -> Outputs:
        return forward.outputs(self.network, self.theta.unflatten(theta), data)

    def log_likelihood_of_outputs(self, found: Outputs, phi: Array, data: Data) -> Array:
        """`log_likelihood` as a function of phi alone, where the outputs are known."""
        own = own_hypers("likelihood", self.likelihood, self.phi.unflatten(phi))
        return forward.log_likelihood_of_outputs(self.likelihood, own, found, data)

    def mean_log_likelihood(
        self,
        key: Array,
        thetas: tuple[Array, Array, Array],
        side: Array,
        phi: Array,
        data: Data | None,
        estimator: perturbed.Estimator,
    ) -> Array:
        """An unbiased estimate of the mean of `log_likelihood` over Gaussian `thetas`.

        `thetas` are their means, their sds, and one draw, which `side` -1 reflects at the mean.
        """
        if data is None:
            return jnp.zeros((), phi.dtype)
        mean, sd, draw = map(self.theta.unflatten, thetas)
        scatter = perturbed.Scatter(mean, sd, draw, side)
        own = own_hypers("likelihood", self.likelihood, self.phi.unflatten(phi))
        return perturbed.log_likelihood(
            self.network, self.likelihood, key, scatter, own, data, estimator
        )

    def log_prior(self, theta: Array, phi: Array) -> Array:
        """``log p(theta | phi)``, log-Jacobians of theta included."""
        return self.theta.log_density(theta, self.phi.unflatten(phi))

    def log_hyper_prior(self, phi: Array) -> Array:
        """``log p(phi)``, log-Jacobians of phi included."""
        return self.phi.log_density(phi, self.phi.unflatten(phi))

    def log_density(self, theta: Array, phi: Array, data: Data | None) -> Array:
        return (
            self.log_likelihood(theta, phi, data)
            + self.log_prior(theta, phi)
            + self.log_hyper_prior(phi)
        )

    def follow(self, held_phi: Array | None, data: Data | None) -> Follow | None:
        """The native engine's leapfrog integrator of this density; ``None`` if it has none.

        It moves in the standard coordinates of theta and phi, or, with `held_phi`, of theta alone.
        """
        if self.engine != "native" or data is None:
            return None
        held = None if held_phi is None else self.phi.unflatten(held_phi)
        model = (self.network, self.likelihood, self.theta, self.phi)
        return trajectory.follow(*model, held, data)

    def start_hypers(self) -> dict[str, float]:
        """Starting values of the hyper-parameters by full name."""
        return {entry.name: float(entry.start) for entry in self.phi.entries}  # type: ignore[arg-type]
