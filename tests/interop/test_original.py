"""Old runs against TensorBNN where its results are right, and against the paper elsewhere."""

import json
import warnings

import numpy as np
import pytest
from scipy import stats

import tensorbnn as tb
from tensorbnn.findings import VerdictKind
from tensorbnn.interop.original import make_layer
from tensorbnn.interop.original_files import read_architecture
from tests.interop.old_runs import DATA, NAMES, WIDE, copied, likelihood_of, loaded, said, wide

# Of float32 numbers that TensorFlow and JAX add up in another order.
ROUNDING = 1e-5


def flat(values):
    """Of one chain."""
    assert values.shape[0] == 1
    return values[0]


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_tensorbnn(name):
    own = said(name)
    found = loaded(name).predict(own["x"], progress=False).samples
    old = own["pred_n1"].swapaxes(1, 2)
    scale = 1 + np.abs(old).max()
    assert np.abs(found[: len(old)] - old).max() < ROUNDING * scale
    thinned = loaded(name).thin(3).predict(own["x"], progress=False).samples
    assert np.array_equal(thinned, found[::3])
    old = own["pred_n3"].swapaxes(1, 2)
    assert np.abs(thinned[: len(old)] - old).max() < ROUNDING * scale


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_exact_and_sds_are_squares(name):
    ensemble, own = loaded(name), said(name)
    count = int(own["numNetworks"])
    parameters = list(ensemble.parameters.items())
    for number, (key, values) in enumerate(parameters):
        old = own[f"param{number}"]
        new = flat(values)[:count]
        new = new.swapaxes(1, 2) if key.endswith("weights") else new[:, :, None]
        assert np.array_equal(new, old), key
    assert f"param{len(parameters)}" not in own
    for (key, values), old in zip(
        ensemble.hyperparameters.items(), own["hypers"].T.astype(np.float64), strict=True
    ):
        is_root = key == "likelihood.sd" or (key.startswith("dense") and key.endswith("scale"))
        natural = np.square(old) if is_root else np.abs(old) if "rate" in key else old
        assert np.array_equal(flat(values)[:count], natural), key


@pytest.mark.parametrize(
    ("name", "seen", "there"),
    [("gauss_partial", 20, 27), ("prelu", 100, 101), ("squareprelu", 100, 101)],
)
def test_networks_of_a_file_that_was_not_filled_are_not_lost(name, seen, there):
    ensemble, own = loaded(name), said(name)
    assert own["numNetworks"] == seen
    assert len(ensemble) == there
    last = ensemble.parameters["dense_0.weights"][0, -1].T
    if name == "gauss_partial":  # it continued for some epochs
        text = (DATA / name / "0.2.txt").read_text().split()
        assert last.ravel().tolist() == [float(np.float32(word)) for word in text[-5:]]
    else:
        assert np.array_equal(last, own["final_state0"])
        scale = ensemble.hyperparameters["dense_0.weights.scale"][0, -1]
        assert scale == float(own["final_hyper1"][0]) ** 2


def seen_by_tensorbnn(name, tmp_path):
    """The networks that TensorBNN reads: without those of the last file."""
    path = copied(name, tmp_path / name)
    files = int((path / "summary.txt").read_text().split("\n")[-2].split()[1])
    for file in [*path.glob(f"*.{files}.txt"), path / f"hypers{files}.txt"]:
        file.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tb.load_original(path, likelihood=likelihood_of(name), dtype="float64")


@pytest.mark.parametrize("name", NAMES)
def test_autocorrelation_is_that_of_tensorbnn_without_its_bias(name, tmp_path):
    ensemble, own = seen_by_tensorbnn(name, tmp_path), said(name)
    count = len(ensemble)
    assert count == own["numNetworks"]
    lags = np.arange(1, len(own["autocorrelation"]))
    rho = ensemble.autocorrelation(own["x"], len(lags), progress=False)[1:, 0]
    old = own["autocorrelation"]
    assert old[0] == pytest.approx(1)
    # TensorBNN divides each C(n) by N in place of N - n. Its numbers are float32, like predictions
    # whose differences from their mean it squares.
    assert np.abs(rho * (count - lags) / count - old[1:]).max() < 10 * ROUNDING


@pytest.mark.parametrize("name", ["bernoulli", "gauss_tanh"])
def test_autocorrelation_time_is_that_of_tensorbnn_without_its_bias(name, tmp_path):
    ensemble, own = seen_by_tensorbnn(name, tmp_path), said(name)
    count, lengths = len(ensemble), []
    values = ensemble.predict(own["x"], progress=False).samples[:, :, 0]
    for row, series in zip(own["x"], values.T, strict=True):
        assert np.ptp(series) > 0, row
        centered = series - series.mean()
        biased = np.array([centered[: count - n] @ centered[n:] for n in range(count)])
        sums = 2 * np.cumsum(biased / biased[0]) - 1
        lengths.append(sums[np.argmax(np.arange(count) >= 5 * sums)])
    assert np.mean(lengths) == pytest.approx(float(own["autoCorrelationLength"]), rel=1e-4)
    length = ensemble.autocorrelation_time(own["x"], progress=False)[0]
    assert length == pytest.approx(np.mean(lengths), rel=0.2)  # the bias is that large, and no more


def other_network(name):
    """The network of ``architecture2.txt``."""
    network = loaded(name).network
    layers = [
        make_layer(each, layer.outputs(0) if hasattr(layer, "units") else 0, {"wideGaussian": wide})
        for each, layer in zip(
            read_architecture(DATA / name / "architecture2.txt"), network.layers, strict=False
        )
    ]
    return tb.Network(*layers, inputs=network.inputs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning")
def test_weights_for_other_hyper_priors_are_those_of_tensorbnn(name):
    # The errors of its density are in the numerator and the denominator, and cancel.
    own = said(name)
    found = loaded(name).reweight(network=other_network(name), progress=False)
    new = found._weights.log_ratios[0][: int(own["numNetworks"])]
    old = own["neglogp_old"].astype(np.float64) - own["neglogp_new"]
    # Of two float32 sums of that size; the hyper-prior's normalizer is the same for all networks.
    size = np.abs(own["neglogp_old"]).max() + np.abs(own["neglogp_new"]).max()
    error = float(4 * size * np.finfo(np.float32).eps)
    assert np.abs((new - new.mean()) - (old - old.mean())).max() < error
    if name != "gauss_nohyper":
        assert np.ptp(old) > 0.1
    weights = np.exp(new - new.max())
    assert weights / weights.sum() == pytest.approx(own["reweight"], rel=2 * error)


def truncated(value, loc, scale):
    """Log-density of a Gaussian that is cut off at zero."""
    return stats.truncnorm.logpdf(value, -loc / scale, np.inf, loc, scale)


def log_prior(ensemble, name, kind, hyper):
    """Of the weights or biases `name`, one number a network: `hyper` are the four constants."""
    values = flat(ensemble.parameters[name]).reshape(len(ensemble), -1)
    loc = flat(ensemble.hyperparameters[f"{name}.loc"])
    scale = flat(ensemble.hyperparameters[f"{name}.scale"])
    given = kind.logpdf(values, loc[:, None], scale[:, None]).sum(axis=1)
    return given + stats.norm.logpdf(loc, *hyper[:2]) + truncated(scale, *hyper[2:])


NARROW = tb.Normal(0.0, 2.0)
# Kind of the first layer, and the four constants of its hyper-priors.
FIRST = {
    "gauss_tanh": (stats.norm, (0.0, 0.1, 1.0, 0.1)),
    "cauchy_tanh": (stats.cauchy, (0.0, 0.2, 0.5, 0.5)),
    "squareprelu": (stats.norm, (0.0, 0.1, 1.0, 0.1)),
    "prelu": (stats.norm, (0.0, 0.1, 1.0, 0.1)),
}


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning")
def test_densities_are_the_papers_where_those_of_tensorbnn_are_not(name):
    # A number in place of both hyper-parameters of the first weights, and other hyper-priors of the
    # first biases: each weight has its own normalizer, and the tails of a Cauchy fall.
    ensemble = loaded(name)
    kind, hyper = FIRST[name]
    bias = type(ensemble.network.layers[0].bias_prior)(
        tb.Hyper(0.0, tb.Normal(0.0, 0.3)), tb.Hyper(1.0, tb.Normal(0.8, 0.6))
    )
    first = tb.Dense(ensemble.network.layers[0].units, NARROW, bias)
    network = tb.Network(first, *ensemble.network.layers[1:], inputs=1)
    found = ensemble.reweight(network=network, progress=False)._weights.log_ratios[0]
    weights = flat(ensemble.parameters["dense_0.weights"]).reshape(len(ensemble), -1)
    loc, scale = (
        flat(ensemble.hyperparameters[f"dense_0.weights.{each}"])[:, None]
        for each in ("loc", "scale")
    )
    new = stats.norm.logpdf(weights, 0.0, 2.0).sum(axis=1)
    old = kind.logpdf(weights, loc, scale).sum(axis=1)
    biases = [
        log_prior(ensemble, "dense_0.biases", kind, each) for each in ((0.0, 0.3, 0.8, 0.6), hyper)
    ]
    assert found == pytest.approx(new - old + biases[0] - biases[1], rel=1e-9, abs=1e-8)


@pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning")
def test_slopes_of_squareprelu_have_one_density():
    ensemble = loaded("squareprelu")
    slopes = flat(ensemble.parameters["squareprelu_0.slopes"])
    named = {each: flat(ensemble.hyperparameters[f"squareprelu_0.slopes.{each}"])
             for each in ("loc", "scale")}  # fmt: skip
    other = tb.SquarePReLU(tb.Normal(0.0, 0.4))
    layers = [ensemble.network.layers[0], other, ensemble.network.layers[2]]
    found = ensemble.reweight(
        network=tb.Network(*layers, inputs=1), progress=False
    )._weights.log_ratios[0]
    old = stats.norm.logpdf(slopes, named["loc"][:, None], named["scale"][:, None]).sum(axis=1)
    new = stats.norm.logpdf(slopes, 0.0, 0.4).sum(axis=1)
    assert found == pytest.approx(new - old, rel=1e-9, abs=1e-9)


def test_negative_slopes_of_prelu_are_reported_and_can_not_be_reweighted():
    with pytest.warns(UserWarning, match=r"negative values in 101 of 101 networks"):
        ensemble = tb.load_original(DATA / "prelu", likelihood=tb.Gaussian(sd=0.1))
    layers = list(ensemble.network.layers)
    layers[1] = tb.PReLU(tb.Exponential(1.0))
    with pytest.raises(ValueError, match=r"not a finite number for 101 of 101 networks"):
        ensemble.reweight(network=tb.Network(*layers, inputs=1), progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:these weights can't be trusted:UserWarning")
def test_another_likelihood():
    # Noise that was learned, in place of a number: TensorBNN has no prior of it.
    for name, sd in (("gauss_tanh", None), ("cauchy_tanh", "likelihood.sd")):
        ensemble, own = loaded(name), said(name)
        noise = 0.1 if sd is None else flat(ensemble.hyperparameters[sd])[:, None]
        outputs = ensemble.predict(own["trainX"], progress=False).samples[:, :, 0]
        new = stats.norm.logpdf(own["trainY"], outputs, 0.12).sum(axis=1)
        old = stats.norm.logpdf(own["trainY"], outputs, noise).sum(axis=1)
        found = ensemble.reweight(
            likelihood=tb.Gaussian(sd=0.12), progress=False
        )._weights.log_ratios[0]
        assert found == pytest.approx(new - old, rel=1e-6)
    ensemble, own = loaded("bernoulli"), said("bernoulli")
    probability = ensemble.predict(own["trainX"], progress=False).samples[:, :, 0]
    each = stats.bernoulli.logpmf(own["trainY"][:, 0].astype(int), probability)
    expected = np.log(np.mean(np.exp(each), axis=0)).sum()
    lpd = ensemble.predict(own["trainX"], progress=False).log_score(own["trainY"])
    assert lpd * len(each.T) == pytest.approx(expected, rel=1e-9)


def test_likelihoods_that_are_not_written():
    assert tb.load_original(DATA / "bernoulli").likelihood == tb.Bernoulli()
    assert tb.load_original(DATA / "cauchy_tanh").likelihood == tb.Gaussian(sd=tb.Hyper(0.1))
    with pytest.warns(UserWarning, match=r"does not say how targets scatter: tb.Gaussian"):
        ensemble = tb.load_original(DATA / "gauss_tanh")
    assert (ensemble.likelihood, ensemble.dtype) == (tb.Gaussian(sd=0.1), "float32")
    assert ensemble.parameters["dense_0.weights"].dtype == np.float32
    with pytest.raises(ValueError, match=r"give them as `tb.load\(path, data=\(x, y\)\)`"):
        ensemble.reweight(likelihood=tb.Gaussian(sd=0.2), progress=False)
    with pytest.raises(
        tb.RunError, match=r"have 12 hyper-parameters, but their layers have 12 and"
    ):
        tb.load_original(DATA / "gauss_tanh", likelihood=tb.Gaussian(sd=tb.Hyper(0.1)))
    with pytest.raises(TypeError, match=r"`likelihood` must be a likelihood"):
        tb.load_original(DATA / "gauss_tanh", likelihood=0.1)


@pytest.mark.slow
def test_other_methods_of_an_ensemble():
    ensemble, own = loaded("cauchy_tanh"), said("cauchy_tanh")
    assert ensemble.sample_stats == {}
    diagnosis = ensemble.diagnose(own["x"], progress=False)
    assert diagnosis.verdict.kind is VerdictKind.ONE_CHAIN
    assert np.isnan(diagnosis.acceptance_rate).all()
    assert np.isfinite(diagnosis.ess).all()
    tree = ensemble.to_arviz()
    assert dict(tree.log_likelihood["y"].sizes)["draw"] == 100
    assert np.isfinite(ensemble.waic().elpd)
    found = ensemble.sensitivity([0.0], "dense_1.weights.scale.loc", [0.9, 1.0], progress=False)
    assert found.mean.shape == (2, 1, 1)
    start = tb.sample(
        tb.Posterior(ensemble.network, ensemble.likelihood, own["trainX"], own["trainY"]),
        tb.HMC(step_size=0.01, num_steps=2),
        start=ensemble, chains=2, burn_in=5, draws=5, progress=False,
    )  # fmt: skip
    assert len(start) == 10


def test_held_hyper_parameters_are_noticed():
    assert loaded("gauss_nohyper")._held
    assert not loaded("gauss_tanh")._held
    weights = loaded("gauss_nohyper").reweight(
        network=other_network("gauss_nohyper"), progress=False
    )
    assert np.ptp(weights.weights) < 1e-12


def test_your_own_layer(tmp_path):
    path = copied("gauss_tanh", tmp_path / "old")
    (path / "architecture.txt").write_text((path / "architecture2.txt").read_text())
    options = {"likelihood": tb.Gaussian(sd=0.1)}
    with pytest.raises(
        ValueError, match=r"names an unknown layer, 'wideGaussian': give it as `custom_objects`"
    ):
        tb.load_original(path, **options)
    ensemble = tb.load_original(path, custom_objects={"wideGaussian": wide}, **options)
    assert ensemble.network.layers[0].weight_prior == WIDE
    same = loaded("gauss_tanh").parameters["dense_0.weights"]
    assert np.array_equal(ensemble.parameters["dense_0.weights"], same)
    for maker in (tb.CauchyDense, tb.CauchyDense(10)):
        ensemble = tb.load_original(path, custom_objects={"wideGaussian": maker}, **options)
        assert ensemble.network.layers[0] == tb.CauchyDense(10)
    with pytest.raises(TypeError, match=r"must make a tb.Layer of 'wideGaussian', but it made 10"):
        tb.load_original(path, custom_objects={"wideGaussian": lambda units: units}, **options)
    with pytest.raises(
        tb.RunError, match=r"has a parameter of shape \(7, 1\), but its shape in summary.txt is"
    ):
        tb.load_original(path, custom_objects={"wideGaussian": tb.Dense(7)}, **options)
    with pytest.raises(tb.RunError, match=r"has 6 tensors, but the layers .* have 4"):
        tb.load_original(path, custom_objects={"wideGaussian": tb.Tanh}, **options)


def test_import(tmp_path):
    new = tmp_path / "new"
    options = {"likelihood": tb.Gaussian(sd=0.1)}
    ensemble = tb.import_original(DATA / "gauss_partial", new, **options)
    old = tb.load_original(DATA / "gauss_partial", **options)
    for found in (ensemble, tb.load(new)):
        assert (found.network, found.likelihood) == (old.network, old.likelihood)
        for kind in ("parameters", "hyperparameters"):
            for name, values in getattr(old, kind).items():
                assert np.array_equal(getattr(found, kind)[name], values)
    assert sorted(path.name for path in (new / "chain-00").iterdir()) == [
        *(f"draws-0000{index}.safetensors" for index in range(3)),
        "state.safetensors",
    ]
    with pytest.raises(FileExistsError, match=r"already holds a run"):
        tb.import_original(DATA / "gauss_partial", new, **options)
    tb.import_original(DATA / "cauchy_tanh", new, overwrite=True, data=([0.0, 1.0], [0.0, 1.0]))
    assert len(tb.load(new)) == 100
    assert tb.load(new).reports == []
    assert np.isfinite(tb.load(new).waic().elpd)
    assert len(tb.resume(new)) == 100
    with pytest.raises(tb.RunError, match=r"was imported from TensorBNN, .* can't be continued"):
        tb.resume(new, draws=200)
    assert json.loads((new / "run.json").read_text())["status"] == "complete"


def test_every_file_of_an_import_is_checked(tmp_path):
    tb.import_original(DATA / "cauchy_tanh", tmp_path / "new")
    (tmp_path / "new" / "chain-00" / "draws-00002.safetensors").unlink()
    with pytest.raises(tb.RunError, match=r"draws-00002.safetensors is missing"):
        tb.load(tmp_path / "new")


MASKED = np.ma.masked_greater(np.linspace(-1, 1, 5), 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": (MASKED, np.ones(5))}, "in `data`, 1 values of `x` are masked"),
        ({"data": ([[1.0], [2.0, 3.0]], [1.0, 2.0])}, "in `data`, `x` must be an array of numbers"),
        ({"data": (np.array([1, None]), [1, 2])}, "in `data`, `x` must hold numbers"),
        ({"data": (np.ones(5), np.ones(5), np.ones(5))}, "`data` must be a pair"),
        ({"data": np.ones((2, 5))}, "`data` must be a pair"),
        ({"custom_objects": 5}, "`custom_objects` must be a dict of layers by name, got 5"),
        ({"dtype": "int8"}, "`dtype` must be 'float32' or 'float64'"),
    ],
)
def test_bad_options_are_named(tmp_path, options, message):
    options = {"likelihood": tb.Gaussian(sd=0.1)} | options
    with pytest.raises((TypeError, ValueError), match=message):
        tb.load_original(DATA / "gauss_tanh", **options)
    with pytest.raises((TypeError, ValueError), match=message):
        tb.import_original(DATA / "gauss_tanh", tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_bad_paths_are_named(tmp_path):
    with pytest.raises(TypeError, match="`path` must be the path of a run directory of TensorBNN"):
        tb.load_original(5)
    with pytest.raises(TypeError, match="`old` must be the path of a run directory of TensorBNN"):
        tb.import_original(5, tmp_path / "new")
