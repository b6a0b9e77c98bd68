"""The density in the coordinates of samplers.

A sampler's position holds the network's parameters and, if they are sampled, the
hyper-parameters, in *standard coordinates* ``z``:

    phi   = location + scale * z_phi                   (of the hyper-priors)
    theta = location(phi) + scale(phi) * z_theta       (of the priors, given phi)

so that under the prior every coordinate has a width of about one, like with a mass matrix. Since
``theta`` follows its hyper-parameters, there is no funnel between a scale and its weights.
For priors with heavy tails (Cauchy, Student-t), ``sinh(z)`` replaces ``z`` to shorten the tails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.density import Model
from tensorbnn.engine import native
from tensorbnn.engine.forward import Data
from tensorbnn.engine.trajectory import Follow


@dataclass(frozen=True)
class Density:
    """A function that returns a log-density and its gradient."""

    log_density: Callable[[Array], Array]
    follow: Follow | None = None
    """The engine's leapfrog integrator, if it has one; `hmc.leapfrog` uses it."""

    def __call__(self, position: Array) -> tuple[Array, Array]:
        return jax.value_and_grad(self.log_density)(position)


@partial(jax.tree_util.register_dataclass, data_fields=["data", "held_phi"], meta_fields=["model"])
@dataclass(frozen=True)
class TargetDensity:
    """A log-density over one flat vector; a pytree, so that its arrays are arguments when compiled.

    Attributes
    ----------
    model
        The density as pure functions; fixed when compiled.
    data
        Training data, or ``None`` for the prior.
    held_phi
        Unconstrained hyper-parameters that are held, or ``None`` if they are sampled.
    """

    model: Model
    data: Data | None
    held_phi: Array | None

    @property
    def dimension(self) -> int:
        """Length of a position."""
        return self.model.theta.size + (self.model.phi.size if self.held_phi is None else 0)

    def log_density(self, position: Array) -> Array:
        """Log-density of a position ``(dimension,)``, up to a constant."""
        theta, phi, log_prior = self._transform(position)
        return self.model.log_likelihood(theta, phi, self.data) + log_prior

    def estimate(self, position: Array, rows: Data, weight: float) -> Array:
        """Estimate of `log_density` from some rows, each with this `weight`."""
        theta, phi, log_prior = self._transform(position)
        return weight * self.model.log_likelihood(theta, phi, rows) + log_prior

    @property
    def value_and_grad(self) -> "Density":
        """`log_density` and its gradient."""
        return Density(self.log_density, self.model.follow(self.held_phi, self.data))

    def value_and_grad_given(self, phi: Array) -> "Density":
        """The density over the coordinates of theta alone, given the hyper-parameters `phi`."""
        hypers = self.model.phi.unflatten(phi)

        def log_density(z_theta: Array) -> Array:
            theta, log_prior = self.model.theta.from_standard(z_theta, hypers)
            return self.model.log_likelihood(theta, phi, self.data) + log_prior

        return Density(log_density, self.model.follow(phi, self.data))

    def batches_chains(self, chains: int) -> bool:
        """Whether one call should advance all of this many chains, rather than one call each."""
        return self.model.engine == "native" and native.along_lanes(chains, self.data)

    def vectors(self, position: Array) -> tuple[Array, Array]:
        """The unconstrained vectors ``(theta, phi)`` of a position."""
        theta, phi, _ = self._transform(position)
        return theta, phi

    def position(self, theta: Array, phi: Array) -> Array:
        """The position of unconstrained vectors: the inverse of `vectors`."""
        hypers = self.model.phi.unflatten(phi)
        z_theta = self.model.theta.to_standard(theta, hypers)
        if self.held_phi is not None:
            return z_theta
        return jnp.concatenate([z_theta, self.model.phi.to_standard(phi, hypers)])

    def named(self, position: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Natural values of the parameters and of the hyper-parameters, each by name."""
        theta, phi = self.vectors(position)
        return self.model.theta.unflatten(theta), self.model.phi.unflatten(phi)

    def _transform(self, position: Array) -> tuple[Array, Array, Array]:
        """``theta``, ``phi``, and the log-density of the position under prior and hyper-prior."""
        z_theta, z_phi = jnp.split(position, [self.model.theta.size])
        phi, log_hyper_prior = phi_of(self, z_phi)
        hypers = self.model.phi.unflatten(phi)
        theta, log_prior = self.model.theta.from_standard(z_theta, hypers)
        return theta, phi, log_prior + log_hyper_prior


def phi_of(target: TargetDensity, z_phi: Array) -> tuple[Array, Array]:
    """Hyper-parameters, and the log-density of `z_phi` under their prior; zero where held."""
    if target.held_phi is not None:
        return target.held_phi, jnp.zeros((), z_phi.dtype)
    return target.model.phi.from_standard(z_phi, {})
