"""Run chains: burn in, draw, save.

Each chain is a task of its own: on a CPU one compiled program that advances a single chain is run
by as many threads as there are cores, so that a chain's draws depend neither on the number of
cores nor on the other chains. An accelerator advances all chains at once. The random numbers of
transition ``i`` come from the seed, the chain and ``i`` alone, so that cutting a run into calls of
any length changes nothing.
"""

import functools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.inference.sampler import Info, Sampler
from tensorbnn.inference.target import Target
from tensorbnn.model.checks import DType
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.runs.start import Plan, Start
from tensorbnn.runs.store import Store

# One call of the compiled program is to take about this long, so that progress moves and an
# interrupt is answered.
SECONDS_PER_CALL = 0.25


def run_chains(
    starts: list[Start], sampler: Sampler, plan: Plan, store: Store, *, dtype: DType, progress: bool
) -> None:
    """Run every chain of `plan` to its end and leave the draws in `store`.

    An interrupt (Ctrl-C) or an error stops every chain after the call it is in; what was drawn is
    kept.
    """
    total = plan.chains * plan.transitions
    with precision(dtype), Bar("compiling", total, show=progress, delay=0.0) as bar:
        tasks = [_ChainGroup(start, sampler.step, plan, store, bar, dtype) for start in starts]
        status = "interrupted"
        try:
            tasks[0].compile()
            _run_all(tasks)
            status = "complete"
        finally:
            store.finish(status)


class _Kept(NamedTuple):
    """What is kept of each draw: the position, and the info over the transitions that led to it."""

    position: Array
    info: Info


class _ChainGroup:
    """Chains that are advanced by one call; on a CPU a single chain."""

    def __init__(
        self, start: Start, step: Any, plan: Plan, store: Store, bar: Bar, dtype: DType
    ) -> None:
        self.chains, self.target, self.keys, self.state = start
        self.step, self.plan, self.store, self.bar, self.dtype = step, plan, store, bar, dtype
        self.stop = threading.Event()
        self.transitions = 0
        self.files = 0
        self.pending: list[_Kept] = []

    def compile(self) -> None:
        """Compile before the threads start, so that each program is compiled once."""
        self._advance(0, 1)

    def run(self) -> None:
        """Burn in, then draw and save, until the plan is fulfilled or `stop` is set."""
        with precision(self.dtype):
            for kept in self._calls("burning in", self.plan.burn_in, every=1):
                del kept
            for kept in self._calls("sampling", self.plan.draws, every=self.plan.every):
                self.pending.append(kept)
                if self._num_pending == self.plan.networks_per_file:
                    self._flush()
            self._flush()

    @property
    def _num_pending(self) -> int:
        return sum(kept.position.shape[1] for kept in self.pending)

    def _calls(self, phase: str, draws: int, every: int) -> Iterator[_Kept]:
        """Advance by `draws` draws in calls of about `SECONDS_PER_CALL`, never across a file."""
        done, count = 0, 1
        while done < draws and not self.stop.is_set():
            room = self.plan.networks_per_file - done % self.plan.networks_per_file
            count = min(count, room, draws - done)
            began = time.monotonic()
            kept = _first(self._advance(count, every), count)
            seconds = time.monotonic() - began
            done += count
            self.bar.describe(phase)
            self.bar.advance(
                count * every * len(self.chains),
                note=f"acceptance {np.mean(kept.info.acceptance):.2f}, "
                f"{np.sum(kept.info.num_steps) / seconds:,.0f} gradients/s a core",
            )
            count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))
            yield kept

    def _advance(self, draws: int, every: int) -> _Kept:
        self.state, kept = _advance(
            self.step,
            self.plan.networks_per_file,
            self.target,
            self.keys,
            self.state,
            jnp.asarray(self.transitions),
            jnp.asarray(draws),
            jnp.asarray(every),
        )
        self.transitions += draws * every
        return kept

    def _flush(self) -> None:
        """Write the pending draws of every chain as one file each, then the states."""
        if self.pending:
            kept: _Kept = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self.pending)
            arrays = _arrays(self.target, kept, self.plan.networks_per_file)
            for row, chain in enumerate(self.chains):
                self.store.write_chunk(chain, self.files, {k: v[row] for k, v in arrays.items()})
            self.files += 1
            self.pending = []
        self._save_state()

    def _save_state(self) -> None:
        leaves = jax.tree_util.tree_flatten_with_path(self.state)[0]
        for row, chain in enumerate(self.chains):
            arrays = {
                jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf[row])
                for path, leaf in leaves
            }
            self.store.write_state(chain, arrays | {"transitions": np.asarray(self.transitions)})


def restore_state(store: Store, template: Any, chain: int) -> Any:
    """A chain's saved state, in the shape of `template` (a state of one chain), bit for bit."""
    arrays = store.read_state(chain)
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    return jax.tree_util.tree_unflatten(
        structure, [jnp.asarray(arrays[name])[None] for name in names]
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _advance(
    step: Any,
    capacity: int,
    target: Target,
    keys: Array,
    state: Any,
    first: Array,
    draws: Array,
    every: Array,
) -> tuple[Any, _Kept]:
    """Make `draws` draws, `every` transitions each; only the first `draws` rows are meaningful."""
    chains, dimension = keys.shape[0], target.dimension
    info = jax.eval_shape(step, keys, state, target)[1]
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)
    zero = zero._replace(divergent=jnp.zeros(chains, jnp.int32))
    buffers = _Kept(
        position=jnp.zeros((chains, capacity, dimension)),
        info=jax.tree.map(lambda leaf: jnp.zeros((chains, capacity), leaf.dtype), zero),
    )

    def transition(index: Array, carry: tuple[Any, Info]) -> tuple[Any, Info]:
        state, total = carry
        state, info = step(_fold_in(keys, index), state, target)
        # Over the transitions of a draw: mean acceptance, number of divergences, gradients spent;
        # of the rest, the last.
        return state, info._replace(
            acceptance=total.acceptance + info.acceptance / every.astype(info.acceptance.dtype),
            divergent=total.divergent + info.divergent.astype(jnp.int32),
            num_steps=total.num_steps + info.num_steps,
        )

    def draw(index: Array, carry: tuple[Any, _Kept]) -> tuple[Any, _Kept]:
        state, kept = carry
        begin = first + index * every
        state, info = jax.lax.fori_loop(begin, begin + every, transition, (state, zero))
        row = _Kept(state.position, info)
        return state, jax.tree.map(lambda all_, one: all_.at[:, index].set(one), kept, row)

    return jax.lax.fori_loop(0, draws, draw, (state, buffers))


def _first(kept: _Kept, draws: int) -> _Kept:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, :draws], kept)


def _fold_in(keys: Array, index: Array) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, index))(keys)


def _arrays(target: Target, kept: _Kept, capacity: int) -> dict[str, NDArray[Any]]:
    """Draws as named natural values ``(chains, draws, ...)``."""
    draws = kept.position.shape[1]
    padded = np.pad(kept.position, ((0, 0), (0, capacity - draws), (0, 0)), mode="edge")
    parameters, hypers = _named(target, padded)
    arrays = {f"parameters/{name}": np.asarray(v)[:, :draws] for name, v in parameters.items()}
    arrays |= {f"hyperparameters/{name}": np.asarray(v)[:, :draws] for name, v in hypers.items()}
    return arrays | {f"info/{name}": np.asarray(v) for name, v in kept.info._asdict().items()}


@jax.jit
def _named(target: Target, positions: Array) -> Any:
    return jax.vmap(jax.vmap(target.named))(positions)


def _run_all(tasks: list[_ChainGroup]) -> None:
    """Run all tasks on the machine's cores; the first error, or an interrupt, stops them all."""
    with ThreadPoolExecutor(max_workers=min(len(tasks), _cores())) as pool:
        futures = [pool.submit(task.run) for task in tasks]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            for task in tasks:
                task.stop.set()
            raise


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
