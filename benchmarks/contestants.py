"""What is timed: one HMC transition of all chains, by tensorbnn and by others.

Each contestant starts at the same points with the same step size and number of leapfrog steps. The
step size is tiny, so that every trajectory stays where it is accurate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import tensorbnn as tb
from benchmarks.workloads import NOISE, Workload, plain_log_density, posterior
from tensorbnn.engine import library
from tensorbnn.inference.target import Target

STEP_SIZE = 1e-5
# Norm of the difference over the norm, for values and gradients: some ten times the rounding error
# that float32 leaves in the sums of the largest workload.
TOLERANCE = 1e-5

# The names under which they are shown; the hierarchical one has the default priors, whose
# hyper-parameters are sampled too, all others N(0, 1).
JAX = "JAX engine"
NATIVE = "native engine"
HIERARCHICAL = "native, hierarchical"
BLACKJAX = "BlackJAX"
NUMPYRO = "NumPyro"
TENSORFLOW = "TFP"


class Outcome(NamedTuple):
    """What a transition did, for each chain, and all else that is to be waited for."""

    acceptance: Any
    divergent: Any
    rest: Any


Call = Callable[[], Outcome]
"""One transition of all chains."""


class MismatchError(Exception):
    """The two sides do not compute the same density."""


def contestants(
    workload: Workload, chains: int, steps: int, *, tensorflow: bool = False
) -> dict[str, Call]:
    """All that are timed against each other, by name."""
    check_same_density(workload)
    calls = engines(workload, chains, steps)
    if library.problem() is None:
        calls[HIERARCHICAL] = tensorbnn("native", workload, chains, steps, hierarchical=True)
    calls[BLACKJAX] = _blackjax(workload, chains, steps)
    calls[NUMPYRO] = _numpyro(workload, chains, steps)
    if tensorflow:
        calls[TENSORFLOW] = _tensorflow(workload, chains, steps)
    return calls


def engines(workload: Workload, chains: int, steps: int) -> dict[str, Call]:
    """`tb.HMC` by each engine that is there."""
    calls = {JAX: tensorbnn("jax", workload, chains, steps)}
    if library.problem() is None:
        calls[NATIVE] = tensorbnn("native", workload, chains, steps)
    return calls


def check_same_density(workload: Workload) -> None:
    """Raise `MismatchError` where log-density or gradient differ by more than rounding."""
    engines = ("jax",) if library.problem() else ("jax", "native")
    for engine in engines:
        _check_same_density(workload, engine)


def _check_same_density(workload: Workload, engine: str) -> None:
    target, positions = _target(workload, 1, engine, hierarchical=False)
    value, gradient = jax.jit(jax.value_and_grad(target.log_density))(positions[0])
    parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), workload.parameters(1))
    plain = jax.jit(jax.value_and_grad(plain_log_density(workload)))(parameters)
    plain_gradient = target.model.theta.flatten(_named(plain[1]))
    for what, ours, theirs in (
        ("log-density", value, plain[0]),
        ("gradient", gradient, plain_gradient),
    ):
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
        if not error < TOLERANCE:
            raise MismatchError(
                f"{workload.name}: the {what} of tensorbnn ({engine}) differs from BlackJAX's "
                f"by {error:.1e} of its norm, more than {TOLERANCE:.0e}"
            )


def tensorbnn(
    engine: str, workload: Workload, chains: int, steps: int, *, hierarchical: bool = False
) -> Call:
    """`tb.HMC`."""
    target, positions = _target(workload, chains, engine, hierarchical=hierarchical)
    sampler = tb.HMC(step_size=STEP_SIZE, num_leapfrog=steps)
    state = sampler.init(target, positions, burn_in=0)
    step = jax.jit(sampler.step)
    keys = _keys(chains)

    def call() -> Outcome:
        state_after, info = step(keys, state, target)
        return Outcome(info.acceptance, info.divergent, state_after)

    return call


def _blackjax(workload: Workload, chains: int, steps: int) -> Call:
    positions = jax.tree.map(jnp.asarray, workload.parameters(chains))
    dimension = sum(leaf[0].size for leaf in jax.tree.leaves(positions))
    kernel = blackjax.hmc(
        plain_log_density(workload),
        step_size=STEP_SIZE,
        inverse_mass_matrix=jnp.ones(dimension),
        num_integration_steps=steps,
    )
    keys = _keys(chains)
    if chains == 1:
        keys, positions = jax.tree.map(lambda leaf: leaf[0], (keys, positions))
        init, step = jax.jit(kernel.init), jax.jit(kernel.step)
    else:
        init, step = jax.jit(jax.vmap(kernel.init)), jax.jit(jax.vmap(kernel.step))
    state = init(positions)

    def call() -> Outcome:
        state_after, info = step(keys, state)
        return Outcome(info.acceptance_rate, info.is_divergent, state_after)

    return call


def _numpyro(workload: Workload, chains: int, steps: int) -> Call:
    from numpyro.infer.hmc import hmc

    positions = jax.tree.map(jnp.asarray, workload.parameters(chains))
    log_density = plain_log_density(workload)
    init, step = hmc(potential_fn=lambda parameters: -log_density(parameters), algo="HMC")
    keys = _keys(chains)
    # Without a length, which would set the step size.
    options = {
        "num_warmup": 0, "step_size": STEP_SIZE, "num_steps": steps, "trajectory_length": None,
        "adapt_step_size": False, "adapt_mass_matrix": False,
    }  # fmt: skip
    if chains == 1:
        keys, positions = jax.tree.map(lambda leaf: leaf[0], (keys, positions))
        state = init(positions, rng_key=keys, **options)
        compiled = jax.jit(step)
    else:
        state = jax.vmap(lambda position, key: init(position, rng_key=key, **options))(
            positions, keys
        )
        compiled = jax.jit(jax.vmap(step))

    def call() -> Outcome:
        after = compiled(state)
        return Outcome(after.accept_prob, after.diverging, after)

    return call


def _tensorflow(workload: Workload, chains: int, steps: int) -> Call:
    """TensorFlow Probability, compiled by XLA."""
    import tensorflow as tf
    import tensorflow_probability as tfp

    x, y = (tf.constant(values) for values in workload.data())
    leaves = [
        tf.constant(layer[name])
        for layer in workload.parameters(chains)
        for name in ("weights", "biases")
    ]

    def log_density(*parameters: Any) -> Any:
        h = tf.broadcast_to(x, (chains, *x.shape))
        for i in range(0, len(parameters), 2):
            h = h @ parameters[i] + parameters[i + 1][:, None]
            h = tf.tanh(h) if i + 2 < len(parameters) else h
        total = tf.reduce_sum(tfp.distributions.Normal(h, NOISE).log_prob(y), (1, 2))
        for leaf in parameters:
            axes = tuple(range(1, len(leaf.shape)))
            total += tf.reduce_sum(tfp.distributions.Normal(0.0, 1.0).log_prob(leaf), axes)
        return total

    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_density, STEP_SIZE, steps)
    results = kernel.bootstrap_results(leaves)
    step = tf.function(lambda: kernel.one_step(leaves, results), jit_compile=True)

    def call() -> Outcome:
        state, after = step()
        acceptance = np.exp(np.minimum(after.log_accept_ratio.numpy(), 0))
        return Outcome(acceptance, np.zeros(chains, bool), [leaf.numpy() for leaf in state])

    return call


def _target(
    workload: Workload, chains: int, engine: str, *, hierarchical: bool
) -> tuple[Target, Array]:
    """The density that tensorbnn samples, and the positions of `chains` chains in it."""
    described = posterior(workload, hierarchical=hierarchical)
    described.engine = engine
    target = Target(described.model, described.data, None)
    hypers = jnp.asarray(described.flatten_hypers(described.model.start_hypers()))
    positions = []
    for chain in range(chains):
        layers = jax.tree.map(lambda leaf, c=chain: leaf[c], workload.parameters(chains))
        theta = jnp.asarray(described.flatten(_named(layers)))
        positions.append(target.position(theta, hypers))
    return target, jnp.stack(positions)


def _named(layers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        f"dense_{i}.{key}": value for i, layer in enumerate(layers) for key, value in layer.items()
    }


def _keys(chains: int) -> Array:
    return jax.random.split(jax.random.key(0), chains)
