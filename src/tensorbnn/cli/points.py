"""Training rows at which a run is diagnosed, called as the user knows them."""

from collections.abc import Callable

import numpy as np

from tensorbnn.ensemble.verdict import point_names
from tensorbnn.report.subject import Points, training_points
from tensorbnn.storage.directory import DirectoryStore


def own_points(store: DirectoryStore) -> Points | None:
    """Training inputs, spread evenly over them; ``None`` where the run keeps none."""
    data = store.data()
    return None if data is None else training_points(store.manifest, data["x"])


def naming(points: Points) -> Callable[[str], str]:
    """Puts the names of points into messages of `tb.sample` and `tb.resume`, which know x alone."""
    label, said = point_names(np.arange(len(points.x)), points.x)
    if label == "row" and points.places is not None:
        said = [str(place) for place in points.places]
    names = {
        f" at {label} {each};": f" at {name};"
        for each, name in zip(said, points.names, strict=True)
    }

    def named(message: str) -> str:
        for each, name in names.items():
            message = message.replace(each, name)
        return message

    return named
