"""Diabetes: predict the progress of the disease after a year, with an uncertainty.

    python examples/diabetes.py

Trains on three quarters of the 442 patients and predicts the others. The figure shows these
predictions with their intervals, how well the intervals are calibrated, and what the networks
learned about the body mass index.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import tensorbnn as tb
from tensorbnn import plots

QUICK = {"burn_in": 100, "draws": 50, "until": None}


def draw_predictions(ax, regressor, X, y):
    """Patients, sorted by their predictions, each with a 90 % interval."""
    order = np.argsort(regressor.predict(X))
    X, y = X.iloc[order], y.iloc[order].to_numpy()
    lower, upper = regressor.predict_interval(X, level=0.9)
    inside = (y >= lower) & (y <= upper)
    place = np.arange(len(y))
    ax.vlines(place, lower, upper, color="C0", alpha=0.3, lw=2, label="90 % interval")
    ax.plot(place, regressor.predict(X), color="C0", label="mean")
    ax.plot(place[inside], y[inside], "k.", ms=4, label="observed")
    ax.plot(place[~inside], y[~inside], "C3X", ms=6, label="observed, outside")
    ax.set(xlabel="patients, sorted by prediction", ylabel="progression of the disease")
    ax.set_title(f"{100 * np.mean(inside):.0f} % of new patients are inside")
    ax.legend(fontsize="small", loc="upper left")


def draw_effect(ax, regressor, X, name):
    """The mean prediction over patients if all had the same `name`, for 50 networks."""
    grid = np.linspace(*np.percentile(X[name], [1, 99]), 30)
    patients = X.iloc[::3]
    rows = np.concatenate([patients.assign(**{name: value}).to_numpy() for value in grid])
    networks = regressor.ensemble_.predict(rows, progress=False).samples
    effect = networks.reshape(len(networks), len(grid), len(patients)).mean(axis=2)
    some = np.random.default_rng(0).choice(len(effect), 50, replace=False)
    ax.plot(grid, effect[some].T, color="C0", lw=0.5, alpha=0.4)
    ax.plot(grid, effect.mean(axis=0), color="k", label="mean of all networks")
    ax.plot([], [], color="C0", lw=0.5, label="single networks")
    ax.set(xlabel="body mass index", ylabel="mean prediction")
    ax.set_title("effect of one input")
    ax.legend(fontsize="small")


def main(out, settings):
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    began = time.monotonic()
    regressor = tb.BNNRegressor(random_state=0, **settings).fit(X_train, y_train)
    print(f"fitted in {time.monotonic() - began:.0f} s: {regressor.diagnosis_.verdict}")
    scores = regressor.ensemble_.evaluate(X_test.to_numpy(), y_test.to_numpy(), progress=False)
    print(f"RMSE {scores.rmse:.1f}, R2 {regressor.score(X_test, y_test):.2f}")
    print(
        f"noise {np.mean(regressor.ensemble_.hyperparameters['likelihood.sd']):.2f} of the spread"
    )

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    draw_predictions(axes[0], regressor, X_test, y_test)
    plots.calibration(scores, ax=axes[1])
    axes[1].set_title("calibration")
    draw_effect(axes[2], regressor, X_train, "bmi")
    figure.savefig(out, dpi=80)
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="diabetes.png", help="file of the figure")
    parser.add_argument("--quick", action="store_true", help="make only a few draws")
    options = parser.parse_args()
    main(options.out, QUICK if options.quick else {})
