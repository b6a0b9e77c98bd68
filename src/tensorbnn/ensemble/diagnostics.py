"""Can the sample be trusted? R-hat, effective sample sizes and Monte Carlo errors of predictions.

The weights of a network are not identified (units can be swapped, signs flipped), so chains are
compared in function space, by the predictions of their networks at given inputs. `verdict.py` turns
the numbers into a verdict.

If ``n`` networks have weights ``w_j``, the weighted mean ``m`` has the same error as the plain mean
of its influence function (the delta method),

    z_j = n w_j (f_j - m),

and likewise for quantiles and standard deviations. Chains are compared by these series, and an
effective sample size is the variance of ``f`` over the squared error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset, follow_y
from tensorbnn.ensemble import statistics
from tensorbnn.ensemble.verdict import Evidence, judge
from tensorbnn.findings import (
    Approximate,
    Finding,
    TooFewDraws,
    Verdict,
    VerdictKind,
    WeightsUntrusted,
)
from tensorbnn.inference.sampler import Sampler

LEAST_DRAWS = 4
# If no inputs are given, at most this many training rows are diagnosed.
TRAINING_POINTS = 100
TAIL = (0.05, 0.95)
# Number of predictions analyzed at once; each temporarily needs several float64 numbers.
VALUES_AT_ONCE = 2**22


class Convergence(NamedTuple):
    """How well chains agree on some numbers, as in `Diagnosis`; all arrays have the same shape."""

    rhat: NDArray[Any]
    ess: NDArray[Any]
    ess_tail: NDArray[Any]


@final
@dataclass(frozen=True)
class Diagnosis:
    """Whether predictions can be trusted: R-hat, effective sample sizes, errors and a verdict.

    As in a `Prediction`, arrays have no axis of outputs if the training targets were ``(rows,)``.

    Attributes
    ----------
    rhat
        Rank-normalized split R-hat of the prediction, ``(rows, outputs)``; near 1 if chains agree
        (Vehtari et al. 2021). NaN for a single chain, and for a value that never changes.
    ess
        Bulk effective sample size over all chains, ``(rows, outputs)``: the number of independent
        networks that would give an equally precise mean.
    ess_tail
        Tail effective sample size, ``(rows, outputs)``: the smaller one of the 5 % and the 95 %
        quantile; it tells how precise intervals are.
    mcse_mean, mcse_sd
        Monte Carlo standard error of the mean and of the standard deviation over networks,
        ``(rows, outputs)``.
    acceptance_rate
        Mean acceptance probability of each chain, ``(chains,)``.
    divergences
        Number of divergent transitions of each chain after burn-in, ``(chains,)``.
    ebfmi
        Energy Bayesian fraction of missing information of each chain, ``(chains,)``: below 0.3 the
        sampler moves too slowly between levels of the density (Betancourt 2016). Computed from the
        saved draws; a run that saves only every n-th transition shows larger values.
    hyperparameters
        R-hat and effective sample sizes of each hyper-parameter, by name. The verdict depends on
        predictions; it only mentions hyper-parameters that mix slowly.
    verdict
        Whether you can trust the sample: ``print(verdict)``.
    x
        The inputs, in your units, ``(rows, inputs)``.
    """

    rhat: NDArray[Any]
    ess: NDArray[Any]
    ess_tail: NDArray[Any]
    mcse_mean: NDArray[Any]
    mcse_sd: NDArray[Any]
    acceptance_rate: NDArray[Any]
    divergences: NDArray[Any]
    ebfmi: NDArray[Any]
    hyperparameters: dict[str, Convergence]
    verdict: Verdict
    x: NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"Diagnosis({len(self.rhat)} rows; {str(self.verdict).splitlines()[0]})"

    @property
    def trustworthy(self) -> bool:
        """Whether the verdict is that the sample can be trusted."""
        return self.verdict.trustworthy


def diagnose(
    values: NDArray[Any],
    info: Mapping[str, NDArray[Any]],
    *,
    points: Dataset | None = None,
    hyperparameters: Mapping[str, NDArray[Any]] | None = None,
    weights: NDArray[Any] | None = None,
    untrusted: WeightsUntrusted | None = None,
    sampler: type[Sampler] | None = None,
    approximation: Approximate | None = None,
    output_shape: tuple[int, ...] | None = None,
    about_data: tuple[Finding, ...] = (),
    too_early: Finding | None = None,
    about_fit: Callable[[], tuple[Finding, ...]] = tuple,
) -> Diagnosis:
    """Diagnose predictions ``(chains, draws, rows, outputs)`` and the sampler's records.

    The records `info`, `hyperparameters` by name and `weights`, which sum to one, are each
    ``(chains, draws)``; missing ``acceptance_rate``, ``diverging`` (a number of transitions) or
    ``energy`` counts as NaN. Arrays for each row have the `output_shape` of predictions. The other
    arguments are for the verdict; see `Evidence`.
    """
    unknown = np.full(values.shape[:2], np.nan)
    records = dict.fromkeys(("acceptance_rate", "diverging", "energy"), unknown) | dict(info)
    if values.shape[1] < LEAST_DRAWS:
        too_few = TooFewDraws(values.shape[1], LEAST_DRAWS) if too_early is None else too_early
        verdict = Verdict(VerdictKind.NOT_YET, (too_few, *about_data))
        shape = values.shape[2:3] + (values.shape[3:] if output_shape is None else output_shape)
        return _unknown(shape, records, hyperparameters or {}, verdict)
    found = convergence(values, weights)
    mcse_mean, mcse_sd = _in_blocks(_errors, values, weights)
    hypers = {name: convergence(each, weights) for name, each in (hyperparameters or {}).items()}
    series = values
    if weights is not None:  # influences, in the type of the predictions
        kind = values.dtype
        (series,) = _in_blocks(lambda *own: [_influence(*own).astype(kind)], values, weights)
    evidence = Evidence(
        values=series,
        rhat=found.rhat,
        ess=np.minimum(found.ess, found.ess_tail),
        acceptance_rate=records["acceptance_rate"].mean(axis=1),
        diverging=records["diverging"],
        ebfmi=_ebfmi(records["energy"]),
        hyper_rhat={name: float(each.rhat) for name, each in hypers.items()},
        points=points,
        untrusted=untrusted,
        sampler=sampler,
        sample_stats=info,
        approximation=approximation,
        about_data=about_data,
        too_early=too_early,
        about_fit=about_fit,
    )
    shape = values.shape[3:] if output_shape is None else output_shape
    by_row = {**found._asdict(), "mcse_mean": mcse_mean, "mcse_sd": mcse_sd}
    return Diagnosis(
        **{name: follow_y(each, shape) for name, each in by_row.items()},
        acceptance_rate=evidence.acceptance_rate,
        divergences=records["diverging"].sum(axis=1),
        ebfmi=evidence.ebfmi,
        hyperparameters=hypers,
        verdict=judge(evidence, lambda part: convergence(part).rhat),
        x=None if points is None else points.x,
    )


def _unknown(
    shape: tuple[int, ...],
    records: Mapping[str, NDArray[Any]],
    hyperparameters: Mapping[str, NDArray[Any]],
    verdict: Verdict,
) -> Diagnosis:
    """The diagnosis of chains that are too short to compare: NaN for each row."""
    nothing = np.full(shape, np.nan)
    names = "rhat", "ess", "ess_tail", "mcse_mean", "mcse_sd"
    scalar = np.full((), np.nan)
    return Diagnosis(
        **dict.fromkeys(names, nothing),
        acceptance_rate=records["acceptance_rate"].mean(axis=1),
        divergences=records["diverging"].sum(axis=1),
        ebfmi=np.full(len(records["diverging"]), np.nan),
        hyperparameters=dict.fromkeys(hyperparameters, Convergence(scalar, scalar, scalar)),
        verdict=verdict,
    )


def convergence(values: NDArray[Any], weights: NDArray[Any] | None = None) -> Convergence:
    """R-hat and effective sample sizes of ``(chains, draws, ...)``, each of the shape ``...``.

    With `weights` ``(chains, draws)``, they refer to weighted means and weighted quantiles.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> convergence(rng.normal(size=(4, 1000, 3))).rhat.round(1).tolist()
    [1.0, 1.0, 1.0]
    """
    return Convergence(*_in_blocks(_convergence, values, weights))


def _in_blocks(
    compute: Callable[[NDArray[Any], Any], list[NDArray[Any]]],
    values: NDArray[Any],
    weights: NDArray[Any] | None,
) -> list[NDArray[Any]]:
    """Apply `compute` to all predictions, block by block, so that memory stays bounded."""
    columns = values.reshape(*values.shape[:2], -1)
    step = max(VALUES_AT_ONCE // (columns.shape[0] * columns.shape[1]), 1)
    blocks = (columns[:, :, first : first + step] for first in range(0, columns.shape[2], step))
    parts = zip(*(compute(each, weights) for each in blocks), strict=True)
    joined = (np.concatenate(each, axis=-1) for each in parts)
    return [each.reshape((*each.shape[:-1], *values.shape[2:])) for each in joined]


def _convergence(values: NDArray[Any], weights: NDArray[Any] | None) -> list[NDArray[Any]]:
    from arviz_stats.base import array_stats

    with np.errstate(invalid="ignore", divide="ignore"):
        series = _series(values if weights is None else _influence(values, weights))
        if weights is None:
            tail = array_stats.ess(series, method="tail", prob=TAIL)
            sizes = [np.asarray(array_stats.ess(series)), np.asarray(tail)]
        else:
            sizes = _weighted_sizes(values, weights)
        return [np.asarray(array_stats.rhat(series)), *sizes]


def _weighted_sizes(values: NDArray[Any], weights: NDArray[Any]) -> list[NDArray[Any]]:
    """Bulk and tail effective sample size."""
    tails = []
    flat = values.reshape(-1, *values.shape[2:])
    for end in statistics.quantile(flat, np.array(TAIL), weights.ravel()):
        below = (values <= end).astype(np.float64)
        share = _flat_moments(below, weights)[0]
        tails.append(share * (1 - share) / np.square(_mean_error(below, weights)))
    variance = _flat_moments(values, weights)[1]
    bulk = np.asarray(variance / np.square(_mean_error(values, weights)))
    # If nothing lies above a quantile, for example because all larger probabilities are rounded to
    # 1, that quantile has no error.
    tail = np.fmin(*tails)
    return [bulk, np.where(np.isnan(tail), bulk, tail)]


def _errors(values: NDArray[Any], weights: NDArray[Any] | None) -> list[NDArray[Any]]:
    """Monte Carlo standard errors of mean and sd."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if weights is None:
            return [_mcse(values, each) for each in ("mean", "sd")]
        mean, variance = _flat_moments(values, weights)
        # The variance is a mean of squares; the error of the sd is its error over twice the sd.
        squares = _mean_error(np.square(values - mean), weights)
        of_sd = np.where(variance > 0, squares / (2 * np.sqrt(variance)), 0.0)
        return [_mean_error(values, weights), of_sd]


def _influence(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The contribution of each draw to a weighted mean, times the number of draws."""
    mean = _flat_moments(values, weights)[0]
    own = weights.reshape(*weights.shape, *(1,) * (values.ndim - 2))
    return weights.size * own * (values - mean)


def _mean_error(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    return _mcse(_influence(values, weights), "mean")


def _mcse(values: NDArray[Any], method: Literal["mean", "sd"]) -> NDArray[Any]:
    """Monte Carlo standard error for any scale: ArviZ treats a range below 1e-15 as zero."""
    from arviz_stats.base import array_stats

    series = _series(values)
    exponent = np.frexp(np.ptp(series, axis=(-2, -1)))[1]
    unit = np.ldexp(1.0, np.clip(exponent, -1022, 1023))  # a power of two avoids rounding
    return np.asarray(array_stats.mcse(series / unit[..., None, None], method=method)) * unit


def _flat_moments(values: NDArray[Any], weights: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    flat = np.asarray(values, np.float64).reshape(-1, *values.shape[2:])
    return statistics.moments(flat, weights.ravel())


def _ebfmi(energy: NDArray[Any]) -> NDArray[Any]:
    """Mean squared step of the energy over its variance, for each chain of ``(chains, draws)``."""
    energy = np.asarray(energy, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant energy gives NaN
        return np.square(np.diff(energy, axis=1)).mean(axis=1) / energy.var(axis=1, ddof=1)


def _series(values: NDArray[Any]) -> NDArray[Any]:
    """Chains and draws last, as ArviZ expects them."""
    return np.moveaxis(np.asarray(values, np.float64), (0, 1), (-2, -1))
