"""The paper's two cases with its settings: pre-training, then the adaptive sampler.

    python examples/paper_cases.py sparse      # eleven even points on [-2, 2]
    python examples/paper_cases.py variable    # 2055 points, dense outside [-1, 1], seven inside

Writes the run, the figure and the loss curves to a folder, and prints diagnostics. In the variable
case, trajectories have at most 1000 steps instead of the paper's 10,000: the predictions mix better
with shorter ones, in minutes instead of hours.
"""

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np

import tensorbnn as tb
from tensorbnn import plots


def truth(x):
    """The paper's curve."""
    return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)


def inputs(case: str) -> np.ndarray:
    if case == "sparse":
        return np.linspace(-2, 2, 11)
    dense = (np.linspace(-2, -1, 1024), np.linspace(1, 2, 1024))
    return np.concatenate([*dense, np.linspace(-1, 1, 7)])


def make_posterior(case: str, hidden: int = 3) -> tb.Posterior:
    """A 1-10-10-10-1 tanh network with the paper's priors, and a known noise of 0.1."""
    x = inputs(case)
    layers = [tb.Dense(10), tb.Tanh()] * hidden
    network = tb.Network(*layers, tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.1), x, truth(x))


def pretrain(posterior: tb.Posterior, chains: int, seed: int, epochs: int = 100) -> tb.Pretrained:
    """The paper's pre-training."""
    return tb.pretrain(
        posterior,
        validation=(posterior.x, posterior.y),
        chains=chains,
        cycles=3,
        epochs=epochs,
        patience=10,
        learning_rate=0.01,
        seed=seed,
    )


def paper_sampler(num_steps_max: int = 10_000) -> tb.AdaptiveHMC:
    """The paper's sampler, with its settings, except for shorter trajectories if you want them."""
    return tb.AdaptiveHMC(
        num_steps_start=min(1000, num_steps_max),
        num_steps_min=min(100, num_steps_max),
        num_steps_max=num_steps_max,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=["sparse", "variable"])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--burn-in", type=int, default=1000, help="epochs (the paper's: 1000)")
    parser.add_argument("--epochs", type=int, default=5000, help="epochs after burn-in")
    parser.add_argument("--thin", type=int, default=10, help="epochs between saved networks")
    parser.add_argument(
        "--num-steps-max",
        type=int,
        help="most leapfrog steps (sparse: 10000, as in the paper; variable: 1000)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder (default: runs/paper-<case>)")
    options = parser.parse_args()
    num_steps_max = options.num_steps_max or (10_000 if options.case == "sparse" else 1000)
    out = options.out or Path("runs") / f"paper-{options.case}"

    mpl.use("Agg")
    x = inputs(options.case)
    posterior = make_posterior(options.case)
    start = pretrain(posterior, options.chains, options.seed)
    sampler = paper_sampler(num_steps_max)
    began = time.monotonic()
    ensemble = tb.sample(
        posterior,
        sampler,
        start=start,
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.epochs // options.thin,
        thin=options.thin,
        seed=options.seed,
        path=out / "run",
        overwrite=True,
    )
    seconds = time.monotonic() - began

    grid = np.linspace(-3, 3, 301)
    shown = (x, truth(x)) if options.case == "sparse" else None
    ax = plots.bands(ensemble.predict(grid), data=shown, truth=truth)
    ax.set_title(f"{options.case} case: {len(ensemble):,} networks")
    ax.figure.savefig(out / "bands.png", dpi=150)
    plots.losses(start).figure.savefig(out / "losses.png", dpi=150)

    diagnosis = ensemble.diagnose(grid[::5])
    gradients = int(ensemble.sample_stats["num_gradients"].sum())
    print(f"time         {seconds:.0f} s, {gradients:,} gradients after burn-in")
    print(f"step size    {ensemble.sample_stats['step_size'][:, -1]}")
    print(f"gradients    {ensemble.sample_stats['num_gradients'][:, -1] // options.thin}")
    print(f"acceptance   {diagnosis.acceptance_rate.round(2)}")
    print(f"R-hat        at most {np.nanmax(diagnosis.rhat):.3f}")
    print(f"ESS          at least {np.nanmin(diagnosis.ess):.0f}")
    print(f"verdict      {diagnosis.verdict}")
    print(f"figures      {out / 'bands.png'}, {out / 'losses.png'}")


if __name__ == "__main__":
    main()
