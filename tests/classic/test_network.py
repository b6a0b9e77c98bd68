"""The paper's `network`: every keyword reaches the library, and mistakes have clear errors."""

import dataclasses

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn import classic
from tensorbnn.classic.arguments import as_dtype
from tensorbnn.inference.adaptive_hmc import AdaptiveHMC
from tensorbnn.sampling.api import begin_run

X = np.linspace(-1, 1, 9)
FAST = {
    "stepSizeStart": 0.02, "stepSizeMin": 0.01, "stepSizeMax": 0.05, "leapfrogStart": 5,
    "leapfrogMin": 5, "leapfrogMax": 10, "leapfrogIncrement": 5, "burnin": 20,
    "averagingSteps": 2, "hyperLeapfrog": 5,
}  # fmt: skip


class TensorFlowType:
    """A type of TensorFlow: NumPy does not know it, but it knows the type of NumPy."""

    def __init__(self, numpy):
        self.as_numpy_dtype, self.name = numpy, numpy.__name__


def made(*layers, dtype="float32", inputs=1, x=X, y=X):
    model = classic.network(dtype, inputs, x, y, x, y)
    for layer in layers:
        model.add(layer)
    return model


def small(**options):
    return made(
        classic.GaussianDenseLayer(1, 3),
        classic.Tanh(),
        classic.GaussianDenseLayer(3, 1),
        **options,
    )


@pytest.fixture
def sampled(monkeypatch):
    """The arguments of `tb.sample`, which gets a sampler that compiles faster."""
    seen = {}

    def sample(posterior, sampler, **options):
        seen.update(options, posterior=posterior, sampler=sampler)
        return begin_run(posterior, tb.HMC(step_size=0.02, num_steps=3), **options)

    monkeypatch.setattr("tensorbnn.classic.training.begin_run", sample)
    return seen


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_types_of_all_kinds(kind):
    for name in (kind, np.dtype(kind), kind.__name__, TensorFlowType(kind)):
        assert as_dtype(name) == kind.__name__
        assert made(classic.DenseLayer(1, 2, dtype=name), dtype=name).states[0].dtype == kind
    for wrong in ("float16", int, None, TensorFlowType(np.int32), object()):
        with pytest.raises(ValueError, match="`dtype` must be float32 or float64, got"):
            as_dtype(wrong)


def test_every_layer_is_one_of_the_library():
    pairs = {
        classic.Exp(): tb.Exp(), classic.Relu(): tb.ReLU(), classic.ReLU(): tb.ReLU(),
        classic.Sigmoid(): tb.Sigmoid(), classic.Tanh(): tb.Tanh(), classic.Elu(): tb.ELU(),
        classic.Softmax(): tb.Softmax(), classic.Leaky_relu(): tb.LeakyReLU(0.3),
        classic.leakyReLU(alpha=0.1): tb.LeakyReLU(0.1), classic.LeakyReLU(0.0): tb.LeakyReLU(0.0),
        classic.Leaky_relu(activation=0.4): tb.LeakyReLU(0.4),
        classic.Prelu(5): tb.PReLU(), classic.PReLU(): tb.PReLU(),
        classic.SquarePrelu(5): tb.SquarePReLU(), classic.SquarePReLU(): tb.SquarePReLU(),
        classic.GaussianDenseLayer(2, 5): tb.Dense(5),
        classic.CauchyDenseLayer(2, 5): tb.CauchyDense(5),
        classic.DenseLayer(2, 5): tb.CauchyDense(5),
    }  # fmt: skip
    for layer, expected in pairs.items():
        assert layer.describe() == expected
    for layer in (
        classic.Tanh(inputDims=1, outputDims=1),
        classic.Prelu(inputDims=5, outputDims=5),
    ):
        assert layer.inputDims == layer.outputDims
    with pytest.raises(NotImplementedError, match="has no method `describe`"):
        classic.Layer(1, 2, weights=None, biases=None, activation=None, alpha=0, seed=3).describe()


@pytest.mark.slow
def test_starting_values():
    weights, biases = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    given = classic.GaussianDenseLayer(2, 3, weights=weights, biases=biases)
    slopes = classic.Prelu(3, activation=[0.1, 0.2, 0.3])
    x = np.ones((4, 2))
    model = made(given, slopes, classic.SquarePrelu(3, alpha=0.5), inputs=2, x=x, y=np.ones((4, 3)))
    expected = [weights, biases, [[0.1], [0.2], [0.3]], [[0.5]] * 3]
    assert all(
        np.array_equal(a, np.float32(b)) for a, b in zip(model.states, expected, strict=True)
    )
    h = weights @ np.ones((2, 4)) + 1
    assert np.allclose(model.predict(train=True), h)  # all are positive
    h = -weights @ np.ones((2, 4)) - 1
    h = h * np.array([[0.1], [0.2], [0.3]]) * 0.25
    tensors = [-weights, -biases, *expected[2:]]
    assert np.allclose(model.predict(False, tensors), h, rtol=1e-6)
    with pytest.raises(ValueError, match="`tensors` must hold 4 arrays"):
        model.predict(False, tensors[:2])
    model = classic.network("float32", 2, x, x, x, x)
    model.add(classic.GaussianDenseLayer(2, 3), [weights, biases])
    assert np.array_equal(model.states[0], weights)
    with pytest.raises(ValueError, match="`parameters` must hold 2 arrays"):
        model.add(classic.GaussianDenseLayer(3, 3), [weights])
    wrong = classic.GaussianDenseLayer(3, 5, weights=np.zeros((3, 5)))
    with pytest.raises(
        ValueError, match=r"weights of 'denseGaussian' must have shape \(5, 3\), got"
    ):
        model.add(wrong)


@pytest.mark.slow
def test_layers_start_by_their_seeds():
    first, again, other, fan_in = (
        made(
            classic.DenseLayer(inputs, 400, seed=seed), inputs=inputs, x=np.ones((9, inputs))
        ).states
        for inputs, seed in ((1, 5), (1, 5), (1, 6), (50, 5))
    )
    assert np.array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])
    # He: 2 / fan-in, of 20,000 and 400 draws.
    assert fan_in[0].std() == pytest.approx(0.2, rel=5 / np.sqrt(2 * 20_000))
    assert fan_in[1].std() == pytest.approx(0.2, rel=5 / np.sqrt(2 * 400))
    alike = made(classic.DenseLayer(1, 4, seed=5), classic.DenseLayer(4, 4, seed=5)).states
    assert not np.array_equal(alike[1], alike[3])


def test_setup_reaches_the_sampler():
    model = small()
    model.setupMCMC(0.002, 0.001, 0.01, 30, 200, 100, 1000, 50, 0.003, 7, 600, 2, 4, 3, 0.2, 40, 15)
    expected = AdaptiveHMC(
        step_size_start=0.002, step_size_min=0.001, step_size_max=0.01, step_size_options=30,
        num_steps_start=200, num_steps_min=100, num_steps_max=1000, num_steps_increment=50,
        hyper_step_size=0.003, hyper_num_steps=7, averaging_steps=4, a=3.0, delta=0.2, k=150,
        strikes=40, random_steps=15,
    )  # fmt: skip
    assert model._sampler == (expected, 600)
    model.setupMCMC()
    paper = AdaptiveHMC(
        step_size_options=40, hyper_step_size=0.01, hyper_num_steps=100, averaging_steps=10, k=100
    )
    assert model._sampler == (paper, 1000)
    model.setupMCMC(leapfogMin=200, leapFrogMax=2000, hyperStepSize=0.1)
    changed = {"num_steps_min": 200, "num_steps_max": 2000, "hyper_step_size": 0.1}
    assert model._sampler == (dataclasses.replace(paper, **changed), 1000)
    with pytest.raises(
        TypeError, match="`leapfrogMin` and `leapfogMin` are the same option: give one of them"
    ):
        model.setupMCMC(leapfrogMin=1, leapfogMin=2)
    with pytest.raises(ValueError, match="`burnin` must be a whole number"):
        model.setupMCMC(burnin=-1)
    with pytest.raises(
        ValueError, match=r"`stepSizeStart` must lie between `stepSizeMin` \(1\) and"
    ):
        model.setupMCMC(stepSizeMin=1)
    with pytest.raises(ValueError, match=r"`leapfrogStart` must lie between `leapfrogMin` \(100\)"):
        model.setupMCMC(leapFrogMax=500)


def test_train_reaches_sample(sampled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = small(dtype=np.float64)
    start = model.states
    model.setupMCMC(**FAST)
    metrics = [classic.SquaredError(True, 1, 2), classic.PercentError(mean=3), classic.Accuracy()]
    ensemble = model.train(
        41, 4, classic.GaussianLikelihood(sd=0.2), metrics, False, False, "folder", 3, 10,
        chains=2, seed=4, overwrite=True, progress=False,
    )  # fmt: skip
    assert ensemble is model.ensemble
    assert (ensemble.num_chains, ensemble.num_draws, ensemble.dtype) == (2, 5, "float64")
    assert sampled["posterior"].likelihood == tb.Gaussian(sd=tb.Hyper(0.2))
    expected = {
        "chains": 2, "burn_in": 20, "draws": 5, "thin": 4, "path": "folder",
        "networks_per_file": 3, "report_every": 10, "seed": 4, "sample_hyperparameters": False,
        "overwrite": True, "metrics": metrics,
    }  # fmt: skip
    assert {name: sampled[name] for name in expected} == expected
    assert np.array_equal(sampled["start"]["dense_0.weights"].T, start[0])
    assert np.array_equal(sampled["start"]["dense_1.biases"], start[3][:, 0])
    assert np.array_equal(sampled["validation"][0], X[:, None])
    # The network is then the last one that was drawn.
    assert np.array_equal(model.states[0], ensemble.parameters["dense_0.weights"][0, -1].T)
    last = ensemble.predict(X, progress=False)._samples[4].T
    assert np.allclose(model.predict(train=True), last, rtol=1e-12)


@pytest.mark.parametrize("exp", [False, True])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (-3.0, 0.5), (10, 2)])
def test_metrics_undo_the_normalization_of_both_sides(mean, sd, exp):
    predicted, true = np.random.default_rng(0).normal(size=(2, 7, 3))
    natural = [each * sd + mean for each in (predicted, true)]
    p, t = np.exp(natural) if exp else natural
    squared = classic.SquaredError(exp, mean, sd)(predicted, true)
    percent = classic.PercentError(exp, mean, sd)(predicted, true)
    np.testing.assert_allclose(squared, np.mean((p - t) ** 2), rtol=1e-12)
    np.testing.assert_allclose(percent, np.mean(100 * abs(p - t) / abs(t)), rtol=1e-12)
    assert classic.SquaredError(True, mean=1e4)([[0.0]], [[-1e5]]) == np.inf


def test_accuracy_of_normalized_classes_and_of_labels():
    classes, mean, sd = np.asarray([[0.0], [1.0], [1.0], [0.0]]), 0.3, 0.4
    predicted = (np.asarray([[0.4], [0.6], [0.4], [0.6]]) - mean) / sd
    assert classic.Accuracy(mean=mean, sd=sd)(predicted, (classes - mean) / sd) == 0.5
    assert classic.Accuracy(True, 3, 2)([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7]], [[0], [1]]) == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sd": 0.0}, "`sd` must be a positive number, got 0.0"),
        ({"sd": "1"}, "`sd` must be a positive number, got '1'"),
        ({"mean": np.nan}, "`mean` must be a finite number, got nan"),
    ],
)
def test_bad_options_of_metrics(options, message):
    for metric in (classic.SquaredError, classic.PercentError, classic.Accuracy):
        with pytest.raises(ValueError, match=message):
            metric(**options)


@pytest.mark.slow
def test_a_classifier_ends_in_a_sigmoid(sampled):
    x = np.array([[-1.0, 0.5], [0.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    y = np.array([0, 1, 1, 0])
    layers = classic.DenseLayer(2, 3), classic.Relu(), classic.DenseLayer(3, 1), classic.Sigmoid()
    model = made(*layers, inputs=2, x=x, y=y)
    model.setupMCMC(**FAST)
    likelihood = classic.BernoulliLikelihood()
    ensemble = model.train(30, 1, likelihood, [classic.Accuracy()], scaleExp=True, progress=False)
    assert [(type(each), each.scaleExp) for each in sampled["metrics"]] == [
        (classic.Accuracy, True)
    ]
    assert sampled["path"] is None
    assert ensemble.likelihood == tb.Bernoulli()
    probabilities = model.predict(train=True)
    assert probabilities.shape == (1, 4)
    assert np.allclose(probabilities, ensemble.predict(x, progress=False)._samples[-1].T, rtol=1e-6)


@pytest.mark.slow
def test_mistakes_have_clear_errors(tmp_path, sampled):
    model = classic.network("float32", 1, X, X, X, X)
    with pytest.raises(TypeError, match="`layer` must be a layer such as"):
        model.add("tanh")
    model.add(classic.GaussianDenseLayer(1, 3))
    with pytest.raises(
        ValueError,
        match="layer 1, 'denseGaussian', takes 4 inputs, but the layers before it have 3",
    ):
        model.add(classic.GaussianDenseLayer(4, 1))
    model.add(tb.Dense(1))  # the library's own layers will do too
    with pytest.raises(ValueError, match="`train` needs a sampler: call setupMCMC first"):
        model.train(10, 1, classic.FixedGaussianLikelihood(sd=0.1))
    model.setupMCMC(**FAST)
    with pytest.raises(ValueError, match=r"`epochs` \(20\) must be above `burnin` \(20\)"):
        model.train(20, 1, classic.FixedGaussianLikelihood(sd=0.1))
    with pytest.raises(ValueError, match="`networksPerFile` must be a whole number of at least 1"):
        model.train(40, 1, classic.FixedGaussianLikelihood(sd=0.1), networksPerFile=0)
    with pytest.raises(TypeError, match="`likelihood` must be a likelihood such as Fixed"):
        model.train(40, 1, "gaussian")
    with pytest.raises(ValueError, match=r"`trainX` must be \(rows, 2\), got shape \(9,\)"):
        classic.network("float32", 2, X, X, X, X)
    for y in (X[:4], X.reshape(3, 3), 1.0):
        with pytest.raises(
            ValueError, match=r"`trainY` must be \(9, outputs\), with a row for each row"
        ):
            classic.network("float32", 1, X, y, X, X)
    for y in (X[None], X[:, None], X):
        assert classic.network("float32", 1, X, y, X, y).trainY.shape == (9, 1)
    folder = tmp_path / "run"
    likelihood = classic.FixedGaussianLikelihood(sd=0.1)
    model.train(30, 1, likelihood, folderName=str(folder), progress=False)
    assert (folder / "architecture.txt").read_text() == "denseGaussian\ndenseGaussian\n"
    with pytest.raises(FileExistsError, match="replace it with `overwrite=True`"):
        model.train(30, 1, likelihood, folderName=str(folder), progress=False)
    model.train(31, 1, likelihood, folderName=str(folder), overwrite=True, progress=False)
    assert len(classic.predictor(folder).predict(X)) == 11


@pytest.mark.slow
def test_an_interrupted_run_has_its_architecture(tmp_path, monkeypatch):
    def sample(posterior, sampler, **options):
        quick = {"draws": 3, "burn_in": 2, "metrics": None, "validation": None}
        run, backend = begin_run(
            posterior, tb.HMC(step_size=0.02, num_steps=3), **(options | quick)
        )
        run.run(backend, progress=False)
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorbnn.classic.training.begin_run", sample)
    model = small()
    model.setupMCMC(**FAST)
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        model.train(40, 1, tb.Gaussian(sd=0.1), folderName=str(folder), progress=False)
    assert (folder / "architecture.txt").read_text() == "denseGaussian\ntanh\ndenseGaussian\n"
    assert classic.predictor(folder).numNetworks == 3


MASKED = np.ma.masked_greater(np.linspace(-1.0, 1.0, 5), 0.7)
RAGGED = [[1.0], [2.0, 3.0], [4.0], [5.0], [6.0]]
TEXTS = np.array(["a", 1.0, None, 2.0, 3.0], dtype=object)


@pytest.mark.parametrize("name", ["trainX", "trainY", "validateX", "validateY"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (MASKED, "1 values of `{}` are masked"),
        (RAGGED, "`{}` must be an array of numbers"),
        (TEXTS, "`{}` must hold numbers"),
    ],
)
def test_data_that_are_not_numbers_are_named(name, bad, message):
    names = ("trainX", "trainY", "validateX", "validateY")
    data = dict.fromkeys(names, np.linspace(-1, 1, 5)) | {name: bad}
    with pytest.raises((TypeError, ValueError), match=message.format(name)):
        classic.network("float32", 1, **data)


@pytest.mark.parametrize(
    "metric", [classic.SquaredError(), classic.PercentError(), classic.Accuracy()]
)
def test_metrics_refuse_masked_values(metric):
    good = np.linspace(0, 1, 5)
    for name, given in (("predictions", (MASKED, good)), ("targets", (good, MASKED))):
        with pytest.raises(ValueError, match=f"1 values of `?{name}`? are masked"):
            metric(*given)
        with pytest.raises((TypeError, ValueError), match=f"{name}`? must be an array of numbers"):
            metric(*(RAGGED if each is MASKED else each for each in given))


def test_starting_values_that_are_masked_are_refused():
    x = np.linspace(-1, 1, 5)
    model = classic.network("float32", 1, x, x, x, x)
    with pytest.raises(ValueError, match="1 values of weights of 'denseGaussian' are masked"):
        model.add(classic.GaussianDenseLayer(1, 5, weights=MASKED[:, None]))
