"""Effective samples per gradient, on the paper's sparse or variable case.

    python -m benchmarks.samplers [sparse|variable] [--hyper] [--draws 1000] [--only GHMC]

Prints the bulk effective sample size of the network's output per 1,000 gradients (median and 10 %
quantile over 51 inputs), with the gradients of all chains after burn-in, and the gradients per
second. The last line is BlackJAX's own loop around its NUTS kernel, to compare the speed.
Hyper-parameters are held at their starts unless `--hyper` is given.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import tensorbnn as tb
from tensorbnn.ensemble.diagnostics import convergence
from tensorbnn.inference.target import TargetDensity
from tensorbnn.posterior import precision

GRID = np.linspace(-2.5, 2.5, 51)
SAMPLERS = {
    "HMC": tb.HMC(),
    "GHMC": tb.GHMC(),
    "NUTS": tb.NUTS(),
    "MCLMC": tb.MCLMC(),
}


def make_posterior(case: str) -> tb.Posterior:
    """A 1-10-10-10-1 network on the paper's curve."""
    x = np.linspace(-2, 2, 11)
    if case == "variable":
        dense = (np.linspace(-2, -1, 1024), np.linspace(1, 2, 1024))
        x = np.concatenate([*dense, np.linspace(-1, 1, 7)])
    y = x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)
    network = tb.Network(*[tb.Dense(10), tb.Tanh()] * 3, tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.1), x, y)


def measure(name: str, posterior: tb.Posterior, options: argparse.Namespace) -> float:
    """Print a sampler's line; the step size it found."""
    began = time.monotonic()
    ensemble = tb.sample(
        posterior,
        SAMPLERS[name],
        burn_in=options.burn_in,
        draws=options.draws,
        seed=options.seed,
        sample_hyperparameters=options.hyper,
        progress=False,
    )
    seconds, info = time.monotonic() - began, ensemble.sample_stats
    gradients = info["num_gradients"].sum()
    values = ensemble.predict(GRID, progress=False).samples
    found = convergence(values.reshape(ensemble.num_chains, -1, len(GRID)))
    ess = 1000 * found.ess / gradients
    all_gradients = gradients * (1 + options.burn_in / options.draws)  # about
    print(
        f"{name:8s} {np.median(ess):5.2f} / {np.quantile(ess, 0.1):4.2f}  "
        f"R-hat {found.rhat.max():.3f}  "
        f"step {info['step_size'][:, -1].mean():.4f}  acceptance {info['acceptance'].mean():.3f}  "
        f"{info['num_steps'].mean():4.0f} gradients a draw  "
        f"about {all_gradients / seconds / 1000:.0f}k gradients/s",
        flush=True,
    )
    return float(info["step_size"][:, -1].mean())


def blackjax_alone(posterior: tb.Posterior, step_size: float, draws: int) -> None:
    """Gradients a second of one chain of BlackJAX's NUTS, and of ours, from the same start."""
    import blackjax

    with precision("float32"):
        target = TargetDensity(posterior.model, posterior._arrays, None)
        position = jnp.asarray(np.random.default_rng(0).normal(0, 0.3, target.dimension), "float32")
        kernel = blackjax.nuts.build_kernel()

        def their_loop(key, state):
            def one(state, key):
                state, info = kernel(
                    key, state, target.log_density, step_size, jnp.ones(target.dimension)
                )
                return state, info.num_integration_steps

            return jax.lax.scan(one, state, jax.random.split(key, draws))

        def our_loop(key, state):
            def one(state, key):
                state, info = tb.NUTS().step(key[None], state, target)
                return state, info.num_gradients[0]

            return jax.lax.scan(one, state, jax.random.split(key, draws))

        starts = {
            "BlackJAX": (their_loop, blackjax.nuts.init(position, target.log_density)),
            "ours": (
                our_loop,
                tb.NUTS(step_size=step_size).init(target, position[None], burn_in=0),
            ),
        }
        for name, (loop, state) in starts.items():
            run = jax.jit(loop).lower(jax.random.key(0), state).compile()
            began = time.monotonic()
            steps = int(np.asarray(run(jax.random.key(0), state)[1]).sum())
            rate = steps / (time.monotonic() - began) / 1000
            print(f"NUTS, one chain, {name:8s} {rate:.0f}k gradients/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=["sparse", "variable"], nargs="?", default="sparse")
    parser.add_argument("--hyper", action="store_true", help="sample hyper-parameters, too")
    parser.add_argument("--burn-in", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    options = parser.parse_args()
    posterior = make_posterior(options.case)
    for name in options.only:
        step_size = measure(name, posterior, options)
        if name == "NUTS":
            blackjax_alone(posterior, step_size, draws=100)


if __name__ == "__main__":
    main()
