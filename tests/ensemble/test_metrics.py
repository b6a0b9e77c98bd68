"""The metrics against values by hand, their names, and invalid metrics."""

import functools

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.metrics import named_metrics

RNG = np.random.default_rng(0)
PREDICTED, TRUE = RNG.normal(size=(2, 7, 3))
METRICS = [tb.MeanSquaredError(), tb.MeanAbsolutePercentageError(), tb.Accuracy()]


def test_squared_and_percentage_error_by_hand():
    total_squared = total_percentage = 0.0
    for predicted, true in zip(PREDICTED.flat, TRUE.flat, strict=True):
        total_squared += (predicted - true) ** 2
        total_percentage += 100 * abs(predicted - true) / abs(true)
    squared = tb.MeanSquaredError()(PREDICTED, TRUE)
    percentage = tb.MeanAbsolutePercentageError()(PREDICTED, TRUE)
    np.testing.assert_allclose(squared, total_squared / 21, rtol=1e-12)
    np.testing.assert_allclose(percentage, total_percentage / 21, rtol=1e-12)
    assert type(squared) is type(percentage) is float


@pytest.mark.parametrize("metric", METRICS)
def test_one_column_may_be_one_dimensional(metric):
    flat = metric(PREDICTED[:, 0], TRUE[:, 0])
    assert flat == metric(PREDICTED[:, :1], TRUE[:, :1]) == metric(PREDICTED[:, 0], TRUE[:, :1])


def test_a_perfect_prediction():
    for metric in METRICS[:2]:
        assert metric(TRUE, TRUE) == 0
    assert tb.Accuracy()([[0.9], [0.1]], [[1], [0]]) == 1


def test_small_numbers_are_summed_in_double_precision():
    predicted = np.full((10_000, 1), 1.1, np.float32)
    error = tb.MeanSquaredError()(predicted, np.ones_like(predicted))
    assert error == pytest.approx((float(np.float32(1.1)) - 1) ** 2, rel=1e-12)


def test_undefined_values_are_infinite_or_nan_without_a_warning():
    assert tb.MeanAbsolutePercentageError()([[1.0], [1.0]], [[0.0], [1.0]]) == np.inf
    assert np.isnan(tb.MeanAbsolutePercentageError()([[0.0]], [[0.0]]))
    assert tb.MeanSquaredError()([[0.0]], [[1e200]]) == np.inf


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


@pytest.mark.parametrize(
    ("metric", "shapes", "message"),
    [
        (tb.MeanSquaredError, [(4, 3), (4, 1)], "MeanSquaredError compares numbers.*use Accuracy"),
        (
            tb.MeanAbsolutePercentageError,
            [(4, 1), (4, 2)],
            r"\(4, 1\) and targets \(4, 2\) differ in shape",
        ),
        (tb.Accuracy, [(4, 3), (4, 2)], "must be class labels, or 0 and 1"),
        (tb.Accuracy, [(4, 3), (3, 1)], "there are 4 predictions for 3 targets"),
        (
            tb.MeanSquaredError,
            [(4, 3, 1), (4, 3, 1)],
            r"must be \(rows, outputs\), got \(4, 3, 1\)",
        ),
        (tb.MeanSquaredError, [(0, 1), (0, 1)], r"must be \(rows, outputs\), got \(0, 1\)"),
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
    assert list(named_metrics([*METRICS, bias, Named(), Nameless()])) == [
        *("mean_squared_error", "mean_absolute_percentage_error", "accuracy"),
        *("bias", "mine", "Nameless"),
    ]
    assert named_metrics(None) == named_metrics([]) == {}


def test_a_second_metric_of_a_name_gets_a_number():
    def bias_2(predictions, targets):
        return 0.0

    metrics = [bias, bias_2, bias, tb.Accuracy(), tb.Accuracy(), bias]
    named = named_metrics(metrics)
    assert list(named) == ["bias", "bias_2", "bias_3", "accuracy", "accuracy_2", "bias_4"]
    assert list(named.values()) == metrics


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (tb.MeanSquaredError(), r"`metrics` must be a list such as \[tb.MeanSquaredError\(\)\]"),
        ("accuracy", "`metrics` must be a list"),
        ([tb.MeanSquaredError], r"must hold metrics such as tb.MeanSquaredError\(\) or functions"),
        (["accuracy"], "got 'accuracy'"),
    ],
    ids=str,
)
def test_invalid_metrics(metrics, message):
    with pytest.raises(TypeError, match=message):
        named_metrics(metrics)


def test_a_partial_function_is_a_metric():
    assert list(named_metrics([functools.partial(bias)])) == ["partial"]


@pytest.mark.parametrize("kind", [tb.MeanSquaredError, tb.MeanAbsolutePercentageError, tb.Accuracy])
def test_masked_and_ragged_values_are_refused(kind):
    good, masked = [0.0, 1.0], np.ma.masked_array([0.0, 1.0], mask=[False, True])
    ragged = [[1], [2, 3]]
    for bad, message in ((masked, "1 values of `{}` are masked"), (ragged, "`{}` must be an")):
        with pytest.raises(ValueError, match=message.format("predictions")):
            kind()(bad, good)
        with pytest.raises(ValueError, match=message.format("targets")):
            kind()(good, bad)
