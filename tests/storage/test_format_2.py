"""Runs and pickles that the first version of format 2 wrote are read, and runs are resumed."""

import math
import pickle
import shutil
import warnings

import numpy as np
import pytest

import tensorbnn as tb
from tests.data.make_format_2 import AT, CUSTOM, FOLDER, IN_BURN_IN, PICKLES, PLAN, RUNS

MOST_BYTES = 1_500_000
# Sums over networks may be rounded otherwise by another version of JAX.
EQUAL = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def other_versions_are_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.RunWarning)
        yield


@pytest.fixture(scope="module")
def predicted():
    return dict(np.load(FOLDER / "predictions.npz"))


def test_all_of_them_are_there(predicted):
    files = [file for file in FOLDER.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert {file.name for file in FOLDER.iterdir() if file.is_dir()} == set(RUNS)
    assert set(predicted) == {*RUNS, *PICKLES}
    assert len(RUNS) == 12


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_read(name, predicted):
    ensemble = tb.load(FOLDER / name, custom_objects=CUSTOM)
    found = ensemble.predict(AT, progress=False).mean
    np.testing.assert_allclose(found, predicted[name], **EQUAL)
    assert all(np.isfinite(each).all() for each in ensemble.sample_stats.values())
    assert (ensemble.data is None) == (name == "mclmc-prior")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_resumed(name, predicted, tmp_path):
    path = shutil.copytree(FOLDER / name, tmp_path / "run")
    before = tb.load(path, custom_objects=CUSTOM)
    assert before.in_burn_in == (name == IN_BURN_IN)
    draws = PLAN["draws"]
    options = {"custom_objects": CUSTOM, "max_gradients": math.inf, "progress": False}
    ensemble = tb.resume(path, draws=draws, **options)
    assert ensemble.status == "complete"
    assert ensemble.num_draws >= draws
    if not before.in_burn_in:
        assert before.num_draws < draws
        kept = {name: each[:, : before.num_draws] for name, each in ensemble.parameters.items()}
        for name, values in before.parameters.items():
            np.testing.assert_array_equal(kept[name], values)
    assert np.isfinite(ensemble.predict(AT, progress=False).mean).all()
    again = tb.load(path, custom_objects=CUSTOM)
    np.testing.assert_array_equal(again.predict(AT).mean, ensemble.predict(AT).mean)


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_is_read(name, predicted):
    estimator = pickle.loads((FOLDER / f"{name}.pickle").read_bytes())
    predict = getattr(estimator, "predict_proba", estimator.predict)
    np.testing.assert_allclose(predict(AT[:, None]), predicted[name], **EQUAL)
    assert estimator.ensemble_.num_draws == 10
    assert estimator.diagnosis_.verdict.kind
