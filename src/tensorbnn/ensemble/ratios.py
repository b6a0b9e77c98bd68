"""The ratio of two models' densities at the networks of a run.

For networks ``theta_j`` with hyper-parameters ``phi_j``, drawn under model 1, and a model 2, this
module computes the log of

    p2(D | theta_j, phi_j) p2(theta_j | phi_j) p2(phi_j)
  / p1(D | theta_j, phi_j) p1(theta_j | phi_j) p1(phi_j)

If model 2 has a number in place of a hyper-parameter ``h`` of model 1, the numerator may contain
any normalized density of ``h``, since integrating over ``h`` gives model 2 again. We choose
``p1(h)``, which cancels.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tensorbnn.data import Dataset, Prepared, likelihood_of
from tensorbnn.density import Model
from tensorbnn.engine import forward
from tensorbnn.engine.forward import Data, Outputs
from tensorbnn.ensemble.draws import Batch
from tensorbnn.errors import OtherModelError
from tensorbnn.model.hyper import Prior
from tensorbnn.model.layout import Layout, own_hypers
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import precision
from tensorbnn.progress import Bar


@final
@dataclass(frozen=True)
class Side:
    """One side of the ratio: a density of named natural values, fixed when compiled.

    `theta` and `phi` hold only values whose priors differ between the two sides.
    """

    network: Network
    likelihood: Likelihood
    theta: Layout
    phi: Layout

    def of_rows(self, dataset: Dataset) -> "Side":
        """The same side for rows that may have error bars and weights."""
        return dataclasses.replace(self, likelihood=likelihood_of(dataset, self.likelihood))

    def log_density(
        self, named: Mapping[str, Array], outputs: Outputs | None, data: Data | None
    ) -> Array:
        """Log-density at natural values of parameters and hyper-parameters by name."""
        total = self.theta.log_density(self.theta.flatten(named), named)
        total += self.phi.log_density(self.phi.flatten(named), named)
        if outputs is not None and data is not None:
            own = own_hypers("likelihood", self.likelihood, named)
            total += forward.log_likelihood_of_outputs(self.likelihood, own, outputs, data)
        return total


def both_sides(run: Model, other: Model, *, held: bool) -> tuple[Side, Side]:
    """The two sides of the ratio, the run's first; raises if the models don't match.

    `held` is whether the run held its hyper-parameters, so that they had no prior.
    """
    _check_networks(run.network, other.network)
    _check_layouts(run, other)
    sides = []
    for model, across in ((run, other), (other, run)):
        known = {entry.name: entry.prior for entry in (*across.theta.entries, *across.phi.entries)}
        # Equal priors cancel, and so do those of hyper-parameters that the other model fixes.
        theta = tuple(e for e in model.theta.entries if known.get(e.name) != e.prior)
        phi = tuple(e for e in model.phi.entries if known.get(e.name, e.prior) != e.prior)
        layouts = Layout(theta), Layout(() if held else phi)
        sides.append(Side(model.network, model.likelihood, *layouts))
    return sides[0], sides[1]


def log_ratios(
    sides: tuple[Side, Side],
    batches: Iterable[Batch],
    rows: Prepared | None,
    *,
    moved: Mapping[str, NDArray[Any]] | None = None,
    total: int,
    progress: bool,
) -> NDArray[Any]:
    """Log-ratio of the densities of each of the `total` networks in `batches`, ``(networks,)``.

    Computed in float64 for every run, since it is a difference of two large numbers. `rows` are the
    training data if the likelihoods differ. If `moved` holds values ``(n,)`` by name, the other
    model takes them one after another, and the result is ``(n, networks)``.
    """
    found = []
    grid = {name: np.asarray(values, np.float64) for name, values in (moved or {}).items()}
    with precision("float64"), Bar("weighing", total, show=progress) as bar:
        data = None
        if rows is not None:
            data = forward.arrange(sides[0].network, rows.inputs, rows.targets)
            sides = sides[0].of_rows(rows.dataset), sides[1].of_rows(rows.dataset)
        for batch in batches:
            both = batch.parameters | batch.hypers
            named = {name: np.asarray(each, np.float64) for name, each in both.items()}
            above = np.asarray(_log_densities(sides[1], named, grid, data))
            below = np.asarray(_log_densities(sides[0], named, {}, data))
            found.append(above - below)
            bar.advance(len(above))
    ratios = np.concatenate(found).T
    return ratios if moved else ratios[0]


def _check_networks(run: Network, other: Network) -> None:
    """Raise if two networks differ in more than their priors."""
    if run.inputs != other.inputs:
        raise ValueError(
            f"the other network has {other.inputs} inputs, that of the run {run.inputs}: only "
            "priors may differ"
        )
    if run.names != other.names:
        raise ValueError(
            f"the other network has the layers {list(other.names)}, that of the run "
            f"{list(run.names)}: only priors may differ"
        )
    for name, one, two in zip(run.names, run.layers, other.layers, strict=True):
        ours, theirs = _fixed(one), _fixed(two)
        for field in sorted(set(ours) & set(theirs)):
            if ours[field] != theirs[field]:
                raise ValueError(
                    f"`{field}` of {name} is {theirs[field]!r} in the other network, "
                    f"{ours[field]!r} in that of the run: only priors may differ"
                )


def _check_layouts(run: Model, other: Model) -> None:
    for kind, one, two in (
        ("parameter", run.theta, other.theta),
        ("hyper-parameter", run.phi, other.phi),
    ):
        ours = {entry.name: entry for entry in one.entries}
        unknown = [entry.name for entry in two.entries if entry.name not in ours]
        if unknown:
            raise OtherModelError(
                f"the other model has {kind}s that were not sampled, {unknown}: put numbers in "
                "their place"
            )
        for entry in two.entries:
            own = ours[entry.name]
            if entry.shape != own.shape or entry.support != own.support:
                kinds = [f"{each.support} of shape {each.shape}" for each in (entry, own)]
                raise ValueError(
                    f"{entry.name} is {kinds[0]} in the other model, {kinds[1]} in that of the "
                    "run: only densities may differ"
                )


def check_columns(run: Likelihood, other: Likelihood) -> None:
    """Raise if the two likelihoods use different columns of `y`."""
    if run.outputs_per_column != other.outputs_per_column:
        names = [type(each).__name__ for each in (other, run)]
        raise OtherModelError(
            f"a {names[0]} likelihood takes other columns of `y` than the {names[1]} of the run: "
            "re-weight to one that takes the same"
        )


def _fixed(layer: Any) -> dict[str, Any]:
    """Fields of a layer that are not priors."""
    fields = {field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)}
    return {name: value for name, value in fields.items() if not isinstance(value, Prior)}


@functools.partial(jax.jit, static_argnums=0)
def _log_densities(
    side: Side, named: dict[str, Array], moved: dict[str, Array], data: Data | None
) -> Array:
    """Log-density of each network for each of the varied values, ``(networks, n)``."""

    def one(own: dict[str, Array]) -> Array:
        outputs = None
        if data is not None:
            parameters = {name: own[name] for name in side.network.parameters}
            outputs = forward.outputs(side.network, parameters, data)

        def at(values: dict[str, Array]) -> Array:
            return side.log_density({**own, **values}, outputs, data)

        return jax.vmap(at)(moved) if moved else at({})[None]

    return jax.lax.map(one, named)
