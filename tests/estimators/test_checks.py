"""All of scikit-learn's own checks.

They fit hundreds of data sets of a few rows, nearly each of another shape, for which everything is
compiled anew: hence networks, chains and a sampler that cost next to nothing. Float64, since
weights of rows are compared with repeated rows to seven digits.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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


@pytest.mark.filterwarnings("ignore:don't trust the predictions yet")
@parametrize_with_checks([tb.BNNRegressor(**SMALL), tb.BNNClassifier(**SMALL)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
