"""Make `tests/data/format-2`: runs and pickles that every later version must read and resume.

    python -m tests.data.make_format_2

Run this only to add a run, by its name as an argument: the others were written by the first version
of format 2, and must stay as they are. `predictions.npz` holds what each run and pickle predicted
when it was made.
"""

import contextlib
import pickle
import shutil
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import tensorbnn as tb
from tensorbnn.sampling.api import begin_run
from tensorbnn.storage.directory import DirectoryStore

FOLDER = Path(__file__).with_name("format-2")
X = np.linspace(-1, 1, 12)
Y = np.sin(2 * X)
AT = np.array([-0.5, 0.0, 0.8])
CLASSES = np.repeat([0, 1, 2], 4)
SD = np.linspace(0.05, 0.2, 12)
WEIGHT = np.linspace(0.5, 2.0, 12)


@dataclass(frozen=True)
class Sine(tb.Layer):
    """An activation that is not the library's."""

    frequency: float = 1.0

    def apply(self, parameters, h):
        return jnp.sin(self.frequency * h)


CUSTOM = {"Sine": Sine}
ADAPTIVE = tb.AdaptiveHMC(
    num_steps_start=5,
    num_steps_min=2,
    num_steps_max=10,
    num_steps_increment=1,
    step_size_options=5,
    random_steps=3,
)
PLAN = {"chains": 2, "burn_in": 160, "draws": 12, "networks_per_file": 4}
# Draws of each chain when a run is stopped.
DRAWS_MADE = 6
REPORTS = {"report_every": 40, "metrics": [tb.MeanSquaredError()], "validation": (X / 2, Y / 2)}


def posterior(*data, likelihood=None, first=None, outputs=1, activation="tanh", **options):
    layers = [tb.Dense(3), activation, tb.Dense(outputs)]
    network = tb.Network([*([first] if first else []), *layers], inputs=1)
    likelihood = tb.Gaussian(sd=tb.Hyper(0.1)) if likelihood is None else likelihood
    return tb.Posterior(network, likelihood, *data, engine="jax", **options)


FIXED = tb.HMC(step_size=0.02, num_steps=3)
HETEROSCEDASTIC = {"likelihood": tb.HeteroscedasticGaussian(), "outputs": 2, "standardize": True}
MEASURED = {"y_sd": SD, "sample_weight": WEIGHT, "likelihood": tb.MeasuredGaussian()}
CLASSIFICATION = {"likelihood": tb.Categorical(), "outputs": 3, "activation": Sine(2.0)}
# Data and model, sampler, and other options of each run.
RUNS = {
    "hmc-in-burn-in": ((X, Y), {}, tb.HMC(max_steps=8), {}),
    "hmc-float64-reports": ((X, Y), {"dtype": "float64"}, FIXED, REPORTS),
    "adaptive-hmc-thinned": ((X, Y), {}, ADAPTIVE, {"thin": 3}),
    "ghmc-executor": ((X, Y), {}, tb.GHMC(num_steps=2), {"executor": True}),
    "nuts-standardized": ((X, Y), {"standardize": True}, tb.NUTS(max_tree_depth=3), {}),
    "mclmc-prior": ((), {}, tb.MCLMC(max_steps=4), {}),
    "sghmc-notes": ((X, Y), {}, tb.SGHMC(num_steps=2), {"notes": {"table": {"inputs": ["x"]}}}),
    "heteroscedastic": ((X, Y), HETEROSCEDASTIC, FIXED, {}),
    "measured-weighted-held": ((X, Y), MEASURED, FIXED, {"sample_hyperparameters": False}),
    "classes-custom-objects": ((X, CLASSES), CLASSIFICATION, FIXED, {}),
    "until-relevance": (
        (X, Y),
        {"first": tb.Relevance()},
        FIXED,
        {"until": tb.Converged(rhat=3.0, ess=4.0)},
    ),
    "variational": ((X, Y), {}, None, {}),
}
IN_BURN_IN = "hmc-in-burn-in"
PICKLES = {
    "regressor": (tb.BNNRegressor, Y),
    "classifier": (tb.BNNClassifier, np.array(["a", "b", "c"])[CLASSES]),
}


def make_run(name, path):
    """Sample a run, but stop it halfway."""
    data, model, sampler, options = RUNS[name]
    target = posterior(*data, **model)
    if sampler is None:
        few = {"cycles": 1, "epochs": 20, "num_starts": 1, "progress": False}
        tb.fit_variational(target, draws=6, path=path, **few)
        return
    limit = 300
    if name != IN_BURN_IN:
        with tempfile.TemporaryDirectory() as folder:
            sample(target, sampler, path=Path(folder) / "run", **options | {"until": None})
            limit = gradients_after(Path(folder) / "run", DRAWS_MADE)
    sample(target, sampler, path=path, max_gradients=limit, **options)


def sample(target, sampler, *, executor=False, **options):
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2)) if executor else None
        run, backend = begin_run(target, sampler, executor=pool, **PLAN | options)
        return run.run(backend, progress=False)


def gradients_after(path, draws):
    """What a chain of a run has spent when all chains have made this many draws."""
    ensemble, store = tb.load(path, custom_objects=CUSTOM), DirectoryStore(path)
    found = []
    for chain, spent in enumerate(ensemble.sample_stats["num_gradients"]):
        found.append(int(store.read_state(chain)["gradients"]) - spent[draws:].sum())
    return int(max(found))


def make_pickle(name):
    kind, y = PICKLES[name]
    options = {"until": None, "burn_in": 160, "draws": 10, "chains": 2, "sampler": FIXED}
    return kind((3,), random_state=0, **options).fit(X[:, None], y)


def predictions(name):
    """The predictions of a run or an estimator at `AT`."""
    if name in PICKLES:
        estimator = pickle.loads((FOLDER / f"{name}.pickle").read_bytes())
        predict = getattr(estimator, "predict_proba", estimator.predict)
        return predict(AT[:, None])
    return tb.load(FOLDER / name, custom_objects=CUSTOM).predict(AT, progress=False).mean


def main(*names):
    warnings.simplefilter("ignore")
    file = FOLDER / "predictions.npz"
    known = dict(np.load(file)) if file.exists() else {}
    for name in names or (*RUNS, *PICKLES):
        if name in RUNS:
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            make_run(name, FOLDER / name)
        else:
            (FOLDER / f"{name}.pickle").write_bytes(pickle.dumps(make_pickle(name), protocol=5))
        known[name] = predictions(name)
        print(name, flush=True)
    np.savez(file, **known)


if __name__ == "__main__":
    main(*sys.argv[1:])
