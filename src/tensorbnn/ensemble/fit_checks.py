"""Checks of how a model fits its training data: priors, noise and residuals.

Residuals are checked if chains agree. A check reports only effects that are both large and far
beyond chance, so that real tables, none of which is exactly Gaussian, pass.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.data_checks import check_data, counted_rows
from tensorbnn.data_findings import AboutColumns
from tensorbnn.density import Model
from tensorbnn.ensemble.statistics import quantile
from tensorbnn.findings import Finding
from tensorbnn.messages import Remedy, Words
from tensorbnn.model.checks import DType
from tensorbnn.model.layout import Entry, Layout, own_hypers
from tensorbnn.model.likelihoods import Gaussian, Likelihood
from tensorbnn.model.scaling import Scaling

# Learned noise below this share of the targets' spread means that the targets have no noise.
COLLAPSED = 1e-3
# Number of draws from a prior, and the tail probability that corresponds to 4 sds of a Gaussian.
PRIOR_DRAWS, FOUR_SDS = 200_000, 3.2e-5
# Least and most rows for checking residuals, and most networks to average for them.
LEAST_ROWS, MOST_ROWS, MOST_NETWORKS = 30, 2000, 400
# Factor by which residuals may exceed known noise, and by which noise may differ across rows.
TOO_SMALL, UNEVEN = 2.0, 2.0
# Quantile skewness (an exponential has 0.57), and share of residuals beyond 5 robust sds.
SKEWED, FAR_SHARE = 0.3, 0.005
# Least significance of a finding, in standard errors.
CLEAR = 5.0


class NoiseCollapse(AboutColumns):
    """Learned noise that is nearly zero, as for targets without noise."""

    remedy = Remedy.NOISE_FLOOR
    share: float
    """As a share of the targets' standard deviation."""

    def said(self, columns: str, words: Words) -> str:
        return (
            f"the learned noise of {columns} is only {self.share:.1g} of the targets' sd, as if "
            "they had none, which takes tiny steps"
        )


class PriorConflict(Finding):
    """Hyper-parameters 4 sds or more from the center of their prior."""

    doubtful = True
    of_sampling = False
    remedy = Remedy.OTHER_PRIOR
    number: int
    of: int
    name: str
    """The farthest one."""
    value: float
    """Its posterior median."""
    low: float
    high: float
    """The central 95 % interval of its prior."""

    def found(self) -> str:
        others = f", and {self.number - 1} more such" * (self.number > 1)
        return (
            f"data and prior are in conflict: {self.name} is {self.value:.3g}, but its prior "
            f"expects {self.low:.3g} to {self.high:.3g}{others}"
        )


class NoiseTooSmall(AboutColumns):
    """Residuals are larger than the noise that was declared as known."""

    doubtful = True
    remedy = Remedy.LEARN_NOISE
    factor: float

    def said(self, columns: str, words: Words) -> str:
        return f"the residuals of {columns} are {self.factor:.2g} times its known noise"


class UnevenNoise(AboutColumns):
    """Some rows scatter much more than others."""

    remedy = Remedy.UNEVEN_NOISE
    ratio: float

    def said(self, columns: str, words: Words) -> str:
        return (
            f"the noise of {columns} is not the same in all rows: it is {self.ratio:.2g} times as "
            "large in some third of them as in another"
        )


class SkewedResiduals(AboutColumns):
    """Residuals extend farther to one side."""

    remedy = Remedy.TRANSFORM
    skewness: float

    def said(self, columns: str, words: Words) -> str:
        side = "up" if self.skewness > 0 else "down"
        return f"the residuals of {columns} are skewed, and reach farther {side}"


class Outliers(AboutColumns):
    """Too many residuals are outliers for a Gaussian."""

    remedy = Remedy.HEAVY_TAILS
    rows: int
    among: int

    def said(self, columns: str, words: Words) -> str:
        return (
            f"{self.rows} of {self.among} residuals of {columns} are beyond 5 sds, too many for "
            "Gaussian noise"
        )


class Fit(NamedTuple):
    """The data about a fit that the checks need."""

    data: Dataset | None
    """Training data; ``None`` if unknown."""
    model: Model
    scaling: Scaling
    dtype: DType
    hypers: Mapping[str, NDArray[Any]]
    """Hyper-parameters by name, each ``(chains, draws)``."""
    predict: Callable[[NDArray[Any]], NDArray[Any]]
    """Mean predictions of inputs ``(rows, inputs)``, in the user's units."""
    weights: NDArray[Any] | None = None
    """Weights of the networks, ``(networks,)``."""

    @property
    def dataset(self) -> Dataset | None:
        """The training rows with nonzero weight; ``None`` if unknown."""
        found = self.data
        return found if found is None or found.y is None else counted_rows(found)

    @property
    def likelihood(self) -> Likelihood:
        return self.model.likelihood

    def about_data(self) -> tuple[Finding, ...]:
        """Findings about the training data."""
        return check_data(self.dataset, self.likelihood, self.scaling, self.dtype)

    def about_fit(self) -> tuple[Finding, ...]:
        """Findings about how the model fits them."""
        rows = self.dataset
        if rows is None:
            return ()
        half = np.asarray(0.5)
        medians = {
            name: float(quantile(each.ravel(), half, self.weights))
            for name, each in self.hypers.items()
        }
        found: list[Finding] = [*prior_conflict(self.model.phi, medians)]
        if not self.likelihood.real_targets:
            return tuple(found)
        spread = self.scaling.targets(rows.targets).std(axis=0)
        found += noise_collapse(self.likelihood, medians, spread)
        some = rows.evenly(MOST_ROWS)
        if isinstance(self.likelihood, Gaussian) and len(some) >= LEAST_ROWS:
            mean = self.predict(some.x).reshape(len(some), -1)
            noise = self._noise(self.likelihood, some, medians)
            found += check_residuals(some, mean, noise, is_known=not self.likelihood.hypers())
        return tuple(found)

    def _noise(
        self, likelihood: Gaussian, rows: Dataset, medians: Mapping[str, float]
    ) -> NDArray[Any]:
        """Sds of the targets ``(rows, columns)``, in the user's units."""
        own = own_hypers("likelihood", likelihood, medians)
        sd = np.asarray(likelihood.bind(own).sd) * np.asarray(self.scaling.y_scale or 1.0)
        given = 0.0 if rows.y_sd is None else rows.y_sd.reshape(rows.targets.shape)
        return np.broadcast_to(np.hypot(sd, given), rows.targets.shape)


def noise_collapse(
    likelihood: Likelihood, hypers: Mapping[str, float], spread: NDArray[Any]
) -> Iterator[NoiseCollapse]:
    """Learned noise that has collapsed to nearly zero.

    `hypers` are values by full name, `spread` the sds of targets in the model's units
    ``(columns,)``.
    """
    if not likelihood.real_targets:
        return
    for name in likelihood.hypers():
        argument, _, place = name.partition(".")
        columns = (int(place),) if place else tuple(range(len(spread)))
        largest = float(spread[list(columns)].max())
        share = hypers[f"likelihood.{name}"] / largest if largest else math.inf
        if argument in ("sd", "scale") and share < COLLAPSED:
            yield NoiseCollapse("y", columns, len(spread), share)


def prior_conflict(layout: Layout, medians: Mapping[str, float]) -> Iterator[PriorConflict]:
    """Hyper-parameters whose posterior medians are 4 sds or more from the center of their prior."""
    far = []
    for entry in layout.entries:
        draws = _prior_draws(entry, medians)
        value = medians[entry.name]
        beyond = min(float(np.mean(draws <= value)), float(np.mean(draws >= value)))
        if beyond < FOUR_SDS:
            low, middle, high = np.quantile(draws, (0.025, 0.5, 0.975)).tolist()
            distance = abs(value - middle) / (high - low)
            far.append((distance, entry.name, value, low, high))
    if far:
        _, *worst = max(far)
        yield PriorConflict(len(far), len(layout.entries), *worst)


def _prior_draws(entry: Entry, medians: Mapping[str, float]) -> NDArray[Any]:
    """Sorted draws of a hyper-parameter's prior, with its own hyper-parameters at their medians."""
    prior = entry.prior.bind({n: medians[f"{entry.name}.{n}"] for n in entry.prior.hypers()})
    with jax.enable_x64(True):
        draws = np.asarray(prior.sample(jax.random.key(0), (PRIOR_DRAWS,)))
    return draws[draws > 0] if entry.truncated else draws


def check_residuals(
    rows: Dataset, mean: NDArray[Any], noise: NDArray[Any], *, is_known: bool
) -> Iterator[Finding]:
    """Residuals that don't look like Gaussian noise, and known noise that is too small.

    `mean` are predictions and `noise` the sds of targets, both ``(rows, columns)`` in the user's
    units.
    """
    scaled = (rows.targets - mean) / noise
    for column, own in enumerate(scaled.T):
        place = "y", (column,), scaled.shape[1]
        size = math.sqrt(float(np.mean(np.square(own))))
        if is_known and size > TOO_SMALL:
            yield NoiseTooSmall(*place, size)
        if (ratio := _unevenness(own, np.column_stack([mean[:, column], rows.x]))) > UNEVEN:
            yield UnevenNoise(*place, ratio)
        elif abs(skewness := _skewness(own)) > max(SKEWED, CLEAR * 1.3 / math.sqrt(len(own))):
            yield SkewedResiduals(*place, skewness)
        else:
            far = int(np.sum(np.abs(own - np.median(own)) > 5 * _robust_sd(own)))
            if far >= max(3, FAR_SHARE * len(own)):
                yield Outliers(*place, far, len(own))


def _unevenness(residuals: NDArray[Any], along: NDArray[Any]) -> float:
    """The largest ratio of scatter between thirds of the rows, sorted by each quantity in turn.

    1 if none is clear: the relative error of a robust sd of ``n`` numbers is ``1.17 / sqrt(n)``.
    """
    largest = 1.0
    for quantity in along.T:
        thirds = np.array_split(residuals[np.argsort(quantity, kind="stable")], 3)
        if len(np.unique(quantity)) < LEAST_ROWS:
            continue
        # Neither outliers nor residuals with many equal values must decide.
        sds = np.array([(_robust_sd(each), each.std()) for each in thirds])
        ratio = float(np.min(sds.max(axis=0) / np.maximum(sds.min(axis=0), 1e-300)))
        if math.log(ratio) > CLEAR * 1.17 * math.sqrt(2 / len(thirds[0])):
            largest = max(largest, ratio)
    return largest


def _skewness(values: NDArray[Any]) -> float:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return (high + low - 2 * middle) / max(high - low, 1e-300)


def _robust_sd(values: NDArray[Any]) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
