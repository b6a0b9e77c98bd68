"""The paper's sparse example, from eleven points to a figure."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbnn import plots
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.model.layers import Dense, Tanh
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import sample


class Demo(NamedTuple):
    """What the demo made."""

    ensemble: Ensemble
    diagnosis: Diagnosis
    figure: Path
    run: Path
    seconds: float


def truth(x: NDArray[Any]) -> NDArray[Any]:
    """The paper's curve, ``x sin(2 pi x) - cos(pi x)``."""
    return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)


def run_demo(
    folder: Path, *, chains: int, burn_in: int, draws: int, seed: int, progress: bool = True
) -> Demo:
    """Sample the sparse case into ``folder/run`` and draw ``folder/sparse.png``.

    Eleven even points on [-2, 2], a 1-10-10-10-1 tanh network with the paper's priors, Gaussian
    likelihood with a known sd of 0.1; shown over [-3, 3].
    """
    figure, ax = plots.new_figure()  # first, so that a missing matplotlib is noticed at once
    x = np.linspace(-2, 2, 11)
    grid = np.linspace(-3, 3, 301)
    network = Network(Dense(10), Tanh(), Dense(10), Tanh(), Dense(10), Tanh(), Dense(1), inputs=1)
    posterior = Posterior(network, Gaussian(sd=0.1), x, truth(x))
    began = time.monotonic()
    ensemble = sample(
        posterior,
        chains=chains,
        burn_in=burn_in,
        draws=draws,
        seed=seed,
        path=folder / "run",
        overwrite=True,
        progress=progress,
    )
    seconds = time.monotonic() - began
    prediction = ensemble.predict(grid, progress=progress)
    plots.bands(prediction, grid, data=(x, truth(x)), truth=truth, ax=ax)
    ax.set_title(f"sparse case: {len(ensemble):,} networks from {chains} chains")
    picture = folder / "sparse.png"
    figure.savefig(picture, dpi=150)
    diagnosis = ensemble.diagnose(grid[::5], progress=progress)
    return Demo(ensemble, diagnosis, picture, folder / "run", seconds)
