"""The state of chains: all that they need to continue, written to a file and read bit for bit.

A chain's file holds the sampler's state (``state/...``), the sums that continue from call to call
(``sums/...``), the numbers of its transitions and gradients, the transition of its last report and
the step size of its last transition; how often it was restarted; the number of its pooling rounds
(``rounds_done``), and what it shared in each of them (``shared``), which slower chains still need;
and fixed hyper-parameters. The file exists before the first transition, so starting values are not
needed again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.errors import StateError
from tensorbnn.inference.sampler import MAX_TRANSITIONS, POOLING_ROUNDS, Sampler
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import Posterior, precision
from tensorbnn.sampling.advance import RunningSums
from tensorbnn.sampling.plan import ChainState, Plan, chain_keys
from tensorbnn.storage.store import Store

# The first values that a chain shares: acceptance since the last pooling round, and log-density.
# Those of the sampler follow.
HEALTH_VALUES = 2

_SUMS = ("draw", "report", "pooling")
# Fields of a checkpoint that are saved under their own names: numbers that the chains share, and
# arrays with a row for each chain.
_COUNTS = ("transitions", "reported", "rounds_done")
_ARRAYS = ("step_size", "shared", "restarts")


class Checkpoint(NamedTuple):
    """The state of chains that are advanced together."""

    chains: ChainState
    transitions: int
    reported: int
    """Transitions at the last report."""
    step_size: Array
    """Of the last transition, ``(chains,)``."""
    sums: RunningSums
    rounds_done: int
    """Completed pooling rounds."""
    shared: Array
    """What each chain shared in every round, ``(chains, POOLING_ROUNDS, values)``."""
    restarts: Array
    """How often each chain was restarted, ``(chains,)``."""
    gradients: NDArray[np.int64]
    """Spent so far, ``(chains,)``."""


def first_checkpoint(chains: ChainState, sampler: Sampler) -> Checkpoint:
    """Chains before their first transition."""
    count = len(chains.numbers)
    sums, values = RunningSums.zero(count), HEALTH_VALUES
    if sampler.share is not None:
        values += int(jax.eval_shape(sampler.share, chains.state).shape[1])
    return Checkpoint(
        chains=chains,
        transitions=0,
        reported=0,
        step_size=jnp.zeros_like(sums.report.acceptance_rate),
        sums=sums,
        rounds_done=0,
        shared=jnp.zeros((count, POOLING_ROUNDS, values)),
        restarts=jnp.zeros(count, jnp.int32),
        gradients=np.zeros(count, np.int64),
    )


def pack_checkpoint(at: Checkpoint) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each chain's file."""
    same = {name: np.asarray(getattr(at, name), np.int64) for name in _COUNTS}
    same["sums/partial"] = np.asarray(at.sums.partial)
    if at.chains.target.held_phi is not None:
        same["held_phi"] = np.asarray(at.chains.target.held_phi)
    own = jax.tree.map(np.asarray, _own_arrays(at))
    return [
        same
        | {"gradients": np.asarray(at.gradients[row])}
        | {name: np.asarray(array[row]) for name, array in own.items()}
        for row in range(len(at.chains.numbers))
    ]


def read_checkpoint(
    store: Store, chain: int, posterior: Posterior, sampler: Sampler, plan: Plan
) -> Checkpoint:
    """The state of one chain of a run."""
    saved = store.read_state(chain)
    with precision(posterior.dtype):
        dtype, held = np.dtype(posterior.dtype), None
        if not plan.sample_hyperparameters:
            held = jnp.asarray(
                _expect(saved, chain, "held_phi", (posterior.model.phi.size,), dtype)
            )
        target = TargetDensity(posterior.model, posterior._arrays, held)
        position = _expect(saved, chain, "state/position", (target.dimension,), dtype)
        # Only for the names and shapes of what is in a state; every value comes from the file.
        state = sampler.init(target, jnp.asarray(position)[None], plan.burn_in)
        keys = chain_keys(plan)[1][chain : chain + 1]
        empty = first_checkpoint(ChainState([chain], target, keys, state), sampler)
        known = {"state/" + name for name in _leaves(state)}
        if unknown := sorted({name for name in saved if name.startswith("state/")} - known):
            raise StateError(chain, f"it has {unknown[0]}, which this one does not know")
        found = {
            name: jnp.asarray(_expect(saved, chain, name, leaf.shape[1:], leaf.dtype))[None]
            for name, leaf in _own_arrays(empty).items()
        }
        partial = jnp.asarray(_expect(saved, chain, "sums/partial", (), np.dtype(np.int32)))
        sums = {name: _rebuild(getattr(empty.sums, name), found, f"sums/{name}.") for name in _SUMS}
        counts = {name: _expect_count(saved, chain, name) for name in _COUNTS}
        fields: dict[str, Any] = counts | {name: found[name] for name in _ARRAYS}
        return empty._replace(
            chains=empty.chains._replace(state=_rebuild(state, found, "state/")),
            sums=RunningSums(partial, **sums),
            gradients=_expect(saved, chain, "gradients", (), np.dtype(np.int64))[None],
            **fields,
        )


def merge_equal(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Chains with the same number of transitions as one, to be advanced together."""
    groups: dict[tuple[int, int, int], list[Checkpoint]] = {}
    for each in checkpoints:
        groups.setdefault((each.transitions, each.reported, each.rounds_done), []).append(each)
    return [_merge(group) for group in groups.values()]


def _merge(group: list[Checkpoint]) -> Checkpoint:
    def join(*parts: Any) -> Any:
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    first, chains = group[0], [each.chains for each in group]
    merged = first.chains._replace(
        numbers=[number for each in chains for number in each.numbers],
        keys=jnp.concatenate([each.keys for each in chains]),
        state=join(*(each.state for each in chains)),
    )
    sums = {name: join(*(getattr(each.sums, name) for each in group)) for name in _SUMS}
    arrays: dict[str, Any] = {
        name: join(*(getattr(each, name) for each in group)) for name in _ARRAYS
    }
    return first._replace(
        chains=merged,
        sums=first.sums._replace(**sums),
        gradients=np.concatenate([each.gradients for each in group]),
        **arrays,
    )


def _own_arrays(at: Checkpoint) -> dict[str, Array]:
    """Arrays with the chains as first axis, by their names on disk."""
    arrays = {f"state/{name}": leaf for name, leaf in _leaves(at.chains.state).items()}
    for name in _SUMS:
        sums = getattr(at.sums, name)
        arrays |= {f"sums/{name}.{field}": leaf for field, leaf in _leaves(sums).items()}
    return arrays | {name: getattr(at, name) for name in _ARRAYS}


def _leaves(tree: Any) -> dict[str, Array]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _rebuild(template: Any, arrays: dict[str, Array], prefix: str) -> Any:
    leaves = [arrays[prefix + name] for name in _leaves(template)]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _expect_count(saved: dict[str, NDArray[Any]], chain: int, name: str) -> int:
    count = int(_expect(saved, chain, name, (), np.dtype(np.int64)))
    if not 0 <= count <= MAX_TRANSITIONS:
        raise StateError(chain, f"{name} is {count}")
    return count


def _expect(
    saved: dict[str, NDArray[Any]], chain: int, name: str, shape: tuple[int, ...], dtype: Any = None
) -> NDArray[Any]:
    array = saved.get(name)
    if array is None:
        raise StateError(chain, f"{name} is missing")
    if array.shape != shape or (dtype is not None and array.dtype != dtype):
        difference = f"{name} is {array.dtype} {array.shape}, not {dtype or ''} {shape}"
        raise StateError(chain, difference)
    return array
