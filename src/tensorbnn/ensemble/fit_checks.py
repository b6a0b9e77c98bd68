"""What is odd about the training data of an ensemble, and about how the model fits them."""

from tensorbnn.data_checks import check_data
from tensorbnn.density import Model
from tensorbnn.ensemble.draws import find_data
from tensorbnn.errors import DataNotKeptError
from tensorbnn.findings import Finding
from tensorbnn.model.checks import DType
from tensorbnn.model.scaling import Scaling
from tensorbnn.storage.store import Store


def check_fit(store: Store, model: Model, scaling: Scaling, dtype: DType) -> tuple[Finding, ...]:
    """Findings about the training data that a run has kept; none for the prior."""
    try:
        dataset = find_data(store)
    except DataNotKeptError:
        return ()
    return check_data(dataset, model.likelihood, scaling, dtype)
