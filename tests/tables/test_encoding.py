"""Columns become the right numbers, the same ones for every table, or an error explains why."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tensorbnn.tables.encoding import learn, plain_encoding, restore_encoding
from tensorbnn.tables.reading import Table, TableError

TEXTS = {
    "age": ["30", "41.5", None, "22"],
    "color": ["red", "blue", "red", "green"],
    "zip": ["10", "9", "10", "10.0"],
    "y": ["1", "2", "3", "4"],
}


def table(columns, first=0):
    return Table(Path("t.csv"), columns, first)


def test_numbers_categories_and_missing_rows():
    encoding = learn(table(TEXTS), ["y"], categorical=["zip"], missing="drop")
    # Texts in their order, numbers by their size; the category of a dropped row alone is none.
    assert encoding.columns == (
        *("age", "color=blue", "color=green", "color=red", "zip=9", "zip=10"),
    )
    found = encoding.encode(table(TEXTS), targets=True)
    np.testing.assert_array_equal(found.rows, [1, 2, 4])
    np.testing.assert_array_equal(
        found.x, [[30, 0, 0, 1, 0, 1], [41.5, 1, 0, 0, 1, 0], [22, 0, 1, 0, 0, 1]]
    )
    np.testing.assert_array_equal(found.y, [[1], [2], [4]])
    assert encoding.task == "regression"
    again = restore_encoding(json.loads(json.dumps(asdict(encoding))))
    assert again == encoding


def test_texts_and_numbers_of_a_typed_file_are_the_same():
    encoding = learn(table(TEXTS), ["y"], categorical=["zip"], missing="drop")
    typed = dict(TEXTS, age=np.array([30, 41.5, np.nan, 22]), zip=np.array([10.0, 9, 10, 10]))
    one, two = (encoding.encode(table(each)).x for each in (TEXTS, typed))
    np.testing.assert_array_equal(one, two)


def test_classes():
    columns = {"x": np.arange(4.0), "y": ["10", "9", "b", "a"]}
    encoding = learn(table(columns), ["y"], task="classification")
    assert encoding.classes == ("9", "10", "a", "b")
    np.testing.assert_array_equal(
        encoding.encode(table(columns), targets=True).y, [[1], [0], [3], [2]]
    )
    assert learn(table({"x": ["1", "2"], "y": ["no", "yes"]}), ["y"]).task == "classification"
    assert learn(table({"x": ["1", "2"], "y": ["0", "1"]}), ["y"]).task == "regression"


def test_standard_deviations_of_targets():
    columns = {
        "s": ["0.1", None, "0.3", "4"],
        "y": ["1", "2", "3", "4"],
        "t": np.array([5.0, 6, 7, 8]),
        "x": ["-1", "-2", "-3", "-4"],
        "z": ["9", "8", "7", "6"],
    }
    sds = ["s", "t"]
    encoding = learn(table(columns), ["z", "y"], target_sds=sds, missing="drop")
    assert encoding.columns == ("x",)  # they are no inputs
    found = encoding.encode(table(columns), targets=True)
    np.testing.assert_array_equal(found.rows, [1, 3, 4])
    np.testing.assert_array_equal(found.x, [[-1], [-3], [-4]])
    np.testing.assert_array_equal(found.y, [[9, 1], [7, 3], [6, 4]])
    np.testing.assert_array_equal(found.y_sd, [[0.1, 5], [0.3, 7], [4, 8]])
    assert restore_encoding(json.loads(json.dumps(asdict(encoding)))) == encoding
    # A table without them has inputs all the same.
    np.testing.assert_array_equal(encoding.encode(table({"x": ["5"]})).x, [[5]])
    others = {name: columns[name] for name in "xyzs"}
    with pytest.raises(TableError, match=r"t\.csv has no column 't'"):
        encoding.encode(table(others), targets=True)
    # Targets may share one.
    shared = learn(table(columns), ["z", "y"], target_sds=["t", "t"], ignored=["s"])
    np.testing.assert_array_equal(shared.encode(table(columns), targets=True).y_sd[0], [5.0, 5.0])


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (
            ["1", "2", "0", "-1"],
            {},
            r"'s' has 0 in data row 3 of t\.csv \(and in 1 more row\): a s",
        ),
        ([None, "2", "-2", "1"], {"missing": "drop"}, r"'s' has -2 in data row 3 of t\.csv: a st"),
        (["1", "2", "inf", "1"], {}, r"'s' has inf in data row 3 of t\.csv: that is too"),
        (
            ["1", "2", "3 mm", "1"],
            {},
            r"'s' holds numbers, but has the text '3 mm' in data row 3",
        ),
        (["0,5"] * 4, {}, r"the text '0,5' in data row 1 .* a decimal point"),
        (["1", None, "3", "1"], {}, r"missing values in 1 of 4 rows \(1 in 's'\)"),
        (["1"] * 4, {"target_sds": ["e"]}, "has no column 'e'"),
        (["1"] * 4, {"target_sds": ["y"]}, "'y' is a target and can't hold standard deviations"),
        (
            ["1"] * 4,
            {"target_sds": ["s", "x"]},
            r"found 2 columns .* \(s, x\) for 1 target \(y\)",
        ),
        (["1"] * 4, {"categorical": ["s"]}, "not an input: leave out `categorical='s'`"),
        (
            ["1"] * 4,
            {"task": "classification"},
            "'y' has classes.*: leave out `target_sd='s'`",
        ),
    ],
)
def test_mistakes_with_standard_deviations(values, options, message):
    columns = table({"x": ["1", "2", "3", "4"], "y": ["1", "2", "3", "4"], "s": values})
    with pytest.raises(TableError, match=message):
        learn(columns, ["y"], **({"target_sds": ["s"]} | options)).encode(columns, targets=True)


def test_other_tables_need_only_the_inputs_in_any_order():
    encoding = learn(table({"a": ["1", "2"], "b": ["3", "5"], "y": ["1", "2"]}), ["y"])
    found = encoding.encode(table({"other": ["?"], "b": ["5"], "a": ["1"]}))
    np.testing.assert_array_equal(found.x, [[1, 5]])
    assert found.y is None


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"targets": ["z"]}, r"t\.csv has no column 'z': it has x, y"),
        ({}, {"ignored": ["z"]}, "has no column 'z'"),
        ({}, {"ignored": ["y"]}, "'y' is needed for the target and can't be ignored"),
        ({}, {"targets": ["y", "y"]}, "a target is given twice: y, y"),
        ({}, {"ignored": ["x"]}, "has no columns left to predict y from"),
        ({"x": ["1", "2", "2.5.", "4"]}, {}, r"text '2.5.' in data row 3 of t\.csv: correct it"),
        ({"x": ["1", "2", "2,5", "4"]}, {}, r"'2,5' in data row 3 of t\.csv: .*a decimal point"),
        ({"x": ["1,5", "2,5", "1,5", "4,0"]}, {}, r"'1,5' in data row 1 .*a decimal point"),
        ({"y": ["1,5", "2,5", "1,5", "4,0"]}, {}, r"'1,5' in data row 1 .*a decimal point"),
        ({"x": ["1", None, "2", "3"]}, {}, r"missing values in 1 of 4 rows \(1 in 'x'\).*drop"),
        ({"x": [None] * 4}, {"missing": "drop"}, "every row of t.csv has a missing value"),
        ({"x": ["a", "a", "a", "a"]}, {}, "has only one value, 'a'.*`ignore='x'`"),
        ({"x": ["1", "inf", "2", "3"]}, {}, r"'x' has inf in data row 2 .* too large to compute"),
        (
            {"x": ["1", "2", "3", "-1e300"]},
            {},
            r"'x' has -1e\+300 in data row 4 .*leave out the row",
        ),
        (
            {"x": ["1", "2", "2,500", "4"]},
            {},
            r"'2,500' in data row 3 .*without thousands separators",
        ),
        (
            {"x": ["1", "2,500.5", "4", "5"]},
            {},
            r"'2,500.5' in data row 2 .*without thousands separators",
        ),
        (
            {"x": ["1", "?", "-", "4", "5"], "y": ["1"] * 5},
            {},
            r"'\?' .*\(and in 1 more row\): .*empty",
        ),
        ({"x": ["1", "2", "3_0", "4"]}, {}, r"has the text '3_0' in data row 3"),
        ({"a b": ["u", "u", "u", "u"]}, {}, "has only one value, 'u'.*`ignore='a b'`"),
        ({}, {"targets": ["Y"]}, "no column 'Y': it has x, y$"),
        ({"flow": ["1"] * 4}, {"targets": ["flw"]}, r"it has x, y, flow \(did you mean 'flow'\?\)"),
        ({"y": ["a", "b", "a", "b"]}, {"task": "regression"}, "texts such as 'a'.*`task='class"),
        ({"z": ["a", "b", "a", "b"]}, {"targets": ["y", "z"]}, "classes are one column"),
    ],
)
def test_mistakes(columns, options, message):
    columns = {"x": ["1", "2", "3", "4"], "y": ["1", "2", "3", "4"]} | columns
    options = {"targets": ["y"]} | options
    with pytest.raises(TableError, match=message):
        learn(table(columns), **options).encode(table(columns), targets=True)


def test_one_column_alone():
    for name, message in {
        "a b": "one column, 'a b' .separated by commas, semicolons or tabs, not by spaces",
        "a|b": r"one column, 'a\\|b' .separated by commas, semicolons or tabs, not by '\\|'",
        "ab": "one column, 'ab'$",
    }.items():
        message = message.replace(" .sep", r" \(columns are sep")
        with pytest.raises(TableError, match=message):
            learn(table({name: ["1", "2"]}), ["b"])


def test_texts_that_are_not_categories():
    columns = {"x": [f"name-{each}" for each in range(60)], "y": np.arange(60.0)}
    with pytest.raises(TableError, match=r"60 different values.*`ignore='x'`"):
        learn(table(columns), ["y"])
    with pytest.raises(TableError, match=r"'y' .* 60 different values.*use `task='regression'`"):
        learn(table({"x": columns["y"], "y": columns["y"]}), ["y"], task="classification")


def test_a_different_text_in_each_row():
    columns = {"x": list("abcdefghij"), "y": [*map(str, range(10))]}
    message = "a different value in each row, such as 'a', which tells nothing: "
    with pytest.raises(TableError, match=f"{message}leave it out with `ignore='x'`"):
        learn(table(columns), ["y"])
    # Not --task regression, which refuses texts.
    with pytest.raises(
        TableError, match=f"{message}if these are numbers, write them without units"
    ):
        learn(table(columns), ["x"])
    with pytest.raises(TableError, match=r"'y' .*if it holds numbers, use `task='regression'`"):
        learn(table(columns | {"x": columns["y"]}), ["y"], task="classification")
    few = {name: values[:9] for name, values in columns.items()}
    assert len(learn(table(few), ["y"]).columns) == 9


def test_targets_that_contain_texts():
    columns = {"x": ["1", "2", "3"], "y": ["1", "2", "3 mm"]}
    with pytest.raises(TableError, match=r"'3 mm' in data row 3 .*, or use `task='classifi"):
        learn(table(columns), ["y"])
    with pytest.raises(TableError, match=r"'1,5' in data row 3 .*\(if .* use `task='classific"):
        learn(table(columns | {"y": ["1", "2", "1,5"]}), ["y"])
    message = "'y' is a target, not an input: if it holds classes, use `task='classification'`"
    with pytest.raises(TableError, match=message):
        learn(table(columns), ["y"], categorical=["y"])


def test_no_row_is_left():
    columns = {"x": ["1", "2"], "y": ["1", "2"]}
    encoding = learn(table(columns), ["y"], missing="drop")
    with pytest.raises(TableError, match=r"every row of t\.csv has a missing value"):
        encoding.encode(table({"x": [None, None]}))
    with pytest.raises(TableError, match=r"every row of t\.csv has a missing value"):
        encoding.encode(table({"x": ["1", None], "y": [None, "2"]}), targets=True)


def test_numbers_that_are_labels():
    texts = {"dose": ["0.1", "0.30", "1e-1", "3.0"], "y": ["1", "2", "3", "5"]}
    numbers = {name: np.array(column, float) for name, column in texts.items()}
    for columns in (texts, numbers):
        encoding = learn(table(columns), ["y"], categorical=["dose"])
        assert encoding.columns == ("dose=0.1", "dose=0.3", "dose=3")
    old = json.loads(json.dumps(asdict(encoding)))  # of a run that wrote them otherwise
    old["inputs"][0]["categories"] = ["0.10000000000000001", "0.29999999999999999", "3"]
    assert restore_encoding(old) == encoding


def test_a_text_among_numbers_with_commas():
    columns = {"x": [*(f"0,{each}" for each in range(11, 20)), "O,5"], "y": list("0123456789")}
    message = "'x' holds numbers, but has the text 'O,5' in data row 10"
    with pytest.raises(TableError, match=message):
        learn(table(columns), ["y"])
    few = {name: values[5:] for name, values in columns.items()}  # may be names
    assert len(learn(table(few), ["y"]).columns) == 5


def test_commas_may_be_categories():
    columns = {"x": ["1,5", "2,5", "1,5"], "y": ["1", "2", "3"]}
    found = learn(table(columns), ["y"], categorical=["x"])
    assert found.inputs[0].categories == ("1,5", "2,5")


def test_later_tables_that_do_not_fit():
    columns = {"x": ["1", "2"], "c": ["red", "blue"], "y": ["1", "2"]}
    encoding = learn(table(columns), ["y"])
    with pytest.raises(TableError, match="has no column 'c'"):
        encoding.encode(table({"x": ["1"]}))
    with pytest.raises(
        TableError, match=r"the category 'pink' in data row 12 .* had only blue, red"
    ):
        encoding.encode(table({"x": ["1", "2"], "c": ["red", "pink"]}, first=10))
    for text in ("one", "1_0", "1,000"):
        with pytest.raises(TableError, match=f"the text '{text}' in data row 1"):
            encoding.encode(table({"x": [text], "c": ["red"]}))
    with pytest.raises(TableError, match="the text 'one' in data row 1"):
        encoding.encode(table({"x": ["one"], "c": ["red"]}))
    with pytest.raises(TableError, match="missing values"):
        encoding.encode(table({"x": [None], "c": ["red"]}))


def test_runs_without_a_table():
    columns = {"u": ["1", "2"], "v": ["3", "4"]}
    found = plain_encoding(table(columns), 2).encode(table(columns))
    np.testing.assert_array_equal(found.x, [[1, 3], [2, 4]])
    found = plain_encoding(table(columns), 1, 1).encode(table(columns), targets=True)
    np.testing.assert_array_equal(found.x, [[1], [2]])
    np.testing.assert_array_equal(found.y, [[3], [4]])
    found = plain_encoding(table(columns | {"w": ["5", "6"]}), 1, 1, 1)
    assert (found.targets, found.target_sds) == (("v",), ("w",))
    with pytest.raises(TableError, match=r"2 targets and 1 standard deviation, .*, then its targe"):
        plain_encoding(table(columns), 1, 2, 1)
    with pytest.raises(TableError, match=r"has 3 inputs, but t\.csv has 2 columns \(u, v\)"):
        plain_encoding(table(columns), 3)
    for bad in ({}, {"inputs": [], "targets": ["y"], "classes": None, "missing": "refuse"}):
        with pytest.raises(TableError, match="can't be read"):
            restore_encoding(bad)


@pytest.mark.parametrize(
    "texts",
    [
        ["3 cm", "4.5 cm", "3 cm"],
        ["5%", "12%", "-1e3%"],
        ["$5", "$6.50", "$7"],
        ["\N{MINUS SIGN}0.5", "1", "\N{MINUS SIGN}2"],
        ["20.1 °C", "-3 °C", "0 °C"],
    ],
)
def test_numbers_with_units_are_not_categories(texts):
    says = rf"column 'v' has '{re.escape(texts[0])}' in data row 1 of t.csv: write numbers .*"
    columns = {"v": texts, "y": ["1", "2", "4"]}
    with pytest.raises(TableError, match=rf"{says} \(if .* use `categorical='v'`"):
        learn(table(columns), ["y"])
    assert learn(table(columns), ["y"], categorical=["v"]).inputs[0].categories
    with pytest.raises(TableError, match=rf"{says} \(if .* use `task='classification'`"):
        learn(table(columns), ["v"])
    assert learn(table(columns), ["v"], task="classification").classes


@pytest.mark.parametrize(
    "texts", [["1st", "2nd", "3rd"], ["a1", "a2", "a3"], ["10-20", "20-30", "5"]]
)
def test_texts_with_digits_are_categories(texts):
    assert learn(table({"v": texts, "y": ["1", "2", "4"]}), ["y"]).inputs[0].categories
