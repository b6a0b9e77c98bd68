"""Runs of TensorBNN, with TensorBNN's own results for them."""

import functools
import shutil
import warnings
from pathlib import Path

import numpy as np

import tensorbnn as tb

DATA = Path(__file__).parents[1] / "data" / "original"
NAMES = sorted(path.stem for path in DATA.glob("*.npz"))
# What the directories don't say.
NOISE = {"gauss_tanh", "gauss_nohyper", "gauss_partial", "prelu"}


@functools.cache
def said(name):
    """TensorBNN's results: predictions, parameters, weights and so on."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as found:
        return dict(found)


def likelihood_of(name):
    return tb.Gaussian(sd=0.1) if name in NOISE else None


@functools.cache
def loaded(name):
    """The run with its training data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of negative slopes
        return tb.load_original(
            DATA / name, likelihood=likelihood_of(name), data=rows_of(name), dtype="float64"
        )


def rows_of(name):
    own = said(name)
    return own["trainX"].reshape(len(own["trainX"]), -1), own["trainY"].reshape(-1, 1)


def copied(name, to):
    return Path(shutil.copytree(DATA / name, to))


WIDE = tb.Normal(tb.Hyper(0.0, tb.Normal(0.0, 0.3)), tb.Hyper(1.2, tb.Normal(1.2, 0.2)))


def wide(units):
    """The layer ``wideGaussian`` of the files ``architecture2.txt``."""
    return tb.Dense(units, WIDE, WIDE)
