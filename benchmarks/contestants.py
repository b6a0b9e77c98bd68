"""What is timed: one HMC transition of all chains, by tensorbnn and by BlackJAX.

Each contestant starts at the same points with the same step size and number of leapfrog steps. The
step size is tiny, so that every trajectory stays where it is accurate.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import tensorbnn as tb
from benchmarks.workloads import Workload, plain_log_density, posterior
from tensorbnn.engine import library
from tensorbnn.inference.target import Target

STEP_SIZE = 1e-5
# Norm of the difference over the norm, for values and gradients: some ten times the rounding error
# that float32 leaves in the sums of the largest workload.
TOLERANCE = 1e-5

# The names under which they are shown; the hierarchical ones have the default priors, all others
# N(0, 1).
FIXED = "tensorbnn"
HIERARCHICAL = "tensorbnn, hierarchical"
NATIVE = "native"
NATIVE_HIERARCHICAL = "native, hierarchical"
THREADS = "tensorbnn, threads"
BLACKJAX = "BlackJAX"


class Outcome(NamedTuple):
    """What a transition did, for each chain, and all else that is to be waited for."""

    acceptance: Any
    divergent: Any
    rest: Any


class Contestant(NamedTuple):
    """`call` makes one transition of all chains; before it is timed, `compile` is called once."""

    name: str
    call: Callable[[], Outcome]
    compile: Callable[[], Any]


class MismatchError(Exception):
    """The two sides do not compute the same density."""


def contestants(workload: Workload, chains: int, steps: int, cores: int) -> list[Contestant]:
    """All that are timed against each other, in the order in which they take turns."""
    check_same_density(workload)
    alternate = [
        _tensorbnn(FIXED, "jax", workload, chains, steps),
        _blackjax(workload, chains, steps),
        _tensorbnn(HIERARCHICAL, "jax", workload, chains, steps),
    ]
    if library.problem() is None:
        alternate += [
            _tensorbnn(NATIVE, "native", workload, chains, steps),
            _tensorbnn(NATIVE_HIERARCHICAL, "native", workload, chains, steps),
        ]
    if chains > 1:
        alternate.append(_threads(workload, chains, steps, cores))
    return alternate


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


def _tensorbnn(name: str, engine: str, workload: Workload, chains: int, steps: int) -> Contestant:
    hierarchical = name in (HIERARCHICAL, NATIVE_HIERARCHICAL)
    target, positions = _target(workload, chains, engine, hierarchical=hierarchical)
    sampler = tb.HMC(step_size=STEP_SIZE, num_leapfrog=steps)
    state = sampler.init(target, positions, burn_in=0)
    step = jax.jit(sampler.step)
    keys = _keys(chains)

    def call() -> Outcome:
        state_after, info = step(keys, state, target)
        return Outcome(info.acceptance, info.divergent, state_after)

    return Contestant(name, call, compile=call)


def _threads(workload: Workload, chains: int, steps: int, cores: int) -> Contestant:
    """One chain a task, as many at once as there are cores: what `tb.sample` does on a CPU."""
    target, positions = _target(workload, chains, "jax", hierarchical=False)
    sampler = tb.HMC(step_size=STEP_SIZE, num_leapfrog=steps)
    state = sampler.init(target, positions, burn_in=0)
    step = jax.jit(sampler.step)
    keys = _keys(chains)
    alone = [
        (keys[chain : chain + 1], jax.tree.map(lambda leaf, c=chain: leaf[c : c + 1], state))
        for chain in range(chains)
    ]
    pool = ThreadPoolExecutor(max_workers=min(chains, cores))

    def task(chain: tuple[Array, Any]) -> Any:
        return jax.block_until_ready(step(*chain, target))

    def call() -> Outcome:
        results = list(pool.map(task, alone))
        infos = [info for _, info in results]
        acceptance = np.concatenate([info.acceptance for info in infos])
        return Outcome(acceptance, np.concatenate([info.divergent for info in infos]), results)

    return Contestant(THREADS, call, compile=lambda: task(alone[0]))


def _blackjax(workload: Workload, chains: int, steps: int) -> Contestant:
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

    return Contestant(BLACKJAX, call, compile=call)


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
