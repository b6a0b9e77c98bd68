"""The paper's `predictor` on runs of TensorBNN, against TensorBNN's own results."""

import itertools
from dataclasses import dataclass

import jax
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import classic
from tensorbnn.sampling.api import begin_run
from tests.interop.old_runs import DATA, NAMES, WIDE, said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning"),
    pytest.mark.filterwarnings("ignore:prelu_0.slopes has negative values:UserWarning"),
]


class WideGaussian(classic.GaussianDenseLayer):
    name = "wideGaussian"
    weightPrior = biasPrior = WIDE


def old(name, **options):
    return classic.predictor(
        f"{DATA / name}/", "float32", {"wideGaussian": WideGaussian}, **options
    )


@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_tensorbnn(name):
    network, own = old(name), said(name)
    count = int(own["numNetworks"])
    assert network.numNetworks >= count
    predictions = network.predict(own["x"], n=3)
    assert predictions[0].dtype == np.float32
    difference = np.array(predictions)[: len(own["pred_n3"])] - own["pred_n3"]
    assert np.abs(difference).max() < 2e-5 * (1 + np.abs(own["pred_n3"]).max())
    found = network.extractParameters()
    for number, values in enumerate(found):
        assert np.array_equal(values[:count], own[f"param{number}"])
    assert f"param{len(found)}" not in own
    assert network.extractHyperParameters().shape == (network.numNetworks, own["hypers"].shape[1])
    if network.numNetworks == count:  # else there are more than TensorBNN has seen
        for number, (mean, sd) in enumerate(zip(*network.parameterStatistics(), strict=True)):
            assert mean == pytest.approx(own[f"pmean{number}"], rel=1e-4, abs=1e-5)
            assert sd == pytest.approx(own[f"psd{number}"], rel=1e-4, abs=1e-5)
        means, sds = network.hyperStatistics()
        locs = [not key.endswith(("scale", "sd")) for key in network.ensemble.hyperparameters]
        assert means[locs] == pytest.approx(own["hmean"][locs], rel=1e-4, abs=1e-5)
        assert sds[locs] == pytest.approx(own["hsd"][locs], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "cauchy_tanh", "prelu"])
def test_weights_for_another_architecture(name):
    network, own = old(name), said(name)
    count = int(own["numNetworks"])
    weights = network.reweight("architecture2.txt")  # of the run directory
    assert weights.sum() == pytest.approx(1)
    # The largest are smoothed; the rest have the ratios of TensorBNN's.
    small = np.argsort(own["reweight"])[: count // 2]
    ratio = weights[:count][small] / own["reweight"][small]
    assert ratio == pytest.approx(np.full(len(small), np.median(ratio)), rel=1e-3)
    thinned = network.reweight(architecture=DATA / name / "architecture2.txt", n=3)
    assert thinned == pytest.approx(weights[::3] / weights[::3].sum())


def test_weights_for_another_likelihood():
    own = said("gauss_tanh")
    network = old("gauss_tanh", likelihood=classic.FixedGaussianLikelihood(sd=0.1))
    data = {"trainX": own["trainX"], "trainY": own["trainY"]}
    weights = network.reweight(likelihood=classic.FixedGaussianLikelihood(sd=0.11), **data)
    rows = own["trainX"][:, None], own["trainY"]
    ensemble = network.ensemble._with_data(rows)
    expected = ensemble.reweight(likelihood=tb.Gaussian(sd=0.11)).weights
    assert weights == pytest.approx(expected.ravel())
    with pytest.raises(ValueError, match="give an `architecture` with other priors, another"):
        network.reweight()
    with pytest.raises(ValueError, match="give both `trainX` and `trainY`, or neither"):
        network.reweight("architecture2.txt", trainX=own["trainX"])
    with pytest.raises(ValueError, match="`n` must be a whole number of at least 1, got 0"):
        network.reweight("architecture2.txt", n=0)
    with pytest.raises(ValueError, match="`n` must be a whole number of at least 1, got 0"):
        network.predict(own["x"], n=0)
    with pytest.raises(ValueError, match="`nMax` must be below the number of draws a chain"):
        network.autocorrelation(own["x"], 100)
    with pytest.raises(ValueError, match=r"`inputData` must be \(rows, 1\), got shape \(3, 2\)"):
        network.predict(np.ones((3, 2)))
    with pytest.raises(ValueError, match="give them as `trainX, trainY`"):
        network.reweight(likelihood=tb.Gaussian(sd=0.2))


def test_autocorrelation():
    network, own = old("bernoulli"), said("bernoulli")
    found = network.autocorrelation(own["x"], 19)
    bias = (60 - np.arange(1, 20)) / 60
    assert found * bias == pytest.approx(own["autocorrelation"][1:], abs=1e-4)
    length = network.autoCorrelationLength(own["x"], 30)
    assert length == pytest.approx(
        float(np.mean(network.ensemble.autocorrelation_time(own["x"], 30)))
    )


def test_unknown_layers_are_named(tmp_path):
    network = classic.predictor(DATA / "gauss_tanh")
    with pytest.raises(
        ValueError, match=r"names unknown layers, \['wideGaussian'\]: give them to `predictor`"
    ):
        network.reweight("architecture2.txt")
    (tmp_path / "short.txt").write_text("denseGaussian\n")
    with pytest.raises(ValueError, match="names 1 layers, but the network has 5"):
        network.reweight(tmp_path / "short.txt")
    with pytest.raises(FileNotFoundError, match=r"no file nowhere.txt, either here or in "):
        network.reweight("nowhere.txt")
    (tmp_path / "other.txt").write_text("denseGaussian\nrelu\ndenseGaussian\ntanh\ndenseGaussian\n")
    with pytest.raises(ValueError, match="only priors may differ"):
        network.reweight(tmp_path / "other.txt")
    with pytest.raises(TypeError, match="`customLayerDict` must hold layers by name, got 3"):
        classic.predictor(DATA / "gauss_tanh", customLayerDict={"dense2": 3})
    for layer in (WideGaussian, WideGaussian(1, 10), tb.Dense(10, WIDE, WIDE)):
        again = classic.predictor(DATA / "gauss_tanh", customLayerDict={"wideGaussian": layer})
        assert again._other(DATA / "gauss_tanh" / "architecture2.txt").layers[0].bias_prior == WIDE


@dataclass(frozen=True)
class Bend(tb.Layer):
    def apply(self, parameters, h):
        return jax.nn.softplus(h)


def test_layers_that_are_layers_of_the_library(tmp_path, monkeypatch):
    def sample(posterior, sampler, **options):
        return begin_run(posterior, tb.HMC(step_size=0.02, num_steps=3), **options)

    monkeypatch.setattr("tensorbnn.classic.training.begin_run", sample)  # compiles faster
    x = np.linspace(-1, 1, 5)
    model = classic.network("float32", 1, x, x, x, x)
    for layer in (classic.GaussianDenseLayer(1, 2), Bend(), classic.GaussianDenseLayer(2, 1)):
        model.add(layer)
    model.setupMCMC(0.02, 0.01, 0.05, 10, 5, 5, 10, 5, burnin=5, hyperLeapfrog=3)
    run = tmp_path / "run"
    model.train(30, 1, classic.FixedGaussianLikelihood(sd=0.2), folderName=str(run), progress=False)
    own = {"Bend": Bend, "wide": WideGaussian}
    network = classic.predictor(run, "float64", own)
    assert network.predict(x)[0].dtype == np.float64
    (run / "architecture2.txt").write_text("wide\nBend\ndenseGaussian\n")
    assert network.reweight(architecture="architecture2.txt").shape == (25,)
    # Files have their arrays in the order of the alphabet, the paper in that of the layers.
    for found, last in zip(network.extractParameters(), model.states, strict=True):
        np.testing.assert_array_equal(found[-1], last)
    named = network.ensemble.hyperparameters
    parts = itertools.product(("dense_0", "dense_1"), ("weights", "biases"), ("loc", "scale"))
    for column, name in zip(network.extractHyperParameters().T, parts, strict=True):
        np.testing.assert_array_equal(column, named[".".join(name)].ravel())
    with pytest.raises(FileExistsError, match="choose another `folderName`, or replace it with"):
        model.train(30, 1, classic.FixedGaussianLikelihood(sd=0.2), folderName=str(run))
