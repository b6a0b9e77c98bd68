import copy
import dataclasses
import io
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tensorbnn as tb
from tensorbnn.ensemble import prediction as predicting
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.fit_checks import PriorConflict
from tensorbnn.findings import Agree, Divergences, KineticTemperature, Verdict, VerdictKind
from tensorbnn.sampling.run import Run
from tests.estimators.quick import QuickHMC

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(40, 2)) * [1.0, 100.0] + [5.0, 0.0], columns=["a", "b"])
Y = pd.Series(1000 + 20 * X["a"] + 0.1 * X["b"] + RNG.normal(size=40))
CLASSES = np.array(["one", "three", "two"])
LABELS = CLASSES[np.digitize(X["a"], [4.5, 5.5])]
FEW = {
    **{"hidden_layer_sizes": (3,), "chains": 2, "burn_in": 60, "draws": 30},
    **{"until": None, "random_state": 0},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:don't trust the predictions yet"),
]


@pytest.fixture(scope="module")
def regressor():
    with pytest.warns(ConvergenceWarning, match="don't trust the predictions yet: "):
        return tb.BNNRegressor(**FEW).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    with pytest.warns(ConvergenceWarning, match="don't trust the predictions yet: "):
        return tb.BNNClassifier(**FEW).fit(X, LABELS)


# Against an exact answer: linear regression with a known noise and fractional weights of rows.


@dataclass(frozen=True)
class Exact:
    """Posterior of ``y = X w + b`` in standardized columns, back in the user's units."""

    weights: np.ndarray
    noise: float

    def predict(self, at):
        x, y, w = X.to_numpy(), Y.to_numpy(), self.weights
        means = np.average(x, axis=0, weights=w), np.average(y, weights=w)
        widths = (
            np.sqrt(np.average((x - means[0]) ** 2, axis=0, weights=w)),
            np.sqrt(np.average((y - means[1]) ** 2, weights=w)),
        )
        design = np.column_stack([(x - means[0]) / widths[0], np.ones(len(x))])
        sd = self.noise / widths[1]
        covariance = np.linalg.inv(design.T @ (w[:, None] * design) / sd**2 + np.eye(3))
        coefficients = covariance @ design.T @ (w * (y - means[1]) / widths[1]) / sd**2
        new = np.column_stack([(at - means[0]) / widths[0], np.ones(len(at))])
        variance = np.einsum("ri,ij,rj->r", new, covariance, new)
        return means[1] + widths[1] * new @ coefficients, widths[1] * np.sqrt(variance)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_linear_posterior_is_exact(weighted):
    weights = RNG.uniform(0.1, 3.0, size=40) if weighted else np.ones(40)
    weights[0] = 0.0 if weighted else 1.0
    regressor = tb.BNNRegressor(
        (),
        noise_sd=2.0,
        weight_prior=tb.Normal(0, 1),
        bias_prior=tb.Normal(0, 1),
        burn_in=200,
        random_state=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a posterior that is trustworthy warns of nothing
        regressor.fit(X, Y, sample_weight=weights if weighted else None)
    assert regressor.diagnosis_.trustworthy
    at = np.array([[5.0, 0.0], [8.0, 300.0], [0.0, -200.0]])
    mean, sd = Exact(weights, 2.0).predict(at)
    new = pd.DataFrame(at, columns=["a", "b"])
    errors = regressor.ensemble_.diagnose(at, progress=False)
    found, found_sd = regressor.predict(new, return_std=True, noise=False)
    # Six numbers within four standard errors: a false alarm in 3,000.
    np.testing.assert_array_less(np.abs(found - mean), 4 * errors.mcse_mean[:, 0])
    np.testing.assert_array_less(np.abs(found_sd - sd), 4 * errors.mcse_sd[:, 0])
    _, total = regressor.predict(new, return_std=True)
    np.testing.assert_allclose(total, np.hypot(found_sd, 2.0), rtol=1e-5)  # float32


# What is predicted is what the ensemble predicts, in scikit-learn's shapes.


def test_predictions_of_a_regressor(regressor):
    prediction = regressor.ensemble_.predict(X.to_numpy(), progress=False)
    mean, sd = regressor.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, prediction.mean[:, 0])
    np.testing.assert_array_equal(mean, regressor.predict(X))
    np.testing.assert_array_equal(sd, prediction.sd_total[:, 0])
    np.testing.assert_array_equal(
        regressor.predict(X, return_std=True, noise=False)[1], prediction.sd[:, 0]
    )
    lower, upper = regressor.predict_interval(X, 0.8)
    expected = prediction.interval(0.8, noise=True)
    np.testing.assert_array_equal([lower, upper], [each[:, 0] for each in expected])
    inner = regressor.predict_interval(X, 0.8, noise=False)
    assert np.all(inner[0] > lower)
    assert np.all(inner[1] < upper)
    residual = np.sum((Y - mean) ** 2) / np.sum((Y - Y.mean()) ** 2)
    assert regressor.score(X, Y) == pytest.approx(1 - residual)


@pytest.mark.parametrize("level", [95, 1, 0, "0.9", [0.5, 0.9], None])
def test_a_level_is_one_number(regressor, classifier, level):
    for estimator in (regressor, classifier):
        with pytest.raises(ValueError, match="`level` must lie between 0 and 1, such as"):
            estimator.predict_interval(X, level)


def test_samples_of_a_regressor(regressor):
    networks = regressor.ensemble_.predict(X.to_numpy(), progress=False).samples[..., 0]
    few = regressor.sample_y(X, 7, random_state=1, noise=False)
    assert few.shape == (40, 7)
    assert {tuple(each) for each in few.T} < {tuple(each) for each in networks}
    again = regressor.sample_y(X, 7, random_state=1, noise=False)
    np.testing.assert_array_equal(few, again)
    assert regressor.sample_y(X).shape == (40, 1)
    np.testing.assert_array_equal(regressor.sample_y(X), regressor.sample_y(X, random_state=0))
    every = regressor.sample_y(X, 60, noise=False)  # each network once
    np.testing.assert_allclose(every.mean(axis=1), regressor.predict(X), rtol=1e-6)
    # Of 2,400 new targets, not all independent, four in five are within the interval.
    new = regressor.sample_y(X, 60, random_state=1)
    lower, upper = (each[:, None] for each in regressor.predict_interval(X, 0.8))
    assert np.mean((new > lower) & (new < upper)) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_only_the_networks_that_are_drawn_are_evaluated(kind, request, monkeypatch):
    estimator, evaluated = request.getfixturevalue(kind), []
    outputs = predicting._outputs

    def counted(network, parameters, inputs):
        evaluated.append(len(next(iter(parameters.values()))))
        return outputs(network, parameters, inputs)

    monkeypatch.setattr(predicting, "_outputs", counted)
    estimator.sample_y(X, 7, random_state=1, noise=False)
    assert evaluated == [7]
    assert estimator.sample_y(X, 100, random_state=1, noise=False).shape[-1] == 100
    assert evaluated == [7, len(set(np.random.RandomState(1).choice(60, 100)))]


def test_noise_is_new_for_each_draw_of_a_network(regressor):
    state = np.random.RandomState(1)
    chosen, seed = state.choice(60, 7, replace=False), state.randint(2**31 - 1)
    few = regressor.sample_y(X, 7, random_state=1)
    every = regressor.ensemble_.posterior_predictive(X.to_numpy(), seed=seed)[..., 0]
    np.testing.assert_allclose(few, every[chosen].T, rtol=1e-6)
    many = regressor.sample_y(X, 500, random_state=1)
    assert len(np.unique(many[0])) > 490  # except for ties in float32


def test_samples_for_many_rows_are_made_in_parts(regressor, monkeypatch):
    whole = regressor.sample_y(X, 60, random_state=1, noise=False)
    monkeypatch.setattr("tensorbnn.estimators.base.MOST_VALUES", 60 * 15)  # 40 rows: three parts
    parts = regressor.sample_y(X, 60, random_state=1, noise=False)
    np.testing.assert_allclose(parts, whole, rtol=1e-6)  # the same networks, to rounding
    new = regressor.sample_y(X, 60, random_state=1)
    assert new.shape == (40, 60)
    # The first part's noise is not that of the second: within five standard errors of none.
    noise = new - parts
    first, second = noise[:13].ravel(), noise[14:27].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(first.size)


def test_several_outputs():
    y = pd.DataFrame({"sum": Y, "difference": 20 * X["a"] - 0.1 * X["b"]})
    regressor = tb.BNNRegressor(**FEW, sampler=QuickHMC()).fit(X, y)
    mean, sd = regressor.predict(X, return_std=True)
    lower, upper = regressor.predict_interval(X)
    assert mean.shape == sd.shape == lower.shape == upper.shape == (40, 2)
    assert regressor.sample_y(X, 5).shape == (40, 2, 5)
    # Closer to its own output than to the other: a thousand apart.
    assert np.all(np.abs(mean - y) < 500)
    assert set(regressor.ensemble_.hyperparameters) >= {"likelihood.sd.0", "likelihood.sd.1"}
    with pytest.raises(
        ValueError, match="`noise_sd` has 3 numbers, but `y` has 2 columns: give one"
    ):
        clone(regressor).set_params(noise_sd=[0.1, 0.2, 0.3]).fit(X, y)


@pytest.mark.parametrize(
    ("noise", "expected"), [(0.5, (0.5, 0.5)), ([0.5, 30.0], (0.5, 30.0)), ((0.5,), (0.5, 0.5))]
)
@pytest.mark.filterwarnings("ignore::tensorbnn.RunWarning")  # which says that 5e-6 is small
def test_known_noise_of_several_outputs(noise, expected):
    y = np.column_stack([X["a"], 1000 * X["b"]])
    regressor = tb.BNNRegressor(**FEW, noise_sd=noise, sampler=QuickHMC()).fit(X, y)
    known = np.asarray(regressor.ensemble_.likelihood.sd) * regressor.ensemble_.scaling.y_scale
    np.testing.assert_allclose(known, expected)


def test_predictions_of_a_classifier(classifier):
    assert classifier.classes_.tolist() == CLASSES.tolist()
    probability = classifier.predict_proba(X)
    prediction = classifier.ensemble_.predict(X.to_numpy(), progress=False)
    np.testing.assert_allclose(probability, prediction.mean, rtol=1e-6)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(
        classifier.predict(X), classifier.classes_[probability.argmax(axis=1)]
    )
    assert classifier.score(X, LABELS) > 0.8
    np.testing.assert_array_equal(classifier.predict_log_proba(X), np.log(probability))
    lower, upper = classifier.predict_interval(X, 0.9)
    assert lower.shape == upper.shape == (40, 3)
    draws = classifier.sample_y(X, 60, noise=False)
    assert draws.shape == (40, 3, 60)
    np.testing.assert_allclose(draws.mean(axis=-1), probability, atol=1e-6)
    new = classifier.sample_y(X, 60)
    assert new.shape == (40, 60)
    assert set(np.unique(new)) == set(CLASSES)
    # Five standard errors of a mean over 2,400 classes.
    share = np.mean(new == "two")
    assert share == pytest.approx(probability[:, 2].mean(), abs=5 * np.sqrt(0.25 / 2400))


def test_two_classes_have_one_output():
    labels = np.where(X["a"] > 5, 7, -3)
    classifier = tb.BNNClassifier(**FEW, sampler=QuickHMC()).fit(X, labels)
    assert classifier.ensemble_.likelihood == tb.Bernoulli()
    assert classifier.classes_.tolist() == [-3, 7]
    ends = pd.DataFrame({"a": [0.0, 10.0], "b": [0.0, 0.0]})
    probability = classifier.predict_proba(ends)
    assert probability[0, 0] > 0.5
    assert probability[1, 1] > 0.5
    lower, upper = classifier.predict_interval(ends)
    np.testing.assert_allclose(lower, 1 - upper[:, ::-1], atol=1e-7)
    assert np.all((lower <= probability) & (probability <= upper))
    assert classifier.sample_y(X, 6, noise=False).shape == (40, 2, 6)


# Pickles.

LOADER = """
import pickle, sys
import numpy as np
estimator = pickle.load(open(sys.argv[1], "rb"))
X = np.load(sys.argv[2])
np.save(sys.argv[3], estimator.predict(X) if sys.argv[4] == "0" else estimator.predict_proba(X))
"""


class Recorder(pickle.Unpickler):
    """Remembers the modules of whatever a pickle names."""

    modules: ClassVar[set[str]] = set()

    def find_class(self, module, name):
        self.modules.add(module)
        return super().find_class(module, name)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_pickle_is_read_by_another_process(kind, request, tmp_path):
    estimator = request.getfixturevalue(kind)
    data = pickle.dumps(estimator, protocol=5)
    Recorder.modules.clear()
    Recorder(io.BytesIO(data)).load()
    ours = {name for name in Recorder.modules if not name.startswith("numpy.")}
    assert ours <= {f"tensorbnn.estimators.{kind}", "numpy"}
    (tmp_path / "pickle").write_bytes(data)
    np.save(tmp_path / "x.npy", X.to_numpy())
    files = [str(tmp_path / name) for name in ("pickle", "x.npy", "p.npy")]
    is_classifier = kind == "classifier"
    code = [sys.executable, "-W", "ignore", "-c", LOADER, *files, str(int(is_classifier))]
    subprocess.run(code, check=True, timeout=300)
    expected = estimator.predict_proba(X) if is_classifier else estimator.predict(X)
    np.testing.assert_array_equal(np.load(files[-1]), expected)


def test_all_of_an_estimator_is_in_its_pickle(regressor, tmp_path):
    joblib.dump(regressor, tmp_path / "regressor.joblib")
    for again in (
        joblib.load(tmp_path / "regressor.joblib"),
        pickle.loads(pickle.dumps(regressor)),
    ):
        assert again.get_params() == regressor.get_params()
        assert again.diagnosis_.verdict == regressor.diagnosis_.verdict
        np.testing.assert_array_equal(again.diagnosis_.rhat, regressor.diagnosis_.rhat)
        assert again.diagnosis_.hyperparameters == regressor.diagnosis_.hyperparameters
        np.testing.assert_array_equal(again.predict_interval(X), regressor.predict_interval(X))
        ours, theirs = again.ensemble_, regressor.ensemble_
        assert (ours.network, ours.likelihood) == (theirs.network, theirs.likelihood)
        assert ours.reports == theirs.reports
        np.testing.assert_array_equal(ours._store.data()["x"], theirs._store.data()["x"])
        assert again.feature_names_in_.tolist() == ["a", "b"]


def test_a_pickle_keeps_findings_about_the_fit(regressor):
    found = PriorConflict(1, 9, "likelihood.sd", 3.0, 0.1, 0.9)
    verdict = dataclasses.replace(regressor.diagnosis_.verdict, findings=(found,))
    other = copy.copy(regressor)
    other.diagnosis_ = dataclasses.replace(regressor.diagnosis_, verdict=verdict)
    assert pickle.loads(pickle.dumps(other)).diagnosis_.verdict == verdict


def test_a_pickle_remembers_that_a_sampler_is_not_exact():
    regressor = tb.BNNRegressor(**FEW | {"hidden_layer_sizes": (), "sampler": tb.SGHMC()}).fit(X, Y)
    again = pickle.loads(pickle.dumps(regressor))
    ours, theirs = (each.ensemble_.diagnose(X.to_numpy()).verdict for each in (again, regressor))
    assert isinstance(ours.findings[1], KineticTemperature)
    assert ours == theirs


@dataclass(frozen=True)
class Flat(tb.Prior):
    """A prior of the user's own."""

    def log_density(self, value):
        return 0 * value

    def sample(self, key, shape):
        raise NotImplementedError


def test_options_are_in_a_pickle():
    options = {
        "weight_prior": tb.Normal(0, tb.Hyper(1.0)),
        "bias_prior": Flat(),
        "activation": tb.ReLU(),
        "sampler": tb.HMC(target_acceptance=0.8),
        "until": tb.Converged(ess=100),
    }
    estimator = tb.BNNRegressor([5, 5], **options)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.get_params() == estimator.get_params()
    assert clone(estimator).get_params() == estimator.get_params()


# As a part of scikit-learn.


def test_search_in_a_pipeline():
    few = FEW | {"sampler": QuickHMC()}
    pipeline = make_pipeline(StandardScaler(), tb.BNNRegressor(**few))
    search = GridSearchCV(pipeline, {"bnnregressor__draws": [20, 30]}, cv=2)
    search.fit(X, Y)
    assert search.best_params_["bnnregressor__draws"] in (20, 30)
    assert search.predict(X).shape == (40,)
    scores = cross_val_score(pipeline, X, Y, cv=2)
    np.testing.assert_array_equal(
        scores, [search.cv_results_[f"split{fold}_test_score"][1] for fold in (0, 1)]
    )


def test_names_of_features(regressor):
    assert regressor.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.predict(X.rename(columns={"a": "c"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        regressor.predict(X[["b", "a"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        regressor.predict(X.to_numpy())


def test_types_of_pandas(regressor, classifier):
    """Columns that may hold missing values, and categories as classes."""
    few = FEW | {"draws": 10}
    nullable, targets = X.astype("Float64"), Y.astype("Float64")
    expected = tb.BNNRegressor(**few).fit(X, Y).predict(X)
    found = tb.BNNRegressor(**few).fit(nullable, targets).predict(nullable)
    np.testing.assert_array_equal(found, expected)
    nullable.iloc[3, 0] = pd.NA
    with pytest.raises(ValueError, match="Input X contains NaN"):
        regressor.predict(nullable)
    again = tb.BNNClassifier(**FEW).fit(X, pd.Series(pd.Categorical(LABELS)))
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    assert again.predict(X).tolist() == classifier.predict(X).tolist()


def test_random_state():
    few = FEW | {"sampler": QuickHMC(), "random_state": np.random.RandomState(5)}
    moving = tb.BNNRegressor(**few)
    first, second = moving.fit(X, Y).predict(X), moving.fit(X, Y).predict(X)
    assert np.all(first != second)
    again = tb.BNNRegressor(**few | {"random_state": np.random.RandomState(5)}).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), first)


# What goes wrong.


def test_nothing_is_predicted_before_fit():
    for method in ("predict", "predict_interval", "sample_y"):
        with pytest.raises(NotFittedError):
            getattr(tb.BNNRegressor(), method)(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hidden_layer_sizes": "50"},
            r"`hidden_layer_sizes` must be numbers of units such as \(50, 50\), got '50'",
        ),
        (
            {"hidden_layer_sizes": None},
            r"`hidden_layer_sizes` must be numbers of units such as \(50, 50\), got None",
        ),
        ({"hidden_layer_sizes": (5.5,)}, r"`hidden_layer_sizes` must be numbers of units"),
        (
            {"hidden_layer_sizes": {5: 3}},
            r"`hidden_layer_sizes` must be numbers of units .* got {5: 3}",
        ),
        (
            {"hidden_layer_sizes": iter((5, 3))},
            r"`hidden_layer_sizes` must be numbers of units .* got <tuple_iterator",
        ),
        (
            {"hidden_layer_sizes": True},
            r"`hidden_layer_sizes` must be numbers of units such as \(50, 50\), got True",
        ),
        (
            {"hidden_layer_sizes": (0,)},
            r"`hidden_layer_sizes` must be numbers of units",
        ),
        ({"activation": "Tan"}, r"`activation` must be a layer or one of \['elu', .*got 'Tan'"),
        ({"activation": ["tanh"]}, r"`activation` must be a layer or one of .*got \['tanh'\]"),
        ({"noise_sd": -1.0}, r"`noise_sd` must be a positive number, one for each .* got -1.0"),
        ({"noise_sd": np.inf}, r"`noise_sd` must be a positive number, .* or None, got inf"),
        (
            {"noise_sd": [0.1, "low"]},
            r"`noise_sd` must be a positive number, .* got \[0.1, 'low'\]",
        ),
        ({"until": "later"}, r"`until` must be 'converged', None, or an object .* got 'later'"),
        ({"until": np.arange(3)}, r"`until` must be 'converged', None, or .* got array\(\[0, 1, 2"),
        ({"draws": 3}, r"`draws` must be a whole number of at least 4, got 3"),
        ({"chains": 0}, r"`chains` must be a whole number of at least 1, got 0"),
        ({"max_minutes": -1}, r"`max_minutes` must be a positive number, got -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tb.BNNRegressor(**FEW | options).fit(X, Y)


@pytest.mark.parametrize("name", ["weight_prior", "bias_prior"])
def test_a_number_is_not_a_prior(name):
    with pytest.raises(TypeError, match=rf"`{name}` of Dense must be a prior .* got 0.0"):
        tb.BNNRegressor(**FEW | {name: 0.0}).fit(X, Y)


@pytest.mark.parametrize("targets", [LABELS, LABELS[:, None], np.arange(40).astype(str)])
def test_a_regressor_wants_numbers(targets):
    with pytest.raises(ValueError, match=r"`y` must hold numbers, got .* use BNNClassifier"):
        tb.BNNRegressor(**FEW).fit(X, targets)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_units_beyond_all_numbers(factor):
    with pytest.raises(ValueError, match=r"column 1 of `X` can't be standardized: it goes from "):
        tb.BNNRegressor(**FEW, noise_sd=0.1).fit(X * [1.0, factor], Y)
    with pytest.raises(ValueError, match=r"column 1 of `X` can't be standardized: it goes from "):
        tb.BNNClassifier(**FEW).fit(X * [1.0, factor], LABELS)
    for noise in (None, 0.1):
        with pytest.raises(ValueError, match=r"column 0 of `y` can't be standardized: it goes "):
            tb.BNNRegressor(**FEW, noise_sd=noise).fit(X, Y * factor)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_targets_are_refused(missing):
    one = [missing, *Y[1:]]
    for targets in (one, [[each, 2.0] for each in one]):
        with pytest.raises(ValueError, match=r"Input (y )?contains NaN"):
            tb.BNNRegressor(**FEW).fit(X, targets)


def test_a_fit_that_fails_leaves_nothing_to_predict_with(classifier):
    with pytest.raises(ValueError, match="one class where weights are above 0: 'two'"):
        (failed := clone(classifier)).fit(X, np.full(40, "two"))
    again = pickle.loads(pickle.dumps(classifier))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        again.fit(X, np.column_stack([LABELS, LABELS]))
    for estimator in (failed, again):
        for method in ("predict", "predict_proba", "predict_interval", "sample_y"):
            with pytest.raises(NotFittedError):
                getattr(estimator, method)(X)


def test_warnings_are_ours_and_those_of_scikit_learn():
    with pytest.warns(tb.ConvergenceWarning) as caught:
        regressor = tb.BNNRegressor(**FEW | {"sampler": QuickHMC()}).fit(X, Y)
    (warning,) = (each.message for each in caught)
    assert isinstance(warning, ConvergenceWarning)
    assert warning.verdict == regressor.diagnosis_.verdict
    assert pickle.loads(pickle.dumps(warning)).verdict == warning.verdict


@dataclass(frozen=True)
class Enough:
    """A stopping rule of the user's own."""

    draws: int

    def estimate(self, ensemble):
        return ensemble.num_draws >= self.draws


def test_a_stopping_rule_of_the_users_own():
    options = FEW | {"sampler": QuickHMC(), "until": Enough(50)}
    assert tb.BNNRegressor(**options).fit(X, Y).ensemble_.num_draws >= 50


def test_error_bars():
    """Targets with known standard deviations: a weighted linear regression."""
    sds = np.linspace(0.5, 4.0, 40)
    options = {"weight_prior": tb.Normal(0, 1), "bias_prior": tb.Normal(0, 1)}
    options |= {"burn_in": 200, "random_state": 1, "dtype": "float64"}
    regressor = tb.BNNRegressor((), **options).fit(X, Y, y_sd=pd.Series(sds))
    at = np.array([[5.0, 0.0], [8.0, 300.0], [0.0, -200.0]])
    x, y = X.to_numpy(), Y.to_numpy()
    design = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(40)])
    precision = design.T @ (design / sds[:, None] ** 2) * y.var() + np.eye(3)
    scaled = (y - y.mean()) / y.std()
    solved = np.linalg.solve(precision, design.T @ (scaled / sds**2) * y.var())
    new = np.column_stack([(at - x.mean(axis=0)) / x.std(axis=0), np.ones(3)])
    errors = regressor.ensemble_.diagnose(at, progress=False).mcse_mean.ravel()
    mean = regressor.predict(pd.DataFrame(at, columns=["a", "b"]))
    np.testing.assert_array_less(np.abs(mean - (y.mean() + y.std() * new @ solved)), 4 * errors)


@pytest.mark.parametrize(
    ("sds", "message"),
    [
        (
            np.ones(39),
            r"standard deviation for each value of `y`, of shape \(40,\), got shape \(39,",
        ),
        (np.zeros(40), "got values of 0 or below"),
        (np.full(40, np.nan), "y_sd contains NaN"),
    ],
)
def test_bad_error_bars(sds, message):
    with pytest.raises(ValueError, match=message):
        tb.BNNRegressor(**FEW).fit(X, Y, y_sd=sds)


def test_bad_weights():
    with pytest.raises(ValueError, match=r"Negative values in data passed to `?sample_weight"):
        tb.BNNRegressor(**FEW).fit(X, Y, sample_weight=np.linspace(-1, 1, 40))
    message = r"`sample_weight` must be a number for each of the 40 rows of `X`, .* got shape "
    for shape, said in ((39, r"\(39,\)"), ((40, 2), r"\(40, 2\)")):
        with pytest.raises(ValueError, match=message + said):
            tb.BNNRegressor(**FEW).fit(X, Y, sample_weight=np.ones(shape))
    with pytest.raises(ValueError, match="needs at least two classes, but `y` has one class"):
        tb.BNNClassifier(**FEW).fit(X, LABELS, sample_weight=LABELS == "two")


@pytest.mark.parametrize("weight", [2.0, np.array(2.0)])
def test_one_weight_for_all(weight):
    few = FEW | {"sampler": QuickHMC()}
    one = tb.BNNRegressor(**few).fit(X, Y, sample_weight=weight).predict(X)
    np.testing.assert_array_equal(
        one, tb.BNNRegressor(**few).fit(X, Y, sample_weight=np.full(40, 2.0)).predict(X)
    )


def test_too_little_time_gives_networks_of_burn_in():
    few = FEW | {"sampler": QuickHMC(), "max_minutes": 1e-9}
    with pytest.warns(tb.ConvergenceWarning, match="these are networks of burn-in, not draws"):
        fitted = tb.BNNRegressor(**few).fit(X, Y)
    assert fitted.ensemble_.in_burn_in
    assert not fitted.diagnosis_.trustworthy
    assert np.all(np.isfinite(fitted.predict(X)))
    again = pickle.loads(pickle.dumps(fitted))
    assert again.ensemble_.in_burn_in
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_ctrl_c_before_there_is_anything_to_predict_with(monkeypatch):
    finish = Run.run

    def interrupted(run, backend, *, progress):
        run.plan = dataclasses.replace(run.plan, draws=3)
        ensemble = finish(run, backend, progress=progress)
        run.store.update(status="interrupted")
        return ensemble

    monkeypatch.setattr(Run, "run", interrupted)
    few = FEW | {"sampler": QuickHMC(), "max_minutes": None}
    with pytest.raises(KeyboardInterrupt):
        tb.BNNRegressor(**few).fit(X, Y)


def test_a_warning_for_chains_that_agree_but_diverge(monkeypatch):
    diagnose = Ensemble.diagnose

    def diverging(self, *rows, **options):
        verdict = Verdict(VerdictKind.USABLE, (Agree(1.001, 500.0), Divergences(0.09)))
        return dataclasses.replace(diagnose(self, *rows, **options), verdict=verdict)

    monkeypatch.setattr(Ensemble, "diagnose", diverging)
    with pytest.warns(ConvergenceWarning, match=r"predictions yet: R-hat is .*; but 9.0% of the"):
        tb.BNNRegressor(**FEW | {"sampler": QuickHMC()}).fit(X, Y)


@pytest.mark.parametrize("odd", [None, 1])
def test_classes_that_can_not_be_sorted(odd):
    labels = LABELS.astype(object)
    labels[3] = odd
    kinds = sorted([type(odd).__name__, "str"])
    message = rf"`y` must hold classes that can be sorted, but has values of the types \{kinds}"
    with pytest.raises(TypeError, match=message):
        tb.BNNClassifier(**FEW).fit(X, labels)
    with pytest.raises(TypeError, match="labels represented as bytes is not supported"):
        tb.BNNClassifier(**FEW).fit(X, LABELS.astype("S"))


def test_masked_values_are_missing(regressor):
    few, masked = FEW | {"sampler": QuickHMC()}, np.ma.masked_less(X.to_numpy(), -150)
    count = np.sum(X.to_numpy() < -150)
    assert count > 0
    with pytest.raises(ValueError, match=f"{count} values of `X` are masked"):
        tb.BNNRegressor(**few).fit(masked, Y)
    with pytest.raises(ValueError, match="1 values of `y` are masked"):
        tb.BNNClassifier(**few).fit(X, np.ma.array(np.arange(40) % 2, mask=np.arange(40) == 3))
    with pytest.raises(ValueError, match=f"{count} values of `X` are masked"):
        regressor.predict(masked)


def test_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
import tensorbnn as tb
assert "BNNRegressor" in dir(tb)
try:
    tb.BNNRegressor
except ImportError as error:
    print(error)
try:
    tb.BNNRegresor
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "BNNRegressor and BNNClassifier need scikit-learn: pip install 'tensorbnn[sklearn]'",
        "module 'tensorbnn' has no attribute 'BNNRegresor'",
    ]


def test_feature_importances():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    regressor = tb.BNNRegressor(
        (4,), relevance=np.True_, burn_in=200, draws=100, until=None, chains=2, random_state=0
    )
    with pytest.raises(NotFittedError):
        regressor.feature_importances_  # noqa: B018
    regressor.fit(x, 3 * x[:, 1] + 0.1 * rng.normal(size=60))
    assert regressor.feature_importances_.sum() == pytest.approx(1)
    assert np.all(regressor.feature_importances_[[0, 2]] < 0.15)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.feature_importances_, regressor.feature_importances_)
    plain = tb.BNNRegressor((2,), burn_in=10, draws=20, until=None, chains=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain.fit(x, x[:, 0])
    assert not hasattr(plain, "feature_importances_")
    with pytest.raises(ValueError, match="`relevance` must be True or False, got 'yes'"):
        tb.BNNClassifier(relevance="yes").fit(x, x[:, 0] > 0)
