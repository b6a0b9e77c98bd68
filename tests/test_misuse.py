"""Misuse of public names is refused: at once, by name, and with nothing changed on disk.

The cases are made from signatures: every argument gets the wrong values of its kind.
"""

import functools
import inspect
import os
import re
import tempfile
import time

import numpy as np
import pytest

import tensorbnn as tb

RAGGED = [[1.0], [1.0, 2.0]]
COUNTS = [-1, 1.5, "3", 10**30, float("nan"), [None], object()]
NUMBERS = ["a", float("nan"), [None], 1j, object(), {}]
ARRAYS = ["abc", RAGGED, [float("nan")] * 4, object(), {"a": 1.0}, [["a"]] * 4, [1j] * 4, [],
          np.zeros((2, 2, 2, 2))]  # fmt: skip
CHOICES = ["nonsense", 3, [], object()]
PATHS = [3, 1.5, object(), ["a"]]
OBJECTS = [3, "a", object(), []]
MAPPINGS = [3, "a", [1], object(), {"nonsense": 1.0}]
# How an argument is known by its annotation: the first that is found in it.
KINDS = {
    "Literal": CHOICES,
    "PathLike": PATHS,
    "Mapping": MAPPINGS,
    "ArrayLike": ARRAYS,
    "_Buffer": ARRAYS,
    "Hyper": NUMBERS,
    "int": COUNTS,
    "float": NUMBERS,
    "tensorbnn": OBJECTS,
    "Sampler": OBJECTS,
}
# Switches take any truth value; names of rows, metrics and executors have their own tests.
LEFT_OUT = {"self", "progress", "noise", "overwrite", "store_data", "executor", "metrics", "names",
            "sample_hyperparameters", "rows", "until", "k"}  # fmt: skip


@functools.cache
def posterior():
    x = np.linspace(-1, 1, 12)
    y = x + 0.1 * np.random.default_rng(0).normal(size=12)
    return tb.Posterior(tb.Network(tb.Dense(1), inputs=1), tb.Gaussian(sd=0.3), x, y)


@functools.cache
def ensemble():
    return tb.sample(posterior(), chains=2, burn_in=20, draws=20, progress=False)


@functools.cache
def saved():
    path = tempfile.mkdtemp() + "/run"
    ensemble().save(path)
    return path


@functools.cache
def prediction():
    return ensemble().predict([0.0, 0.5, 1.0], progress=False)


def network():
    return tb.Network(tb.Dense(1), inputs=1)


def fit(estimator, **options):
    quick = {"chains": 1, "burn_in": 2, "draws": 4, "until": None}
    return estimator(**quick | options).fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1, 1])


X, Y = [0.0, 0.5, 1.0], [0.1, 0.4, 0.9]
QUICK = {"chains": 1, "burn_in": 2, "draws": 4, "progress": False}
# What is called, and arguments with which it would work.
CALLS = {
    "sample": (lambda: tb.sample, lambda: {"posterior": posterior(), **QUICK}),
    "fit_variational": (
        lambda: tb.fit_variational,
        lambda: {"posterior": posterior(), "draws": 4, "epochs": 1, "cycles": 1, "progress": False},
    ),
    "pretrain": (
        lambda: tb.pretrain,
        lambda: {"posterior": posterior(), "epochs": 1, "chains": 1, "progress": False},
    ),
    "resume": (lambda: tb.resume, lambda: {"run": ensemble(), "draws": 21, "progress": False}),
    "load": (lambda: tb.load, lambda: {"path": saved()}),
    "Posterior": (
        lambda: tb.Posterior,
        lambda: {"network": network(), "likelihood": tb.Gaussian(), "x": X, "y": Y},
    ),
    "Dataset": (lambda: tb.Dataset, lambda: {"x": X, "y": Y}),
    "Dataset.evenly": (lambda: tb.Dataset(X, Y).evenly, lambda: {"most": 2}),
    "Dataset.split": (lambda: tb.Dataset(X, Y).split, lambda: {"fraction": 0.4}),
    "Converged": (lambda: tb.Converged, lambda: {}),
    "Scaling": (lambda: tb.Scaling, lambda: {}),
    **{
        f"Ensemble.{name}": (lambda name=name: getattr(ensemble(), name), lambda own=own: own)
        for name, own in {
            "autocorrelation": {"x": X, "progress": False},
            "autocorrelation_time": {"x": X, "progress": False},
            "diagnose": {"x": X, "progress": False},
            "discard": {"n": 1},
            "evaluate": {"x": X, "y": Y, "progress": False},
            "posterior_predictive": {"x": X},
            "predict": {"x": X, "progress": False},
            "reweight": {"progress": False},
            "thin": {"n": 2},
            "to_arviz": {"x": X, "progress": False},
        }.items()
    },
    **{
        f"Prediction.{name}": (lambda name=name: getattr(prediction(), name), lambda own=own: own)
        for name, own in {
            "density": {"edges": [0.0, 1.0]},
            "interval": {},
            "log_predictive": {"y": Y},
            "log_score": {"y": Y},
            "quantile": {"probability": 0.5},
        }.items()
    },
    **{
        name: (lambda name=name: getattr(tb, name), lambda: {})
        for name in ("HMC", "GHMC", "NUTS", "MCLMC", "SGHMC", "AdaptiveHMC")
    },
    **{
        name: (lambda name=name: getattr(tb, name), lambda: {})
        for name in (
            *("Normal", "Cauchy", "StudentT", "Laplace", "Exponential", "LogNormal", "HalfNormal"),
            *("HalfCauchy", "Gamma", "InverseGamma", "Uniform", "GammaPrecision"),
            *("Gaussian", "StudentTNoise", "MeasuredGaussian", "LeakyReLU"),
        )
    },
    **{
        name: (lambda name=name: functools.partial(fit, getattr(tb, name)), lambda: {})
        for name in ("BNNRegressor", "BNNClassifier")
    },
    "Dense": (lambda: tb.Dense, lambda: {"units": 2}),
    "CauchyDense": (lambda: tb.CauchyDense, lambda: {"units": 2}),
    "Hyper": (lambda: tb.Hyper, lambda: {"start": 0.1}),
}


def kind_of(parameter):
    annotation = str(parameter.annotation)
    return next((values for name, values in KINDS.items() if name in annotation), None)


def arguments_of(label):
    """The arguments of a call that have a kind, and the wrong values of it."""
    for name, parameter in inspect.signature(SIGNATURES[label]).parameters.items():
        values = None if name in LEFT_OUT else kind_of(parameter)
        if values is not None:
            yield name, values


SIGNATURES = {
    label: getattr(getattr(tb, label.split(".")[0]), label.split(".")[1])
    if "." in label
    else getattr(tb, label)
    for label in CALLS
}
CASES = [
    pytest.param(label, name, value, id=f"{label}-{name}-{str(value)[:12]}-{place}")
    for label in CALLS
    for name, values in arguments_of(label)
    for place, value in enumerate(values)
]


def test_there_are_many():
    assert len(CASES) >= 500


@pytest.mark.filterwarnings("ignore::tensorbnn.RunWarning")
@pytest.mark.parametrize(("label", "name", "value"), CASES)
def test_misuse_is_refused(label, name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, valid = (each() for each in CALLS[label])
    began = time.monotonic()
    with pytest.raises((ValueError, TypeError, tb.RunError, OSError)) as caught:
        call(**valid | {name: value})
    assert time.monotonic() - began < 1
    assert os.listdir(tmp_path) == []
    assert re.search(rf"`{name}(\.\d+)?`", str(caught.value)), str(caught.value)
