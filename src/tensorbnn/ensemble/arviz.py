"""An ensemble as ArviZ's standard container, and its predictive accuracy by ArviZ."""

import dataclasses
import functools
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.ensemble.diagnostics import LEAST_DRAWS
from tensorbnn.ensemble.reweight import LEAST_NETWORKS

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData
    from xarray import DataTree

Groups = dict[str, dict[str, NDArray[Any]]]


def to_datatree(groups: Groups) -> "DataTree":
    """The container of inputs ``x``, targets ``y`` and predictions ``f``, each with rows.

    Chains and draws are the first axes of all samples. ``y`` has no column axis if it has a single
    column; ``f`` has no output axis if the training targets were ``(rows,)``.
    """
    from arviz_base import from_dict

    dims = {"x": ["row", "input"], "y": ["row", "column"], "f": ["row", "output"]}
    if "observed_data" in groups and groups["observed_data"]["y"].shape[1] == 1:
        dims["y"] = ["row"]
        for name in {"observed_data", "posterior_predictive"} & set(groups):
            groups = groups | {name: {"y": groups[name]["y"][..., 0]}}
    if "predictions" in groups and groups["predictions"]["f"].ndim == 3:
        dims["f"] = ["row"]
    library = {"inference_library": "tensorbnn", "inference_library_version": version("tensorbnn")}
    return from_dict(groups, dims=dims, pred_dims=dims, attrs={"/": library})


def loo(log_likelihood: NDArray[Any]) -> "ELPDData":
    """PSIS-LOO of ``(chains, draws, rows)``, by ArviZ.

    The relative efficiency is computed from the likelihoods and averaged over rows, because that of
    the network weights, which ArviZ would use, says little about predictions.
    """
    import arviz_stats
    from arviz_base import from_dict
    from arviz_stats.base import array_stats
    from xarray import DataArray

    chains, draws = log_likelihood.shape[:2]
    if chains * draws < LEAST_NETWORKS or draws < LEAST_DRAWS:
        raise ValueError(
            f"LOO needs at least {LEAST_NETWORKS} networks, {LEAST_DRAWS} of each chain, got "
            f"{chains * draws}, {draws} of each: sample more"
        )
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=(0, 1)))
    sizes = array_stats.ess(np.moveaxis(likelihood, 2, 0), method="mean")
    efficiency = float(np.mean(sizes)) / (chains * draws)
    tree = from_dict({"log_likelihood": {"y": log_likelihood}}, dims={"y": ["row"]})
    log_weights, pareto_k = _without_each_row(log_likelihood, efficiency)
    return arviz_stats.loo(
        tree,
        reff=efficiency,
        pointwise=True,
        log_weights=tree["log_likelihood"].dataset["y"].copy(data=log_weights),
        pareto_k=DataArray(pareto_k, dims=["row"], coords={"row": np.arange(len(pareto_k))}),
    )


def waic(log_likelihood: NDArray[Any]) -> "ELPDData":
    """WAIC of ``(chains, draws, rows)`` in ArviZ's container, on the log scale.

    ``sum_i log mean_j p(y_i | theta_j) - sum_i var_j log p(y_i | theta_j)`` over rows ``i`` and
    networks ``j`` (Watanabe 2010; Gelman et al. 2014). Carries a warning if the variance of a row
    is above 0.4, since it can't be trusted then.
    """
    from xarray import DataArray

    flat = log_likelihood.astype(np.float64).reshape(-1, log_likelihood.shape[2])
    if len(flat) < 2:
        raise ValueError("WAIC needs at least 2 networks, got 1: sample more")
    largest = flat.max(axis=0)
    mixture = largest + np.log(np.mean(np.exp(flat - largest), axis=0))
    penalty = flat.var(axis=0, ddof=1)
    each = mixture - penalty
    scatter = each.var(ddof=1) if len(each) > 1 else np.nan
    return _waic_container()(
        elpd=float(each.sum()),
        se=float(np.sqrt(len(each) * scatter)),
        p=float(penalty.sum()),
        n_samples=len(flat),
        n_data_points=len(each),
        scale="log",
        warning=bool(np.any(penalty > 0.4)),
        good_k=None,
        elpd_i=DataArray(each, dims=["row"], coords={"row": np.arange(len(each))}),
    )


@functools.cache
def _waic_container() -> Any:
    """ArviZ's container of a WAIC: a field marks it before arviz-stats 1, a class since then."""
    from arviz_stats.utils import ELPDData

    if any(field.name == "kind" for field in dataclasses.fields(ELPDData)):
        return functools.partial(ELPDData, kind="waic")
    return type("ELPDDataWAIC", (ELPDData,), {"kind": "waic", "__module__": __name__})


def _without_each_row(
    log_likelihood: NDArray[Any], efficiency: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Smoothed log-weights ``(chains, draws, rows)`` for the data without each row, and k-hat.

    If the largest weights of a row are all equal, as for a row with weight 0, there is no tail to
    smooth: they stay unchanged, with a k-hat of ``-inf``.
    """
    from arviz_stats.base import array_stats

    rows = log_likelihood.shape[2]
    log_weights, pareto_k = np.empty(log_likelihood.shape), np.full(rows, -np.inf)
    for row in range(rows):
        own = log_likelihood[:, :, row].astype(np.float64)
        try:
            found, pareto_k[row] = array_stats.psislw(own, r_eff=efficiency, axis=(0, 1))
        except ValueError:
            found = own.min() - own
            found = found - np.log(np.sum(np.exp(found)))
        log_weights[:, :, row] = found
    return log_weights, pareto_k
