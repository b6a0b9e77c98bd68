"""Pictures (extra ``plots``): each function draws into an Axes and returns it."""

from tensorbnn.plots.convergence import ess, rhat
from tensorbnn.plots.figure import new_figure
from tensorbnn.plots.functions import autocorrelation, ranks, trace
from tensorbnn.plots.posteriors import hyperparameter, hyperparameters, relevances
from tensorbnn.plots.predictions import bands
from tensorbnn.plots.scores import calibration, pit
from tensorbnn.plots.sensitivity import sensitivity
from tensorbnn.plots.training import losses

__all__ = [
    "autocorrelation",
    "bands",
    "calibration",
    "ess",
    "hyperparameter",
    "hyperparameters",
    "losses",
    "new_figure",
    "pit",
    "ranks",
    "relevances",
    "rhat",
    "sensitivity",
    "trace",
]
