"""TensorBNN's example trainRegression: the paper's sparse case, in the paper's own interface.

    python examples/classic/trainRegression.py

Eleven points of a curve, a 1-10-10-10-1 tanh network, Gaussian noise of 0.1. The numbers are those
of TensorBNN's example; only the import lines have changed, and nothing here needs TensorFlow.
"""

import argparse
import time

import numpy as np

from tensorbnn.classic import (
    FixedGaussianLikelihood,
    GaussianDenseLayer,
    PercentError,
    SquaredError,
    Tanh,
    network,
)


def curve(x):
    return np.sin(2 * np.pi * x) * x - np.cos(np.pi * x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6001, help="epochs, burn-in included")
    parser.add_argument("--burnin", type=int, default=1000, help="epochs that are not saved")
    parser.add_argument("--leapfrog-max", type=int, default=10_000, help="most leapfrog steps")
    parser.add_argument("--folder", default="TrigRegression", help="folder for saved networks")
    options = parser.parse_args()
    began = time.monotonic()

    dtype = "float32"  # or np.float32, or tf.float32
    trainIn = np.linspace(-2, 2, num=11)
    valIn = np.linspace(-2 + 2 / 30, 2 - 2 / 30, num=30)
    inputDims, outputDims, width, hidden = 1, 1, 10, 3

    neuralNet = network(dtype, inputDims, trainIn, curve(trainIn), valIn, curve(valIn))
    sizes = [inputDims] + [width] * hidden
    for n in range(hidden):
        layer = GaussianDenseLayer(sizes[n], sizes[n + 1], seed=1000 * (n + 1), dtype=dtype)
        neuralNet.add(layer)
        neuralNet.add(Tanh())
    last = GaussianDenseLayer(width, outputDims, seed=1000 * (hidden + 1), dtype=dtype)
    neuralNet.add(last)

    neuralNet.setupMCMC(
        stepSizeStart=1e-3,
        stepSizeMin=1e-4,
        stepSizeMax=1e-2,
        stepSizeOptions=100,
        leapfrogStart=min(1000, options.leapfrog_max),
        leapfogMin=100,  # TensorBNN spells it so
        leapFrogMax=options.leapfrog_max,
        leapfrogIncrement=10,
        hyperStepSize=0.001,
        hyperLeapfrog=100,
        burnin=options.burnin,
        averagingSteps=10,
    )
    ensemble = neuralNet.train(
        options.epochs,
        10,  # epochs between saved networks
        FixedGaussianLikelihood(sd=0.1),
        metricList=[SquaredError(mean=0, sd=1), PercentError(mean=0, sd=1)],
        adjustHypers=True,
        folderName=options.folder,
        networksPerFile=50,
    )
    print(f"{len(ensemble)} networks in {options.folder}/, {time.monotonic() - began:.0f} s")
    for name in ("training.squared_error", "validation.squared_error"):
        print(f"{name:<26} {ensemble.reports[-1][name]:.4f}")


if __name__ == "__main__":
    main()
