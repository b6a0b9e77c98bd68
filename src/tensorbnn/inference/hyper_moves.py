"""Trajectories over the hyper-parameters phi, with theta fixed or following.

Given theta, the weights determine their scale closely (fifty weights, to about a tenth of its
value). Near a scale of zero the weights are small, and steps that suit other regions can't move in
or out. If theta is instead fixed in units of its prior's width, the weights follow their scale, and
only the data determine it. One of the two moves is fast where the other is slow, so they alternate:
the interweaving of Yu and Meng (2011).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.engine.trajectory import Phase
from tensorbnn.inference.hmc import transition
from tensorbnn.inference.target import TargetDensity

# Leapfrog steps of a trajectory in which theta follows; each takes a gradient of the network.
WEAVING_STEPS = 5


class Randomness(NamedTuple):
    """The random numbers of a trajectory."""

    momentum: Array
    jitter: Array
    """Factor of the step size."""
    uniform: Array


class Hypers(NamedTuple):
    """Parameters and hyper-parameters after a trajectory over the hyper-parameters."""

    theta: Array
    z_phi: Array
    """In units of their prior's width."""
    acceptance: Array


def given_theta(
    target: TargetDensity,
    theta: Array,
    z_phi: Array,
    step_size: Array,
    num_steps: Array,
    random: Randomness,
) -> Hypers:
    """A trajectory over phi that holds theta; the network is evaluated at most once."""
    model, data = target.model, target.data
    outputs = model.outputs(theta, data) if data is not None and model.likelihood.hypers() else None

    def log_density(z_phi: Array) -> Array:
        phi, log_hyper_prior = model.phi.from_standard(z_phi, {})
        total = log_hyper_prior + model.log_prior(theta, phi)
        if outputs is not None and data is not None:
            total += model.log_likelihood_of_outputs(outputs, phi, data)
        return total

    density = jax.value_and_grad(log_density)
    start = Phase(z_phi, random.momentum, *density(z_phi))
    end, info, _ = transition(density, start, step_size * random.jitter, num_steps, random.uniform)
    return Hypers(theta, end.position, info.acceptance_rate)


def with_theta(
    target: TargetDensity, theta: Array, z_phi: Array, step_size: Array, random: Randomness
) -> Hypers:
    """A trajectory over phi that holds theta in units of its prior's width."""
    phi, _ = target.model.phi.from_standard(z_phi, {})
    position = target.position(theta, phi)
    # A step size of zero keeps a coordinate fixed.
    step_sizes = jnp.zeros_like(position).at[theta.size :].set(step_size * random.jitter)
    momentum = jnp.zeros_like(position).at[theta.size :].set(random.momentum)
    density = target.value_and_grad
    start = Phase(position, momentum, *density(position))
    num_steps = jnp.asarray(WEAVING_STEPS, jnp.int32)
    end, info, accepted = transition(density, start, step_sizes, num_steps, random.uniform)
    # After a rejection, theta is exactly unchanged.
    followed = jnp.where(accepted, target.vectors(end.position)[0], theta)
    return Hypers(followed, end.position[theta.size :], info.acceptance_rate)
