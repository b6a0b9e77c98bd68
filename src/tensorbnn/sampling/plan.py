"""The length of a run, its number of chains, and where they start."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from tensorbnn.density import Model
from tensorbnn.inference.sampler import Sampler, check_state, root_key
from tensorbnn.inference.target import TargetDensity
from tensorbnn.model.checks import check_starts
from tensorbnn.posterior import Posterior, precision

# A chain restarts at a point drawn with a separate key: its first start has used the earlier ones.
RESTART_KEYS = 2**31
# Most draws that one call keeps, however many go into a file.
MAX_DRAWS_PER_CALL = 1000
# Draws of a chain in a file of the run directory.
NETWORKS_PER_FILE = 100
# A chain is saved at least this often.
CHECKPOINT_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """The length and number of chains of a run; `tensorbnn.sample` documents each number.

    Its fields are also fields of ``run.json``.
    """

    chains: int
    burn_in: int
    draws: int
    thin: int
    networks_per_file: int
    seed: int
    sample_hyperparameters: bool
    pooled: bool = True
    """Whether chains learn from each other in burn-in; those that an executor runs do not."""

    @property
    def transitions(self) -> int:
        """Transitions of one chain in all."""
        return self.burn_in + self.draws * self.thin

    @property
    def capacity(self) -> int:
        """The largest number of draws of a chain in a call."""
        return min(self.networks_per_file, MAX_DRAWS_PER_CALL)

    def drawn(self, transitions: int) -> int:
        """Complete draws of a chain that has made this many transitions."""
        return max(transitions - self.burn_in, 0) // self.thin


class ChainState(NamedTuple):
    """Chains that are advanced together: on a CPU one chain, on an accelerator all.

    Every array has the chains as its first axis.
    """

    numbers: Sequence[int]
    target: TargetDensity
    keys: Array
    state: Any


def initial_chains(
    posterior: Posterior, sampler: Sampler, plan: Plan, given: Mapping[str, ArrayLike]
) -> list[ChainState]:
    """Draw or take the starting values of every chain, and check that the density is finite there.

    `given` holds the user's own starting values by name.
    """
    with precision(posterior.dtype):
        _check_dimension(posterior, plan)
        start_keys, keys = chain_keys(plan)
        values = _given_starts(posterior, plan, given)
        found = []
        size = plan.chains if are_batched() else 1
        for first in range(0, plan.chains, size):
            rows = slice(first, first + size)
            own = {name: value[rows] for name, value in values.items()}
            positions, phis = _positions(posterior.model, start_keys[rows], own)
            held = None if plan.sample_hyperparameters else phis[0]
            target = TargetDensity(posterior.model, posterior._arrays, held)
            state = sampler.init(target, positions[:, : target.dimension], plan.burn_in)
            check_state(state, size)
            # No weak types: a state from a file has none, and programs are compiled once.
            state = jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), state)
            chains = range(first, first + size)
            _check_densities(chains, state.log_density)
            found.append(ChainState(chains, target, keys[rows], state))
    return found


def restart(chains: ChainState, row: int, number: int, sampler: Sampler, plan: Plan) -> ChainState:
    """The chains, with the one in `row` restarted at another point, for the `number`-th time.

    It keeps what the sampler has learned from all chains, if anything.
    """
    key = jax.random.fold_in(chain_keys(plan)[0][chains.numbers[row]], RESTART_KEYS + number)
    positions, _ = _positions(chains.target.model, key[None], {})
    fresh = sampler.init(chains.target, positions[:, : chains.target.dimension], plan.burn_in)
    state = jax.tree.map(lambda old, new: old.at[row].set(new[0]), chains.state, fresh)
    state = state._replace(**{name: getattr(chains.state, name) for name in sampler.learned})
    return chains._replace(state=state)


def are_batched() -> bool:
    """Whether one call advances all chains; on a CPU, each call advances one."""
    return jax.default_backend() != "cpu"


def chain_keys(plan: Plan) -> tuple[Array, Array]:
    """Two keys for every chain of a plan: one for its start, one for its transitions."""
    return _chain_keys(root_key(plan.seed), plan.chains)


@functools.partial(jax.jit, static_argnums=1)
def _chain_keys(root: Array, chains: int) -> tuple[Array, Array]:
    keys = jax.vmap(lambda chain: jax.random.split(jax.random.fold_in(root, chain)))(
        jnp.arange(chains)
    )
    return keys[:, 0], keys[:, 1]


def _check_dimension(posterior: Posterior, plan: Plan) -> None:
    sampled = posterior.num_hyperparameters if plan.sample_hyperparameters else 0
    if posterior.num_parameters + sampled == 0:
        raise ValueError(
            "there is nothing to sample: the network has no parameters, and no hyper-parameter is "
            "sampled: add a layer such as tb.Dense(1), or a tb.Hyper"
        )


def _check_densities(chains: Sequence[int], log_densities: Array) -> None:
    for chain, value in zip(chains, np.asarray(log_densities), strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"the log-density at the start of chain {chain} is {value}: "
                "standardize the data (`standardize=True` of tb.Posterior), or give `start`"
            )


def _given_starts(
    posterior: Posterior, plan: Plan, start: Mapping[str, ArrayLike]
) -> dict[str, Array]:
    """Check the user's starting values, and repeat those that all chains share."""
    model = posterior.model
    given = check_starts(
        (model.theta, model.phi), start, count=plan.chains, each="chain", dtype=posterior.dtype
    )
    if not plan.sample_hyperparameters:
        for entry in model.phi.entries:
            if entry.name in given and np.any(given[entry.name] != given[entry.name][0]):
                raise ValueError(
                    f"`start` gives {entry.name} a value per chain, but hyper-parameters are held "
                    "(`sample_hyperparameters=False`): give one value for all chains"
                )
    return {name: jnp.asarray(value) for name, value in given.items()}


@functools.partial(jax.jit, static_argnums=0)
def _positions(model: Model, keys: Array, given: dict[str, Array]) -> tuple[Array, Array]:
    """Positions, and unconstrained hyper-parameters, at which the chains start."""
    target = TargetDensity(model, None, None)
    hypers = {name: jnp.asarray(value, dtype=float) for name, value in model.start_hypers().items()}

    def start(key: Array, given: dict[str, Array]) -> tuple[Array, Array]:
        named = model.theta.draw_start(key, hypers) | hypers | given
        phi = model.phi.flatten(named)
        return target.position(model.theta.flatten(named), phi), phi

    return jax.vmap(start)(keys, given)
