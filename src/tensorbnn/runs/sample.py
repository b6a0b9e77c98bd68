"""Run chains: burn in, draw, save.

Each chain is a task of its own: on a CPU one compiled program that advances a single chain is run
by as many threads as there are cores, so that a chain's draws do not depend on the number of cores;
nor do they depend on how a run is cut into calls, or on where it was stopped and taken up again. In
burn-in chains meet now and then (see `meeting`). An accelerator advances all chains at once.
"""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import DType
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.runs.advance import Call, Kept, advance, first_draws, named_arrays
from tensorbnn.runs.checkpoint import Checkpoint, pack_checkpoint
from tensorbnn.runs.files import RunError
from tensorbnn.runs.interrupt import Interrupts, Stop
from tensorbnn.runs.meeting import Meetings
from tensorbnn.runs.report import Moment, Reporter, Reporting, Sums
from tensorbnn.runs.start import Plan
from tensorbnn.runs.store import Store
from tensorbnn.warning import warn

# One call of the compiled program is to take about this long, so that progress moves and an
# interrupt is answered.
SECONDS_PER_CALL = 0.25
# How long a thread rests when all chains that no thread runs wait for others.
SECONDS_TO_REST = 0.001
_DONE = object()


class Pace(NamedTuple):
    """How often a chain is saved, at least: after so many draws, and after so many seconds."""

    draws: int
    seconds: float


class Outcome(NamedTuple):
    """How far chains came."""

    draws: int
    """Draws that every one of them has."""
    complete: bool
    signal: int | None
    """The signal that stopped them."""
    gradients: int
    """The most that one of them has spent."""
    checkpoints: Sequence[Checkpoint] = ()
    """Where they are, if they were run here."""


def run_chains(
    checkpoints: Sequence[Checkpoint],
    sampler: Sampler,
    plan: Plan,
    store: Store,
    *,
    reporting: Reporting,
    pace: Pace,
    dtype: DType,
    progress: bool,
    stop: Stop | None = None,
    bar: Bar | None = None,
    until_met: bool = False,
) -> Outcome:
    """Run chains from where they are to the end of `plan`; draws and reports go to `store`.

    These may be all chains of a run or some of them; one that is at its end is left as it is. An
    interrupt (Ctrl-C, SIGTERM) or an error stops every chain after the call it is in, and saves
    where it is. So does a second Ctrl-C, but without waiting for calls: chains then go on from
    where they were last saved. `stop` is looked at between calls, too. A chain that has spent
    ``plan.max_gradients`` stops by itself. Progress is shown by `bar`, where one is given. With
    `until_met` chains stop after the last meeting of their burn-in.
    """
    total = sum(len(at.start.chains) for at in checkpoints) * plan.transitions
    done = sum(len(at.start.chains) * at.transitions for at in checkpoints)
    stop = Stop() if stop is None else stop
    with (
        precision(dtype),
        Interrupts(stop) as interrupts,
        contextlib.nullcontext(bar)
        if bar is not None
        else Bar("compiling", total, done=done, show=progress, delay=0.0) as bar,
    ):
        spent = _seconds_spent(store) if done else {}
        gathering = Meetings(checkpoints, sampler, plan)
        tasks = []
        for at in checkpoints:
            reporter = Reporter(
                at.start,
                reporting,
                plan.transitions,
                store,
                bar,
                shown=at.transitions,
                seconds=max(spent.get(chain, 0.0) for chain in at.start.chains),
            )
            tasks.append(
                _ChainGroup(
                    at, sampler.step, plan, store, reporter, pace, stop, gathering, until_met
                )
            )
        for task in reversed(tasks):  # of many rows, those set last are shown
            for chain in reversed(task.chains):
                bar.row(chain, {"chain": str(chain), "phase": "done" if task.done else "waiting"})
        unfinished = [task for task in tasks if not task.done]
        if unfinished:
            unfinished[0].compile()
        bar.describe("sampling")
        _run_all(tasks, stop, dtype)
    for restart in gathering.restarts:
        warn(restart)
    draws = min(task.drawn for task in tasks)
    return Outcome(
        draws,
        all(task.done for task in tasks),
        interrupts.received,
        max(int(task.at.gradients.max()) for task in tasks),
        [task.at for task in tasks],
    )


class _ChainGroup:
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
        gathering: Meetings,
        until_met: bool,
    ) -> None:
        self._at, self._saved = at, at
        self._gathering, self._until_met = gathering, until_met
        self._step, self._plan, self._store = step, plan, store
        self._reporter, self._pace, self._stop = reporter, pace, stop
        self._saved_at = time.monotonic()
        self._count = 1  # transitions of the next call, as far as time goes
        # Of the file that is being filled: what is named already, and what is not yet.
        self._rows = self._saved_rows()
        self._new: list[Kept] = []
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
        return max(self._at.transitions - self._plan.burn_in, 0) // self._plan.every

    def compile(self) -> None:
        """Compile before the threads start, so that each program is compiled once."""
        _, call = self._advance(0, 1)
        size = self._plan.networks_per_file
        named_arrays(self._at.start.target, first_draws(call, 1), size)

    def calls(self) -> Iterator[bool]:
        """Burn in, then draw and save, until the plan is fulfilled or chains are to stop.

        Pauses after each call, so that chains can take turns on fewer cores, and while it waits for
        other chains; says whether it did something.
        """
        try:
            self._report()  # one that was due when the chain was stopped
            while not self.done and not self.spent and not self._stop.asked:
                met = self._gathering.attend(self._at)
                if met is not None:
                    self._at = met
                    if self._until_met and self._gathering.room(met) is None:
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
            self._new.append(first_draws(call_arrays, rows))
        self._reporter.show(self._moment(), call_arrays.own, seconds)
        self._count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))

    @property
    def _every(self) -> int:
        return 1 if self._at.transitions < self._plan.burn_in else self._plan.every

    def _room(self) -> int:
        """Transitions the next call may make at most: up to a checkpoint by draws, or a report."""
        size, room = self._plan.networks_per_file, self._reporter.room(self._at.transitions)
        meeting = self._gathering.room(self._at)
        room = room if meeting is None else min(room, meeting)
        if self._at.transitions < self._plan.burn_in:
            return min(room, size, self._plan.burn_in - self._at.transitions)
        inside = self.drawn % size
        draws = min(self._pace.draws - inside % self._pace.draws, size - inside)
        return min(room, draws * self._every - int(self._at.sums.begun))

    def _is_checkpoint_due(self) -> bool:
        inside = self.drawn % self._plan.networks_per_file
        by_draws = bool(self._new) and inside % self._pace.draws == 0
        return by_draws or time.monotonic() - self._saved_at >= self._pace.seconds

    def _advance(self, transitions: int, every: int) -> tuple[Any, Call]:
        start, most = self._at.start, self._plan.max_gradients
        left = np.iinfo(np.int32).max if most is None else most - self._at.gradients
        gradients = np.minimum(left, np.iinfo(np.int32).max) * np.ones_like(self._at.gradients)
        return advance(
            self._step,
            self._plan.networks_per_file,
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
            if self._new:
                self._write_chunk()
            for chain, arrays in zip(self.chains, pack_checkpoint(self._at), strict=True):
                self._store.write_state(chain, arrays)
        self._saved, self._saved_at = self._at, time.monotonic()

    def _write_chunk(self) -> None:
        kept: Kept = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self._new)
        size, new = self._plan.networks_per_file, kept.position.shape[1]
        index, first = divmod(self.drawn - new, size)
        arrays = named_arrays(self._at.start.target, kept, size, first)
        if self._rows:
            before, after = slice(first), slice(first + new, None)
            arrays = {
                name: np.concatenate([rows[:, before], arrays[name], rows[:, after]], axis=1)
                for name, rows in self._rows.items()
            }
        for row, chain in enumerate(self.chains):
            self._store.write_chunk(chain, index, {k: v[row] for k, v in arrays.items()})
        self._rows, self._new = ({} if first + new == size else arrays), []

    def _saved_rows(self) -> dict[str, NDArray[Any]]:
        """Draws of the last file that is not full, each ``(chains, draws, ...)``.

        The file may hold more than the state counts, where a run was killed between the two: they
        are drawn again, with the same bits, and stay meanwhile, since they may have been read.
        """
        size = self._plan.networks_per_file
        index, draws = divmod(self.drawn, size)
        try:
            if not draws and not all(
                index in self._store.chunk_sizes(chain, range(index)) for chain in self.chains
            ):
                return {}
            chunks = [self._store.read_chunk(chain, index, "") for chain in self.chains]
        except RunError:
            if draws:
                raise
            return {}  # nothing of it is needed
        lengths = [min(len(each) for each in chunk.values()) for chunk in chunks]
        for chain, length in zip(self.chains, lengths, strict=True):
            if length < draws:
                raise RunError(
                    f"chain {chain} can't go on: its last file (number {index}) holds fewer than "
                    f"the {draws} draws that were written"
                )
        end = min(*lengths, self._plan.draws - index * size)
        return {name: np.stack([chunk[name][:end] for chunk in chunks]) for name in chunks[0]}


def _run_all(tasks: list[_ChainGroup], stop: Stop, dtype: DType) -> None:
    """Run all tasks on the machine's cores; the first error, or an interrupt, stops them all.

    Where there are more chains than cores they take turns, so that all of them grow together and a
    run can be read, and judged, while it goes on.
    """
    waiting = collections.deque(task.calls() for task in tasks)
    errors: list[BaseException] = []

    def work() -> None:
        with precision(dtype):
            while (calls := _take(waiting)) is not None:
                try:
                    worked = next(calls, _DONE)
                    if worked is not _DONE:
                        waiting.append(calls)
                    if worked is False:
                        time.sleep(SECONDS_TO_REST)
                except BaseException as error:
                    errors.append(error)
                    stop.asked = True

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(len(tasks), cores()))]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while worker.is_alive():  # in short waits: a signal is answered on every system
                worker.join(timeout=0.5)
    except BaseException:
        stop.asked = True
        for task in tasks:
            task.abandon()
        raise
    if errors:
        raise errors[0]


def _take(waiting: "collections.deque[Iterator[bool]]") -> Iterator[bool] | None:
    try:
        return waiting.popleft()
    except IndexError:  # the rest are being run by other workers
        return None


def _seconds_spent(store: Store) -> dict[int, float]:
    """Seconds each chain has run for, as far as its reports say."""
    spent: dict[int, float] = {}
    for report in store.reports(skip_damaged=True):
        spent[report["chain"]] = max(spent.get(report["chain"], 0.0), report.get("seconds", 0.0))
    return spent


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
