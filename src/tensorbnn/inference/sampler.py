"""The base class of samplers: a frozen dataclass of options with `init` and a pure `step`.

Chains are the leading axis of every array in a state, in the keys and in the info. The state holds
everything that the next transition needs; the info holds statistics for the user.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.findings import Finding
from tensorbnn.inference.target import TargetDensity

# Burn-in has this many pooling rounds of equal length, unless they would be shorter than the
# minimum: short rounds carry too little information.
POOLING_ROUNDS = 20
MIN_ROUND_LENGTH = 8
# Transitions are counted in 32 bits; a seed has at most 64.
MAX_TRANSITIONS = 2**31 - 1
MAX_SEED = 2**64 - 1

T = TypeVar("T")


class TransitionInfo(NamedTuple):
    """Statistics of one transition; every array is ``(chains,)``.

    Each is saved with the draws and appears in `Ensemble.sample_stats` under the same name. The
    last three are ``None`` by default: a sampler sets those that it can measure.

    Attributes
    ----------
    acceptance_rate
        Probability that the proposal is accepted.
    diverging
        Whether the integrator failed: the energy error was huge or NaN.
    lp
        Log-density after the transition, in the coordinates in which the sampler moves.
    energy
        Energy at the start of the trajectory: kinetic energy minus log-density.
    num_gradients
        Number of gradients that the transition took.
    step_size
        Step size; the full one even if the trajectory randomly took half of it.
    energy_error
        Energy of the proposal minus energy at the start (samplers with a Metropolis step).
    energy_error_rms
        Root mean square energy error of the steps, per root of the dimension (`MCLMC`).
    kinetic_temperature
        Mean of the squared momentum; 1 where the dynamics are exact (`SGHMC`).
    """

    acceptance_rate: Array
    diverging: Array
    lp: Array
    energy: Array
    num_gradients: Array
    step_size: Array
    energy_error: Array | None = None
    energy_error_rms: Array | None = None
    kinetic_temperature: Array | None = None

    def by_name(self) -> dict[str, Array]:
        """The statistics that this sampler has."""
        return {name: each for name, each in self._asdict().items() if each is not None}


# The result of a step: the new state and its statistics.
Transition = tuple[T, TransitionInfo]


class Sampler(ABC):
    """Base class of samplers; a subclass is a frozen dataclass whose fields are its options.

    A state is a NamedTuple (or another pytree) of arrays with at least `position` and
    `log_density`. `step`, `share` and `pool` are pure functions that read every number from the
    state, so that new values of options need no recompilation. Chains may learn from each other
    during burn-in: after each round, `share` returns the statistics of every chain, and `pool`
    updates the state with those of all. See [Your own sampler](extending.md#your-own-sampler).

    Attributes
    ----------
    exact
        Whether every transition leaves the posterior invariant, whatever the step size.
    packages
        Python packages, besides JAX, whose version affects the exact draws.
    learned
        Fields of the state that a chain keeps when it is restarted at another position.
    share
        ``state -> (chains, values)``, or ``None`` if chains share nothing.
    pool
        ``(state, shared, number) -> state`` after round `number`, counted from 0. `shared` is
        ``(all chains, rounds, values)``; later rounds hold zeros.
    most_gradients
        ``state -> (chains,)``: maximum number of gradients of the next transition, with which a run
        estimates whether the time left is enough. If ``None``, it uses the time of past
        transitions.
    """

    exact: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ()
    learned: ClassVar[tuple[str, ...]] = ()
    share: "ClassVar[staticmethod[[Any], Array] | None]" = None
    pool: "ClassVar[staticmethod[[Any, Array, Array], Any] | None]" = None
    most_gradients: "ClassVar[staticmethod[[Any], Array] | None]" = None

    @abstractmethod
    def init(self, target: TargetDensity, positions: Array, burn_in: int) -> Any:
        """State of chains at `positions` ``(chains, dimension)``, to adapt over `burn_in` steps."""

    @staticmethod
    @abstractmethod
    def step(keys: Array, state: Any, target: TargetDensity) -> tuple[Any, TransitionInfo]:
        """One transition of every chain; `keys` is ``(chains,)``."""

    @staticmethod
    def findings(info: Mapping[str, NDArray[Any]]) -> Sequence[Finding]:
        """Findings about the bias of draws, from their statistics ``{name: (chains, draws)}``."""
        del info
        return ()


def check_sampler(sampler: object) -> Sampler:
    """The sampler; raises if it is something else."""
    if isinstance(sampler, Sampler):
        return sampler
    if not isinstance(sampler, type) and hasattr(sampler, "init") and hasattr(sampler, "step"):
        name = type(sampler).__name__
        raise TypeError(f"a sampler must subclass tb.Sampler: write `class {name}(tb.Sampler)`")
    raise TypeError(f"`sampler` must be a sampler such as tb.HMC(), got {sampler!r}")


def root_key(seed: int) -> Array:
    """The key of a seed of up to 64 bits, all of which count even in single precision."""
    halves = np.asarray([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(halves), impl="threefry2x32")


def check_options(options: Any, check: Callable[..., object], *names: str, **limits: Any) -> None:
    """Check these options, except optional ones that are left out."""
    optional = {field.name for field in fields(options) if field.default is None}
    for name in names:
        value = getattr(options, name)
        if not (value is None and name in optional):
            check(name, value, **limits)


def check_state(state: Any, chains: int) -> None:
    """Raise if `init` of a sampler did not return a state of this many chains."""
    missing = [name for name in ("position", "log_density") if not hasattr(state, name)]
    if missing:
        raise TypeError(
            "`init` of a sampler must return a state with at least `position` and `log_density`, "
            f"but it returned a {type(state).__name__} without {' and '.join(missing)}"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if not hasattr(leaf, "dtype") or leaf.shape[:1] != (chains,):
            raise TypeError(
                f"everything in the state of a sampler must be an array with the chains, {chains}, "
                f"as its first axis, but {_name(path)} is {_type_of(leaf)}"
            )


def check_step(result: Any, state: Any, chains: int) -> None:
    """Raise if `step` of a sampler did not return a similar state and an info."""
    pair = isinstance(result, tuple) and len(result) == 2
    if not (pair and isinstance(result[1], TransitionInfo)):
        parts = result if type(result) is tuple else (result,)
        types = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(
            "`step` of a sampler must return a pair, the new state and a TransitionInfo, but "
            f"returned ({types})"
        )
    before, after = (dict(jax.tree_util.tree_leaves_with_path(each)) for each in (state, result[0]))
    for path in before | after:
        old, new = _type_of(before.get(path)), _type_of(after.get(path))
        if old != new:
            raise TypeError(
                "`step` of a sampler must keep the shapes and types of the state, but "
                f"{_name(path)} was {old} and became {new}"
            )
    for name, leaf in result[1].by_name().items():
        if getattr(leaf, "shape", None) != (chains,):
            raise TypeError(
                f"`{name}` of a TransitionInfo must have shape ({chains},), a number per chain, "
                f"but is {_type_of(leaf)}"
            )


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".") or "the state"


def _type_of(leaf: Any) -> str:
    if not hasattr(leaf, "dtype"):
        return repr(leaf)
    return f"{leaf.dtype}[{', '.join(str(each) for each in leaf.shape)}]"


def pooling_rounds(burn_in: int) -> tuple[int, ...]:
    """Transitions after which the rounds of burn-in end; none if burn-in is too short."""
    length = burn_in // POOLING_ROUNDS
    if length < MIN_ROUND_LENGTH:
        return ()
    return tuple(length * (number + 1) for number in range(POOLING_ROUNDS))


def over_chains(function: Callable[..., Any], *arguments: Any, batched: bool = False) -> Any:
    """Apply `function` to each chain, the leading axis of every array in `arguments`.

    On a CPU, chains run one after the other, which keeps their arrays in the cache, unless
    `batched`; on an accelerator, they all run at once.
    """
    chains = jax.tree.leaves(arguments)[0].shape[0]
    if chains == 1:
        results = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], results)
    if jax.default_backend() == "cpu" and not batched:
        return jax.lax.map(lambda each: function(*each), arguments)
    return jax.vmap(function)(*arguments)


def select(condition: Array, new: T, old: T) -> T:
    """Every array of `new` if `condition` holds, and of `old` otherwise."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), new, old)


@functools.partial(jax.jit, static_argnums=0)
def start_state(
    kind: Callable[..., T], target: TargetDensity, positions: Array, settings: Any, **fields: Any
) -> T:
    """State before the first transition; all `fields` but the `settings` have a chain axis."""
    log_density, gradient = over_chains(jax.value_and_grad(target.log_density), positions)
    return kind(
        position=positions,
        log_density=log_density,
        gradient=gradient,
        iteration=jnp.zeros(positions.shape[:1], jnp.int32),
        settings=broadcast_to_chains(settings, len(positions)),
        **fields,
    )


def broadcast_to_chains(values: Any, chains: int) -> Any:
    """The same arrays for each chain: `chains` becomes their leading axis."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (chains, *leaf.shape)), values)
