"""Breast cancer: benign or malignant, and which cases a doctor should look at again.

    python examples/breast_cancer.py

Trains on three quarters of the 569 patients and predicts the others. The figure shows the
probabilities with their intervals, and the accuracy when the least certain cases are referred to a
doctor.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import tensorbnn as tb

QUICK = {"burn_in": 100, "draws": 50, "until": None}


def draw_probabilities(ax, classifier, X, y):
    """Patients, sorted by the probability of a malignant tumor, each with a 90 % interval."""
    probability = classifier.predict_proba(X)[:, 1]
    order = np.argsort(probability)
    lower, upper = (ends[order, 1] for ends in classifier.predict_interval(X, level=0.9))
    place = np.arange(len(order))
    ax.fill_between(place, lower, upper, color="0.85", label="90 % interval")
    ax.axhline(0.5, color="k", lw=0.5)
    for name, marker, color in (("benign", "o", "C0"), ("malignant", "^", "C3")):
        own = y[order] == name
        ax.plot(place[own], probability[order][own], marker, color=color, ms=4, label=name)
    ax.set(xlabel="patients, sorted by probability", ylabel="probability of malignant")
    ax.set_title("new patients")
    ax.legend(fontsize="small", loc="upper left")


def draw_referrals(ax, classifier, X, y):
    """Accuracy of the rest if the least certain cases are referred to a doctor."""
    sure = classifier.predict_proba(X).max(axis=1)
    right = (classifier.predict(X) == y)[np.argsort(-sure)]
    kept = np.arange(1, len(y) + 1)
    ax.plot(100 * (1 - kept / len(y)), 100 * np.cumsum(right) / kept, color="C0")
    ax.set(
        xlabel="cases referred to a doctor, least certain first (%)",
        ylabel="accuracy of the rest (%)",
    )
    ax.set(xlim=(0, 30), title="the networks know which cases are difficult")


def main(out, settings):
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=1)
    began = time.monotonic()
    classifier = tb.BNNClassifier(random_state=0, **settings).fit(X_train, y_train)
    print(f"fitted in {time.monotonic() - began:.0f} s: {classifier.diagnosis_.verdict}")
    places = np.searchsorted(classifier.classes_, y_test)
    scores = classifier.ensemble_.evaluate(X_test.to_numpy(), places, progress=False)
    print(f"accuracy {classifier.score(X_test, y_test):.3f}, log score {scores.log_score:.3f}")

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    draw_probabilities(axes[0], classifier, X_test, y_test)
    draw_referrals(axes[1], classifier, X_test, y_test)
    figure.savefig(out, dpi=80)
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="breast_cancer.png", help="file of the figure")
    parser.add_argument("--quick", action="store_true", help="make only a few draws")
    options = parser.parse_args()
    main(options.out, QUICK if options.quick else {})
