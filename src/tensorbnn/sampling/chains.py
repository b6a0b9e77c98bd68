"""Chains that one call advances: burn in, draw, report, and save where they are."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import RunError
from tensorbnn.inference.target import TargetDensity
from tensorbnn.sampling.advance import (
    CallResult,
    DrawBlock,
    Sums,
    advance,
    named_arrays,
    named_in_parts,
)
from tensorbnn.sampling.burn_in import BurnInNetworks
from tensorbnn.sampling.checkpoint import Checkpoint, pack_checkpoint
from tensorbnn.sampling.interrupt import StopRequest
from tensorbnn.sampling.pace import Pace
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.pooling import Pooling
from tensorbnn.sampling.reporting import Reporter
from tensorbnn.sampling.run import Run
from tensorbnn.storage.store import Store


@final
class ChainGroup:
    """Chains that one call advances; on a CPU a single chain.

    A call of the compiled program takes about `call_seconds`, so that progress is shown and
    interrupts are handled. With `until_pooled` the chains stop after the last pooling round.
    """

    after_call: ClassVar[Callable[["ChainGroup"], None] | None] = None
    """Called after each call, before its results are reported and saved; for tests."""

    def __init__(
        self,
        at: Checkpoint,
        run: Run,
        reporter: Reporter,
        pooling: Pooling,
        stop: StopRequest,
        *,
        call_seconds: float,
        until_pooled: bool,
    ) -> None:
        self.at = self._saved = at
        self._run, self._plan, self._store = run, run.plan, run.store
        self._reporter, self._pooling, self.stop = reporter, pooling, stop
        self._call_seconds, self._until_pooled = call_seconds, until_pooled
        self._saved_at = time.monotonic()
        self._count = 1  # transitions that the next call has time for
        self._pace = Pace(announces=run.sampler.most_gradients is not None)
        self.is_late = False
        """Whether the next transition could end after the limit of time."""
        self._burn_in = BurnInNetworks(at) if run.rule.has_limit else None
        self._buffer = DrawBuffer(run.store, self.chains, run.plan, self.drawn)
        # Held while files are written; the flag says that nothing more should be written.
        self._writing, self._abandoned = threading.Lock(), False

    @property
    def chains(self) -> Sequence[int]:
        return self.at.chains.numbers

    @property
    def is_spent(self) -> bool:
        """Whether a chain has spent its gradients; chains that are advanced together then stop."""
        return self._run.rule.is_spent(int(self.at.gradients.max()))

    @property
    def is_done(self) -> bool:
        """Whether the plan is complete."""
        return self.at.transitions >= self._plan.transitions

    @property
    def drawn(self) -> int:
        """Complete draws of each chain."""
        return self._plan.drawn(self.at.transitions)

    def compile(self) -> None:
        """Compile before the threads start, so that each program is compiled once."""
        _, result = advance(*self._arguments(0, 1, -1))
        named_arrays(self.at.chains.target, result.draws.first(1), self._plan.capacity)

    def calls(self) -> Iterator[bool]:
        """Burn in, then draw and save, until the plan is complete or the chains should stop.

        Yields after each call, so that chains can take turns on fewer cores, and while it waits for
        other chains; the value says whether it did something.
        """
        try:
            self._report()  # one that was due when the chain was stopped
            while not (self.is_done or self.is_spent or self.is_late or self.stop.requested):
                pooled = self._pooling.synchronize(self.at)
                if pooled is not None:
                    self.at = pooled
                    if self._until_pooled and self._pooling.room(pooled) is None:
                        break
                    self._call()
                    if self.after_call is not None:
                        self.after_call()
                    self._report()
                    if self._is_checkpoint_due():
                        self._save()
                yield pooled is not None
        except RunError:  # nothing more can be written
            raise
        except Exception:
            self._save()
            raise
        self._save()
        if (self.is_spent or self.is_late) and not self.drawn:
            # The other chains are of no use without this one, and may be waiting for it.
            self.stop.request(by_limit=True)

    def keep_burn_in(self) -> None:
        """Keep networks of burn-in if a limit has stopped the chains before their first draws."""
        if not self.drawn and self._burn_in is not None:
            self._burn_in.write(self._store, self.at, self._run)

    def abandon(self) -> None:
        """Write nothing more; waits for a file that is being written, not for a call."""
        with self._writing:
            self._abandoned = True

    def _call(self) -> None:
        thin, began = self._thin, time.monotonic()
        budget = self._pace.budget(self.stop.seconds_left)
        most = min(self._count, self._room(), budget.transitions)
        state, on_device = advance(*self._arguments(most, thin, budget.gradients))
        result: CallResult = jax.tree.map(np.asarray, on_device)
        count = int(result.transitions)
        if not count:
            self.is_late = True
            return
        rows, rest = divmod(int(self.at.sums.partial) + count, thin)
        seconds = time.monotonic() - began
        burning_in = self.at.transitions < self._plan.burn_in
        last = rows if rest else rows - 1  # the row of the last transition
        self.at = self.at._replace(
            chains=self.at.chains._replace(state=state),
            transitions=self.at.transitions + count,
            step_size=result.draws.info.step_size[:, last],
            sums=on_device.sums,
            gradients=self.at.gradients + result.this_call.num_gradients,
        )
        if rows and not burning_in:
            self._buffer.add(result.draws.first(rows))
        elif burning_in and self._burn_in is not None:
            self._burn_in.add(self.at.transitions, result.draws.first(count))
        self._pace.add(count, int(result.this_call.num_gradients.max()), seconds)
        self._reporter.show(self.at, result.this_call, seconds)
        self._pooling.watch_noise(self.at, self._run.posterior)
        by_time = int(count * self._call_seconds / max(seconds, 1e-9))
        self._count = min(2 * count, max(1, by_time))

    @property
    def _thin(self) -> int:
        return 1 if self.at.transitions < self._plan.burn_in else self._plan.thin

    def _room(self) -> int:
        """Largest number of transitions in the next call: up to the end of a file, or a report."""
        size, most = self._plan.networks_per_file, self._plan.capacity
        room = self._reporter.room(self.at.transitions)
        until_round = self._pooling.room(self.at)
        room = room if until_round is None else min(room, until_round)
        if self.at.transitions < self._plan.burn_in:
            return min(room, most, self._plan.burn_in - self.at.transitions)
        draws = min(size - self.drawn % size, most)
        return min(room, draws * self._thin - int(self.at.sums.partial))

    def _is_checkpoint_due(self) -> bool:
        is_full = self._buffer.has_new and self.drawn % self._plan.networks_per_file == 0
        return is_full or time.monotonic() - self._saved_at >= self._run.checkpoint_seconds

    def _arguments(self, transitions: int, thin: int, in_time: int) -> tuple[Any, ...]:
        """The arguments of `advance`."""
        chains, most = self.at.chains, self._run.rule.max_gradients
        left = np.iinfo(np.int32).max if most is None else most - self.at.gradients
        gradients = np.minimum(left, np.iinfo(np.int32).max) * np.ones_like(self.at.gradients)
        return (
            self._run.sampler.step,
            self._run.sampler.most_gradients,
            self._plan.capacity,
            chains.target,
            chains.keys,
            chains.state,
            jnp.asarray(self.at.transitions),
            jnp.asarray(transitions),
            jnp.asarray(thin),
            self.at.sums,
            jnp.asarray(gradients.astype(np.int32)),
            jnp.asarray(in_time, jnp.int32),
        )

    def _report(self) -> None:
        transition = self.at.transitions
        if transition == 0 or transition == self.at.reported or not self._reporter.due(transition):
            return
        self._reporter.write(self.at)
        sums = self.at.sums
        if self._reporter.resets_sums(transition):
            sums = sums._replace(report=Sums.zero(len(self.chains)))
        self.at = self.at._replace(reported=transition, sums=sums)

    def _save(self) -> None:
        """Write the draws of every chain, then its state, which counts them."""
        if self.at is self._saved:
            return
        with self._writing:
            if self._abandoned:
                return
            if self._buffer.has_new:
                self._buffer.write(self.at.chains.target, self.drawn)
                for chain in self.chains:
                    self._store.remove_burn_in(chain)
            for chain, arrays in zip(self.chains, pack_checkpoint(self.at), strict=True):
                self._store.write_state(chain, arrays)
        self._saved, self._saved_at = self.at, time.monotonic()


@final
class DrawBuffer:
    """The file that each chain is filling: its written and unwritten draws.

    `drawn` is the number of complete draws of each of them.
    """

    def __init__(self, store: Store, chains: Sequence[int], plan: Plan, drawn: int) -> None:
        self._store, self._chains = store, chains
        self._size, self._capacity = plan.networks_per_file, plan.capacity
        self._rows = self._saved_rows(drawn, plan.draws)
        self._new: list[DrawBlock] = []

    @property
    def has_new(self) -> bool:
        """Whether there are unwritten draws."""
        return bool(self._new)

    def add(self, draws: DrawBlock) -> None:
        self._new.append(draws)

    def write(self, target: TargetDensity, drawn: int) -> None:
        """Write the file with the new draws; `drawn` includes them."""
        block: DrawBlock = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self._new)
        new = block.position.shape[1]
        index, first = divmod(drawn - new, self._size)
        arrays = named_in_parts(target, block, self._capacity, first)
        if self._rows:
            before, after = slice(first), slice(first + new, None)
            arrays = {
                name: np.concatenate([rows[:, before], arrays[name], rows[:, after]], axis=1)
                for name, rows in self._rows.items()
            }
        for row, chain in enumerate(self._chains):
            own = {name: values[row] for name, values in arrays.items()}
            self._store.write_chunk(chain, index, own)
        self._rows, self._new = ({} if first + new == self._size else arrays), []

    def _saved_rows(self, drawn: int, most: int) -> dict[str, NDArray[Any]]:
        """Draws of the last file that is not full, each ``(chains, draws, ...)``.

        If a run was killed between writing file and state, the file holds more draws than the state
        counts. They are drawn again, with the same bits; until then they stay, since they may have
        been read. A run that should have fewer draws, `most`, keeps no more.
        """
        index, draws = divmod(drawn, self._size)
        chunks = self._saved_chunks(index, needed=draws > 0)
        if not chunks:
            return {}
        lengths = [min(len(each) for each in chunk.values()) for chunk in chunks]
        for chain, length in zip(self._chains, lengths, strict=True):
            if length < draws:
                raise RunError(
                    f"chain {chain} can't continue: its last file (number {index}) holds fewer "
                    f"than the {draws} draws that were written"
                )
        end = min(*lengths, most - index * self._size)
        return {name: np.stack([chunk[name][:end] for chunk in chunks]) for name in chunks[0]}

    def _saved_chunks(self, index: int, *, needed: bool) -> list[dict[str, NDArray[Any]]]:
        """File number `index` of each chain; empty if it is not `needed` and a chain has none."""
        try:
            if not needed and not all(
                index in self._store.chunk_sizes(chain, range(index)) for chain in self._chains
            ):
                return []
            return [self._store.read_chunk(chain, index, "") for chain in self._chains]
        except RunError:
            if needed:
                raise
            return []
