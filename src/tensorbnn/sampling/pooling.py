"""Meetings of chains in burn-in: they tell what they learnt, and those that are stuck start again.

Chains meet after each of the twenty rounds of burn-in. One that arrives early waits for the
others; what it does next depends on what all told and on nothing else, so it is the same however
the run was cut. What a chain told is saved with it: one that was saved before a meeting that others
have left still hears them.

A chain is stuck where it accepts nothing, where its log-density is no number, or where its
log-density stays far below that of the others.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tensorbnn.inference.sampler import Sampler, pooling_rounds
from tensorbnn.sampling.checkpoint import FARES, Checkpoint
from tensorbnn.sampling.plan import Plan, start_again
from tensorbnn.sampling.reporting import Sums

# Meetings at which chains that are stuck start again: later, too little of burn-in is left.
FIRST_RESTART, LAST_RESTART = 5, 14
# A chain that accepts less than this, over two rounds, accepts nothing.
NOTHING = 0.01
# Far below: so many times the spread that the log-density of a sample has.
FAR = 10.0
# Rounds over which log-densities are compared.
LOOK_BACK = 3
# Log-densities that can't be told apart by less are too coarse to accept or reject by.
COARSE = 0.5


class Meetings:
    """The meetings of chains that run in this process."""

    def __init__(self, checkpoints: Sequence[Checkpoint], sampler: Sampler, plan: Plan) -> None:
        self._sampler, self._plan = sampler, plan
        self._due = pooling_rounds(plan.burn_in)
        self._chains = sorted(chain for at in checkpoints for chain in at.start.chains)
        # How many times each chain has told, and what.
        self._told: dict[int, tuple[int, NDArray[Any]]] = {}
        for at in checkpoints:
            for chain, told in zip(at.start.chains, np.asarray(at.told), strict=True):
                self._told[chain] = (at.met, told)
        self.restarts: list[str] = []
        """What there is to tell of chains: which were started again, and what ails them all."""

    def room(self, at: Checkpoint) -> int | None:
        """Transitions up to the next meeting; ``None`` where there is none."""
        return self._due[at.met] - at.transitions if at.met < len(self._due) else None

    def attend(self, at: Checkpoint) -> Checkpoint | None:
        """The chains after a meeting, if one is due; ``None`` while others have not arrived."""
        if self.room(at) != 0:
            return at
        if self._told[at.start.chains[0]][0] == at.met:
            self._tell(at)
        heard = self._chains if self._plan.together else at.start.chains
        if any(self._told[chain][0] <= at.met for chain in heard):
            return None
        return self._listen(at)

    def _tell(self, at: Checkpoint) -> None:
        acceptance = np.asarray(at.sums.meeting.acceptance) / self._due[0]
        said = [acceptance[:, None], np.asarray(at.start.state.log_density)[:, None]]
        if self._sampler.share is not None:
            said.append(np.asarray(_run(self._sampler.share, at.start.state)))
        for row, chain in enumerate(at.start.chains):
            told = np.array(self._told[chain][1])
            told[at.met] = np.concatenate([each[row] for each in said])
            self._told[chain] = (at.met + 1, told)

    def _listen(self, at: Checkpoint) -> Checkpoint:
        number, chains = at.met, at.start.chains
        state = at.start.state
        heard = self._heard(self._chains if self._plan.together else chains, number)
        if self._sampler.pool is not None:
            listen, counted = self._sampler.pool, jnp.asarray(number, jnp.int32)
            told = jnp.asarray(heard[:, :, FARES:])
            if self._plan.together:
                state = _run(listen, state, told, counted)
            else:  # each chain hears itself alone
                alone = [
                    _run(listen, _row(state, row), told[row : row + 1], counted)
                    for row in range(len(chains))
                ]
                state = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *alone)
        at = at._replace(
            start=at.start._replace(state=state),
            met=number + 1,
            told=jnp.asarray(np.stack([self._told[chain][1] for chain in chains])),
            sums=at.sums._replace(meeting=Sums.zero(len(chains))),
        )
        if at.met == len(self._due) and self._chains[0] in chains:  # which speaks for all
            complaint = coarse(heard[:, number, 1])
            self.restarts += [] if complaint is None else [complaint]
        return self._start_stuck_again(at, number)

    def _heard(self, chains: Sequence[int], number: int) -> NDArray[Any]:
        """What chains told up to meeting `number`, ``(chains, POOLING_ROUNDS, values)``."""
        told = np.stack([self._told[chain][1] for chain in chains])
        told[:, number + 1 :] = 0.0
        return told

    def _start_stuck_again(self, at: Checkpoint, number: int) -> Checkpoint:
        for row, chain in enumerate(at.start.chains):
            heard = self._chains if self._plan.together else [chain]
            told = self._heard(heard, number)[:, : number + 1, :FARES]
            own = told[heard.index(chain)]
            others = np.delete(told, heard.index(chain), axis=0)
            reason = why_again(own, others, at.start.target.dimension)
            if reason is None:
                continue
            count = int(at.restarts[row]) + 1
            start = start_again(at.start, row, count, self._sampler, self._plan)
            at = at._replace(start=start, restarts=at.restarts.at[row].set(count))
            self.restarts.append(
                f"chain {chain} {reason} after {at.transitions:,} transitions of burn-in, and was "
                "started again from another point"
            )
        return at


def meet_again(at: Checkpoint, plan: Plan) -> bool:
    """Whether chains are still to meet others."""
    return plan.together and at.met < len(pooling_rounds(plan.burn_in))


def why_again(own: NDArray[Any], others: NDArray[Any], dimension: int) -> str | None:
    """Why a chain is to start again after the last meeting, or ``None``; arguments as in `stuck`.

    What it told before it was last started again does not count, or it would be started again
    before it had the time to arrive. When that was follows from what all told, as everything here
    does.
    """
    since, reason = 0, None
    for count in range(FIRST_RESTART + 1, len(own) + 1):
        reason = stuck(own[:count], others[:, :count], dimension, since)
        since = since if reason is None else count
    return reason


def stuck(own: NDArray[Any], others: NDArray[Any], dimension: int, since: int = 0) -> str | None:
    """Why a chain is stuck, or ``None``.

    Parameters
    ----------
    own
        Acceptance and log-density of the chain at each meeting so far, ``(meetings, 2)``.
    others
        Those of the other chains, ``(chains, meetings, 2)``.
    dimension
        Length of a position: log-densities of a sample spread by about the root of half of it.
    since
        Number of the first meeting after the chain's last start.
    """
    if not FIRST_RESTART <= len(own) - 1 <= LAST_RESTART:
        return None
    if not np.isfinite(own[-1, 1]):
        return f"had a log-density of {own[-1, 1]}"
    # Where no chain accepts anything it is the step size, which still adapts, not where they are.
    others_move = not len(others) or bool(np.any(others[:, -2:, 0] >= NOTHING))
    rounds = len(own) - since
    if rounds >= 2 and np.all(own[-2:, 0] < NOTHING) and others_move:
        return f"accepted {own[-2:, 0].mean():.1%} of its proposals"
    if rounds < LOOK_BACK:
        return None
    level = own[-LOOK_BACK:, 1]
    reference = others[:, -LOOK_BACK:, 1]
    reference = reference[np.isfinite(reference).all(axis=1)]
    if not len(reference):
        return None
    spread = max(np.sqrt(dimension / 2), float(np.median(np.ptp(reference, axis=1))))
    gap = float(np.median(reference)) - float(level.max())
    climbs = level[-1] - level[0] > gap / LOOK_BACK
    if gap > FAR * spread and not climbs:
        return f"had a log-density {gap:,.0f} below that of the others"
    return None


def coarse(log_densities: NDArray[Any]) -> str | None:
    """What to do where the type of these numbers rounds them too much, or ``None``."""
    known = log_densities[np.isfinite(log_densities)]
    if not len(known) or np.spacing(np.abs(known)).min() < COARSE:
        return None
    size = known[np.argmin(np.abs(known))]
    other = "dtype='float64', or " if known.dtype == np.float32 else ""
    return (
        f"log-densities are about {size:.2g}, which {known.dtype} rounds to multiples of "
        f"{np.spacing(np.abs(size)):.2g}, too coarsely to accept or reject by: give tb.Posterior "
        f"{other}a noise that suits the targets (`standardise=True`, or one that is learned)"
    )


@functools.partial(jax.jit, static_argnums=0)
def _run(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _row(state: Any, row: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[row : row + 1], state)
