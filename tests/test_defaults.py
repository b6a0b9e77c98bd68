"""Names and defaults of Python, the estimators and the command line are those of one table."""

import inspect

import pytest

import tensorbnn as tb
from tensorbnn.cli import fit, resume
from tensorbnn.tabular import ABSENT, DEFAULTS

# Where the table takes the names of Python from.
PYTHON = {
    name: each.default
    for function in (tb.HMC, tb.Converged, tb.Posterior, tb.sample)
    for name, each in inspect.signature(function).parameters.items()
}
# Of `sample` and `Posterior` alone: data, and how a run is computed, kept and shown.
ONLY_PYTHON = {
    *("posterior", "network", "x", "y", "start", "thin", "engine", "metrics"),
    *("checkpoint_seconds", "sample_hyperparameters", "store_data", "executor", "fraction"),
    *("y_sd", "sample_weight"),
    # Options of HMC.
    *("step_size", "num_steps", "max_steps", "trajectory_length", "jitter", "hyper_step_size"),
}
# About the table and what is printed; columns of it.
ONLY_COMMAND_LINE = {
    *("data", "target", "target_sd", "weight", "settings", "task", "ignore", "categorical"),
    "missing",
    "json",
}


def python_names():
    own = {name for row in (tb.Posterior, tb.sample) for name in inspect.signature(row).parameters}
    return own - {"self"}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_of_python(name):
    row = DEFAULTS[name]
    if row.python == ABSENT:
        assert name not in python_names() or PYTHON[name] is inspect.Parameter.empty
    else:
        assert PYTHON[name] == row.python


@pytest.mark.parametrize("estimator", [tb.BNNRegressor, tb.BNNClassifier])
def test_defaults_of_the_estimators(estimator):
    table = {
        row.estimator_name or name: row.estimator
        for name, row in DEFAULTS.items()
        if row.estimator != ABSENT
    }
    if estimator is tb.BNNClassifier:
        del table["noise_sd"]
    assert estimator().get_params() == table


def test_defaults_of_the_command_line():
    table = {
        row.command_line_name or name: row.command_line
        for name, row in DEFAULTS.items()
        if row.command_line != ABSENT
    }
    given = fit.COMMAND.options
    options = {each.name: each for each in given if each.name not in ONLY_COMMAND_LINE}
    assert set(options) == set(table)
    for name, each in options.items():
        default = False if each.kind == "switch" else each.default
        # Of a limit that applies only without --draws.
        assert default == (None if name == "max_minutes" else table[name]), name


def test_all_names_of_python_are_in_the_table():
    assert python_names() - ONLY_PYTHON <= set(DEFAULTS)


def test_values_that_differ_say_why():
    for name, row in DEFAULTS.items():
        known = [each for each in row[:3] if each != ABSENT]
        assert known, name
        assert row.why or all(each == known[0] for each in known), name


def test_resume_has_the_limits_of_fit():
    of_fit = {each.name: each for each in fit.COMMAND.options}
    shared = [each for each in resume.COMMAND.options if each.name in DEFAULTS]
    assert {"draws", "rhat", "ess", "max_minutes", "max_gradients"} <= {e.name for e in shared}
    for each in shared:
        assert of_fit[each.name].type == each.type
