"""Pooling rounds in burn-in: chains share what they have learned, and stuck ones are restarted.

Chains share after each of the twenty rounds of burn-in. A chain that arrives early waits for the
others. What it does next depends only on what all of them shared, so it is the same wherever the
run was interrupted. What a chain shared is saved with it, for chains that were saved before that
round.

A chain is stuck if it accepts nothing, if its log-density is NaN or infinite, or if its log-density
stays far below that of the others.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.data_checks import counted_rows
from tensorbnn.ensemble.fit_checks import noise_collapse
from tensorbnn.inference.sampler import Sampler, pooling_rounds
from tensorbnn.inference.target import TargetDensity, phi_of
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.advance import Sums
from tensorbnn.sampling.checkpoint import HEALTH_VALUES, Checkpoint
from tensorbnn.sampling.plan import Plan, restart
from tensorbnn.warning import ChainRestarted, CoarsePrecision, DataWarning, RunWarning, warn

# Rounds after which stuck chains are restarted: later, too little of burn-in is left.
FIRST_RESTART, LAST_RESTART = 5, 14
# A chain whose acceptance is below this over two rounds accepts nothing.
NO_ACCEPTANCE = 0.01
# Far below: this many times the spread of the log-density of a sample.
FAR = 10.0
# Rounds over which log-densities are compared.
ROUNDS_COMPARED = 3
# Transitions after which the noise is checked.
LEAST_WATCHED = 20
# Log-densities with at least this rounding are too coarse to accept or reject proposals.
COARSE = 0.5


class Pooling:
    """The pooling rounds of chains that run in this process."""

    def __init__(self, checkpoints: Sequence[Checkpoint], sampler: Sampler, plan: Plan) -> None:
        self._sampler, self._plan = sampler, plan
        self._due = pooling_rounds(plan.burn_in)
        self._chains = sorted(chain for at in checkpoints for chain in at.chains.numbers)
        # In how many rounds each chain has shared, and which values.
        self._shared: dict[int, tuple[int, NDArray[Any]]] = {}
        for at in checkpoints:
            for chain, shared in zip(at.chains.numbers, np.asarray(at.shared), strict=True):
                self._shared[chain] = (at.rounds_done, shared)
        self._collapsed = False
        self.warnings: list[RunWarning] = []
        """Which chains were restarted, and why; and problems of all of them."""

    def room(self, at: Checkpoint) -> int | None:
        """Transitions up to the next round; ``None`` after the last."""
        if at.rounds_done >= len(self._due):
            return None
        return self._due[at.rounds_done] - at.transitions

    def synchronize(self, at: Checkpoint) -> Checkpoint | None:
        """The chains after a round, if one is due; ``None`` while others have not arrived."""
        if self.room(at) != 0:
            return at
        if self._shared[at.chains.numbers[0]][0] == at.rounds_done:
            self._share(at)
        if any(self._shared[chain][0] <= at.rounds_done for chain in self._peers(at)):
            return None
        return self._pool(at)

    def warn(self) -> None:
        """Issue new warnings, from the user's thread."""
        while self.warnings:
            warn(self.warnings.pop(0))

    def watch_noise(self, at: Checkpoint, posterior: Posterior) -> None:
        """Warn once if the learned noise of the first of these chains has collapsed in burn-in."""
        target, rows = at.chains.target, posterior.data
        early = at.transitions < LEAST_WATCHED or at.transitions > self._plan.burn_in
        if self._collapsed or early or rows is None or target.held_phi is not None:
            return
        phi = _run(_first_phi, target, at.chains.state.position)
        hypers = {name: float(each) for name, each in target.model.phi.unflatten(phi).items()}
        spread = posterior.scaling.targets(counted_rows(rows).targets).std(axis=0)
        found = [*noise_collapse(posterior.likelihood, hypers, spread)]
        self.warnings += map(DataWarning, found)
        self._collapsed = bool(found)

    def _peers(self, at: Checkpoint) -> Sequence[int]:
        """The chains from which those at `at` learn, themselves included."""
        return self._chains if self._plan.pooled else at.chains.numbers

    def _share(self, at: Checkpoint) -> None:
        acceptance = np.asarray(at.sums.pooling.acceptance_rate) / self._due[0]
        values = [acceptance[:, None], np.asarray(at.chains.state.log_density)[:, None]]
        if self._sampler.share is not None:
            values.append(np.asarray(_run(self._sampler.share, at.chains.state)))
        for row, chain in enumerate(at.chains.numbers):
            shared = np.array(self._shared[chain][1])
            shared[at.rounds_done] = np.concatenate([each[row] for each in values])
            self._shared[chain] = (at.rounds_done + 1, shared)

    def _pool(self, at: Checkpoint) -> Checkpoint:
        number, chains = at.rounds_done, at.chains.numbers
        state = at.chains.state
        known = self._known(self._peers(at), number)
        if self._sampler.pool is not None:
            pool, counted = self._sampler.pool, jnp.asarray(number, jnp.int32)
            shared = jnp.asarray(known[:, :, HEALTH_VALUES:])
            if self._plan.pooled:
                state = _run(pool, state, shared, counted)
            else:  # each chain learns from itself alone
                rows = [_row((state, shared), row) for row in range(len(chains))]
                alone = [_run(pool, *row, counted) for row in rows]
                state = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *alone)
        at = at._replace(
            chains=at.chains._replace(state=state),
            rounds_done=number + 1,
            shared=jnp.asarray(np.stack([self._shared[chain][1] for chain in chains])),
            sums=at.sums._replace(pooling=Sums.zero(len(chains))),
        )
        if at.rounds_done == len(self._due) and self._chains[0] in chains:  # one warns for all
            warning = coarse_precision(known[:, number, 1])
            self.warnings += [] if warning is None else [warning]
        return self._restart_stuck(at, number)

    def _known(self, chains: Sequence[int], number: int) -> NDArray[Any]:
        """What chains shared up to round `number`, ``(chains, POOLING_ROUNDS, values)``."""
        known = np.stack([self._shared[chain][1] for chain in chains])
        known[:, number + 1 :] = 0.0
        return known

    def _restart_stuck(self, at: Checkpoint, number: int) -> Checkpoint:
        for row, chain in enumerate(at.chains.numbers):
            peers = list(self._chains) if self._plan.pooled else [chain]
            known = self._known(peers, number)[:, : number + 1, :HEALTH_VALUES]
            own = known[peers.index(chain)]
            others = np.delete(known, peers.index(chain), axis=0)
            reason = restart_reason(own, others, at.chains.target.dimension)
            if reason is None:
                continue
            count = int(at.restarts[row]) + 1
            chains = restart(at.chains, row, count, self._sampler, self._plan)
            at = at._replace(chains=chains, restarts=at.restarts.at[row].set(count))
            self.warnings.append(ChainRestarted(chain, reason, at.transitions))
        return at


def has_rounds_left(at: Checkpoint, plan: Plan) -> bool:
    """Whether chains have pooling rounds left."""
    return plan.pooled and at.rounds_done < len(pooling_rounds(plan.burn_in))


def restart_reason(own: NDArray[Any], others: NDArray[Any], dimension: int) -> str | None:
    """Why a chain should be restarted after the last round; arguments are those of `stuck_reason`.

    Rounds before its last restart do not count, since a restarted chain needs time to arrive. The
    time of that restart follows from what all shared, as everything here does.
    """
    since, reason = 0, None
    for count in range(FIRST_RESTART + 1, len(own) + 1):
        reason = stuck_reason(own[:count], others[:, :count], dimension, since)
        since = since if reason is None else count
    return reason


def stuck_reason(
    own: NDArray[Any], others: NDArray[Any], dimension: int, since: int = 0
) -> str | None:
    """Why a chain is stuck, or ``None``.

    Parameters
    ----------
    own
        Acceptance and log-density of the chain in each round so far, ``(rounds, 2)``.
    others
        Those of the other chains, ``(chains, rounds, 2)``.
    dimension
        Length of a position: log-densities of a sample spread by about the root of half of it.
    since
        Number of the first round after the chain's last start.
    """
    if not FIRST_RESTART <= len(own) - 1 <= LAST_RESTART:
        return None
    if not np.isfinite(own[-1, 1]):
        return f"had a log-density of {own[-1, 1]}"
    # If no chain accepts anything, the cause is the step size, which still adapts.
    others_move = not len(others) or bool(np.any(others[:, -2:, 0] >= NO_ACCEPTANCE))
    rounds = len(own) - since
    if rounds >= 2 and np.all(own[-2:, 0] < NO_ACCEPTANCE) and others_move:
        return f"accepted {own[-2:, 0].mean():.1%} of its proposals"
    if rounds < ROUNDS_COMPARED:
        return None
    level = own[-ROUNDS_COMPARED:, 1]
    reference = others[:, -ROUNDS_COMPARED:, 1]
    reference = reference[np.isfinite(reference).all(axis=1)]
    if not len(reference):
        return None
    spread = max(np.sqrt(dimension / 2), float(np.median(np.ptp(reference, axis=1))))
    gap = float(np.median(reference)) - float(level.max())
    climbs = level[-1] - level[0] > gap / ROUNDS_COMPARED
    if gap > FAR * spread and not climbs:
        return f"had a log-density {gap:,.0f} below that of the others"
    return None


def coarse_precision(log_densities: NDArray[Any]) -> CoarsePrecision | None:
    """A warning if the type of these numbers rounds them too much."""
    known = log_densities[np.isfinite(log_densities)]
    if not len(known) or np.spacing(np.abs(known)).min() < COARSE:
        return None
    size = known[np.argmin(np.abs(known))]
    return CoarsePrecision(float(size), str(known.dtype), float(np.spacing(np.abs(size))))


def _first_phi(target: TargetDensity, positions: Array) -> Array:
    return phi_of(target, positions[0, target.model.theta.size :])[0]


@functools.partial(jax.jit, static_argnums=0)
def _run(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _row(tree: Any, row: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[row : row + 1], tree)
