"""Pre-training: where chains start, found by AMSGrad in cycles of falling learning rate.

With the gradient ``g`` of the loss, step ``t`` of AMSGrad (Reddi, Kale & Kumar 2018) with rate
``r`` is

    m <- 0.9 m + 0.1 g;   v <- 0.999 v + 0.001 g^2;   u <- max(u, v / (1 - 0.999^t))
    theta <- theta - r m / (1 - 0.9^t) / (sqrt(u) + 1e-8)

A cycle ends after a number of epochs, or when the validation loss has not fallen for `patience` of
them; the best network by validation loss starts the next one, at a lower rate and with ``m``, ``v``
and ``u`` at zero (the paper's Section 3.5). An epoch's shuffle comes from the seed, the network,
the cycle and the epoch alone, so that cutting a cycle into calls changes nothing.
"""

import functools
import math
import numbers
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data
from tensorbnn.inference.held_out import split, training_rows, validation_rows
from tensorbnn.inference.sampler import over_chains
from tensorbnn.model.checks import check_count, check_starts
from tensorbnn.posterior import Given, Model, Posterior, precision
from tensorbnn.progress import Bar

if TYPE_CHECKING:
    from optax import GradientTransformation

Objective = Literal["posterior", "likelihood"]

# One call of the compiled program makes at most so many epochs, and is to take about this long, so
# that progress moves and an interrupt is answered.
EPOCHS_PER_CALL = 64
SECONDS_PER_CALL = 0.25
# Keeps the random numbers apart from those that `sample` draws with the same seed.
STREAM = 0x70726574


class Pretrained(Mapping[str, NDArray[Any]]):
    """Trained networks, one per chain: natural values by name, for ``start=`` of `sample`.

    Attributes
    ----------
    training_loss, validation_loss : ndarray of shape (chains, cycles, epochs)
        Losses of the network after each epoch; NaN after a cycle has stopped.
    epochs : ndarray of shape (chains, cycles)
        Epochs that each cycle took.
    best_loss : ndarray of shape (chains,)
        Validation loss of each of these networks.
    """

    def __init__(
        self,
        networks: Mapping[str, NDArray[Any]],
        *,
        training_loss: NDArray[Any],
        validation_loss: NDArray[Any],
        epochs: NDArray[Any],
        best_loss: NDArray[Any],
    ) -> None:
        self._networks = dict(networks)
        self.training_loss = training_loss
        self.validation_loss = validation_loss
        self.epochs = epochs
        self.best_loss = best_loss

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._networks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._networks)

    def __len__(self) -> int:
        return len(self._networks)

    def __repr__(self) -> str:
        losses = ", ".join(f"{loss:.4g}" for loss in self.best_loss)
        return f"Pretrained({len(self.best_loss)} networks, validation loss {losses})"


def pretrain(
    posterior: Posterior,
    *,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    chains: int = 4,
    cycles: int = 3,
    epochs: int = 100,
    patience: int = 10,
    learning_rate: float = 0.01,
    learning_rate_division: float = 10.0,
    batch_size: int | None = None,
    validation_fraction: float = 0.2,
    objective: Objective = "posterior",
    same_start: bool = False,
    start: Mapping[str, ArrayLike] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Pretrained:
    """Train networks by AMSGrad, from which chains start nearer to where they are going.

    Hyper-parameters, a learned noise too, are held at their start. The returned networks are the
    best ones by validation loss, the starting ones included.

    Parameters
    ----------
    posterior
        What to train: a network, its likelihood and priors, and data.
    validation
        Inputs and targets ``(x, y)`` that say when to stop and which network is best. Left out,
        `validation_fraction` of the training rows are set aside for it.
    chains
        Number of networks, one per chain.
    cycles
        Number of cycles.
    epochs
        Most epochs in a cycle; an epoch goes through all training rows once.
    patience
        A cycle ends when the validation loss has not fallen for so many epochs.
    learning_rate
        Learning rate of the first cycle.
    learning_rate_division
        The learning rate is divided by this after each cycle.
    batch_size
        Rows in a batch; each epoch shuffles the rows and goes through whole batches. Left out, all
        rows are one batch.
    validation_fraction
        Part of the training rows to set aside (at least one, never all), the same for all networks.
        They are not trained on. With 0, or a single row, nothing is set aside and the training loss
        serves as validation loss.
    objective
        The training loss: ``"posterior"``, minus the log posterior density of the unconstrained
        parameters over the number of training rows, or ``"likelihood"``, minus the mean
        log-likelihood of a row. The validation loss is minus the mean log-likelihood of a row.
    same_start
        Train one network and repeat it for every chain, in place of one for each.
    start
        Natural values by name from which training begins, as in `sample`: each of the parameter's
        shape, or with the chains as first axis. What is left out starts as the layers say.
        Hyper-parameters are held at the values given here.
    seed
        The same seed gives the same bits.
    progress
        Show a progress bar.

    Returns
    -------
    The networks, with their loss curves (`tensorbnn.plots.losses` draws them).

    References
    ----------
    Reddi, Kale & Kumar (2018), "On the convergence of Adam and beyond", ICLR,
    https://openreview.net/forum?id=ryQu7f-RZ. The cycles are those of the TensorBNN paper,
    https://arxiv.org/abs/2009.14393.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 20)
    >>> network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
    >>> posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(x))
    >>> start = tb.pretrain(posterior, chains=2, epochs=50, progress=False)
    >>> start["dense_0.weights"].shape, start.validation_loss.shape
    ((2, 1, 4), (2, 3, 50))
    >>> bool((start.best_loss < start.validation_loss[:, 0, 0]).all())
    True
    """
    plan = Plan(
        chains=check_count("chains", chains, least=1),
        same_start=bool(same_start),
        cycles=check_count("cycles", cycles, least=1),
        epochs=check_count("epochs", epochs, least=1),
        patience=check_count("patience", patience, least=1),
        learning_rate=_positive("learning_rate", learning_rate),
        learning_rate_division=_positive("learning_rate_division", learning_rate_division),
    )
    seed = check_count("seed", seed, least=0)
    if not isinstance(posterior, Posterior):
        raise TypeError(f"`posterior` must be a tb.Posterior, got {posterior!r}")
    model = posterior.model
    given = check_starts(
        (model.theta, model.phi),
        start or {},
        count=plan.networks,
        each="trained network",
        dtype=posterior.dtype,
    )
    with precision(posterior.dtype), Bar("pre-training", plan.total, show=progress) as bar:
        keys = _keys(jax.random.key(seed, impl="threefry2x32"), plan.networks)
        training = training_rows(posterior)
        parts = split(training, validation_fraction, keys.split)
        rows = parts if validation is None else (training, validation_rows(posterior, validation))
        task = _task(posterior.model, rows, objective, batch_size)
        state = _start(task, *_draw(posterior.model, keys.start, given))
        _check_start(state.best_loss)
        return _run(task, plan, keys.shuffle, state, bar)


@dataclass(frozen=True)
class Plan:
    """How many networks are trained, and how long; `pretrain` documents each number."""

    chains: int
    same_start: bool
    cycles: int
    epochs: int
    patience: int
    learning_rate: float
    learning_rate_division: float

    @property
    def networks(self) -> int:
        """Networks that are trained."""
        return 1 if self.same_start else self.chains

    @property
    def total(self) -> int:
        """Most epochs of a network in all."""
        return self.cycles * self.epochs

    def rate(self, cycle: int) -> float:
        """Learning rate of a cycle, counted from 0."""
        return self.learning_rate / self.learning_rate_division**cycle


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["training", "validation", "batched"],
    meta_fields=["model", "objective", "batch_size", "num_training", "num_validation"],
)
@dataclass(frozen=True)
class Task:
    """The loss and its data; a pytree, so that its arrays are arguments when compiled.

    Attributes
    ----------
    training, validation
        Data as the engine wants them; `validation` is ``None`` where the training loss serves.
    batched
        The training data row by row, where batches are drawn from them.
    """

    model: Model
    objective: Objective
    batch_size: int | None
    num_training: int
    num_validation: int
    training: Data
    validation: Data | None
    batched: tuple[Array, Array] | None

    def loss(self, theta: Array, phi: Array, data: Data, rows: int) -> Array:
        """The training loss by `data`, which are `rows` of the training rows."""
        loss = -self.model.log_likelihood(theta, phi, data) / rows
        if self.objective == "posterior":
            log_prior = self.model.log_prior(theta, phi) + self.model.log_hyper_prior(phi)
            loss -= log_prior / self.num_training
        return loss

    def losses(self, theta: Array, phi: Array) -> "Losses":
        """Both losses of a network, each by all its rows."""
        training = self.loss(theta, phi, self.training, self.num_training)
        if self.validation is None:
            return Losses(training, training)
        log_likelihood = self.model.log_likelihood(theta, phi, self.validation)
        return Losses(training, -log_likelihood / self.num_validation)


class Settings(NamedTuple):
    """The numbers of a cycle as arrays, so that a change of one recompiles nothing."""

    cycle: Array
    learning_rate: Array
    patience: Array


class Losses(NamedTuple):
    """Both losses, of one network or epoch by epoch."""

    training: Any
    validation: Any


class State(NamedTuple):
    """Networks in training; every array has the networks as its first axis.

    `epoch` counts the epochs of the cycle, `waited` those since the validation loss last fell.
    """

    theta: Array
    phi: Array
    optimiser: Any
    best_theta: Array
    best_loss: Array
    epoch: Array
    waited: Array


class Keys(NamedTuple):
    """One key for the split into training and validation rows, two for every network."""

    split: Array
    start: Array
    shuffle: Array


def _run(task: Task, plan: Plan, keys: Array, state: State, bar: Bar) -> Pretrained:
    shape = (plan.networks, plan.cycles, plan.epochs)
    losses = Losses(*(np.full(shape, np.nan, state.theta.dtype) for _ in Losses._fields))
    epochs = np.zeros(shape[:2], np.int64)
    for cycle in range(plan.cycles):
        state, found = _run_cycle(task, plan, cycle, keys, _begin_cycle(state), bar)
        for curves, part in zip(losses, found, strict=True):
            curves[:, cycle, : part.shape[1]] = part
        epochs[:, cycle] = state.epoch

    def for_chains(values: ArrayLike) -> NDArray[Any]:
        return np.repeat(np.asarray(values), plan.chains // plan.networks, axis=0)

    named = _named(task.model, state.best_theta)
    return Pretrained(
        {entry.name: for_chains(named[entry.name]) for entry in task.model.theta.entries},
        training_loss=for_chains(losses.training),
        validation_loss=for_chains(losses.validation),
        epochs=for_chains(epochs),
        best_loss=for_chains(state.best_loss),
    )


def _run_cycle(
    task: Task, plan: Plan, cycle: int, keys: Array, state: State, bar: Bar
) -> tuple[State, Losses]:
    """One cycle, in calls of about `SECONDS_PER_CALL`; losses are ``(networks, epochs)``."""
    settings = Settings(
        cycle=jnp.asarray(cycle, jnp.int32),
        learning_rate=jnp.asarray(plan.rate(cycle), dtype=float),
        patience=jnp.asarray(plan.patience, jnp.int32),
    )
    found, done, count, note = [], 0, 1, ""
    while done < plan.epochs and np.any(np.asarray(state.waited) < plan.patience):
        count = min(count, EPOCHS_PER_CALL, plan.epochs - done)
        began = time.monotonic()
        state, losses = _advance(task, settings, keys, state, jnp.asarray(count, jnp.int32))
        found.append(Losses(*(np.asarray(values)[:, :count] for values in losses)))
        seconds = time.monotonic() - began
        done += count
        note = f"cycle {cycle + 1}, loss {np.asarray(state.best_loss).mean():.4g}"
        bar.advance(count, note)
        count = min(2 * count, max(1, int(count * SECONDS_PER_CALL / max(seconds, 1e-9))))
    bar.advance(plan.epochs - done, note)
    return state, Losses(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


@jax.jit
def _advance(
    task: Task, settings: Settings, keys: Array, state: State, count: Array
) -> tuple[State, Losses]:
    """Train every network for `count` epochs, or until its validation loss no longer falls."""

    def going(carry: tuple[State, Losses, Array]) -> Array:
        state, _, done = carry
        return (done < count) & (state.waited < settings.patience)

    def train(key: Array, state: State) -> tuple[State, Losses]:
        def epoch(carry: tuple[State, Losses, Array]) -> tuple[State, Losses, Array]:
            state, losses, done = carry
            key_epoch = jax.random.fold_in(key_cycle, state.epoch)
            state, new = _epoch(task, key_epoch, state, settings.learning_rate)
            losses = jax.tree.map(lambda all_, one: all_.at[done].set(one), losses, new)
            return state, losses, done + 1

        key_cycle = jax.random.fold_in(key, settings.cycle)
        empty = Losses(*(jnp.full(EPOCHS_PER_CALL, jnp.nan) for _ in Losses._fields))
        return jax.lax.while_loop(going, epoch, (state, empty, jnp.zeros_like(count)))[:2]

    return over_chains(train, keys, state)


def _epoch(task: Task, key: Array, state: State, rate: Array) -> tuple[State, Losses]:
    """One epoch of one network: its steps, its losses, and whether it is the best so far."""
    theta, optimiser = _steps(task, key, state, rate)
    losses = task.losses(theta, state.phi)
    fallen = losses.validation < state.best_loss  # never where it is NaN
    new_state = state._replace(
        theta=theta,
        optimiser=optimiser,
        best_theta=jnp.where(fallen, theta, state.best_theta),
        best_loss=jnp.where(fallen, losses.validation, state.best_loss),
        epoch=state.epoch + 1,
        waited=jnp.where(fallen, 0, state.waited + 1),
    )
    return new_state, losses


def _steps(task: Task, key: Array, state: State, rate: Array) -> tuple[Array, Any]:
    """The steps of an epoch: one for each batch."""

    def step(carry: tuple[Array, Any], data: Data, rows: int) -> tuple[Array, Any]:
        theta, optimiser = carry
        gradient = jax.grad(task.loss)(theta, state.phi, data, rows)
        # Optax multiplies whole numbers by floating-point ones, which JAX may be told to refuse.
        with jax.numpy_dtype_promotion("standard"):
            update, optimiser = _amsgrad(rate).update(gradient, optimiser)
        return theta + update, optimiser

    start = (state.theta, state.optimiser)
    if task.batched is None or task.batch_size is None:
        return step(start, task.training, task.num_training)
    x, targets = task.batched
    batches = task.num_training // task.batch_size
    order = jax.random.permutation(key, task.num_training)[: batches * task.batch_size]

    def batch_step(carry: tuple[Array, Any], rows: Array) -> tuple[tuple[Array, Any], None]:
        data = forward.arrange(task.model.network, x[rows], targets[rows])
        return step(carry, data, rows.size), None

    return jax.lax.scan(batch_step, start, order.reshape(batches, task.batch_size))[0]


def _amsgrad(rate: Array) -> "GradientTransformation":
    import optax  # here, because it takes a while and most programs do without

    return optax.amsgrad(rate)


@functools.partial(jax.jit, static_argnums=0)
def _draw(model: Model, keys: Array, given: dict[str, NDArray[Any]]) -> tuple[Array, Array]:
    """Theta and phi of networks as their layers say, or as `given`."""
    hypers = {name: jnp.asarray(value, dtype=float) for name, value in model.start_hypers().items()}

    def draw(key: Array, given: dict[str, Any]) -> tuple[Array, Array]:
        named = model.theta.draw_start(key, hypers) | hypers | given
        return model.theta.flatten(named), model.phi.flatten(named)

    return jax.vmap(draw)(keys, given)


@jax.jit
def _start(task: Task, thetas: Array, phis: Array) -> State:
    def start(theta: Array, phi: Array) -> State:
        return _fresh(theta, phi, task.losses(theta, phi).validation)

    return over_chains(start, thetas, phis)


@jax.jit
def _begin_cycle(state: State) -> State:
    """The best networks of the cycle before, the optimiser at its beginning."""
    return over_chains(_fresh, state.best_theta, state.phi, state.best_loss)


def _fresh(theta: Array, phi: Array, loss: Array) -> State:
    zero = jnp.zeros((), jnp.int32)
    optimiser = _amsgrad(jnp.zeros(())).init(theta)
    return State(theta, phi, optimiser, theta, loss, epoch=zero, waited=zero)


@functools.partial(jax.jit, static_argnums=0)
def _named(model: Model, thetas: Array) -> dict[str, Array]:
    named = jax.vmap(model.theta.unflatten)(thetas)
    for entry in model.theta.entries:
        if entry.support == "positive":  # 0 would be no start
            value = named[entry.name]
            named[entry.name] = jnp.maximum(value, np.finfo(value.dtype).tiny)
    return named


@functools.partial(jax.jit, static_argnums=1)
def _keys(seed: Array, networks: int) -> Keys:
    split, root = jax.random.split(jax.random.fold_in(seed, STREAM))
    keys = jax.vmap(lambda network: jax.random.split(jax.random.fold_in(root, network)))(
        jnp.arange(networks)
    )
    return Keys(split, keys[:, 0], keys[:, 1])


def _task(
    model: Model, rows: tuple[Given, Given | None], objective: Objective, batch_size: int | None
) -> Task:
    if objective not in get_args(Objective):
        raise ValueError(f"`objective` must be 'posterior' or 'likelihood', got {objective!r}")
    training, validation = rows
    held_out = None if validation is None else (validation.inputs, validation.targets)
    num_training = len(training.x)
    if batch_size is not None and check_count("batch_size", batch_size, least=1) > num_training:
        raise ValueError(
            f"`batch_size` ({batch_size}) must not be above the number of training rows, "
            f"{num_training} (validation rows not counted)"
        )
    return Task(
        model=model,
        objective=objective,
        batch_size=batch_size,
        num_training=num_training,
        num_validation=0 if validation is None else len(validation.x),
        training=forward.arrange(model.network, training.inputs, training.targets),
        validation=None if held_out is None else forward.arrange(model.network, *held_out),
        batched=(
            None
            if batch_size is None
            else (jnp.asarray(training.inputs), jnp.asarray(training.targets))
        ),
    )


def _check_start(losses: Array) -> None:
    for network, loss in enumerate(np.asarray(losses)):
        if not np.isfinite(loss):
            raise ValueError(
                f"the validation loss at the start of network {network} is {loss}: "
                "standardise the data (`standardise=True` of tb.Posterior), or give `start`"
            )


def _positive(name: str, value: object) -> float:
    if not _is_number(value) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"`{name}` must be a positive number, got {value!r}")
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
