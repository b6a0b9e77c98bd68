"""Cycles of AMSGrad with patience, which pre-train networks and fit densities.

With the gradient ``g`` of the loss, step ``t`` of AMSGrad (Reddi, Kale & Kumar 2018) with rate
``r`` is

    m <- 0.9 m + 0.1 g;   v <- 0.999 v + 0.001 g^2;   u <- max(u, v / (1 - 0.999^t))
    x <- x - r m / (1 - 0.9^t) / (sqrt(u) + 1e-8)

A cycle ends after a number of epochs, or when the validation loss has not fallen for `patience`
epochs. The next cycle starts from the lowest validation loss so far, at a lower rate and with
``m``, ``v`` and ``u`` at zero (the paper's Section 3.5). The random numbers of an epoch depend only
on seed, start, cycle and epoch, so splitting a cycle into calls does not change the result.
"""

import math
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.checks import check_count, check_number, check_positive
from tensorbnn.data import Prepared
from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data
from tensorbnn.inference.sampler import over_chains, select
from tensorbnn.model.network import Network
from tensorbnn.progress import Bar

# One call of the compiled program runs at most this many epochs and takes about this long, so that
# the progress bar moves and an interrupt takes effect.
EPOCHS_PER_CALL = 64
SECONDS_PER_CALL = 0.25


@dataclass(frozen=True)
class Cycles:
    """The schedule and the rates of training; `pretrain` documents each number."""

    cycles: int
    epochs: int
    patience: int
    learning_rate: float
    learning_rate_factor: float

    def __post_init__(self) -> None:
        for count in ("cycles", "epochs", "patience"):
            object.__setattr__(self, count, check_count(count, getattr(self, count)))
        object.__setattr__(
            self, "learning_rate", check_positive("learning_rate", self.learning_rate)
        )
        factor = check_number(
            "learning_rate_factor",
            self.learning_rate_factor,
            "in (0, 1]",
            lambda each: 0 < each <= 1,
            verb="lie",
        )
        object.__setattr__(self, "learning_rate_factor", factor)

    @property
    def total(self) -> int:
        """Maximum total number of epochs."""
        return self.cycles * self.epochs


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batches:
    """Rows to train on, all at once or in batches; a pytree."""

    network: Network = field(metadata={"static": True})
    count: int = field(metadata={"static": True})
    batch_size: int | None = field(metadata={"static": True})
    data: Data
    rows: tuple[Array, Array] | None
    """Inputs and targets row by row, if batches are drawn from them."""


class Losses(NamedTuple):
    """Both losses, at one point or epoch by epoch."""

    training: Any
    validation: Any


class Task(Protocol):
    """The losses to minimize; a pytree, so that its arrays are arguments when compiled.

    `parameters` is a pytree of trained arrays; `held` are arrays that stay fixed.
    """

    @property
    def batches(self) -> Batches | None:
        """Rows to train on; ``None`` if there are none."""

    @property
    def evaluate_every(self) -> int:
        """Epochs between evaluations of the losses; they are also evaluated at a cycle's end."""

    def loss(self, key: Array, parameters: Any, held: Any, data: Data | None, rows: int) -> Array:
        """The training loss on `data`, which are `rows` of the training rows."""

    def losses(self, parameters: Any, held: Any) -> Losses:
        """Both losses, each on all of its rows; not random."""


class State(NamedTuple):
    """State of training in a cycle; every array has the starts as its first axis."""

    parameters: Any
    held: Any
    optimizer: Any
    best: Any
    best_loss: Array
    epoch: Array
    epochs_since_best: Array


class Trained(NamedTuple):
    """Results of all cycles: the best of each start, with its loss curves."""

    best: Any
    best_loss: NDArray[Any]
    losses: Losses
    """Each ``(starts, cycles, epochs)``; NaN if not computed, or after a cycle has stopped."""
    epochs: NDArray[Any]
    """Number of epochs in each cycle, ``(starts, cycles)``."""


def make_batches(network: Network, given: Prepared, batch_size: int | None) -> Batches:
    """Rows to train on; `batch_size` is checked."""
    count = len(given.inputs)
    if batch_size is not None and check_count("batch_size", batch_size) > count:
        raise ValueError(
            f"`batch_size` ({batch_size}) must not be above the number of training rows, "
            f"{count} (validation rows not counted)"
        )
    data = forward.arrange(network, given.inputs, given.targets)
    rows = None if batch_size is None else (jnp.asarray(given.inputs), jnp.asarray(given.targets))
    return Batches(network, count, batch_size, data, rows)


@jax.jit
def begin(task: Task | None, parameters: Any, held: Any) -> State:
    """State before the first epoch; every array has the starts as its first axis.

    Without a `task`, the start itself is not a candidate for the best.
    """

    def start(parameters: Any, held: Any) -> State:
        loss = jnp.full((), jnp.inf) if task is None else task.losses(parameters, held).validation
        return _fresh(parameters, held, loss)

    return over_chains(start, parameters, held)


def run(task: Task, plan: Cycles, keys: Array, state: State, bar: Bar) -> Trained:
    """Train from every start through all cycles; `keys` has a key for each start."""
    shape = (len(keys), plan.cycles, plan.epochs)
    losses = Losses(*(np.full(shape, np.nan, state.best_loss.dtype) for _ in Losses._fields))
    epochs = np.zeros(shape[:2], np.int64)
    for cycle in range(plan.cycles):
        state, found = _run_cycle(task, plan, cycle, keys, _begin_cycle(state), bar)
        for curves, part in zip(losses, found, strict=True):
            curves[:, cycle, : part.shape[1]] = part
        epochs[:, cycle] = state.epoch
    return Trained(state.best, np.asarray(state.best_loss), losses, epochs)


class _Settings(NamedTuple):
    """The settings of a cycle as arrays, so that new values need no recompilation."""

    cycle: Array
    learning_rate: Array
    patience: Array
    epochs: Array


def _run_cycle(
    task: Task, plan: Cycles, cycle: int, keys: Array, state: State, bar: Bar
) -> tuple[State, Losses]:
    """One cycle, in calls of about `SECONDS_PER_CALL`; losses are ``(starts, epochs)``."""
    # Division, so that 0.01 and a factor of 0.1 give exactly 0.001.
    rate = plan.learning_rate / (1 / plan.learning_rate_factor) ** cycle
    settings = _Settings(
        cycle=jnp.asarray(cycle, jnp.int32),
        learning_rate=jnp.asarray(rate, dtype=float),
        patience=jnp.asarray(plan.patience, jnp.int32),
        epochs=jnp.asarray(plan.epochs, jnp.int32),
    )
    found, done, count, note = [], 0, 1, ""
    while done < plan.epochs and np.any(np.asarray(state.epochs_since_best) < plan.patience):
        count = min(count, EPOCHS_PER_CALL, plan.epochs - done)
        began = time.monotonic()
        state, losses = _advance(task, settings, keys, state, jnp.asarray(count, jnp.int32))
        found.append(Losses(*(np.asarray(values)[:, :count] for values in losses)))
        seconds = time.monotonic() - began
        done += count
        loss = float(np.asarray(state.best_loss).mean())
        note = f"cycle {cycle + 1}" + (f", loss {loss:.4g}" if math.isfinite(loss) else "")
        bar.advance(count, note)
        count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))
    bar.advance(plan.epochs - done, note)
    return state, Losses(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


@jax.jit
def _advance(
    task: Task, settings: _Settings, keys: Array, state: State, count: Array
) -> tuple[State, Losses]:
    """Train from every start for `count` epochs, or until its validation loss no longer falls."""

    def going(carry: tuple[State, Losses, Array]) -> Array:
        state, _, done = carry
        return (done < count) & (state.epochs_since_best < settings.patience)

    def train(key: Array, state: State) -> tuple[State, Losses]:
        def epoch(carry: tuple[State, Losses, Array]) -> tuple[State, Losses, Array]:
            state, losses, done = carry
            key_epoch = jax.random.fold_in(key_cycle, state.epoch)
            state, new = _epoch(task, key_epoch, state, settings)
            losses = jax.tree.map(lambda all_, one: all_.at[done].set(one), losses, new)
            return state, losses, done + 1

        key_cycle = jax.random.fold_in(key, settings.cycle)
        empty = Losses(*(jnp.full(EPOCHS_PER_CALL, jnp.nan) for _ in Losses._fields))
        return jax.lax.while_loop(going, epoch, (state, empty, jnp.zeros_like(count)))[:2]

    return over_chains(train, keys, state)


def _epoch(task: Task, key: Array, state: State, settings: _Settings) -> tuple[State, Losses]:
    """One epoch of one start: its steps, its losses, and whether it is the best so far."""
    parameters, optimizer = _steps(task, key, state, settings.learning_rate)
    losses = _evaluate(task, parameters, state, settings)
    fallen = losses.validation < state.best_loss  # false for NaN
    new_state = state._replace(
        parameters=parameters,
        optimizer=optimizer,
        best=select(fallen, parameters, state.best),
        best_loss=jnp.where(fallen, losses.validation, state.best_loss),
        epoch=state.epoch + 1,
        epochs_since_best=jnp.where(fallen, 0, state.epochs_since_best + 1),
    )
    return new_state, losses


def _evaluate(task: Task, parameters: Any, state: State, settings: _Settings) -> Losses:
    """The losses after an epoch; NaN after epochs in which they are not evaluated."""
    if task.evaluate_every == 1:
        return task.losses(parameters, state.held)
    done = state.epoch + 1
    # Before patience ends a cycle, its losses must be evaluated.
    ends = (done == settings.epochs) | (state.epochs_since_best + 1 >= settings.patience)
    return jax.lax.cond(
        (done % task.evaluate_every == 0) | ends,
        lambda: task.losses(parameters, state.held),
        lambda: Losses(*(jnp.full_like(state.best_loss, jnp.nan) for _ in Losses._fields)),
    )


def _steps(task: Task, key: Array, state: State, rate: Array) -> tuple[Any, Any]:
    """The steps of an epoch: one for each batch."""

    def step(carry: tuple[Any, Any], key: Array, data: Data | None, rows: int) -> tuple[Any, Any]:
        parameters, optimizer = carry
        gradient = jax.grad(task.loss, argnums=1)(key, parameters, state.held, data, rows)
        # Optax multiplies integers by floating-point numbers, which strict promotion rejects.
        with jax.numpy_dtype_promotion("standard"):
            update, optimizer = _amsgrad(rate).update(gradient, optimizer)
        return jax.tree.map(jnp.add, parameters, update), optimizer

    start, given = (state.parameters, state.optimizer), task.batches
    key_steps, key_order = jax.random.split(key)
    if given is None:
        return step(start, key_steps, None, 1)
    if given.rows is None or given.batch_size is None:
        return step(start, key_steps, given.data, given.count)
    x, targets = given.rows
    batches = given.count // given.batch_size
    order = jax.random.permutation(key_order, given.count)[: batches * given.batch_size]

    def batch_step(carry: tuple[Any, Any], each: tuple[Array, Array]) -> tuple[Any, None]:
        key, rows = each
        data = forward.arrange(given.network, x[rows], targets[rows])
        return step(carry, key, data, rows.size), None

    each = (jax.random.split(key_steps, batches), order.reshape(batches, given.batch_size))
    return jax.lax.scan(batch_step, start, each)[0]


@jax.jit
def _begin_cycle(state: State) -> State:
    """The best so far, with a fresh optimizer."""
    return over_chains(_fresh, state.best, state.held, state.best_loss)


def _fresh(parameters: Any, held: Any, loss: Array) -> State:
    zero = jnp.zeros((), jnp.int32)
    optimizer = _amsgrad(jnp.zeros(())).init(parameters)
    return State(parameters, held, optimizer, parameters, loss, epoch=zero, epochs_since_best=zero)


def _amsgrad(rate: Array) -> Any:
    import optax  # here, because the import is slow and most programs don't need it

    return optax.amsgrad(rate)
