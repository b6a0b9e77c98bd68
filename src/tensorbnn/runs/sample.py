"""Run chains: burn in, draw, save.

Each chain is a task of its own: on a CPU one compiled program that advances a single chain is run
by as many threads as there are cores, so that a chain's draws depend neither on the number of
cores nor on the other chains; nor do they depend on how a run is cut into calls. An accelerator
advances all chains at once.
"""

import collections
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import DType
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar
from tensorbnn.runs.advance import Call, Kept, advance, first_draws, named_arrays, no_sums
from tensorbnn.runs.report import MetricError, Moment, Reporter, Reporting, Sums
from tensorbnn.runs.start import Plan, Start
from tensorbnn.runs.store import Store

# One call of the compiled program is to take about this long, so that progress moves and an
# interrupt is answered.
SECONDS_PER_CALL = 0.25
_DONE = object()


def run_chains(
    starts: list[Start],
    sampler: Sampler,
    plan: Plan,
    store: Store,
    *,
    reporting: Reporting,
    dtype: DType,
    progress: bool,
) -> None:
    """Run every chain of `plan` to its end and leave draws and reports in `store`.

    An interrupt (Ctrl-C) or an error stops every chain after the call it is in; what was drawn is
    kept.
    """
    total = plan.chains * plan.transitions
    with precision(dtype), Bar("compiling", total, show=progress, delay=0.0) as bar:
        for chain in reversed(range(plan.chains)):  # of many rows, those set last are shown
            bar.row(chain, {"chain": str(chain), "phase": "waiting"})
        tasks = []
        for start in starts:
            reporter = Reporter(start, reporting, plan.transitions, store, bar)
            tasks.append(_ChainGroup(start, sampler.step, plan, store, reporter))
        status = "interrupted"
        try:
            tasks[0].compile()
            bar.describe("sampling")
            _run_all(tasks, dtype)
            status = "complete"
        finally:
            store.finish(status)


class _ChainGroup:
    """Chains that are advanced by one call; on a CPU a single chain."""

    def __init__(
        self, start: Start, step: Any, plan: Plan, store: Store, reporter: Reporter
    ) -> None:
        self.chains, self.target, self.keys, self.state = start
        self.step, self.plan, self.store = step, plan, store
        self.reporter = reporter
        self.stop = threading.Event()
        self.transitions = 0
        self.sums = no_sums(len(self.chains))
        # State and transitions after the last whole draw, which is what is saved.
        self.whole = (self.state, self.transitions)
        self.files = 0
        self.pending: list[Kept] = []

    def compile(self) -> None:
        """Compile before the threads start, so that each program is compiled once."""
        self._advance(0, 1)

    def calls(self) -> Iterator[None]:
        """Burn in, then draw and save, until the plan is fulfilled or `stop` is set.

        Pauses after each call or so, so that chains can take turns on fewer cores.
        """
        try:
            for _ in self._calls("burn-in", self.plan.burn_in, every=1):
                yield
            for kept in self._calls("sampling", self.plan.draws, every=self.plan.every):
                self.pending.append(kept)
                if self._num_pending == self.plan.networks_per_file:
                    self._flush()
                yield
        except MetricError:
            self._flush()
            raise
        self._flush()

    @property
    def _num_pending(self) -> int:
        return sum(kept.position.shape[1] for kept in self.pending)

    def _calls(self, phase: str, draws: int, every: int) -> Iterator[Kept]:
        """Advance by `draws` draws in calls of about `SECONDS_PER_CALL`."""
        first, count = self.transitions, 1
        while self.transitions < first + draws * every and not self.stop.is_set():
            done, begun = divmod(self.transitions - first, every)
            count = min(count, self._room(done, begun, draws, every))
            began = time.monotonic()
            call = self._advance(count, every)
            seconds = time.monotonic() - began
            if (begun + count) % every == 0:
                self.whole = (self.state, self.transitions)
            moment = self._moment(phase, call, row=(begun + count - 1) // every)
            self.reporter.show(moment, seconds)
            if rows := (begun + count) // every:
                yield first_draws(call, rows)
            if self.reporter.due(self.transitions):
                self.reporter.write(moment)
                self.sums = self.sums._replace(report=Sums.zero(len(self.chains)))
            count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))

    def _room(self, done: int, begun: int, draws: int, every: int) -> int:
        """Transitions the next call may make at most: up to the end of a file, or to a report.

        A call that ends within a draw makes no other one, so that the state between two draws is
        always known.
        """
        file = self.plan.networks_per_file
        room = min(file - done % file, draws - done) * every - begun
        room = min(room, self.reporter.room(self.transitions))
        return room if begun + room <= every else room - (begun + room) % every

    def _advance(self, transitions: int, every: int) -> Call:
        self.state, call = advance(
            self.step,
            self.plan.networks_per_file,
            self.target,
            self.keys,
            self.state,
            jnp.asarray(self.transitions),
            jnp.asarray(transitions),
            jnp.asarray(every),
            self.sums,
        )
        self.transitions += transitions
        self.sums = call.sums
        return jax.tree.map(np.asarray, call)

    def _moment(self, phase: str, call: Call, row: int) -> Moment:
        return Moment(
            epoch=self.transitions,
            phase=phase,
            since_report=call.sums.report,
            call=call.own,
            step_size=np.asarray(call.info.step_size)[:, row],
            log_density=np.asarray(call.info.log_density)[:, row],
            position=self.state.position,
        )

    def _flush(self) -> None:
        """Write the pending draws of every chain as one file each, then the states."""
        if self.pending:
            kept: Kept = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self.pending)
            arrays = named_arrays(self.target, kept, self.plan.networks_per_file)
            for row, chain in enumerate(self.chains):
                self.store.write_chunk(chain, self.files, {k: v[row] for k, v in arrays.items()})
            self.files += 1
            self.pending = []
        self._save_state()

    def _save_state(self) -> None:
        state, transitions = self.whole
        leaves = jax.tree_util.tree_flatten_with_path(state)[0]
        for row, chain in enumerate(self.chains):
            arrays = {
                jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf[row])
                for path, leaf in leaves
            }
            self.store.write_state(chain, arrays | {"transitions": np.asarray(transitions)})


def restore_state(store: Store, template: Any, chain: int) -> Any:
    """A chain's saved state, in the shape of `template` (a state of one chain), bit for bit."""
    arrays = store.read_state(chain)
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    return jax.tree_util.tree_unflatten(
        structure, [jnp.asarray(arrays[name])[None] for name in names]
    )


def _run_all(tasks: list[_ChainGroup], dtype: DType) -> None:
    """Run all tasks on the machine's cores; the first error, or an interrupt, stops them all.

    Where there are more chains than cores they take turns, so that all of them grow together and a
    run can be read, and judged, while it goes on.
    """
    waiting = collections.deque(task.calls() for task in tasks)

    def work() -> None:
        with precision(dtype):
            while (calls := _take(waiting)) is not None:
                if next(calls, _DONE) is not _DONE:
                    waiting.append(calls)

    workers = min(len(tasks), _cores())
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(work) for _ in range(workers)]
        try:
            running = True
            while running:  # in short waits, so that an interrupt is answered on every system
                done, pending = wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION)
                running = bool(pending) and not any(future.exception() for future in done)
            for future in done:
                future.result()
        except BaseException:
            for task in tasks:
                task.stop.set()
            raise


def _take(waiting: "collections.deque[Iterator[None]]") -> Iterator[None] | None:
    try:
        return waiting.popleft()
    except IndexError:  # the rest are being run by other workers
        return None


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
