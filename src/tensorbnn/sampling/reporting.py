"""Reports of a run while it goes on: what the sampler does, and how well the networks fit.

A report of a chain is due whenever the number of its transitions (epochs), burn-in included, is a
multiple of ``report_every``, and at its end. It is a line of ``metrics.jsonl``:

    chain, epoch, phase     which chain, after how many transitions, "burn-in" or "sampling"
    acceptance              mean over the transitions since the last report
    divergences             their number of divergences
    leapfrog_steps          their mean number of gradients
    step_size, log_density  of the last transition, as in `Info`
    restarts                how often the chain was stuck in burn-in and started again
    training.<metric>       each metric for the network the chain is at, on the training data
    validation.<metric>     the same on the validation data, where they are given
    seconds                 since the run began, without the time between a stop and a resume

Numbers that are not finite are ``null``. Reports only look: no draw depends on them.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.engine.forward import Data
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.inference.sampler import Info, over_chains
from tensorbnn.inference.target import Target
from tensorbnn.model.scaling import Scaling
from tensorbnn.progress import Bar
from tensorbnn.sampling.plan import Start
from tensorbnn.storage.store import Store


class MetricError(RuntimeError):
    """A metric that failed; the message says which one, and where."""


@dataclass(frozen=True)
class Reporting:
    """What is reported of a run, and how often.

    Attributes
    ----------
    every
        Transitions between two reports of a chain.
    metrics
        Metrics by name.
    rows
        The rows on which they are computed, by name: ``training``, ``validation``.
    data
        The same as the engine takes them.
    scaling
        The user's units, in which metrics compare.
    """

    every: int = 100
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    rows: Mapping[str, Dataset] = field(default_factory=dict)
    data: Mapping[str, Data] = field(default_factory=dict)
    scaling: Scaling = field(default_factory=Scaling)

    def check(self, start: Start, epoch: int = 0) -> None:
        """Compute every metric once, where chains start, so that a bad one is known at once."""
        self.scores(start.chains, start.target, start.state.position, epoch)

    def scores(
        self, chains: Sequence[int], target: Target, positions: Array, epoch: int
    ) -> list[dict[str, float | None]]:
        """Every metric by name for each of `chains`, at `positions` ``(chains, dimension)``."""
        found: list[dict[str, float | None]] = [{} for _ in chains]
        for kind, rows in self.rows.items() if self.metrics else ():
            expected = np.asarray(_expected(target, positions, self.data[kind]))
            predictions = self.scaling.natural(expected)
            targets = target.model.likelihood.observed(rows.targets, target.model.network.outputs)
            for chain, own, scores in zip(chains, predictions, found, strict=True):
                for name, metric in self.metrics.items():
                    try:
                        scores[f"{kind}.{name}"] = _score(metric(own, targets))
                    except Exception as error:
                        raise MetricError(
                            f"the metric `{name}` failed on the {kind} data at epoch {epoch} of "
                            f"chain {chain}: {type(error).__name__}: {error}"
                        ) from error
        return found


class Sums(NamedTuple):
    """Sums over transitions, for each chain."""

    acceptance: Array
    divergent: Array
    num_steps: Array

    @classmethod
    def zero(cls, chains: int) -> "Sums":
        """Sums over nothing."""
        count = jnp.zeros(chains, jnp.int32)
        return cls(jnp.zeros(chains), count, count)

    def add(self, info: Info) -> "Sums":
        """The sums with one more transition."""
        return Sums(
            acceptance=self.acceptance + info.acceptance,
            divergent=self.divergent + info.divergent.astype(jnp.int32),
            num_steps=self.num_steps + info.num_steps.astype(jnp.int32),
        )


class Moment(NamedTuple):
    """Where chains are after a call; every array has the chains as its axis."""

    epoch: int
    phase: str
    since_report: Sums
    step_size: NDArray[Any]
    log_density: NDArray[Any]
    position: Array
    restarts: NDArray[Any]


class Reporter:
    """Reports of some chains that are advanced together, and what the display shows of them."""

    def __init__(
        self,
        start: Start,
        reporting: Reporting,
        transitions: int,
        store: Store,
        bar: Bar,
        *,
        shown: int = 0,
        seconds: float = 0.0,
    ) -> None:
        self._chains, self._target = start.chains, start.target
        self._reporting, self._end = reporting, transitions
        self._store, self._bar = store, bar
        self._began = time.monotonic() - seconds
        self._shown = shown
        self._scores: list[dict[str, float | None]] = [{} for _ in start.chains]
        self._phase, self._divergences = "", np.zeros(len(start.chains), np.int64)

    def room(self, epoch: int) -> int:
        """Transitions up to the next report."""
        return min(self._reporting.every - epoch % self._reporting.every, self._end - epoch)

    def due(self, epoch: int) -> bool:
        """Whether a report is due after `epoch` transitions."""
        return self.begins_anew(epoch) or epoch == self._end

    def begins_anew(self, epoch: int) -> bool:
        """Whether sums for reports begin anew after `epoch` transitions.

        Not with the last report of a run, so that a longer run goes on as if it had not ended.
        """
        return epoch % self._reporting.every == 0

    def write(self, moment: Moment) -> None:
        """Write a report of each chain."""
        self._scores = self._reporting.scores(
            self._chains, self._target, moment.position, moment.epoch
        )
        for report in self._reports(moment):
            self._store.append_report(report)
        self._show_rows(moment)

    def show(self, moment: Moment, call: Sums, seconds: float) -> None:
        """Show where chains are after a call that took `seconds`; metrics as last reported.

        `call` are sums over the transitions of the call.
        """
        if moment.phase != self._phase:
            self._phase, self._divergences = moment.phase, np.zeros_like(self._divergences)
        self._divergences += call.divergent
        self._show_rows(moment)
        count, self._shown = moment.epoch - self._shown, moment.epoch
        note = f"{np.sum(call.num_steps) / max(seconds, 1e-9):,.0f} gradients/s a core"
        if not self._bar.live:
            note = f"acceptance {np.mean(call.acceptance) / count:.2f}, {note}"
        # In burn-in trajectories may be held short, and grow later.
        growing = moment.phase == "burn-in"
        gradients = float(np.sum(call.num_steps))
        self._bar.advance(count * len(self._chains), note, work=gradients, growing=growing)

    def _show_rows(self, moment: Moment) -> None:
        """Rows of the display: as reports, but with all divergences of the phase."""
        phase = "done" if moment.epoch == self._end else moment.phase
        for report, divergences in zip(self._reports(moment), self._divergences, strict=True):
            shown = report | {"phase": phase, "divergences": divergences}
            self._bar.row(report["chain"], cells(shown))

    def _reports(self, moment: Moment) -> list[dict[str, Any]]:
        sums, count = moment.since_report, (moment.epoch - 1) % self._reporting.every + 1
        return [
            {
                "chain": chain,
                "epoch": moment.epoch,
                "phase": moment.phase,
                "acceptance": _finite(sums.acceptance[row] / count),
                "divergences": int(sums.divergent[row]),
                "leapfrog_steps": _finite(sums.num_steps[row] / count),
                "step_size": _finite(moment.step_size[row]),
                "log_density": _finite(moment.log_density[row]),
                "restarts": int(moment.restarts[row]),
                **self._scores[row],
                "seconds": round(time.monotonic() - self._began, 3),
            }
            for row, chain in enumerate(self._chains)
        ]


def cells(report: Mapping[str, Any]) -> dict[str, str]:
    """A report as texts by column, for the display: ``training (validation)`` of each metric."""
    found = {
        "chain": str(report["chain"]),
        "phase": report["phase"],
        "epoch": f"{report['epoch']:,}",
        "accepted": _text(report["acceptance"], ".2f"),
        "step size": _text(report["step_size"], ".3g"),
        "leapfrog": _text(report["leapfrog_steps"], ".0f"),
        "divergent": str(report["divergences"]),
    }
    for name, value in report.items():
        kind, _, metric = name.partition(".")
        if kind == "training":
            heading, text = metric.replace("_", " "), _text(value, ".3g")
            if f"validation.{metric}" in report:
                heading += " (validation)"
                text += f" ({_text(report[f'validation.{metric}'], '.3g')})"
            found[heading] = text
    return found


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _score(value: Any) -> float | None:
    number = np.asarray(value)
    if number.shape != () or number.dtype.kind not in "biuf":
        raise TypeError(f"a metric must return one number, got {value!r}")
    return _finite(number)


@jax.jit
def _expected(target: Target, positions: Array, data: Data) -> Array:
    """Expected targets ``(chains, rows, outputs)`` of the networks at `positions`."""
    model = target.model

    def expected(position: Array) -> Array:
        theta, phi = target.vectors(position)
        hypers = model.phi.unflatten(phi)
        own = {name: hypers[f"likelihood.{name}"] for name in model.likelihood.hypers()}
        tiles, rest = model.outputs(theta, data)
        whole = tiles.transpose(1, 0, 2).reshape(rest.shape[0], -1)
        outputs = jnp.concatenate([whole, rest], axis=1)
        return model.likelihood.bind(own).mean(outputs).T

    return over_chains(expected, positions)
