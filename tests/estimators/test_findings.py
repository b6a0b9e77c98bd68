"""Estimators report findings about the data by the names of the features."""

import numpy as np
import pandas as pd
import pytest

import tensorbnn as tb
from tensorbnn.warning import DataWarning

QUICK = {"hidden_layer_sizes": (2,), "chains": 2, "burn_in": 20, "draws": 10, "until": None}


def messages(X):
    y = np.random.default_rng(1).normal(size=len(X))
    with pytest.warns(tb.RunWarning) as caught:
        tb.BNNRegressor(**QUICK).fit(X, y)
    return [str(each.message) for each in caught if isinstance(each.message, DataWarning)]


def test_columns_have_the_names_of_features():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["age", "size"])
    X.loc[:5, "age"] = -999
    X["batch"] = 1.0
    constant, code = messages(X)
    assert constant.startswith("'batch' is constant in all rows")
    assert code.startswith("'age' has the value -999 in 6 cells")
    constant, _ = messages(X.to_numpy())
    assert constant.startswith("column 2 of `X` is constant in all rows")
