"""How predictions depend on a number in the prior, by reweighting, and which value is best.

A number has the name that it would have as a hyper-parameter, such as ``likelihood.sd``. Each value
is one reweighting. Since the number is an argument of the compiled density, a grid costs little
more than a single value.
"""

import dataclasses
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_choice
from tensorbnn.density import Model
from tensorbnn.ensemble.ratios import Side
from tensorbnn.ensemble.verdict import pareto_k_limit
from tensorbnn.errors import OptionError, OptionTypeError
from tensorbnn.model.checks import as_array
from tensorbnn.model.hyper import Hyper, Parametric
from tensorbnn.model.layout import Layout
from tensorbnn.model.likelihoods import Likelihood

if TYPE_CHECKING:
    from tensorbnn.ensemble.ensemble import Ensemble

Criterion = Literal["evidence", "score"]
_P = TypeVar("_P", bound=Parametric)


class Sweep(NamedTuple):
    """A grid of values for some numbers of the model."""

    names: tuple[str, ...]
    values: NDArray[Any]
    likelihoods: list[Likelihood]
    sides: tuple[Side, Side]  # the run's density, and the same with the numbers as arguments


class Choice(NamedTuple):
    """The best value of a sweep, and the ensemble reweighted to it."""

    value: float
    ensemble: "Ensemble"


@final
@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How predictions depend on a number in the model; made by `Ensemble.sensitivity`.

    Attributes
    ----------
    names
        The numbers that were varied, all with the same value.
    values
        Their values, ``(n,)``.
    x
        Inputs ``(rows, inputs)`` of the predictions.
    mean, sd
        Mean and standard deviation over networks at each value, ``(n, rows, outputs)``, or
        ``(n, rows)`` if the training targets were ``(rows,)``.
    ensembles
        The ensemble reweighted to each value.
    log_score
        Mean log predictive density of validation rows at each value, ``(n,)``; ``None`` if you
        passed none.
    """

    names: tuple[str, ...]
    values: NDArray[Any]
    x: NDArray[Any]
    mean: NDArray[Any]
    sd: NDArray[Any]
    ensembles: tuple["Ensemble", ...]
    log_score: NDArray[Any] | None

    def __repr__(self) -> str:
        known = int(self.trustworthy.sum())
        return (
            f"Sensitivity({', '.join(self.names)} at {len(self.values)} values from "
            f"{self.values.min():.4g} to {self.values.max():.4g}, {known} of them trustworthy; "
            f"{len(self.x)} rows)"
        )

    @property
    def ess(self) -> NDArray[Any]:
        """Equivalent number of equally weighted networks at each value, ``(n,)``."""
        return np.array([each.ess for each in self.ensembles])

    @property
    def pareto_k(self) -> NDArray[Any]:
        """k-hat at each value, ``(n,)``."""
        return np.array([each.pareto_k for each in self.ensembles])

    @property
    def log_evidence_ratio(self) -> NDArray[Any]:
        """Log of the evidence at each value relative to that of the run's model, ``(n,)``."""
        return np.array([each.log_evidence_ratio for each in self.ensembles])

    @property
    def trustworthy(self) -> NDArray[np.bool_]:
        """Whether k-hat is at most ``min(1 - 1 / log10(networks), 0.7)``, ``(n,)``."""
        return self.pareto_k <= pareto_k_limit(len(self.ensembles[0]))

    def best(self, by: Criterion = "evidence") -> Choice:
        """The value with the highest evidence, or the highest score of validation rows.

        Only values with trustworthy weights are candidates. If the best one is next to values with
        untrustworthy weights, the true best may lie beyond: sample again from there.
        """
        check_choice("by", by, get_args(Criterion))
        score = self.log_evidence_ratio if by == "evidence" else self.log_score
        if score is None:
            raise ValueError(
                "there are no validation rows to choose by: give them as "
                "`sensitivity(..., validation=(x, y))`, or choose by 'evidence'"
            )
        if not self.trustworthy.any():
            raise ValueError(
                f"at none of the values are the weights trustworthy (k-hat is at least "
                f"{self.pareto_k.min():.2f}): try values nearer to those of the run"
            )
        index = int(np.argmax(np.where(self.trustworthy, score, -np.inf)))
        return Choice(float(self.values[index]), self.ensembles[index])


def prepare_sweep(
    model: Model, wanted: str | Sequence[str], values: ArrayLike, *, held: bool
) -> Sweep:
    """The sweep of numbers with these names or patterns; raises if they or the values don't fit."""
    names = find_numbers(model, wanted)
    grid = _checked_values(model, names, values)
    own = [name for name in model.likelihood.numbers() if f"likelihood.{name}" in names]
    likelihoods = [model.likelihood.bind(dict.fromkeys(own, float(each))) for each in grid]
    return Sweep(names, grid, likelihoods, _moved_sides(model, names, held=held))


def find_numbers(model: Model, wanted: str | Sequence[str]) -> tuple[str, ...]:
    """Names of the model's numbers that match names or patterns such as ``*.weights.scale``.

    A ``*`` matches one part of a name, between dots.
    """
    known = list(_owners(model))
    patterns = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise OptionTypeError("names", "the name of a number of the model, or several", wanted)
    found = [name for name in known if any(_matches(name, each) for each in patterns)]
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in known):
            raise OptionError("names", f"among {sorted(known)}", pattern)
    inside = [name for name in found if any(name.startswith(f"{each}.") for each in found)]
    if inside:
        raise ValueError(
            f"{inside} belong to the prior of a number that is moved too: move one or the other"
        )
    return tuple(found)


def _checked_values(model: Model, names: Sequence[str], values: ArrayLike) -> NDArray[Any]:
    """The grid of values; raises if a number can't take one of them."""
    grid = as_array("values", values).astype(np.float64)
    if grid.ndim != 1 or not grid.size or not np.all(np.isfinite(grid)):
        raise OptionError("values", "a list of finite numbers", values)
    owners = _owners(model)
    for name in names:
        owner, number = owners[name]
        if owner._must_be_positive(number) and not np.all(grid > 0):
            raise ValueError(f"{name} must be positive, but `values` go down to {grid.min():g}")
    return grid


def _moved_sides(model: Model, names: Sequence[str], *, held: bool) -> tuple[Side, Side]:
    """The run's density, and the same with the named numbers as arguments.

    Only priors with a varied number differ and are kept. Hyper-parameters that are replaced by a
    varied number, and those of their own priors, are left out on both sides.
    """
    changed = {name.rpartition(".")[0] for name in names}
    gone = tuple(f"{name}." for name in names)
    theta, phi = (
        tuple(e for e in layout.entries if e.name in changed and not f"{e.name}.".startswith(gone))
        for layout in (model.theta, Layout(()) if held else model.phi)
    )
    opened = (
        tuple(dataclasses.replace(e, prior=_opened(e.name, e.prior, names)) for e in entries)
        for entries in (theta, phi)
    )
    likelihood = _opened("likelihood", model.likelihood, names)
    run = Side(model.network, model.likelihood, Layout(theta), Layout(phi))
    return run, Side(model.network, likelihood, *map(Layout, opened))


def _matches(name: str, pattern: str) -> bool:
    """Whether a name matches; since dots are counted, ``*`` can't match more than one part."""
    return name.count(".") == pattern.count(".") and fnmatch.fnmatchcase(name, pattern)


def _owners(model: Model) -> dict[str, tuple[Parametric, str]]:
    """The prior or likelihood that owns each number, and the number's name there, by full name."""
    entries = (*model.theta.entries, *model.phi.entries)
    owners: dict[str, Parametric] = {entry.name: entry.prior for entry in entries}
    owners["likelihood"] = model.likelihood
    return {
        f"{name}.{number}": (owner, number)
        for name, owner in owners.items()
        for number in owner.numbers()
    }


def _opened(name: str, owner: _P, names: Sequence[str]) -> _P:
    """`owner` with a `Hyper` in place of each varied number, so that its value is looked up."""
    own = [number for number in owner.numbers() if f"{name}.{number}" in names]
    return owner.bind(dict.fromkeys(own, Hyper(1.0)))
