"""One HMC transition of all chains, by tensorbnn and by other libraries.

Each contestant starts at the same points with the same step size and number of leapfrog steps. The
step size is tiny, so that every trajectory is accurate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import tensorbnn as tb
from benchmarks import tfp
from benchmarks.workloads import Workload, plain_log_density, posterior
from tensorbnn.engine import library
from tensorbnn.inference.hmc import DIVERGENCE
from tensorbnn.inference.target import TargetDensity

STEP_SIZE = 1e-5

# Names in tables. The hierarchical one has the default priors, whose hyper-parameters are sampled
# too; all others have N(0, 1).
JAX = "JAX engine"
NATIVE = "native engine"
HIERARCHICAL = "native, hierarchical"
BLACKJAX = "BlackJAX"
NUMPYRO = "NumPyro"
TENSORFLOW = "TFP"


class Outcome(NamedTuple):
    """The result of a transition for each chain, and other arrays to wait for.

    `start` and `end` are positions in the coordinates of the sampler, as a pytree.
    """

    acceptance: Any
    divergent: Any
    start: Any
    end: Any
    rest: Any


Call = Callable[[], Outcome]
"""One transition of all chains."""


def contestants(
    workload: Workload, chains: int, steps: int, *, tensorflow: bool = False
) -> dict[str, Call]:
    """All contestants by name."""
    calls = engines(workload, chains, steps)
    if library.problem() is None:
        calls[HIERARCHICAL] = tensorbnn("native", workload, chains, steps, hierarchical=True)
    calls[BLACKJAX] = _blackjax(workload, chains, steps)
    calls[NUMPYRO] = _numpyro(workload, chains, steps)
    if tensorflow:
        calls[TENSORFLOW] = _tensorflow(workload, chains, steps)
    return calls


def engines(workload: Workload, chains: int, steps: int) -> dict[str, Call]:
    """`tb.HMC` with each available engine."""
    calls = {JAX: tensorbnn("jax", workload, chains, steps)}
    if library.problem() is None:
        calls[NATIVE] = tensorbnn("native", workload, chains, steps)
    return calls


def tensorbnn(
    engine: str, workload: Workload, chains: int, steps: int, *, hierarchical: bool = False
) -> Call:
    """`tb.HMC`."""
    target, positions = target_and_positions(workload, chains, engine, hierarchical=hierarchical)
    sampler = tb.HMC(step_size=STEP_SIZE, num_steps=steps)
    state = sampler.init(target, positions, burn_in=0)
    step = jax.jit(sampler.step)
    keys = _keys(chains)

    def call() -> Outcome:
        state_after, info = step(keys, state, target)
        return Outcome(
            info.acceptance_rate, info.diverging, positions, state_after.position, state_after
        )

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
        return Outcome(
            *(info.acceptance_rate, info.is_divergent, positions),
            *(state_after.position, state_after),
        )

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
        return Outcome(after.accept_prob, after.diverging, positions, after.z, after)

    return call


def _tensorflow(workload: Workload, chains: int, steps: int) -> Call:
    step = tfp.hmc(workload, chains, steps, STEP_SIZE)
    start = tfp.start(workload, chains)

    def call() -> Outcome:
        end, log_ratio = step()
        divergent = ~(np.abs(log_ratio) < DIVERGENCE)
        return Outcome(np.exp(np.minimum(log_ratio, 0)), divergent, start, end, ())

    return call


def target_and_positions(
    workload: Workload, chains: int, engine: str, *, hierarchical: bool
) -> tuple[TargetDensity, Array]:
    """The density that tensorbnn samples, and the positions of `chains` chains."""
    described = posterior(workload, hierarchical=hierarchical)
    described.engine = engine
    target = TargetDensity(described.model, described._arrays, None)
    hypers = jnp.asarray(described.flatten_hyperparameters(described.model.start_hypers()))
    positions = []
    for chain in range(chains):
        layers = jax.tree.map(lambda leaf, c=chain: leaf[c], workload.parameters(chains))
        theta = jnp.asarray(described.flatten(named(layers)))
        positions.append(target.position(theta, hypers))
    return target, jnp.stack(positions)


def named(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Parameters under the names that tensorbnn uses."""
    return {
        f"dense_{i}.{key}": value for i, layer in enumerate(layers) for key, value in layer.items()
    }


def _keys(chains: int) -> Array:
    return jax.random.split(jax.random.key(0), chains)
