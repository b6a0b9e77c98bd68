"""The compiled loop: it makes transitions of some chains, and returns their draws and sums.

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


class Sums(NamedTuple):
    """Sums over transitions, for each chain."""

    acceptance_rate: Array
    divergences: Array
    num_gradients: Array

    @classmethod
    def zero(cls, chains: int) -> "Sums":
        """Sums over no transitions."""
        count = jnp.zeros(chains, jnp.int32)
        return cls(jnp.zeros(chains), count, count)

    def add(self, info: TransitionInfo) -> "Sums":
        """The sums with one more transition."""
        return Sums(
            acceptance_rate=self.acceptance_rate + info.acceptance_rate,
            divergences=self.divergences + info.diverging.astype(jnp.int32),
            num_gradients=self.num_gradients + info.num_gradients.astype(jnp.int32),
        )


class RunningSums(NamedTuple):
    """Sums that continue from call to call."""

    partial: Array
    """Transitions made toward a draw that is not complete yet."""
    draw: Sums
    """Over these transitions."""
    report: Sums
    """Over the transitions since the last report."""
    pooling: Sums
    """Over the transitions since the last pooling round."""

    @classmethod
    def zero(cls, chains: int) -> "RunningSums":
        """Sums before the first transition."""
        zero = Sums.zero(chains)
        return cls(jnp.zeros((), jnp.int32), zero, zero, zero)


class DrawBlock(NamedTuple):
    """Consecutive draws: positions, and the info over the transitions that led to each."""

    position: Array
    info: TransitionInfo

    def first(self, draws: int) -> "DrawBlock":
        """The first `draws` draws, as arrays of NumPy."""
        return jax.tree.map(lambda leaf: np.array(leaf[:, :draws]), self)


class CallResult(NamedTuple):
    """The result of a call: the complete draws, in the first rows, and sums."""

    draws: DrawBlock
    sums: RunningSums
    this_call: Sums
    """Over the transitions of this call alone."""
    transitions: Array
    """The number of transitions."""


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def advance(
    step: Any,
    most_gradients: Any,
    capacity: int,
    target: TargetDensity,
    keys: Array,
    state: Any,
    first: Array,
    transitions: Array,
    thin: Array,
    sums: RunningSums,
    gradients: Array,
    in_time: Array,
) -> tuple[Any, CallResult]:
    """Make `transitions` transitions, beginning with number `first`; every `thin`-th is a draw.

    `sums` are those of the previous call. The call ends early after a transition in which a chain
    reaches its limit of `gradients` ``(chains,)``, and before one that might not end in time:
    `in_time` is the number of gradients that each chain has time for. Time is not limited if it is
    below 0, or for a sampler without `most_gradients`.
    """
    chains = keys.shape[0]
    origin = first - sums.partial
    empty = empty_block(step, capacity, target, keys, state)

    def keep_going(carry: tuple[Array, Any, tuple[Sums, ...], DrawBlock]) -> Array:
        index, state, (*_, this_call), _ = carry
        goes_on = (index < first + transitions) & jnp.all(this_call.num_gradients < gradients)
        if most_gradients is None:
            return goes_on
        fits = jnp.all(most_gradients(state) <= in_time - this_call.num_gradients)
        return goes_on & (fits | (in_time < 0))

    def transition(carry: tuple[Array, Any, tuple[Sums, ...], DrawBlock]) -> Any:
        index, state, (draw, *others), block = carry
        state, info = step(_fold_in(keys, index), state, target)
        row, part = jnp.divmod(index - origin, thin)
        draw = jax.tree.map(lambda leaf: jnp.where(part == 0, jnp.zeros_like(leaf), leaf), draw)
        draw, *others = (each.add(info) for each in (draw, *others))
        # Over the transitions of a draw: mean acceptance, and numbers of divergences and gradients.
        # Other statistics are those of the last transition.
        info = info._replace(
            acceptance_rate=draw.acceptance_rate / thin.astype(draw.acceptance_rate.dtype),
            diverging=draw.divergences,
            num_gradients=draw.num_gradients,
        )
        new = DrawBlock(state.position, info)
        block = jax.tree.map(lambda all_, one: all_.at[:, row].set(one), block, new)
        return index + 1, state, (draw, *others), block

    before = (sums.draw, sums.report, sums.pooling, Sums.zero(chains))
    carry = (first, state, before, empty)
    index, state, totals, block = jax.lax.while_loop(keep_going, transition, carry)
    draw, report, pooling, this_call = totals
    count = index - first
    partial = ((sums.partial + count) % thin).astype(sums.partial.dtype)
    return state, CallResult(block, RunningSums(partial, draw, report, pooling), this_call, count)


def named_arrays(
    target: TargetDensity, block: DrawBlock, capacity: int, first: int = 0
) -> dict[str, NDArray[Any]]:
    """Draws as named natural values ``(chains, draws, ...)``.

    Each draw has the same place among `capacity` rows, from row `first` on, as in its file. So it
    is computed in the same way wherever the run was interrupted, by a program compiled once.
    """
    end = first + block.position.shape[1]
    padded = np.pad(block.position, ((0, 0), (first, capacity - end), (0, 0)), mode="edge")
    parameters, hypers = named(target, padded)
    rows = slice(first, end)
    arrays = {f"parameters/{name}": np.asarray(v)[:, rows] for name, v in parameters.items()}
    arrays |= {f"hyperparameters/{name}": np.asarray(v)[:, rows] for name, v in hypers.items()}
    statistics = block.info.by_name()
    return arrays | {f"sample_stats/{name}": np.asarray(v) for name, v in statistics.items()}


def named_in_parts(
    target: TargetDensity, block: DrawBlock, capacity: int, first: int = 0
) -> dict[str, NDArray[Any]]:
    """Draws by name, from row `first` of their file on, in parts of at most `capacity`."""
    parts, done, new = [], 0, block.position.shape[1]
    while done < new:
        row = (first + done) % capacity
        own = slice(done, min(done + capacity - row, new))
        part: DrawBlock = jax.tree.map(lambda leaf, own=own: leaf[:, own], block)
        parts.append(named_arrays(target, part, capacity, row))
        done = own.stop
    return {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}


@jax.jit
def named(target: TargetDensity, positions: Array) -> Any:
    """Natural values of parameters and hyper-parameters at ``(chains, draws, dimension)``."""
    return jax.vmap(jax.vmap(target.named))(positions)


def empty_block(
    step: Any, capacity: int, target: TargetDensity, keys: Array, state: Any
) -> DrawBlock:
    """Arrays for `capacity` draws of each chain, with the types that `step` returns."""
    chains = keys.shape[0]
    found = jax.eval_shape(step, keys, state, target)
    check_step(found, state, chains)
    info = found[1]
    types = jax.tree.map(lambda leaf: leaf.dtype, info)
    types = types._replace(diverging=jnp.int32, num_gradients=jnp.int32)
    return DrawBlock(
        position=jnp.zeros((chains, capacity, target.dimension)),
        info=jax.tree.map(lambda dtype: jnp.zeros((chains, capacity), dtype), types),
    )


def _fold_in(keys: Array, index: Array) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, index))(keys)
