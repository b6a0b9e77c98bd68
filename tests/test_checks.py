"""Checks of options: the value comes back, or an error that names the option."""

import math

import pytest

from tensorbnn import checks
from tensorbnn.errors import OptionError, OptionTypeError


@pytest.mark.parametrize(
    ("check", "options", "good", "bad", "wanted"),
    [
        (checks.check_number, {}, [0, -1.5], [math.nan, math.inf, "1", True, None], "a finite"),
        (checks.check_positive, {}, [1, 0.5], [0, -1, math.inf, "1", True], "a positive number"),
        (checks.check_positive, {"such_as": "400"}, [1], [0], "a positive number, such as 400"),
        (checks.check_fraction, {}, [0.5], [0, 1, math.nan, "0.5"], "between 0 and 1"),
        (checks.check_fraction, {"zero": True}, [0, 0.5], [1, -0.1], r"in [0, 1)"),
        (checks.check_count, {"least": 2}, [2, 9], [1, 2.0, True, "2"], "a whole number of at le"),
        (checks.check_count, {"most": 5}, [1, 5], [6], "a whole number of at most 5"),
        (checks.check_limit, {}, [1, 0.5], [0, -1, math.nan, "1", True], "a positive number"),
        (checks.check_choice, {"choices": ("a", "b", None)}, ["a", None], ["c", 0], "'a', 'b' or"),
        (checks.check_choice, {"choices": (True, False)}, [True, False], [1, "x"], "True or Fal"),
    ],
)
def test_values(check, options, good, bad, wanted):
    for value in good:
        assert check("option", value, **options) == value
    for value in bad:
        with pytest.raises(OptionError) as error:
            check("option", value, **options)
        assert error.value.name == "option"
        assert error.value.wanted.startswith(wanted)
        assert error.value.got is value


def test_no_limit():
    assert checks.check_limit("option", None) is None
    assert checks.check_limit("option", math.inf) is None


def test_types():
    assert checks.check_type("option", 1, int, "a number") == 1
    with pytest.raises(OptionTypeError, match="`option` must be a number, got 'x'"):
        checks.check_type("option", "x", int, "a number")
    with pytest.raises(TypeError):
        checks.check_type("option", "x", int, "a number")
