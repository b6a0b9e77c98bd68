"""Wine: the cultivar from two measurements, and where the prediction is uncertain.

    python examples/wine.py

Trains on 178 wines: cultivar, flavanoids and color intensity. The figure shows three maps of the
two inputs: the probabilities of the cultivars, how uncertain they are, and how much the networks
disagree, which is the part of the uncertainty that more data would reduce.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import tensorbnn as tb

QUICK = {"burn_in": 100, "draws": 50, "until": None}
COLUMNS = ["flavanoids", "color_intensity"]
COLORS = np.array([[0.0, 0.45, 0.70], [0.90, 0.62, 0.0], [0.80, 0.25, 0.35]])
EXTENT = (0.0, 7.0, 0.0, 18.0)
PIXELS = 60


def pixels():
    """One row for each pixel of the map."""
    columns = np.linspace(*EXTENT[:2], PIXELS), np.linspace(*EXTENT[2:], PIXELS)
    return np.column_stack([each.ravel() for each in np.meshgrid(*columns)])


def draw_map(ax, values, X, y, title, **options):
    """The values ``(rows,)`` or colors ``(rows, 3)`` of the pixels, and the data."""
    values = values.reshape(PIXELS, PIXELS, *values.shape[1:])
    image = ax.imshow(values, origin="lower", extent=EXTENT, aspect="auto", **options)
    for kind, marker in enumerate("os^"):
        points = X[y == kind].to_numpy().T
        ax.plot(*points, marker, color=COLORS[kind], mec="w", ms=5, label=f"cultivar {kind}")
    ax.set(xlabel="flavanoids", ylabel="color intensity", title=title)
    if values.ndim == 2:
        ax.figure.colorbar(image, ax=ax, label="nats")


def main(out, settings):
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X[COLUMNS]
    began = time.monotonic()
    classifier = tb.BNNClassifier(random_state=0, **settings).fit(X, y)
    print(f"fitted in {time.monotonic() - began:.0f} s: {classifier.diagnosis_.verdict}")

    map_of = classifier.ensemble_.predict(pixels(), progress=False)
    mixed = 1 - 0.6 * (1 - map_of.mean @ COLORS)
    figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    draw_map(axes[0], mixed, X, y, "probabilities (mixed colors)")
    axes[0].legend(fontsize="small")
    draw_map(axes[1], map_of.entropy, X, y, "uncertainty (entropy)", cmap="Grays")
    disagreement = map_of.mutual_information
    draw_map(axes[2], disagreement, X, y, "disagreement of the networks", cmap="Grays")
    figure.savefig(out, dpi=80)
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="wine.png", help="file of the figure")
    parser.add_argument("--quick", action="store_true", help="make only a few draws")
    options = parser.parse_args()
    main(options.out, QUICK if options.quick else {})
