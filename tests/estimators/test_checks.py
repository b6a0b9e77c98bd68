"""All of scikit-learn's own checks; `make test` runs those that compile little, `make soak` all.

They fit data sets of a few rows, nearly each of another shape, for which everything is compiled
anew: hence networks, chains and a sampler that cost next to nothing. Float64, since weights of rows
are compared with repeated rows to seven digits.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import tensorbnn as tb
from tests.estimators.quick import QuickHMC

SMALL = {
    "hidden": (2,),
    "chains": 1,
    "burn_in": 60,
    "draws": 20,
    "until": None,
    "sampler": QuickHMC(),
    "dtype": "float64",
    "random_state": 0,
}
# Those that share the shape of their data with others, or have the most to say.
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
    "check_sample_weights_shape",
    "check_sample_weight_equivalence_on_dense_data",
    "check_complex_data",
    "check_estimators_nan_inf",
    "check_estimator_sparse_tag",
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
    "check_requires_y_none",
    "check_fit1d",
    "check_dict_unchanged",
    "check_methods_subset_invariance",
}


def checks():
    for estimator in (tb.BNNRegressor(**SMALL), tb.BNNClassifier(**SMALL)):
        numbers = {}
        for own, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            # It wants an environment variable that must be set before SciPy is imported.
            if name == "check_array_api_input":
                continue
            numbers[name] = numbers.get(name, -1) + 1
            marks = () if name in IN_EVERY_TEST else pytest.mark.soak
            label = f"{type(own).__name__}-{name}-{numbers[name]}"
            yield pytest.param(own, check, id=label, marks=marks)


@pytest.mark.filterwarnings("ignore:don't trust the predictions yet")
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_the_names_are_those_of_checks():
    known = {each.id.split("-")[1] for each in checks()}
    assert known >= IN_EVERY_TEST
