"""Problems of the data are found where they were planted, and nowhere else."""

import json
import pickle

import numpy as np
import pytest
from sklearn import datasets

import tensorbnn as tb
from tensorbnn.cli.messages import CommandLine
from tensorbnn.data_findings import (
    CoarseNoise,
    ConstantColumns,
    ConstantTargets,
    CountsRows,
    DuplicateColumns,
    FarValue,
    FewRows,
    LooksCategorical,
    Sentinel,
    Unscaled,
)
from tensorbnn.ensemble.diagnostics import diagnose
from tensorbnn.findings import VerdictKind
from tensorbnn.warning import DataWarning

ROWS = 200
LEARNED = tb.Gaussian(sd=tb.Hyper(0.3))


def clean(rows=ROWS, inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    return x, x[:, 0] + 0.1 * rng.normal(size=rows)


def find(x, y, likelihood=LEARNED, outputs=1, **options):
    x = np.asarray(x, float)
    network = tb.Network(tb.Dense(outputs), inputs=1 if x.ndim == 1 else x.shape[1])
    return tb.Posterior(network, likelihood, x, y, **options).check_data()


def changed(column, to, rows=slice(None)):
    """Clean data with a column of x replaced, or some of its rows."""
    x, y = clean()
    x[rows, column] = to
    return x, y


def categories(effects, rows=ROWS, seed=3):
    """Whole numbers as a second input, each with its own effect on the targets."""
    x, y = clean(rows, 2)
    levels = np.random.default_rng(seed).integers(0, len(effects), rows)
    x[:, 1] = levels
    return x, y + np.asarray(effects)[levels]


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("rows", [10, 30, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_clean_data(rows, seed, standardize):
    rng, (x, y) = np.random.default_rng(seed), clean(rows, 5, seed)
    x[:, 1] = rng.exponential(size=rows)
    x[:, 2] = rng.integers(0, 5, rows)  # a count, without effect
    x[:, 3] = rng.random(rows) < 0.3
    x[:, 4] = rng.uniform(-1, 1, rows)
    assert find(x, y, standardize=standardize) == ()
    assert find(x, (y > np.median(y)).astype(int), tb.Bernoulli(), standardize=standardize) == ()


@pytest.mark.parametrize("shape", ["normal", "lognormal", "standard_cauchy"])
def test_heavy_tails_alone_have_no_codes_for_missing_values(shape):
    x, y = clean()
    x[:, 1] = getattr(np.random.default_rng(1), shape)(size=ROWS)
    assert not any(isinstance(each, Sentinel) for each in find(x, y, standardize=True))


def load(name):
    data = getattr(datasets, f"load_{name}")()
    if name == "diabetes":
        return data.data, data.target, LEARNED, 1
    if name == "linnerud":
        return data.data, data.target, LEARNED, 3
    classes = len(data.target_names)
    likelihood = tb.Bernoulli() if classes == 2 else tb.Categorical()
    return data.data, data.target, likelihood, 1 if classes == 2 else classes


@pytest.mark.parametrize(
    "name", ["diabetes", "iris", "wine", "breast_cancer", "digits", "linnerud"]
)
def test_only_what_is_true_is_found_in_real_tables(name):
    x, y, likelihood, outputs = load(name)
    found = find(x, y, likelihood, outputs, standardize=True)
    pixels = ConstantColumns("x", (0, 32, 39), 64)  # which are blank in all images
    assert found == ((pixels,) if name == "digits" else ())
    for each in set(find(x, y, likelihood, outputs)) - {pixels}:
        assert isinstance(each, Unscaled)
        size = np.sqrt(np.square(x if each.argument == "x" else y).mean(axis=0))
        assert each.size == pytest.approx(np.max(size))
        assert each.size > 20


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (changed(1, 3.0), ConstantColumns("x", (1,), 3)),
        (changed(2, clean()[0][:, 0]), DuplicateColumns("x", (0, 2), 3)),
        (changed(1, np.arange(ROWS) + 7), CountsRows("x", (1,), 3)),
        (changed(1, -999, slice(0, 60)), Sentinel("x", (1,), 3, -999.0, 60)),
        (changed(1, 9999, [4, 5]), Sentinel("x", (1,), 3, 9999.0, 2)),
        (changed(1, 1e20, [4]), Sentinel("x", (1,), 3, 1e20, 1)),
        (changed(1, -99, [4]), Sentinel("x", (1,), 3, -99.0, 1)),
        (categories([0, 2, -1, 3]), LooksCategorical("x", (1,), 2, 4)),
        (categories([1, -1, 1]), None),  # one turn is what a count may have, too
        (categories([0, 1, 2, 3]), None),
        (categories([0, 0.05, 0, 0.05]), None),
    ],
)
def test_planted_in_inputs(data, wanted):
    assert find(*data, standardize=True) == (() if wanted is None else (wanted,))


@pytest.mark.parametrize("argument", ["x", "y"])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_value_far_outside(argument, sign):
    x, y = clean()
    (x[:, 1] if argument == "x" else y)[17] = 150.0 * sign
    found = [each for each in find(x, y) if isinstance(each, FarValue)]
    column, of = ((1,), 3) if argument == "x" else ((0,), 1)
    (far,) = found
    assert (far.argument, far.columns, far.of, far.row) == (argument, column, of, 17)
    assert far.value == 150.0 * sign
    assert far.low < 0 < far.high


def test_how_far_is_far():
    x, y = clean()
    rest = np.delete(x[:, 1], 17)
    inner = np.sort(rest)[2:]  # except for the lowest 1 %
    limit = inner[-1] + 5 * (inner[-1] - inner[0])
    for value, is_far in ((limit - 0.1, False), (limit + 0.1, True)):
        x[17, 1] = value
        assert any(isinstance(each, FarValue) for each in find(x, y)) == is_far


def test_rows_keep_their_numbers():
    x, y = clean()
    x[17, 1] = 1e5
    x[3, 1] = -999
    (far,) = (each for each in find(x, y, standardize=True) if isinstance(each, FarValue))
    assert far.row == 17


@pytest.mark.parametrize(
    ("factor", "shift", "far"),
    [(1, 0, False), (10, 0, False), (1e-3, 0, True), (30, 0, True), (1, 5000, True)],
)
@pytest.mark.parametrize("argument", ["x", "y"])
def test_units(argument, factor, shift, far):
    x, y = clean()
    x, y = (factor * x + shift, y) if argument == "x" else (x, factor * y + shift)
    kinds = [(type(each), each.argument) for each in find(x, y)]
    assert kinds == [(Unscaled, argument)] * far
    assert find(x, y, standardize=True) == ()


def test_targets_that_never_vary():
    x, _ = clean()
    assert find(x, np.full(ROWS, 2.5)) == (ConstantTargets("y", (0,), 1, 2.5),)
    assert find(x, np.ones(ROWS, int), tb.Bernoulli()) == (ConstantTargets("y", (0,), 1, 1.0),)


def test_few_rows():
    x, y = clean()
    assert find(x[:1], y[:1]) == (FewRows(1, 5),)
    assert find(x[:1], y[:1], tb.Gaussian(sd=0.1)) == (FewRows(1, 2),)
    assert find(x[:2], y[:2], tb.Gaussian(sd=0.1)) == ()
    assert find(x[:4], y[:4]) == (FewRows(4, 5),)
    assert find(x[:5], y[:5]) == ()


@pytest.mark.parametrize(
    ("sd", "dtype", "coarse"),
    [
        (1e-2, "float32", False),
        (1e-4, "float32", False),
        (1e-6, "float32", True),
        (1e-6, "float64", False),
        (1e-16, "float64", True),
    ],
)
def test_noise_that_the_type_is_too_coarse_for(sd, dtype, coarse):
    found = find(*clean(), tb.Gaussian(sd=sd), dtype=dtype)
    assert [type(each) for each in found] == [CoarseNoise] * coarse
    for each in found:
        assert each.sd == sd
        assert each.error > 0.5


def test_error_bars_that_the_type_is_too_coarse_for():
    x, y = clean()
    network = tb.Network(tb.Dense(1), inputs=3)
    for sd, coarse in ((1e-6, True), (1e-2, False)):
        posterior = tb.Posterior(network, tb.MeasuredGaussian(), x, y, y_sd=np.full(ROWS, sd))
        assert [type(each) for each in posterior.check_data()] == [CoarseNoise] * coarse
        both = tb.Posterior(network, tb.Gaussian(sd=0.1), x, y, y_sd=np.full(ROWS, sd))
        assert both.check_data() == ()


@pytest.mark.parametrize("sd", [1e-4, 1e-6])
def test_the_rounding_is_of_the_reported_size(sd):
    """Against float64, at 40 places around the networks that fit: 1 / sqrt(80) is 11 %."""
    x, y = clean()
    network, theta = tb.Network(tb.Dense(10), tb.Tanh(), tb.Dense(1), inputs=3), None
    found = {}
    for dtype in ("float64", "float32"):
        likelihood = tb.Gaussian(sd=sd)
        exact = tb.Posterior(network, likelihood, x, y, dtype="float64")
        if theta is None:
            theta = np.random.default_rng(0).normal(size=exact.num_parameters)
            layers = exact.unflatten(theta)
            hidden = np.tanh(x @ layers["dense_0.weights"] + layers["dense_0.biases"])
            y = (hidden @ layers["dense_1.weights"] + layers["dense_1.biases"])[:, 0]
            y = y + sd * np.random.default_rng(1).normal(size=ROWS)
        posterior = tb.Posterior(network, likelihood, x, y, dtype=dtype)
        phi = np.zeros(posterior.num_hyperparameters)
        steps = 0.1 * sd * np.random.default_rng(2).normal(size=(40, theta.size))
        found[dtype] = np.array([posterior.log_likelihood(theta + step, phi) for step in steps])
    size, eps = np.sqrt(np.mean(np.square(y))), np.finfo(np.float32).eps
    expected = 4 * eps * size * np.sqrt(ROWS) / sd
    measured = np.std(found["float32"] - found["float64"])
    assert expected / 5 < measured < 5 * expected


def test_the_prior_has_no_data():
    assert tb.Posterior(tb.Network(tb.Dense(1), inputs=1), LEARNED).check_data() == ()


def messy():
    x, y = clean()
    x[:60, 0], x[:, 1], y = -999, 1.0, y + 5000
    return x, y


def test_findings_are_warned_of_and_part_of_the_verdict(tmp_path):
    x, y = messy()
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=3), LEARNED, x, y)
    options = {"chains": 2, "burn_in": 20, "draws": 20, "progress": False}
    with pytest.warns(tb.RunWarning) as caught:
        tb.sample(posterior, **options, path=tmp_path / "run")
    found = tuple(each.message.finding for each in caught if isinstance(each.message, DataWarning))
    assert found == posterior.check_data()
    assert [type(each) for each in found] == [ConstantColumns, Sentinel, Unscaled]
    verdict = tb.load(tmp_path / "run").diagnose(x[:3], progress=False).verdict
    assert set(found) < set(verdict.findings)
    assert not verdict.trustworthy


def test_doubtful_data_are_usable_at_best():
    values = np.random.default_rng(0).normal(size=(4, 500, 3, 1))
    for found, kind in (
        (find(*changed(1, 3.0)), VerdictKind.TRUSTWORTHY),
        (find(*messy()), VerdictKind.USABLE),
    ):
        assert diagnose(values, {}, about_data=found).verdict.kind is kind


def test_doubtful_data_do_not_affect_convergence():
    values = np.random.default_rng(0).normal(size=(4, 500, 3, 1))
    divergent = {"diverging": np.ones((4, 500))}
    for records, converged in (({}, True), (divergent, False)):
        verdict = diagnose(values, records, about_data=find(*messy())).verdict
        assert (verdict.trustworthy, verdict.converged) == (False, converged)


def test_findings_are_data_and_words():
    x, y = messy()
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=3), LEARNED, x, y)
    constant, sentinel, unscaled = found = posterior.check_data()
    assert pickle.loads(pickle.dumps(found)) == found
    warned = pickle.loads(pickle.dumps(DataWarning(sentinel)))
    assert warned.finding == sentinel
    described = json.loads(json.dumps(sentinel.to_dict()))
    assert described["kind"] == "Sentinel"
    assert (described["value"], described["columns"], described["cells"]) == (-999, [0], 60)
    assert str(constant).startswith("column 1 of `x` is constant in all rows")
    assert str(warned).startswith("column 0 of `x` has the value -999 in 60 cells")
    assert str(unscaled).startswith("but `y` is far from unit scale (typical size 5e+03): give tb.")
    words = CommandLine(names={"x": ("age", "id", "size"), "y": ("price",)})
    assert constant.message(words).startswith("id is constant in all rows")
    assert "--ignore" in constant.message(words)
    assert unscaled.message(words).startswith("but price is far from unit scale")
