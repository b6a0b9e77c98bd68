"""The paper's metrics by hand; their names; every bad option."""

import functools

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.metrics import named_metrics

RNG = np.random.default_rng(0)
PREDICTED, TRUE = RNG.normal(size=(2, 7, 3))


@pytest.mark.parametrize("exp", [False, True])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (-3.0, 0.5), (10, 2)])
def test_squared_and_percent_error_undo_the_normalization_of_both_sides(mean, sd, exp):
    total_squared = total_percent = 0.0
    for predicted, true in zip(PREDICTED.flat, TRUE.flat, strict=True):
        predicted, true = predicted * sd + mean, true * sd + mean
        if exp:
            predicted, true = np.exp(predicted), np.exp(true)
        total_squared += (predicted - true) ** 2
        total_percent += 100 * abs(predicted - true) / abs(true)
    squared = tb.SquaredError(mean=mean, sd=sd, exp=exp)(PREDICTED, TRUE)
    percent = tb.PercentError(mean=mean, sd=sd, exp=exp)(PREDICTED, TRUE)
    np.testing.assert_allclose(squared, total_squared / 21, rtol=1e-12)
    np.testing.assert_allclose(percent, total_percent / 21, rtol=1e-12)
    assert type(squared) is type(percent) is float


def test_a_perfect_prediction():
    for metric in (tb.SquaredError, tb.PercentError):
        assert metric(mean=2, sd=3, exp=True)(TRUE, TRUE) == 0
    assert tb.Accuracy()([[0.9], [0.1]], [[1], [0]]) == 1


def test_small_numbers_are_summed_in_double_precision():
    predicted = np.full((10_000, 1), 1.1, np.float32)
    error = tb.SquaredError()(predicted, np.ones_like(predicted))
    assert error == pytest.approx((float(np.float32(1.1)) - 1) ** 2, rel=1e-12)


def test_what_is_undefined_comes_out_as_such_without_a_warning():
    assert tb.PercentError()([[1.0], [1.0]], [[0.0], [1.0]]) == np.inf
    assert np.isnan(tb.PercentError()([[0.0]], [[0.0]]))
    assert tb.SquaredError(mean=1e4, exp=True)([[0.0]], [[-1e5]]) == np.inf


def test_accuracy_of_two_classes():
    # 0.5 is not above 0.5, and so a 0.
    assert tb.Accuracy()([[0.2], [0.7], [0.6], [0.5]], [[0], [1], [0], [0]]) == 0.75
    assert tb.Accuracy()([0.2, 0.7], [1, 1]) == 0.5
    several = tb.Accuracy()([[0.2, 0.9], [0.7, 0.1]], [[0, 1], [0, 0]])
    assert several == 0.75


def test_accuracy_of_many_classes():
    probabilities = [[0.5, 0.2, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]]
    assert tb.Accuracy()(probabilities, [[0], [2], [1], [1]]) == 0.75
    assert tb.Accuracy()(probabilities, np.asarray([0, 2, 1, 1])) == 0.75
    assert tb.Accuracy(mean=3, sd=2, exp=True)(probabilities, [[0], [2], [1], [1]]) == 0.75


def test_accuracy_of_normalized_classes():
    classes = np.asarray([[0.0], [1.0], [1.0], [0.0]])
    mean, sd = 0.3, 0.4
    predicted = (np.asarray([[0.4], [0.6], [0.4], [0.6]]) - mean) / sd
    assert tb.Accuracy(mean=mean, sd=sd)(predicted, (classes - mean) / sd) == 0.5


@pytest.mark.parametrize("metric", [tb.SquaredError, tb.PercentError, tb.Accuracy])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sd": 0.0}, "`sd` must be a positive number, got 0.0"),
        ({"sd": -1}, "`sd` must be a positive number, got -1"),
        ({"sd": np.inf}, "`sd` must be a positive number, got inf"),
        ({"sd": "1"}, "`sd` must be a positive number, got '1'"),
        ({"mean": np.nan}, "`mean` must be a finite number, got nan"),
        ({"mean": None}, "`mean` must be a finite number, got None"),
        ({"mean": True}, "`mean` must be a finite number, got True"),
        ({"mean": [1.0]}, r"`mean` must be a finite number, got \[1.0\]"),
        ({"exp": 1}, "`exp` must be True or False, got 1"),
    ],
    ids=str,
)
def test_bad_options(metric, options, message):
    with pytest.raises(ValueError, match=message):
        metric(**options)


def test_numbers_of_numpy_are_numbers():
    metric = tb.SquaredError(mean=np.float32(2), sd=np.int64(3), exp=np.bool_(False))
    assert metric([[1.0]], [[0.0]]) == 9


@pytest.mark.parametrize(
    ("metric", "shapes", "message"),
    [
        (tb.SquaredError, [(4, 3), (4, 1)], "squared_error compares numbers.*use Accuracy"),
        (tb.PercentError, [(4, 1), (4, 2)], r"\(4, 1\) and targets \(4, 2\) differ in shape"),
        (tb.Accuracy, [(4, 3), (4, 2)], "must be one column of class labels, or 0 and 1"),
        (tb.Accuracy, [(4, 3), (3, 1)], "there are 4 predictions for 3 targets"),
        (tb.SquaredError, [(4, 3, 1), (4, 3, 1)], r"must be \(rows, outputs\), got \(4, 3, 1\)"),
        (tb.SquaredError, [(0, 1), (0, 1)], r"must be \(rows, outputs\), got \(0, 1\)"),
    ],
)
def test_bad_shapes(metric, shapes, message):
    with pytest.raises(ValueError, match=message):
        metric()(*(np.ones(shape) for shape in shapes))


def bias(predictions, targets):
    return float(np.mean(predictions - targets))


class Named:
    name = "mine"

    def __call__(self, predictions, targets):
        return 0.0


class Nameless:
    def __call__(self, predictions, targets):
        return 0.0


def test_names():
    metrics = [tb.SquaredError(), tb.PercentError(), tb.Accuracy(), bias, Named(), Nameless()]
    assert list(named_metrics(metrics)) == [
        *("squared_error", "percent_error", "accuracy", "bias", "mine", "Nameless")
    ]
    assert named_metrics(None) == named_metrics([]) == {}


def test_a_second_metric_of_a_name_gets_a_number():
    def bias_2(predictions, targets):
        return 0.0

    metrics = [bias, bias_2, bias, tb.Accuracy(), tb.Accuracy(sd=2), bias]
    named = named_metrics(metrics)
    assert list(named) == ["bias", "bias_2", "bias_3", "accuracy", "accuracy_2", "bias_4"]
    assert list(named.values()) == metrics


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (tb.SquaredError(), r"`metrics` must be a list such as \[tb.SquaredError\(\)\]"),
        ("accuracy", "`metrics` must be a list"),
        ([tb.SquaredError], r"must hold metrics such as tb.SquaredError\(\) or functions"),
        (["accuracy"], "got 'accuracy'"),
    ],
    ids=str,
)
def test_what_is_no_metric(metrics, message):
    with pytest.raises(TypeError, match=message):
        named_metrics(metrics)


def test_a_partial_function_is_a_metric():
    assert list(named_metrics([functools.partial(bias)])) == ["partial"]
