"""All of scikit-learn's own checks; `make test` runs those that compile little, `make soak` all.

They fit data sets of a few rows, nearly all of different shapes, and everything is compiled again
for each: hence networks, chains and a sampler that cost next to nothing. Float64, since weights
of rows are compared with repeated rows to seven digits.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.fixes import parse_version

import tensorbnn as tb
from tests.estimators.quick import QuickHMC

pytestmark = pytest.mark.slow

SMALL = {
    "hidden_layer_sizes": (2,),
    "chains": 1,
    "burn_in": 60,
    "draws": 20,
    "until": None,
    "sampler": QuickHMC(),
    "dtype": "float64",
    "random_state": 0,
}
# Those that fit nothing or next to nothing, and the most informative one.
IN_EVERY_TEST = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_mixin_order",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimators_unfitted",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_all_zero_sample_weights_error",
    "check_sample_weights_not_an_array",
    "check_sample_weight_equivalence_on_dense_data",
    "check_complex_data",
    "check_estimator_sparse_tag",
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
    "check_requires_y_none",
    "check_fit1d",
}
# None may fail, and none be left out.
ALL = """
import sys, warnings
from sklearn.exceptions import ConvergenceWarning, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator
import tensorbnn as tb
from tests.estimators.test_checks import SMALL

warnings.simplefilter("ignore", ConvergenceWarning)
warnings.simplefilter("error", SkipTestWarning)
found = check_estimator(getattr(tb, sys.argv[1])(**SMALL))
print(len(found), *{each["status"] for each in found})
"""


def quick_checks():
    for estimator in (tb.BNNRegressor(**SMALL), tb.BNNClassifier(**SMALL)):
        for number, (own, check) in enumerate(estimator_checks_generator(estimator)):
            name = check.func.__name__
            if name in IN_EVERY_TEST:
                yield pytest.param(own, check, id=f"{type(own).__name__}-{name}-{number}")


@pytest.mark.filterwarnings("ignore:don't trust the predictions yet")
@pytest.mark.parametrize(("estimator", "check"), list(quick_checks()))
def test_quick_checks(estimator, check):
    check(estimator)


def test_the_names_are_those_of_checks():
    """Of this scikit-learn: one of them came with version 1.9."""
    old = parse_version(sklearn.__version__) < parse_version("1.9")
    new = {"check_all_zero_sample_weights_error"} if old else set()
    assert {each.id.split("-")[1] for each in quick_checks()} == IN_EVERY_TEST - new


@pytest.mark.soak
@pytest.mark.parametrize("name", ["BNNRegressor", "BNNClassifier"])
def test_all_checks(name):
    # What checks of array libraries want to be set before SciPy is imported.
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALL, name],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr
    count, *statuses = done.stdout.split()
    assert int(count) > 40
    assert statuses == ["passed"]
