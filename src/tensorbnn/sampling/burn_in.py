"""Burn-in of a run with a limit: its networks, and whether it will end in time.

If a limit stops a run before its first draw, you get networks of burn-in. They are kept in memory,
thinned, and are saved only if the run ends there; as soon as there are draws, they are removed.
"""

import time
from typing import final

import jax
import numpy as np

from tensorbnn.sampling.advance import DrawBlock, empty_block, named_in_parts
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.run import Run
from tensorbnn.storage.store import Store
from tensorbnn.warning import BurnInTooSlow, warn

# Most networks of burn-in that are kept for each chain.
MOST_KEPT = 100
# Seconds after which you get a warning if burn-in takes too long.
FORECAST_SECONDS = 3.0


@final
class BurnInNetworks:
    """The networks of some chains after every n-th transition; `n` grows with their number."""

    def __init__(self, at: Checkpoint) -> None:
        self._stride, self._chains = 1, at.chains.numbers
        self._transitions: list[int] = []
        self._blocks: list[DrawBlock] = []

    def add(self, last: int, block: DrawBlock) -> None:
        """Add the networks after the transitions up to number `last`."""
        first = last - block.position.shape[1] + 1
        for number in range(first + -first % self._stride, last + 1, self._stride):
            row = slice(number - first, number - first + 1)
            self._blocks.append(jax.tree.map(lambda leaf, row=row: leaf[:, row].copy(), block))
            self._transitions.append(number)
            if len(self._blocks) > MOST_KEPT:
                self._thin()

    def write(self, store: Store, at: Checkpoint, run: Run) -> None:
        """Save those of the second half of the burn-in so far; at least the current ones."""
        chosen = [n for n, each in enumerate(self._transitions) if 2 * each > at.transitions]
        blocks = [self._blocks[n] for n in chosen] or [_current(at, run)]
        transitions = np.asarray([self._transitions[n] for n in chosen] or [at.transitions])
        block: DrawBlock = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *blocks)
        arrays = named_in_parts(at.chains.target, block, run.plan.capacity)
        for row, chain in enumerate(self._chains):
            own = {name: each[row] for name, each in arrays.items()} | {"transition": transitions}
            before = store.read_burn_in(chain)
            if before and len(transitions) < len(before["transition"]):
                own = {name: np.concatenate([before[name], each]) for name, each in own.items()}
            store.write_burn_in(chain, {name: each[-MOST_KEPT:] for name, each in own.items()})

    def _thin(self) -> None:
        self._stride *= 2
        kept = [n for n, each in enumerate(self._transitions) if each % self._stride == 0]
        self._transitions = [self._transitions[n] for n in kept]
        self._blocks = [self._blocks[n] for n in kept]


@final
class BurnInForecast:
    """Warns once, after the first seconds, if burn-in can't end within the limit of time."""

    def __init__(self, run: Run) -> None:
        self._rule, self._burn_in = run.rule, run.plan.burn_in
        self._began: tuple[float, int] | None = None
        self._is_over = self._rule.deadline is None or self._rule.max_minutes is None

    def update(self, transitions: int) -> None:
        """Check the progress of all chains: they have made this many `transitions` together."""
        if self._is_over:
            return
        now = time.monotonic()
        if self._began is None:
            self._began = now, transitions
            return
        began, before = self._began
        self._is_over = transitions >= self._burn_in
        made = transitions - before
        if self._is_over or now - began < FORECAST_SECONDS or not made:
            return
        left = (self._burn_in - transitions) * (now - began) / made
        deadline, minutes = self._rule.deadline, self._rule.max_minutes
        if deadline is not None and minutes is not None and now + left > deadline:
            self._is_over = True
            in_all = minutes + (now + left - deadline) / 60
            warn(BurnInTooSlow(minutes, in_all))


def _current(at: Checkpoint, run: Run) -> DrawBlock:
    """The current networks; their last transition is unknown."""
    chains = at.chains
    empty = empty_block(run.sampler.step, 1, chains.target, chains.keys, chains.state)
    info = empty.info._replace(lp=chains.state.log_density[:, None])
    found = DrawBlock(chains.state.position[:, None], info)
    return found.first(1)
