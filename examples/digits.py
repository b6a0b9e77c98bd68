"""Hand-written digits: ten classes, and images that the networks are uncertain about.

    python examples/digits.py

Trains on three quarters of the 1,797 digits and reads the others. The figure shows the least
certain digits with their probabilities, the accuracy when the least certain digits are left out,
and the predictions for images that show no digit.
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


def draw_uncertain(axes, classifier, X, y):
    """The least certain digits and, below, their probabilities with 90 % intervals."""
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
    """Accuracy of the rest if the least certain digits are left out."""
    sure = classifier.predict_proba(X).max(axis=1)
    right = (classifier.predict(X) == y)[np.argsort(-sure)]
    kept = np.arange(1, len(y) + 1)
    ax.plot(100 * (1 - kept / len(y)), 100 * np.cumsum(right) / kept, color="C0")
    ax.set(
        xlabel="digits left out, least certain first (%)",
        ylabel="accuracy of the rest (%)",
        xlim=(0, 30),
    )


def draw_no_digits(ax, classifier, X):
    """The largest probability for digits, and for the same pixels in random order."""
    shuffled = np.random.default_rng(0).permuted(X, axis=1)
    for rows, color, name in ((X, "C0", "digits"), (shuffled, "C3", "shuffled pixels")):
        sure = classifier.predict_proba(rows).max(axis=1)
        ax.hist(sure, np.linspace(0, 1, 21), color=color, alpha=0.6, label=name)
    ax.set(xlabel="probability of the most probable digit", ylabel="images")
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
    upper.suptitle("least certain digits, with the correct class in green")
    draw_uncertain(upper.subplots(2, SHOWN), classifier, X_test, y_test)
    axes = lower.subplots(1, 2)
    draw_left_out(axes[0], classifier, X_test, y_test)
    draw_no_digits(axes[1], classifier, X_test)
    figure.savefig(out, dpi=80)
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="digits.png", help="file of the figure")
    parser.add_argument("--quick", action="store_true", help="make only a few draws")
    options = parser.parse_args()
    main(options.out, QUICK if options.quick else {})
