"""Estimators for scikit-learn (extra ``sklearn``): `BNNRegressor` and `BNNClassifier`."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "BNNRegressor and BNNClassifier need scikit-learn: pip install 'tensorbnn[sklearn]'"
    ) from error

from tensorbnn.estimators.classifier import BNNClassifier
from tensorbnn.estimators.regressor import BNNRegressor

__all__ = ["BNNClassifier", "BNNRegressor"]
