"""Have predictions converged? R-hat and effective sample size of predictions at given inputs.

For chains that agree, R-hat - 1 falls and the effective sample size grows in proportion to their
length ``n``. If they are ``R`` and ``E`` at a point now, it meets both limits after about

    n * max((R - 1) / (rhat - 1), ess / E)

draws. This predicts how long a run will take, and which points to check first: a run has not
converged if more points miss the limits than allowed. Convergence itself is computed from the draws
alone, by `diagnostics.convergence`.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_number, check_positive
from tensorbnn.data import Dataset
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS, TRAINING_POINTS, convergence
from tensorbnn.ensemble.verdict import have_moved, without_certain
from tensorbnn.model.checks import check_inputs, check_rows
from tensorbnn.posterior import Posterior

if TYPE_CHECKING:
    from tensorbnn.ensemble.ensemble import Ensemble

# Largest number of inputs that a user may give.
MAX_POINTS = 1000
# Inputs that are checked together.
POINTS_AT_ONCE = 8


@final
@dataclass(frozen=True)
class Converged:
    """Sample until the chains agree about predictions, which are then precise enough.

    Parameters
    ----------
    rhat
        R-hat must be below this.
    ess
        The effective sample size over all chains, in bulk and tails, must be at least this.
    x
        Inputs ``(rows, inputs)`` of the predictions, 1,000 at most. By default at most 100 training
        rows, evenly spaced.
    fraction
        The share of the inputs at which all outputs must meet both limits.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 20)
    >>> layer = tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1))
    >>> posterior = tb.Posterior(tb.Network(layer, inputs=1), tb.Gaussian(sd=0.5), x, 0.3 * x)
    >>> until = tb.Converged(ess=1000, x=[-1.0, 0.0, 1.0])
    >>> ensemble = tb.sample(posterior, chains=2, burn_in=200, until=until, progress=False)
    >>> bool(np.all(ensemble.diagnose(until.x, progress=False).ess >= 1000))
    True
    >>> until.estimate(ensemble).converged
    True
    """

    rhat: float = 1.01
    ess: float = 400.0
    x: ArrayLike | None = None
    fraction: float = 0.99

    def __post_init__(self) -> None:
        above_1, share = "a number above 1, such as 1.01", "above 0 and at most 1, such as 0.99"
        check_number("rhat", self.rhat, above_1, lambda each: each > 1)
        check_positive("ess", self.ess, such_as="400")
        check_number("fraction", self.fraction, share, lambda each: 0 < each <= 1)
        if self.x is not None:
            rows = check_rows("x", self.x, "float64")
            if len(rows) > MAX_POINTS:
                raise ValueError(
                    f"`x` has {len(rows):,} rows, which would take too long to compare again and "
                    f"again: give at most {MAX_POINTS:,}, such as "
                    f"`x=x[::{-(-len(rows) // MAX_POINTS)}]`"
                )
            # Numbers that can be compared, hashed, and written to run.json.
            object.__setattr__(self, "x", tuple(map(tuple, rows.tolist())))

    def estimate(self, ensemble: "Ensemble") -> "ConvergenceEstimate | None":
        """The convergence of an ensemble's predictions; ``None`` for too few draws."""
        x = self._points(ensemble, ensemble.data).x
        return estimate_convergence(ensemble._by_chain(x, progress=False), self)

    def _points(self, model: "Posterior | Ensemble", data: Dataset | None) -> Dataset:
        """The inputs at which predictions of a model with these training data are checked."""
        if self.x is not None:
            x = np.asarray(self.x, model.scaling.user_dtype(model.dtype))
            check_inputs(x, model.network, name="x")
            return Dataset(x)
        if data is None:
            raise ValueError(
                "`until` looks at predictions for the training data, but `posterior` has none: say "
                "where to look, such as `until=tb.Converged(x=x)`"
            )
        return Dataset(data.x).evenly(TRAINING_POINTS)

    def _allowed(self, points: int) -> int:
        """How many of this many inputs may miss the limits; never all of them."""
        return min(math.floor((1 - self.fraction) * points + 1e-9), points - 1)


class ConvergenceEstimate(NamedTuple):
    """How far the predictions of a run are from convergence.

    Attributes
    ----------
    rule
        The limits of R-hat and ESS.
    draws
        Draws of each chain.
    rhat, ess
        R-hat, and the lesser of bulk and tail effective sample size, ``(points,)``, of the output
        that is worst.
    exact
        Where both are computed from all these draws, ``(points,)``; elsewhere they are extrapolated
        from fewer, as above.
    """

    rule: Converged
    draws: int
    rhat: NDArray[Any]
    ess: NDArray[Any]
    exact: NDArray[np.bool_]

    @property
    def short(self) -> NDArray[np.bool_]:
        """Where a limit is missed, ``(points,)``; NaN misses it."""
        return ~((self.rhat < self.rule.rhat) & (self.ess >= self.rule.ess))

    @property
    def is_enough(self) -> bool:
        """Whether no more points miss the limits than allowed."""
        return bool(self.short.sum() <= self.rule._allowed(len(self.rhat)))

    @property
    def converged(self) -> bool:
        """Whether the predictions have converged, with certainty."""
        return bool(self.exact.all()) and self.is_enough

    @property
    def needed(self) -> NDArray[Any]:
        """How many times longer chains must be for each point, ``(points,)``; infinite for NaN."""
        with np.errstate(divide="ignore", invalid="ignore"):
            by_rhat = (self.rhat - 1) / (self.rule.rhat - 1)
            by_ess = self.rule.ess / self.ess
            return np.nan_to_num(np.maximum(by_rhat, by_ess), nan=np.inf, posinf=np.inf)

    @property
    def times_longer(self) -> float:
        """How many times longer chains must be, as an estimate; infinite if unknown."""
        ordered = np.sort(self.needed)[::-1]
        return max(float(ordered[self.rule._allowed(len(ordered))]), 1.0)

    @property
    def progress_text(self) -> str:
        """The state of convergence, for the progress bar."""
        known = self.rhat[np.isfinite(self.rhat)]
        rhat = f"R-hat up to {known.max():.3f}" if len(known) else "R-hat unknown"
        lowest = np.nan_to_num(self.ess).min()
        text = f"{rhat}, ESS from {lowest:,.0f}, {self.short.sum()} of {len(self.rhat)} x to go"
        return text if np.isfinite(self.times_longer) else f"{text}, no telling how long"

    def after(self, draws: int) -> "ConvergenceEstimate":
        """The expected values after this many draws."""
        times = draws / self.draws
        return self._replace(
            draws=draws,
            rhat=1 + (self.rhat - 1) / times,
            ess=self.ess * times,
            exact=np.zeros_like(self.exact),
        )


def estimate_convergence(
    values: NDArray[Any],
    rule: Converged,
    before: ConvergenceEstimate | None = None,
    *,
    most: int | None = None,
) -> ConvergenceEstimate | None:
    """The convergence of predictions ``(chains, draws, points, outputs)``; ``None`` for too few.

    Points are checked, the worst `before` first, until the answer is known; or, with `most`, about
    that many of them. Points that were never checked are always included.
    """
    draws, points = values.shape[1:3]
    if draws < LEAST_DRAWS:
        return None
    unknown = np.full(points, np.nan)
    now = ConvergenceEstimate(rule, draws, unknown, unknown.copy(), np.zeros(points, np.bool_))
    if before is not None:
        now = before.after(draws)
    moved = bool(have_moved(values).all())
    order = np.argsort(-now.needed, kind="stable")
    for first in range(0, points, POINTS_AT_ONCE):
        chosen = order[first : first + POINTS_AT_ONCE]
        missed = (now.short & now.exact).sum()
        enough = missed > rule._allowed(points) if most is None else first >= most
        if enough and before is not None:
            break
        now.rhat[chosen], now.ess[chosen] = _worst(values[:, :, chosen], moved=moved)
        now.exact[chosen] = True
    return now


def _worst(values: NDArray[Any], *, moved: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    found = convergence(values)
    rhat, ess = found.rhat, np.minimum(found.ess, found.ess_tail)
    if moved:
        rhat, ess = without_certain(values, rhat, ess)
    return rhat.max(axis=1), ess.min(axis=1)
