"""TensorBNN's example extendedRegression: pre-training, sampling, and the paper's bands.

    python examples/classic/extendedRegression.py

Like trainRegression.py, but the chains start from a trained network, and the saved networks are
loaded to draw their mean with bands of one and two standard deviations, near the data and far away.
TensorBNN's example trains with Keras and leaky ReLU; this one with `trainBasicRegression` and tanh.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from tensorbnn.classic import (
    FixedGaussianLikelihood,
    GaussianDenseLayer,
    PercentError,
    SquaredError,
    Tanh,
    network,
    predictor,
    trainBasicRegression,
)


def curve(x):
    return np.sin(2 * np.pi * x) * x - np.cos(np.pi * x)


def draw(x, predictions, trainIn, file: Path) -> None:
    """Mean and bands of the networks' predictions ``(networks, rows)``."""
    mean, sd = predictions.mean(axis=0), predictions.std(axis=0)
    figure, ax = plt.subplots(figsize=(7, 4))
    ax.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=(1, 1, 0), label="2 sd")
    ax.fill_between(x, mean - sd, mean + sd, color=(0, 1, 0), label="1 sd")
    ax.plot(x, mean, color="k", label="predicted mean")
    ax.plot(x, curve(x), color="r", label="true")
    ax.scatter(trainIn, curve(trainIn), color="b", zorder=3, label="training data")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=5, fontsize=8, frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6001, help="epochs, burn-in included")
    parser.add_argument("--burnin", type=int, default=1000, help="epochs that are not saved")
    parser.add_argument("--leapfrog-max", type=int, default=10_000, help="most leapfrog steps")
    parser.add_argument("--folder", default="TrigRegression", help="folder for saved networks")
    options = parser.parse_args()
    mpl.use("Agg")

    dtype = "float32"
    trainIn = np.linspace(-2, 2, num=11)
    valIn = np.linspace(-2 + 2 / 30, 2 - 2 / 30, num=30)
    inputDims, outputDims, width, hidden = 1, 1, 10, 3
    cycles, epochs, patience, alpha = 3, 100, 20, 0.3
    data = trainIn, curve(trainIn), valIn, curve(valIn)

    weights, biases, _ = trainBasicRegression(
        hidden, inputDims, outputDims, width, cycles, epochs, alpha, *data,
        f"{options.folder}-backup", patience=patience, activation="tanh",
    )  # fmt: skip

    neuralNet = network(dtype, inputDims, *data)
    for n in range(hidden + 1):
        out, into = weights[n].shape
        layer = GaussianDenseLayer(into, out, weights=weights[n], biases=biases[n], dtype=dtype)
        neuralNet.add(layer)
        if n < hidden:
            neuralNet.add(Tanh())

    neuralNet.setupMCMC(
        stepSizeStart=1e-3,
        stepSizeMin=1e-4,
        stepSizeMax=1e-2,
        stepSizeOptions=100,
        leapfrogStart=min(1000, options.leapfrog_max),
        leapfrogMin=100,
        leapfrogMax=options.leapfrog_max,
        leapfrogIncrement=10,
        hyperStep=0.001,
        hyperLeapfrog=100,
        burnin=options.burnin,
        averagingSteps=10,
    )
    neuralNet.train(
        options.epochs,
        10,
        FixedGaussianLikelihood(sd=0.1),
        metricList=[SquaredError(mean=0, sd=1), PercentError(mean=0, sd=1)],
        adjustHypers=True,
        folderName=options.folder,
        networksPerFile=50,
    )

    loadedNetwork = predictor(f"{options.folder}/", dtype)
    for name, end, rows in (("close", 2, 1000), ("far", 4, 2000)):
        x = np.linspace(-end, end, num=rows)
        predictions = np.array(loadedNetwork.predict(x[:, None], n=1))[:, 0]
        file = Path(options.folder) / f"{name}.png"
        draw(x, predictions, trainIn, file)
        print(file)


if __name__ == "__main__":
    main()
