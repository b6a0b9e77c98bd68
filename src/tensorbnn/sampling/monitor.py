"""Monitor a run: estimate how far its predictions are from convergence, and decide when to stop.

Whether chains are long enough is decided only when all of them reach the end of the plan, and from
their draws alone. So the end of a run depends neither on the clock nor on interruptions, unless a
time limit stops it. In between, a thread regularly estimates how long the run will take.
"""

import math
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset, prepare
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS, convergence
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
from tensorbnn.sampling.stopping import Estimate
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import Store, with_prefix

if TYPE_CHECKING:
    from tensorbnn.sampling.run import Run

# Draws of all chains together after which the remaining time is shown.
FIRST_LOOK = 1000
# Least seconds between two estimates, and the largest share of the time that they may take.
LOOK_SECONDS = 2.0
LOOK_SHARE = 0.02
# Seconds assumed for a diagnosis until one was measured: a minimum, and a share of the time of the
# first computation, which imports most of what it needs.
DIAGNOSIS_SECONDS, DIAGNOSIS_SHARE = 1.0, 0.75
# Most time that is reserved for diagnoses: seconds, and a share of the limit.
MOST_SECONDS, MOST_SHARE = 2.0, 0.1
# Most networks that are evaluated together; fewer are padded, so that one program serves.
BATCH = 256


@final
class Monitor:
    """Estimates the convergence of a growing run, and decides at the end of each plan.

    Estimates are shown on `bar`. With `watch`, a thread also computes them in between.
    """

    def __init__(self, run: "Run", bar: Bar, *, watch: bool) -> None:
        self._run, self._until, self._bar, store = run, run.rule.until, bar, run.store
        # Separate from the store that is written.
        self._store = DirectoryStore(store.root) if isinstance(store, DirectoryStore) else store
        self._known: ConvergenceEstimate | None = None
        # Seconds that a diagnosis takes, and an estimate of all points.
        self._diagnosis = DIAGNOSIS_SECONDS
        self._needed: float | None = None
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        if run.rule.points is not None:
            x = run.rule.points.x
            self._predictions = GrowingPredictions(self._store, run.posterior, x)
        looks = run.rule.points is not None or run.diagnoses > 0
        if looks and (watch or run.rule.deadline is not None):
            self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Monitor":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def converged(self) -> bool:
        """Whether all draws satisfy the stopping rule."""
        with self._lock:
            now = self.estimate(self._known)
            if now is None:
                return False
            self._show(now, converged=now.converged)
            return now.converged

    def estimate(self, before: ConvergenceEstimate | None = None) -> Estimate | None:
        """The estimate of the stopping rule; ``None`` without a rule or if it can't estimate.

        It covers every point, unless the estimate `before` shows which ones to check.
        """
        if self._until is None:
            return None
        if isinstance(self._until, Converged):
            return self._estimate(self._until, before)
        began = time.monotonic()
        found = self._until.estimate(Ensemble._from_posterior(self._store, self._run.posterior))
        self._needed = time.monotonic() - began
        return PlainEstimate(found) if isinstance(found, bool | np.bool_) else found

    def seconds_needed(self) -> float:
        """Seconds for the estimate at the end of a run, and for diagnoses after it."""
        estimate = self._diagnosis if self._needed is None else self._needed
        after = self._run.diagnoses * max(estimate, self._diagnosis)
        needed = after if self._until is None else estimate + after
        # On a busy machine the rehearsal can take long; chains should not stop because of it.
        return min(needed, MOST_SECONDS + MOST_SHARE * 60 * (self._run.rule.max_minutes or 0.0))

    def _estimate(
        self, rule: Converged, before: ConvergenceEstimate | None, most: int | None = None
    ) -> ConvergenceEstimate | None:
        """Estimate all points or about `most` of them, and measure how long all would take."""
        began = time.monotonic()
        values = self._predictions.update()
        updated = time.monotonic()
        now = estimate_convergence(values, rule, before, most=most)
        if now is not None:
            share = now.exact.mean()
            self._needed = updated - began + (time.monotonic() - updated) / share
        return now

    def pause(self, took: float) -> float:
        """Seconds until the next estimate, if the last one `took` this long; tests replace it."""
        return max(LOOK_SECONDS, took / LOOK_SHARE)

    def _rehearse(self) -> None:
        """Compute something small, so that less is left to do after the time limit."""
        began = time.monotonic()
        convergence(np.random.default_rng(0).normal(size=(2, LEAST_DRAWS, 1)))
        seconds = time.monotonic() - began
        self._diagnosis = max(self._diagnosis, DIAGNOSIS_SHARE * seconds)

    def _watch(self) -> None:
        if self._run.rule.deadline is not None:
            self._rehearse()
        if self._run.rule.points is None:
            return
        took = 0.0
        while not self._ended.wait(self.pause(took)):
            began = time.monotonic()
            try:
                with self._lock:
                    self._look()
            except (RunError, OSError):  # the decision at the end raises it, too
                return
            took = time.monotonic() - began

    def _look(self) -> None:
        values = self._predictions.update()
        too_few = values.shape[0] * values.shape[1] < FIRST_LOOK
        if too_few or not isinstance(self._until, Converged):
            return
        now = self._estimate(self._until, self._known, POINTS_AT_ONCE)
        if now is not None:
            self._show(now, converged=False)

    def _show(self, now: Estimate, *, converged: bool) -> None:
        times, plan, text = 1.0 if converged else now.times_longer, self._run.plan, ""
        draws = known = plan.draws
        if isinstance(now, ConvergenceEstimate):
            self._known, known, text = now, now.draws, now.progress_text
        if math.isfinite(times):
            draws = max(draws, math.ceil(times * known))
        self._bar.set_total(plan.chains * (plan.burn_in + draws * plan.thin), text)


class PlainEstimate(NamedTuple):
    """The estimate of a stopping rule that answers only yes or no."""

    converged: bool
    times_longer: float = math.inf


@final
class GrowingPredictions:
    """Predictions of a growing run at a few inputs; each network is evaluated once.

    The `store` is only read; inputs `x` ``(rows, inputs)`` are in the user's units.
    """

    def __init__(self, store: Store, posterior: Posterior, x: NDArray[Any]) -> None:
        self._store, self._posterior = store, posterior
        model = posterior.network, posterior.likelihood, posterior.scaling, posterior.dtype
        self._rows = prepare(Dataset(x), *model)
        self._size = int(store.manifest["networks_per_file"])
        self._batch = min(self._size, BATCH)
        self._counts = [0] * int(store.manifest["chains"])
        columns = posterior.likelihood.columns(posterior.network.outputs)
        self._values = np.empty((len(self._counts), 0, len(x), columns), posterior.dtype)
        self._lock = threading.Lock()

    def update(self) -> NDArray[Any]:
        """Read new draws; returns ``(chains, draws, rows, outputs)`` that all chains have.

        May be called from any thread; arrays that were returned before do not change.
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
        missing = self._batch - count
        full = {
            name: np.pad(each[rows], [(0, missing), *[(0, 0)] * (each.ndim - 1)], "edge")
            for name, each in arrays.items()
        }
        batch = Batch(with_prefix(full, "parameters/"), with_prefix(full, "hyperparameters/"))
        prediction = Prediction(
            posterior.network,
            posterior.likelihood,
            self._rows,
            lambda: [batch],
            self._batch,
            progress=False,
            scaling=posterior.scaling,
        )
        return prediction._samples[:count]
