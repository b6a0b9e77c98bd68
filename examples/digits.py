"""1,797 hand-written digits: which ones a network is not sure of, and what it thinks instead.

    python examples/digits.py

Three quarters of the digits teach the network, the rest are read by it. The picture shows those
that it is least sure of, with the probabilities of all digits, how many are read right when the
least sure ones are left out, and how much less sure it is of pictures that are no digits.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tensorbnn as tb

QUICK = {"burn_in": 100, "draws": 50, "until": None}
SHOWN = 6


def draw_unsure(axes, classifier, X, y):
    """Digits and, below, their probabilities with intervals of 90 %."""
    probability = classifier.predict_proba(X)
    lower, upper = classifier.predict_interval(X, level=0.9)
    for (above, below), row in zip(axes.T, np.argsort(probability.max(axis=1)), strict=False):
        above.imshow(X[row].reshape(8, 8), cmap="Grays")
        above.set(xticks=[], yticks=[], title=f"a {y[row]}")
        mean = probability[row]
        below.bar(range(10), mean, color=["C2" if k == y[row] else "C0" for k in range(10)])
        below.vlines(range(10), lower[row], upper[row], color="k", lw=1)
        below.set(xticks=range(10), ylim=(0, 1), yticks=[])
        below.tick_params(labelsize="small")
    axes[1, 0].set(ylabel="probability", yticks=[0, 0.5, 1])


def draw_left_out(ax, classifier, X, y):
    """Accuracy of what is left when the least sure digits are left out."""
    sure = classifier.predict_proba(X).max(axis=1)
    right = (classifier.predict(X) == y)[np.argsort(-sure)]
    kept = np.arange(1, len(y) + 1)
    ax.plot(100 * (1 - kept / len(y)), 100 * np.cumsum(right) / kept, color="C0")
    ax.set(xlabel="% left out, the least sure ones", ylabel="% right of the rest", xlim=(0, 30))


def draw_no_digits(ax, classifier, X):
    """How sure it is of digits, and of the same pixels in another order."""
    shuffled = np.random.default_rng(0).permuted(X, axis=1)
    for rows, color, name in ((X, "C0", "digits"), (shuffled, "C3", "no digits: pixels shuffled")):
        sure = classifier.predict_proba(rows).max(axis=1)
        ax.hist(sure, np.linspace(0, 1, 21), color=color, alpha=0.6, label=name)
    ax.set(xlabel="probability of the most probable digit", ylabel="pictures")
    ax.legend(fontsize="small")


def main(out, settings):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    began = time.monotonic()
    classifier = tb.BNNClassifier(random_state=0, **settings).fit(X_train, y_train)
    print(f"fitted in {time.monotonic() - began:.0f} s: {classifier.diagnosis_.verdict}")
    print(f"accuracy {classifier.score(X_test, y_test):.3f}")

    figure = plt.figure(figsize=(13, 6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.2, 1))
    upper.suptitle("those it is least sure of, with the right digit in green")
    draw_unsure(upper.subplots(2, SHOWN), classifier, X_test, y_test)
    axes = lower.subplots(1, 2)
    draw_left_out(axes[0], classifier, X_test, y_test)
    draw_no_digits(axes[1], classifier, X_test)
    figure.savefig(out, dpi=80)
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="digits.png", help="the picture")
    parser.add_argument("--quick", action="store_true", help="few draws, just to see it run")
    options = parser.parse_args()
    main(options.out, QUICK if options.quick else {})
