"""What every sampler looks like: a frozen dataclass of options, `init`, and a pure `step`.

Chains are a leading axis of every array in a state, of the keys and of the info. The state holds
all that is needed to go on, the info what a person wants to see.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tensorbnn.inference.target import Target

# Burn-in has so many rounds of equal length, after each of which chains meet; if they are at least
# so long, since shorter ones say too little.
ROUNDS = 20
LEAST_ROUND = 8
# The numbers of transitions that programs count with, and the bits of a key.
MOST_TRANSITIONS = 2**31 - 1
MOST_SEED = 2**64 - 1


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


def root_key(seed: int) -> Array:
    """The key of a seed of up to 64 bits, all of which count in single precision, too."""
    halves = np.asarray([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(halves), impl="threefry2x32")


def check_state(state: Any, chains: int) -> None:
    """Raise where what `init` of a sampler returned is no state of so many chains."""
    missing = [name for name in ("position", "log_density") if not hasattr(state, name)]
    if missing:
        raise TypeError(
            "`init` of a sampler must return a state with at least `position` and `log_density`, "
            f"but what it returned, a {type(state).__name__}, has no {' and no '.join(missing)}"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if not hasattr(leaf, "dtype") or leaf.shape[:1] != (chains,):
            raise TypeError(
                f"all in the state of a sampler must be arrays with the chains, {chains}, as first "
                f"axis, but {_name(path)} is {_type_of(leaf)}"
            )


def check_step(found: Any, state: Any, chains: int) -> None:
    """Raise where what `step` of a sampler returned is not a state as before, and an `Info`."""
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Info)):
        each = found if type(found) is tuple else (found,)
        kinds = ", ".join(type(part).__name__ for part in each)
        raise TypeError(
            "`step` of a sampler must return a pair, the new state and an Info, but returned "
            f"({kinds})"
        )
    before, after = (dict(jax.tree_util.tree_leaves_with_path(each)) for each in (state, found[0]))
    for path in before | after:
        old, new = _type_of(before.get(path)), _type_of(after.get(path))
        if old != new:
            raise TypeError(
                "`step` of a sampler must keep shapes and types of the state, but made "
                f"{_name(path)}, which was {old}, {new}"
            )
    for name, leaf in found[1]._asdict().items():
        if getattr(leaf, "shape", None) != (chains,):
            raise TypeError(
                f"`{name}` of the Info of a sampler must have shape ({chains},), a number for each "
                f"chain, but is {_type_of(leaf)}"
            )


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".") or "the state"


def _type_of(leaf: Any) -> str:
    if not hasattr(leaf, "dtype"):
        return repr(leaf)
    return f"{leaf.dtype}[{', '.join(str(each) for each in leaf.shape)}]"


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
