"""The listings of the paper, in order, as printed except for misprints and paths."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import classic

pytestmark = pytest.mark.slow

NETWORK = """
model = network(dtype,     # Data type to use
                inputDims, # Length of 1 input
                trainX,    # Training input
                trainY,    # Training output
                validateX, # Validation input
                validateY) # Validation output
"""

LAYERS = """
model.add(            # Add layer command
        DenseLayer(   # Dense layer object
        inputDims,    # Size of layer input vector
        width,        # Size of layer output vector
        seed=seed,    # Random number seed
        dtype=dtype)) # Layer datatype
model.add(Tanh())     # Hyperbolic tangent activation
"""

SAMPLER = """
model.setupMCMC(
        stepSizeStart=0.005,
        stepSizeMin=0.0025,
        stepSizeMax=0.01,
        stepSizeOptions=40,
        leapfrogStart=2,
        leapfrogMin=2,
        leapfrogMax=50,
        leapfrogIncrement=1,
        hyperStep=0.01,
        hyperLeapfrog=5,
        burnin=20,
        averagingSteps=2)
"""

TRAIN = """
 # Declare Gaussian Likelihood with sd of 0.1
likelihood =  FixedGaussianLikelihood(sd=0.1)
metricList = [ # Declare metrics
    SquaredError(mean=0, sd=1, scaleExp=False),
    PercentError(mean=10, sd=2, scaleExp=True)]
network.train(
        320,   # Nmber of training epochs
        2,     # Increment between network saves
        likelihood,
        adjustHypers=True,
               # Whether to use the hyper-priors
               # or not
        metricList=metricList,
        folderName="Regression",
               # Name of folder for saved networks
        networksPerFile=50)
               # Number of networks saved per file
"""

PREDICTOR = """
 # instantiate a predictor object
network = predictor(
            "modelDir/", # Directory where model is located
            dtype=dtype) # Data type of model
"""

PREDICT = """
predictions = network.predict(
                inputData,# Input data for model
                n=10)     # Predict using every 10 networks
"""

REWEIGHT = """
 # declare predictor object
network = predictor("/path/to/saved/network",
                    dtype=dtype,
                    # data type used by network
                    customLayerDict={"dense2": Dense2}
                    # A dense layer with a different
                    # prior
                    likelihood=modifiedLikelihood)
                    # An optional likelihood function

weights = network.reweight(n=10,# Use every 10 saved networks
                    architecture="architecture2.txt")
                    # New architecture file
"""

AUTOCORRELATION = """
autocorrelations = network.autocorrelation(inputData,
                                           75) #nmax
corrLength = network.autoCorrelationLength(inputData,
                                           75) #nmax
"""

# The misprints: `network` is the class there, and a comma is missing.
SLIPS = {
    "network.train(": "model.train(",
    '{"dense2": Dense2}\n': '{"dense2": Dense2},\n',
}


def run(listing, names):
    for slip, meant in SLIPS.items():
        listing = listing.replace(slip, meant)
    exec(listing, names)


class Dense2(classic.CauchyDenseLayer):
    """The same layer with other hyper-priors of its weights."""

    name = "dense2"
    weightPrior = tb.Cauchy(tb.Hyper(0.0, tb.Normal(0.0, 0.25)), tb.Hyper(0.5, tb.Normal(0.6, 0.5)))


def truth(x):
    return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)


@pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning")
@pytest.mark.filterwarnings("ignore:the autocorrelation has not died down:UserWarning")
def test_the_paper_from_front_to_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, validate = np.linspace(-2, 2, 11), np.linspace(-1.9, 1.9, 30)
    names = {name: getattr(classic, name) for name in classic.__all__}
    names |= {
        "dtype": np.float32, "inputDims": 1, "width": 10, "seed": 1000, "Dense2": Dense2,
        "trainX": x, "trainY": truth(x), "validateX": validate, "validateY": truth(validate),
        "inputData": np.linspace(-3, 3, 13)[:, None],
        "modifiedLikelihood": classic.FixedGaussianLikelihood(sd=0.11),
    }  # fmt: skip
    run(NETWORK, names)
    run(LAYERS, names)
    names["model"].add(classic.DenseLayer(10, 1, seed=2000, dtype=np.float32))
    run(SAMPLER, names)
    run(TRAIN, names)
    ensemble = tb.load("Regression")
    assert len(ensemble) == (320 - 20) // 2
    assert len(list((tmp_path / "Regression" / "chain-00").glob("draws-*"))) == 3
    assert (tmp_path / "Regression" / "architecture.txt").read_text() == "dense\ntanh\ndense\n"
    report = ensemble.reports[-1]
    assert report["transition"] == 320
    assert {"training.squared_error", "validation.percent_error"} <= set(report)

    (tmp_path / "Regression").rename("modelDir")
    run(PREDICTOR, names)
    run(PREDICT, names)
    assert [each.shape for each in names["predictions"]] == [(1, 13)] * 15
    known = tb.load("modelDir").thin(10).predict(names["inputData"])._samples
    assert np.array_equal(np.array(names["predictions"]), known.swapaxes(1, 2))
    run(AUTOCORRELATION, names)
    assert len(names["autocorrelations"]) == 75
    assert isinstance(names["corrLength"], float)

    (tmp_path / "architecture2.txt").write_text("dense2\ntanh\ndense\n")
    run(REWEIGHT.replace("/path/to/saved/network", "modelDir"), names)
    described = Dense2(1, 10).describe()
    other = tb.Network(described, tb.Tanh(), tb.CauchyDense(1), inputs=1)
    every = tb.load("modelDir").reweight(network=other, likelihood=tb.Gaussian(sd=0.11)).weights
    every = every.ravel()
    assert names["weights"] == pytest.approx(every[::10] / every[::10].sum())
    assert np.ptp(names["weights"]) > 0
