"""Rows: parts of them keep their numbers and names, and a `Dataset` stands for a pair (x, y)."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.data import pack_dataset, unpack_dataset

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10.0)
NAMES = [f"well {letter}" for letter in "abcdefghij"]


@pytest.mark.parametrize("chosen", [slice(1, None, 4), np.array([1, 5, 9]), np.arange(10) % 4 == 1])
def test_a_part_keeps_numbers_and_names(chosen):
    part = tb.Dataset(X, Y, rows=np.arange(10) + 1, names=NAMES).take(chosen)
    np.testing.assert_array_equal(part.x, X[[1, 5, 9]])
    np.testing.assert_array_equal(part.y, [1, 5, 9])
    assert part.rows.tolist() == [2, 6, 10]
    assert [part.row_name(row) for row in range(3)] == ["well b", "well f", "well j"]


@pytest.mark.parametrize(("most", "rows"), [(3, [0, 4, 8]), (10, range(10)), (99, range(10))])
def test_rows_are_spread_evenly(most, rows):
    assert tb.Dataset(X).evenly(most).rows.tolist() == list(rows)


def test_a_split_is_disjoint_complete_and_seeded():
    data = tb.Dataset(X, Y)
    kept, aside = data.split(0.3, seed=1)
    assert len(aside) == 3
    assert sorted([*kept.rows, *aside.rows]) == list(range(10))
    assert aside.rows.tolist() == data.split(0.3, seed=1)[1].rows.tolist()
    assert aside.rows.tolist() != data.split(0.3, seed=2)[1].rows.tolist()
    for fraction in (0.0, 0.01, 0.99, 1.0):
        with pytest.raises(ValueError, match="must leave at least one of the 10 rows"):
            data.split(fraction)


def test_rows_are_called_by_few_inputs_or_by_number():
    assert tb.Dataset([0.25]).row_name(0) == "x = 0.25"
    assert tb.Dataset(X).row_name(1) == "x = (2, 3)"
    assert tb.Dataset(np.zeros((3, 4)), rows=[7, 8, 9]).row_name(2) == "row 9"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": Y[:3]}, "`x` has 10 rows but `y` has 3"),
        ({"rows": [1, 2]}, "`rows` must be a number for each of the 10 rows"),
        ({"names": ["a"]}, "`names` must be one for each of the 10 rows of `x`, got 1"),
        ({"y": np.ma.masked_less(Y, 3)}, "3 values of `y` are masked"),
    ],
)
def test_rows_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        tb.Dataset(X, **options)


def test_targets_that_are_needed():
    data = tb.Dataset(X)
    with pytest.raises(ValueError, match="the targets of these rows are unknown"):
        _ = data.targets
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(), X, Y)
    with pytest.raises(ValueError, match="`validation` must have targets"):
        posterior.prepare_validation(data)


def test_what_a_run_keeps_comes_back():
    data = tb.Dataset(X, Y)
    again = unpack_dataset(pack_dataset(data, "validation_"), "validation_")
    np.testing.assert_array_equal(again.x, data.x)
    np.testing.assert_array_equal(again.y, data.y)
    assert pack_dataset(None) == {}
    assert unpack_dataset(pack_dataset(data), "validation_") is None


@pytest.mark.slow
def test_a_dataset_is_a_pair():
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(), X, Y)
    options = {"chains": 2, "epochs": 3, "progress": False}
    one = tb.pretrain(posterior, validation=(X[:4], Y[:4]), **options)
    other = tb.pretrain(posterior, validation=tb.Dataset(X, Y).take(slice(4)), **options)
    np.testing.assert_array_equal(one.validation_loss, other.validation_loss)
