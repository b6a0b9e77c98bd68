"""The compiled loop: transitions of some chains, with the draws and sums they leave.

Every number is an argument, so that one compilation serves burn-in and sampling, calls of any
length, and any step size. The random numbers of transition ``i`` come from the chain's key and
``i`` alone.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.inference.sampler import TransitionInfo, check_step
from tensorbnn.inference.target import TargetDensity
from tensorbnn.sampling.reporting import Sums


class Kept(NamedTuple):
    """What is kept of each draw: the position, and the info over the transitions that led to it."""

    position: Array
    info: TransitionInfo


class RunningSums(NamedTuple):
    """Sums that go on from call to call."""

    begun: Array
    """Transitions made of a draw that is not whole yet."""
    draw: Sums
    """Over these transitions."""
    report: Sums
    """Over the transitions since the last report."""
    meeting: Sums
    """Over the transitions since chains last met."""


class Call(NamedTuple):
    """What a call made: draws in the first rows, as many as are whole; and sums."""

    position: Array
    info: TransitionInfo
    sums: RunningSums
    own: Sums
    """Over the transitions of the call alone."""
    made: Array
    """Their number."""


@functools.partial(jax.jit, static_argnums=(0, 1))
def advance(
    step: Any,
    capacity: int,
    target: TargetDensity,
    keys: Array,
    state: Any,
    first: Array,
    transitions: Array,
    every: Array,
    sums: RunningSums | None = None,
    gradients: Array | None = None,
) -> tuple[Any, Call]:
    """Make `transitions` transitions, beginning with number `first`; every `every`-th is a draw.

    `sums` are those after the call before; left out, a draw and a report begin here. Where
    `gradients` ``(chains,)`` are given, the call ends with the transition in which a chain has
    spent its number of them.
    """
    chains = keys.shape[0]
    sums = no_sums(chains) if sums is None else sums
    origin = first - sums.begun
    buffers = _buffers(step, capacity, target, keys, state)

    def goes_on(carry: tuple[Array, Any, tuple[Sums, ...], Kept]) -> Array:
        index, _, (*_, own), _ = carry
        is_rich = jnp.all(own.num_steps < gradients) if gradients is not None else True
        return (index < first + transitions) & is_rich

    def transition(carry: tuple[Array, Any, tuple[Sums, ...], Kept]) -> Any:
        index, state, (draw, *others), kept = carry
        state, info = step(_fold_in(keys, index), state, target)
        row, part = jnp.divmod(index - origin, every)
        draw = jax.tree.map(lambda leaf: jnp.where(part == 0, jnp.zeros_like(leaf), leaf), draw)
        draw, *others = (each.add(info) for each in (draw, *others))
        # Over the transitions of a draw: mean acceptance, number of divergences, gradients spent;
        # of the rest, the last.
        info = info._replace(
            acceptance=draw.acceptance / every.astype(draw.acceptance.dtype),
            divergent=draw.divergent,
            num_steps=draw.num_steps,
        )
        new = Kept(state.position, info)
        kept = jax.tree.map(lambda all_, one: all_.at[:, row].set(one), kept, new)
        return index + 1, state, (draw, *others), kept

    before = (sums.draw, sums.report, sums.meeting, Sums.zero(chains))
    carry = (first, state, before, buffers)
    index, state, totals, kept = jax.lax.while_loop(goes_on, transition, carry)
    draw, report, meeting, own = totals
    made = index - first
    after = ((sums.begun + made) % every).astype(sums.begun.dtype)
    running = RunningSums(after, draw, report, meeting)
    return state, Call(kept.position, kept.info, running, own, made)


def no_sums(chains: int) -> RunningSums:
    """Sums before the first transition."""
    zero = Sums.zero(chains)
    return RunningSums(jnp.zeros((), jnp.int32), zero, zero, zero)


def first_draws(call: Call, draws: int) -> Kept:
    """The first `draws` draws of a call, without the rest of its buffers."""
    return jax.tree.map(lambda leaf: np.array(leaf[:, :draws]), Kept(call.position, call.info))


def named_arrays(
    target: TargetDensity, kept: Kept, capacity: int, first: int = 0
) -> dict[str, NDArray[Any]]:
    """Draws as named natural values ``(chains, draws, ...)``.

    They are put in rows `first` and on of `capacity`, where they stand in their file: so each is
    computed in the same way however the run was cut, by a program that is compiled once.
    """
    end = first + kept.position.shape[1]
    padded = np.pad(kept.position, ((0, 0), (first, capacity - end), (0, 0)), mode="edge")
    parameters, hypers = named(target, padded)
    rows = slice(first, end)
    arrays = {f"parameters/{name}": np.asarray(v)[:, rows] for name, v in parameters.items()}
    arrays |= {f"hyperparameters/{name}": np.asarray(v)[:, rows] for name, v in hypers.items()}
    return arrays | {f"info/{name}": np.asarray(v) for name, v in kept.info._asdict().items()}


@jax.jit
def named(target: TargetDensity, positions: Array) -> Any:
    """Natural values of parameters and hyper-parameters at ``(chains, draws, dimension)``."""
    return jax.vmap(jax.vmap(target.named))(positions)


def _buffers(step: Any, capacity: int, target: TargetDensity, keys: Array, state: Any) -> Kept:
    """Room for `capacity` draws of each chain, with the types that `step` returns."""
    chains = keys.shape[0]
    made = jax.eval_shape(step, keys, state, target)
    check_step(made, state, chains)
    info = made[1]
    types = jax.tree.map(lambda leaf: leaf.dtype, info)
    types = types._replace(divergent=jnp.int32, num_steps=jnp.int32)
    return Kept(
        position=jnp.zeros((chains, capacity, target.dimension)),
        info=jax.tree.map(lambda dtype: jnp.zeros((chains, capacity), dtype), types),
    )


def _fold_in(keys: Array, index: Array) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, index))(keys)
