"""What is odd about the training data of an ensemble, and about how the model fits them."""

from tensorbnn.data import Dataset
from tensorbnn.data_checks import check_data
from tensorbnn.density import Model
from tensorbnn.findings import Finding
from tensorbnn.model.checks import DType
from tensorbnn.model.scaling import Scaling


def check_fit(
    data: Dataset | None, model: Model, scaling: Scaling, dtype: DType
) -> tuple[Finding, ...]:
    """Findings about training data; none for the prior."""
    return check_data(data, model.likelihood, scaling, dtype)
