"""Chains that one call advances: burn in, draw, report, and save where they are."""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from tensorbnn.sampling.advance import Call, advance, first_draws, named_arrays
from tensorbnn.sampling.checkpoint import Checkpoint, pack_checkpoint
from tensorbnn.sampling.draws_file import DrawsFile
from tensorbnn.sampling.interrupt import Stop
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.pooling import Meetings
from tensorbnn.sampling.reporting import Moment, Reporter, Sums
from tensorbnn.storage.files import RunError
from tensorbnn.storage.store import Store

# One call of the compiled program is to take about this long, so that progress moves and an
# interrupt is answered.
SECONDS_PER_CALL = 0.25


class Pace(NamedTuple):
    """How often a chain is saved, at least: after so many draws, and after so many seconds."""

    draws: int
    seconds: float


@final
class ChainGroup:
    """Chains that are advanced by one call; on a CPU a single chain."""

    def __init__(
        self,
        at: Checkpoint,
        step: Any,
        plan: Plan,
        store: Store,
        reporter: Reporter,
        pace: Pace,
        stop: Stop,
        meetings: Meetings,
        *,
        until_met: bool,
    ) -> None:
        self._at, self._saved = at, at
        self._meetings, self._until_met = meetings, until_met
        self._step, self._plan, self._store = step, plan, store
        self._reporter, self._pace, self._stop = reporter, pace, stop
        self._saved_at = time.monotonic()
        self._count = 1  # transitions of the next call, as far as time goes
        self._file = DrawsFile(store, self.chains, plan, self.drawn)
        # Held while files are written, and then whether that is still wanted.
        self._writing, self._abandoned = threading.Lock(), False

    @property
    def chains(self) -> Sequence[int]:
        """Numbers of the chains."""
        return self._at.start.chains

    @property
    def at(self) -> Checkpoint:
        """Where the chains are."""
        return self._at

    @property
    def spent(self) -> bool:
        """Whether a chain has spent its gradients; chains that are advanced together then stop."""
        return self._plan.is_spent(int(self._at.gradients.max()))

    @property
    def done(self) -> bool:
        """Whether the plan is fulfilled."""
        return self._at.transitions >= self._plan.transitions

    @property
    def drawn(self) -> int:
        """Whole draws of each chain."""
        return self._plan.drawn(self._at.transitions)

    def compile(self) -> None:
        """Compile before the threads start, so that each program is compiled once."""
        _, call = self._advance(0, 1)
        named_arrays(self._at.start.target, first_draws(call, 1), self._plan.capacity)

    def calls(self) -> Iterator[bool]:
        """Burn in, then draw and save, until the plan is fulfilled or chains are to stop.

        Pauses after each call, so that chains can take turns on fewer cores, and while it waits for
        other chains; says whether it did something.
        """
        try:
            self._report()  # one that was due when the chain was stopped
            while not self.done and not self.spent and not self._stop.asked:
                met = self._meetings.attend(self._at)
                if met is not None:
                    self._at = met
                    if self._until_met and self._meetings.room(met) is None:
                        break
                    self._call()
                    self._report()
                    if self._is_checkpoint_due():
                        self._save()
                yield met is not None
        except RunError:  # nothing more can be written
            raise
        except Exception:
            self._save()
            raise
        self._save()
        if self.spent and not self.drawn:
            # There is nothing to be had from the others, which may be waiting for this one.
            self._stop.asked = True

    def abandon(self) -> None:
        """Write nothing more; waits for a file that is being written, not for a call."""
        with self._writing:
            self._abandoned = True

    def _call(self) -> None:
        """One call of the compiled program, of about `SECONDS_PER_CALL`."""
        every = self._every
        began = time.monotonic()
        state, call = self._advance(min(self._count, self._room()), every)
        call_arrays: Call = jax.tree.map(np.asarray, call)
        count = int(call_arrays.made)
        rows, rest = divmod(int(self._at.sums.begun) + count, every)
        seconds = time.monotonic() - began
        burning_in = self._at.transitions < self._plan.burn_in
        last = rows if rest else rows - 1  # the row of the last transition
        self._at = self._at._replace(
            start=self._at.start._replace(state=state),
            transitions=self._at.transitions + count,
            step_size=call_arrays.info.step_size[:, last],
            sums=call.sums,
            gradients=self._at.gradients + call_arrays.own.num_steps,
        )
        if rows and not burning_in:
            self._file.add(first_draws(call_arrays, rows))
        self._reporter.show(self._moment(), call_arrays.own, seconds)
        self._count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))

    @property
    def _every(self) -> int:
        return 1 if self._at.transitions < self._plan.burn_in else self._plan.every

    def _room(self) -> int:
        """Transitions the next call may make at most: up to a checkpoint by draws, or a report."""
        size, most = self._plan.networks_per_file, self._plan.capacity
        room = self._reporter.room(self._at.transitions)
        meeting = self._meetings.room(self._at)
        room = room if meeting is None else min(room, meeting)
        if self._at.transitions < self._plan.burn_in:
            return min(room, most, self._plan.burn_in - self._at.transitions)
        inside = self.drawn % size
        draws = min(self._pace.draws - inside % self._pace.draws, size - inside, most)
        return min(room, draws * self._every - int(self._at.sums.begun))

    def _is_checkpoint_due(self) -> bool:
        inside = self.drawn % self._plan.networks_per_file
        by_draws = self._file.has_new and inside % self._pace.draws == 0
        return by_draws or time.monotonic() - self._saved_at >= self._pace.seconds

    def _advance(self, transitions: int, every: int) -> tuple[Any, Call]:
        start, most = self._at.start, self._plan.max_gradients
        left = np.iinfo(np.int32).max if most is None else most - self._at.gradients
        gradients = np.minimum(left, np.iinfo(np.int32).max) * np.ones_like(self._at.gradients)
        return advance(
            self._step,
            self._plan.capacity,
            start.target,
            start.keys,
            start.state,
            jnp.asarray(self._at.transitions),
            jnp.asarray(transitions),
            jnp.asarray(every),
            self._at.sums,
            jnp.asarray(gradients.astype(np.int32)),
        )

    def _report(self) -> None:
        """Write a report if one is due."""
        epoch = self._at.transitions
        if epoch == 0 or epoch == self._at.reported or not self._reporter.due(epoch):
            return
        self._reporter.write(self._moment())
        sums = self._at.sums
        if self._reporter.begins_anew(epoch):
            sums = sums._replace(report=Sums.zero(len(self.chains)))
        self._at = self._at._replace(reported=epoch, sums=sums)

    def _moment(self) -> Moment:
        at = self._at
        return Moment(
            epoch=at.transitions,
            phase="burn-in" if at.transitions <= self._plan.burn_in else "sampling",
            since_report=jax.tree.map(np.asarray, at.sums.report),
            step_size=np.asarray(at.step_size),
            log_density=np.asarray(at.start.state.log_density),
            position=at.start.state.position,
            restarts=np.asarray(at.restarts),
        )

    def _save(self) -> None:
        """Write the draws of every chain, then where it is, which makes them count."""
        if self._at is self._saved:
            return
        with self._writing:
            if self._abandoned:
                return
            if self._file.has_new:
                self._file.write(self._at.start.target, self.drawn)
            for chain, arrays in zip(self.chains, pack_checkpoint(self._at), strict=True):
                self._store.write_state(chain, arrays)
        self._saved, self._saved_at = self._at, time.monotonic()
