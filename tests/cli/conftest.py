"""Small runs for tests of the commands, made by the command line itself."""

import os

import numpy as np
import pytest

from tensorbnn.cli import main
from tests.cli.running import write

QUICK = [
    "--hidden-layer-sizes",
    "3",
    "--chains",
    "2",
    "--burn-in",
    "60",
    "--draws",
    "30",
    "--quiet",
]
ROWS = 60


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with tables of numbers and of classes, and runs fitted to them."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    size = rng.uniform(-1, 1, ROWS).round(4)
    color = rng.choice(["red", "blue"], ROWS)
    price = (50 + 20 * size + 5 * (color == "red") + rng.normal(0, 1, ROWS)).round(3)
    shown = [*map(str, size)]
    shown[7] = ""
    write(folder / "prices.csv", {"size": shown, "color": color, "price": price, "id": shown})
    write(folder / "new.csv", {"color": ["blue", "red", "red"], "size": [0.1, "NA", 0.5]})
    kinds = np.digitize(size, [-0.3, 0.3])
    names = np.array(["low", "<b>mid</b>", "high"])[kinds]
    write(folder / "kinds.csv", {"size": size, "kind": names})
    here = os.getcwd()
    os.chdir(folder)
    try:
        arguments = ["prices.csv", "--target", "price", "--out", "prices", "--missing", "drop"]
        assert main(["fit", *arguments, "--ignore", "id", "--validation", "0.25", *QUICK]) == 0
        assert main(["fit", "kinds.csv", "--target", "kind", "--out", "kinds", *QUICK]) == 0
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def inside(folder, monkeypatch):
    """The same, as the working directory."""
    monkeypatch.chdir(folder)
    return folder
