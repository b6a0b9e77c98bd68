"""Where chains are: all that they need to go on, to a file and back, bit for bit.

A chain's file holds the sampler's state (``state/...``), the sums that go on from call to call
(``sums/...``), the numbers of its transitions and gradients, the transition of its last report and
what a report would say of the last transition; the number of its meetings, and what it told at each
of them, which a chain that is behind still has to hear; hyper-parameters that are held are in it,
too.
Starting values are not needed again: the file is there before the first transition.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.inference.sampler import POOLING_ROUNDS, Sampler
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import Posterior, precision
from tensorbnn.sampling.advance import RunningSums, no_sums
from tensorbnn.sampling.plan import Plan, Start, chain_keys
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store

_SUMS = ("draw", "report", "meeting")
# Acceptance since the last meeting, and log-density.
FARES = 2


class Checkpoint(NamedTuple):
    """Where chains that are advanced together are."""

    start: Start
    """The chains with the state they are in."""
    transitions: int
    reported: int
    """Transitions at the last report."""
    step_size: Array
    """Of the last transition, ``(chains,)``."""
    sums: RunningSums
    met: int
    """Meetings of chains that are over."""
    told: Array
    """What each chain told at every meeting, ``(chains, POOLING_ROUNDS, values)``."""
    restarts: Array
    """How often each chain was started again, ``(chains,)``."""
    gradients: NDArray[np.int64]
    """Spent so far, ``(chains,)``."""


def first_checkpoint(start: Start, sampler: Sampler) -> Checkpoint:
    """Chains before their first transition."""
    chains = len(start.chains)
    sums = no_sums(chains)
    told = jnp.zeros((chains, POOLING_ROUNDS, values_told(sampler, start.state)))
    step_size = jnp.zeros_like(sums.report.acceptance)
    restarts, gradients = jnp.zeros(chains, jnp.int32), np.zeros(chains, np.int64)
    return Checkpoint(start, 0, 0, step_size, sums, 0, told, restarts, gradients)


def values_told(sampler: Sampler, state: Any) -> int:
    """Number of values that a chain tells: how well it fares, and what the sampler has to say."""
    if sampler.share is None:
        return FARES
    return FARES + int(jax.eval_shape(sampler.share, state).shape[1])


def pack_checkpoint(at: Checkpoint) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each chain's file."""
    shared = {
        "transitions": np.asarray(at.transitions, np.int64),
        "reported": np.asarray(at.reported, np.int64),
        "sums/begun": np.asarray(at.sums.begun),
        "met": np.asarray(at.met, np.int64),
    }
    if at.start.target.held_phi is not None:
        shared["held_phi"] = np.asarray(at.start.target.held_phi)
    own = jax.tree.map(np.asarray, _own_arrays(at))
    return [
        shared
        | {"gradients": np.asarray(at.gradients[row])}
        | {name: np.asarray(array[row]) for name, array in own.items()}
        for row in range(len(at.start.chains))
    ]


def read_checkpoint(
    store: Store, chain: int, posterior: Posterior, sampler: Sampler, plan: Plan
) -> Checkpoint:
    """Where one chain of a run is."""
    saved = store.read_state(chain)
    with precision(posterior.dtype):
        held = jnp.asarray(saved["held_phi"]) if "held_phi" in saved else None
        target = TargetDensity(posterior.model, posterior.data, held)
        position = _expect(saved, chain, "state/position", (target.dimension,))
        # Only for the names and shapes of what is in a state; every value comes from the file.
        state = sampler.init(target, jnp.asarray(position)[None], plan.burn_in)
        keys = chain_keys(plan)[1][chain : chain + 1]
        template = first_checkpoint(Start([chain], target, keys, state), sampler)
        _check_names(saved, chain, {"state/" + name for name in _leaves(state)})
        found = {
            name: jnp.asarray(_expect(saved, chain, name, leaf.shape[1:], leaf.dtype))[None]
            for name, leaf in _own_arrays(template).items()
        }
        state = _rebuild(state, found, "state/")
        sums = {
            name: _rebuild(getattr(template.sums, name), found, f"sums/{name}.") for name in _SUMS
        }
        begun = jnp.asarray(_expect(saved, chain, "sums/begun", (), np.dtype(np.int32)))
        return Checkpoint(
            start=template.start._replace(state=state),
            transitions=int(_expect(saved, chain, "transitions", ())),
            reported=int(_expect(saved, chain, "reported", ())),
            step_size=found["step_size"],
            sums=RunningSums(begun, **sums),
            met=int(_expect(saved, chain, "met", ())),
            told=found["told"],
            restarts=found["restarts"],
            gradients=_expect(saved, chain, "gradients", (), np.dtype(np.int64))[None],
        )


def together(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Chains as they are advanced: each alone on a CPU; elsewhere those that are equally far."""
    if jax.default_backend() == "cpu":
        return list(checkpoints)
    groups: dict[tuple[int, int, int], list[Checkpoint]] = {}
    for each in checkpoints:
        groups.setdefault((each.transitions, each.reported, each.met), []).append(each)
    return [_merge(group) for group in groups.values()]


def _merge(group: list[Checkpoint]) -> Checkpoint:
    first = group[0]

    def join(*parts: Any) -> Any:
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    start = first.start._replace(
        chains=[chain for each in group for chain in each.start.chains],
        keys=jnp.concatenate([each.start.keys for each in group]),
        state=join(*(each.start.state for each in group)),
    )
    sums = {name: join(*(getattr(each.sums, name) for each in group)) for name in _SUMS}
    return first._replace(
        start=start,
        sums=first.sums._replace(**sums),
        step_size=jnp.concatenate([each.step_size for each in group]),
        told=jnp.concatenate([each.told for each in group]),
        restarts=jnp.concatenate([each.restarts for each in group]),
        gradients=np.concatenate([each.gradients for each in group]),
    )


def _own_arrays(at: Checkpoint) -> dict[str, Array]:
    """Arrays with the chains as first axis, by name."""
    arrays = {f"state/{name}": leaf for name, leaf in _leaves(at.start.state).items()}
    for name in _SUMS:
        sums = getattr(at.sums, name)
        arrays |= {f"sums/{name}.{field}": leaf for field, leaf in _leaves(sums).items()}
    return arrays | {"step_size": at.step_size, "told": at.told, "restarts": at.restarts}


def _leaves(tree: Any) -> dict[str, Array]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _rebuild(template: Any, arrays: dict[str, Array], prefix: str) -> Any:
    leaves = [arrays[prefix + name] for name in _leaves(template)]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _check_names(saved: dict[str, NDArray[Any]], chain: int, wanted: set[str]) -> None:
    unknown = sorted({name for name in saved if name.startswith("state/")} - wanted)
    if unknown:
        raise RunError(_other_state(chain, f"it has {unknown[0]}, which this one does not know"))


def _expect(
    saved: dict[str, NDArray[Any]],
    chain: int,
    name: str,
    shape: tuple[int, ...],
    dtype: Any = None,
) -> NDArray[Any]:
    array = saved.get(name)
    if array is None:
        raise RunError(_other_state(chain, f"{name} is missing"))
    if array.shape != shape or (dtype is not None and array.dtype != dtype):
        raise RunError(
            _other_state(chain, f"{name} is {array.dtype} {array.shape}, not {dtype or ''} {shape}")
        )
    return array


def _other_state(chain: int, difference: str) -> str:
    return (
        f"the state of chain {chain} was saved by another version of the sampler ({difference}), "
        "so that the run can't go on from it; its draws stay readable by tb.load, and "
        "tb.sample(posterior, start=tb.load(path)) samples anew from where they end"
    )
