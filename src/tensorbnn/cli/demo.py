"""``tensorbnn demo``: the paper's sparse example, from eleven points to a figure."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn import plots
from tensorbnn.cli import output
from tensorbnn.cli.options import RESULT, Command, Option
from tensorbnn.model.layers import Dense, Tanh
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior
from tensorbnn.sampling.api import sample


def run(options: argparse.Namespace) -> int:
    """Sample the sparse case into ``out/run``, draw ``out/sparse.png``, say what came of it.

    Eleven even points on [-2, 2], a 1-10-10-10-1 tanh network with the paper's priors, Gaussian
    likelihood with a known sd of 0.1; shown over [-3, 3].
    """
    figure, ax = plots.new_figure()  # first, so that a missing matplotlib is noticed at once
    x, grid = np.linspace(-2, 2, 11), np.linspace(-3, 3, 301)
    network = Network(Dense(10), Tanh(), Dense(10), Tanh(), Dense(10), Tanh(), Dense(1), inputs=1)
    directory, progress = options.out / "run", not options.quiet
    began = time.monotonic()
    ensemble = sample(
        Posterior(network, Gaussian(sd=0.1), x, truth(x)),
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.draws,
        seed=options.seed,
        path=directory,
        overwrite=True,
        progress=progress,
    )
    seconds = time.monotonic() - began
    prediction = ensemble.predict(grid, progress=progress)
    plots.bands(prediction, grid, data=(x, truth(x)), truth=truth, ax=ax)
    ax.set_title(f"sparse case: {len(ensemble):,} networks from {options.chains} chains")
    picture = options.out / "sparse.png"
    figure.savefig(picture, dpi=150)
    diagnosis = ensemble.diagnose(grid[::5], progress=progress)
    verdict, verdict_facts = output.convergence(diagnosis, options.words)
    gradients = int(ensemble.info["num_steps"].sum())
    spent = f"{seconds:.1f} s for burn-in and {gradients:,} gradients after it"
    lines = output.networks(ensemble) | {"time": spent} | output.sampler(ensemble) | verdict
    lines |= {"figure": str(picture)} | output.where(directory)
    facts = {"run": str(directory), "figure": str(picture), "networks": len(ensemble)}
    output.print_result(options, lines, facts | {"seconds": seconds} | verdict_facts)
    return 0


def truth(x: NDArray[Any]) -> NDArray[Any]:
    """The paper's curve, ``x sin(2 pi x) - cos(pi x)``."""
    return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)


COMMAND = Command(
    "demo",
    "sample the paper's sparse example and draw its figure",
    (
        Option("out", "folder for figure and run", Path, default=Path("demo"), path="directory"),
        Option("chains", "number of chains", int, default=4),
        Option("burn_in", "transitions that are not saved", int, default=1000),
        Option("draws", "networks saved from each chain", int, default=1000),
        Option("seed", "seed of all random numbers", int, default=0),
        *RESULT,
    ),
    run,
)
