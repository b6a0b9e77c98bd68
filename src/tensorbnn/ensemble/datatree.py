"""An ensemble as ArviZ's standard container, and what ArviZ says of its predictive accuracy."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from arviz_stats.utils import ELPDData
    from xarray import DataTree

# The sampler's records, under the names of ArviZ's schema.
STATISTICS = {
    "acceptance": "acceptance_rate",
    "divergent": "diverging",
    "energy": "energy",
    "energy_error": "energy_error",
    "log_density": "lp",
    "num_steps": "n_steps",
    "step_size": "step_size",
}


class Groups(NamedTuple):
    """What goes into the container; chains and draws are the first axes of what was sampled."""

    posterior: Mapping[str, NDArray[Any]]
    info: Mapping[str, NDArray[Any]]
    predictions: NDArray[Any] | None = None
    """Expected targets ``(chains, draws, rows, outputs)`` at `predictions_x`."""
    predictions_x: NDArray[Any] | None = None
    x: NDArray[Any] | None = None
    """Training data ``(rows, columns)``, as is `y`."""
    y: NDArray[Any] | None = None
    log_likelihood: NDArray[Any] | None = None
    """``(chains, draws, rows)``."""
    new_targets: NDArray[Any] | None = None
    """``(chains, draws, rows, columns)`` at the training inputs."""


def to_datatree(groups: Groups) -> "DataTree":
    """The container, with the groups for which there is something."""
    from arviz_base import from_dict

    data: dict[str, dict[str, NDArray[Any]]] = {
        "posterior": dict(groups.posterior),
        "sample_stats": _statistics(groups.info),
    }
    optional = {
        ("log_likelihood", "y"): groups.log_likelihood,
        ("posterior_predictive", "y"): _single(groups.new_targets),
        ("observed_data", "y"): _single(groups.y),
        ("constant_data", "x"): groups.x,
        ("predictions", "f"): groups.predictions,
        ("predictions_constant_data", "x"): groups.predictions_x,
    }
    for (group, name), values in optional.items():
        if values is not None:
            data[group] = {name: values}
    dims = {"x": ["row", "input"], "y": ["row", "column"], "f": ["row", "output"]}
    if groups.y is not None and groups.y.shape[1] == 1:
        dims["y"] = ["row"]
    library = {"inference_library": "tensorbnn", "inference_library_version": version("tensorbnn")}
    return from_dict(data, dims=dims, pred_dims=dims, attrs={"/": library})


def loo(log_likelihood: NDArray[Any]) -> "ELPDData":
    """PSIS-LOO of ``(chains, draws, rows)``, by ArviZ.

    The relative efficiency is that of the likelihoods themselves, averaged over rows: weights,
    which ArviZ would take, say little about predictions.
    """
    import arviz_stats
    from arviz_base import from_dict
    from arviz_stats.base import array_stats

    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=(0, 1)))
    sizes = array_stats.ess(np.moveaxis(likelihood, 2, 0), method="mean")
    efficiency = float(np.mean(sizes)) / (likelihood.shape[0] * likelihood.shape[1])
    tree = from_dict({"log_likelihood": {"y": log_likelihood}}, dims={"y": ["row"]})
    return arviz_stats.loo(tree, reff=efficiency, pointwise=True)


def waic(log_likelihood: NDArray[Any]) -> "ELPDData":
    """WAIC of ``(chains, draws, rows)`` in ArviZ's container, on the log scale.

    ``sum_i log mean_j p(y_i | theta_j) - sum_i var_j log p(y_i | theta_j)`` over rows ``i`` and
    networks ``j`` (Watanabe 2010; Gelman et al. 2014). Marked with a warning where the variance of
    a row is above 0.4, for which it can't be trusted.
    """
    from arviz_stats.utils import ELPDData
    from xarray import DataArray

    flat = log_likelihood.astype(np.float64).reshape(-1, log_likelihood.shape[2])
    largest = flat.max(axis=0)
    mixture = largest + np.log(np.mean(np.exp(flat - largest), axis=0))
    penalty = flat.var(axis=0, ddof=1)
    each = mixture - penalty
    return ELPDData(
        kind="waic",
        elpd=float(each.sum()),
        se=float(np.sqrt(len(each) * each.var())),
        p=float(penalty.sum()),
        n_samples=len(flat),
        n_data_points=len(each),
        scale="log",
        warning=bool(np.any(penalty > 0.4)),
        good_k=None,
        elpd_i=DataArray(each, dims=["row"], coords={"row": np.arange(len(each))}),
    )


def _statistics(info: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    named = {STATISTICS[name]: values for name, values in info.items() if name in STATISTICS}
    return named | ({"diverging": info["divergent"] > 0} if "divergent" in info else {})


def _single(values: NDArray[Any] | None) -> NDArray[Any] | None:
    """Without the axis of columns where there is only one."""
    return values[..., 0] if values is not None and values.shape[-1] == 1 else values
