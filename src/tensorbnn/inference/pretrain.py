"""Pre-training of starting points by AMSGrad (the paper's Section 3.5; see `cycles.py`)."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_choice, check_count, check_fraction, check_type
from tensorbnn.data import Dataset, Prepared
from tensorbnn.density import Model
from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data
from tensorbnn.inference.cycles import Batches, Cycles, Losses, begin, make_batches, run
from tensorbnn.inference.sampler import MAX_SEED, root_key
from tensorbnn.model.checks import check_starts
from tensorbnn.model.hyper import move_inside
from tensorbnn.posterior import Posterior, check_posterior, precision
from tensorbnn.progress import Bar

Objective = Literal["posterior", "likelihood"]

# Keeps the random numbers apart from those that `sample` draws with the same seed.
STREAM = 0x70726574


@dataclass(eq=False, repr=False)
class Pretrained(Mapping[str, NDArray[Any]]):
    """Trained networks, one per chain: natural values by name, for ``start=`` of `sample`.

    Attributes
    ----------
    training_loss, validation_loss : ndarray of shape (chains, cycles, epochs)
        Losses of the network after each epoch; NaN after a cycle has stopped.
    epochs : ndarray of shape (chains, cycles)
        Number of epochs in each cycle.
    best_loss : ndarray of shape (chains,)
        Validation loss of each of these networks.
    """

    networks: InitVar[Mapping[str, NDArray[Any]]]
    _: KW_ONLY
    training_loss: NDArray[Any]
    validation_loss: NDArray[Any]
    epochs: NDArray[Any]
    best_loss: NDArray[Any]

    def __post_init__(self, networks: Mapping[str, NDArray[Any]]) -> None:
        self._networks = dict(networks)

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
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None = None,
    chains: int = 4,
    cycles: int = 3,
    epochs: int = 100,
    patience: int = 10,
    learning_rate: float = 0.01,
    learning_rate_factor: float = 0.1,
    batch_size: int | None = None,
    validation_fraction: float = 0.2,
    objective: Objective = "posterior",
    same_start: bool = False,
    start: Mapping[str, ArrayLike] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Pretrained:
    """Train networks by AMSGrad, as starting points of chains that shorten burn-in.

    Hyper-parameters, such as a learned noise, are held at their start. The returned networks are
    those with the lowest validation loss, which may be the starting ones.

    Parameters
    ----------
    posterior
        A posterior with data.
    validation
        Inputs and targets ``(x, y)``, or a `Dataset`, that decide when to stop and which network is
        best. By default, `validation_fraction` of the training rows are set aside.
    chains
        Number of networks, one per chain.
    cycles
        Number of cycles.
    epochs
        Maximum number of epochs in a cycle; an epoch uses all training rows once.
    patience
        A cycle ends when the validation loss has not fallen for this many epochs.
    learning_rate
        Learning rate of the first cycle.
    learning_rate_factor
        The learning rate is divided by this after each cycle.
    batch_size
        Rows in a batch; each epoch shuffles the rows and uses whole batches. By default, all rows
        are one batch.
    validation_fraction
        Fraction of the training rows to set aside (at least one, never all), the same for all
        networks. With 0, or a single row, none is set aside, and the training loss is used as
        validation loss.
    objective
        The training loss: ``"posterior"``, minus the log posterior density of the unconstrained
        parameters over the number of training rows, or ``"likelihood"``, minus the mean
        log-likelihood of a row. The validation loss is minus the mean log-likelihood of a row.
    same_start
        Train one network for all chains, instead of one for each.
    start
        Natural values by name at which training begins, as in `sample`: each with the parameter's
        shape, or with an additional first axis for the chains. Other parameters start at the
        defaults of their layers. Hyper-parameters are held at the values given here.
    seed
        The same seed gives bit-identical results.
    progress
        Show a progress bar.

    Returns
    -------
    Pretrained
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
    chains = check_count("chains", chains)
    plan = Cycles(cycles, epochs, patience, learning_rate, learning_rate_factor)
    seed = check_count("seed", seed, least=0, most=MAX_SEED)
    check_posterior(posterior)
    check_type("same_start", same_start, bool, "True or False")
    check_choice("objective", objective, get_args(Objective))
    networks = 1 if same_start else chains
    model = posterior.model
    layouts, each = (model.theta, model.phi), "trained network"
    start = {} if start is None else start
    given = check_starts(layouts, start, count=networks, each=each, dtype=posterior.dtype)
    with precision(posterior.dtype), Bar("pre-training", plan.total, show=progress) as bar:
        key_split, (key_start, key_shuffle) = split_keys(root_key(seed), STREAM, networks, 2)
        own = posterior._prepare_own()
        training, aside = split(own, validation_fraction, key_split)
        if validation is not None:
            training, aside = own, posterior._prepare_validation(validation)
        batches = make_batches(model.network, training, batch_size)
        held_out = None if aside is None else posterior._arrange(aside)
        judge = model if aside is None else posterior._model_of(aside)
        task = Task(model, objective, batches, held_out, judge)
        state = begin(task, *draw_starts(model, key_start, given))
        for network, loss in enumerate(np.asarray(state.best_loss)):
            if not np.isfinite(loss):
                raise ValueError(
                    f"the validation loss at the start of network {network} is {loss}: "
                    "standardize the data (`standardize=True` of tb.Posterior), or give `start`"
                )
        trained = run(task, plan, key_shuffle, state, bar)
        named = named_networks(model, trained.best)

    def for_chains(values: ArrayLike) -> NDArray[Any]:
        return np.repeat(np.asarray(values), chains // networks, axis=0)

    return Pretrained(
        {entry.name: for_chains(named[entry.name]) for entry in model.theta.entries},
        training_loss=for_chains(trained.losses.training),
        validation_loss=for_chains(trained.losses.validation),
        epochs=for_chains(trained.epochs),
        best_loss=for_chains(trained.best_loss),
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Task:
    """The loss of theta, with phi held, and its data; a pytree."""

    model: Model = field(metadata={"static": True})
    objective: Objective = field(metadata={"static": True})
    batches: Batches
    validation: Data | None
    """``None`` if the training loss is used."""
    judge: Model = field(metadata={"static": True})
    """The density of the validation rows, which may have other error bars and weights."""
    evaluate_every: ClassVar[int] = 1

    def loss(self, key: Array, theta: Array, phi: Array, data: Data | None, rows: int) -> Array:
        del key
        loss = -self.model.log_likelihood(theta, phi, data) / rows
        if self.objective == "posterior":
            log_prior = self.model.log_prior(theta, phi) + self.model.log_hyper_prior(phi)
            loss -= log_prior / self.batches.count
        return loss

    def losses(self, theta: Array, phi: Array) -> Losses:
        key = jax.random.key(0)  # nothing here is random
        training = self.loss(key, theta, phi, self.batches.data, self.batches.count)
        if self.validation is None:
            return Losses(training, training)
        log_likelihood = self.judge.log_likelihood(theta, phi, self.validation)
        return Losses(training, -log_likelihood / forward.num_rows(self.validation))


def split(rows: Prepared, fraction: float, key: Array) -> tuple[Prepared, Prepared | None]:
    """Rows to train on, and a random `fraction` of them to validate on.

    At least one row is left to train on, and one is set aside unless `fraction` is 0.
    """
    check_fraction("validation_fraction", fraction, zero=True)
    count = len(rows.inputs)
    if fraction == 0 or count == 1:
        return rows, None
    aside = min(max(round(fraction * count), 1), count - 1)
    order = np.asarray(jax.random.permutation(key, count))
    return rows.take(np.sort(order[aside:])), rows.take(np.sort(order[:aside]))


@functools.partial(jax.jit, static_argnums=0)
def draw_starts(model: Model, keys: Array, given: dict[str, NDArray[Any]]) -> tuple[Array, Array]:
    """Theta and phi of new networks, with the `given` values and defaults for the others."""
    hypers = {name: jnp.asarray(value, dtype=float) for name, value in model.start_hypers().items()}

    def draw(key: Array, given: dict[str, Any]) -> tuple[Array, Array]:
        named = model.theta.draw_start(key, hypers) | hypers | given
        return model.theta.flatten(named), model.phi.flatten(named)

    return jax.vmap(draw)(keys, given)


@functools.partial(jax.jit, static_argnums=0)
def named_networks(model: Model, thetas: Array) -> dict[str, Array]:
    """Natural values by name of ``(networks, parameters)``, which may start a chain."""
    named = jax.vmap(model.theta.unflatten)(thetas)
    for entry in model.theta.entries:
        named[entry.name] = move_inside(named[entry.name], entry.support)  # 0 would be no start
    return named


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def split_keys(seed: Array, stream: int, starts: int, each: int) -> tuple[Array, list[Array]]:
    """A key that all starts share, and `each` keys ``(starts,)`` for every start."""
    shared, root = jax.random.split(jax.random.fold_in(seed, stream))
    keys = jax.vmap(lambda start: jax.random.split(jax.random.fold_in(root, start), each))(
        jnp.arange(starts)
    )
    return shared, [keys[:, number] for number in range(each)]
