"""Whole leapfrog trajectories by the native engine.

For small networks, XLA takes longer for the updates between two gradients than the kernels take for
a gradient. So one call makes all steps of a trajectory, with a step size and a number of steps for
each chain. It supports the library's own priors, with numbers or `Hyper`s as location and scale;
hyper-parameters move with the parameters (`HMC`) or are held (`AdaptiveHMC`). The compiled code
repeats the densities of the priors; tests compare them with those of `model/priors.py`.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import custom_vmap

from tensorbnn.engine import kernels, native
from tensorbnn.engine.forward import Data
from tensorbnn.engine.native import Program
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layout import Entry, Layout, bind_hypers
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network


class Coordinates(NamedTuple):
    """Prior and coordinates for the kernels: see `Entry` and `Prior` in prior.hpp."""

    entries: tuple[int, ...]
    others: tuple[float, ...]
    num_hypers: int
    sd_from: tuple[int, ...]
    constant: float


class Phase(NamedTuple):
    """A point of a trajectory."""

    position: Array
    momentum: Array
    log_density: Array
    gradient: Array


class Chain(NamedTuple):
    """The arguments that differ between chains.

    `step_size` is ``(1,)`` or ``(dimension,)``. `numbers` are location and scale of every prior
    ``(entries, 2)``, `sd` the likelihood's widths ``(widths,)``; the kernels ignore those that are
    hyper-parameters of the position.
    """

    start: Phase
    step_size: Array
    num_steps: Array
    numbers: Array
    sd: Array


Follow = Callable[[Phase, Array, Array], Phase]
"""Takes a point, a step size and a number of steps; returns the point at the end.

The step size is one number, or one for each coordinate: ``step_size / sqrt(m)`` with a diagonal
mass ``m`` and momenta divided by its root.
"""


def follow(
    network: Network,
    likelihood: Likelihood,
    theta: Layout,
    phi: Layout,
    held: Mapping[str, Array] | None,
    data: Data,
) -> Follow | None:
    """The integrator of the density in standard coordinates; ``None`` if there is none.

    For a model that the native engine computes. If only theta moves, `held` contains the natural
    values of the hyper-parameters by name.
    """
    widths = tuple(f"likelihood.{name}" for name in likelihood.numbers())
    coordinates = describe(theta, phi, widths, held=held is not None)
    if coordinates is None or not coordinates.entries:
        return None
    program = native.program(network, likelihood)
    starts = {entry.name: entry.start for entry in phi.entries}
    hypers: Mapping[str, Any] = starts if held is None else held
    entries = (*phi.entries, *theta.entries) if held is None else theta.entries

    def run(start: Phase, step_size: Array, num_steps: Array) -> Phase:
        dtype = start.position.dtype
        numbers = jnp.stack([_location_scale(entry, hypers, dtype) for entry in entries])
        own = {name: hypers[f"likelihood.{name}"] for name in likelihood.hypers()}
        sd = native.widths(likelihood, own, dtype)
        sizes, counts = jnp.atleast_1d(step_size), num_steps.astype(jnp.int32)
        chain = Chain(start, sizes, counts, numbers, sd)
        end: Phase = _run(program, coordinates)(chain, data)
        constant = native.omitted_constant(likelihood, data)
        if constant is None:
            return end
        # Without a step, the log-density stays as given.
        whole = jnp.where(num_steps > 0, end.log_density + constant, start.log_density)
        return end._replace(log_density=whole)

    return run


@functools.lru_cache(maxsize=256)
def describe(
    theta: Layout, phi: Layout, widths: tuple[str, ...], *, held: bool
) -> Coordinates | None:
    """The coordinates, or ``None`` if the kernels don't know some prior."""
    hypers = () if held else phi.entries
    names = [entry.name for entry in hypers]
    described: list[_Described] = []
    for entries, offset in ((hypers, theta.size), (theta.entries, 0)):
        for entry in entries:
            described.append(_describe(entry, offset, names))
            offset += entry.size
    known = [each for each in described if each is not None]
    limits = kernels.LIMITS
    if (
        len(known) < len(described)
        or len(hypers) > limits["most_hypers"]
        or len(known) > limits["most_entries"]
        or len(widths) > limits["most_widths"]
    ):
        return None
    return Coordinates(
        entries=tuple(number for each in known for number in each[0]),
        others=tuple(number for each in known for number in each[1]),
        num_hypers=len(hypers),
        sd_from=tuple(names.index(name) if name in names else -1 for name in widths) or (-1,),
        constant=math.fsum(each[2] for each in known),
    )


_Described = tuple[tuple[int, ...], tuple[float, ...], float] | None


def _describe(entry: Entry, start: int, names: list[str]) -> _Described:
    """Whole numbers, other numbers and the constant of one entry."""
    prior = entry.prior
    family = kernels.FAMILIES.get(type(prior))
    df = getattr(prior, "df", 1.0)
    if family is None or isinstance(df, Hyper) or (entry.truncated and prior.hypers()):
        return None

    def source(argument: str | None) -> int:
        name = f"{entry.name}.{argument}"
        return names.index(name) if argument is not None and name in names else -1

    heavy = prior.heavy_tailed and entry.support == "real"
    whole = (
        *(start, entry.size, family.number, family.location_kind),
        *(int(entry.support == "positive"), int(heavy), int(entry.truncated)),
        *(source(family.location), source(family.scale)),
    )
    constant = entry.size * family.log_constant(df)
    if not entry.truncated:
        return whole, (df, 0.0, 1.0), constant
    scale = getattr(prior, "scale")  # noqa: B009
    constant += math.log(_truncated(entry)[1]) - math.log(scale) - _log_positive_mass(prior)
    return whole, (df, getattr(prior, "loc"), scale), constant  # noqa: B009


def _location_scale(entry: Entry, hypers: Mapping[str, Any], dtype: Any) -> Array:
    """The center and the width of z, as in a group of `Layout`."""
    bound = bind_hypers(entry.name, entry.prior, hypers)
    pair = _truncated(entry) if entry.truncated else bound.location_scale()
    return jnp.stack([jnp.asarray(number, dtype).reshape(()) for number in pair])


def _truncated(entry: Entry) -> tuple[float, float]:
    """`_location_scale` under a truncated prior."""
    assert isinstance(entry.start, float)
    scale = getattr(entry.prior, "scale")  # noqa: B009
    return math.log(entry.start), min(scale / entry.start, 1.0)


@functools.lru_cache(maxsize=256)
def _log_positive_mass(prior: Prior) -> float:
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        # Compiled, since `vmap` would trace functions with custom gradients.
        return float(jax.jit(prior.log_positive_mass)())


@functools.lru_cache(maxsize=256)
def _run(program: Program, coordinates: Coordinates) -> Any:
    """The call for one chain; a batch of chains is one call too."""

    @custom_vmap
    def one(chain: Chain, data: Data) -> Phase:
        chains = jax.tree.map(lambda leaf: leaf[None], chain)
        return Phase(*(leaf[0] for leaf in _call(program, coordinates, chains, data)))

    @one.def_vmap
    def batch(size: int, batched: Any, chain: Chain, data: Data) -> Any:
        if any(jax.tree.leaves(batched[1])):
            return native.one_by_one(one, size, batched, (chain, data)), _ALL
        (chains,) = native.broadcast(size, batched[:1], (chain,))
        return _call(program, coordinates, chains, data), _ALL

    return one


_ALL: Any = Phase(*(True for _ in Phase._fields))  # type: ignore[arg-type]


def _call(program: Program, coordinates: Coordinates, chains: Chain, data: Data) -> Phase:
    """The call for several chains, the first axis of every array in `chains`."""
    start = chains.start
    call = jax.ffi.ffi_call(
        f"tensorbnn_leapfrog_{start.position.dtype.name}",
        tuple(native.Shape(leaf.shape, leaf.dtype) for leaf in start),
        vmap_method="sequential",  # of batches of batches
    )
    found = call(
        *start,
        *chains[1:],
        *data,
        **native.attributes(program),
        entries=np.asarray(coordinates.entries, np.int64),
        others=np.asarray(coordinates.others, np.float64),
        num_hypers=np.int64(coordinates.num_hypers),
        sd_from=np.asarray(coordinates.sd_from, np.int64),
        constant=np.float64(coordinates.constant),
    )
    return Phase(*found)
