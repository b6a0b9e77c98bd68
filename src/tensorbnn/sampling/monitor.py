"""Predictions of a run while it goes on: how far they are, and whether that is far enough.

Whether chains are long enough is decided only where all of them are at the end of the plan, from
their draws alone: so when a run ends depends neither on the clock nor on interruptions, unless a
limit of time does end it. Meanwhile a thread looks now and then, to say how long it will take.
"""

import math
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.draws import Batch
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.errors import RunError
from tensorbnn.posterior import Posterior
from tensorbnn.progress import Bar
from tensorbnn.sampling.converged import (
    POINTS_AT_ONCE,
    Converged,
    ConvergenceEstimate,
    estimate_convergence,
)
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.stopping import Estimate, StoppingRule
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import Store

# Draws of all chains together from which on it is said how long it will take.
FIRST_LOOK = 1000
# The most that looking may take of the time.
LOOK_SHARE = 0.02
# Networks that are evaluated together, at most; fewer are filled up, so that one program serves.
BATCH = 256


@final
class Monitor:
    """Looks at a run: now and then, to say how far it is, and at the ends of plans to decide.

    Parameters
    ----------
    posterior, plan, rule, store
        Of the run. The store is only read.
    bar
        Where it is said how far the run is.
    watch
        Whether a thread looks on between the ends.
    """

    look_seconds: ClassVar[float] = 2.0
    """Seconds between two looks, at least; tests set it."""

    def __init__(
        self,
        posterior: Posterior,
        plan: Plan,
        rule: StoppingRule,
        store: Store,
        bar: Bar,
        *,
        watch: bool,
    ) -> None:
        self.plan = plan
        """How long the run is to be, as far as it is known."""
        self._posterior, self._until, self._bar = posterior, rule.until, bar
        # Apart from the store that is written.
        self._store = DirectoryStore(store.root) if isinstance(store, DirectoryStore) else store
        self._known: ConvergenceEstimate | None = None
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        if rule.points is not None:
            self._predictions = GrowingPredictions(
                self._store,
                posterior,
                rule.points.x,
                chains=plan.chains,
                networks_per_file=plan.networks_per_file,
            )
            if watch:
                self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Monitor":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def converged(self) -> bool:
        """Whether the stopping rule is satisfied, as all draws say."""
        with self._lock:
            now = self._estimate(self._known)
            if now is None:
                return False
            self._show(now, converged=now.converged)
            return now.converged

    def final(self) -> Estimate | None:
        """What the stopping rule says of every point; ``None`` where there is none, or it can't."""
        return self._estimate(None)

    def _estimate(self, before: ConvergenceEstimate | None) -> Estimate | None:
        if self._until is None:
            return None
        if isinstance(self._until, Converged):
            return estimate_convergence(self._predictions.update(), self._until, before)
        found = self._until.estimate(Ensemble._from_posterior(self._store, self._posterior))
        return PlainEstimate(found) if isinstance(found, bool | np.bool_) else found

    def _watch(self) -> None:
        pause = self.look_seconds
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                with self._lock:
                    self._look()
            except (RunError, OSError):  # whoever decides will meet it, too
                return
            pause = max(self.look_seconds, (time.monotonic() - began) / LOOK_SHARE)

    def _look(self) -> None:
        values = self._predictions.update()
        too_few = values.shape[0] * values.shape[1] < FIRST_LOOK
        if too_few or not isinstance(self._until, Converged):
            return
        now = estimate_convergence(values, self._until, self._known, most=POINTS_AT_ONCE)
        if now is not None:
            self._show(now, converged=False)

    def _show(self, now: Estimate, *, converged: bool) -> None:
        times, draws, text = 1.0 if converged else now.times_longer, self.plan.draws, ""
        known = draws
        if isinstance(now, ConvergenceEstimate):
            self._known, known, text = now, now.draws, now.progress_text
        if math.isfinite(times):
            draws = max(draws, math.ceil(times * known))
        steps = self.plan.chains * (self.plan.burn_in + draws * self.plan.every)
        self._bar.set_total(steps, text)


class PlainEstimate(NamedTuple):
    """What a stopping rule says that only answers yes or no."""

    converged: bool
    times_longer: float = math.inf


@final
class GrowingPredictions:
    """What the networks of a run that goes on say at a few inputs: each is evaluated once.

    Parameters
    ----------
    store
        Where the run is; only read.
    posterior
        What is sampled.
    x
        Inputs ``(rows, inputs)`` in the user's units.
    chains, networks_per_file
        Of the run.
    """

    def __init__(
        self,
        store: Store,
        posterior: Posterior,
        x: NDArray[Any],
        *,
        chains: int,
        networks_per_file: int,
    ) -> None:
        self._store, self._posterior, self._size = store, posterior, networks_per_file
        self._inputs = posterior.scaling.inputs(x, posterior.dtype)
        self._batch = min(networks_per_file, BATCH)
        self._counts = [0] * chains
        columns = posterior.likelihood.columns(posterior.network.outputs)
        self._values = np.empty((chains, 0, len(x), columns), posterior.dtype)
        self._lock = threading.Lock()

    def update(self) -> NDArray[Any]:
        """Look for new draws; ``(chains, draws, rows, outputs)`` that all chains have.

        May be called from any thread; what was returned before stays what it was.
        """
        with self._lock:
            for chain in range(len(self._counts)):
                for new in self._new(chain):
                    self._append(chain, new)
            return self._values[:, : min(self._counts)]

    def _new(self, chain: int) -> Iterator[NDArray[Any]]:
        """Predictions of a chain's new networks, in order, ``(networks, rows, outputs)`` each."""
        for index, size in self._store.chunk_sizes(chain).items():
            first = self._counts[chain] - index * self._size
            if first >= size:
                continue
            arrays = self._store.read_chunk(chain, index, "")  # may have grown meanwhile
            for start in range(first, size, self._batch):
                yield self._predict(arrays, slice(start, min(start + self._batch, size)))

    def _append(self, chain: int, new: NDArray[Any]) -> None:
        count, held = self._counts[chain], self._values.shape[1]
        end = count + len(new)
        if end > held:
            shape = (len(self._counts), max(2 * held, end), *self._values.shape[2:])
            grown = np.zeros(shape, new.dtype)
            grown[:, :held] = self._values
            self._values = grown
        self._values[chain, count:end] = new
        self._counts[chain] = end

    def _predict(self, arrays: dict[str, NDArray[Any]], rows: slice) -> NDArray[Any]:
        count, posterior = rows.stop - rows.start, self._posterior

        def chosen(prefix: str) -> dict[str, NDArray[Any]]:
            return {
                name.removeprefix(prefix): np.pad(
                    each[rows], ((0, self._batch - count), *((0, 0),) * (each.ndim - 1)), "edge"
                )
                for name, each in arrays.items()
                if name.startswith(prefix)
            }

        batch = Batch(chosen("parameters/"), chosen("hyperparameters/"))
        prediction = Prediction(
            posterior.network,
            posterior.likelihood,
            posterior.dtype,
            self._inputs,
            lambda: [batch],
            self._batch,
            progress=False,
            scaling=posterior.scaling,
        )
        return prediction.networks[:count]
