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


def test_a_part_keeps_error_bars_and_weights():
    data = tb.Dataset(X, Y, y_sd=(Y + 1) / 10, sample_weight=Y)
    part = data.take(slice(1, 4))
    np.testing.assert_array_equal(part.y_sd, [0.2, 0.3, 0.4])
    np.testing.assert_array_equal(part.sample_weight, [1, 2, 3])
    # A part may have no row of positive weight, as the rows that are held out may not.
    assert data.take(slice(1)).sample_weight.tolist() == [0]
    assert repr(data) == "Dataset(10 rows, 2 inputs, 1 target, y_sd, sample_weight)"


@pytest.mark.parametrize(("y", "y_sd"), [(Y, Y[:, None]), (Y[:, None], Y), (X, X)])
def test_error_bars_take_the_shape_of_the_targets(y, y_sd):
    assert tb.Dataset(X, y, y_sd=y_sd + 1).y_sd.shape == y.shape


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


def test_rows_are_named_by_few_inputs_or_by_number():
    assert tb.Dataset([0.25]).row_name(0) == "x = 0.25"
    assert tb.Dataset(X).row_name(1) == "x = (2, 3)"
    assert tb.Dataset(np.zeros((3, 4)), rows=[7, 8, 9]).row_name(2) == "row 9"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": Y[:3]}, "`x` has 10 rows but `y` has 3"),
        ({"rows": [1, 2]}, "`rows` must be a number for each of the 10 rows"),
        ({"names": ["a"]}, "`names` must be one name for each of the 10 rows"),
        ({"y": np.ma.masked_less(Y, 3)}, "3 values of `y` are masked"),
        ({"y_sd": Y}, "`y_sd` must be None, as `y` is"),
        ({"y": Y, "y_sd": 0.1}, r"`y_sd` must be \(rows, columns\), got shape \(\)"),
        ({"y": Y, "y_sd": X}, r"`y_sd` must have the shape of `y`, \(10,\), got \(10, 2\)"),
        ({"y": Y, "y_sd": Y - 2}, r"`y_sd` must be finite and positive in row 0, got -2\.0"),
        ({"y": X, "y_sd": X * np.nan}, "`y_sd` must be finite and positive in row 0, got nan"),
        ({"sample_weight": X}, r"the shape \(10,\), a number for each row, got \(10, 2\)"),
        (
            {"sample_weight": Y - 9},
            "`sample_weight` must be finite and at least 0 in row 0",
        ),
        ({"sample_weight": 0 * Y}, "`sample_weight` must be positive in some row"),
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
        posterior._prepare_validation(data)


def test_a_dataset_survives_packing():
    data = tb.Dataset(X, Y, y_sd=Y + 1, sample_weight=Y).take(slice(5))
    arrays = pack_dataset(data, "validation_")
    again = unpack_dataset(arrays, "validation_")
    assert list(arrays) == [f"validation_{name}" for name in ("x", "y", "y_sd", "sample_weight")]
    for name in ("x", "y", "y_sd", "sample_weight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    assert again.rows.tolist() == [0, 1, 2, 3, 4]
    assert list(pack_dataset(tb.Dataset(X, Y))) == ["x", "y"]
    assert pack_dataset(None) == {}
    assert unpack_dataset(pack_dataset(data), "validation_") is None


@pytest.mark.slow
def test_a_dataset_is_a_pair():
    posterior = tb.Posterior(tb.Network(tb.Dense(1), inputs=2), tb.Gaussian(), X, Y)
    options = {"chains": 2, "epochs": 3, "progress": False}
    one = tb.pretrain(posterior, validation=(X[:4], Y[:4]), **options)
    other = tb.pretrain(posterior, validation=tb.Dataset(X, Y).take(slice(4)), **options)
    np.testing.assert_array_equal(one.validation_loss, other.validation_loss)
