"""Flat vectors with names: the place of each parameter, and the prior over the whole vector.

Samplers move flat unconstrained vectors; users read named natural values. A `Layout` maps one to
the other. Network parameters (theta) and hyper-parameters (phi) use the same class, so a prior's
density, with its Jacobians, is evaluated in one place.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tensorbnn.model.hyper import (
    Parametric,
    Prior,
    Support,
    is_positive,
    move_inside,
    transform,
)
from tensorbnn.model.network import Network
from tensorbnn.model.priors import LogNormal

_P = TypeVar("_P", bound=Parametric)
_V = TypeVar("_V")

# A truncated prior with less mass than this above zero is an error (it could not be sampled).
SMALLEST_POSITIVE_MASS = 1e-4


@dataclass(frozen=True)
class Entry:
    """One named array in a flat vector.

    `support` may be narrower than the prior's: a Gaussian prior of a positive number is truncated.
    """

    name: str
    shape: tuple[int, ...]
    prior: Prior
    support: Support
    start: float | Prior | None
    depth: int = 0  # 1 for a hyper-parameter of a parameter's prior, 2 for one of that one's, ...

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def truncated(self) -> bool:
        """Whether the prior, itself on the real line, is cut off at zero and renormalized."""
        return self.support == "positive" and self.prior.support == "real"


@dataclass(frozen=True)
class Layout:
    """Entries one after another in a flat unconstrained vector."""

    entries: tuple[Entry, ...]

    @functools.cached_property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    def flatten(self, named: Mapping[str, ArrayLike]) -> Array:
        """Natural values by name, each in its own shape, to the unconstrained ``(size,)``."""
        pieces = [
            transform(entry.support).to_real(jnp.asarray(named[entry.name])).reshape(entry.size)
            for entry in self.entries
        ]
        return jnp.concatenate(pieces) if pieces else jnp.zeros(0)

    def unflatten(self, flat: Array) -> dict[str, Array]:
        """The unconstrained vector ``(size,)`` to natural values by name."""
        named, offset = {}, 0
        for entry in self.entries:
            piece = flat[offset : offset + entry.size].reshape(entry.shape)
            named[entry.name] = transform(entry.support).from_real(piece)
            offset += entry.size
        return named

    def natural(self, flat: Array) -> Array:
        """The unconstrained vector ``(size,)`` to natural values in the same order."""
        pieces, offset = [], 0
        for support, entries in itertools.groupby(self.entries, key=lambda entry: entry.support):
            size = sum(entry.size for entry in entries)
            pieces.append(transform(support).from_real(flat[offset : offset + size]))
            offset += size
        return pieces[0] if len(pieces) == 1 else jnp.concatenate([*pieces, flat[offset:]])

    def log_density(self, flat: Array, hypers: Mapping[str, ArrayLike]) -> Array:
        """Log prior density of the unconstrained vector, log-Jacobians included.

        `hypers` holds the natural value of every hyper-parameter by full name.
        """
        total = jnp.zeros((), flat.dtype)
        for group in self._groups:
            total += jnp.sum(group.log_density(group.bind(hypers), flat[group.start : group.stop]))
        return total

    def from_standard(self, z: Array, hypers: Mapping[str, ArrayLike]) -> tuple[Array, Array]:
        """Standard coordinates to the unconstrained vector, and the log prior density of `z`.

        Standard coordinates measure each element from the center of its prior, in units of the
        prior's width; for heavy-tailed priors, on a scale that shortens the tails. The second value
        is `log_density` at the first, plus ``log |d flat / d z|``. `hypers` may leave out
        hyper-parameters that are part of this vector.
        """
        pieces, total = [jnp.zeros(0, z.dtype)], jnp.zeros((), z.dtype)
        known = dict(hypers)
        for group in self._groups:
            piece, terms = group.from_standard(z[group.start : group.stop], known)
            pieces.append(piece)
            total += jnp.sum(terms)
            known |= Layout(group.entries).unflatten(piece)
        return jnp.concatenate(pieces), total

    def to_standard(self, flat: Array, hypers: Mapping[str, ArrayLike]) -> Array:
        """The inverse of `from_standard`."""
        pieces = [jnp.zeros(0, flat.dtype)]
        for group in self._groups:
            location, scale = group.location_scale(hypers)
            piece = (flat[group.start : group.stop] - location) / scale
            pieces.append(jnp.arcsinh(piece) if group.heavy_tailed else piece)
        return jnp.concatenate(pieces)

    def draw_start(self, key: Array, hypers: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Natural values by name at which a chain may start."""
        named = {
            entry.name: jnp.full(entry.shape, entry.start, dtype=float)
            for entry in self.entries
            if isinstance(entry.start, float)
        }
        # The rest are drawn family by family: few draws of many numbers compile faster.
        drawn = [
            dataclasses.replace(e, prior=e.start if isinstance(e.start, Prior) else e.prior)
            for e in self.entries
            if e.name not in named
        ]
        groups = Layout(tuple(sorted(drawn, key=_family)))._groups
        for group, subkey in zip(groups, jax.random.split(key, len(groups)), strict=True):
            # 0, for one, has no logarithm.
            values = move_inside(group.draw(subkey, hypers), group.entries[0].support)
            sizes = np.cumsum([entry.size for entry in group.entries])[:-1]
            for entry, piece in zip(group.entries, jnp.split(values, sizes), strict=True):
                named[entry.name] = piece.reshape(entry.shape)
        return named

    @functools.cached_property
    def _groups(self) -> tuple["_Group", ...]:
        groups, offset = [], 0
        for _, members in itertools.groupby(self.entries, lambda e: (*_family(e), type(e.prior))):
            group = _Group(tuple(members), offset)
            groups.append(group)
            offset = group.stop
        return tuple(groups)


@dataclass(frozen=True)
class _Group:
    """Neighboring entries with priors of one family, whose densities are evaluated together."""

    entries: tuple[Entry, ...]
    start: int

    @property
    def stop(self) -> int:
        return self.start + sum(entry.size for entry in self.entries)

    @property
    def truncated(self) -> bool:
        return self.entries[0].truncated

    @property
    def heavy_tailed(self) -> bool:
        return self.entries[0].prior.heavy_tailed and self.entries[0].support == "real"

    def bind(self, hypers: Mapping[str, ArrayLike]) -> Prior:
        """One prior whose arguments hold the numbers of every element of the group."""
        known = [e.prior.numbers() | own_hypers(e.name, e.prior, hypers) for e in self.entries]
        spread = {name: self._spread([each[name] for each in known]) for name in known[0]}
        return self.entries[0].prior.bind(spread)

    def draw(self, key: Array, hypers: Mapping[str, ArrayLike]) -> Array:
        prior, shape = self.bind(hypers), (self.stop - self.start,)
        values = prior.sample(key, shape)
        if np.shape(values) != shape:
            raise ValueError(
                f"`sample` of {type(prior).__name__} must return an array of the requested "
                f"shape, {shape}, but its shape is {np.shape(values)}"
            )
        return values

    def log_density(self, prior: Prior, real: Array) -> Array:
        """Log-density of each unconstrained element under the bound `prior`."""
        onto = transform(self.entries[0].support)
        terms = prior.log_density(onto.from_real(real))
        if self.truncated:
            terms = terms - prior.log_positive_mass()
        return terms + onto.log_jacobian(real)

    def from_standard(self, z: Array, hypers: Mapping[str, ArrayLike]) -> tuple[Array, Array]:
        """Unconstrained elements of standard coordinates, and the log-density of each in `z`."""
        location, scale = self.location_scale(hypers)
        inner = jnp.sinh(z) if self.heavy_tailed else z
        real = location + scale * inner
        prior = self.bind(hypers)
        standard = None if self.truncated else prior.standard()
        if standard is not None:
            # (value - location) / scale has a density free of both: the Jacobian cancels.
            terms = self.log_density(standard, inner)
        else:
            terms = self.log_density(prior, real) + jnp.log(scale)
        if self.heavy_tailed:
            magnitude = jnp.abs(z)  # log |d inner / d z| = log cosh z, without overflow
            terms = terms + magnitude + jnp.log1p(jnp.exp(-2 * magnitude)) - math.log(2.0)
        return real, terms

    def location_scale(self, hypers: Mapping[str, ArrayLike]) -> tuple[Any, Any]:
        location, scale = self.bind(hypers).location_scale()
        if self.truncated:
            # On the log scale, by the delta method around the start; a wide prior counts as 1.
            start = self._spread([entry.start for entry in self.entries])
            location, scale = jnp.log(start), jnp.minimum(scale / start, 1.0)
        return location, scale

    def _spread(self, values: list[Any]) -> Any:
        """One value per entry to one value per element; a common number stays a number."""
        if all(isinstance(value, float) for value in values):
            if len(set(values)) == 1:
                return values[0]
            sizes = [entry.size for entry in self.entries]
            return jnp.asarray(np.repeat(np.asarray(values, np.float64), sizes), dtype=float)
        pieces = [
            jnp.broadcast_to(jnp.asarray(value, dtype=float), (entry.size,))
            for value, entry in zip(values, self.entries, strict=True)
        ]
        return jnp.concatenate(pieces)


def parameter_layout(network: Network) -> Layout:
    """Layout of theta: the network's parameters in the order of its layers."""
    entries = [
        Entry(name, each.shape, each.prior, each.prior.support, each.start)
        for name, each in network.parameters.items()
    ]
    return Layout(tuple(entries))


def hyper_layout(owners: Mapping[str, Parametric]) -> Layout:
    """Layout of phi: every `Hyper` in the named priors and likelihoods, those inside `Hyper`s too.

    The deepest come first, so each one follows the hyper-parameters of its own prior. Apart from
    that, entries of one family are neighbors, so their densities are evaluated together.
    """
    entries = [entry for name, owner in owners.items() for entry in _hyper_entries(name, owner, 1)]
    return Layout(tuple(sorted(entries, key=_family)))


def own_hypers(name: str, owner: Parametric, hypers: Mapping[str, _V]) -> dict[str, _V]:
    """The values ``hypers["<name>.<argument>"]`` of the `Hyper`s of `owner`, by argument."""
    return {argument: hypers[f"{name}.{argument}"] for argument in owner.hypers()}


def bind_hypers(name: str, owner: _P, hypers: Mapping[str, ArrayLike]) -> _P:
    """`owner` with each `Hyper` replaced by its value."""
    return owner.bind(own_hypers(name, owner, hypers))


def _family(entry: Entry) -> tuple[int, str, Any]:
    family = type(entry.prior)
    return -entry.depth, f"{family.__module__}.{family.__qualname__}", entry.support


def _hyper_entries(name: str, owner: Parametric, depth: int) -> Iterator[Entry]:
    for argument, hyper in owner.hypers().items():
        full_name = f"{name}.{argument}"
        prior = LogNormal(math.log(hyper.start), 1.0) if hyper.prior is None else hyper.prior
        _must_be_positive = owner._must_be_positive(argument) and not is_positive(prior.support)
        support: Support = "positive" if _must_be_positive else prior.support
        entry = Entry(full_name, (), prior, support, hyper.start, depth)
        _check_hyper(entry)
        yield entry
        yield from _hyper_entries(full_name, prior, depth + 1)


def _check_hyper(entry: Entry) -> None:
    assert isinstance(entry.start, float)
    if entry.support == "positive" and entry.start <= 0:
        raise ValueError(
            f"the hyper-parameter {entry.name} has a prior over positive values "
            f"but starts at {entry.start}: give its Hyper a positive start"
        )
    if entry.truncated:
        for argument in set(entry.prior.fixed_where_truncated) & set(entry.prior.hypers()):
            raise ValueError(
                f"`{argument}` of the prior of {entry.name} must be a number, not a Hyper, "
                "because that prior is truncated to positive values"
            )
        mass = _positive_mass(entry.prior)
        if not mass >= SMALLEST_POSITIVE_MASS:
            raise ValueError(
                f"the prior {entry.prior} of {entry.name}, which must be positive, has only "
                f"{mass:.1g} of its mass above zero: move it up"
            )


@functools.lru_cache
def _positive_mass(prior: Prior) -> float:
    starts = {name: hyper.start for name, hyper in prior.hypers().items()}
    return math.exp(float(jax.jit(prior.bind(starts).log_positive_mass)()))
