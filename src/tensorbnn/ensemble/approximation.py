"""The density from which networks were drawn, if they are not a sample of the posterior."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tensorbnn.density import Model
from tensorbnn.ensemble.verdict import pareto_k_limit
from tensorbnn.findings import Approximate, Verdict, VerdictKind
from tensorbnn.inference.mean_field import MeanField, Normals, Record
from tensorbnn.inference.variational import ELBO_DRAWS
from tensorbnn.storage.store import Store

# For the ratios at the draws from which the ELBO is computed.
PARETO_K_LIMIT = pareto_k_limit(ELBO_DRAWS)


@final
@dataclass(frozen=True, eq=False)
class Approximation:
    """A fitted mean-field Gaussian; the `approximation` of the result of `fit_variational`.

    Attributes
    ----------
    elbo, elbo_error
        The evidence lower bound, ``log p(D)`` minus the divergence from the posterior, and its
        Monte Carlo standard error. If hyper-parameters were held, both refer to the model in which
        they are known.
    pareto_k
        k-hat of the ratios ``p(D, v) / q(v)`` at draws of the density. Below 0.5 the density is
        close to the posterior; above 0.67, the limit for 1000 draws, it is not (Yao et al. 2018).
        ``-inf`` if all ratios are equal, which means that the density is the posterior.
    ess
        Effective sample size of 1000 draws of the density, weighted by these ratios to represent
        the posterior: 1000 if the two are the same.
    elbos
        ELBO from each start, ``(starts,)``; the best one is the approximation.
    history
        Estimates of the ELBO after epochs, ``(cycles, epochs)``, all with the same random numbers
        so that epochs can be compared; NaN if none was made or the cycle had stopped.
    mean, sd
        Means and standard deviations of the Gaussian by name, for parameters and, unless they were
        held, hyper-parameters. Those of positive quantities refer to their logarithms.
    """

    elbo: float
    elbo_error: float
    pareto_k: float
    ess: float
    elbos: NDArray[Any]
    history: NDArray[Any]
    mean: Mapping[str, NDArray[Any]]
    sd: Mapping[str, NDArray[Any]]

    @property
    def trustworthy(self) -> bool:
        """Whether k-hat is at most 0.67, so that means and sds are close to the posterior's."""
        return self.pareto_k <= PARETO_K_LIMIT

    @property
    def verdict(self) -> Verdict:
        """Whether you can trust it: ``print(verdict)``."""
        return Verdict(VerdictKind.APPROXIMATION, (self.finding,))

    @property
    def finding(self) -> Approximate:
        """How close it is to the posterior, as a finding for a verdict."""
        return Approximate(self.elbo, self.elbo_error, self.pareto_k, PARETO_K_LIMIT)

    def __repr__(self) -> str:
        return (
            f"Approximation(ELBO {self.elbo:.3f} ± {self.elbo_error:.3f}, "
            f"k-hat {self.pareto_k:.2f})"
        )


def read_approximation(store: Store, model: Model) -> Approximation | None:
    """The density from which the networks in `store` were drawn; ``None`` for a sample."""
    if store.manifest["sampler"].get("type") != MeanField.__name__:
        return None
    state = store.read_state(0)
    record = Record(*(state[f"state/record.{name}"] for name in Record._fields))
    mean, log_sd = (state[f"state/normals.{name}"] for name in Normals._fields)
    return Approximation(
        elbo=float(record.elbo),
        elbo_error=float(record.elbo_error),
        pareto_k=float(record.pareto_k),
        ess=float(record.ess),
        elbos=record.elbos,
        history=record.history,
        mean=_by_name(mean, model),
        sd=_by_name(np.exp(log_sd), model),
    )


def _by_name(vector: NDArray[Any], model: Model) -> dict[str, NDArray[Any]]:
    """Pieces of a vector over theta, or over theta and phi, by name and without a transform."""
    named, first = {}, 0
    for entry in (*model.theta.entries, *model.phi.entries):
        if first < vector.size:
            named[entry.name] = vector[first : first + entry.size].reshape(entry.shape)
        first += entry.size
    return named
