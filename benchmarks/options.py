"""Options of all parts of the benchmark."""

from pathlib import Path
from typing import NamedTuple


class Options(NamedTuple):
    """Options of the command line."""

    quick: bool = False
    """A smoke test: everything runs, briefly; its numbers mean nothing."""
    data: Path | None = None
    """A folder with data sets as CSV files, the target last."""
    tensorflow: bool = False
    """TensorFlow Probability, too."""
