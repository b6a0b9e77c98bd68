"""Runs of every kind, of which `make golden` compares all numbers between two versions.

``python scenarios.py TREE FOLDER NAME...`` runs scenarios with the package in TREE, which must come
first on ``PYTHONPATH``. Everything that is to be the same goes to FOLDER/NAME: run directories,
arrays, what commands print. A directory ``run.cut`` beside ``run`` is of the same run, stopped four
times on the way, and must be the same too.

This script has the names of the present version. What it reads of a run it writes beside it, as
``NAME.dump.npz`` and ``NAME.dump.json``, by the names of the earlier version in both: files of a
run may be named and packed in other ways, its numbers may not.
"""

import contextlib
import functools
import json
import math
import multiprocessing
import subprocess
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import jax
import numpy as np
from safetensors.numpy import load_file

import tensorbnn as tb
from tensorbnn.sampling.api import begin_run

ORIGINAL = Path(__file__).parents[1] / "data" / "original"
X = np.linspace(-1, 1, 9)
Y = np.sin(2 * X)
METRICS = {"metrics": [tb.MeanSquaredError()], "validation": (X / 2, Y / 2), "report_every": 20}
# A burn-in of at least 160 transitions has pooling rounds.
SHORT, LONG = {"burn_in": 30, "draws": 12}, {"burn_in": 200, "draws": 20}
PLAN = {"chains": 3, "thin": 2, "networks_per_file": 7, "progress": False, "seed": 5}
SAMPLERS = {
    "hmc": tb.HMC(max_steps=20),
    "adaptive": tb.AdaptiveHMC(
        num_steps_start=5,
        num_steps_min=2,
        num_steps_max=10,
        num_steps_increment=1,
        step_size_options=10,
        random_steps=3,
    ),
    "ghmc": tb.GHMC(max_steps=20),
    "nuts": tb.NUTS(max_tree_depth=4),
    "mclmc": tb.MCLMC(max_steps=20),
    "sghmc": tb.SGHMC(batch_size=4, num_steps=10),
}
FIXED = tb.HMC(step_size=0.02, num_steps=5)
SCENARIOS = {}


def sample_run(posterior, sampler, *, progress, **options):
    """`tensorbnn.sample`, with details such as small files."""
    run, backend = begin_run(posterior, sampler, **options)
    return run.run(backend, progress=progress)


def scenario(function):
    SCENARIOS[function.__name__.replace("_", "-")] = function
    return function


def posterior(data=(X, Y), **options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), *data, **options)


# A run and the same run, cut.


def whole_and_cut(folder, model, sampler, *, name="run", executor=None, **options):
    """Sample; then again, stopped in burn-in, at its end and among the draws, and resumed."""
    sample = functools.partial(sample_run, model, sampler, executor=executor, **PLAN | options)
    path, cut = folder / name, folder / f"{name}.cut"
    ensemble = sample(path=path)
    drawn = int(ensemble.sample_stats["num_gradients"][0].sum())
    burn_in = int(load_file(path / "chain-00/state.safetensors")["gradients"]) - drawn
    limits = [0.3 * burn_in, 0.8 * burn_in, burn_in, burn_in + 0.5 * drawn]
    begin = functools.partial(sample, path=cut)
    for limit in (max(1, int(each)) for each in limits):
        with contextlib.suppress(tb.RunError):  # there are no draws yet
            begin(max_gradients=limit)
        status = json.loads((cut / "run.json").read_text())["status"]
        assert status == "stopped", f"max_gradients={limit} left the run {status}"
        begin = functools.partial(tb.resume, cut, executor=executor, progress=False)
    begin(max_gradients=math.inf)
    return ensemble


def add_samplers():
    kinds = [("float32", "native"), ("float64", "jax")]
    for name, sampler in SAMPLERS.items():
        others = [("float32", "jax"), ("float64", "native")] if name == "hmc" else []
        for dtype, engine in [*kinds, *others]:
            options = {"dtype": dtype, "engine": engine}
            SCENARIOS[f"{name}-{dtype}-{engine}"] = functools.partial(
                run_sampler, sampler=sampler, options=options
            )


def run_sampler(folder, sampler, options):
    """With pooling rounds and reports in single precision, without either in double."""
    plan = LONG | METRICS if options["dtype"] == "float32" else SHORT
    whole_and_cut(folder, posterior(**options), sampler, **plan)


add_samplers()


@scenario
def pooling_float64(folder):
    for name in ("hmc", "ghmc"):
        whole_and_cut(folder, posterior(dtype="float64"), SAMPLERS[name], name=name, **LONG)


@scenario
def prior(folder):
    whole_and_cut(folder, posterior(data=()), SAMPLERS["hmc"], **LONG)


@scenario
def held_hyperparameters(folder):
    options = {"sample_hyperparameters": False, "start": {"likelihood.sd": 0.3}}
    whole_and_cut(folder, posterior(), SAMPLERS["hmc"], **LONG | options)


@scenario
def burn_in_around_160(folder):
    for burn_in in (0, 159, 160):
        options = {"name": f"{burn_in}", "burn_in": burn_in, "draws": 6, "thin": 1}
        whole_and_cut(folder, posterior(), SAMPLERS["hmc"], **options)


@scenario
def stuck_chain(folder):
    """One chain starts where the density is so steep that no such step is accepted."""
    model = posterior()
    zeros = model.unflatten(np.zeros(model.num_parameters))
    start = {name: np.zeros((3, *np.shape(value))) for name, value in zeros.items()}
    start["dense_0.weights"][1], start["dense_1.weights"][1] = 1.0, 1e3
    options = {"start": start, "burn_in": 400, "draws": 30, "thin": 1, "seed": 3}
    ensemble = whole_and_cut(folder, model, FIXED, **options)
    assert max(report["restarts"] for report in ensemble.reports) == 1


@scenario
def large_files(folder):
    options = {"chains": 2, "thin": 1, "burn_in": 10, "draws": 2700, "networks_per_file": 1300}
    whole_and_cut(folder, posterior(), FIXED, **options)
    files = sorted(file.name for file in folder.glob("run/chain-01/draws-*"))
    assert len(files) == 3


@scenario
def memory(folder):
    ensemble = sample_run(posterior(), SAMPLERS["hmc"], **PLAN | LONG | METRICS)
    save_draws(folder / "draws.npz", ensemble)
    save_json(folder / "reports.json", [old_report(each) for each in ensemble.reports])


LINE = np.linspace(-1, 1, 20)
# Short trajectories of random length: draws that are correlated, so that a run becomes longer.
SLOW = tb.HMC(step_size=0.15, num_steps=4, num_steps_jitter=0.5)
UNTIL = {
    "until": tb.Converged(rhat=1.02, ess=250, x=[-2.0, 0.0, 1.0]),
    **{"chains": 2, "burn_in": 10, "draws": 100, "thin": 1, "networks_per_file": 64},
}


def line():
    noise = np.random.default_rng(0).normal(0, 0.5, 20)
    network = tb.Network(tb.Dense(1, tb.Normal(0, 1), tb.Normal(0, 1)), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.5), LINE, 0.7 * LINE + 0.2 + noise)


@scenario
def until(folder):
    assert whole_and_cut(folder, line(), SLOW, **UNTIL).num_draws > 100
    options = {"name": "pooled", "burn_in": 200, "draws": 40, "report_every": 30}
    ensemble = whole_and_cut(folder, line(), SLOW, **UNTIL | options)
    assert ensemble.num_draws > 40
    with ThreadPoolExecutor(2) as executor:
        whole_and_cut(folder, line(), SLOW, name="executor", executor=executor, **UNTIL)


@scenario
def longer(folder):
    """A run that is complete is made longer, once by a number and once by a goal."""
    options = UNTIL | {"until": None, "draws": 50}
    sample_run(line(), SLOW, path=folder / "run", **PLAN | options)
    tb.resume(folder / "run", draws=90, progress=False)
    assert tb.resume(folder / "run", until=UNTIL["until"], progress=False).num_draws > 90


# Executors and accelerators.


@scenario
def threads(folder):
    with ThreadPoolExecutor(2) as executor:
        whole_and_cut(folder, posterior(), SAMPLERS["hmc"], executor=executor, **LONG | METRICS)


@scenario
def processes(folder):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        whole_and_cut(folder, posterior(), SAMPLERS["hmc"], executor=executor, **LONG | METRICS)


@scenario
def dask(folder):
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        whole_and_cut(folder, posterior(), SAMPLERS["ghmc"], executor=executor, **LONG)


@scenario
def begun_here_resumed_by_an_executor(folder):
    """The pooling rounds come first, in this process, then the chains go apart."""
    model, sampler = posterior(), SAMPLERS["hmc"]
    sample_run(model, sampler, path=folder / "run", **PLAN | LONG)
    with contextlib.suppress(tb.RunError):
        sample_run(model, sampler, path=folder / "run.cut", max_gradients=500, **PLAN | LONG)
    with ThreadPoolExecutor(2) as executor:
        tb.resume(folder / "run.cut", max_gradients=math.inf, executor=executor, progress=False)


@scenario
def accelerator(folder):
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        for name in ("hmc", "nuts"):
            model = posterior(engine="jax")
            whole_and_cut(folder, model, SAMPLERS[name], name=name, **LONG | METRICS)


# Everything else that makes or reads draws.


@scenario
def variational(folder):
    for estimator in ("flipout", "local", "shared"):
        options = {"estimator": estimator, "epochs": 60, "patience": 20, "num_starts": 2}
        path = folder / estimator
        ensemble = tb.fit_variational(posterior(), path=path, draws=120, **options, progress=False)
        found = ensemble.approximation
        arrays = {"elbo": found.elbo, "pareto_k": found.pareto_k}
        np.savez(folder / f"{estimator}.npz", **arrays)
    tb.fit_variational(posterior(), path=folder / "longer", draws=50, **options, progress=False)
    tb.resume(folder / "longer", draws=120, progress=False)


@scenario
def pretrain(folder):
    found = tb.pretrain(posterior(), chains=3, epochs=60, patience=20, progress=False)
    np.savez(folder / "start.npz", **{name: np.asarray(value) for name, value in found.items()})
    whole_and_cut(folder, posterior(), SAMPLERS["hmc"], start=found, **SHORT)


@scenario
def import_original(folder):
    for name in ("gauss_tanh", "bernoulli", "prelu"):
        likelihood = None if name == "bernoulli" else tb.Gaussian(sd=0.1)
        path = folder / name
        ensemble = tb.import_original(ORIGINAL / name, path, likelihood=likelihood)
        save_draws(folder / f"{name}.npz", ensemble)


@scenario
def ensemble(folder):
    """Predictions, scores and diagnosis."""
    made = sample_run(posterior(), SAMPLERS["hmc"], **PLAN | {"burn_in": 200, "draws": 60})
    predicted, diagnosis = made.predict(X, progress=False), made.diagnose(X, progress=False)
    wider = made.reweight(likelihood=tb.Gaussian(sd=tb.Hyper(0.12)), progress=False)
    arrays = {name: getattr(predicted, name) for name in ("mean", "sd", "sd_total")}
    arrays |= {"networks": predicted.samples}
    arrays |= {"quantile": predicted.quantile(0.9, noise=False), "score": predicted.log_score(Y)}
    names = ("rhat", "ess", "ess_tail", "mcse_mean")
    arrays |= {name: getattr(diagnosis, name) for name in names}
    arrays |= {"weights": wider.weights, "size": wider.ess, "pareto_k": wider.pareto_k}
    np.savez(folder / "arrays.npz", **{name: np.ravel(each) for name, each in arrays.items()})


# Error bars and weights of the rows.
SD, WEIGHTS = np.linspace(0.05, 0.2, 9), np.linspace(0.5, 2, 9)


def rows_model(likelihood, **of_rows):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, likelihood, X, Y, **of_rows, standardize=True)


@scenario
def error_bars(folder):
    model = rows_model(tb.MeasuredGaussian(tb.Hyper(1.0)), y_sd=SD)
    validation = {"validation": tb.Dataset(X / 2, Y / 2, y_sd=SD)}
    made = whole_and_cut(folder, model, SAMPLERS["hmc"], **LONG | METRICS | validation)
    save_scores(folder, made.evaluate(X, Y, y_sd=SD, level=0.9, progress=False))


@scenario
def weights(folder):
    model = rows_model(tb.Gaussian(sd=tb.Hyper(0.1)), sample_weight=WEIGHTS)
    validation = {"validation": tb.Dataset(X / 2, Y / 2, sample_weight=WEIGHTS)}
    made = whole_and_cut(folder, model, SAMPLERS["hmc"], **LONG | METRICS | validation)
    save_scores(folder, made.evaluate(X, Y, level=0.9, progress=False))


@scenario
def weights_and_error_bars(folder):
    model = rows_model(tb.MeasuredGaussian(), y_sd=SD, sample_weight=WEIGHTS)
    made = whole_and_cut(folder, model, SAMPLERS["hmc"], **LONG)
    save_scores(folder, made.evaluate(X, Y, y_sd=SD, level=0.9, progress=False))


@scenario
def likelihoods(folder):
    """Those that no other scenario has."""
    cases = {
        "counts": (1, tb.Poisson(), np.arange(9)),
        "outliers": (1, tb.StudentTNoise(scale=tb.Hyper(0.1)), Y),
        "input-dependent": (2, tb.HeteroscedasticGaussian(), Y),
        "two-columns": (2, tb.Gaussian(sd=[0.1, tb.Hyper(0.5)]), np.column_stack([Y, -Y])),
    }
    for name, (outputs, likelihood, y) in cases.items():
        network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(outputs), inputs=1)
        model = tb.Posterior(network, likelihood, X, y, standardize=True)
        sample_run(model, SAMPLERS["hmc"], path=folder / name, **PLAN | SHORT)


def save_scores(folder, scores):
    names = ("log_score", "rmse", "crps", "coverage", "sharpness", "pit")
    np.savez(folder / "scores.npz", **{name: np.ravel(getattr(scores, name)) for name in names})


@scenario
def classes(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (30, 2))
    y = (x[:, 0] > 3).astype(int) + (x[:, 1] > 3)
    layers = (tb.Relevance(), tb.CauchyDense(3), tb.PReLU(), tb.Dense(3), tb.Softmax())
    network = tb.Network(*layers, inputs=2)
    model = tb.Posterior(network, tb.Categorical(), x, y, standardize=True)
    metrics = {"metrics": [tb.Accuracy()], "report_every": 10}
    whole_and_cut(folder, model, SAMPLERS["hmc"], **LONG | metrics)


@scenario
def estimators(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (30, 2))
    options = {"hidden_layer_sizes": (3,), "chains": 2, "burn_in": 170, "draws": 60, "until": None}
    options |= {"max_minutes": None, "random_state": 1}
    regressor = tb.BNNRegressor(**options).fit(x, 10 * x[:, 0] + x[:, 1])
    mean, sd = regressor.predict(x, return_std=True)
    classifier = tb.BNNClassifier(**options).fit(x, np.where(x[:, 0] > 3, "a", "b"))
    np.savez(folder / "arrays.npz", mean=mean, sd=sd, chances=classifier.predict_proba(x))
    save_draws(folder / "regressor.npz", regressor.ensemble_)
    save_draws(folder / "classifier.npz", classifier.ensemble_)


@scenario
def command_line(folder):
    rng = np.random.default_rng(0)
    size, colour = rng.uniform(-1, 1, 60).round(4), rng.choice(["red", "blue"], 60)
    price = (50 + 20 * size + 5 * (colour == "red") + rng.normal(0, 1, 60)).round(3)
    kind = np.where(size > 0, "large", "small")
    rows = zip(size, colour, price, kind, strict=True)
    lines = ["size,colour,price,kind", *(",".join(map(str, row)) for row in rows)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    small = ["--hidden-layer-sizes", "3", "--chains", "2", "--burn-in", "170"]
    small += ["--max-minutes", "60"]
    fits = {"prices": "price", "kinds": "kind", "goal": "price"}
    for run, target in fits.items():
        draws = [] if run == "goal" else ["--draws", "40", "--validation", "0.25"]
        command = ["fit", "table.csv", "--target", target, "--out", run, *small, *draws]
        tensorbnn(folder, f"fit-{run}", *command)
        tensorbnn(folder, f"diagnose-{run}", "diagnose", run)
        predict = ["predict", run, "table.csv", "--out", f"{run}.csv", *OLD_QUANTILES]
        tensorbnn(folder, f"predict-{run}", *predict)
    tensorbnn(folder, "resume", "resume", "prices", "--draws", "60")


def tensorbnn(folder, name, *arguments):
    """Run a command; its exit code and the JSON that it prints go to a file."""
    words = [sys.executable, "-m", "tensorbnn", *arguments, "--json", "--quiet"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    facts = {OLD_FACTS.get(key, key): value for key, value in json.loads(done.stdout).items()}
    for key in ("rhat", "ess"):  # now follows the shape of `y`
        if isinstance(facts.get(key), list):
            facts[key] = np.reshape(facts[key], (len(facts[key]), -1)).tolist()
    facts["verdict"] = {}  # its wording has changed
    save_json(folder / f"{name}.json", {"code": done.returncode, **facts})


OLD_FACTS = {"validation": "held_out", "acceptance_rate": "acceptance"}


def save_draws(file, ensemble):
    groups = {
        "parameters": ensemble.parameters,
        "hyperparameters": ensemble.hyperparameters,
        "info": old_statistics(ensemble._statistics),
    }
    np.savez(
        file, **{f"{group}/{n}": a for group, named in groups.items() for n, a in named.items()}
    )


OLD_QUANTILES = ("--quantiles", "0.05,0.5,0.95")
OLD_STATISTICS = {
    "acceptance_rate": "acceptance",
    "diverging": "divergent",
    "lp": "log_density",
    "num_gradients": "num_steps",
    "energy_error_rms": "energy_error",
}
OLD_COLUMNS = {
    "training.mean_squared_error": "training.squared_error",
    "validation.mean_squared_error": "validation.squared_error",
    "transition": "epoch",
    "acceptance_rate": "acceptance",
    "num_gradients": "leapfrog_steps",
    "lp": "log_density",
}


def old_statistics(statistics):
    """The sampler's statistics by their earlier names; all samplers had an `energy_error`."""
    found = {OLD_STATISTICS.get(name, name): each for name, each in statistics.items()}
    if "kinetic_temperature" in found:
        found["energy_error"] = found.pop("kinetic_temperature") - 1
    if found and "energy_error" not in found:  # draws of a fitted density
        found["energy_error"] = np.zeros_like(found["log_density"])
    return found


def old_report(report):
    return {OLD_COLUMNS.get(name, name): value for name, value in report.items()}


def dump_runs(folder):
    """Write what is read of each run beside it."""
    for file in sorted(folder.rglob("run.json")):
        run = file.parent
        ensemble = tb.load(run)
        save_draws(run.with_name(f"{run.name}.dump.npz"), ensemble)
        reports = map(old_report, ensemble.reports)
        reports = {f"{each['chain']}/{each['epoch']}": each for each in reports}
        save_json(run.with_name(f"{run.name}.dump.json"), reports)


def save_json(file, value):
    file.write_text(json.dumps(value))


def main(tree, folder, *names):
    assert Path(tb.__file__).is_relative_to(Path(tree).resolve()), tb.__file__
    warnings.simplefilter("ignore")
    for name in names:
        began, own = time.monotonic(), Path(folder) / name
        own.mkdir(parents=True)
        try:
            SCENARIOS[name](own)
            dump_runs(own)
        except Exception:
            (own / "error.txt").write_text(traceback.format_exc())
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main(*sys.argv[1:])
