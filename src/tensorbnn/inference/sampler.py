"""What every sampler looks like: a frozen dataclass of options, `init`, and a pure `step`.

Chains are a leading axis of every array in a state, of the keys and of the info. The state holds
all that is needed to go on, the info what a person wants to see.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from tensorbnn.inference.target import Target

# Burn-in has so many rounds of equal length, after each of which chains meet; if they are at least
# so long, since shorter ones say too little.
ROUNDS = 20
LEAST_ROUND = 8


class Info(NamedTuple):
    """What one transition did, for each chain.

    Attributes
    ----------
    acceptance
        Probability with which the proposal was to be accepted.
    energy_error
        Energy of the proposal minus energy at the start; zero for an exact integrator.
    divergent
        Whether that error was so large that the integrator must have failed.
    energy
        Energy (minus the log-density plus the kinetic energy) at the start of the trajectory.
    log_density
        Log-density of the state after the transition, in the sampler's coordinates.
    step_size
        Step size; the whole one, where the trajectory took half of it by chance.
    num_steps
        Number of gradients that were spent.
    """

    acceptance: Array
    energy_error: Array
    divergent: Array
    energy: Array
    log_density: Array
    step_size: Array
    num_steps: Array


class Sampler(Protocol):
    """The protocol. A state has at least `position` and `log_density`.

    `step` reads every number from the state, so that none of them is compiled in. A sampler whose
    chains learn from each other in burn-in is a `SharingSampler`, too.
    """

    def init(self, target: Target, positions: Array, burn_in: int) -> Any:
        """State of chains that start at `positions` ``(chains, dimension)``."""

    @property
    def step(self) -> Callable[[Array, Any, Target], tuple[Any, Info]]:
        """A pure function ``(keys, state, target) -> (state, info)``, the same for all options."""


@runtime_checkable
class SharingSampler(Protocol):
    """What a sampler has besides, if its chains learn from each other when they meet.

    Both are pure functions, the same for all options.
    """

    @property
    def tell(self) -> Callable[[Any], Array]:
        """``state -> (chains, values)``: what each chain tells after a round."""

    @property
    def listen(self) -> Callable[[Any, Array, Array], Any]:
        """``(state, told, number) -> state`` after meeting `number`, the first being 0.

        `told` is ``(all chains, ROUNDS, values)``; meetings to come hold zeros.
        """


def meetings(burn_in: int) -> tuple[int, ...]:
    """Numbers of transitions after which chains meet; none where burn-in is too short."""
    length = burn_in // ROUNDS
    return tuple(length * (each + 1) for each in range(ROUNDS)) if length >= LEAST_ROUND else ()


def over_chains(function: Callable[..., Any], *arguments: Any, together: bool = False) -> Any:
    """Apply `function` to each chain, the leading axis of every array in `arguments`.

    On a CPU one chain after the other, which keeps a chain's arrays in the cache, unless they are
    to move `together`; on an accelerator all at once.
    """
    chains = jax.tree.leaves(arguments)[0].shape[0]
    if chains == 1:
        results = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], results)
    if jax.default_backend() == "cpu" and not together:
        return jax.lax.map(lambda each: function(*each), arguments)
    return jax.vmap(function)(*arguments)


def for_each_chain(values: Any, chains: int) -> Any:
    """The same arrays for each chain: `chains` becomes their leading axis."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (chains, *leaf.shape)), values)
