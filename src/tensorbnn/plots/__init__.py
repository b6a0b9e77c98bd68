"""Figures (extra ``plots``): each function draws into `ax`, new Axes by default, and returns it.

`output` selects one of the network's outputs, `column` one of its inputs. `labels` sets the names
in the figure, such as ``labels={"x": "depth (m)", "y": "flow (l/s)"}``. Its keys are ``x`` for an
input, or ``x0``, ``x1``, ... if there are several; ``y``, or ``y0``, ``y1``, ..., for outputs; and
the names of hyper-parameters.
"""

from tensorbnn.plots.convergence import autocorrelation, ess, losses, ranks, rhat, trace
from tensorbnn.plots.figure import new_figure
from tensorbnn.plots.posteriors import hyperparameter, hyperparameters, relevances, sensitivity
from tensorbnn.plots.predictions import bands, calibration, pit

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
