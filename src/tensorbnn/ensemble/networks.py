"""The networks of a run, or a selection of them, with their data and weights."""

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, is_whole
from tensorbnn.data import (
    UNKNOWN_DATA,
    Dataset,
    Prepared,
    as_dataset,
    fingerprint,
    prepare,
    unpack_dataset,
)
from tensorbnn.density import Model
from tensorbnn.ensemble.approximation import Approximation, read_approximation
from tensorbnn.ensemble.diagnostics import TRAINING_POINTS
from tensorbnn.ensemble.draws import find_draws, in_order
from tensorbnn.ensemble.reweight import Weights
from tensorbnn.ensemble.statistics import quantile
from tensorbnn.errors import DataNotKeptError, OptionError, RunError
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import DType
from tensorbnn.model.layers import Relevance
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import restore, restore_model, sampler_class
from tensorbnn.storage.store import Store

Pair = Dataset | tuple[ArrayLike, ArrayLike]


class Networks:
    """Access to the networks of a run; its subclass `Ensemble` adds predictions and diagnostics."""

    def __init__(
        self,
        store: Store,
        network: Network,
        likelihood: Likelihood,
        dtype: DType,
        *,
        scaling: Scaling | None = None,
        sampler: type[Sampler] | None = None,
        skip_damaged: bool = False,
        data: Dataset | None = None,
    ) -> None:
        self.network, self.likelihood = network, likelihood
        self.scaling = scaling or Scaling()
        self.dtype: DType = dtype
        self._store, self._sampler, self._skip_damaged = store, sampler, skip_damaged
        self._given = data
        self._draws = find_draws(store, skip_damaged=skip_damaged)
        self._draws.check_shapes(network)
        # The model that was sampled, and the weights for another one.
        self._sampled = Model(network, likelihood)
        self._weights: Weights | None = None
        self._moved = False  # set by `sensitivity`, which keeps the network unchanged
        self._output_shape: tuple[int, ...] = tuple(store.manifest["output_shape"])

    @classmethod
    def _from_posterior(
        cls, store: Store, posterior: Posterior, sampler: Sampler | None = None
    ) -> Self:
        model = posterior.network, posterior.likelihood, posterior.dtype
        kind = sampler_class(store.manifest, {}) if sampler is None else type(sampler)
        scaling, data = posterior.scaling, posterior.data
        return cls(store, *model, scaling=scaling, sampler=kind, data=data)

    @classmethod
    def _from_store(
        cls,
        store: Store,
        custom: Mapping[str, type],
        *,
        data: Pair | None = None,
        skip_damaged: bool = False,
    ) -> Self:
        """Read the description of a run; `custom` holds the user's classes by name."""
        manifest = store.manifest
        network, likelihood, scaling = restore_model(manifest, custom)
        model, sampler = (network, likelihood, manifest["dtype"]), sampler_class(manifest, custom)
        found = cls(store, *model, scaling=scaling, sampler=sampler, skip_damaged=skip_damaged)
        return found if data is None else found._with_data(data)

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self._draws.chains)

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        return self._draws.num_draws

    @property
    def in_burn_in(self) -> bool:
        """Whether these networks come from burn-in, because a limit stopped the run there."""
        return self._draws.in_burn_in is not None

    @property
    def status(self) -> str:
        """``"running"``, ``"complete"``, ``"stopped"`` (by a limit) or ``"interrupted"``."""
        return str(self._store.manifest["status"])

    @property
    def path(self) -> Path | None:
        """The run directory; ``None`` for a run in memory."""
        return self._store.path if isinstance(self._store, DirectoryStore) else None

    @property
    def sampler(self) -> Sampler | None:
        """The sampler; ``None`` for an imported run."""
        run = getattr(self._store, "run", None)
        if run is not None:  # in memory
            own: Sampler = run.sampler
            return own
        described = self._store.manifest.get("sampler", {})
        kind = self._sampler
        if kind is None or len(described) != 1 + len(dataclasses.fields(kind)):  # type: ignore[arg-type]
            return None
        found: Sampler = restore(described, {kind.__name__: kind}, Sampler)
        return found

    @property
    def data(self) -> Dataset | None:
        """Training data in your units; ``None`` for the prior."""
        kept = self._kept_data
        if kept is None and self._store.manifest.get("data") is not None:
            raise DataNotKeptError
        return kept

    @property
    def _kept_data(self) -> Dataset | None:
        """Training data; ``None`` also if the run was saved without them."""
        if self._given is not None:
            return self._given
        arrays, known = self._store.data(), self._store.manifest.get("data")
        try:
            kept = unpack_dataset(arrays)
        except (TypeError, ValueError) as error:
            raise RunError(f"the training data that this run keeps are damaged: {error}") from error
        if kept is not None and known is not None and fingerprint(kept) != known:
            raise RunError(
                "the training data that this run keeps are not those it was sampled with: give "
                "them as `data` of tb.load"
            )
        return kept

    def refresh(self) -> Self:
        """Add draws that the run has saved since it was loaded; returns the ensemble itself."""
        if self._weights is not None:
            raise ValueError(
                "weights belong to the draws they were computed for: refresh the ensemble that was "
                "reweighted, and reweight it again"
            )
        self._store.refresh()
        old, self._draws = self._draws, find_draws(self._store, skip_damaged=self._skip_damaged)
        steps = slice(old.steps.start, None, old.steps.step)
        self._draws = self._draws.view(list(old.chains), steps)
        self._forget()
        return self

    def thin(self, n: int) -> Self:
        """The ensemble with every n-th draw of each chain.

        Like `discard` and `sel`, it shares the files of the run and copies no draws.

        Examples
        --------
        >>> import tensorbnn as tb
        >>> prior = tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian())
        >>> ensemble = tb.sample(prior, chains=3, burn_in=10, draws=20, progress=False)
        >>> ensemble.discard(4).thin(2).sel(chain=[0, 2])
        Ensemble(16 networks: 2 chains of 8 draws)
        """
        return self._view(slice(None), slice(None, None, check_count("n", n, least=1)))

    def discard(self, n: int) -> Self:
        """The ensemble without the first `n` draws of each chain."""
        n = check_count("n", n, least=0)
        if n >= self.num_draws:
            wanted = f"below the number of draws a chain, which is {self.num_draws}"
            raise OptionError("n", wanted, n)
        return self._view(slice(None), slice(n, None))

    def sel(self, *, chain: int | Sequence[int]) -> Self:
        """The ensemble of some of the chains, such as ``chain=[0, 1, 3]``."""
        chosen = [chain] if is_whole(chain) else list(np.ravel(np.asarray(chain, object)))
        known = range(self.num_chains)
        if not chosen or not all(is_whole(each) and each in known for each in chosen):
            raise OptionError("chain", f"numbers of chains, from 0 to {known[-1]}", chain)
        if len(set(chosen)) < len(chosen):
            raise OptionError("chain", "different numbers of chains", chain)
        return self._view([int(each) for each in chosen], slice(None))

    @property
    def weights(self) -> NDArray[Any] | None:
        """Weights of the networks, ``(chains, draws)``, which sum to one, after `reweight`."""
        return None if self._weights is None else self._weights.weights

    @property
    def ess(self) -> float | None:
        """Equivalent number of equally weighted networks, after `reweight`.

        ``1 / sum(weights ** 2)``. It ignores the correlation of draws; see `diagnose`.
        """
        return None if self._weights is None else self._weights.ess

    @property
    def pareto_k(self) -> float | None:
        """k-hat, the shape of the distribution of the largest weights, after `reweight`.

        Above ``min(1 - 1 / log10(networks), 0.7)`` the weights can't be trusted; from 0.5 on their
        variance is infinite. ``-inf`` if all weights are the same, NaN for fewer than 25 networks.
        """
        return None if self._weights is None else self._weights.pareto_k

    @property
    def log_evidence_ratio(self) -> float | None:
        """Log of the other model's evidence over that of the run's model, after `reweight`."""
        return None if self._weights is None else self._weights.log_evidence_ratio

    @functools.cached_property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Network parameters by name, each ``(chains, draws, ...)``, in natural values."""
        model = self._sampled.network, self._sampled.likelihood
        return in_order(self._draws.read("parameters/"), *model)

    @functools.cached_property
    def hyperparameters(self) -> dict[str, NDArray[Any]]:
        """Hyper-parameters by name, each ``(chains, draws)``, in natural values.

        After `reweight`, only those of the other model.
        """
        model = self._sampled.network, self._sampled.likelihood
        found = in_order(self._draws.read("hyperparameters/"), *model)
        if self._weights is None:
            return found
        known = {entry.name for entry in self._model.phi.entries}
        return {name: values for name, values in found.items() if name in known}

    @property
    def relevances(self) -> NDArray[Any] | None:
        """Median input scales relative to the largest, if the network begins with `Relevance`."""
        if not isinstance(self.network.layers[0], Relevance):
            return None
        scales = self.parameters["relevance_0.scales"].reshape(len(self), -1)
        medians = quantile(scales, np.asarray(0.5), self._flat_weights)
        return np.asarray(medians / medians.max())

    @functools.cached_property
    def sample_stats(self) -> dict[str, NDArray[Any]]:
        """Statistics of the sampler for each draw, each ``(chains, draws)``.

        Over the transitions of a draw: ``acceptance_rate`` (mean), ``diverging`` (whether any
        diverged) and ``num_gradients`` (sum). From the last transition: ``lp``, ``energy``,
        ``step_size`` and ``energy_error``, ``energy_error_rms`` or ``kinetic_temperature``, as in
        `TransitionInfo`. Empty for an imported run.
        """
        found = self._statistics
        return found | {name: found[name] > 0 for name in {"diverging"} & set(found)}

    @functools.cached_property
    def _statistics(self) -> dict[str, NDArray[Any]]:
        """The statistics as saved, with ``diverging`` as a number of transitions."""
        return self._draws.read("sample_stats/")

    @functools.cached_property
    def approximation(self) -> Approximation | None:
        """The density fitted by `fit_variational`; ``None`` for a sample of the posterior."""
        return read_approximation(self._store, self._sampled)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Reports of the run by chain and transition, burn-in included; read again at each use.

        ``chain``, ``transition``, ``phase``; ``acceptance_rate``, ``divergences`` and
        ``num_gradients`` (per transition) since the previous report; ``step_size``, ``lp``; each
        metric as ``training.<name>`` and ``validation.<name>``; ``seconds`` since the start. Values
        that are not finite become ``None``.
        """
        return self._store.reports(skip_damaged=self._skip_damaged)

    def __len__(self) -> int:
        return self.num_chains * self.num_draws

    def __repr__(self) -> str:
        weights = "" if self._weights is None else f", {self._weights}"
        chains = f"{self.num_chains} chain{'s' * (self.num_chains > 1)}"
        of, draws = (" of burn-in", "") if self.in_burn_in else ("", " draws")
        return f"Ensemble({len(self)} networks{of}: {chains} of {self.num_draws}{draws}{weights})"

    def _last_draws(self, chains: int) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Last parameters and hyper-parameters by name, for `chains` new chains."""
        where = self._draws.last(chains)
        named = self.parameters, self.hyperparameters
        parameters, hypers = ({name: each[where] for name, each in own.items()} for own in named)
        return parameters, hypers

    @property
    def _held(self) -> bool:
        return not self._store.manifest["sample_hyperparameters"]

    @property
    def _model(self) -> Model:
        return Model(self.network, self.likelihood)

    def _prepare(self, dataset: Dataset) -> Prepared:
        """The user's rows in the units of the model."""
        return prepare(dataset, self.network, self.likelihood, self.scaling, self.dtype)

    def _with(self, **fields: Any) -> Self:
        """The same run with other values of some attributes."""
        other = copy.copy(self)
        other._forget()
        vars(other).update(fields)
        return other

    def _forget(self) -> None:
        """Clear everything cached from the draws."""
        for name in ("parameters", "hyperparameters", "sample_stats", "_statistics"):
            self.__dict__.pop(name, None)

    def _view(self, chains: slice | list[int], draws: slice) -> Self:
        """A subset of the chains and draws."""
        weights = None if self._weights is None else self._weights.view(chains, draws)
        return self._with(_draws=self._draws.view(chains, draws), _weights=weights)

    def _with_data(self, given: Pair) -> Self:
        """The ensemble with training data, for a run that was saved without them."""
        known = self._store.manifest.get("data")
        if known is None:
            raise ValueError(
                "these networks were sampled from the prior, without data: leave `data` out"
            )
        dataset = self._prepare(as_dataset("data", given)).dataset
        found = fingerprint(dataset)
        if known != UNKNOWN_DATA and found is not None and found["sha256"] != known["sha256"]:
            raise ValueError(
                "`data` are not the training data of this run: their fingerprints differ; give `x` "
                "and `y` exactly as they were given to tb.Posterior"
            )
        return self._with(_given=dataset)

    def _points(self, x: ArrayLike | None, names: Sequence[str] | None = None) -> Prepared:
        """Rows at which predictions are diagnosed: by default, some of the training rows."""
        if x is not None:
            return self._prepare(Dataset(x, names=names))
        data = self.data
        if data is None:
            raise ValueError(
                "these networks were sampled from the prior, which has no training rows: give `x`"
            )
        some = data.evenly(TRAINING_POINTS)
        return self._prepare(Dataset(some.x, rows=some.rows, names=names))

    def _whole_store(self, method: str) -> Store:
        """The store of the run; raises if this ensemble is a subset of it or reweighted."""
        self._refuse_weights(method, "it is about the run as it was sampled")
        pieces, chains = self._draws.pieces.values(), int(self._store.manifest["chains"])
        if self._draws.steps != range(sum(pieces)) or self.num_chains < chains:
            raise ValueError(
                f"`{method}` is about all draws of a run: call it before `thin`, `discard` or `sel`"
            )
        return self._store

    def _refuse_weights(self, method: str, reason: str) -> None:
        if self._weights is not None:
            raise ValueError(
                f"`{method}` can't be used after `reweight`, since {reason}: call it on the "
                "ensemble that was reweighted"
            )

    def _refuse_moved(self, method: str) -> None:
        if self._moved:
            raise ValueError(
                f"`{method}` can't start from a value of `sensitivity`: call it on the ensemble of "
                "the run"
            )

    @property
    def _flat_weights(self) -> NDArray[Any] | None:
        return None if self._weights is None else self._weights.weights.ravel()

    def _by_draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Split the axis of networks into chains and draws."""
        return values.reshape(self.num_chains, -1, *values.shape[1:])
