"""Reports of a run while it continues: what the sampler does, and how well the networks fit.

Each chain reports whenever the number of its transitions, burn-in included, is a multiple of
``report_every``, and at its end. A report is a line of ``metrics.jsonl``:

    chain, transition   which chain, after how many transitions
    phase               "burn-in" or "sampling"
    acceptance_rate     mean over the transitions since the last report
    divergences         number of divergent transitions since then
    num_gradients       mean number of gradients of a transition since then
    step_size, lp       of the last transition, as in `TransitionInfo`
    restarts            how often the chain was stuck in burn-in and was restarted
    training.<metric>   each metric for the current network, on the training data
    validation.<metric> the same on the validation data, if there are any
    seconds             since the run began, without the time between a stop and a resume

Numbers that are not finite are ``null``. No draw depends on a report.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from tensorbnn.data import Dataset
from tensorbnn.engine.forward import Data
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.errors import MetricError
from tensorbnn.inference.sampler import over_chains
from tensorbnn.inference.target import TargetDensity
from tensorbnn.model.scaling import Scaling
from tensorbnn.posterior import Posterior
from tensorbnn.progress import Bar
from tensorbnn.sampling.advance import Sums
from tensorbnn.sampling.checkpoint import Checkpoint
from tensorbnn.sampling.plan import ChainState, Plan
from tensorbnn.storage.store import Store

# Transitions of a chain between two reports.
REPORT_EVERY = 100


@dataclass(frozen=True)
class Reporting:
    """What is reported of a run, and how often.

    Attributes
    ----------
    every
        Transitions between two reports of a chain.
    metrics
        Metrics by name.
    rows, data
        The rows on which they are computed, by name (``training``, ``validation``): in the user's
        units, and as the engine takes them.
    scaling
        The user's units, in which metrics compare.
    """

    every: int = REPORT_EVERY
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    rows: Mapping[str, Dataset] = field(default_factory=dict)
    data: Mapping[str, Data] = field(default_factory=dict)
    scaling: Scaling = field(default_factory=Scaling)

    @classmethod
    def checked(
        cls,
        posterior: Posterior,
        metrics: Mapping[str, Metric],
        validation: Dataset | tuple[ArrayLike, ArrayLike] | None,
        every: int,
    ) -> "Reporting":
        """The options of the user, or an error."""
        if validation is not None and not metrics:
            raise ValueError(
                "`validation` is given but `metrics` is not: say what to report of these data, "
                "such as `metrics=[tb.MeanSquaredError()]`"
            )
        if not metrics:
            return cls(every)
        if posterior.data is None or posterior._arrays is None:
            raise ValueError(
                "`metrics` compare predictions with targets, but `posterior` has no data: build it "
                "as tb.Posterior(network, likelihood, x, y), or leave `metrics` out"
            )
        rows, data = {"training": posterior.data}, {"training": posterior._arrays}
        if validation is not None:
            prepared = posterior._prepare_validation(validation)
            rows["validation"] = prepared.dataset
            data["validation"] = posterior._arrange(prepared)
        return cls(every, metrics, rows, data, posterior.scaling)

    def scores(self, chains: ChainState, transition: int) -> list[dict[str, float | None]]:
        """Every metric by name for each of `chains`, which have made `transition` transitions."""
        target, found = chains.target, [dict[str, float | None]() for _ in chains.numbers]
        for kind, rows in self.rows.items() if self.metrics else ():
            expected = np.asarray(_expected(target, chains.state.position, self.data[kind]))
            predictions = self.scaling.natural(expected)
            for chain, own, scores in zip(chains.numbers, predictions, found, strict=True):
                for name, metric in self.metrics.items():
                    try:
                        scores[f"{kind}.{name}"] = _score(metric(own, rows.targets))
                    except Exception as error:
                        reason = f"{type(error).__name__}: {error}"
                        raise MetricError(name, kind, transition, chain, reason) from error
        return found


class Reporter:
    """Reports of some chains that are advanced together, and what the display shows of them."""

    def __init__(
        self,
        at: Checkpoint,
        reporting: Reporting,
        plan: Plan,
        store: Store,
        bar: Bar,
        seconds: float,
    ) -> None:
        self._numbers, self._shown = at.chains.numbers, at.transitions
        self._reporting, self._plan, self._store, self._bar = reporting, plan, store, bar
        self._end, self._began = plan.transitions, time.monotonic() - seconds
        self._scores: list[dict[str, float | None]] = [{} for _ in self._numbers]
        self._current, self._divergences = "", np.zeros(len(self._numbers), np.int64)

    def room(self, transition: int) -> int:
        """Transitions up to the next report."""
        return min(
            self._reporting.every - transition % self._reporting.every, self._end - transition
        )

    def due(self, transition: int) -> bool:
        """Whether a report is due after `transition` transitions."""
        return self.resets_sums(transition) or transition == self._end

    def resets_sums(self, transition: int) -> bool:
        """Whether sums for reports begin from zero after `transition` transitions.

        Not with the last report of a run, so that a longer run continues as if it had not ended.
        """
        return transition % self._reporting.every == 0

    def write(self, at: Checkpoint) -> None:
        """Write a report of each chain."""
        self._scores = self._reporting.scores(at.chains, at.transitions)
        for report in self._reports(at):
            self._store.append_report(report)
        self._show_rows(at)

    def show(self, at: Checkpoint, call: Sums, seconds: float) -> None:
        """Show where chains are after a call that took `seconds`; metrics as last reported.

        `call` are sums over the transitions of the call.
        """
        phase = self._phase(at)
        if phase != self._current:
            self._current, self._divergences = phase, np.zeros_like(self._divergences)
        self._divergences += call.divergences
        self._show_rows(at)
        count, self._shown = at.transitions - self._shown, at.transitions
        note = f"{np.sum(call.num_gradients) / max(seconds, 1e-9):,.0f} gradients/s a core"
        if not self._bar.live:
            note = f"acceptance {np.mean(call.acceptance_rate) / count:.2f}, {note}"
        # In burn-in trajectories may be kept short, and grow later.
        growing, gradients = phase == "burn-in", float(np.sum(call.num_gradients))
        self._bar.advance(count * len(self._numbers), note, work=gradients, growing=growing)

    def _phase(self, at: Checkpoint) -> str:
        return "burn-in" if at.transitions <= self._plan.burn_in else "sampling"

    def _show_rows(self, at: Checkpoint) -> None:
        """Rows of the display: as reports, but with all divergences of the phase."""
        phase = "done" if at.transitions == self._end else self._phase(at)
        for report, divergences in zip(self._reports(at), self._divergences, strict=True):
            shown = report | {"phase": phase, "divergences": divergences}
            self._bar.row(report["chain"], cells(shown))

    def _reports(self, at: Checkpoint) -> list[dict[str, Any]]:
        count = (at.transitions - 1) % self._reporting.every + 1
        sums: Sums = jax.tree.map(np.asarray, at.sums.report)
        step_size, log_density = np.asarray(at.step_size), np.asarray(at.chains.state.log_density)
        restarts = np.asarray(at.restarts)
        return [
            {
                "chain": chain,
                "transition": at.transitions,
                "phase": self._phase(at),
                "acceptance_rate": _finite(sums.acceptance_rate[row] / count),
                "divergences": int(sums.divergences[row]),
                "num_gradients": _finite(sums.num_gradients[row] / count),
                "step_size": _finite(step_size[row]),
                "lp": _finite(log_density[row]),
                "restarts": int(restarts[row]),
                **self._scores[row],
                "seconds": round(time.monotonic() - self._began, 3),
            }
            for row, chain in enumerate(self._numbers)
        ]


def cells(report: Mapping[str, Any]) -> dict[str, str]:
    """A report as texts by column, for the display: ``training (validation)`` of each metric."""
    found = {
        "chain": str(report["chain"]),
        "phase": report["phase"],
        "transition": f"{report['transition']:,}",
        "accepted": _text(report["acceptance_rate"], ".2f"),
        "step size": _text(report["step_size"], ".3g"),
        "gradients": _text(report["num_gradients"], ".0f"),
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


def show_first(bar: Bar, is_done: Mapping[int, bool]) -> None:
    """Rows of the display before any chain advances."""
    for chain in reversed(list(is_done)):  # of many rows, those set last are shown
        bar.row(chain, {"chain": str(chain), "phase": "done" if is_done[chain] else "waiting"})


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
def _expected(target: TargetDensity, positions: Array, data: Data) -> Array:
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
