"""Figures (extra ``plots``): each function draws into `ax`, new Axes by default, and returns it.

`output` chooses one of the network's outputs, `column` one of its inputs. `labels` says what the
figure calls them, such as ``labels={"x": "depth (m)", "y": "flow (l/s)"}``: inputs are ``x``, or
``x0``, ``x1``, ... if there are several; outputs ``y``, or ``y0``, ``y1``, ...; hyper-parameters
have their own names.
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
